# ruff: noqa: D102 (the methods of a piece are explained once, in Piece)
"""Joint distributions of several scalars: a normal in unconstrained coordinates, and weighted samples."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from surefoot.errors import InputError
from surefoot.params import normal
from surefoot.params.atoms import checked_weights, cumulated
from surefoot.params.axes import Axes, Columns, array, stacked
from surefoot.params.distribution import Limits
from surefoot.params.draws import Draws

MARGIN = 1e-9
"""How near to a bound, as a fraction of the range, a sample counts when it has a kernel; as in `Params.pack`."""


def columns_of(v: np.ndarray, labels: Iterable[str]) -> Columns:
    """(worlds, k) -> one column for each label."""
    return {label: v[..., k] for k, label in enumerate(labels)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaussian:
    """z ~ N(mean, covariance) in the unconstrained coordinates of `axes`: never outside the bounds.

        p(v) = N(z(v); mean, covariance) Π_k |dz_k/dv_k|

    Attributes:
        axes: bounds and scales of the k scalars.
        mean: (k,) in z.
        covariance: (k, k) in z, positive definite.
    """

    axes: Axes
    mean: np.ndarray
    covariance: np.ndarray

    def __post_init__(self):
        k = len(self.axes.labels)
        object.__setattr__(self, "mean", array(self.mean, (k,), "Gaussian: mean"))
        object.__setattr__(self, "covariance", array(self.covariance, (k, k), "Gaussian: covariance"))
        for label, free in zip(self.axes.labels, self.axes.free, strict=True):
            if not free:
                raise InputError(f"Gaussian: '{label}' has fixed or chosen values and cannot be normal: leave it out")
        sd = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        if not (sd > 0.0).all():
            label = self.axes.labels[int(np.argmin(sd))]
            raise InputError(f"Gaussian: the variance of '{label}' must be greater than zero: use condition to fix it")
        correlation = self.covariance / np.outer(sd, sd)
        if np.abs(correlation - correlation.T).max() > 1e-9:
            raise InputError("Gaussian: the covariance is not symmetric")
        if (least := float(np.linalg.eigvalsh(correlation)[0])) < 1e-13:
            raise InputError(
                f"Gaussian: the covariance is not positive definite (its correlations have the eigenvalue "
                f"{least:.3g}): some scalars are a combination of others or correlate beyond ±1"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        return self.axes.labels

    @property
    def _factor(self) -> np.ndarray:
        return np.linalg.cholesky(self.covariance)  # (k, k), lower

    def draw(self, draws: Draws) -> Columns:
        uniform = np.stack([draws.uniform(label) for label in self.labels], axis=-1)  # (n, k)
        z = self.mean + normal.quantile(uniform, -np.inf, np.inf) @ self._factor.T
        return columns_of(self.axes.from_z(z), self.labels)

    def log_prob(self, columns: Columns) -> np.ndarray:
        v = stacked(columns, self.labels)
        z = self.axes.to_z(v)
        legal = np.asarray(np.isfinite(z).all(axis=-1))  # (n,)
        white = np.linalg.solve(self._factor, (np.where(legal[:, None], z, self.mean) - self.mean).T)  # (k, n)
        log_norm = len(self.labels) * normal.HALF_LOG_2PI + np.log(np.diag(self._factor)).sum()
        density = -0.5 * (white**2).sum(0) - log_norm
        return np.where(legal, density + np.where(legal, self.axes.log_slope(v), 0.0), -np.inf)

    def _single(self, label: str) -> tuple[Axes, float, float]:
        k = self.labels.index(label)
        return self.axes.take([label]), float(self.mean[k]), float(np.sqrt(self.covariance[k, k]))

    def cdf(self, label: str, x: np.ndarray) -> np.ndarray:
        axis, mean, sd = self._single(label)
        return normal.cdf((axis.to_z(np.asarray(x)[..., None])[..., 0] - mean) / sd, -np.inf, np.inf)

    def quantile(self, label: str, p: np.ndarray) -> np.ndarray:
        axis, mean, sd = self._single(label)
        return axis.from_z((mean + sd * normal.quantile(p, -np.inf, np.inf))[..., None])[..., 0]

    def support(self, label: str) -> Limits:
        return self.axes.limits(label)

    def atomic(self, label: str) -> bool:
        return False

    def expected(self) -> dict[str, float]:
        t = np.linspace(-9.0, 9.0, 1801)[:, None]
        weight = np.exp(-0.5 * t[:, 0] ** 2)
        v = self.axes.from_z(self.mean + t * np.sqrt(np.diag(self.covariance)))  # (1801, k)
        return dict(zip(self.labels, (weight @ v / weight.sum()).tolist(), strict=True))

    def scaled(self, factor: float, limits: Mapping[str, Limits]) -> Self:
        """Stretch z about its mean; the bounds stay, so that the natural interval grows less near them."""
        return replace(self, covariance=self.covariance * factor**2)

    def keep(self, labels: Iterable[str]) -> Self:
        kept = [label for label in self.labels if label in set(labels)]
        k = [self.labels.index(label) for label in kept]
        return replace(self, axes=self.axes.take(kept), mean=self.mean[k], covariance=self.covariance[np.ix_(k, k)])

    def given(self, values: Mapping[str, float], kernel: float | None) -> tuple["Gaussian | None", float]:
        """Exact conditional: μ_r + C_rg C_gg⁻¹ (z_g − μ_g) and C_rr − C_rg C_gg⁻¹ C_gr."""
        known = [label for label in self.labels if label in values]
        rest = [label for label in self.labels if label not in values]
        columns = {label: np.array([values[label]]) for label in known}
        log_density = float(self.keep(known).log_prob(columns)[0])
        if not rest or log_density == -np.inf:
            return None, log_density
        r, g = [self.labels.index(x) for x in rest], [self.labels.index(x) for x in known]
        z = self.axes.take(known).to_z(stacked(columns, known))[0]
        gain = np.linalg.solve(self.covariance[np.ix_(g, g)], self.covariance[np.ix_(g, r)]).T  # (rest, known)
        left = self.covariance[np.ix_(r, r)] - gain @ self.covariance[np.ix_(g, r)]
        mean = self.mean[r] + gain @ (z - self.mean[g])
        return Gaussian(axes=self.axes.take(rest), mean=mean, covariance=0.5 * (left + left.T)), log_density

    def to_dict(self) -> dict[str, Any]:
        values = {"mean": self.mean.tolist(), "covariance": self.covariance.tolist()}
        return {"kind": "gaussian", **self.axes.to_dict(), **values}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        axes = Axes.from_dict(data, "gaussian")
        return cls(axes=axes, mean=data.get("mean", ()), covariance=data.get("covariance", ()))


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Rows that were seen together, each with a weight; with `jitter` each row has a normal kernel around it.

    Without jitter a draw is one of the rows and `log_prob` is the log of its weight (−inf elsewhere). With it, a draw
    is a row plus a step in the unconstrained coordinates with covariance jitter² C, C being that of the rows.

    Attributes:
        axes: bounds and scales of the k scalars.
        rows: (m, k), natural units.
        weights: (m,), sum 1.
        jitter: size of the kernel as a fraction of the rows' own spread; 0: none.
    """

    axes: Axes
    rows: np.ndarray
    weights: np.ndarray
    jitter: float = 0.0

    def __post_init__(self):
        k = len(self.axes.labels)
        rows = array(self.rows, (max(len(self.rows), 1), k), "Samples: rows")
        object.__setattr__(self, "rows", rows)
        weights = array(checked_weights(self.weights, len(rows), "Samples"), (len(rows),), "Samples: weights")
        object.__setattr__(self, "weights", weights)
        outside = (rows < self.axes.low) | (rows > self.axes.high)
        if outside.any():
            row, column = (int(x) for x in np.argwhere(outside)[0])
            low, high = self.axes.limits(label := self.axes.labels[column])
            raise InputError(f"Samples: '{label}' is {rows[row, column]:g} in row {row}, outside {low:g} to {high:g}")
        if not (np.isfinite(self.jitter) and self.jitter >= 0.0):
            raise InputError(f"Samples: jitter must be zero or more, not {self.jitter!r}")

    @property
    def labels(self) -> tuple[str, ...]:
        return self.axes.labels

    @property
    def _smooth(self) -> np.ndarray:
        """Columns that a kernel can move: continuous and not all equal, (k,) bool."""
        return self.axes.free & (np.ptp(self.rows[self.weights > 0.0], axis=0) > 0.0)

    def _z(self, labels: Iterable[str], rows: np.ndarray) -> np.ndarray:
        z_end = np.log(MARGIN)
        return np.clip(self.axes.take(labels).to_z(rows), z_end, -z_end)

    def _kernel(self) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Labels with a kernel, their rows in z (m, s), and the kernel's Cholesky factor (s, s)."""
        names = [label for label, smooth in zip(self.labels, self._smooth, strict=True) if smooth]
        z = self._z(names, self.rows[:, self._smooth])
        centred = z - self.weights @ z
        covariance = (centred * self.weights[:, None]).T @ centred
        # A tiny ridge keeps rows that lie in a plane drawable; it is far below any kernel that matters.
        ridge = 1e-12 * np.diag(np.diag(covariance) + 1e-300)
        return names, z, self.jitter * np.linalg.cholesky(covariance + ridge)

    def draw(self, draws: Draws) -> Columns:
        pick = np.searchsorted(cumulated(self.weights), draws.uniform("row of " + ",".join(self.labels)))
        pick = np.minimum(pick, int(np.flatnonzero(self.weights)[-1]))
        rows = self.rows[pick]
        if self.jitter and self._smooth.any():
            names, z, factor = self._kernel()
            uniform = np.stack([draws.uniform("jitter of " + name) for name in names], axis=-1)
            steps = normal.quantile(uniform, -np.inf, np.inf) @ factor.T
            rows[:, self._smooth] = self.axes.take(names).from_z(z[pick] + steps)
        return columns_of(rows, self.labels)

    def log_prob(self, columns: Columns) -> np.ndarray:
        v = stacked(columns, self.labels)  # (n, k)
        smooth = self._smooth if self.jitter else np.zeros(len(self.labels), bool)
        with np.errstate(divide="ignore"):
            log_weight = np.log(self.weights)
        kernel = self._log_kernel(v[:, smooth]) if smooth.any() else np.zeros((len(v), 1))
        out = np.empty(len(v))
        for i, row in enumerate(v[:, ~smooth]):
            same = np.isclose(self.rows[:, ~smooth], row, rtol=1e-12, atol=0.0).all(-1)
            out[i] = np.logaddexp.reduce(np.where(same, log_weight, -np.inf) + kernel[i])
        return out

    def _log_kernel(self, v: np.ndarray) -> np.ndarray:
        """Log density of v (n, s) under the kernel of each row, (n, m), natural units."""
        names, z, factor = self._kernel()
        axes = self.axes.take(names)
        legal = np.isfinite(axes.to_z(v)).all(-1)
        white = np.linalg.solve(factor, z.T).T  # (m, s)
        asked = np.linalg.solve(factor, self._z(names, v).T).T  # (n, s)
        log_norm = len(names) * normal.HALF_LOG_2PI + np.log(np.diag(factor)).sum()
        scale = np.where(legal, np.where(legal, axes.log_slope(v), 0.0) - log_norm, -np.inf)  # (n,)
        return np.stack([scale[i] - 0.5 * ((white - x) ** 2).sum(-1) for i, x in enumerate(asked)])

    def _marginal_kernel(self, label: str) -> tuple[np.ndarray, float]:
        """Rows of one label in z, (m,), and the standard deviation of its kernel there."""
        names, z, factor = self._kernel()
        j = names.index(label)
        return z[:, j], float(np.linalg.norm(factor[j]))

    def _has_kernel(self, label: str) -> bool:
        return bool(self.jitter and self._smooth[self.labels.index(label)])

    def cdf(self, label: str, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, float)
        if self._has_kernel(label):
            z, sd = self._marginal_kernel(label)
            asked = self.axes.take([label]).to_z(x[..., None])
            return normal.cdf((asked - z) / sd, -np.inf, np.inf) @ self.weights
        return (self.rows[:, self.labels.index(label)] <= x[..., None]) @ self.weights

    def quantile(self, label: str, p: np.ndarray) -> np.ndarray:
        p = np.asarray(p, float)
        if self._has_kernel(label):
            z, sd = self._marginal_kernel(label)
            below = lambda y: normal.cdf((y[..., None] - z) / sd, -np.inf, np.inf) @ self.weights  # noqa: E731
            found = normal.invert(below, p, z.min() - 40.0 * sd, z.max() + 40.0 * sd)
            return self.axes.take([label]).from_z(found[..., None])[..., 0]
        values = self.rows[:, self.labels.index(label)]
        order = np.argsort(values, kind="stable")
        k = np.searchsorted(cumulated(self.weights[order]) + 1e-12, p)
        return values[order][np.minimum(k, len(values) - 1)]

    def support(self, label: str) -> Limits:
        if self._has_kernel(label):
            return self.axes.limits(label)
        values = self.rows[:, self.labels.index(label)]
        return float(values.min()), float(values.max())

    def atomic(self, label: str) -> bool:
        return not self._has_kernel(label)

    def expected(self) -> dict[str, float]:
        out = {}
        nodes, node_weights = np.polynomial.hermite_e.hermegauss(24)
        for k, label in enumerate(self.labels):
            if self._has_kernel(label):
                z, sd = self._marginal_kernel(label)
                v = self.axes.take([label]).from_z((z[:, None] + sd * nodes)[..., None])[..., 0]
                out[label] = float(self.weights @ v @ node_weights / node_weights.sum())
            else:
                out[label] = float(self.weights @ self.rows[:, k])
        return out

    def scaled(self, factor: float, limits: Mapping[str, Limits]) -> Self:
        """Stretch the rows about their weighted mean in z; the bounds and the chosen values stay."""
        names = [label for label, free in zip(self.labels, self.axes.free, strict=True) if free]
        z = self._z(names, self.rows[:, self.axes.free])
        centre = self.weights @ z
        rows = self.rows.copy()
        rows[:, self.axes.free] = self.axes.take(names).from_z(centre + factor * (z - centre))
        return replace(self, rows=rows)

    def keep(self, labels: Iterable[str]) -> Self:
        kept = [label for label in self.labels if label in set(labels)]
        k = [self.labels.index(label) for label in kept]
        return replace(self, axes=self.axes.take(kept), rows=self.rows[:, k])

    def given(self, values: Mapping[str, float], kernel: float | None) -> tuple["Samples | None", float]:
        """Weight each row by a normal kernel of its distance in z; see `Prior.condition`."""
        known = [label for label in self.labels if label in values]
        weights, log_density = self._near(known, np.array([values[label] for label in known]), kernel)
        rest = [label for label in self.labels if label not in values]
        if not rest:
            return None, log_density
        kept = weights > 0.0
        return replace(self.keep(rest), rows=self.keep(rest).rows[kept], weights=weights[kept]), log_density

    def _near(self, known: list[str], asked: np.ndarray, kernel: float | None) -> tuple[np.ndarray, float]:
        """Weights of the rows near the known values, (m,), and the log density there."""
        columns = [self.labels.index(label) for label in known]
        smooth = self._smooth[columns]
        rows = self.rows[:, columns]
        same = np.isclose(rows[:, ~smooth], asked[~smooth], rtol=1e-9, atol=0.0).all(-1)
        names = [label for label, s in zip(known, smooth, strict=True) if s]
        z = self._z(names, rows[:, smooth])
        sd = np.sqrt(self.weights @ (z - self.weights @ z) ** 2)
        c, effective = len(names), 1.0 / float((self.weights**2).sum())
        if kernel is None:
            kernel = self.jitter or (4.0 / (c + 2.0) / effective) ** (1.0 / (c + 4.0))
        here = self._z(names, asked[None, smooth])  # (1, c)
        steps = (z - here) / (kernel * sd)  # (m, c)
        distance = np.where(same, np.sqrt((steps**2).sum(-1)), np.inf)
        said = ", ".join(f"{label}={value:g}" for label, value in zip(known, asked, strict=True))
        if distance.min() > 3.0:
            raise InputError(
                f"no sample lies near {said}: the nearest is {distance.min():.3g} kernel widths away (3 are allowed, a "
                f"width is {kernel:.3g} standard deviations of the samples): give a wider kernel= or more samples"
            )
        weights = self.weights * np.exp(-0.5 * distance**2)
        total = weights.sum()
        log_norm = c * normal.HALF_LOG_2PI + np.log(kernel * sd).sum()
        axes = self.axes.take(names)
        slope = float(axes.log_slope(axes.from_z(here))[0])
        return weights / total, float(np.log(total) - log_norm + slope)

    def to_dict(self) -> dict[str, Any]:
        values = {"jitter": float(self.jitter), "weights": self.weights.tolist(), "rows": self.rows.tolist()}
        return {"kind": "samples", **self.axes.to_dict(), **values}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        axes = Axes.from_dict(data, "samples")
        return cls(
            axes=axes, rows=data.get("rows", ()), weights=data.get("weights", ()), jitter=data.get("jitter", 0.0)
        )
