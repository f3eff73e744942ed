"""Rates, gaps and delays of a recorded run, and whether its channels have the contract's columns."""

import numpy as np

from surefoot.contract.channels import of_joints
from surefoot.deploy.findings import Notes, listed
from surefoot.deploy.recorded_run import Run

RATE = 0.05
"""Relative error of the median period that is still the same rate."""
JITTER = 0.35
"""Largest 99 % deviation of a period, relative to it."""
GAP = 2.5
"""A period longer than this many medians is a gap."""
GAPS = 3
"""As many gaps are a finding."""


def check_columns(run: Run, notes: Notes) -> None:
    """Every channel that the contract knows has its columns, and finite samples."""
    for channel in run.log:
        want = run.contract.columns(channel.name)
        if channel.nan and np.isnan(channel.values).any():
            share = float(np.isnan(channel.values).mean())
            notes.find("driver", channel.name, "not finite", f"{100 * share:.3g} % of its samples are NaN")
        known = of_joints(channel.name) or channel.name in run.sources
        if want is None or not known or channel.name.endswith("_target") or channel.name not in run.sources:
            continue
        missing, more = [c for c in want if c not in channel.columns], [c for c in channel.columns if c not in want]
        if missing or more:
            parts = [f"{listed(missing)} missing"] * bool(missing) + [f"{listed(more)} unknown"] * bool(more)
            detail = f"{len(channel.columns)} columns, the contract has {len(want)}: {'; '.join(parts)}"
            notes.find("driver", channel.name, "count", detail, missing or more)
    for source in run.sources:
        if source not in run.log:
            notes.find("driver", source, "missing", "the policy reads it, the log does not hold it")


def check_timing(run: Run, notes: Notes) -> None:
    """The policy's rate, jitter and gaps; the age of readings where the run recorded it."""
    if len(run.t) < 5:
        notes.unchecked.append(f"timing: the log holds {len(run.t)} policy steps")
        return
    period = np.diff(run.t)
    within = period[period < 0.5]
    median, meant = float(np.median(within)), run.contract.control_dt
    notes.checked.append(f"timing: the policy ran at {1 / median:.4g} Hz, the contract says {1 / meant:.4g} Hz")
    if abs(median / meant - 1) > RATE:
        notes.find(
            "timing",
            "control_dt",
            "rate",
            f"the policy ran at {1 / median:.4g} Hz, it was trained at {1 / meant:.4g} Hz",
        )
    gaps = period[(period > GAP * median) & (period < 0.5)]
    if len(gaps) >= GAPS:
        notes.find(
            "timing", "control_dt", "gaps", f"{len(gaps)} gaps of up to {1e3 * gaps.max():.3g} ms between policy steps"
        )
    calm = np.abs(within[within <= GAP * median] - median)
    if len(calm) and (spread := float(np.quantile(calm, 0.99))) > JITTER * median:
        notes.find(
            "timing",
            "control_dt",
            "jitter",
            f"1 % of the periods are off by more than {1e3 * spread:.3g} ms of {1e3 * median:.3g} ms",
        )
    _readings(run, notes)


def _readings(run: Run, notes: Notes) -> None:
    """Gaps in the raw readings, and their age when they were used."""
    for source in run.sources:
        if source not in run.log or len(run.log[source]) < 5:
            continue
        step = np.diff(run.log[source].t)
        gaps = step[step > max(GAP * float(np.median(step)), run.contract.control_dt * 1.5)]
        if len(gaps) >= GAPS:
            notes.find(
                "timing", source, "gaps", f"{len(gaps)} gaps of up to {1e3 * gaps.max():.3g} ms between readings"
            )
    if "timing" in run.log and "age" in run.log["timing"].columns:
        age = float(np.median(run.log["timing"].column("age")))
        notes.checked.append(f"timing: readings were {1e3 * age:.3g} ms old when they were used (median)")
        if age > run.contract.control_dt:
            words = f"readings were {1e3 * age:.3g} ms old when used, the control period is {1e3 * run.contract.control_dt:.3g} ms"
            notes.find("timing", "age", "delayed", words)
