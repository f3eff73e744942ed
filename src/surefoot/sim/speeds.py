"""Speeds that are had from angles, as encoders without tachometers give them: late, and noisy by the steps of the angles.

    τ ds/dt = v - s                                   s: what is delivered   v: the joint's speed   τ: velocity_filter
    σ_s² = 2 (1 - a)² / (1 + a) (σ / T)²              a = exp(-T / τ)     σ: white error of an angle

A driver differences angles that it reads every T seconds and lets the differences through a low-pass. Under an even acceleration its
speeds are late by τ. Angles in steps of Q err by Q / √12 while several steps fall within τ; of slower joints each step is a pulse of its
own, and at rest nothing is wrong: σ² = Q²/12 min(1, 6 |v| max(τ, T) / Q).
Functions work on arrays of the engine's own library, NumPy or torch.
"""

from typing import Any

from array_api_compat import array_namespace

Array = Any


def low_passed(out: Array, before: Array, now: Array, late: Array, dt: float) -> Array:
    """s after dt [s], from s = `out`, while v goes evenly from `before` to `now`; where `late`, which is τ [s], is 0: `now`."""
    xp = array_namespace(late)
    safe = xp.where(late > 0, late, xp.ones_like(late))
    a = xp.exp(-dt / safe)
    ramp = safe / dt * (1 - a)
    return xp.where(late > 0, a * out + (ramp - a) * before + (1 - ramp) * now, now)


def noise_of_differences(variance: Array, late: Array, period: Array) -> Array:
    """σ_s (worlds, joints), for σ² = `variance` (worlds, joints), τ = `late` (worlds, 1) and T = `period` (joints,); 0 where τ is 0."""
    xp = array_namespace(variance)
    a = xp.exp(-period / xp.where(late > 0, late, xp.ones_like(late)))
    size = xp.sqrt(2 * variance / (1 + a)) * (1 - a) / period
    return xp.where(late > 0, size, xp.zeros_like(size))


def late_records(qvel: Array, dofs: Any, late: Array, dt: float, first: Array | None = None) -> Array:
    """Records of qvel (worlds, N + 1, nv), `dt` apart, with s in place of v in some columns; late: τ (worlds, 1).

    s begins with `first` (worlds, columns): it shows the time before the records, of which they know nothing. None: as if the motion of
    the first two records had gone on for ever, which is wrong for several τ where a command jumped at the first.
    """
    out, v = array_namespace(qvel).asarray(qvel, copy=True), qvel[..., dofs]
    s = v[:, 0] - late * (v[:, min(1, v.shape[1] - 1)] - v[:, 0]) / dt if first is None else first
    out[:, 0, dofs] = s
    for k in range(1, v.shape[1]):
        s = low_passed(s, v[:, k - 1], v[:, k], late, dt)
        out[:, k, dofs] = s
    return out
