"""Ground that is not flat: a bank of height fields of equal size, one of which each world stands on.

Height-field data are shared by all worlds, so a world chooses a field (geom_dataid) and cannot scale it: roughness and
step_height are discrete Params, one field a choice. All fields of a bank have one shape scaled to the choice's height.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from array_api_compat import array_namespace

from surefoot.errors import InputError
from surefoot.params import Param
from surefoot.sim.names import GROUND

if TYPE_CHECKING:
    from surefoot.sim.physics import Physics

Array = Any
FIELD, BELOW = "terrain", "below"
"""Names of the height fields (with a number) and of the plane under them."""
FLAT_RADIUS = 0.6
"""[m] Half-width of the flat square in the middle, where robots start."""
MOST_CHOICES = 64


@dataclass(frozen=True, kw_only=True)
class Terrain:
    """The bank: heights (choices, rows, columns) [m] over a square of half-width `extent` [m]."""

    choices: tuple[float, ...]
    heights: np.ndarray
    extent: float

    def height(self, field: Array, xy: Array, heights: Array | None = None) -> Array:
        """Ground height [m] under points xy (worlds, k, 2) on each world's field (worlds,), (worlds, k).

        Every cell is two triangles, as in the engine; its diagonal joins the corners of low x, y and of high x, y.
        `heights` are the bank's, flattened, as an array of xy's library; its own when left out.
        """
        xp = array_namespace(xy)
        n, flat = self.heights.shape[1], self.heights.ravel() if heights is None else heights
        s = (xy + self.extent) / (2 * self.extent) * (n - 1)
        s = xp.clip(xp.where(xp.isnan(s), xp.zeros_like(s), s), 0.0, (n - 1) * (1 - 1e-7))  # a corner for NaN
        i = xp.astype(s, xp.int64)
        fx, fy = s[..., 0] - i[..., 0], s[..., 1] - i[..., 1]
        first = (field[:, None] * n + i[..., 1]) * n + i[..., 0]
        near, far = flat[first], flat[first + (n + 1)]
        # Below the diagonal the way from the near corner to the far one leads through high x, above it through high y.
        below = fx >= fy
        between = flat[first + xp.where(below, xp.ones_like(first), n * xp.ones_like(first))]
        long, short = xp.where(below, fx, fy), xp.where(below, fy, fx)
        return near + (long * (between - near) + short * (far - between))


def ground_under(physics: "Physics", xy: Array, rows: Any = slice(None)) -> Array:
    """Height of the ground [m] under points xy (rows, k, 2) of the worlds `rows`, (rows, k); 0 without a terrain."""
    terrain, model = physics.built.terrain, physics.built.model
    if terrain is None:
        return array_namespace(xy).zeros_like(xy[..., 0])
    field = physics.engine.field("geom_dataid")[rows, model.geom(GROUND).id] - first_field(model)
    return terrain.height(field, xy, physics.heights)


def first_field(model: mujoco.MjModel) -> int:
    """Index of the bank's first height field in the model."""
    return model.hfield(f"{FIELD}0").id


def add_terrain(spec: mujoco.MjSpec, param: Param, ground: str) -> Terrain:
    """Put a bank of height fields in place of the plane `ground`, which sinks below it to catch what falls off."""
    if param.choices is None or len(param.choices) > MOST_CHOICES:
        raise InputError(
            f"{param.kind} picks one of at most {MOST_CHOICES} ready-made grounds: give choices=(0.0, 0.02, ...), "
            f"got {'none' if param.choices is None else len(param.choices)}"
        )
    if spec.geom(ground) is None:
        raise InputError("this robot has no ground plane to put a terrain in place of")
    options = param.options
    shape = (_rough if param.kind == "roughness" else _steps)(options)
    if shape.max() <= 0:
        raise InputError(
            f"extent={options['extent']:g} m leaves no room around the flat middle of {2 * FLAT_RADIUS:g} m: raise it"
        )
    shape = shape / shape.max()  # the compiler stretches every field to 0..1, the size says how high 1 is
    for index, height in enumerate(param.choices):
        field = spec.add_hfield(name=f"{FIELD}{index}", nrow=shape.shape[0], ncol=shape.shape[1])
        field.size = [options["extent"], options["extent"], max(height, 1e-6), 0.1]
        field.userdata = (shape if height > 0 else np.zeros_like(shape)).ravel()
    plane = spec.geom(ground)
    plane.name, plane.pos = BELOW, [0.0, 0.0, -0.5]
    spec.worldbody.add_geom(
        name=ground, type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname=f"{FIELD}0", friction=plane.friction,
        rgba=plane.rgba, material=plane.material,
    )  # fmt: skip
    heights = np.stack([shape.astype(np.float32).astype(float) * height for height in param.choices])
    return Terrain(choices=param.choices, heights=heights, extent=float(options["extent"]))


def _grid(options) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    n = round(2 * options["extent"] / options["cell"]) + 1
    if not 3 <= n <= 1000:
        raise InputError(
            f"extent={options['extent']:g} and cell={options['cell']:g} give {n} points a side, allowed 3..1000"
        )
    axis = np.linspace(-options["extent"], options["extent"], n)
    x, y = np.meshgrid(axis, axis)
    return x, y, np.random.default_rng(int(options["seed"]))


def _flat_middle(x: np.ndarray, y: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """`shape` with height 0 in the middle square; values stay in 0..1."""
    return np.where(np.maximum(np.abs(x), np.abs(y)) <= FLAT_RADIUS + 1e-9, 0.0, shape)


def _rough(options) -> np.ndarray:
    """Independent heights in 0..1 at every grid point."""
    x, y, rng = _grid(options)
    return _flat_middle(x, y, rng.uniform(0.0, 1.0, x.shape))


def _steps(options) -> np.ndarray:
    """Square rings of width `run`, alternately up and down: stairs of one step height that lead nowhere."""
    x, y, _ = _grid(options)
    ring = np.floor(np.maximum(np.abs(x), np.abs(y)) / options["run"] + 1e-9).astype(int)
    return _flat_middle(x, y, (ring % 2).astype(float))
