"""`surefoot demo`: many quadrupeds, each with its own e; one becomes a log; the log is replayed under another e.

It shows the nouns at work: Params and Prior, Sim and its worlds, Log, replay and gap, and a report that opens offline.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from surefoot.errors import InputError
from surefoot.logs import Log, read_log
from surefoot.params import CONSTRUCTORS, E, Params, label
from surefoot.report import Page
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.sim.gap import Gap, gaps
from surefoot.sim.record import Recording
from surefoot.sim.render import Camera, animated_png
from surefoot.sim.replay import Replay

SECONDS = 4.0
DROP = 0.12
"""[m] Height the robots fall from."""
FRAMES = 6


def main(
    out: str | Path = "out/demo",
    *,
    worlds: int = 64,
    seed: int = 0,
    pictures: bool = True,
    say: Callable[[str], None] = print,
) -> Path:
    """Run the demo and write out/log.mcap and out/report.html; returns the report's path."""
    out, start = Path(out), time.perf_counter()
    robot = load("go2")
    pushed = Params(push=CONSTRUCTORS["push"](low=0.3, high=1.2, interval=1.5, source="a firm shove by hand"))
    sim = Sim(robot, robot.params | pushed, worlds=worlds, seed=seed)
    e = sim.params.prior().sample(worlds, seed)
    sim.apply(e)
    say(f"{robot.title}: {worlds} worlds, {sim.params.d} unknowns each, drawn from p(e) with seed {seed}")
    heights, log, film, gang = drop_and_push(sim, 3 % worlds, pictures, say)
    path = out / "log.mcap"
    log.save(path)
    log = read_log(path)
    say(f"world {3 % worlds} recorded: {log.duration:.2f} s, {len(log.channels)} channels -> {path}")
    replays = replay_twice(sim, log, {name: value[3 % worlds : 3 % worlds + 1] for name, value in e.items()})
    tables = {name: [g for g in gaps(one) if g.channel == "joint_pos"] for name, one in replays.items()}
    say(gap_text(tables))
    page = report(sim, e, heights, log, replays, tables, (film, gang), seed)
    saved = page.save(out / "report.html")
    say(f"report: {saved}   ({time.perf_counter() - start:.1f} s)")
    return saved


def drop_and_push(
    sim: Sim, recorded: int, pictures: bool, say: Callable[[str], None]
) -> tuple[np.ndarray, Log, list[np.ndarray], np.ndarray | None]:
    """Drop all worlds, make them squat while they are pushed; returns heights (T, worlds), a log, frames and a group picture."""
    start = sim.start_qpos
    assert sim.sensors.base_q is not None
    start[sim.sensors.base_q + 2] += DROP
    sim.reset(qpos=start)
    recording, heights, film, gang = Recording(sim, recorded, truth=True), [], [], None
    steps = round(SECONDS / sim.control_dt)
    camera = open_camera(sim, say) if pictures else None
    try:
        for step in range(steps):
            u = squat(sim, step * sim.control_dt)
            recording.add(sim.sense(), u)
            heights.append(sim.truth()["base_pos"][:, 2].copy())
            if camera is not None and step % (steps // FRAMES) == 0 and len(film) < FRAMES:
                film.append(camera.frame(recorded, distance=1.3, target=(0.0, 0.0, 0.22)))
            if camera is not None and step == steps // 2:
                gang = camera.frame(list(range(sim.worlds)), spacing=0.95)
            sim.step(u)
    finally:
        if camera is not None:
            camera.close()
    fallen = int((sim.truth()["base_pos"][:, 2] < 0.15).sum())
    say(
        f"dropped from {DROP * 100:.0f} cm and pushed for {SECONDS:.0f} s: {fallen} of {sim.worlds} lie down, {len(sim.failures)} diverged"
    )
    return np.array(heights), recording.log(task="drop, squat and push"), film, gang


def open_camera(sim: Sim, say: Callable[[str], None]) -> Camera | None:
    """A camera, or None where this machine cannot render; the report then has no pictures and says so."""
    try:
        return Camera(sim, width=640, height=400)
    except InputError as error:
        say(f"no pictures: {error}")
        return None


def squat(sim: Sim, t: float) -> np.ndarray:
    """Position targets (nu,) of a slow squat about the default pose."""
    depth = 0.25 * np.sin(2 * np.pi * 0.6 * t) * min(1.0, t)
    shift = {"thigh": depth, "calf": -2 * depth}
    return sim.rest_command + np.array(
        [next((v for k, v in shift.items() if k in name), 0.0) for name in sim.command_names]
    )


def replay_twice(sim: Sim, log: Log, own: E) -> dict[str, Replay]:
    """The log's commands under the robot file's nominal e, and under the e it was recorded with."""
    nominal = sim.params.nominal_e(1)
    return {"nominal e": sim.replay(log, nominal), "its own e": sim.replay(log, own)}


def gap_text(tables: dict[str, list[Gap]]) -> str:
    """Gap per joint [mrad] as text, one column a replay."""
    names = list(tables)
    lines = [
        "gap per joint, log minus replay, rms [mrad]:",
        f"  {'joint':<12}" + "".join(f"{n:>14}" for n in names) + f"{'noise floor':>14}",
    ]
    for row in zip(*tables.values(), strict=True):
        values = "".join(f"{1000 * g.rms:>14.1f}" for g in row)
        lines.append(f"  {label(row[0].column):<12}{values}{1000 * row[0].floor:>14.2f}")
    means = [1000 * float(np.sqrt(np.mean([g.rms**2 for g in tables[n]]))) for n in names]
    return "\n".join([*lines, f"  {'all':<12}" + "".join(f"{m:>14.1f}" for m in means)])


def report(
    sim: Sim,
    e: E,
    heights: np.ndarray,
    log: Log,
    replays: dict[str, Replay],
    tables: dict[str, list[Gap]],
    pictures: tuple[list[np.ndarray], np.ndarray | None],
    seed: int,
) -> Page:
    """The page: what was drawn, what happened, and how far the log is from its replays."""
    film, gang = pictures
    page = Page(
        "How far is the log from its replay?",
        subtitle=f"{sim.robot.title}, {sim.worlds} worlds drawn from p(e)",
        provenance={"seed": seed, "robot": sim.robot.hash[:12], "log": log.hash[:12]},
    )
    means = {n: 1000 * float(np.sqrt(np.mean([g.rms**2 for g in rows]))) for n, rows in tables.items()}
    page.callout(
        "note",
        f"Replayed under the nominal e the log's joints are {means['nominal e']:.1f} mrad away; under the e it was recorded with, "
        f"{means['its own e']:.1f} mrad. What remains are the pushes, which a replay does not know, and sensor noise.",
    )
    if gang is not None:
        page.image(
            gang,
            f"All {sim.worlds} worlds at half time, each with its own masses, motors, friction, delays and sensors.",
        )
    if film:
        times = [f"{k * round(SECONDS / sim.control_dt / FRAMES) * sim.control_dt:.2f} s" for k in range(len(film))]
        page.filmstrip(film, times, "The recorded world.")
        page.image(animated_png(film, rate=3), "The same frames, moving.")
    page.text("## What was drawn\n\nEvery world has its own e. Whiskers are the central 90 % of p(e), dots the recorded world's value, "
              "all relative to the Param's bounds.")  # fmt: skip
    page.intervals("Unknowns of the recorded world within p(e)", *_unknowns(sim, e))
    page.text("## What happened")
    t = np.arange(len(heights)) * sim.control_dt
    low, middle, high = np.quantile(heights, [0.05, 0.5, 0.95], axis=1)
    page.lines("Height of the base", t, {"median of the worlds": middle, "recorded world": heights[:, 3 % sim.worlds]}, "time [s]",
               "height [m]", bands={"median of the worlds": (low, high)}, note="Shade: 90 % of the worlds.")  # fmt: skip
    page.text("## The gap\n\nLog minus replay of the same commands, per joint.")
    page.bars("Gap per joint", [label(g.column) for g in tables["nominal e"]],
              {n: [1000 * g.rms for g in rows] for n, rows in tables.items()}, "rms [mrad]")  # fmt: skip
    page.table([
        {"joint": label(a.column), "nominal e, rms [mrad]": 1000 * a.rms, "its own e, rms [mrad]": 1000 * b.rms,
         "largest [mrad]": 1000 * a.worst, "bias [mrad]": 1000 * a.bias, "noise floor [mrad]": 1000 * a.floor}
        for a, b in zip(tables["nominal e"], tables["its own e"], strict=True)
    ])  # fmt: skip
    worst = max(tables["nominal e"], key=lambda g: g.rms).column
    series = {"log": log["joint_pos"].column(worst)}
    for name, one in replays.items():
        series[f"replay, {name}"] = one.values["joint_pos"][0][:, one.columns["joint_pos"].index(worst)]
    page.lines(f"The joint with the largest gap: {label(worst)}", log["joint_pos"].t, series, "time [s]", "angle [rad]",
               dashed=[n for n in series if n != "log"])  # fmt: skip
    return page


def _unknowns(sim: Sim, e: E) -> tuple[list[tuple[str, float, float, float]]]:
    """Rows (label, value, low, high) of the recorded world, each scaled to 0..1 between the Param's bounds."""
    prior = sim.params.prior().interval(0.9)
    values = sim.params.flatten(e)[3 % sim.worlds]
    rows = []
    for name, value, low, high in zip(sim.params.names, values, sim.params.low, sim.params.high, strict=True):
        span = (high - low) or 1.0
        a, b = prior[name]
        rows.append((name, (value - low) / span, (a - low) / span, (b - low) / span))
    return (rows,)
