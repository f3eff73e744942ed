"""Go2 with its legs in the air: motors and legs fitted on one stretch of a recording, judged on what follows and on another robot.

    metric: PACE score [rad²] = mean over time of Σ_joints (q_replay - q_log)², open loop over the whole judged stretch;
    start: its first readings

One of the two robots was held still; the other is taken to hang from a strap, since the part of its recording that is fitted shows a
base that gives way to the legs. Fitted are friction and rotors of every joint, the legs' masses, the calves' stops and one delay; gains
are those of the recording.

On another recording with other gains nothing of the robot is refitted. What is foreseen there is the mean over robots of its kind,
e ~ p(e of another robot): friction as it differs from joint to joint of the robot that was fitted, everything else, its stops among it, as
the maker or the field publishes it, with a width. Slow logs tell torques only against a known weight, and not masses and motors at once:
masses are the maker's there, and the strength of the motors, which a log's gains only state, is fitted and stays with its robot.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from surefoot.bench.real_data import absent, data_folder, hangs, in_the_air, logs_of
from surefoot.bench.table import Mark, Request
from surefoot.identify import Fit, another_robot, foresee, identify
from surefoot.identify.another import widths
from surefoot.logs import Log
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import E, LogNormal, LogUniform, Normal, Params, Point, Prior, Uniform
from surefoot.robots import Robot, load
from surefoot.sim import Sim
from surefoot.sim.restitution import damping_ratio

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
CALF = ".*_calf_joint"

ROTOR = 1.118e-4
"""[kg·m²] Inertia of a motor's rotor in the maker's description of the robot before (Go1), which has the same motors."""
CALF_MASS, CALF_COM = 0.194, 0.00621
"""[kg], [m] Calf (0.154 kg) and foot (0.04 kg) of the maker's robot description, and how much higher their common centre of mass
lies than the model's. The model has the figures of the public reference model, 0.241352 kg: there the description's two links that
have a shape for collisions and no mass were taken for solids of 1000 kg/m³, cylinders of 24.7 and 22.6 g."""
DAMPING, COULOMB = 0.1, 0.2
"""[N·m·s/rad], [N·m] Joint friction in the maker's simulation model."""
DELAY = 0.004
"""[s] Two periods of the maker's 500 Hz command link."""
STOP_MARGIN = 0.087
"""[rad] How far from the ends of a range the maker's position protection begins (5 degrees)."""
STOP_SOFTNESS = 2 * TIMESTEP
"""[s] A stop of metal or hard plastic is as stiff as a time step can tell."""
ENGINE_SOFTNESS = 0.02
"""[s] The engine's default for joint stops."""
RESTITUTION = 0.544
"""Speed after over before real impacts of a metal body: median of the recordings in mcube_ellipse_impacts."""
STOP_DAMPING = float(damping_ratio(np.array(RESTITUTION)))
"""Damping ratio of a stop, which pushes and never pulls, that gives back that share of the speed."""
RESTITUTION_QUARTILES = (0.486, 0.591)
"""Of the same impacts."""
STOP_DAMPING_SPREAD = float(np.log(np.divide(*damping_ratio(np.array(RESTITUTION_QUARTILES)))) / (2 * norm.ppf(0.75)))
"""Standard deviation of ln of a stop's damping ratio."""
OWN = ("calf_stop", "stop_softness", "stop_damping", "hang_x", "hang_y", "strength")
"""What belongs to one robot and to how it was hung, not to its kind."""
MASSES = ("mass_thigh", "mass_calf")
BESIDE = ("strength", "com_calf")
"""Not fitted together with the masses: motors and masses cannot be told apart."""
DRAWS = 256
MOVING = 0.05
"""[rad/s]"""
WORTH = 0.05
"""Share of the score that a further term must save on recordings its fit did not see."""


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
            rows += other_rows(mapping, pairs[mapping][0], *pairs[other][:2], request)
    return rows


def split(logs: Sequence[Log], request: Request, mapping: str) -> tuple[Log, list[Log], str]:
    """(what is fitted, what judges, in words): recordings of --test, else the end of each recording."""
    first = logs[0]
    t = first["joint_pos"].t
    if request.test is not None:
        known = {log.hash for log in logs}
        fresh = [log for log in logs_of(request.test, mapping) if log.hash not in known]
        if fresh:
            return first.window(t[0], min(t[-1], t[0] + LONGEST) + 1e-6), fresh, "recordings of --test"
    cut = float(t[0] + SHARE * (t[-1] - t[0]))
    judge = [first.window(cut, float(t[-1]) + 1e-6), *logs[1:]]
    return (
        first.window(max(float(t[0]), cut - LONGEST), cut + 1e-6),
        judge,
        f"the last {100 * (1 - SHARE):.0f} % of the recording",
    )


# ---------------------------------------------------------------- robot and unknowns


def robot_of(log: Log) -> Robot:
    """The robot as it was recorded; the rotors of its calves are in the Params, not in their armature."""
    robot = in_the_air(load("go2"), log)
    motors = (dataclasses.replace(a, armature=1e-4) if "calf" in a.name else a for a in robot.actuators)
    return dataclasses.replace(robot, actuators=tuple(motors), timestep=TIMESTEP)


def leg_params(*, each: bool, slope: bool, strap: bool) -> Params:
    """The unknowns of the legs, with published figures as nominal ones.

    Args:
        each: joints have values of their own; otherwise every sort of joint has one.
        slope: the calves' dry friction may change with their angle.
        strap: the robot hangs; where its base's centre of mass lies against the strap says how it is tied.
    """
    gear = {sort: load("go2").actuator(f"FL_{sort}_joint").gear or 1.0 for sort in SORTS}
    out = {}
    for sort in SORTS:
        of = f".*_{sort}_joint"
        if sort != "calf":
            out[f"armature_{sort}"] = P["armature"](
                of, low=1e-3, high=0.1, nominal=ROTOR * gear[sort] ** 2, scale="log", each=each
            )
        out[f"damping_{sort}"] = P["damping"](of, low=0.01, high=3.0, nominal=DAMPING, scale="log", each=each)
        out[f"coulomb_{sort}"] = P["coulomb"](of, low=0.01, high=2.5, nominal=COULOMB, scale="log", each=each)
    out["rotor_calf"] = P["rotor_inertia"](CALF, low=2e-5, high=5e-4, nominal=ROTOR, scale="log", each=each)
    if slope:
        out["slope_calf"] = P["coulomb_slope"](CALF, low=-2.0, high=2.0, nominal=0.0, each=each)
    out["mass_thigh"] = P["mass"](".*_thigh", low=0.6, high=2.0)
    out["mass_calf"] = P["mass"](".*_calf", low=0.08, high=0.5, nominal=CALF_MASS)
    out["com_calf"] = P["com"](".*_calf", axis="z", low=-0.03, high=0.03, nominal=CALF_COM)
    out["strength"] = P["strength"](".*_joint", low=0.5, high=1.5, nominal=1.0, scale="log")
    out["calf_stop"] = P["stop_shift"](CALF, low=-0.25, high=0.05, nominal=-STOP_MARGIN, each=True)
    out["stop_softness"] = P["stop_softness"](CALF, low=STOP_SOFTNESS, high=0.1, nominal=STOP_SOFTNESS, scale="log")
    out["stop_damping"] = P["stop_damping"](CALF, low=0.05, high=2.0, nominal=STOP_DAMPING, scale="log")
    out["command_delay"] = P["command_delay"](low=0.0, high=0.03, nominal=DELAY)
    if strap:
        out |= {f"hang_{axis}": P["com"]("base", axis=axis, low=-0.08, high=0.08) for axis in "xy"}
    return Params(**out)


def joint_params() -> Params:
    """The unknowns that PACE fits: four of every joint, and one delay of the commands."""
    joints, each = ".*_joint", {"each": True}
    return Params(
        armature=P["armature"](joints, low=1e-3, high=0.1, nominal=0.01, scale="log", **each),
        damping=P["damping"](joints, low=0.01, high=3.0, nominal=DAMPING, scale="log", **each),
        coulomb=P["coulomb"](joints, low=0.01, high=2.5, nominal=COULOMB, scale="log", **each),
        encoder_bias=P["encoder_bias"](joints, low=-0.1, high=0.1, **each),
        command_delay=P["command_delay"](low=0.0, high=0.03, nominal=DELAY),
    )


def sim_of(log: Log, *, each: bool = False, slope: bool = True) -> Sim:
    """A Sim of the robot as it was recorded."""
    return Sim(robot_of(log), leg_params(each=each, slope=slope, strap=hangs(log)), threads=2)


# ---------------------------------------------------------------- scores


def pace(sim: Sim, log: Log, e: E) -> tuple[float, np.ndarray]:
    """PACE score [rad²] of a whole log and the root mean square of every joint (joints,) [rad]."""
    gap = sim.replay(log, e, channels=("joint_pos",)).gap("joint_pos")[0]
    return float((gap**2).sum(-1).mean()), np.sqrt((gap**2).mean(0))


def scored(sim: Sim, logs: Sequence[Log], e: E) -> tuple[float, str]:
    """PACE score over all logs by their samples, and the joints' range of errors in words."""
    found = [(*pace(sim, log, e), len(log["joint_pos"])) for log in logs]
    weight = np.array([n for _, _, n in found], float)
    score = float(np.average([s for s, _, _ in found], weights=weight))
    joints = np.sqrt(np.average([r**2 for _, r, _ in found], axis=0, weights=weight))
    return score, in_words(joints, logs[0]["joint_pos"].columns)


def in_words(joints: np.ndarray, columns: Sequence[str]) -> str:
    """The range of the joints' root mean square errors (joints,) [rad], and the worst joint."""
    worst = columns[int(joints.argmax())].removesuffix("_joint")
    return f"joints {1e3 * joints.min():.1f} to {1e3 * joints.max():.1f} mrad ({worst})"


def protocol(logs: Sequence[Log], words: str) -> str:
    """How a row was measured."""
    seconds = [float(np.ptp(log["joint_pos"].t)) for log in logs]
    return f"open loop over {', '.join(f'{s:.1f}' for s in seconds)} s from the first readings; {words}"


def own_rows(mapping: str, fit: Log, judge: list[Log], words: str, request: Request) -> list[Mark]:
    """The recording's own end, or its like in --test."""
    name = f"Go2 in the air, kd {float(fit.meta['kd']):g}"
    if not judge:
        return [absent(name, f"no such recording in --test that is not in --train ({mapping})", "rad²")]
    sim = sim_of(fit, each=True)
    found = fitted(sim, fit, request, robust=None)
    score, joints = scored(sim, judge, found.e)
    how = protocol(judge, words)
    still = dataclasses.replace(fit, meta={**fit.meta, "held": "fixed"})
    plain = dataclasses.replace(in_the_air(load("go2"), still), timestep=TIMESTEP)
    bare, _ = scored(Sim(plain, Params(), threads=2), judge, {})
    anchor = Sim(plain, joint_params(), threads=2)
    theirs = identify(anchor, fit, window=WINDOW, held_out=0.0, start="log", robust=None, say=request.tell)
    joint_fit, joint_errors = scored(anchor, judge, theirs.e)
    mark = MARK if mapping == MAPPINGS[0] else None
    known = "; reference: nominal 0.0364, 10 parameters 0.0014, a PACE user 0.00025 on his own robot" if mark else ""
    held = "taken to hang from a strap" if hangs(fit) else "base held still"
    return [
        Mark(
            name=f"{name}, PACE score", value=score, unit="rad²", op="<=" if mark else None, mark=mark,
            reference=f"{how}; {held}; {joints}; {found.params.d} scalars fitted on {np.ptp(fit['joint_pos'].t):.1f} s{known}",
        ),
        Mark(
            name=f"{name}, PACE score, PACE's joint parameters", value=joint_fit, unit="rad²",
            reference=f"{how}; this run: armature, damping, friction and encoder zero of every joint and one delay, "
            f"{theirs.params.d} scalars fitted by our solver on the same stretch; the robot file's masses, base held still; {joint_errors}",
        ),
        Mark(
            name=f"{name}, PACE score, nominal model", value=bare, unit="rad²",
            reference=f"{how}; robot file's figures, base held still, no delay",
        ),
    ]  # fmt: skip


# ---------------------------------------------------------------- another robot


def other_rows(mapping: str, fit: Log, first: Log, judge: list[Log], request: Request) -> list[Mark]:
    """Fitted on one recording, judged on the other robot's, with its own gains and nothing of the robot refitted.

    The mark is for what the first recording, of which a published score is known, says about the other robot. A row without a mark has one
    replay instead of the mean over robots of the kind, at the middle of p(e). For a robot that hangs and runs into its stops, one measures
    where its stops lie and how it hangs on `first`, a part of its recording that does not judge: no recording of another robot knows these.
    """
    name = f"Go2 in the air, fitted at kd {float(fit.meta['kd']):g}, the other recording"
    if not judge:
        return [absent(f"{name} without refit", "the other recording has nothing to judge by", "rad²")]
    slope = sloped(fit, request)
    found, held = transferable(fit, request, slope=slope)
    there = sim_of(judge[0], each=True, slope=slope)
    prior = another_robot(found, published(there.params), own=OWN)
    how = protocol(judge, f"kd {float(judge[0].meta['kd']):g}, another robot")
    told = f"strength {found['strength']:.2f} stays with the robot that was fitted; as published: {held}"
    mean, joints, inside = foreseen(there, judge, prior)
    bands = f"whose 90 % bands hold {100 * inside:.0f} % of the readings"
    mark = MARK_OTHER if mapping == MAPPINGS[0] else None
    middle = prior.quantile(0.5)
    one, _ = scored(there, judge, middle)
    rows = [
        Mark(
            name=f"{name} without refit, PACE score", value=mean, unit="rad²", op="<=" if mark else None, mark=mark,
            reference=f"{how}; {joints}; mean over {DRAWS} robots of the kind, {bands}; {told}",
        ),
        Mark(
            name=f"{name} without refit, one replay at the middle of p(e), PACE score", value=one, unit="rad²", reference=f"{how}; {told}",
        ),
    ]  # fmt: skip
    if there.robot.strap is None:
        return rows
    own = tuple(name for name in OWN if name != "strength")
    rest = {n: v for n, v in middle.items() if n not in own}
    measured = identify(there, first, only=own, fixed=rest, window=WINDOW, held_out=0.0, start="log", say=request.tell)
    score, joints = scored(there, judge, {**middle, **measured.e})
    rows.append(Mark(
        name=f"{name}, its stops and its strap measured, PACE score", value=score, unit="rad²",
        reference=f"{how}; {joints}; one replay, stops and the strap's place measured on {np.ptp(first['joint_pos'].t):.1f} s of that "
        "recording that do not judge; masses, rotors, friction, delay and strength are not",
    ))  # fmt: skip
    return rows


def fitted(sim: Sim, log: Log, request: Request, *, robust: float | None = 3.0, beside: Sequence[str] = BESIDE) -> Fit:
    """Everything but `beside` fitted to one log."""
    only = [name for name in sim.params if name not in beside]
    return identify(sim, log, only=only, window=WINDOW, held_out=0.0, start="log", robust=robust, say=request.tell)


def sloped(fit: Log, request: Request) -> bool:
    """Whether friction that changes with the calf's angle foresees the last quarter of the fitted stretch clearly better."""
    t = fit["joint_pos"].t
    cut = float(t[0] + 0.75 * (t[-1] - t[0]))
    early, late = fit.window(float(t[0]), cut + 1e-6), fit.window(cut, float(t[-1]) + 1e-6)
    score = {}
    for slope in (False, True):
        sim = sim_of(fit, slope=slope)
        score[slope] = pace(sim, late, fitted(sim, early, request).e)[0]
    return score[True] < (1 - WORTH) * score[False]


def transferable(log: Log, request: Request, *, slope: bool) -> tuple[Fit, str]:
    """What a recording tells about robots of its kind, joint by joint, and in words what it tells less well than is published.

    What is known least beside the published figure is given up first and the rest fitted anew: what could be exchanged for it is then told.
    """
    sim = sim_of(log, slope=slope)
    steady = [name for name in sim.params if name.startswith("damping_")] if one_speed(log) else []
    beside, given_up = [*MASSES, "com_calf", *steady], []
    belief = published(sim.params)
    while True:
        found = fitted(sim, log, request, beside=beside)
        known = {name: ratio for name, ratio in widths(found, belief).items() if name not in OWN}
        worst = max(known, key=lambda name: known[name], default=None)
        if worst is None or known[worst] <= 1.0:
            break
        beside, given_up = [*beside, worst], [*given_up, worst]
    words = [f"masses {' and '.join(n.removeprefix('mass_') for n in MASSES)}"]
    words += [f"{', '.join(steady)}, since it moved at one speed"] if steady else []
    words += [f"{', '.join(given_up)}, which it tells less well"] if given_up else []
    again = sim_of(log, each=True, slope=slope)
    return fitted(again, log, request, beside=beside), "; ".join(words)


def one_speed(log: Log) -> bool:
    """Whether joints, while they move, have nine tenths of the time less than twice the speed they exceed nine tenths of the time."""
    q = log["joint_pos"]
    speed = np.abs(np.gradient(q.values, q.t, axis=0))
    ends = np.array([np.quantile(v[v > MOVING], (0.1, 0.9)) for v in speed.T if (v > MOVING).any()])
    return bool(len(ends)) and bool(np.median(ends[:, 1] / ends[:, 0]) < 2.0)


def published(params: Params) -> Prior:
    """What is believed of a Go2 that no recording has shown: the figures above, with widths.

    A rotor's figure is the predecessor's (15 %); masses are drawn, not weighed (5 %); the friction of a simulation model is meant for no
    robot in particular (30 %); motors give what gains ask for within 10 %; a command waits for one to three periods of the link; joints
    are zeroed by hand (0.03 rad); a stop is as stiff as a time step can tell or as soft as the engine's default; a strap is
    tied within 0.02 m of the centre of mass.
    """
    nominal, beliefs = params.nominal_e(1), {}
    widths = {"armature": 0.15, "rotor": 0.15, "mass": 0.05, "damping": 0.3, "coulomb": 0.3, "strength": 0.1}
    for name in params:
        of = name.partition("_")[0]
        if of in widths:
            beliefs[name] = LogNormal(median=float(nominal[name].ravel()[0]), sigma=widths[of])
    beliefs |= {
        "slope_calf": Normal(mean=0.0, sd=0.3), "command_delay": Uniform(low=0.5 * DELAY, high=1.5 * DELAY),
        "calf_stop": Normal(mean=-STOP_MARGIN, sd=0.03), "stop_softness": LogUniform(low=STOP_SOFTNESS, high=ENGINE_SOFTNESS),
        "stop_damping": LogNormal(median=STOP_DAMPING, sigma=STOP_DAMPING_SPREAD),
        "hang_x": Normal(mean=0.0, sd=0.02), "hang_y": Normal(mean=0.0, sd=0.02), "com_calf": Point(value=CALF_COM),
    }  # fmt: skip
    return Prior.independent(params, {name: belief for name, belief in beliefs.items() if name in params})


def foreseen(sim: Sim, logs: Sequence[Log], prior: Prior) -> tuple[float, str, float]:
    """PACE score [rad²] of the mean over robots of the kind, the joints' errors in words, and the share of readings in 90 % bands."""
    found = [foresee(sim, log, prior, draws=DRAWS, channels=("joint_pos",)) for log in logs]
    gap = np.concatenate([part.gap("joint_pos") for part in found])
    inside = np.average(
        [part.inside("joint_pos").mean() for part in found], weights=[len(part.gap("joint_pos")) for part in found]
    )
    return (
        float((gap**2).sum(-1).mean()),
        in_words(np.sqrt((gap**2).mean(0)), found[0].columns["joint_pos"]),
        float(inside),
    )
