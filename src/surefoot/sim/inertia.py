"""Inertial parameters that cannot become unphysical: a root of the pseudo-inertia and its log-Cholesky factors.

    J = [Σ  h]      Σ = ½ tr(I) 1 - I about the body's origin, h = m c
        [hᵀ m]      physical  ⇔  J is positive definite
    J(θ) = B Bᵀ,    B = A U(θ),   A Aᵀ = J(model),   θ = (α, d1, d2, d3, s12, s23, s13, t1, t2, t3),  θ = 0 is the model
    U(θ) = exp(α) [[exp d1, s12, s13, t1], [0, exp d2, s23, t2], [0, 0, exp d3, t3], [0, 0, 0, 1]]
    A = [[C, √m c], [0, √m]],   C Cᵀ = Σ about the centre of mass, C upper triangular

After Rucker and Wensing, "Smooth parameterization of rigid-body inertia", 2022. A and B are written without forming J,
whose large terms m c cᵀ would cost digits. Rows may be NumPy or torch arrays.
"""

from typing import Any

import array_api_compat
import numpy as np

Array = Any


def _up_in_body() -> np.ndarray:
    w, x, y, z = range(4)
    form = np.zeros((4, 4, 3))
    form[x, z, 0], form[w, y, 0] = 2.0, -2.0
    form[y, z, 1], form[w, x, 1] = 2.0, 2.0
    form[..., 2] = np.diag([1.0, -1.0, -1.0, 1.0])
    return form.reshape(16, 3)


UP_IN_BODY = _up_in_body()
"""(16, 3): from the products of a unit quaternion's entries, w first, to the world's z in the body: `rotation`'s last row."""


def rotation(quat: Array) -> Array:
    """Rotation matrices (..., 3, 3) of unit quaternions (..., 4), w first."""
    xp = array_api_compat.array_namespace(quat)
    w, x, y, z = (quat[..., i] for i in range(4))
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion(matrix: Array) -> Array:
    """Unit quaternions (..., 4), w first, of rotation matrices (..., 3, 3); the largest component is positive."""
    xp = array_api_compat.array_namespace(matrix)
    m = [[matrix[..., i, j] for j in range(3)] for i in range(3)]
    trace = m[0][0] + m[1][1] + m[2][2]
    squares = xp.stack([1 + trace, *[1 + 2 * m[i][i] - trace for i in range(3)]], axis=-1)
    big = xp.argmax(squares, axis=-1)
    r = xp.sqrt(xp.max(squares, axis=-1))
    sums = [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]]
    pairs = [m[0][1] + m[1][0], m[0][2] + m[2][0], m[1][2] + m[2][1]]
    options = [
        [r * r, sums[0], sums[1], sums[2]],
        [sums[0], r * r, pairs[0], pairs[1]],
        [sums[1], pairs[0], r * r, pairs[2]],
        [sums[2], pairs[1], pairs[2], r * r],
    ]
    out = xp.stack(options[0], axis=-1)
    for index in range(1, 4):
        out = xp.where((big == index)[..., None], xp.stack(options[index], axis=-1), out)
    return out / (2 * r[..., None])


def second_moments(principal: Array) -> Array:
    """∫ x² dm along the principal axes (..., 3) from the principal inertias (..., 3); positive for a physical body."""
    total = principal[..., 0] + principal[..., 1] + principal[..., 2]
    return 0.5 * total[..., None] - principal


def root(mass: Array, com: Array, principal: Array, quat: Array) -> Array:
    """A (..., 4, 4) of mass (...), centre of mass (..., 3), principal inertias (..., 3) and their frame (..., 4)."""
    xp = array_api_compat.array_namespace(com)
    R = rotation(quat)
    C = upper_cholesky((R * second_moments(principal)[..., None, :]) @ _t(R))
    m = xp.sqrt(mass)[..., None]
    top = xp.concat([C, (m * com)[..., None]], axis=-1)
    bottom = xp.concat([xp.zeros_like(com), m], axis=-1)[..., None, :]
    return xp.concat([top, bottom], axis=-2)


def from_root(B: Array) -> tuple[Array, Array, Array, Array]:
    """Mass, centre of mass, principal inertias and their frame's quaternion of an upper root B (..., 4, 4)."""
    xp = array_api_compat.array_namespace(B)
    m = B[..., 3, 3]
    C = B[..., :3, :3]
    second, frame = xp.linalg.eigh(C @ _t(C))
    handed = xp.linalg.det(frame)
    frame = xp.concat([frame[..., :2], frame[..., 2:] * handed[..., None, None]], axis=-1)
    total = second[..., 0] + second[..., 1] + second[..., 2]
    return m * m, B[..., :3, 3] / m[..., None], total[..., None] - second, quaternion(frame)


def factor(theta: Array) -> Array:
    """U(θ), (..., 4, 4), of log-Cholesky parameters (..., 10)."""
    xp = array_api_compat.array_namespace(theta)
    a, d1, d2, d3, s12, s23, s13, t1, t2, t3 = (theta[..., i] for i in range(10))
    o, one = xp.zeros_like(a), xp.ones_like(a)
    rows = ((xp.exp(d1), s12, s13, t1), (o, xp.exp(d2), s23, t2), (o, o, xp.exp(d3), t3), (o, o, o, one))
    return xp.exp(a)[..., None, None] * xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def parameters(U: Array) -> Array:
    """θ (..., 10) of an upper triangular factor U (..., 4, 4) with positive diagonal; inverse of `factor`."""
    xp = array_api_compat.array_namespace(U)
    scale = U[..., 3, 3]
    V = U / scale[..., None, None]
    logs = [xp.log(scale)] + [xp.log(V[..., i, i]) for i in range(3)]
    return xp.stack(
        [*logs, V[..., 0, 1], V[..., 1, 2], V[..., 0, 2], V[..., 0, 3], V[..., 1, 3], V[..., 2, 3]], axis=-1
    )


def upper_cholesky(J: Array) -> Array:
    """Upper triangular U with J = U Uᵀ (the usual Cholesky factor is lower)."""
    xp = array_api_compat.array_namespace(J)
    flipped = xp.flip(J, axis=(-2, -1))
    return xp.flip(xp.linalg.cholesky(flipped), axis=(-2, -1))


def _t(matrix: Array) -> Array:
    xp = array_api_compat.array_namespace(matrix)
    return xp.swapaxes(matrix, -1, -2) if hasattr(xp, "swapaxes") else matrix.mT
