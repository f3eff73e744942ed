"""A fit as one offline page: values with intervals, what is confounded, traces over their replay, and what the residual shows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefoot.identify.fit import Fit, Score
from surefoot.identify.fit_table import LEARNT, misfit_lines, notes_of, rows_of, run_rows, score_rows
from surefoot.identify.misfit import LEVEL, own_sizes
from surefoot.identify.quantities import SUPPLY, features
from surefoot.identify.residuals import Problem
from surefoot.identify.solve import settle
from surefoot.identify.windows import cut
from surefoot.logs import Log
from surefoot.report import Page
from surefoot.sim import Sim

TRACES = 6
"""Columns whose traces are shown, those with the largest residual over noise."""
LAGS = 100
GAIN = 0.1
"""Share by which a fit must bring the replay nearer to the logs to be called good."""
WORSE = 0.01
"""Share by which the error of a column must grow to be called worse."""
COLOURS = {"fitted": 0, "nominal": 1, "log": 6}
"""One colour a name on the whole page; dots of the intervals have 0 and their diamonds 1."""


def report(sim: Sim, logs: Sequence[Log], fit: Fit, *, held_out: Sequence[Log] | float = 0.25, **settings: Any) -> Page:
    """The page of a fit to `logs`; held_out, window, stride, start and hold as they were given to `identify`."""
    options = {k: settings[k] for k in ("window", "stride") if k in settings}
    windows = cut(sim, logs, channels=fit.provenance["channels"], held_out=held_out, **options)
    more = {k: settings[k] for k in ("start", "hold", "fixed", "stated") if k in settings}
    problem = Problem(sim, windows, only=list(fit.params), apart=tuple(fit.runs[0].values) if fit.runs else (), **more)
    problem.sigma = np.array(fit.provenance["sigma"])
    facts = {
        "robot": sim.robot.name,
        "logs": ", ".join(log.hash[:12] for log in windows.logs),
        "seed": fit.provenance["seed"],
    }
    subtitle = f"{sim.robot.title}, {fit.provenance['seconds']:.3g} s of logs, {len(fit.names)} scalars"
    page = Page("What do these logs say about the robot?", subtitle=subtitle, provenance=facts)
    _verdict(page, fit)
    _values(page, fit)
    _confounding(page, fit)
    _traces(page, problem, fit)
    _residuals(page, problem, fit)
    return page


def _verdict(page: Page, fit: Fit) -> None:
    """One sentence on the errors, one on each thing that must not be overlooked."""
    judged = [s for s in fit.scores if s.windows == "held out"] or list(fit.scores)
    if judged:
        page.callout(*verdict(judged))
    if fit.at_bound:
        page.callout(
            "warning", f"At a bound: {', '.join(fit.at_bound)}. Widen the bounds, or the model lacks something."
        )
    for note in notes_of(fit):
        page.callout("warning", note)
    unknown = [c for c in fit.unidentified if c.shrink > LEARNT]
    if unknown:
        page.callout("warning", "Not identified: " + " ".join(f"{c.combination}." for c in unknown))


def verdict(judged: Sequence[Score]) -> tuple[str, str]:
    """Level and words of what a fit gained on the windows it is judged on.

    It is good where the replay came nearer by GAIN, or as near as the sensors can tell, and no column got worse; a warning where it
    is no nearer; between the two it is only noted.
    """
    before, after = (
        float(np.sqrt(np.mean([getattr(s, k) ** 2 / max(s.floor, 1e-300) ** 2 for s in judged])))
        for k in ("before", "after")
    )
    worse = [s for s in judged if s.after > (1 + WORSE) * s.before and s.after > LEVEL * s.floor]
    gain = 1 - after / max(before, 1e-300)
    words = (
        f"On {judged[0].windows} windows the replay is {after:.3g} noise floors away from the logs, with the nominal values "
        f"{before:.3g}"
    )
    if after <= LEVEL:
        level, words = "good", f"{words}: as near as the sensors can tell."
    elif after >= before:
        level, words = "warning", f"{words}: no nearer."
    else:
        little = gain < GAIN
        much = f", which is little: a fit is called good from {100 * GAIN:g} % on" if little else ""
        level, words = "note" if little else "good", f"{words}: {100 * gain:.2g} % nearer{much}."
    if worse:
        names = [f"{s.channel} of {s.column}" for s in worse]
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        level = "note" if level == "good" else level
        words += f" Worse than with the nominal values: {', '.join(names[:4])}{more}."
    return level, words


def _values(page: Page, fit: Fit) -> None:
    page.text("## Values")
    rows = rows_of(fit)
    page.table([row[:8] for row in rows[1:]], columns=("scalar", *rows[0][1:7], "remark"))
    span = fit.params.high - fit.params.low
    at = (fit.values - fit.params.low) / span
    ends = (fit.intervals() - fit.params.low[:, None]) / span[:, None]
    nominal = np.clip((fit.params.nominal - fit.params.low) / span, 0, 1)
    page.intervals(
        "90 % intervals between the bounds",
        [(name, at[i], min(ends[i, 0], at[i]), max(ends[i, 1], at[i])) for i, name in enumerate(fit.names)],
        "position between the bounds (0 low, 1 high)",
        words=("fitted", "nominal"),
        reference={name: float(nominal[i]) for i, name in enumerate(fit.names)},
    )
    if fit.runs:
        rows = run_rows(fit)
        page.table(
            rows[1:], columns=rows[0], caption="in each recording; above are their mean and the width of the next one"
        )
    if fit.scores:
        page.text("## Errors before and after")
        rows = score_rows(fit)
        page.table(rows[1:], columns=rows[0], caption="root mean square of log minus replay")


def _confounding(page: Page, fit: Fit) -> None:
    page.text("## What cannot be told apart")
    if len(fit.names) > 1:
        sd = np.sqrt(np.diag(fit.deviation))
        correlation = fit.deviation / np.outer(sd, sd)
        page.heatmap("Correlations of the fitted scalars", correlation, rows=fit.names, columns=fit.names, middle=0.0)
    if not fit.unidentified:
        page.text("Every combination of the fitted scalars is determined by these logs.")
        return
    rows = [(", ".join(c.names), c.combination, c.experiment, c.shrink) for c in fit.unidentified]
    page.table(rows, columns=("scalars", "what the logs allow", "experiment that would tell", "width left"))


def _traces(page: Page, problem: Problem, fit: Fit) -> None:
    """Log, nominal replay and fitted replay of the worst columns, window after window."""
    page.text("## Traces over their replay")
    rows, rollouts = np.arange(len(problem.windows)), problem.rollouts
    fitted = problem.s_of(fit.e, fit.runs)
    parts = {"fitted": problem.predict(fitted, rows, settle(problem, fitted, rows)[None])[0]}
    parts["nominal"] = problem.predict(problem.nominal, rows, settle(problem, problem.nominal, rows)[None])[0]
    gap = np.where(rollouts.seen, rollouts.y - parts["fitted"], 0.0)[problem.rows]
    worst = np.argsort(-own_sizes(problem, gap / problem.deviation(problem.rows)) / problem.floor)[:TRACES]
    for i in sorted(worst):
        channel, column, unit = rollouts.labels[i]
        here = rollouts.column == i
        x, order = _axis(problem, here)
        drawn = {"nominal": parts["nominal"], "log": rollouts.y, "fitted": parts["fitted"]}
        series = {name: _joined(y[:, here], order) for name, y in drawn.items()}
        page.lines(
            f"{channel} of {column}",
            x,
            series,
            "time, windows one after the other [s]",
            f"{channel} [{unit}]",
            dashed=("nominal",),
            colours=COLOURS,
        )
        gaps = {name: series["log"] - series[name] for name in ("nominal", "fitted")}
        page.lines(
            f"{channel} of {column}: log minus replay", x, gaps, "time, windows one after the other [s]", f"{channel} [{unit}]",
            dashed=("nominal",), colours={name: COLOURS[name] for name in gaps}, height=220,
        )  # fmt: skip


def _axis(problem: Problem, here: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A time axis on which windows follow each other with gaps, and which entries it shows."""
    t, seen = problem.rollouts.t[:, here], problem.rollouts.seen[:, here]
    length = np.array([w.stop - w.start for w in problem.windows.windows])
    first = np.concatenate([[0.0], np.cumsum(length)[:-1]])
    x = np.concatenate([(first[:, None] + t), (first + length)[:, None]], axis=1)
    shown = np.concatenate([seen, np.ones((len(seen), 1), dtype=bool)], axis=1)
    return np.maximum.accumulate(x[shown]), shown


def _joined(y: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Rows of windows in one series, a gap after each."""
    return np.concatenate([y, np.full((len(y), 1), np.nan)], axis=1)[shown]


def _residuals(page: Page, problem: Problem, fit: Fit) -> None:
    page.text("## What the residual still shows")
    lines = misfit_lines(fit)
    page.text("\n".join(f"- {line}" for line in lines) if lines else "No pattern beyond the noise was found.")
    s, rollouts = problem.s_of(fit.e, fit.runs), problem.rollouts
    offsets = settle(problem, s, problem.rows)
    r = problem.weighted(problem.predict(s, problem.rows, offsets[None]), problem.rows)[0]
    worst = np.argsort(-own_sizes(problem, r) / problem.floor)[: min(TRACES, 3)]
    for i in sorted(worst):
        _, column, unit = rollouts.labels[i]
        here, sigma = rollouts.column == i, problem.sigma[i]
        part, seen = r[:, here] * sigma, rollouts.seen[problem.rows][:, here]
        t = rollouts.t[problem.rows][:, here]
        labels = _labels(problem, column)
        with page.columns(2):
            for kind, x in features(problem, s, int(i), t).items():
                ok = seen & np.isfinite(x)
                if kind in labels and ok.any():
                    page.scatter(
                        f"{column}: residual over {kind}",
                        {"residual": (x[ok], part[ok])},
                        labels[kind],
                        f"residual [{unit}]",
                        height=240,
                    )
            page.lines(
                f"{column}: autocorrelation of the residual", *_autocorrelation(part, t), "lag [s]", "autocorrelation",
                note="white noise would fall to zero after the first sample",
            )  # fmt: skip


def _labels(problem: Problem, column: str) -> dict[str, str]:
    """Axis labels with units of the features that are shown, as the logs have them."""
    logs, command = problem.windows.logs, problem.sim.command_channel
    shared = [name for name in sorted(c.name for c in logs[0]) if all(name in log for log in logs)]

    def unit(name: str) -> str:
        channel = logs[0][name]
        return channel.units[channel.columns.index(column) if column in channel.columns else 0]

    out = {}
    for name in shared:
        kind = "voltage" if name in SUPPLY else "temperature" if "temperature" in name else ""
        if kind:
            out.setdefault(kind, f"{name} [{unit(name)}]")
    if "joint_pos" in shared:
        out |= {
            "position": f"position [{unit('joint_pos')}]",
            "speed": f"absolute speed [{unit('joint_pos')}/s]",
        }
    if all("joint_torque" in log and column in log["joint_torque"].columns for log in logs):
        out["load"] = f"load: measured joint_torque [{unit('joint_torque')}]"
    elif command in shared:
        pulled = "target minus position" if command == "joint_pos_target" else command
        out["load"] = f"load: {pulled} [{unit(command)}]"
    return out


def _autocorrelation(r: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    lags = min(LAGS, r.shape[1] - 1)
    step = max(1, (r.shape[1] // 2) // lags)
    total = max(float((r**2).sum()), 1e-300)
    chosen = np.arange(0, r.shape[1] // 2, step)
    values = [float((r[:, k:] * r[:, : r.shape[1] - k]).sum()) / total for k in chosen]
    period = float(t.max()) / max(r.shape[1] - 1, 1)
    return chosen * period, {"autocorrelation": np.array(values)}
