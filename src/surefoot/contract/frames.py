"""Vectors seen from the robot's body: the two changes of frame that observations need, on any array library."""

from typing import Any

from array_api_compat import array_namespace


def to_body(quat: Any, v: Any) -> Any:
    """Rᵀ v: a world vector (..., 3) in the body frame; quat is (..., 4), w,x,y,z, world from body, of unit length."""
    xp = array_namespace(quat, v)
    w, x, y, z = (quat[..., i] for i in range(4))
    a, b, c = (v[..., i] for i in range(3))
    rows = (
        (1 - 2 * (y * y + z * z)) * a + 2 * (x * y + w * z) * b + 2 * (x * z - w * y) * c,
        2 * (x * y - w * z) * a + (1 - 2 * (x * x + z * z)) * b + 2 * (y * z + w * x) * c,
        2 * (x * z + w * y) * a + 2 * (y * z - w * x) * b + (1 - 2 * (x * x + y * y)) * c,
    )
    return xp.stack(rows, axis=-1)


def projected_gravity(quat: Any) -> Any:
    """The channel "gravity": Rᵀ (0, 0, −1), (..., 3), which is (0, 0, −1) when upright; quat as in `to_body`."""
    xp = array_namespace(quat)
    w, x, y, z = (quat[..., i] for i in range(4))
    return xp.stack((2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1), axis=-1)
