"""XL330: a servo with a pendulum at several firmware gains; one whole gain is held out.

    metric: mean absolute error [mrad] of the position, open loop over the whole recording (6 s); start: the first readings

The structure is searched inside the fitted recordings alone: their own folds hold out one trajectory of every gain in turn. kp of
the model holds at gain 400 and goes with the gain of each recording; where a recording switches the power off, so does the replay.
Where no fitted recording shows a limit, the firmware's own stands: at full duty, a position error of 0.87 rad at gain 400.
"""

from collections.abc import Sequence

import numpy as np

from surefoot.bench.real_data import absent, data_folder, logs_of
from surefoot.bench.table import Mark, Request
from surefoot.identify.servo_logs import gains, replay_servo
from surefoot.identify.structure import Job, Search, search
from surefoot.identify.structure_servo import ServoBench, coarser
from surefoot.identify.structure_terms import TERMS, servo_params
from surefoot.logs import Log
from surefoot.params import E
from surefoot.robots import load
from surefoot.sim import Sim

REFERENCE_GAIN = 400.0
"""Firmware gain at which kp of the robot file holds."""
MARK = 33.0  # [mrad]
FULL_DUTY = 256 * 885 * 2 * np.pi / 4096 / REFERENCE_GAIN
"""[rad] Position error of full duty at the reference gain; the firmware's duty = P error (4096 / 2π) / (256 · 885)."""
PUBLISHED = "fitted on all gains: M1 57, M3 43, with a current limit 31 mrad"
NAME = "XL330"


def measure(request: Request) -> list[Mark]:
    """All rows of the XL330."""
    logs = logs_of(data_folder(request), "bam_servo", is_xl330)
    if len(logs) < 4:
        return [
            absent(
                NAME, f"{len(logs)} XL330 recordings below {data_folder(request).name}/: at least 4 are needed", "mrad"
            )
        ]
    sim = Sim(load("servo"), xl330_params(), threads=1)
    rows: list[Mark] = []
    for fit, judge, words in splits(logs, request):
        if not judge:
            rows.append(absent(NAME, words, "mrad"))
            continue
        rows += judged(sim, fit, judge, search_xl330(sim, fit, request), words)
    known = splits(logs, request)[0][0] if request.quick else list(logs)
    rows.append(first_term(search_xl330(sim, known, request), known))
    rows.append(absent(
        f"{NAME}, mujoco.sysid", "does not apply: no gain per recording, no power switch, no friction that depends on the load", "mrad",
    ))  # fmt: skip
    return rows


def is_xl330(log: Log) -> bool:
    """Whether a recording names this motor and its gain."""
    return str(log.meta.get("motor", "")).lower() == "xl330" and "kp" in log.meta


def xl330_params():
    """All terms of the search around the robot file's figures."""
    a = load("servo").actuators[0]
    assert a.torque_limit is not None
    return servo_params("servo", kp=a.kp, kd=a.kd, torque=a.torque_limit)


def splits(logs: Sequence[Log], request: Request) -> list[tuple[list[Log], list[Log], str]]:
    """(fit, judge, words): the recordings of --test, else, or where it has none, each gain in turn (quick: the middle one)."""
    own = sorted({float(log.meta["kp"]) for log in logs})
    if request.test is not None:
        known = {log.hash for log in logs}
        fresh = [log for log in logs_of(request.test, "bam_servo", is_xl330) if log.hash not in known]
        out = []
        for gain in sorted({float(log.meta["kp"]) for log in fresh}):
            where = "a gain that was fitted" if gain in own else "a gain that no fit saw"
            out.append((list(logs), [x for x in fresh if x.meta["kp"] == gain], f"gain {gain:g} of --test, {where}"))
        if out:
            return out
    if len(own) < 2:
        return [(list(logs), [], f"only gain {own[0]:g} is here: none can be held out")]
    chosen = [own[len(own) // 2]] if request.quick or len(own) < 3 else own
    out = []
    for gain in chosen:
        inside = "between" if own[0] < gain < own[-1] else "outside"
        others = [x for x in logs if x.meta["kp"] != gain]
        judge = [x for x in logs if x.meta["kp"] == gain]
        out.append(
            (
                others,
                judge,
                f"gain {gain:g} held out, {inside} the fitted gains {', '.join(f'{g:g}' for g in own if g != gain)}",
            )
        )
    return out


def folds(logs: Sequence[Log]) -> list[int]:
    """Four folds, each with another trajectory of every gain."""
    every = sorted({float(x.meta["kp"]) for x in logs})
    kinds = sorted({str(x.meta.get("trajectory", "")) for x in logs})
    labels = [(every.index(float(x.meta["kp"])) + kinds.index(str(x.meta.get("trajectory", "")))) % 4 for x in logs]
    return labels if len(set(labels)) > 1 else [i % 4 for i in range(len(logs))]


_found: dict[tuple[str, ...], Search] = {}


def search_xl330(sim: Sim, logs: Sequence[Log], request: Request) -> Search:
    """The structure search on the fitted recordings; the same recordings are searched once."""
    key = tuple(log.hash for log in logs)
    if key not in _found:
        bench = ServoBench(coarser(sim), logs, reference=REFERENCE_GAIN, draws=32 if request.quick else 64)
        _found[key] = search(
            bench, folds=folds(logs), most=4 if request.quick else 8, say=lambda line: request.tell(f"XL330: {line}")
        )
    return _found[key]


def refined(sim: Sim, logs: Sequence[Log], start: E, free: tuple[str, ...]) -> E:
    """The same structure fitted at the Sim's own time step."""
    known = {name: float(np.ravel(start[name])[0]) for name in ("torque_limit",) if name not in free}
    bench = ServoBench(sim, logs, reference=REFERENCE_GAIN, every=2, draws=8, known=known)
    return bench.answer([Job(free=free, start=start, seen=np.ones(len(logs), dtype=bool))])[0].e


def limited(e: E, free: tuple[str, ...]) -> E:
    """e with the firmware's largest torque, K/R times the supply, where saturation was not fitted."""
    return e if "torque_limit" in free else {**e, "torque_limit": np.asarray(e["kp"]) * FULL_DUTY}


def replayed(sim: Sim, logs: Sequence[Log], e: E) -> np.ndarray:
    """Mean absolute error of every log in the Sim, (L,) [mrad]."""
    out = []
    for log, ratio in zip(logs, gains(logs, "kp", REFERENCE_GAIN), strict=True):
        out.append(1e3 * np.abs(replay_servo(sim, log, e, gain=ratio) - log["joint_pos"].column("servo")).mean())
    return np.array(out)


def judged(sim: Sim, fit: Sequence[Log], judge: Sequence[Log], found: Search, words: str) -> list[Mark]:
    """Rows of one split: ours, the friction families without structure, and which term came first."""
    protocol = f"whole recordings open loop, start at the first readings; {words}; {len(judge)} recordings"
    free = tuple(found.fit.params)
    error = replayed(sim, judge, refined(sim, fit, limited(found.e, free), free))
    taken = " + ".join(found.terms) or "nothing"
    if "torque_limit" not in free:
        taken += "; no recording shows a limit, so the firmware's stands"
    gain = f"gain {float(judge[0].meta['kp']):g}"
    rows = [Mark(
        name=f"{NAME} {gain}, position MAE", value=float(error.mean()), unit="mrad", op="<=", mark=MARK,
        reference=f"{protocol}; {error.min():.0f} to {error.max():.0f} each; base + {taken}; {PUBLISHED}",
    )]  # fmt: skip
    off = {name: v for t in TERMS for name, v in t.off.items()}
    for title, extra in (("M1", ()), ("M3", ("load_friction",))):
        names = (*found.base, *extra)
        bench = ServoBench(coarser(sim), fit, reference=REFERENCE_GAIN)
        start = {
            n: v if n in names else np.full_like(v, off.get(n, float(v[0]))) for n, v in sim.params.nominal_e(1).items()
        }
        if extra:
            start |= {n: np.full_like(start[n], 0.15) for n in extra}
        plain = bench.answer([Job(free=names, start=start, seen=np.ones(len(fit), dtype=bool))])[0].e
        rows.append(Mark(
            name=f"{NAME} {gain}, friction family {title} alone", value=float(replayed(sim, judge, plain).mean()), unit="mrad",
            reference=f"{protocol}; no limit, no further term",
        ))  # fmt: skip
    return rows


def first_term(found: Search, logs: Sequence[Log]) -> Mark:
    """Which term the search took first, and the whole ladder in words."""
    rung = found.rungs[0] if found.rungs else None
    first = rung is not None and rung.term == "saturation"
    said = "the search took no term"
    if rung is not None:
        then = ", ".join(f"{r.term} {1e3 * r.after:.0f}" for r in found.rungs[1:]) or "nothing"
        if found.dropped:
            then += f"; left out again: {', '.join(term for term, _ in found.dropped)}"
        said = f"{rung.term}, {1e3 * rung.before:.0f} -> {1e3 * rung.after:.0f} mrad: {rung.reason}; then {then}"
    return Mark(
        name=f"{NAME}, the search names saturation as the first missing term", value=float(first and "saturation" in found.terms),
        op="==", mark=1.0, reference=f"{said}; MAE of recordings that no fit saw, {found.folds} folds of the {len(logs)} fitted recordings",
    )  # fmt: skip
