"""From a Robot and its Params to one compiled model: everything structural happens here, once.

A numeric Param only needs a slot to write to. A structural one needs something in the model first: a contact dimension,
a play joint, a motor with windings, a payload body, a bank of height fields with plates for round feet. `build` makes all
of that, and returns the model with the names under which the rest of `sim` finds it again.
"""

from dataclasses import dataclass

import mujoco

from surefoot.errors import InputError
from surefoot.params import Params
from surefoot.robots import Robot
from surefoot.sim.drives import add_actuators
from surefoot.sim.edits import EDITS
from surefoot.sim.names import GROUND
from surefoot.sim.plates import Plates, add_plates, compiled_plates
from surefoot.sim.terrain import Terrain, add_terrain


@dataclass(frozen=True, kw_only=True)
class Built:
    """A compiled model and what was built into it."""

    robot: Robot
    model: mujoco.MjModel
    features: frozenset[str]
    """Structural needs of the Params: 'friction_law', 'dcmotor', 'sensor_history', ..."""
    motors: tuple[str, ...]
    """Actuators that became motors with windings (K, R, voltage)."""
    terrain: Terrain | None
    plates: Plates | None = None
    """Planes that stand in for the terrain under round geoms; only the CPU engine has them."""

    def named(self, kind: mujoco.mjtObj) -> list[str]:
        """Names of all objects of a kind, in the model's order; unnamed ones are ''."""
        count = {
            mujoco.mjtObj.mjOBJ_GEOM: self.model.ngeom,
            mujoco.mjtObj.mjOBJ_BODY: self.model.nbody,
            mujoco.mjtObj.mjOBJ_JOINT: self.model.njnt,
        }[kind]
        return [mujoco.mj_id2name(self.model, kind, i) or "" for i in range(count)]


def build(robot: Robot, params: Params, *, collisions: str = "few", plates: bool = True) -> Built:
    """Compile a robot's model with everything its Params need built in; on a terrain with `plates` for the CPU engine."""
    spec = robot.spec(collisions=collisions)
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    features: set[str] = set()
    terrain: Terrain | None = None
    if robot.ground and not any(g.type == mujoco.mjtGeom.mjGEOM_PLANE for g in spec.geoms):
        spec.worldbody.add_geom(
            name=GROUND,
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[0, 0, 1],
            friction=[1, 0.005, 0.0001],
            contype=1,
            conaffinity=1,
            material=_scenery(spec),
        )
    for name, param in sorted(params.items(), key=lambda item: item[1].about.structural != "terrain"):
        need = param.about.structural
        features |= {need} - {""}
        try:
            if need == "terrain":
                if terrain is not None:
                    raise InputError("a Sim has one terrain: give roughness or step_height, not both")
                terrain = add_terrain(spec, param, GROUND)
            elif need in EDITS:
                EDITS[need](spec, robot, param)
        except InputError as error:
            raise InputError(f"param '{name}': {error}") from None
    motors = add_actuators(spec, robot, params)
    _add_sensors(spec, robot)
    if robot.height and robot.base is not None:
        spec.body(robot.base).pos[2] = robot.height
    added = add_plates(spec, robot.feet) if plates and terrain is not None else []
    if added:
        features.add("terrain_law")
    model = spec.compile()
    return Built(
        robot=robot, model=model, features=frozenset(features), motors=motors, terrain=terrain, plates=compiled_plates(added)
    )  # fmt: skip


def _scenery(spec: mujoco.MjSpec) -> str:
    """Light, sky and a checkered floor, for pictures; returns the floor's material."""
    spec.worldbody.add_light(
        pos=[0, 0, 4], dir=[0.05, 0.1, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, diffuse=[0.5, 0.5, 0.5]
    )
    sky, checker = mujoco.mjtTexture.mjTEXTURE_SKYBOX, mujoco.mjtTexture.mjTEXTURE_2D
    spec.add_texture(
        name="sky",
        type=sky,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.75, 0.83, 0.92],
        rgb2=[0.95, 0.96, 0.98],
        width=64,
        height=384,
    )
    spec.add_texture(
        name="checker",
        type=checker,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.86, 0.87, 0.88],
        rgb2=[0.78, 0.8, 0.82],
        width=64,
        height=64,
    )
    material = spec.add_material(name="floor", texrepeat=[2, 2], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "checker"
    return "floor"


def _add_sensors(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Native sensors for what the state does not hold: accelerometer, and contact force of each foot."""
    kinds = {s.kind for s in robot.sensors}
    if robot.imu is not None and "imu" in kinds:
        spec.add_sensor(
            name="accel",
            type=mujoco.mjtSensor.mjSENS_ACCELEROMETER,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname=robot.imu,
        )
        body = spec.site(robot.imu).parent.name
        if body != robot.base:
            # The state holds the rates and attitude of a free base only; elsewhere the engine reads them.
            gyro, frame = mujoco.mjtSensor.mjSENS_GYRO, mujoco.mjtSensor.mjSENS_FRAMEQUAT
            spec.add_sensor(name="gyro", type=gyro, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=robot.imu)
            spec.add_sensor(name="quat", type=frame, objtype=mujoco.mjtObj.mjOBJ_XBODY, objname=body)
    for sensor in robot.sensors:
        if sensor.kind == "foot_force":
            for geom in sensor.of:
                spec.add_sensor(
                    name=f"force:{geom}",
                    type=mujoco.mjtSensor.mjSENS_CONTACT,
                    objtype=mujoco.mjtObj.mjOBJ_GEOM,
                    objname=geom,
                    intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), 3, 1],
                )
        elif sensor.kind == "wrench":
            for kind, suffix in ((mujoco.mjtSensor.mjSENS_FORCE, "force"), (mujoco.mjtSensor.mjSENS_TORQUE, "torque")):
                spec.add_sensor(
                    name=f"wrench:{suffix}", type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=sensor.site
                )
