"""`surefoot noise`: how noisy a robot's sensors are, from recordings at rest."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from surefoot.cli_words import File, Mapping, RobotName, answer, tell
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.identify.sensor_noise import Figure, SensorFit
    from surefoot.logs import Log
    from surefoot.robots import Robot

Logs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="LOG...")]
STATED = {"encoder_noise": ("encoder", "noise"), "encoder_quantum": ("encoder", "quantum")}
"""By kind of Param, the sensor and its figure in a robot file, where the figure is called otherwise."""


def noise(
    robot: RobotName,
    logs: Logs,
    /,
    *,
    mapping: Mapping = None,
    samples: bool = False,
    out: File = None,
    json: bool = False,
) -> int:
    """Fit the noise of a robot's IMU and encoders to recordings in which it stands still, with intervals; write it as a Prior.

    Args:
        robot: name in the library, folder, robot file or model file.
        logs: log files or folders, each with rest in it: gyro, accel and joint_pos are used, and gyro_raw and accel_raw in counts where
            the sensor was held still in nine poses or more.
        mapping: name of a bundled mapping, or a mapping file.
        samples: write the levels of single blocks of 2 s in place of one value for all time.
        out: .toml or .json file for the Prior, to train from.
        json: print the figures as JSON.
    """
    from surefoot.cli_recorded import writable
    from surefoot.identify.sensor_noise import fit_sensor_noise
    from surefoot.robots import load

    if out is not None and out.suffix not in (".toml", ".json"):
        raise InputError(f"'{out}' must end in .toml or .json")
    if samples and out is None:
        raise InputError("--samples says which Prior is written: give --out FILE too")
    writable(out)
    loaded = load(robot)
    recorded = _read(logs, mapping, loaded)
    channels, scales = _channels(loaded, recorded)
    fit = fit_sensor_noise(recorded, channels, scales=scales)
    if samples and fit.samples is None:
        raise InputError(fit.remarks[-1])
    if out is not None:
        prior = fit.samples if samples and fit.samples is not None else fit.prior
        prior.save(out)
        tell(f"written: {out}")
    answer(_plain(loaded, fit, out), lambda: _text(loaded, fit), json)
    return 0


def _read(paths: tuple[Path, ...], mapping: str | None, robot: "Robot") -> "list[Log]":
    from surefoot.logs import read_logs

    if not paths:
        raise InputError("name at least one log file or folder")
    return [log for path in paths for log in read_logs(path, robot=robot, mapping=mapping)]


def _channels(robot: "Robot", logs: "Sequence[Log]") -> tuple[dict[str, str], dict[str, Any]]:
    """Sensor -> channel of what the robot has and the logs hold, and SI units per count where they are in counts."""
    from surefoot.identify.sensor_scale import imu_scales

    kinds, channels, scales = {s.kind for s in robot.sensors}, {}, {}
    recorded = [n for n in ("gyro", "accel", "gyro_raw", "accel_raw", "joint_pos") if any(n in log for log in logs)]
    if "imu" in kinds:
        channels, scales = imu_scales(logs)
    if "encoder" in kinds and "joint_pos" in recorded:
        channels["encoder"] = "joint_pos"
    if not channels:
        has = f"hold {', '.join(recorded)}" if recorded else "hold neither gyro, accel nor joint_pos"
        raise InputError(
            f"'{robot.name}' has {', '.join(sorted(kinds)) or 'no sensors'} and the logs {has}: noise is fitted to an IMU or encoders"
        )
    for name in recorded:
        if name not in channels.values() and name.removesuffix("_raw") not in channels:
            tell(f"'{name}' is left out: '{robot.name}' has no {'encoder' if name == 'joint_pos' else 'IMU'}")
    for sensor, factor in scales.items():
        tell(
            f"{channels[sensor]}: {', '.join(f'{f:.4g}' for f in factor)} SI units per count, by gravity in poses at rest"
        )
    return channels, scales


def _stated(robot: "Robot", figure: "Figure") -> list[float]:
    """What the robot file says of a figure, smallest first; nothing where it says nothing."""
    sort, name = STATED.get(figure.kind, ("imu", figure.kind))
    specs = [s for s in robot.sensors if s.kind == sort and name in s.figures]
    return sorted({s.figures[name] for s in specs if sort == "imu" or set(figure.of) & set(s.of)})


def _text(robot: "Robot", fit: "SensorFit") -> str:
    stated = {name: " .. ".join(f"{v:.4g}" for v in _stated(robot, figure)) for name, figure in fit.figures.items()}
    return fit.text(stated)


def _plain(robot: "Robot", fit: "SensorFit", out: Path | None) -> dict[str, Any]:
    """The figures as plain data."""
    rows = [
        {
            "name": name, "unit": figure.param.unit, "value": figure.value if figure.identified else None, "low": figure.interval[0],
            "high": figure.interval[1], "identified": figure.identified, "robot_file": _stated(robot, figure),
        }
        for name, figure in fit.figures.items()
    ]  # fmt: skip
    rest = [
        {"sensor": s, "channel": n.channel, "seconds": n.seconds, "stretches": n.stretches}
        for s, n in fit.noises.items()
    ]
    return {
        "robot": robot.name,
        "params": rows,
        "rest": rest,
        "blocks": fit.blocks,
        "remarks": fit.remarks,
        "file": out,
    }
