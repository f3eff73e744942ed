"""Intervals that are honest with few trials."""

from math import sqrt


def wilson(successes: int, trials: int, *, z: float = 1.6448536269514722) -> tuple[float, float]:
    """Wilson's interval of a share: all p with |p̂ - p| <= z sqrt(p (1 - p) / n); z = 1.645 covers 90 %.

    Unlike p̂ ± z sqrt(p̂ (1 - p̂) / n) it does not shrink to a point at 0 and 1.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"{successes} successes of {trials} trials: give at least one trial and no more successes than trials"
        )
    share, w = successes / trials, z * z / trials
    middle = (share + w / 2) / (1 + w)
    half = z / (1 + w) * sqrt(share * (1 - share) / trials + w / (4 * trials))
    return max(0.0, middle - half), min(1.0, middle + half)
