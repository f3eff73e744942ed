"""What the logs could not tell apart, by name, and the experiment that would.

    eigenvectors of prior^(-1/2) V prior^(-1/2) with an eigenvalue near 1: nothing was learnt in that direction

A direction with one name in it is a Param without effect in these logs; with several it is an exchange: one can grow while the
other shrinks, and the logs look the same.
"""

from collections.abc import Sequence

import numpy as np

from surefoot.identify.fit import Confounded
from surefoot.params import Params

LEARNT = 0.5
"""A direction whose standard deviation shrank to less than this is identified."""
PART = 0.35
"""Share of the largest entry from which a scalar is named in a direction."""
LEAST = 0.05
"""Share of the largest entry below which a scalar is not named, whatever its effect."""
EXCHANGE = 0.98
"""Correlation from which two identified scalars are named as hardly separated."""
PAIRS_SHOWN = 4
"""Pairs of hardly separated scalars that are named, the closest ones."""

SINGLE = {
    "contact": "load and slide the contact: walk, push sideways until the feet slip, or drop the robot",
    "geometry": "measure it, or move all joints through wide angles with the base tracked",
    "inertia": "move faster and against gravity in several poses, or weigh the part",
    "actuator": "drive the joint harder: faster reversals, higher torque, several gains",
    "sensor": "compare with a second sensor or a known pose, and record at rest",
    "environment": "record where it acts: another slope, wind, or temperature",
    "process": "repeat the same motion several times",
    "numerics": "it is a property of the simulator: fix it",
}
"""By gap group, the experiment that shows a Param without effect in the logs."""
KINDS = {
    "torque_limit": "ask for more torque than the limit: large steps at a high gain or with a load",
    "speed_limit": "run the joint at full speed without load",
    "voltage": "run the joint at full speed without load",
    "voltage_sag": "load several motors at once and record the supply voltage",
    "backlash": "reverse slowly and often under small torque, with a sensor on the link's side",
    "coulomb": "move slowly with many reversals",
    "damping": "move fast at constant speed",
    "stribeck": "move very slowly with many stops",
    "load_friction": "repeat the motion with several loads",
    "command_delay": "send steps or a fast chirp",
    "sensor_delay": "send steps or a fast chirp, and stamp both sides on one clock",
    "armature": "accelerate hard: a chirp to high frequency",
    "encoder_bias": "rest in known poses, or move against gravity with a soft position gain",
    "thermal": "record long enough for the motors to warm up, with their temperature",
    "friction": "push or walk until the feet slip",
    "stop_shift": "run the joint into its stop",
    "stop_softness": "run the joint into its stop, gently and hard",
    "stop_damping": "run the joint into its stop and let it spring back",
    "coulomb_slope": "move slowly with many reversals all through the joint's range",
    "rotor_inertia": "accelerate hard: a chirp to high frequency, of this joint and of the one before",
}
"""By kind, the experiment that shows it."""
PAIRS = (
    ({"command_delay", "sensor_delay"}, "in open loop only their sum acts: close the loop over the sensor, or stamp both on one clock"),
    ({"kp", "strength"}, "hang a known weight on the joint, measure the torque, or drive into the torque limit"),
    ({"kd", "damping"}, "repeat the motion with another kd: friction stays, the firmware's damping does not"),
    ({"kd", "strength"}, "repeat the motion with another kd, or measure the torque"),
    ({"kp", "kd"}, "repeat the motion with another kp and the same kd"),
    ({"damping", "coulomb"}, "repeat the motion at several speeds: one grows with speed, the other does not"),
    ({"coulomb", "load_friction"}, "repeat the motion with several loads"),
    ({"torque_constant", "resistance"}, "measure the current, or the speed without load and the torque at standstill"),
    ({"damping", "torque_constant"}, "let the joint swing with the motor unplugged: its back-EMF is gone then"),
    ({"damping", "resistance"}, "let the joint swing with the motor unplugged: its back-EMF is gone then"),
    ({"encoder_bias", "zero_offset"}, "repeat the motion with another position gain, or check the pose with a jig"),
    ({"encoder_bias", "com"}, "repeat the motion with another position gain"),
    ({"mass", "strength"}, "repeat the motion with a known weight added"),
    ({"mass", "torque_constant"}, "repeat the motion with a known weight added, or measure the torque"),
    ({"mass", "com"}, "move in several poses, fast and slow: gravity sees their product, inertia its square"),
    ({"mass", "armature"}, "move in poses where gravity acts: the rotor has no weight"),
    ({"inertia", "armature"}, "move in poses where gravity acts, and other joints by themselves: the rotor has no weight"),
    ({"mass", "damping"}, "change the speed and the acceleration separately: constant speeds and fast reversals"),
    ({"armature", "rotor_inertia"}, "drive the joint before as well: the rotor couples the two, armature does not"),
    ({"coulomb", "coulomb_slope"}, "move slowly all through the joint's range"),
    ({"armature", "kp"}, "repeat the motion with another kp"),
    ({"slope", "com"}, "repeat the motion with the robot turned by 90 and 180 degrees"),
)  # fmt: skip
"""Kinds that are often exchanged, and the experiment that separates them."""


def kinds_by_label(params: Params) -> dict[str, str]:
    """Kind of every scalar."""
    out, names = {}, iter(params.names)
    for name, param in params.items():
        for _ in range(max(len(params.elements[name]), 1)):
            out[next(names)] = param.kind
    return out


def weak_directions(data: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions that the data did not narrow, (d, k) in whitened coordinates prior^(-1/2) s, and how far they shrank, (k,)."""
    vectors, shrink = _directions(data, prior)
    return vectors[:, shrink > LEARNT], shrink[shrink > LEARNT]


def _directions(data: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All directions (d, d) in whitened coordinates and how far each shrank, (d,), rising."""
    inverse = np.linalg.inv(np.linalg.cholesky(prior))
    scaled = inverse @ data @ inverse.T
    after = scaled @ np.linalg.inv(scaled + np.eye(len(data)))
    values, vectors = np.linalg.eigh(0.5 * (after + after.T))
    return vectors, np.sqrt(np.maximum(values, 0.0))


def unidentified(params: Params, data: np.ndarray, prior: np.ndarray) -> tuple[Confounded, ...]:
    """Directions that the data did not narrow, named; `data` and `prior` are covariances of the positions s, (d, d)."""
    factor = np.linalg.cholesky(prior)
    sd = np.sqrt(np.diag(data))
    correlation = data / np.outer(sd, sd) + 1e-12 * np.eye(len(sd))
    reach = (
        np.sqrt(np.maximum(np.diag(np.linalg.inv(correlation)), 1.0)) / sd
    )  # effect of each scalar with the others fixed
    vectors, shrink = weak_directions(data, prior)
    found = []
    if len(shrink):
        found = [
            _direction(params, v, reach * np.abs(factor @ v), float(np.linalg.norm(shrink * (vectors.T @ v))))
            for v in _simplest(vectors)
        ]
    named = {name for c in found for name in c.names}
    return (*found, *_exchanges(params, data, prior, named))


def _simplest(vectors: np.ndarray) -> list[np.ndarray]:
    """A basis of the weak directions with few names each: pivoted elimination of their span (d, k)."""
    basis = vectors.T.copy()  # (k, d)
    used: list[int] = []
    for row in range(len(basis)):
        column = max((c for c in range(basis.shape[1]) if c not in used), key=lambda c: np.abs(basis[row:, c]).max())
        pivot = row + int(np.abs(basis[row:, column]).argmax())
        basis[[row, pivot]] = basis[[pivot, row]]
        basis[row] /= basis[row, column]
        for other in range(len(basis)):
            if other != row:
                basis[other] -= basis[other, column] * basis[row]
        used.append(column)
    return [row / np.linalg.norm(row) for row in basis]


def _direction(params: Params, vector: np.ndarray, effect: np.ndarray, shrink: float) -> Confounded:
    """Who takes part in a direction: those that move far, and those whose `effect` (d,) the others cancel."""
    size = np.abs(vector) / np.abs(vector).max()
    big = np.flatnonzero((size >= PART) | ((size >= LEAST) & (effect >= PART * effect.max())))
    big = big[np.argsort(-np.abs(vector[big]))]
    names = tuple(params.names[i] for i in big)
    kinds = kinds_by_label(params)
    if len(names) == 1:
        words = f"{names[0]} has no effect in these logs beyond their noise and what the model lacks"
    else:
        same, other = _sides(params, vector, big)
        words = f"{same} can be exchanged for {other}" if other else f"{same} can grow and shrink together"
    return Confounded(
        names=names, combination=words, experiment=experiment(params, tuple(kinds[n] for n in names)), shrink=shrink
    )  # fmt: skip


def _sides(params: Params, vector: np.ndarray, big: np.ndarray) -> tuple[str, str]:
    """The names that grow, and those that shrink along with them (or against them)."""
    sign = np.sign(vector[big[0]])
    up = [params.names[i] for i in big if np.sign(vector[i]) == sign]
    down = [params.names[i] for i in big if np.sign(vector[i]) != sign]
    if down:
        return f"more {_listed(up)}", f"more {_listed(down)}" if len(down) else ""
    return _listed(up), ""


def _listed(names: list[str]) -> str:
    shown = names[:4]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(shown) + more


def _exchanges(params: Params, data: np.ndarray, prior: np.ndarray, named: set[str]) -> list[Confounded]:
    """Pairs that are each identified but hardly separated from each other, the closest ones; no scalar twice.

    What a pair shrank to is that of its widest direction.
    """
    sd = np.sqrt(np.diag(data))
    correlation = data / np.outer(sd, sd)
    kinds, out, names, used = kinds_by_label(params), [], params.names, set(named)
    pairs = [(i, j) for i in range(len(names)) for j in range(i) if abs(correlation[i, j]) > EXCHANGE]
    for i, j in sorted(pairs, key=lambda p: -abs(correlation[p])):
        if {names[i], names[j]} & used:
            continue
        used |= {names[i], names[j]}
        sign = "less" if correlation[i, j] > 0 else "more"
        words = f"more {names[j]} looks nearly like {sign} {names[i]} (correlation {correlation[i, j]:.3f})"
        do = experiment(params, (kinds[names[j]], kinds[names[i]]))
        both = np.ix_([i, j], [i, j])
        shrink = float(min(_directions(data[both], prior[both])[1][-1], LEARNT))
        out.append(Confounded(names=(names[j], names[i]), combination=words, experiment=do, shrink=shrink))
    return out[:PAIRS_SHOWN]


def experiment(params: Params, kinds: Sequence[str]) -> str:
    """Which experiment would separate scalars of these kinds."""
    present = set(kinds)
    for pair, words in PAIRS:
        if pair <= present:
            return words
    if len(present) == 1 and len(kinds) > 1:
        return f"move the joints one by one: {KINDS.get(kinds[0], _by_group(params, kinds[0]))}"
    return KINDS.get(kinds[0], _by_group(params, kinds[0]))


def _by_group(params: Params, kind: str) -> str:
    group = next(p.group for p in params.values() if p.kind == kind)
    return SINGLE.get(group, "record a motion that depends on it")
