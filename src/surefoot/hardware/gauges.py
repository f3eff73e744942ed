"""Sensors of a stand-in robot: noise, steps, biases, filters, and an attitude that is estimated, not known.

    encoder    quantum round((q + bias + σ n) / quantum); speed measured with noise, or the filtered difference of readings
    IMU        R(mounting)ᵀ ω + bias + walk + drift (T - 25 °C) + N n √rate; specific force alike, behind a filter of 3 ms
    attitude   q̂' = ½ q̂ (ω_m + K a × g(q̂)): the gyro integrated, pulled slowly to where the accelerometer says down
    position   as a positioning deck gives it, at its own rate

Readings are made at the robot's rate and delivered `sensor_delay` later, under the time at which they are delivered.
"""

from collections import deque
from collections.abc import Mapping

import numpy as np

from surefoot.contract import Wire
from surefoot.hardware.plant import Plant
from surefoot.hardware.reality import Reality
from surefoot.robots import Robot

XYZ = ("x", "y", "z")
IMU_FILTER = 0.003  # [s]
G = 9.81
PULL, HEADING_PULL = 0.3, 0.5
"""How fast the attitude is drawn to the accelerometer's and to the positioning deck's heading [1/s]."""
FIRST_PULL, SETTLING = 5.0, 1.0
"""The same while the robot lies still after power-on [1/s], and for how long [s]."""
WARM = 20.0, 30.0
"""How far the electronics warm up after power-on [K], and how fast [s]."""
SHAKE = 330.0
"""Frequency of a rotor at full speed [Hz]."""


class Attitude:
    """A complementary filter: quaternion (4,), world from body; heading starts at 0."""

    def __init__(self) -> None:
        self.quat: np.ndarray | None = None
        self.age = 0.0  # [s]
        self.acceleration = np.zeros(3)  # estimated from the positioning deck, world frame

    def update(self, gyro: np.ndarray, accel: np.ndarray, dt: float, heading: float | None = None) -> None:
        """Move on by dt under measured rates and specific force (3,), and where there is one a measured heading [rad]."""
        if self.quat is None:
            still = abs(float(np.sqrt(accel @ accel)) - G) < 0.1 * G
            self.quat = _upright(accel if still else np.array([0.0, 0.0, G]))
        R = matrix(self.quat)
        self.age += dt
        down = accel - R.T @ self.acceleration
        size = float(np.sqrt(down @ down))
        rates = gyro.copy()
        if abs(size - G) < 0.25 * G:
            rates += (PULL if self.age > SETTLING else FIRST_PULL) * cross(down / size, R[2])
        if heading is not None:
            now = np.arctan2(R[1, 0], R[0, 0])
            off = (heading - now + np.pi) % (2 * np.pi) - np.pi
            rates += HEADING_PULL * off * R[2]
        self.quat = _turned(self.quat, rates * dt)

    @property
    def gravity(self) -> np.ndarray:
        """Unit vector of gravity in the body's frame, (3,)."""
        assert self.quat is not None
        return -matrix(self.quat)[2]


class Gauges:
    """All sensors of one robot; `settle` before the first step, `feel` every physics step, `sample` at every reading."""

    def __init__(self, robot: Robot, reality: Reality, plant: Plant, rng: np.random.Generator):
        self.robot, self.reality, self.plant, self.rng = robot, reality, plant, rng
        self.period = 1.0 / reality.rate
        self.figures = {s.kind: s.figures for s in robot.sensors}
        self.channels = self._channels()
        self.slices = _slices(self.channels)
        self.size = sum(len(w.columns) for w in self.channels.values())
        self._encoders()
        self._imu()
        one = reality.one
        deck = self.figures.get("position", {})
        self.deck_noise = one("position_noise", deck.get("noise", 0.0))
        self.deck_speed_noise = one("position_velocity_noise", deck.get("velocity_noise", 0.0))
        self.deck_period = max(
            self.period, 1.0 / next((s.rate for s in robot.sensors if s.kind == "position" and s.rate), reality.rate)
        )
        self.deck_next, self.deck = 0.0, np.zeros(6)
        self.torque_noise = one("torque_noise", self.figures.get("motor_torque", {}).get("noise", 0.0))
        self.force_noise = one("force_noise", self.figures.get("foot_force", {}).get("noise", 0.0))
        self.delay = one("sensor_delay")
        self.waiting: deque[tuple[float, np.ndarray]] = deque()
        self.shown: np.ndarray | None = None

    def _channels(self) -> dict[str, Wire]:
        robot, kinds = self.robot, self.figures
        found: dict[str, Wire] = {}
        if robot.joints:
            found |= {
                "joint_pos": Wire(unit="rad", columns=robot.joints),
                "joint_vel": Wire(unit="rad/s", columns=robot.joints),
            }
        if "motor_torque" in kinds:
            found["joint_torque"] = Wire(unit="N·m", columns=self.plant.outputs)
        if self.plant.motors is not None and not self.plant.motors.by_voltage:
            found["joint_temperature"] = Wire(unit="degC", columns=self.plant.outputs)
        if "imu" in kinds:
            found |= {"gyro": Wire(unit="rad/s", columns=XYZ), "accel": Wire(unit="m/s^2", columns=XYZ)}
            found |= {"quat": Wire(unit="1", columns=("w", *XYZ)), "gravity": Wire(unit="1", columns=XYZ)}
        if "foot_force" in kinds:
            found["foot_force"] = Wire(unit="N", columns=robot.feet)
        if "position" in kinds:
            found |= {"base_pos": Wire(unit="m", columns=XYZ), "base_vel_world": Wire(unit="m/s", columns=XYZ)}
        return found

    def _encoders(self) -> None:
        reality, joints = self.reality, self.robot.joints
        own = self.figures.get("encoder", {})

        def each(key: str, figure: str) -> np.ndarray:
            return reality.each(key, joints, [own.get(figure, 0.0)] * len(joints))

        self.bias = reality.each("encoder_bias", joints)
        self.noise, self.quantum = each("encoder_noise", "noise"), each("encoder_quantum", "quantum")
        self.speed_noise, self.speed_filter = each("velocity_noise", "velocity_noise"), reality.one("velocity_filter")
        self.last_angle: np.ndarray | None = None
        self.speed = np.zeros(len(joints))

    def _imu(self) -> None:
        reality, own, rng = self.reality, self.figures.get("imu", {}), self.rng
        one, root = reality.one, np.sqrt(reality.rate)
        self.gyro_bias, self.accel_bias = reality.xyz("gyro_bias"), reality.xyz("accel_bias")
        self.gyro_noise = one("gyro_noise", own.get("gyro_noise", 0.0)) * root
        self.accel_noise = one("accel_noise", own.get("accel_noise", 0.0)) * root
        self.gyro_walk = one("gyro_walk", own.get("gyro_walk", 0.0)) * np.sqrt(self.period)
        self.gyro_drift = reality.xyz("gyro_drift")
        self.mounting = _rotation(reality.xyz("imu_mounting"))
        self.wander = np.zeros(3)
        self.force: np.ndarray | None = None
        self._share = 1.0 - float(np.exp(-self.plant.dt / IMU_FILTER))
        self.attitude = Attitude()
        self.vibration = reality.one("vibration")
        self.shake = rng.uniform(0.0, 2 * np.pi, len(self.robot.actuators))

    # ---------------------------------------------------------------- every physics step

    def feel(self) -> None:
        """Filter what the accelerometer feels."""
        plant = self.plant
        if not plant.imu:
            return
        raw = plant.data.sensordata[plant.imu["accel"] : plant.imu["accel"] + 3]
        if self.force is None:
            self.force = raw.copy()
        self.force += (raw - self.force) * self._share

    # ---------------------------------------------------------------- every reading

    def sample(self, late: float = 0.0) -> np.ndarray:
        """What is delivered now, all channels in a row, (size,); `late` is a further delay [s]."""
        t = self.plant.t
        self.waiting.append((t, self._fresh(t)))
        while self.waiting and self.waiting[0][0] <= t - self.delay - late + 1e-9:
            self.shown = self.waiting.popleft()[1]
        return self.waiting[0][1] if self.shown is None else self.shown

    def _fresh(self, t: float) -> np.ndarray:
        out, plant = np.zeros(self.size), self.plant
        values: dict[str, np.ndarray] = {}
        if self.robot.joints:
            values["joint_pos"], values["joint_vel"] = self._joints()
        if plant.motors is not None:
            n = len(plant.outputs)
            values["joint_torque"] = plant.motors.sensed + self.torque_noise * self.rng.standard_normal(n)
            values["joint_temperature"] = np.round(plant.motors.condition.temperature)
        if "base_pos" in self.channels:
            self._see_position(t)
            values["base_pos"], values["base_vel_world"] = self.deck[:3], self.deck[3:]
        if plant.imu:
            values |= self._inertial(t)
        if "foot_force" in self.channels:
            loads = plant.loads()
            values["foot_force"] = np.maximum(0.0, loads + self.force_noise * self.rng.standard_normal(len(loads)))
        for name, where in self.slices.items():
            out[where] = values[name]
        return out

    def _joints(self) -> tuple[np.ndarray, np.ndarray]:
        rng = self.rng
        q, dq = self.plant.angles()
        q = q + self.bias + self.noise * rng.standard_normal(len(q))
        q = np.where(self.quantum > 0, np.round(q / np.where(self.quantum > 0, self.quantum, 1.0)) * self.quantum, q)
        if self.speed_filter:
            before = q if self.last_angle is None else self.last_angle
            self.speed += ((q - before) / self.period - self.speed) * (1.0 - np.exp(-self.period / self.speed_filter))
            self.last_angle = q
            return q, self.speed.copy()
        return q, dq + self.speed_noise * rng.standard_normal(len(q))

    def _inertial(self, t: float) -> Mapping[str, np.ndarray]:
        plant, rng = self.plant, self.rng
        at = plant.imu["gyro"]
        warm = WARM[0] * (1.0 - np.exp(-t / WARM[1]))
        self.wander += self.gyro_walk * rng.standard_normal(3)
        gyro = self.mounting.T @ plant.data.sensordata[at : at + 3]
        gyro = gyro + self.gyro_bias + self.wander + self.gyro_drift * warm + self.gyro_noise * rng.standard_normal(3)
        force = np.array([0.0, 0.0, G]) if self.force is None else self.force
        accel = self.mounting.T @ force + self.accel_bias + self.accel_noise * rng.standard_normal(3)
        if self.vibration and plant.rotors is not None:
            speed = plant.rotors.speed
            self.shake = (self.shake + 2 * np.pi * SHAKE * speed * self.period) % (2 * np.pi)
            strong = self.vibration * speed * speed
            waves = np.sin(self.shake), np.cos(self.shake), np.sin(2 * self.shake)
            accel = accel + np.array(waves) @ strong
        heading = None
        if "base_pos" in self.channels and not plant.held:
            w, x, y, z = plant.data.qpos[plant.bq + 3 : plant.bq + 7]
            heading = float(np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z)) + 0.02 * rng.standard_normal())
        self.attitude.update(gyro, accel, self.period, heading)
        quat = self.attitude.quat
        assert quat is not None
        return {"gyro": gyro, "accel": accel, "quat": quat, "gravity": self.attitude.gravity}

    def _see_position(self, t: float) -> None:
        if t + 1e-9 < self.deck_next:
            return
        plant, rng = self.plant, self.rng
        before = self.deck[3:].copy()
        place, speed = plant.data.qpos[plant.bq : plant.bq + 3], plant.data.qvel[plant.bv : plant.bv + 3]
        self.deck = np.concatenate(
            [place + self.deck_noise * rng.standard_normal(3), speed + self.deck_speed_noise * rng.standard_normal(3)]
        )
        if t > 0:
            change = (self.deck[3:] - before) / self.deck_period
            self.attitude.acceleration += (change - self.attitude.acceleration) * (
                1.0 - np.exp(-self.deck_period / 0.1)
            )
        self.deck_next += self.deck_period


# -------------------------------------------------------------------- rotations


def _slices(channels: Mapping[str, Wire]) -> dict[str, slice]:
    """Where each channel stands in the row of all readings."""
    found, at = {}, 0
    for name, wire in channels.items():
        found[name] = slice(at, at + len(wire.columns))
        at += len(wire.columns)
    return found


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Vector product of two (3,)."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def matrix(quat: np.ndarray) -> np.ndarray:
    """Rotation matrix (3, 3) of a unit quaternion (4,)."""
    w, x, y, z = quat.tolist()
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _rotation(vector: np.ndarray) -> np.ndarray:
    return matrix(_turned(np.array([1.0, 0.0, 0.0, 0.0]), vector))


def _turned(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """quat after a rotation by `vector` (3,) [rad] in the body's frame."""
    angle = float(np.sqrt(vector @ vector))
    half = 0.5 if angle < 1e-9 else np.sin(0.5 * angle) / angle
    c, (a, b, d) = float(np.cos(0.5 * angle)), (half * vector).tolist()
    w, x, y, z = quat.tolist()
    out = np.array(
        [
            w * c - x * a - y * b - z * d,
            w * a + x * c + y * d - z * b,
            w * b - x * d + y * c + z * a,
            w * d + x * b - y * a + z * c,
        ]
    )
    return out / np.sqrt(out @ out)


def _upright(accel: np.ndarray) -> np.ndarray:
    """The attitude without heading in which `accel` (3,) points up."""
    up = accel / max(float(np.linalg.norm(accel)), 1e-9)
    axis = cross(up, np.array([0.0, 0.0, 1.0]))
    size = float(np.linalg.norm(axis))
    angle = np.arctan2(size, up[2])
    return _turned(np.array([1.0, 0.0, 0.0, 0.0]), axis * (angle / size if size > 1e-9 else 0.0))
