"""Go2 with its legs in the air: per-joint motors fitted on one stretch of a recording, judged on what follows and on another robot.

    metric: PACE score [rad²] = mean over time of Σ_joints (q_replay - q_log)², open loop over the whole judged stretch;
    start: its first readings

Armature, viscous and dry friction and encoder bias of every joint, the calves' zero and one delay are fitted; gains are those of the
recording. On another recording with other gains nothing is refitted: the joints' figures are then those of each sort of joint, which
four legs confirm, and encoder biases, which belong to one robot, are left out.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from surefoot.bench.real_data import absent, data_folder, logs_of
from surefoot.bench.table import Mark, Request
from surefoot.identify import identify
from surefoot.logs import Log
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import E, Params
from surefoot.robots import Robot, load
from surefoot.sim import Sim

MAPPINGS = ("go2_motor_dls", "go2_motor_steps")
"""Of the two recordings; the first has slow trajectories at kd 1.5, the second steps of a walking policy at kd 0.5."""
SHARE = 0.6
"""Of a recording that is fitted where the same folder judges."""
LONGEST = 12.0
"""[s] Most of a recording that a fit sees."""
WINDOW = 3.5  # [s]
TIMESTEP = 0.0025  # [s]
MARK, MARK_OTHER = 6e-4, 2e-3
SORTS = ("hip", "thigh", "calf")


def measure(request: Request) -> list[Mark]:
    """All rows of the Go2."""
    folder = data_folder(request)
    found = {mapping: logs_of(folder, mapping) for mapping in MAPPINGS}
    if not any(found.values()):
        return [absent("Go2 in the air", f"no Go2 recording below {folder.name}/", "rad²")]
    pairs = {m: split(logs, request, m) for m, logs in found.items() if logs}
    rows: list[Mark] = []
    for mapping, (fit, judge, words) in pairs.items():
        rows += own_rows(mapping, fit, judge, words, request)
    for mapping in pairs:
        other = MAPPINGS[1 - MAPPINGS.index(mapping)]
        if other in pairs:
            rows += other_rows(pairs[mapping][0], pairs[other][1], request)
    return rows


def split(logs: Sequence[Log], request: Request, mapping: str) -> tuple[Log, list[Log], str]:
    """(what is fitted, what judges, in words): recordings of --test, else the end of each recording."""
    first = logs[0]
    t = first["joint_pos"].t
    if request.test is not None:
        known = {log.hash for log in logs}
        fresh = [log for log in logs_of(request.test, mapping) if log.hash not in known]
        return first.window(t[0], min(t[-1], t[0] + LONGEST) + 1e-6), fresh, "recordings of --test"
    cut = float(t[0] + SHARE * (t[-1] - t[0]))
    judge = [first.window(cut, float(t[-1]) + 1e-6), *logs[1:]]
    return (
        first.window(max(float(t[0]), cut - LONGEST), cut + 1e-6),
        judge,
        f"the last {100 * (1 - SHARE):.0f} % of the recording",
    )


def in_the_air(log: Log) -> Robot:
    """The robot with its base held still and the recording's gains."""
    robot = load("go2").suspended()
    motors = tuple(dataclasses.replace(a, kp=float(log.meta["kp"]), kd=float(log.meta["kd"])) for a in robot.actuators)
    return dataclasses.replace(robot, actuators=motors, timestep=TIMESTEP)


def joint_params() -> Params:
    """One value a joint, the calves' zero (their stop lies there), and one delay: 50 scalars."""
    joints = ".*_joint"
    return Params(
        armature=P["armature"](joints, low=1e-3, high=0.2, nominal=0.01, scale="log", each=True),
        damping=P["damping"](joints, low=0.01, high=3.0, nominal=0.3, scale="log", each=True),
        coulomb=P["coulomb"](joints, low=0.01, high=2.5, nominal=0.2, scale="log", each=True),
        encoder_bias=P["encoder_bias"](joints, low=-0.1, high=0.1, nominal=0.0, each=True),
        calf_zero=P["zero_offset"](".*_calf_joint", low=-0.2, high=0.2, nominal=0.0),
        command_delay=P["command_delay"](low=0.0, high=0.03, nominal=0.005),
    )


def shared_params() -> Params:
    """One value for each sort of joint, the calf's zero (its stop lies there), and one delay: 11 scalars, none of one robot's own."""
    out = {}
    for sort in SORTS:
        of = f".*_{sort}_joint"
        out[f"armature_{sort}"] = P["armature"](of, low=1e-3, high=0.2, nominal=0.01, scale="log")
        out[f"damping_{sort}"] = P["damping"](of, low=0.01, high=3.0, nominal=0.3, scale="log")
        out[f"coulomb_{sort}"] = P["coulomb"](of, low=0.01, high=2.5, nominal=0.2, scale="log")
    out["calf_zero"] = P["zero_offset"](".*_calf_joint", low=-0.2, high=0.2, nominal=0.0)
    return Params(**out, command_delay=P["command_delay"](low=0.0, high=0.03, nominal=0.005))


def pace(sim: Sim, log: Log, e: E) -> tuple[float, np.ndarray]:
    """PACE score [rad²] of a whole log and the root mean square of every joint (joints,) [rad]."""
    gap = sim.replay(log, e, channels=("joint_pos",)).gap("joint_pos")[0]
    return float((gap**2).sum(-1).mean()), np.sqrt((gap**2).mean(0))


def scored(sim: Sim, logs: Sequence[Log], e: E) -> tuple[float, str]:
    """PACE score over all logs by their samples, and the joints' range of errors in words."""
    found = [(*pace(sim, log, e), len(log["joint_pos"])) for log in logs]
    weight = np.array([n for _, _, n in found], float)
    score = float(np.average([s for s, _, _ in found], weights=weight))
    joints = 1e3 * np.sqrt(np.average([r**2 for _, r, _ in found], axis=0, weights=weight))
    return score, f"joints {joints.min():.1f} to {joints.max():.1f} mrad"


def protocol(logs: Sequence[Log], words: str) -> str:
    """How a row was measured."""
    seconds = [float(np.ptp(log["joint_pos"].t)) for log in logs]
    return f"open loop over {', '.join(f'{s:.1f}' for s in seconds)} s from the first readings; {words}"


def own_rows(mapping: str, fit: Log, judge: list[Log], words: str, request: Request) -> list[Mark]:
    """The recording's own end, or its like in --test."""
    name = f"Go2 in the air, kd {float(fit.meta['kd']):g}"
    if not judge:
        return [absent(name, f"no such recording in --test that is not in --train ({mapping})", "rad²")]
    sim = Sim(in_the_air(fit), joint_params(), threads=2)
    found = identify(sim, fit, window=WINDOW, held_out=0.0, start="log", say=request.tell)
    score, joints = scored(sim, judge, found.e)
    how = protocol(judge, words)
    nominal = sim.params.nominal_e(1)
    model = {a.name: a for a in load("go2").actuators}
    nominal |= {
        kind: np.array([[getattr(model[j], kind) for j in sim.params.elements[kind]]])
        for kind in ("armature", "damping", "coulomb")
    }
    bare, _ = scored(sim, judge, {**nominal, "command_delay": np.zeros(1)})
    mark = MARK if mapping == MAPPINGS[0] else None
    known = "; reference: nominal 0.0364, 10 parameters 0.0014, a PACE user 0.00025 on his own robot" if mark else ""
    return [
        Mark(
            name=f"{name}, PACE score", value=score, unit="rad²", op="<=" if mark else None, mark=mark,
            reference=f"{how}; {joints}; 50 scalars fitted on {np.ptp(fit['joint_pos'].t):.1f} s{known}",
        ),
        Mark(name=f"{name}, PACE score, nominal model", value=bare, unit="rad²", reference=f"{how}; robot file's figures, no delay"),
    ]  # fmt: skip


def other_rows(fit: Log, judge: list[Log], request: Request) -> list[Mark]:
    """Fitted on one recording, judged on the other robot's, with its own gains and nothing refitted."""
    name = f"Go2 in the air, fitted at kd {float(fit.meta['kd']):g}, the other recording without refit"
    if not judge:
        return [absent(name, "the other recording has nothing to judge by", "rad²")]
    here, there = (Sim(in_the_air(log), shared_params(), threads=2) for log in (fit, judge[0]))
    found = identify(here, fit, window=WINDOW, held_out=0.0, start="log", robust=3.0, say=request.tell)
    score, joints = scored(there, judge, found.e)
    how = protocol(judge, f"kd {float(judge[0].meta['kd']):g}, another robot")
    return [Mark(
        name=f"{name}, PACE score", value=score, unit="rad²", op="<=", mark=MARK_OTHER,
        reference=f"{how}; {joints}; 11 scalars by sort of joint",
    )]  # fmt: skip
