"""`surefoot excite`: which seconds of robot time would teach most about e."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from surefoot.cli_words import File, RobotName, answer, params_of, tell
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.deploy.bundle import Bundle
    from surefoot.identify.design import Design
    from surefoot.sim import Sim

Out = Annotated[Path | None, tyro.conf.arg(metavar="FILE.json")]
Names = Annotated[str, tyro.conf.arg(metavar="NAME,...")]
BundleName = Annotated[str, tyro.conf.arg(metavar="BUNDLE")]


def excite(
    robot: RobotName,
    /,
    *,
    fit: File = None,
    prior: File = None,
    params: File = None,
    only: Names = "",
    seconds: float = 4.0,
    setting: Literal["usual", "air", "walking"] = "usual",
    walker: BundleName = "",
    criterion: Literal["D", "A"] = "D",
    window: float = 0.0,
    effort: Literal["quick", "usual", "thorough"] = "usual",
    out: Out = None,
    seed: int = 0,
    json: bool = False,
) -> int:
    """Design the next seconds of robot time, so that they teach most about the unknowns; say what they should teach.

    The trajectory is played with `surefoot deploy --trajectory FILE --hardware ...`, safety layer on.

    Args:
        robot: name in the library, folder, robot file or model file.
        fit: what is believed now: a fit, as `surefoot identify` writes it; without it, anything between the Params' bounds.
        prior: what is believed now, as a prior file instead.
        params: .toml or .json file with the Params; the robot file's own when left out.
        only: Params to learn, separated by commas; all that a motion can show when left out.
        seconds: length of the motion [s].
        setting: usual (bolted down, or standing on its feet), air (on a stand, feet free), or walking (commands of a policy).
        walker: bundle of the policy that walks, for the setting walking.
        criterion: D (smallest volume of what stays unknown) or A (smallest mean variance).
        window: length of the windows that the fit will use [s]; 0: 1 s, or 0.3 s where feet touch the ground.
        effort: how hard to look for a good motion.
        out: file to write, .json.
        seed: of samples and search.
        json: print the expectations as JSON.
    """
    from surefoot.cli_recorded import writable
    from surefoot.deploy.trajectory import write_trajectory
    from surefoot.robots import load
    from surefoot.sim import Sim

    if out is not None and out.suffix != ".json":
        raise InputError(f"a trajectory is a .json file, got '{out.name}'")
    writable(out)
    loaded = load(robot)
    if setting == "air":
        loaded = loaded.suspended()
    sim = Sim(loaded, params_of(loaded, params))
    names = tuple(filter(None, (n.strip() for n in only.split(",")))) or None
    design = _designed(sim, names, (fit, prior), seconds, (setting, walker), (criterion, effort, window), seed)
    data = design.to_dict()
    if out is not None:
        write_trajectory(out, data)
        tell(f"written: {out}")
        words = _check_words(sim, design, params, fit or prior)
        tell(f"to see what it taught: surefoot identify {robot} RECORDING {words} --check {out}")
    told = {k: data[k] for k in ("robot", "setting", "family", "expected", "scores", "about")} | {
        "seconds": seconds,
        "file": out,
    }
    answer(told, lambda: str(design), json)
    return 0


def _check_words(sim: "Sim", design: "Design", params: Path | None, belief: Path | None) -> str:
    """Options of the fit that the design foresees: the same Params, belief and windows, and nothing held out."""
    names = list(dict.fromkeys(x.name.partition("[")[0] for x in design.expected))
    words = [f"--params {','.join(names) if params is None else params}"]
    rest = {name: value for name, value in sim.params.nominal_e(1).items() if name not in names}
    if params is not None and rest:
        words.append("--fixed " + ",".join(f"{name}={float(value.mean()):g}" for name, value in rest.items()))
    if belief is not None:
        words.append(f"--prior {belief}")
    if sim.robot.fixed is not None:
        words.append("--suspended")
    return " ".join([*words, f"--window {float(design.about['window']):g}", "--held-out 0"])


def usual_window(sim: "Sim", window: float) -> float:
    """Length of the windows of the fit that a motion is designed for [s]; 0 takes the usual one."""
    return window or (0.3 if sim.sensors.base_q is not None else 1.0)


def _designed(
    sim: "Sim",
    only: Any,
    beliefs: tuple[Any, Any],
    seconds: float,
    place: tuple[str, str],
    how: tuple[Any, str, float],
    seed: int,
) -> "Design":
    from surefoot.cli_recorded import belief_of, fit_in
    from surefoot.identify.excite import Effort, noise_of
    from surefoot.identify.excite import excite as design
    from surefoot.identify.excite_walk import excite_walking

    (fit, prior), (setting, walker), (criterion, hard, window) = beliefs, place, how
    if fit is not None and prior is not None:
        raise InputError("give what is believed once: --fit or --prior")
    given = fit_in(fit, sim.robot)
    known = None if given is None else given.fit
    belief = known.posterior if known is not None else belief_of(prior, sim.robot)
    noise = noise_of(sim, known) if known is not None else None
    sizes = {"quick": (8, 2, 3, 2, 2), "usual": (24, 6, 6, 3, 6), "thorough": (40, 12, 8, 5, 12)}[hard]
    population, rounds, elite, samples, climbs = sizes
    window = usual_window(sim, window)
    common: dict[str, Any] = {
        "only": only,
        "seconds": seconds,
        "window": window,
        "noise": noise,
        "seed": seed,
        "say": tell,
    }
    if setting != "walking":
        if walker:
            raise InputError("--walker is for --setting walking: give that too, or leave it out")
        effort = Effort(
            criterion=criterion, population=population, rounds=rounds, elite=elite, samples=samples, climbs=climbs
        )
        return design(sim, belief, effort=effort, **common)
    if not walker:
        raise InputError("--setting walking needs the policy that walks: --walker BUNDLE, such as go2-walk")
    from surefoot.deploy.bundle import load_bundle

    few = Effort(
        criterion=criterion,
        families=("spline",),
        population=max(population // 3, 3),
        rounds=max(rounds // 2, 1),
        elite=2,
        samples=2,
        climbs=max(climbs // 2, 1),
    )
    return excite_walking(sim, BundleWalker(load_bundle(walker), sim), belief, effort=few, **common)


class BundleWalker:
    """A bundle's policy in many worlds of a Sim at once."""

    def __init__(self, bundle: "Bundle", sim: "Sim"):
        self.bundle, self.sim = bundle, sim
        contract = bundle.contract
        if contract.robot != sim.robot.name:
            raise InputError(
                f"the policy is for {contract.robot!r}, the robot is {sim.robot.name!r}: give one of its own"
            )
        if abs(contract.control_dt - sim.control_dt) > 1e-9:
            raise InputError(
                f"the policy acts every {contract.control_dt:g} s, the robot file says {sim.control_dt:g} s: use a policy of this robot"
            )
        self.commands = tuple((c.name, c.low, c.high) for c in contract.commands)
        self._policy = bundle.policy()
        self._order = [contract.joints.index(name) for name in sim.command_names]

    def reset(self, worlds: int) -> None:
        """Begin in `worlds` worlds."""
        from surefoot.contract import Builder
        from surefoot.sim.replay import channel_columns

        self._builder = Builder(self.bundle.contract, worlds=worlds, columns=channel_columns(self.sim))
        self._policy.reset()
        self._last, self._steps = None, 0

    def __call__(self, readings: Any, command: Any) -> Any:
        """Commands of the motors, (worlds, nu)."""
        import numpy as np

        from surefoot.contract import action

        seen = self._builder.observe(readings, last_action=self._last, command=np.asarray(command, np.float32))
        self._last = self._policy(seen)
        time = np.full(len(self._last), self._steps * self.bundle.contract.control_dt, np.float32)
        self._steps += 1
        return action(self.bundle.contract, self._last, time)[:, self._order].astype(np.float64)
