"""Values of a channel at other times: held, or on a straight line between samples; never beyond the ends."""

from dataclasses import replace

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.logs.channel import Channel

METHODS = ("hold", "linear")


def common_grid(channels: tuple[Channel, ...], rate: float) -> np.ndarray:
    """Times at `rate` [Hz] over the span that all channels cover, (N,) [s]."""
    if not np.isfinite(rate) or rate <= 0:
        raise InputError(f"rate must be a positive number of Hz, got {rate}")
    start = max(float(channel.t[0]) for channel in channels)
    stop = min(float(channel.t[-1]) for channel in channels)
    if stop < start:
        first, last = (f(channels, key=lambda c: c.t[0]).name for f in (min, max))
        raise InputError(f"channels {first!r} and {last!r} do not overlap in time: window or select first")
    # The tolerance keeps the last sample when the span is a whole number of periods up to rounding.
    count = int(np.floor((stop - start) * rate * (1 + 1e-12) + 1e-9)) + 1
    if count > 10**8:
        raise InputError(f"{rate:g} Hz over {stop - start:g} s are {count} samples: lower the rate")
    return np.minimum(start + np.arange(count) / rate, stop)


def resampled(channel: Channel, t: np.ndarray, method: str) -> Channel:
    """The channel at times `t` (N,) [s]; "hold" takes the last sample at or before, "linear" interpolates.

    Raises InputError when `t` leaves the channel's span: nothing is extrapolated.
    """
    choose(method, METHODS, "a resampling method")
    if len(t) == 0 or t[0] < channel.t[0] or t[-1] > channel.t[-1]:
        asked = f"{t[0]:.9g} to {t[-1]:.9g} s" if len(t) else "no times"
        raise InputError(
            f"channel {channel.name!r} covers {channel.t[0]:.9g} to {channel.t[-1]:.9g} s, asked for {asked}: "
            "nothing is extrapolated"
        )
    before = np.searchsorted(channel.t, t, side="right") - 1
    if method == "hold" or len(channel) == 1:
        return replace(channel, t=t, values=channel.values[before])
    before = np.minimum(before, len(channel) - 2)
    t0, t1 = channel.t[before], channel.t[before + 1]
    weight = ((t - t0) / (t1 - t0))[:, None]
    a, b = channel.values[before], channel.values[before + 1]
    if channel.name == "quat":
        return replace(channel, t=t, values=_between_rotations(a, b, weight))
    values = a + weight * (b - a)
    values = np.where(weight == 1, b, np.where(weight == 0, a, values))
    return replace(channel, t=t, values=values)


def _between_rotations(a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Unit quaternions between a and b (N, 4), on the shorter arc, normalised."""
    b = np.where((a * b).sum(axis=1, keepdims=True) < 0, -b, b)
    mixed = (1 - weight) * a + weight * b
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
