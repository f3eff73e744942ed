"""Random numbers that belong to a world and a name, not to the order in which they were asked for.

    u[i] = Philox(key = hash(seed, path, stream)) at counter i        world i of a named stream, uniform in (0, 1)

Two consequences that the rest of the package relies on: the first 64 of 256 worlds are the 64 worlds of the same seed,
and adding, removing or reordering names leaves the draws of all other names alone. Everything else (normals,
truncated normals, choices) is a function of these uniforms.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from surefoot.errors import InputError


def seed_of(rng: int | np.random.Generator) -> int:
    """Seed of one batch of draws: the integer itself, or the next integer of a generator (which moves on)."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return int(rng)
    raise InputError(f"a seed is a whole number from 0 or a numpy Generator, not {rng!r}")


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Uniform numbers of `n` worlds, one stream for each name.

    Attributes:
        n: number of worlds.
        seed: what `seed_of` gave.
        path: set by `below`, so that a part inside a part has streams of its own.
    """

    n: int
    seed: int
    path: str = ""

    def __post_init__(self):
        if isinstance(self.n, bool) or not isinstance(self.n, int | np.integer) or self.n < 0:
            raise InputError(f"the number of worlds is a whole number from 0, not {self.n!r}")

    def uniform(self, stream: str) -> np.ndarray:
        """Uniform in the open interval (0, 1), float64, (n,): multiples of 2⁻⁵² plus a half step, never 0 or 1."""
        text = f"{self.seed}|{self.path}|{stream}".encode()
        key = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")
        raw = np.random.Philox(key=key).random_raw(int(self.n))  # 64 random bits each
        return ((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def below(self, name: str) -> "Draws":
        """The same worlds with streams that are independent of the ones here."""
        return replace(self, path=f"{self.path}/{name}")


def draws(n: int, rng: int | np.random.Generator) -> Draws:
    """Draws of `n` worlds from a seed or a generator."""
    return Draws(n=n, seed=seed_of(rng))
