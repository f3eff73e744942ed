"""One recorded signal: a name, a unit, a clock, and samples at increasing times."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from surefoot.errors import InputError, choose, did_you_mean
from surefoot.logs.units import checked

ROLES = ("u", "y", "info")
LATEST = 1e10  # [s]; a larger time is not in seconds


def frozen(values: object, what: str) -> np.ndarray:
    """A read-only float64 copy of `values`; raises InputError when they are not numbers."""
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be numbers of one rectangular shape") from None
    array.setflags(write=False)
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class Channel:
    """A signal of T samples and k columns.

    Attributes:
        name: what is measured or commanded, "joint_pos" (standard names: docs/logs.md).
        unit: SI unit of all columns, or one per column separated by commas ("m, rad").
        t: times [s] on the channel's clock, finite and strictly increasing, (T,) read-only.
        values: samples, (T, k) read-only, finite; NaN only where `nan` says that it may be.
        columns: name of each column, usually the joint's, (k,).
        role: "u" a command sent to the robot, "y" a measurement, "info" anything else.
        clock: name of the clock that `t` was read from; channels of one clock can be compared.
        nan: True when NaN means "nothing was recorded here" (declared by whoever made the log).
    """

    name: str
    unit: str
    t: np.ndarray
    values: np.ndarray
    columns: tuple[str, ...]
    role: str = "y"
    clock: str = "robot"
    nan: bool = False

    def __post_init__(self) -> None:
        for what, word in (("name", self.name), ("clock", self.clock)):
            if not isinstance(word, str) or not word or word != word.strip() or "\n" in word:
                raise InputError(f"a channel's {what} must be one word or line of text, got {word!r}")
        choose(self.role, ROLES, f"a role of channel {self.name!r}")
        t = frozen(self.t, f"times of {self.name!r}")
        values = frozen(self.values, f"values of {self.name!r}")
        if values.ndim == 1:
            values = values[:, None]
        columns = (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)
        check_columns(self.name, columns)
        if t.ndim != 1 or values.shape != (len(t), len(columns)):
            raise InputError(
                f"channel {self.name!r} has times of shape {t.shape}, values of shape {values.shape} and "
                f"{len(columns)} columns: give (T,), (T, {len(columns)})"
            )
        check_times(self.name, t)
        check_values(self.name, columns, t, values, nan=self.nan)
        unit = checked(self.name, self.unit, len(columns))
        for field, value in (("t", t), ("values", values), ("columns", columns), ("unit", unit)):
            object.__setattr__(self, field, value)

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each column, (k,)."""
        parts = tuple(part.strip() for part in self.unit.split(","))
        return parts if len(parts) == len(self.columns) else parts * len(self.columns)

    @property
    def duration(self) -> float:
        """Time from the first to the last sample [s]."""
        return float(self.t[-1] - self.t[0])

    def __len__(self) -> int:
        return len(self.t)

    def column(self, name: str) -> np.ndarray:
        """Samples of one column by its name, (T,)."""
        if name not in self.columns:
            raise InputError(f"{name!r} is not a column of channel {self.name!r} {did_you_mean(name, self.columns)}")
        return self.values[:, self.columns.index(name)]

    def pick(self, columns: Iterable[str]) -> "Channel":
        """The same channel with only these columns, in this order."""
        columns = (columns,) if isinstance(columns, str) else tuple(columns)
        values = np.stack([self.column(name) for name in columns], axis=1)
        units = ", ".join(self.units[self.columns.index(name)] for name in columns)
        return replace(self, values=values, columns=columns, unit=units)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Channel):
            return NotImplemented
        same = all(getattr(self, field) == getattr(other, field) for field in DESCRIPTION)
        return same and np.array_equal(self.t, other.t) and np.array_equal(self.values, other.values, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]


DESCRIPTION = ("name", "unit", "columns", "role", "clock", "nan")
"""Fields of a channel that are not samples."""


def check_columns(name: str, columns: tuple[str, ...]) -> None:
    """Raise InputError unless the columns are distinct non-empty words; "t" is kept for the time."""
    if not columns or not all(isinstance(column, str) and column.strip() == column != "" for column in columns):
        raise InputError(f"channel {name!r} needs a name for each column, got {list(columns)}")
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise InputError(f"channel {name!r} has two columns named {twice[0]!r}")
    if "t" in columns:
        raise InputError(f"channel {name!r} has a column named 't', which is kept for the time: rename it")


def check_times(name: str, t: np.ndarray) -> None:
    """Raise InputError unless t (T,) is not empty, finite, in seconds, and strictly increasing."""
    if len(t) == 0:
        raise InputError(f"channel {name!r} has no samples")
    if not np.isfinite(t).all():
        raise InputError(
            f"channel {name!r} has a time that is not a finite number at sample {np.argmin(np.isfinite(t))}"
        )
    if np.abs(t[[0, -1]]).max() > LATEST:
        raise InputError(f"channel {name!r} has times up to {np.abs(t).max():.3g}, which are not seconds")
    step = np.diff(t)
    if (step > 0).all():
        return
    first = int(np.argmin(step > 0))
    if step[first] == 0:
        raise InputError(
            f"channel {name!r} has the same time {t[first]:.9g} s twice, at samples {first} and {first + 1} "
            f"({int((step == 0).sum())} such pairs)"
        )
    raise InputError(
        f"time goes backwards in channel {name!r}: {t[first]:.9g} s then {t[first + 1]:.9g} s "
        f"at sample {first + 1} ({int((step < 0).sum())} such steps)"
    )


def check_values(name: str, columns: tuple[str, ...], t: np.ndarray, values: np.ndarray, *, nan: bool) -> None:
    """Raise InputError on infinite values, and on NaN unless `nan` declares that they are meant."""
    finite = np.isfinite(values)
    bad = ~finite & ~np.isnan(values) if nan else ~finite
    if not bad.any():
        return
    row, column = (int(index) for index in np.argwhere(bad)[0])
    what = "NaN" if np.isnan(values[row, column]) else "an infinite value"
    raise InputError(
        f"channel {name!r} has {what} in column {columns[column]!r} at t = {t[row]:.9g} s "
        f"({int(bad.sum())} of {bad.size} values): repair the file, or declare the gap with nan = true"
    )
