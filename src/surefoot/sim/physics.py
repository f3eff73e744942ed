"""e becomes physics here, and only here: `write` puts values into the engine's fields, `read` decodes them again.

The functions of every kind are in writers.py. Tables ("sim.*") are arrays of Sim's own for what the engine has no field
for: sensors, delays, disturbances, and the motors' figures before they are multiplied together (motors.py).
"""

from collections.abc import Mapping

import numpy as np

from surefoot.params import KINDS, E, Params
from surefoot.sim.build import Built
from surefoot.sim.engine import Engine
from surefoot.sim.motors import TABLES as MOTOR_TABLES
from surefoot.sim.motors import Motors
from surefoot.sim.names import GROUND
from surefoot.sim.plates import FOLLOWED, LAID_ASIDE
from surefoot.sim.refusals import refuse
from surefoot.sim.slots import Slots, resolve_all
from surefoot.sim.writers import PLAIN, SPECIAL

SENSOR_FIGURES = {
    "encoder": {"noise": "encoder_noise", "quantum": "encoder_quantum", "velocity_noise": "velocity_noise"},
    "imu": {f"{s}_{f}": f"{s}_{f}" for s in ("gyro", "accel") for f in ("noise", "walk")},
    "foot_force": {"noise": "force_noise"},
}
"""Figures of a robot file's sensors that are the nominal values of tables (a stated bias is a spread, not a value)."""


class Physics:
    """All that e can change in one Sim: the engine's fields and Sim's tables, with names resolved."""

    def __init__(self, built: Built, engine: Engine, params: Params):
        self.built, self.engine, self.motors = built, engine, Motors(built)
        self.heights = None if built.terrain is None else built.terrain.heights.ravel()
        """Of the bank of grounds, flattened [m]."""
        self.slots = resolve_all(built, params)
        refuse(built, self.slots)
        self.motors.check({s.param.kind: s.ids for s in self.slots.values() if s.param.kind in MOTOR_TABLES})
        self.tables: dict[str, np.ndarray] = {}
        self._fill_tables()
        self._fields = {f for s in self.slots.values() for f in s.param.about.fields if not f.startswith("sim.")}
        kinds = {s.param.kind for s in self.slots.values()}
        if kinds & ({*MOTOR_TABLES, "speed_limit"}):
            self._fields |= set(self.motors.fields())
        if kinds & {"gravity", "slope"} or "vibration_law" in built.features:
            self._fields.add("opt.gravity")
        for name in sorted(self._fields):
            engine.field(name)
        if "friction_law" in built.features or "coulomb" in kinds:
            engine.field("dof_frictionloss")
        if "ground_law" in built.features:
            engine.field("geom_friction")
        read = {name: self.read_one(name)[0] for name in self.slots}
        nominal = {
            name: np.where(np.isfinite(v), v, params[name].high) for name, v in read.items()
        }  # no limit: the highest
        self.params = params.bind({name: s.elements for name, s in self.slots.items()}, nominal)
        other = [n for n, v in read.items() if params[n].nominal is not None or not np.isfinite(v).all()]
        stated = self.params.nominal_e(engine.worlds)
        self.write({name: stated[name] for name in other}, engine.everyone)
        if engine.expanded:
            self.refresh_constants(engine.everyone)

    # ---------------------------------------------------------------- tables

    def _fill_tables(self) -> None:
        """Every table at its nominal value in every world."""
        robot, worlds, model = self.built.robot, self.engine.worlds, self.built.model
        widths = {"joint": len(robot.joints), "sensor": len(robot.sensors), "geom": model.ngeom}
        for kind in KINDS.values():
            name = kind.fields[0]
            if name.startswith("sim.") and name[4:] not in MOTOR_TABLES:
                width = len(robot.actuators) if kind.name in ("rate_limit", "rotor_lag") else widths.get(kind.target)
                shape = (
                    worlds,
                    *((width,) if width is not None else ()),
                    *((len(kind.components),) if kind.components else ()),
                )
                self.tables[name[4:]] = np.full(shape, kind.default)
        for name, value in self.motors.nominal.items():
            self.tables[name] = np.tile(value, (worlds, 1))
        dofs = [int(model.joint(j).dofadr[0]) for j in robot.joints]
        self.tables["coulomb"][:] = model.dof_frictionloss[dofs]
        self.tables["gravity"][:] = np.linalg.norm(model.opt.gravity)
        self.tables["slope"] = np.tile(slope_of(model.opt.gravity), (worlds, 1))
        self.tables["rotor_lag"][:] = [a.lag for a in robot.actuators]
        self.tables["friction_base"] = np.tile(model.geom_friction[:, 0], (worlds, 1))
        self.tables["friction_scale"] = np.ones((worlds, model.ngeom))
        for index, sensor in enumerate(robot.sensors):
            self.tables["sensor_delay"][:, index] = sensor.delay
            for figure, table in SENSOR_FIGURES.get(sensor.kind, {}).items():
                if figure in sensor.figures:
                    columns = (
                        [robot.joints.index(j) for j in sensor.of] if table.startswith(("encoder", "velocity")) else ...
                    )
                    self.tables[table][:, columns] = sensor.figures[figure]
        self._default_areas()

    def _default_areas(self) -> None:
        """Wind and gusts act through a drag area; without a drag Param it is the one stated with them."""
        kinds = {s.param.kind: s.param for s in self.slots.values()}
        if "drag" not in kinds:
            for kind in ("wind", "gust"):
                if kind in kinds:
                    self.tables["drag"][:] = kinds[kind].options["area"]

    def option(self, kind: str, name: str, default: float) -> float:
        """Option of the Param of a kind, or `default` when this Sim has none."""
        for slots in self.slots.values():
            if slots.param.kind == kind:
                return slots.param.options[name]
        return default

    def has(self, kind: str) -> bool:
        """Whether some Param of this kind is part of e."""
        return any(slots.param.kind == kind for slots in self.slots.values())

    def targets(self, kind: str) -> np.ndarray:
        """Indices that the Params of a kind act on, (k,); empty when there is none."""
        found = [slots.ids for slots in self.slots.values() if slots.param.kind == kind]
        return np.concatenate(found) if found else np.zeros(0, dtype=int)

    # ---------------------------------------------------------------- write and read

    def write(self, e: Mapping[str, np.ndarray], rows: np.ndarray) -> None:
        """Put checked values (one row a world of `rows`) where they act."""
        motors = gravity = coulomb = False
        for name, value in e.items():
            slots = self.slots[name]
            kind = slots.param.about
            v = self._spread(value, slots)
            SPECIAL.get(kind.name, PLAIN)[0](self, slots, rows, v)
            motors |= kind.name in MOTOR_TABLES or kind.name == "speed_limit"
            gravity |= kind.name in ("gravity", "slope")
            coulomb |= kind.name == "coulomb"
        if motors:
            self.motors.write(self.engine.field, self.tables.__getitem__, rows)
        if gravity:
            self.engine.field("opt.gravity")[rows] = gravity_vector(
                self.tables["gravity"][rows], self.tables["slope"][rows]
            )
        if coulomb and "friction_law" not in self.built.features:
            dofs = self.joint_dofs
            self.engine.field("dof_frictionloss")[np.ix_(rows, dofs)] = self.tables["coulomb"][rows]
        self.follow_ground(rows)

    def refresh_constants(self, rows: np.ndarray) -> None:
        """Compute anew, for worlds `rows`, what the engine derives from its fields.

        Plates are laid aside for it: the engine notes which geoms have the frame of their body, and bounds of where they are, and
        would hold a plate to both.
        """
        plates = self.built.plates
        if plates is None or "geom_pos" not in self.engine.expanded:
            self.engine.refresh_constants(rows)
            return
        at = np.ix_(rows, plates.ids.ravel())
        before = {name: self.engine.field(name)[at] for name in LAID_ASIDE}
        for name, value in LAID_ASIDE.items():
            self.engine.field(name)[at] = value
        self.engine.refresh_constants(rows)
        for name, value in before.items():
            self.engine.field(name)[at] = value

    def follow_ground(self, rows: np.ndarray) -> None:
        """Give the ground's plates in worlds `rows` what contacts with the ground itself would have."""
        if self.built.plates is None:
            return
        ground, plates = self.built.model.geom(GROUND).id, self.built.plates.ids.ravel()
        for name in FOLLOWED:
            if name in self.engine.expanded:
                values = self.engine.field(name)
                values[np.ix_(rows, plates)] = values[rows, ground][:, None]

    @property
    def joint_dofs(self) -> np.ndarray:
        """Degree of freedom of every joint of the robot, in its order."""
        return np.array([int(self.built.model.joint(j).dofadr[0]) for j in self.built.robot.joints], dtype=int)

    @staticmethod
    def _spread(value: np.ndarray, slots: Slots) -> np.ndarray:
        """Value of a Param as (rows, targets) or (rows, targets, components), tied values repeated."""
        c, k, rows = len(slots.param.about.components), len(slots.ids), len(value)
        v = value.reshape(rows, -1, c) if c else value.reshape(rows, -1)
        return np.broadcast_to(v, (rows, k, c) if c else (rows, k))

    def read(self) -> E:
        """e as the engine's fields and the tables hold it now, decoded."""
        return {name: self.read_one(name) for name in self.slots}

    def read_one(self, name: str) -> np.ndarray:
        """One Param decoded, (worlds,) or (worlds, elements)."""
        slots = self.slots[name]
        v = SPECIAL.get(slots.param.kind, PLAIN)[1](self, slots)
        rows = len(v)
        if not slots.param.each:
            v = v[:, 0]
        return v.reshape(rows, -1).copy() if slots.elements else v.reshape(rows).copy()


def gravity_vector(strength: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Gravity (rows, 3) [m/s²] over ground that rises with angles slope (rows, 2) along x and y."""
    up = np.stack([np.tan(slope[:, 0]), np.tan(slope[:, 1]), np.ones(len(slope))], axis=1)
    return -strength[:, None] * up / np.linalg.norm(up, axis=1, keepdims=True)


def slope_of(gravity: np.ndarray) -> np.ndarray:
    """Slopes (2,) [rad] along x and y that the direction of a model's gravity (3,) stands for."""
    return np.arctan(gravity[:2] / gravity[2]) if gravity[2] < 0 else np.zeros(2)
