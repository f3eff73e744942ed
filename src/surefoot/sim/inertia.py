"""Inertial parameters that cannot become unphysical: the pseudo-inertia and its log-Cholesky factors.

    J = [Σ  h]      Σ = ½ tr(I) 1 - I about the body's origin, h = m c
        [hᵀ m]      physical  ⇔  J is positive definite
    J(θ) = A U(θ) U(θ)ᵀ Aᵀ,   A Aᵀ = J(model),   θ = (α, d1, d2, d3, s12, s23, s13, t1, t2, t3),  θ = 0 is the model
    U(θ) = exp(α) [[exp d1, s12, s13, t1], [0, exp d2, s23, t2], [0, 0, exp d3, t3], [0, 0, 0, 1]]

After Rucker and Wensing, "Smooth parameterization of rigid-body inertia", 2022. Rows may be NumPy or torch arrays.
"""

from typing import Any

import array_api_compat

Array = Any


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


def pseudo_inertia(mass: Array, com: Array, principal: Array, quat: Array) -> Array:
    """J (..., 4, 4) from mass (...), centre of mass (..., 3), principal inertias (..., 3) and their frame (..., 4)."""
    xp = array_api_compat.array_namespace(com)
    R = rotation(quat)
    half = principal[..., 0] + principal[..., 1] + principal[..., 2]
    second = 0.5 * half[..., None] - principal  # (..., 3) second moments about the principal axes
    h = mass[..., None] * com
    sigma = (
        xp.einsum("...ij,...j,...kj->...ik", R, second, R)
        if hasattr(xp, "einsum")
        else (R * second[..., None, :]) @ _t(R)
    )
    sigma = sigma + h[..., :, None] * com[..., None, :]
    top = xp.concat([sigma, h[..., :, None]], axis=-1)
    bottom = xp.concat([h[..., None, :], mass[..., None, None]], axis=-1)
    return xp.concat([top, bottom], axis=-2)


def from_pseudo_inertia(J: Array) -> tuple[Array, Array, Array, Array]:
    """Mass, centre of mass, principal inertias and their frame's quaternion of J (..., 4, 4)."""
    xp = array_api_compat.array_namespace(J)
    mass = J[..., 3, 3]
    com = J[..., :3, 3] / mass[..., None]
    sigma = J[..., :3, :3] - mass[..., None, None] * com[..., :, None] * com[..., None, :]
    second, frame = xp.linalg.eigh(sigma)
    handed = xp.linalg.det(frame)
    frame = xp.concat([frame[..., :2], frame[..., 2:] * handed[..., None, None]], axis=-1)
    total = second[..., 0] + second[..., 1] + second[..., 2]
    return mass, com, total[..., None] - second, quaternion(frame)


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


def deformed(J: Array, theta: Array) -> Array:
    """J(θ) = A U(θ) U(θ)ᵀ Aᵀ with A the upper factor of J."""
    B = upper_cholesky(J) @ factor(theta)
    return B @ _t(B)


def deformation(J: Array, changed: Array) -> Array:
    """θ such that `deformed(J, θ)` is `changed`."""
    xp = array_api_compat.array_namespace(changed)
    return parameters(xp.linalg.solve(upper_cholesky(J) + 0 * changed, upper_cholesky(changed)))
