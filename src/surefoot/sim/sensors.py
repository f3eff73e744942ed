"""y = h(x, e) + v: what the robot's sensors deliver, from the state and nothing a robot could not measure.

    encoder   q_m = quantum round((q + bias + σ n) / quantum)          dq_m measured, or the difference of two q_m,
              or the speed through a low-pass, τ ds/dt = dq - s, with the noise of angle differences at the sensor's own rate;
              what has a low-pass is not differenced once more over the control step
    gyro      ω_m = (1 + scale) R(misalignment) R(mounting)ᵀ ω + bias + walk + N n / √T       walk += K √T n
    accel     the same, of the specific force at the IMU's site
    quat, gravity   attitude of the IMU against gravity, mounting included
    position  p_m = p + σ n, v_m = v + σ_v n in the world's frame, as a positioning deck and its estimator give them
    force     f_m = f + σ n + drift (temperature - 25 °C)
    scan      s_m = clip(base height - ground height - nominal height + offset + σ n, ±range), heights along gravity, at points
              of a grid around the base that turns with its heading; offset is drawn once an episode

A sensor delivers at every control step what it sampled at floor(t / period) period - delay - jitter; a lost reading
repeats the last, and between two samples the reading stays, noise and all. Every function works on the last two axes
(worlds, columns), so that a whole replay (samples, worlds, columns) is read in one call, and on arrays of the engine's
own library, NumPy or torch.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from array_api_compat import array_namespace

from surefoot.errors import InputError
from surefoot.robots import scan_points
from surefoot.sim.build import Built
from surefoot.sim.inertia import UP_IN_BODY, quaternion, rotation
from surefoot.sim.noise import Noise
from surefoot.sim.physics import Physics
from surefoot.sim.speeds import low_passed, noise_of_differences
from surefoot.sim.terrain import ground_under

Array = Any
Readings = dict[str, Array]
CHANNELS = {
    "encoder": ("joint_pos", "joint_vel"), "imu": ("gyro", "accel", "quat", "gravity"), "foot_force": ("foot_force",),
    "wrench": ("wrench",), "motor_torque": ("joint_torque",), "position": ("base_pos", "base_vel_world"),
    "height_scan": ("height_scan",),
}  # fmt: skip
"""What each kind of sensor delivers."""


@dataclass(frozen=True, kw_only=True)
class View:
    """State as sampled at one instant in every world: rows of qpos, qvel, native sensor data and actuator forces."""

    qpos: Array
    qvel: Array
    sensordata: Array
    actuator_force: Array


def rotation_vector_matrix(v: Array) -> Array:
    """Rotation matrices (..., 3, 3) of rotation vectors (..., 3)."""
    xp = array_namespace(v)
    angle = xp.linalg.vector_norm(v, axis=-1, keepdims=True)
    axis = v / xp.where(angle > 0, angle, xp.ones_like(angle))
    return rotation(xp.concat([xp.cos(0.5 * angle), xp.sin(0.5 * angle) * axis], axis=-1))


MOUNTED = ("imu_mounting", "gyro_misalignment", "accel_misalignment")
"""Tables that turn the IMU's readings."""
WHITE = ("gyro_noise", "accel_noise", "sensor_period")
"""Tables that decide the size of the IMU's white noise."""


class Sensors:
    """The sensors of one robot in all worlds. Memory: bias walks, the last delivered readings, the last two angles."""

    def __init__(self, built: Built, physics: Physics, noise: Noise, control_dt: float):
        robot, model = built.robot, built.model
        self.robot, self.physics, self.noise, self.dt = robot, physics, noise, control_dt
        self.worlds, own = physics.engine.worlds, physics.engine.array
        self.xp = array_namespace(physics.engine.qpos)
        self.q = own(np.array([int(model.joint(j).qposadr[0]) for j in robot.joints], dtype=int))
        self.dq = own(np.array([int(model.joint(j).dofadr[0]) for j in robot.joints], dtype=int))
        self._q, self._dq = as_slice(self.q), as_slice(self.dq)
        self.motors = as_slice(own(physics.motors.ids))
        feet = [g for s in robot.sensors if s.kind == "foot_force" for g in s.of]
        self.forces = own(np.array([int(model.sensor(f"force:{g}").adr[0]) + 2 for g in feet], dtype=int))
        self._forces = as_slice(self.forces)
        self.accel, self.gyro, self.quat, self.wrench = (
            int(model.sensor(name).adr[0]) if self._has_sensor(model, name) else None
            for name in ("accel", "gyro", "quat", "wrench:force")
        )
        self.columns = self._own_columns()
        period = np.full(len(robot.joints), control_dt)
        for i in self.of_kind("encoder"):
            period[self.columns[i]] = 1.0 / robot.sensors[i].rate
        self.encoder_period = own(period)
        torque_noise = np.zeros(len(physics.motors.ids))
        for i, sensor in enumerate(robot.sensors):
            if sensor.kind == "motor_torque":
                torque_noise[self.columns[i]] = sensor.figures.get("noise", 0.0)
        self.torque_noise = own(torque_noise) if torque_noise.any() else None
        self.base_q = self.base_v = None
        site = np.eye(3)
        if robot.base is not None:
            joint = int(model.body(robot.base).jntadr[0])
            self.base_q, self.base_v = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        elif found := [s.kind for s in robot.sensors if s.kind in ("position", "height_scan")]:
            raise InputError(
                f"robot '{robot.name}' has a {found[0]} sensor but no free base: name its `base`, or drop it"
            )
        self.scans = [
            (robot.sensors[i], own(np.array(list(scan_points(robot.sensors[i]).values()))))
            for i in self.of_kind("height_scan")
        ]
        """The height scan and its points (k, 2) [m] in the heading's frame, if the robot has one."""
        self.scan_offset = own(np.full((self.worlds, 1), np.nan))
        if robot.imu is not None:
            site = rotation(np.array(model.site(robot.imu).quat))
        self._up = own(UP_IN_BODY)
        self.site, self.eye = own(site), own(np.tile(np.eye(3), (self.worlds, 1, 1)))
        self.walks = {name: own(np.zeros((self.worlds, 3))) for name in ("gyro", "accel")}
        self.last: Readings = {}
        self.sample = own(np.full((self.worlds, len(robot.sensors)), -1.0))  # number of each sensor's last own sample
        self.angles = own(np.zeros((self.worlds, 2, len(self.q))))  # readings of this control step and the one before
        self.angle_step = own(np.array(-1))
        self.speeds = own(
            np.zeros((self.worlds, 4, len(self.q)))
        )  # before the low-pass, now and a step ago; after it, now and then
        self.may_filter = physics.has("velocity_filter")
        """Whether e can give a world a low-pass: then speeds are remembered while it has none, for the low-pass to begin with."""
        self.captured = False
        """Whether steps are recorded and replayed (on a GPU): then nothing may be decided by looking at values."""
        self.active: dict[str, bool] = {}
        """By table, whether it differs from zero in any world."""
        self.retune()

    def _own_columns(self) -> list[np.ndarray]:
        """Columns of its channels that each sensor fills, in the order of robot.sensors."""
        feet = [g for s in self.robot.sensors if s.kind == "foot_force" for g in s.of]
        known = {"encoder": self.robot.joints, "motor_torque": self.physics.motors.names, "foot_force": feet}
        out = []
        for sensor in self.robot.sensors:
            if sensor.kind in known:
                names = known[sensor.kind]
                out.append(np.array([i for i, name in enumerate(names) if name in sensor.of], dtype=int))
            else:
                if any(other.kind == sensor.kind and other is not sensor for other in self.robot.sensors):
                    raise InputError(f"robot '{self.robot.name}' has two sensors of kind {sensor.kind}: keep one")
                width = (
                    len(scan_points(sensor)) if sensor.kind == "height_scan" else 6 if sensor.kind == "wrench" else 4
                )
                out.append(np.arange(width))
        return out

    def of_kind(self, kind: str) -> list[int]:
        """Numbers of the sensors of one kind, in the robot's order."""
        return [i for i, sensor in enumerate(self.robot.sensors) if sensor.kind == kind]

    @staticmethod
    def _has_sensor(model: mujoco.MjModel, name: str) -> bool:
        return mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, name) >= 0

    def retune(self, touched: Collection[str] | None = None) -> None:
        """Note which imperfections are present in any world, so that absent ones cost nothing.

        `touched` names the tables that may have changed since the last call; None: all of them.
        """
        tables = self.physics.tables
        names = tables if touched is None else touched
        self.active |= {name: bool(self.xp.any(tables[name] != 0)) for name in names}
        if any(name in names for name in MOUNTED):
            self._remount()
        if "encoder_quantum" in names:
            quantum = tables["encoder_quantum"]
            self.all_quantised = bool(self.xp.all(quantum > 0))
            self.quantum = (
                quantum if self.all_quantised else self.xp.where(quantum > 0, quantum, self.xp.ones_like(quantum))
            )
        if any(name in names for name in WHITE):
            self.white = {}
            for index in self.of_kind("imu"):
                spacing = self.xp.sqrt(self.xp.clip(tables["sensor_period"][:, index], self.dt, None))
                self.white = {name: (tables[f"{name}_noise"] / spacing)[:, None] for name in ("gyro", "accel")}

    def _remount(self) -> None:
        """Frames that the IMU's mounting and its axes give its readings; None where they are the body's."""
        tables = self.physics.tables
        self.mounting = rotation_vector_matrix(tables["imu_mounting"]) if self.active["imu_mounting"] else None
        self.frames = {}
        for name in ("gyro", "accel"):
            inside = self.eye
            if self.mounting is not None:
                inside = inside @ self.mounting
            if self.active[f"{name}_misalignment"]:
                inside = inside @ rotation_vector_matrix(tables[f"{name}_misalignment"])
            # The engine's accelerometer lives in the site's frame already; both readings are given in the body's.
            frame = (self.site @ inside if name == "gyro" else inside) @ self.site.T
            self.frames[name] = None if bool(self.xp.all(frame == self.eye)) else frame

    def clear(self, ids: Array, view: View) -> None:
        """After a reset: no walk, no memory of earlier readings."""
        for walk in self.walks.values():
            walk[ids] = 0.0
        for values in self.last.values():
            values[ids] = float("nan")
        self.scan_offset[ids] = float("nan")
        self.sample[ids] = -1.0
        self.angles[ids] = self.encoders(view, 0, False)["joint_pos"][ids, None]
        self.speeds[ids] = view.qvel[..., self._dq][ids, None]

    def arrays(self) -> dict[str, Array]:
        """The sensors' memory, for snapshots."""
        memory = {"sample": self.sample, "angles": self.angles, "angle_step": self.angle_step, "speeds": self.speeds}
        memory |= {f"walk/{name}": value for name, value in self.walks.items()}
        if self.scans:
            memory["scan_offset"] = self.scan_offset
        return memory | {f"last/{name}": value for name, value in self.last.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Put a snapshot's memory back."""
        own = self.arrays()
        self.last = {}
        for name, value in arrays.items():
            if name.startswith("last/"):
                self.last[name.removeprefix("last/")] = self.xp.asarray(value, copy=True)
            else:
                own[name][...] = value

    # ---------------------------------------------------------------- what is true

    def attitude(self, view: View) -> Array:
        """Unit quaternion of the body that carries the IMU (worlds, 4), world from body."""
        if self.quat is not None:
            quat = view.sensordata[..., self.quat : self.quat + 4]
        else:
            assert self.base_q is not None
            quat = view.qpos[..., self.base_q + 3 : self.base_q + 7]
        return quat / self.xp.sqrt(self.xp.linalg.vecdot(quat, quat, axis=-1))[..., None]

    def down(self) -> Array:
        """Unit vector of gravity in the world's frame, (worlds, 3); slope is a tilt of gravity."""
        xp, slope = self.xp, self.physics.tables["slope"]
        up = xp.concat([xp.tan(slope), xp.ones_like(slope[:, :1])], axis=1)
        return -up / xp.linalg.vector_norm(up, axis=1, keepdims=True)

    # ---------------------------------------------------------------- what is read

    def encoders(self, view: View, step: int, noisy: bool) -> Readings:
        """joint_pos and joint_vel, (worlds, joints)."""
        t, on = self.physics.tables, self.active
        q, dq = view.qpos[..., self._q], self._copy(view.qvel[..., self._dq])
        q = q + t["encoder_bias"] if on["encoder_bias"] else self._copy(q)
        if noisy and on["encoder_noise"]:
            q += t["encoder_noise"] * self.noise.normal("encoder", step, q.shape[-1])
        if on["encoder_quantum"]:
            steps = self.xp.round(q / self.quantum)
            steps *= self.quantum
            q = steps if self.all_quantised else self.xp.where(t["encoder_quantum"] > 0, steps, q)
        if noisy and on["velocity_noise"]:
            dq += t["velocity_noise"] * self.noise.normal("velocity", step, q.shape[-1])
        return {"joint_pos": q, "joint_vel": dq}

    def imu(self, view: View, step: int, noisy: bool, only: Collection[str] | None = None) -> Readings:
        """gyro, accel, quat and gravity, each (worlds, 3 or 4)."""
        if self.gyro is not None:
            rates = view.sensordata[..., self.gyro : self.gyro + 3] @ self.site.T
        else:
            assert self.base_v is not None
            rates = self._copy(view.qvel[..., self.base_v + 3 : self.base_v + 6])
        out = {"gyro": self._triad("gyro", rates, step, noisy)}
        if self.accel is not None and (only is None or "accel" in only):
            force = self._copy(view.sensordata[..., self.accel : self.accel + 3])
            out["accel"] = self._triad("accel", force, step, noisy)
        quat = self.attitude(view)
        if self.mounting is None and not self.active["slope"]:
            products = self.xp.reshape(quat[..., :, None] * quat[..., None, :], (*quat.shape[:-1], 16))
            return out | {"gravity": -(products @ self._up), "quat": quat}
        R = rotation(quat) if self.mounting is None else rotation(quat) @ (self.site @ self.mounting @ self.site.T)
        if self.active["slope"]:
            R = _upright(self.down()) @ R
        return out | {"gravity": -R[..., 2, :], "quat": _quaternion(R)}

    def _copy(self, value: Array) -> Array:
        return self.xp.asarray(value, copy=True)

    def _triad(self, name: str, value: Array, step: int, noisy: bool) -> Array:
        """What a gyro or accelerometer makes of the true `value` (..., 3), which it may overwrite."""
        t, on, frame = self.physics.tables, self.active, self.frames[name]
        if frame is not None:
            value = (self.xp.matrix_transpose(frame) @ value[..., None])[..., 0]
        if on[f"{name}_scale"]:
            value = value * (1 + t[f"{name}_scale"])
        if on[f"{name}_bias"]:
            value += t[f"{name}_bias"]
        if not noisy:
            return value
        if on[f"{name}_walk"]:
            value += self.walks[name]
        if on[f"{name}_noise"]:
            value += self.white[name] * self.noise.normal(name, step, 3)
        return value

    def walk(self, step: int) -> None:
        """Let the biases wander for one control step."""
        for name, bias in self.walks.items():
            if self.active[f"{name}_walk"]:
                bias += (self.physics.tables[f"{name}_walk"] * self.dt**0.5)[:, None] * self.noise.normal(
                    f"{name}_walk", step, 3
                )

    def force(self, view: View, step: int, noisy: bool) -> Readings:
        """foot_force (worlds, feet) [N], normal to the ground."""
        t = self.physics.tables
        f = self.xp.abs(view.sensordata[..., self._forces])
        if self.active["force_drift"]:
            f += (t["force_drift"] * (t["temperature"] - 25.0))[:, None]
        if noisy and self.active["force_noise"]:
            f += t["force_noise"][:, None] * self.noise.normal("force", step, f.shape[-1])
        return {"foot_force": f}

    def wrenches(self, view: View, step: int, noisy: bool) -> Readings:
        """wrench (worlds, 6): force [N] and torque [N·m] at the sensor's site."""
        assert self.wrench is not None
        t = self.physics.tables
        w = self._copy(view.sensordata[..., self.wrench : self.wrench + 6])
        w[..., :3] += (t["force_drift"] * (t["temperature"] - 25.0))[:, None]
        if noisy and self.active["force_noise"]:
            w[..., :3] += t["force_noise"][:, None] * self.noise.normal("force", step, 3)
        return {"wrench": w}

    def torque(self, view: View, step: int, noisy: bool) -> Readings:
        """joint_torque (worlds, motors) [N·m] as the motors report it."""
        tau = self._copy(view.actuator_force[..., self.motors])
        if noisy and self.torque_noise is not None:
            tau += self.torque_noise * self.noise.normal("torque_sensor", step, tau.shape[-1])
        return {"joint_torque": tau}

    def position(self, view: View, step: int, noisy: bool) -> Readings:
        """base_pos [m] and base_vel_world [m/s], (worlds, 3) each."""
        assert self.base_q is not None
        assert self.base_v is not None
        figures = self.robot.sensors[self.of_kind("position")[0]].figures
        p = self._copy(view.qpos[..., self.base_q : self.base_q + 3])
        v = self._copy(view.qvel[..., self.base_v : self.base_v + 3])
        if noisy:
            p = p + figures.get("noise", 0.0) * self.noise.normal("position", step, 3)
            v = v + figures.get("velocity_noise", 0.0) * self.noise.normal("position_velocity", step, 3)
        return {"base_pos": p, "base_vel_world": v}

    def scan(self, view: View, step: int, noisy: bool) -> Readings:
        """height_scan (worlds, points) [m]."""
        figures = self.scans[0][0].figures
        value = self.clearance(view)
        if noisy:
            fresh = self.xp.isnan(self.scan_offset)
            if self.captured or bool(self.xp.any(fresh)):
                drawn = figures.get("offset", 0.0) * self.noise.normal("scan_offset", step, 1)
                self.scan_offset[...] = self.xp.where(fresh, drawn, self.scan_offset)
            value = value + self.scan_offset
            if figures.get("noise", 0.0):
                value = value + figures["noise"] * self.noise.normal("height_scan", step, value.shape[-1])
        return {"height_scan": self.xp.clip(value, -figures["range"], figures["range"])}

    def true_scan(self) -> Array:
        """The height scan as it would be now without error, (worlds, points) [m]."""
        engine, reach = self.physics.engine, self.scans[0][0].figures["range"]
        empty = engine.qpos[:, :0]
        view = View(qpos=engine.qpos, qvel=empty, sensordata=empty, actuator_force=empty)
        return self.xp.clip(self.clearance(view), -reach, reach)

    def clearance(self, view: View) -> Array:
        """How much higher than nominal the base is over the ground at each point of the scan, along gravity, (worlds, points) [m]."""
        xp, q, points = self.xp, self.base_q, self.scans[0][1]
        assert q is not None
        w, x, y, z = (view.qpos[:, q + 3 + i] for i in range(4))
        c, s = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z)
        size = xp.sqrt(c * c + s * s) + 1e-12
        c, s = (c / size)[:, None], (s / size)[:, None]
        dx, dy = c * points[:, 0] - s * points[:, 1], s * points[:, 0] + c * points[:, 1]
        high = view.qpos[:, q + 2 : q + 3] + xp.zeros_like(dx)
        if self.physics.built.terrain is not None:
            at = xp.stack([view.qpos[:, q : q + 1] + dx, view.qpos[:, q + 1 : q + 2] + dy], axis=-1)
            high = high - ground_under(self.physics, at)
        if self.active["slope"]:
            up = -self.down()
            high = up[:, 2:] * high - up[:, :1] * dx - up[:, 1:2] * dy
        return high - self.robot.height

    PARTS = {
        "encoder": encoders, "imu": imu, "foot_force": force, "wrench": wrenches, "motor_torque": torque, "position": position,
        "height_scan": scan,
    }  # fmt: skip

    def gives(self, number: int, only: Collection[str]) -> bool:
        """Whether sensor `number` has a channel among `only`."""
        return any(name in only for name in CHANNELS[self.robot.sensors[number].kind])

    def deliver(self, number: int, view: View, step: int, noisy: bool, only: Collection[str] | None = None) -> Readings:
        """Readings of sensor `number` from the state it sampled; where nothing new came, the last ones again."""
        kind = self.robot.sensors[number].kind
        out = self.imu(view, step, noisy, only) if kind == "imu" else self.PARTS[kind](self, view, step, noisy)
        if not (self.active["sensor_dropout"] or self.active["sensor_period"]):
            return out
        stays = self._stays(number, step, noisy)
        for name, value in out.items():
            if name not in self.last:
                self.last[name] = self.xp.full_like(value, float("nan"))
            old, columns = self.last[name], self.columns[number][: value.shape[-1]]
            out[name] = self.xp.where(stays[:, None] & self.xp.isfinite(old), old, value)
            old[:, columns] = out[name][:, columns]
        return out

    def _stays(self, number: int, step: int, noisy: bool) -> Array:
        """Worlds in which sensor `number` has no new reading: between two samples, or the sample was lost."""
        period, lost = self.physics.tables["sensor_period"][:, number], self.physics.tables["sensor_dropout"][:, number]
        safe = self.xp.where(period > 0, period, self.xp.ones_like(period))
        sample = self.xp.floor((self.physics.engine.time + 1e-9) / safe)
        stays = (period > 0) & (sample == self.sample[:, number])
        self.sample[:, number] = sample
        if noisy and self.active["sensor_dropout"]:
            stays |= self.noise.uniform("dropout", step, len(self.robot.sensors))[:, number] < lost
        return stays

    def difference(self, readings: Readings, step: int, noisy: bool) -> None:
        """Where speed is had from angles, joint_vel is the change of the delivered angle over the control step, or late by a low-pass."""
        if step != int(self.angle_step):
            self.angle_step[...] = step
            self.remember_angles(readings, step, noisy)
        else:
            self._take_angles(readings, step, noisy)

    def remember_angles(self, readings: Readings, step: int, noisy: bool) -> None:
        """A new control step: `difference` without asking which one it is."""
        self.angles[:, 1] = self.angles[:, 0]
        if self.may_filter or self.active["velocity_filter"]:
            self.speeds[:, 1::2] = self.speeds[:, ::2]
        self._take_angles(readings, step, noisy)

    def _take_angles(self, readings: Readings, step: int, noisy: bool) -> None:
        on, s = self.active, self.speeds
        self.angles[:, 0] = readings["joint_pos"]
        if on["velocity_differencing"]:
            by_difference = (self.angles[:, 0] - self.angles[:, 1]) / self.dt
            readings["joint_vel"] = self.xp.where(self.differenced(), by_difference, readings["joint_vel"])
        if on["velocity_filter"]:
            s[:, 0] = readings["joint_vel"]
            s[:, 2] = low_passed(s[:, 3], s[:, 1], s[:, 0], self.physics.tables["velocity_filter"][:, None], self.dt)
            readings["joint_vel"] = self._copy(s[:, 2])
            if noisy:
                self.blur(readings["joint_vel"], s[:, 0], step)
        elif self.may_filter:
            s[:, ::2] = readings["joint_vel"][:, None]

    def differenced(self) -> Array:
        """Worlds whose speed is the change of an angle over the control step, (worlds, 1) bool: none with a low-pass, which is of such."""
        t = self.physics.tables
        return (t["velocity_differencing"][:, None] > 0.5) & (t["velocity_filter"][:, None] <= 0)

    def blur(self, filtered: Array, speed: Array, step: int) -> None:
        """Add to low-passed speeds, (worlds, joints), the noise that angles give them at these true speeds."""
        if self.active["encoder_noise"] or self.active["encoder_quantum"]:
            filtered += self.speed_noise(speed) * self.noise.normal("speed_from_angles", step, filtered.shape[-1])

    def speed_noise(self, speed: Array | None = None) -> Array:
        """Standard deviation of speeds that are had from noisy, stepped angles, (worlds, joints), at these speeds; of fast ones if None."""
        t, xp, period = self.physics.tables, self.xp, self.encoder_period
        late = t["velocity_filter"][:, None]
        steps = t["encoder_quantum"] ** 2 / 12
        if speed is not None:
            safe = xp.where(steps > 0, t["encoder_quantum"], xp.ones_like(steps))
            steps = steps * xp.clip(6 * xp.abs(speed) * xp.maximum(late, period) / safe, None, 1.0)
        return noise_of_differences(t["encoder_noise"] ** 2 + steps, late, period)


def as_slice(index: Array) -> Array:
    """`index` (k,), as a slice where it counts up evenly: slices read faster and without a copy."""
    at = [int(i) for i in index]
    step = at[1] - at[0] if len(at) > 1 else 1
    even = bool(at) and step > 0 and at == list(range(at[0], at[0] + step * len(at), step))
    return slice(at[0], at[-1] + 1, step) if even else index


def _upright(down: Array) -> Array:
    """Rotation (worlds, 3, 3) that turns each unit vector `down` to (0, 0, -1) the shortest way."""
    xp = array_namespace(down)
    axis = xp.stack([-down[:, 1], down[:, 0], xp.zeros_like(down[:, 0])], axis=1)
    sine = xp.linalg.vector_norm(axis, axis=1)
    unit = axis / xp.where(sine > 0, sine, xp.ones_like(sine))[:, None]
    return rotation_vector_matrix(unit * xp.atan2(sine, -down[:, 2])[:, None])


def _quaternion(R: Array) -> Array:
    """Unit quaternions of rotation matrices with w not negative."""
    q = quaternion(R)
    return q * (1 - 2 * array_namespace(q).astype(q[..., :1] < 0, q.dtype))
