"""Ground plates: what round feet touch on uneven ground, on the CPU engine.

MuJoCo meets a height field prism by prism. The neighbours of the prism beneath a sphere give contacts at edges that do not exist, tilted by
up to 40 degrees even where the field is flat. But a sphere touches any surface as it touches the surface's tangent plane at the nearest
point. So every round geom has two planes of its own, and before every substep they are put, in every world, where they belong:

    plate A    tangent at the surface's point q nearest to the centre p: through q, normal ±(p - q), a face's own normal on that face
    plate B    the nearest other face that p stands over, where its normal is more than `APART` off A's: a riser beside a tread;
               below the world where there is none

p is where the geom will be when the substep begins: x + dt (v + ω × r) with the speeds of now and the place of the substep before,
exact but for the curvature of the path (below 1 mm for feet at 4 m/s). A capsule no longer than it is thick is three spheres, at its ends
and its middle, and the nearest of them decides. Other shapes, and round ones for which no collision bit is left, meet the field itself.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from surefoot.sim.names import GROUND
from surefoot.sim.terrain import Terrain, first_field

if TYPE_CHECKING:
    from surefoot.sim.physics import Physics

APART = np.cos(np.radians(15.0))
"""Cosine of the angle between the normals of A and B, above which B says nothing new."""
ASIDE = -10.0
"""[m] Height of a plate that nothing should touch."""
AWAY = 0.01
"""[m] A geom this far over the highest point near it needs no exact plates."""
SLACK = 0.003
"""[m] How much farther than a geom's radius the surface is looked at."""
AT = 1e-6
"""[m] A centre this near to the surface has no direction to it of its own."""
BITS = 31
"""Collision bits of a geom."""
FOLLOWED = (
    "geom_friction", "geom_solref", "geom_solimp", "geom_margin", "geom_gap", "geom_solmix", "geom_priority", "geom_condim",
)  # fmt: skip
"""Fields that plates have from the ground."""
LAID_ASIDE = {
    "geom_pos": np.array([0.1, 0.1, ASIDE]),
    "geom_quat": np.array([np.cos(0.3), 0.6 * np.sin(0.3), 0.8 * np.sin(0.3), 0.0]),
}
"""Place of plates while the engine derives its constants: tilted, they are bounded nowhere and share no frame with their body."""


@dataclass(frozen=True, kw_only=True)
class Plates:
    """Round geoms of a compiled model, and the planes that are their ground."""

    geoms: np.ndarray
    """(k,)"""
    ids: np.ndarray
    """Plates A and B of each geom, (k, 2)."""
    surfaces: "dict[int, Surface]" = field(default_factory=dict)
    """The terrain's triangles by size of neighbourhood, shared by all Sims of the model."""


def add_plates(spec: mujoco.MjSpec, feet: tuple[str, ...]) -> list[tuple[mujoco.MjsGeom, list[mujoco.MjsGeom]]]:
    """Give every round geom that touches the ground two plates in place of it, `feet` first while collision bits last.

    Plates have no names, so that no pattern of a Param means them, and are not seen by cameras and rays. Returns each geom with its two
    plates, to be found in the compiled model by their ids.
    """
    ground = spec.geom(GROUND)
    on_ground = [
        g for g in spec.geoms
        if g.parent.name != "world" and (g.contype & ground.conaffinity or g.conaffinity & ground.contype)
    ]  # fmt: skip
    used = 0
    for geom in spec.geoms:
        used |= geom.contype | geom.conaffinity
    free = [1 << bit for bit in range(int(used).bit_length(), BITS)]
    rounds = sorted((g for g in on_ground if _round(g)), key=lambda g: g.name not in feet)[: max(len(free) - 1, 0)]
    if not rounds:
        return []
    ground.contype, ground.conaffinity = free[0], 0
    for geom in on_ground:
        if not any(geom is other for other in rounds):
            geom.conaffinity |= free[0]
    out = []
    for geom, bit in zip(rounds, free[1:], strict=False):
        geom.conaffinity |= bit
        pair = [
            spec.worldbody.add_geom(
                type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=LAID_ASIDE["geom_pos"], quat=LAID_ASIDE["geom_quat"],
                contype=bit, conaffinity=0, friction=ground.friction, condim=ground.condim, solref=ground.solref,
                solimp=ground.solimp, margin=ground.margin, gap=ground.gap, solmix=ground.solmix, priority=ground.priority,
                rgba=[0, 0, 0, 0], group=5,
            )
            for _ in "AB"
        ]  # fmt: skip
        out.append((geom, pair))
    return out


def compiled_plates(added: list[tuple[mujoco.MjsGeom, list[mujoco.MjsGeom]]]) -> Plates | None:
    """Where what `add_plates` added is in the compiled model; None without any."""
    if not added:
        return None
    return Plates(
        geoms=np.array([geom.id for geom, _ in added], dtype=int),
        ids=np.array([[plate.id for plate in pair] for _, pair in added], dtype=int),
    )


def _round(geom: mujoco.MjsGeom) -> bool:
    if geom.type == mujoco.mjtGeom.mjGEOM_SPHERE:
        return True
    if geom.type != mujoco.mjtGeom.mjGEOM_CAPSULE:
        return False
    ends = np.asarray(geom.fromto)
    half = geom.size[1] if np.isnan(ends[0]) else 0.5 * np.linalg.norm(ends[3:] - ends[:3])
    return bool(half <= geom.size[0])


class Tangents(NamedTuple):
    """Plates A and B of m geoms: points on them and unit normals, (m, 3) each; `two`: whether there is a B, (m,)."""

    point: np.ndarray
    normal: np.ndarray
    other: np.ndarray
    other_normal: np.ndarray
    two: np.ndarray


class Surface:
    """The triangles of a terrain near a point, for many points at once.

    A point's neighbourhood are 2 `half` cells a side around the grid point nearest to it, so it holds what is within `reach` [m] of the
    point. Heights are kept flattened, as Terrain.height has them.
    """

    def __init__(self, terrain: Terrain, half: int):
        n = self.n = terrain.heights.shape[1]
        self.extent, self.half = terrain.extent, half
        self.cell = 2 * terrain.extent / (n - 1)
        self.reach = (half - 0.5) * self.cell
        self.heights = terrain.heights.ravel()
        self.highest, self.lowest = (_spread(terrain.heights, half, f).ravel() for f in (np.maximum, np.minimum))
        side, wide = 2 * half, 2 * half + 1
        row, column = (x.ravel() for x in np.mgrid[0:wide, 0:wide])
        self._around = (row - half) * n + column - half
        """From the middle grid point to those of its neighbourhood, in the flattened heights."""
        corner = np.arange(wide * wide).reshape(wide, wide)
        low, right, up, far = (x.ravel() for x in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, :-1], corner[1:, 1:]))
        self._cells = low, right, up, far
        b, a = (x.ravel().astype(float) - half for x in np.mgrid[0:side, 0:side])
        self._low = np.concatenate([a, a]), np.concatenate([b, b])
        """Low corner of every face's cell from the middle grid point [cells], (faces,) each: those below the diagonals first."""
        along = np.concatenate([corner[:, :-1].ravel(), corner[:-1].ravel(), low])
        until = np.concatenate([corner[:, 1:].ravel(), corner[1:].ravel(), far])
        self._edges = along, until
        place = np.stack([column - half, row - half], axis=1) * self.cell
        self._from, self._run = place[along].T.copy(), (place[until] - place[along]).T.copy()
        """Of every edge in the plane [m]: where it begins, and how far it goes, (2, edges) each."""

    def middle(self, field: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Grid point nearest to points x, y of each field: its column, its row, its index in the flattened heights."""
        column, row = (
            np.minimum(
                np.maximum(np.rint((c + self.extent) / self.cell).astype(np.int64), self.half), self.n - 1 - self.half
            )
            for c in (x, y)
        )
        return column, row, (field * self.n + row) * self.n + column

    def tangents(self, field: np.ndarray, p: np.ndarray) -> Tangents:
        """Plates of m geoms, each made of k spheres around p (m, k, 3) [m], on fields (m,) of the bank."""
        m, k = p.shape[:2]
        p, each = p.reshape(-1, 3), np.arange(m * k)
        column, row, index = self.middle(np.repeat(field, k), p[:, 0], p[:, 1])
        place = (p[:, 0] + (self.extent - column * self.cell), p[:, 1] + (self.extent - row * self.cell), p[:, 2])
        x, y, z = (v[:, None] for v in place)
        corners = self.heights[index[:, None] + self._around]
        faces, (ex, ey, ez) = self._faces(x, y, z, corners), self._to_edges(x, y, z, corners)
        side = np.where(faces.distance[each, faces.own] < 0, -1.0, 1.0)
        above, facing = side > 0, side[:, None] * faces.distance
        facing = np.where(faces.inside & (facing >= 0), facing, np.inf)
        edge = ex * ex + ey * ey + ez * ez
        # The nearest of each sphere, then of each geom.
        face, line = facing.argmin(1), edge.argmin(1)
        by_face, by_edge = facing[each, face], np.sqrt(edge[each, line])
        distance = np.minimum(by_face, by_edge)
        ball = (side * distance).reshape(m, k).argmin(1) + k * each[:m]
        face, line, distance, side = face[ball], line[ball], distance[ball, None], side[ball, None]
        on_face = by_face[ball] <= by_edge[ball]
        straight = on_face[:, None] | (distance < AT)
        away = np.stack([e[ball, line] for e in (ex, ey, ez)], axis=1)
        face = np.where(on_face, face, faces.own[ball])
        normal = np.where(straight, faces.normal(ball, face), side * away / np.where(straight, 1.0, distance))
        point = p[ball] - normal * side * distance
        # B: the nearest face of any of the geom's spheres that is turned away from A.
        nx, ny, nz = (np.repeat(v, k)[:, None] for v in normal.T)
        new = (nz - faces.gx * nx - faces.gy * ny < APART * faces.size) & above[:, None] & (facing < self.reach)
        apart = np.where(new, facing, np.inf).reshape(m, -1)
        which = apart.argmin(1)
        two = np.isfinite(apart[each[:m], which])
        ball, face = which // facing.shape[1] + k * each[:m], which % facing.shape[1]
        other_normal = faces.normal(ball, face)
        other = p[ball] - other_normal * faces.distance[ball, face][:, None]
        return Tangents(point, normal, other, other_normal, two)

    def _faces(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, corners: np.ndarray) -> "Faces":
        """The triangles as seen from points (n, 1) relative to their middle grid points [m]."""
        c, (low, right, up, far), (a, b) = self.cell, self._cells, self._low
        z0, z1, z2, z3 = corners[:, low], corners[:, right], corners[:, up], corners[:, far]
        gx, gy = np.concatenate([z1 - z0, z3 - z2], axis=1) / c, np.concatenate([z3 - z1, z2 - z0], axis=1) / c
        squared = 1 + gx * gx + gy * gy
        size = np.sqrt(squared)
        dx, dy = x - a * c, y - b * c
        over = z - np.concatenate([z0, z0], axis=1) - gx * dx - gy * dy
        t = over / squared
        u, v = dx + gx * t, dy + gy * t  # the centre's projection on the face, from the cell's low corner
        half = len(low)
        long, short = (np.concatenate([s[:, :half], r[:, half:]], axis=1) for s, r in ((u, v), (v, u)))
        inside = (short >= 0) & (short <= long) & (long <= c)
        i, j = (np.clip(np.floor(s[:, 0] / c).astype(np.int64) + self.half, 0, 2 * self.half - 1) for s in (x, y))
        own = j * (2 * self.half) + i + np.where(x[:, 0] - i * c >= y[:, 0] - j * c, 0, half)
        return Faces(gx, gy, size, over / size, inside, own)

    def _to_edges(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, ...]:
        """From the nearest points of all edges, ends included, to points (n, 1): x, y and z, (n, edges) each [m]."""
        begin, end = (corners[:, e] for e in self._edges)
        (x0, y0), (dx, dy), dz = self._from, self._run, end - begin
        x, y, z = x - x0, y - y0, z - begin
        s = (x * dx + y * dy + z * dz) / (dx * dx + dy * dy + dz * dz)
        s = np.minimum(np.maximum(s, 0.0), 1.0)
        return x - s * dx, y - s * dy, z - s * dz


class Faces(NamedTuple):
    """Triangles around n points: slopes, size of (-gx, -gy, 1), distance along the normal [m], (n, faces) each."""

    gx: np.ndarray
    gy: np.ndarray
    size: np.ndarray
    distance: np.ndarray
    inside: np.ndarray
    """Whether the point's projection on the face lies within it."""
    own: np.ndarray
    """The face right below or above the point, (n,)."""

    def normal(self, point: np.ndarray, face: np.ndarray) -> np.ndarray:
        """Unit normals of some faces, (k, 3)."""
        up = np.stack([-self.gx[point, face], -self.gy[point, face], np.ones(len(point))], axis=1)
        return up / self.size[point, face][:, None]


def halves(terrain: Terrain, reach: np.ndarray) -> np.ndarray:
    """Size `half` of the neighbourhoods that hold all within distances reach (k,) [m], as far as the terrain goes."""
    n = terrain.heights.shape[1]
    return np.minimum(np.ceil(reach * (n - 1) / (2 * terrain.extent) + 0.5 - 1e-9).astype(int), (n - 1) // 2)


def _spread(heights: np.ndarray, half: int, pick: np.ufunc) -> np.ndarray:
    """The highest or lowest of the heights (fields, n, n) within `half` grid points of each."""
    out = heights
    for axis in (1, 2):
        old = np.moveaxis(out, axis, 0)
        new = old.copy()
        for step in range(1, half + 1):
            pick(new[:-step], old[step:], out=new[:-step])
            pick(new[step:], old[:-step], out=new[step:])
        out = np.moveaxis(new, 0, axis)
    return out


def turned(normal: np.ndarray) -> np.ndarray:
    """Quaternions (m, 4) that turn z to unit normals (m, 3) the shortest way."""
    w = np.maximum(1 + normal[:, 2], 1e-9)
    q = np.stack([w, -normal[:, 1], normal[:, 0], np.zeros(len(w))], axis=1)
    return q / np.sqrt((q * q).sum(1, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class Group:
    """Geoms that share a Surface and a number of spheres."""

    surface: Surface
    which: np.ndarray
    """Numbers among the plates' geoms, (k,)."""
    long: bool
    """Whether they are capsules."""


class Plating:
    """The plates of one Sim. Memory: worlds whose derived quantities are those of the state, not of the substep before."""

    def __init__(self, physics: "Physics", plates: Plates, terrain: Terrain):
        self.physics, self.plates = physics, plates
        model, engine = physics.built.model, physics.engine
        self.ground, self.first = model.geom(GROUND).id, first_field(model)
        bodies = model.geom_bodyid[plates.geoms]
        self.bodies, self.body = np.unique(bodies, return_inverse=True)
        self.chains = [_dofs(model, int(body)) for body in self.bodies]
        self.root = model.body_rootid[bodies]
        self.fresh = np.ones(engine.worlds, dtype=bool)
        self.groups = self._grouped(terrain)
        self.long = any(group.long for group in self.groups)
        engine.watch("geom_xpos", "cdof", "subtree_com", *(["geom_xmat"] if self.long else []))
        for name in ("geom_pos", "geom_quat", "geom_dataid"):
            engine.field(name)

    def _grouped(self, terrain: Terrain) -> list[Group]:
        model, geoms = self.physics.built.model, self.plates.geoms
        radius = model.geom_size[geoms, 0].copy()
        for slots in self.physics.slots.values():
            if slots.param.kind == "radius":
                radius = np.where(np.isin(geoms, slots.ids), np.maximum(radius, slots.param.high), radius)
        reach = radius + model.geom_margin[geoms] + model.geom_margin[self.ground] + SLACK
        long = model.geom_type[geoms] == int(mujoco.mjtGeom.mjGEOM_CAPSULE)
        half = halves(terrain, reach)
        kinds = sorted({(int(h), bool(c)) for h, c in zip(half, long, strict=True)})
        surfaces = self.plates.surfaces
        surfaces |= {h: Surface(terrain, h) for h in {h for h, _ in kinds} - set(surfaces)}
        return [Group(surface=surfaces[h], which=np.flatnonzero((half == h) & (long == c)), long=c) for h, c in kinds]

    def place(self, dt: float, rows: np.ndarray | None = None) -> None:
        """Put the plates of worlds `rows` (None: all) where they belong at the begin of a substep of dt [s]."""
        with np.errstate(invalid="ignore", over="ignore"):  # worlds that blew up are named elsewhere
            self._place(dt, slice(None) if rows is None else rows)
        self.fresh[slice(None) if rows is None else rows] = False

    def _place(self, dt: float, rows: slice | np.ndarray) -> None:
        engine, geoms = self.physics.engine, self.plates.geoms
        x, speed, rates = self._motion(rows)
        ahead = np.where(self.fresh[rows], 0.0, dt)[:, None, None]
        x = x + ahead * speed
        worlds = len(x)
        field = engine.field("geom_dataid")[rows, self.ground] - self.first
        pos, quat = np.zeros((2, worlds, len(geoms), 3)), np.zeros((2, worlds, len(geoms), 4))
        pos[..., 2], quat[..., 0] = ASIDE, 1.0
        for group in self.groups:
            at = x[:, group.which, None]
            if group.long:
                axis = engine.derived("geom_xmat")[rows][:, geoms[group.which], 2::3]
                axis = axis + ahead * _cross(rates[:, group.which], axis)
                half = engine.nominal("geom_size")[geoms[group.which], 1][:, None]
                at = at + np.array([-1.0, 0.0, 1.0])[:, None] * (half * axis)[:, :, None]
            self._place_group(group, field, at, pos, quat)
        a, b = self.plates.ids.T
        all_pos, all_quat = engine.field("geom_pos"), engine.field("geom_quat")
        if isinstance(rows, slice):
            all_pos[:, a], all_pos[:, b], all_quat[:, a], all_quat[:, b] = *pos, *quat
        else:
            for ids, p, q in zip((a, b), pos, quat, strict=True):
                all_pos[np.ix_(rows, ids)], all_quat[np.ix_(rows, ids)] = p, q

    def _place_group(self, group: Group, field: np.ndarray, at: np.ndarray, pos: np.ndarray, quat: np.ndarray) -> None:
        """Fill places (2, worlds, geoms, 3) and attitudes (2, worlds, geoms, 4) for spheres at (worlds, k, spheres, 3)."""
        surface, which = group.surface, group.which
        index = surface.middle(field[:, None, None], at[..., 0], at[..., 1])[2]
        highest, lowest = surface.highest[index], surface.lowest[index]
        top = highest.max(-1)
        on = (np.abs(at[..., :2]) <= surface.extent).all((-1, -2))
        near = (at[..., 2].min(-1) <= top + (surface.reach + AWAY)) & (top != lowest.min(-1)) & on
        pos[0][:, which, 2] = np.where(on, top, ASIDE)
        world, geom = np.nonzero(near)
        if not len(world):
            return
        found = surface.tangents(field[world], at[world, geom])
        geom = which[geom]
        pos[0, world, geom], quat[0, world, geom] = found.point, turned(found.normal)
        world, geom = world[found.two], geom[found.two]
        pos[1, world, geom], quat[1, world, geom] = found.other[found.two], turned(found.other_normal[found.two])

    def _motion(self, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places [m] one substep ago, speeds [m/s] and rates [rad/s] now of the geoms' centres, (worlds, k, 3) each."""
        engine = self.physics.engine
        x = engine.derived("geom_xpos")[rows][:, self.plates.geoms]
        part = engine.derived("cdof")[rows] * engine.qvel[rows][:, :, None]
        twist = np.empty((len(x), len(self.bodies), 6))
        for i, chain in enumerate(self.chains):
            twist[:, i] = part[:, chain].sum(1)
        twist = twist[:, self.body]
        rates = twist[..., :3]
        arm = x - engine.derived("subtree_com")[rows][:, self.root]
        return x, twist[..., 3:] + _cross(rates, arm), rates


def _dofs(model: mujoco.MjModel, body: int) -> np.ndarray:
    """Degrees of freedom that move a body, (k,)."""
    found: list[int] = []
    while body:
        first, count = int(model.body_dofadr[body]), int(model.body_dofnum[body])
        found = [*range(first, first + count), *found] if count else found
        body = int(model.body_parentid[body])
    return np.array(found, dtype=int)


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty(np.broadcast_shapes(a.shape, b.shape))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return out
