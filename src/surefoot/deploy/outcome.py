"""How a run went, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)
FINISHED, OPERATOR, SAFETY = "finished", "operator", "safety"


def spread_of(periods: Sequence[float], period: float) -> dict[str, float]:
    """Percentiles of |period − nominal| [s], "p50" to "max"; empty without ticks."""
    if len(periods) == 0:
        return {}
    off = np.abs(np.asarray(periods) - period)
    names = [f"p{p:g}" for p in PERCENTILES[:-1]] + ["max"]
    return {name: float(value) for name, value in zip(names, np.percentile(off, PERCENTILES), strict=True)}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run did and how it ended.

    Attributes:
        ended: "finished", "operator" or "safety".
        reason: why, in a sentence.
        seconds: how long the policy ran [s].
        stages: (name, time of its beginning since the start [s]), in order.
        rate: of the inner loop [Hz].
        ticks, policy_ticks: of the inner loop, of the policy.
        overruns: ticks more than half a period late; `missed`: ticks left out because of them.
        elapsed: from the first tick to the last [s].
        jitter: percentiles of |period − nominal| [s]; empty in lockstep.
        state: of the safety layer at the end.
        events: its sentences, each after its time; `event_count` counts all of them.
        worst_tilt: largest angle between the body's z axis and the vertical while the policy ran [rad], or None.
        log: the recording, or None; `log_failed` says why it is not whole.
        lost: channel -> samples that the log could not take since their times did not increase.
        score: in shadow mode, RMS difference to the other controller per motor, in the target's unit.
    """

    ended: str
    reason: str
    seconds: float
    stages: tuple[tuple[str, float], ...]
    rate: float
    ticks: int
    policy_ticks: int
    overruns: int = 0
    missed: int = 0
    elapsed: float = 0.0
    jitter: Mapping[str, float] = field(default_factory=dict)
    state: str = "ok"
    events: tuple[str, ...] = ()
    event_count: int = 0
    worst_tilt: float | None = None
    log: Path | None = None
    log_failed: str = ""
    lost: Mapping[str, int] = field(default_factory=dict)
    score: Mapping[str, float] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 finished, 1 ended by the safety layer, 130 by the operator."""
        return {FINISHED: 0, SAFETY: 1, OPERATOR: 130}[self.ended]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain |= {"stages": [list(stage) for stage in self.stages], "events": list(self.events)}
        plain |= {name: dict(plain[name]) for name in ("jitter", "lost", "score")}
        return plain | {"log": None if self.log is None else str(self.log), "exit_code": self.exit_code}

    def __str__(self) -> str:
        rows = [
            ("ended", f"{self.ended}: {self.reason}"),
            ("stages", ", ".join(f"{name} {time:.1f} s" for name, time in self.stages)),
            ("policy", f"{self.seconds:.2f} s, {self.policy_ticks} steps"),
            ("loop", f"{self.ticks} ticks at {self.rate:g} Hz, {self.overruns} overruns, {self.missed} ticks left out"),
        ]
        if self.jitter:
            rows.append(("jitter", ", ".join(f"{name} {1e6 * value:.0f} µs" for name, value in self.jitter.items())))
        if self.worst_tilt is not None:
            rows.append(("worst tilt", f"{np.degrees(self.worst_tilt):.1f}°"))
        rows.append(("safety", f"{self.state}, {self.event_count} events"))
        rows += [("", sentence) for sentence in self.events[:5]]
        rows += [("shadow", f"{name} off by {value:.4g} RMS") for name, value in self.score.items()]
        if self.log is not None:
            rows.append(("log", str(self.log) + (f" (not whole: {self.log_failed})" if self.log_failed else "")))
        rows += [
            ("", f"{count} samples of {name!r} had times that do not increase: not in the log")
            for name, count in self.lost.items()
        ]
        return "\n".join(f"{title:<11} {text}" for title, text in rows)
