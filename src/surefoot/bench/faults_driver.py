"""Faults in the driver's raw readings: everything else in the run is right, and so is the builder."""

from collections.abc import Callable

import numpy as np

from surefoot.bench.fault_runs import Case, Hooks, Past, Readings
from surefoot.bench.planted import DEGREES, ENCODERS, Plant, Planted, any_joint, fault, legged, on, signed, swap
from surefoot.contract import projected_gravity
from surefoot.deploy.imu_checks import conjugate, multiply


def _driver(
    name: str,
    channels: tuple[str, ...],
    change: Callable[[np.ndarray], np.ndarray],
    terms: tuple[str, ...],
    kinds: tuple[str, ...],
) -> None:
    """Register a driver fault that changes some channels by a function of each reading alone."""

    @fault(name, driver=True)
    def _(case: Case, rng: np.random.Generator) -> Planted | None:
        have = {s.kind for s in case.robot.sensors}
        needs = {"gyro": "imu", "quat": "imu", "gravity": "imu", "accel": "imu", "joint_torque": "motor_torque"}
        if any(needs.get(c, "encoder") not in have for c in terms):
            return None
        return Planted(hooks=Hooks(driver=on(channels, change)), where="driver", terms=terms, kinds=kinds)


_driver("driver: speed sign", ("joint_vel",), lambda v: -v, ("joint_vel",), ("sign",))
_driver("driver: speed in degrees per second", ("joint_vel",), lambda v: v * DEGREES, ("joint_vel",), ("degrees",))
_driver("driver: speed scaled", ("joint_vel",), lambda v: 2.0 * v, ("joint_vel",), ("scale",))
_driver("driver: angles in degrees", ("joint_pos",), lambda v: v * DEGREES, ("joint_pos",), ("degrees",))
_driver("driver: gyro in degrees per second", ("gyro",), lambda v: v * DEGREES, ("gyro",), ("degrees",))
_driver("driver: gyro axes swapped", ("gyro",), lambda v: v[[1, 0, 2]], ("gyro",), ("permuted",))
_driver("driver: gyro sign", ("gyro",), lambda v: -v, ("gyro",), ("sign",))
_driver("driver: gravity points up", ("gravity",), lambda v: -v, ("gravity",), ("sign",))
_driver("driver: accelerometer in g", ("accel",), lambda v: v / 9.81, ("accel",), ("scale",))
_driver("driver: torque sign", ("joint_torque",), lambda v: -v, ("joint_torque",), ("sign",))


@fault("driver: encoders swapped", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted:
    order = swap(case, rng)
    channels = ENCODERS if legged(case) else ("joint_pos", "joint_vel")
    return Planted(
        hooks=Hooks(driver=on(channels, lambda v: v[order])), where="driver", terms=("joint_pos",), kinds=("permuted",)
    )


@fault("driver: sign of one joint", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted:
    j = any_joint(case, rng)
    channels = ENCODERS if legged(case) else ("joint_pos", "joint_vel")
    hooks = Hooks(driver=on(channels, lambda v: v * signed(len(v), j)))
    return Planted(hooks=hooks, where="driver", terms=("joint_pos",), kinds=("sign",))


@fault("driver: stuck encoder", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted:
    j, since = any_joint(case, rng), rng.uniform(0.9, 1.2)

    def stick(y: Readings, past: Past) -> Readings:
        kept = past.past.setdefault("stuck", [])
        if past.tick * case.inner < since:
            kept[:] = [float(y["joint_pos"][j])]
        value = y["joint_pos"].copy()
        value[j] = kept[0]
        return {**y, "joint_pos": value}

    return Planted(hooks=Hooks(driver=stick), where="driver", terms=("joint_pos",), kinds=("stuck",))


@fault("driver: stuck gyro", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not legged(case):
        return None

    def stick(y: Readings, past: Past) -> Readings:
        return {**y, "gyro": past.past.setdefault("gyro", [y["gyro"].copy()])[0]} if past.tick * case.inner > 1.0 else y

    return Planted(hooks=Hooks(driver=stick), where="driver", terms=("gyro",), kinds=("stuck",))


@fault("driver: speeds late", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted:
    late = round(0.06 / case.inner)
    hooks = Hooks(driver=lambda y, past: {**y, "joint_vel": past.delayed("dq", y["joint_vel"], late)})
    return Planted(hooks=hooks, where="driver", terms=("joint_vel",), kinds=("delayed",))


@fault("driver: gyro late", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not legged(case):
        return None
    late = round(0.06 / case.inner)
    hooks = Hooks(driver=lambda y, past: {**y, "gyro": past.delayed("gyro", y["gyro"], late)})
    return Planted(hooks=hooks, where="driver", terms=("gyro",), kinds=("delayed",))


@fault("driver: quaternion order", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not legged(case):
        return None

    def mixed(y: Readings, past: Past) -> Readings:
        quat = np.roll(y["quat"], -1)
        return {**y, "quat": quat, "gravity": projected_gravity(quat)}

    return Planted(hooks=Hooks(driver=mixed), where="driver", terms=("quat",), kinds=("quaternion order",))


@fault("driver: inverse quaternion", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not legged(case):
        return None

    def inverse(y: Readings, past: Past) -> Readings:
        quat = conjugate(y["quat"])
        return {**y, "quat": quat, "gravity": projected_gravity(quat)}

    return Planted(hooks=Hooks(driver=inverse), where="driver", terms=("quat",), kinds=("frame",))


@fault("driver: gravity by the inverse rotation", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not legged(case):
        return None
    hooks = Hooks(driver=lambda y, past: {**y, "gravity": projected_gravity(conjugate(y["quat"]))})
    return Planted(hooks=hooks, where="driver", terms=("gravity",), kinds=("frame",))


def _mounted(axis: np.ndarray, angle: float) -> Plant:
    """The whole IMU turned in its mounting."""

    def plant(case: Case, rng: np.random.Generator) -> Planted | None:
        if not legged(case):
            return None
        turn = np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)])
        w, v = turn[0], turn[1:]

        def into(vector: np.ndarray) -> np.ndarray:
            """The vector in the turned sensor's axes."""
            return vector + 2 * w * np.cross(-v, vector) + 2 * np.cross(-v, np.cross(-v, vector))

        def turned(y: Readings, past: Past) -> Readings:
            vectors = {k: into(y[k]) for k in ("gyro", "accel", "gravity")}
            return {**y, **vectors, "quat": multiply(y["quat"], turn)}

        return Planted(hooks=Hooks(driver=turned), where="driver", terms=("imu",), kinds=("mounting",))

    return plant


fault("driver: IMU upside down", driver=True)(_mounted(np.array([1.0, 0.0, 0.0]), np.pi))
fault("driver: IMU turned by 90 degrees", driver=True)(_mounted(np.array([0.0, 0.0, 1.0]), np.pi / 2))
fault("driver: IMU turned by 180 degrees", driver=True)(_mounted(np.array([0.0, 0.0, 1.0]), np.pi))


@fault("driver: gains ignored", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if case.bundle.contract.kp is None:
        return None
    factor = float(rng.choice([0.35, 2.5]))
    return Planted(hooks=Hooks(hidden_gain=factor), where="driver", terms=("joint_torque",), kinds=("gains",))


@fault("driver: encoder zero", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not legged(case):
        return None
    j, shift = any_joint(case, rng), float(rng.choice([-0.4, 0.4]))
    row = np.zeros(12)
    row[j] = shift
    return Planted(
        hooks=Hooks(driver=on(("joint_pos",), lambda v: v + row)),
        where="driver",
        terms=("joint_pos",),
        kinds=("offset",),
    )


@fault("driver: legs swapped both ways", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not legged(case):
        return None
    order = np.array([3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8])
    hooks = Hooks(driver=on((*ENCODERS,), lambda v: v[order]), motors=lambda u, past: u[order])
    return Planted(hooks=hooks, where="driver", terms=("joint_pos",), kinds=("permuted",))
