"""Walk as commanded: forward, sideways and turning velocity, for quadrupeds and humanoids.

    reward = max(0, Σ terms)  - 1 on a fall        (terms are scaled by the control period)

The policy sees what the robot measures: gyro, gravity direction, joint angles and speeds, its last action, the command and a gait clock.
The critic also sees e, the true velocities, the feet and their contacts.

On ground that is not flat, heights are those over the ground below: of a foot over the ground under it, of the base over the mean of the
ground under base and feet. A slope is a tilt of gravity: the body is paid for following the ground (tilt against its normal) and has fallen
when it is tilted against gravity. A robot that comes to the edge of its ground has reached a time limit.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Action, Contract, Group, Range, Term
from surefoot.errors import InputError
from surefoot.robots import scan_points
from surefoot.sim import Sim
from surefoot.sim.inertia import UP_IN_BODY
from surefoot.sim.terrain import ground_under
from surefoot.tasks.gait import legs, lift
from surefoot.tasks.symmetry import Maps, mirrored
from surefoot.tasks.task import Situation

PRIVILEGED = {
    "true_velocity": ("vx", "vy", "vz", "wx", "wy", "wz"),
    "height": ("z",),
}

REMEMBERED = ("gyro", "gravity", "joint_pos", "joint_vel", "last_action")
"""Sources whose past the policy sees with `memory`."""
SCAN_SCALE = 5.0
"""Observation per metre of a height scan."""
SCATTER, EDGE = 1.5, 1.0
"""Robots start this far from the middle of uneven ground [m], and turn back as far from its edge [m]."""
TELLING, SLACK = 2.0, 0.15
"""Shortest episode [s] that can say whether a command was followed, and error of the mean velocity [m/s] that is always allowed."""
WEIGHTS = {
    "track_velocity": 1.2, "track_turning": 0.6, "gait": 1.5, "vertical": -1.0, "roll_pitch": -0.03, "tilt": -2.0,
    "height": -10.0, "torque": -1e-4, "hips": -0.3, "pose": -0.03, "action_rate": -0.005, "action_jerk": -0.002,
}  # fmt: skip
"""Of the reward's terms, per second."""


def _quadratic() -> Tensor:
    """(16, 7): from the products of a unit quaternion's entries to world z in the body (3) and, row by row, to the matrix that
    turns a level velocity into along and across the heading, times the heading's length (4).
    """
    m = torch.zeros(4, 4, 7)
    m[..., :3] = torch.from_numpy(UP_IN_BODY).view(4, 4, 3)
    w, x, y, z = range(4)
    for column, parts in enumerate([
        {(w, w): 1.0, (x, x): 1.0, (y, y): -1.0, (z, z): -1.0},
        {(x, y): 2.0, (w, z): 2.0},
        {(x, y): -2.0, (w, z): -2.0},
        {(w, w): 1.0, (x, x): 1.0, (y, y): -1.0, (z, z): -1.0},
    ], start=3):  # fmt: skip
        for (i, j), value in parts.items():
            m[i, j, column] = value
    return m.flatten(0, 1)


QUADRATIC = _quadratic()
LOADED, TOUCHING = 1.0, 0.001
"""A foot is on the ground when it carries more than this [N], or is no higher than this [m] where it has no force sensor."""


@dataclass(frozen=True, kw_only=True)
class Velocity:
    """Follow a velocity command on the ground."""

    episode: float = 10.0  # [s]
    forward: tuple[float, float] = (-1.0, 1.0)  # [m/s]
    sideways: tuple[float, float] = (-0.5, 0.5)  # [m/s]
    turning: tuple[float, float] = (-1.0, 1.0)  # [rad/s]
    standing: float = 0.05
    """Share of episodes with the command zero."""
    period: float = 0.5
    """Gait period [s]."""
    swing: float = 0.08
    """Height a foot is asked to reach in mid-swing [m]."""
    scale: float = 0.3
    """Change of the joint targets per unit of action [rad]."""
    effort: float | None = None
    """Share of a motor's torque limit that a unit of action asks of it, Δtarget = effort · torque_limit / kp; replaces `scale` on
    robots whose motors differ much."""
    fall_height: float = 0.55
    """Base height below which the robot counts as fallen, relative to its standing height."""
    fall_tilt: float = 0.5
    """Smallest upright component of the body axis (cosine of the tilt)."""
    rhythm: float = 1.0
    """Share of the open-loop step that is added to the joint targets; 0 leaves all of the gait to the policy."""
    gait: tuple[float, ...] = (0.5, 0.0, 0.0, 0.5)
    """Phase of each leg in the order of robot.feet: a trot for FR, FL, RR, RL; (0, 0.5) for two legs."""
    fall_cost: float = 1.0
    """What a fall takes from the reward."""
    held: tuple[str, ...] = ()
    """Joints whose names hold one of these words stay at the default pose by their own PD: neither seen nor moved."""
    stance: float = 0.93
    """Base height the robot is asked to keep, relative to its standing height."""
    scan: bool = False
    """Whether the policy sees the robot's height scan (and the critic one without noise): see surefoot.robots.scanning."""
    memory: int = 1
    """Control steps of readings and actions that the policy sees, the present one included."""
    follow: float | None = None
    """An episode is a success only if its mean velocity is off by at most this share of the commanded speed; None: survival is enough."""

    commands: tuple[str, ...] = ("vx", "vy", "yaw_rate")

    # ---------------------------------------------------------------- what is seen and done

    def moved(self, sim: Sim) -> tuple[str, ...]:
        """Joints the policy sees and moves, in the robot's order."""
        joints = tuple(j for j in sim.robot.joints if not any(word in j for word in self.held))
        if not joints:
            raise InputError(f"held={self.held} holds every joint of {sim.robot.name}: leave it some to walk with")
        return joints

    def contract(self, sim: Sim) -> Contract:
        """Observation groups `policy` and `critic`, and joint position targets around the default pose."""
        robot = sim.robot
        joints, feet = self.moved(sim), robot.feet
        policy = (
            Term(source="gyro", scale=0.25),
            Term(source="gravity"),
            Term(source="command", columns=self.commands),
            Term(source="joint_pos", columns=joints, offset=tuple(-robot.pose[j] for j in joints)),
            Term(source="joint_vel", columns=joints, scale=0.05),
            Term(source="last_action", columns=joints),
            Term(source="clock", columns=("sin", "cos")),
        )
        privileged = tuple(Term(source=name, columns=columns, unit="1") for name, columns in PRIVILEGED.items())
        if sim.physics.has("slope"):
            privileged += (Term(source="ground_up", columns=("x", "y", "z"), unit="1"),)
        points = _scanned(sim) if self.scan else ()
        if points:
            privileged += (Term(source="true_scan", columns=points, unit="m", scale=SCAN_SCALE),)
        feet_terms = (
            Term(source="foot_height", columns=feet, unit="m", scale=10.0),
            Term(source="foot_contact", columns=feet, unit="1"),
        ) + ((Term(source="e", columns=sim.params.names, unit="1"),) if len(sim.params) else ())
        critic = Group(name="critic", terms=(*policy, *privileged, *feet_terms), privileged=True)
        policy = tuple(replace(term, history=self.memory) if term.source in REMEMBERED else term for term in policy)
        if points:
            policy += (Term(source="height_scan", columns=points, scale=SCAN_SCALE),)
        limits = {a.name: a for a in robot.actuators}
        steps = lift(sim, self.swing) if self.rhythm else {}
        phases = {
            joint: phase for (joints_of, _), phase in zip(legs(sim), self.gait, strict=True) for joint in joints_of
        }
        ranges = (("vx", self.forward, "m/s"), ("vy", self.sideways, "m/s"), ("yaw_rate", self.turning, "rad/s"))
        return Contract(
            robot=robot.name,
            joints=robot.joints,
            control_dt=robot.control_dt,
            timestep=robot.timestep,
            groups=(Group(name="policy", terms=policy), critic),
            action=Action(
                joints=joints,
                kind="joint_pos_target",
                scale=self._scale(sim, joints),
                offset=tuple(robot.pose[j] for j in joints),
                clip=(-10.0, 10.0),
                lift=tuple(self.rhythm * steps.get(j, 0.0) for j in joints),
                phase=tuple(phases.get(j, 0.0) for j in joints),
            ),
            sensor_channels=("gyro", "gravity", "joint_pos", "joint_vel", *(("height_scan",) if self.scan else ())),
            pose=tuple(robot.pose[j] for j in robot.joints),
            kp=tuple(limits[j].kp for j in robot.joints),
            kd=tuple(limits[j].kd for j in robot.joints),
            torque_limit=tuple(limits[j].torque_limit or 0.0 for j in robot.joints),
            commands=tuple(Range(name=n, low=r[0], high=r[1], unit=u) for n, r, u in ranges),
            clock_period=self.period,
        )

    def agreed(self, contract: Contract) -> "Velocity":
        """The same task at the rhythm and with the memory of a policy's contract."""
        steps = max(term.history for term in contract.group("policy").terms)
        return replace(self, period=contract.clock_period or self.period, memory=steps)

    def _scale(self, sim: Sim, joints: tuple[str, ...]) -> float | tuple[float, ...]:
        """Change of each joint's target per unit of action [rad]."""
        if self.effort is None:
            return self.scale
        motors = [sim.robot.actuator(j) for j in joints]
        for motor in motors:
            if not motor.torque_limit or not motor.kp:
                raise InputError(
                    f"effort needs a torque limit and kp of every moved joint, {motor.name} has not both: give `scale`"
                )
        return tuple(self.effort * (motor.torque_limit or 0.0) / motor.kp for motor in motors)

    def mirror(self, contract: Contract, sim: Sim) -> Maps | None:
        """Left and right."""
        return mirrored(contract, sim)

    def draw_commands(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform in the ranges; some worlds are asked to stand."""
        low, high = np.array([self.forward, self.sideways, self.turning]).T
        command = rng.uniform(low, high, (count, 3))
        command[rng.random(count) < self.standing] = 0.0
        return command

    def start(self, sim: Sim, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Near the default pose, any heading, slightly moving."""
        k, base = len(ids), sim.sensors.base_q
        assert base is not None
        qpos = np.tile(sim.start_qpos, (k, 1))
        qpos[:, sim.sensors.q] += rng.normal(0.0, 0.05, (k, len(sim.sensors.q)))
        yaw = rng.uniform(-np.pi, np.pi, k)
        qpos[:, base + 3], qpos[:, base + 6] = np.cos(yaw / 2), np.sin(yaw / 2)
        qpos[:, base + 2] += 0.01
        if sim.built.terrain is not None:
            qpos[:, base : base + 2] = rng.uniform(-SCATTER, SCATTER, (k, 2))
            sim.engine.qpos[ids] = qpos
            sim.stance.settle(ids)
            qpos = sim.engine.qpos[ids]
        qvel = np.zeros((k, sim.model.nv))
        qvel[:, :6] = rng.normal(0.0, 0.1, (k, 6))
        return qpos, qvel

    def remember(self, sim: Sim) -> dict[str, Tensor]:
        """Nothing, or with `follow` the summed velocity error along and across the heading and the steps in the sum."""
        return {} if self.follow is None else {"error": torch.zeros(sim.worlds, 3)}

    def pass_time(self, s: Situation) -> None:
        """Add this step's velocity error."""
        if self.follow is not None:
            s.memory["error"][:, :2] += s.truth["velocity"][:, :2] - s.command[:, :2]
            s.memory["error"][:, 2] += 1.0

    # ---------------------------------------------------------------- what is true

    def facts(self, sim: Sim) -> dict[str, Tensor]:
        """Foot geoms and their radii, the default pose, and which joints swing a leg sideways or turn it."""
        robot = sim.robot
        feet = np.array([sim.model.geom(name).id for name in robot.feet])
        sideways = [("hip" in j and "pitch" not in j) or "yaw" in j or "roll" in j for j in robot.joints]
        return {
            "feet": torch.from_numpy(feet),
            "radius": torch.from_numpy(sim.model.geom_rbound[feet]).float(),
            "pose": torch.tensor([robot.pose[j] for j in robot.joints]),
            "sideways": torch.tensor(sideways).float(),
            "moved": torch.tensor([j in self.moved(sim) for j in robot.joints]).float(),
            "forces": torch.as_tensor(sim.sensors.forces),
            "gait": torch.tensor([phase for (_, f), phase in zip(legs(sim), self.gait, strict=True) for _ in f]),
            "motors": torch.from_numpy(sim.physics.motors.ids),
            "quadratic": QUADRATIC,
        }

    def truth(self, s: Situation) -> dict[str, Tensor]:
        """Velocities in the body frame, tilt, and the feet, as float32 tensors."""
        sim, f = s.sim, s.facts
        q, v = sim.sensors.base_q, sim.sensors.base_v
        assert q is not None
        assert v is not None
        qpos, qvel = s.live("qpos")[:, q : q + 7].float(), s.live("qvel")[:, v : v + 6].float()
        quat = qpos[:, 3:]
        turned = (quat[:, :, None] * quat[:, None, :]).flatten(1) @ f["quadratic"]
        up, to_heading = turned[:, :3], turned[:, 3:].view(-1, 2, 2)
        size = to_heading[:, 0].norm(dim=1, keepdim=True).clamp(min=1e-6)
        vel = qvel[:, :3]
        level = (to_heading @ vel[:, :2, None])[:, :, 0] / size  # along and across the heading
        tau = s.live("actuator_force").float()
        feet = s.live("geom_xpos")[:, f["feet"], 2].float() - f["radius"]
        height, upright = qpos[:, 2], up[:, 2]
        if sim.built.terrain is not None:
            under = torch.cat([s.live("qpos")[:, None, q : q + 2], s.live("geom_xpos")[:, f["feet"], :2]], 1)
            at = under if under.is_cuda or under.dtype == torch.float32 else under.numpy()
            ground = torch.as_tensor(ground_under(sim.physics, at)).float()
            height, feet = height - ground.mean(1), feet - ground[:, 1:]
        if sim.sensors.active["slope"]:
            w, x, y, z = quat.unbind(1)
            body = torch.stack([2 * (x * z + w * y), 2 * (y * z - w * x), up[:, 2]], 1)  # the body's z in the world
            upright = -(torch.as_tensor(sim.sensors.down()).float() * body).sum(1)
        loads = s.live("sensordata")[:, f["forces"]].abs()
        return {
            "velocity": torch.cat([level, vel[:, 2:]], 1),
            "gyro": qvel[:, 3:],
            "up": up,
            "upright": upright,
            "height": height,
            "feet": feet,
            "contact": loads > LOADED if len(f["forces"]) == feet.shape[1] else feet < TOUCHING,
            "torque": tau,
        }

    def privileged(self, s: Situation) -> dict[str, Tensor]:
        """What the critic sees beyond the sensors."""
        t = s.truth
        seen = {
            "true_velocity": torch.cat([t["velocity"], t["gyro"]], 1),
            "height": t["height"][:, None],
            "foot_height": t["feet"],
            "foot_contact": t["contact"].float(),
        }
        if s.sim.physics.has("slope"):
            seen["ground_up"] = t["up"]
        if self.scan:
            seen["true_scan"] = torch.as_tensor(s.sim.sensors.true_scan())
        return seen

    # ---------------------------------------------------------------- what is good

    def rewards(self, s: Situation) -> dict[str, Tensor]:
        """Named, weighted terms of one step."""
        t, dt = s.truth, s.sim.control_dt
        c = {name: weight * dt for name, weight in WEIGHTS.items()}
        linear = (t["velocity"][:, :2] - s.command[:, :2]).square().sum(1)
        yaw = (t["gyro"][:, 2] - s.command[:, 2]).square()
        phase = (s.time / self.period)[:, None] + s.facts["gait"]
        wave = torch.sin(2 * torch.pi * phase)
        wanted = self.swing * wave.clamp(min=0.0)
        feet = len(self.gait) * (t["feet"].clamp(min=0.0) - wanted).square().mean(1)
        pose = (s.q.float() - s.facts["pose"]) * s.facts["moved"]
        step, jerk = s.action - s.last_action, s.action - 2 * s.last_action + s.older_action
        return {
            "track_velocity": c["track_velocity"] * (torch.exp(-linear / 0.25) + torch.exp(-linear / 0.04)),
            "track_turning": c["track_turning"] * (torch.exp(-yaw / 0.25) + torch.exp(-yaw / 0.06)),
            "gait": c["gait"] * torch.exp(-feet / (2 * 0.04**2)),
            "vertical": c["vertical"] * t["velocity"][:, 2].square(),
            "roll_pitch": c["roll_pitch"] * t["gyro"][:, :2].square().sum(1),
            "tilt": c["tilt"] * t["up"][:, :2].square().sum(1),
            "height": c["height"] * (t["height"] - self.stance * s.sim.robot.height).square(),
            "torque": c["torque"] * t["torque"].square().sum(1),
            "hips": c["hips"] * (pose * s.facts["sideways"]).square().sum(1),
            "pose": c["pose"] * pose.square().sum(1),
            "action_rate": c["action_rate"] * step.square().sum(1),
            "action_jerk": c["action_jerk"] * jerk.square().sum(1),
        }

    def total(self, terms: dict[str, Tensor], fallen: Tensor) -> Tensor:
        """Never negative while the robot stands, minus `fall_cost` when it falls: falling early is never a way out."""
        total = torch.stack(list(terms.values())).sum(0).clamp(min=0.0)
        return total - self.fall_cost * fallen.float()

    def fallen(self, s: Situation) -> Tensor:
        """The base is low over the ground or tilted against gravity."""
        t = s.truth
        return (t["height"] < self.fall_height * s.sim.robot.height) | (t["upright"] < self.fall_tilt)

    def left(self, s: Situation) -> Tensor | None:
        """Worlds that have come to the edge of their ground, (worlds,) bool; None where it has none."""
        terrain, q = s.sim.built.terrain, s.sim.sensors.base_q
        if terrain is None or q is None:
            return None
        return (s.live("qpos")[:, q : q + 2].abs() > terrain.extent - EDGE).any(1)

    def success(self, s: Situation, fallen: Tensor) -> Tensor:
        """Survived to the end of the episode, and with `follow` went where it was told; NaN where too little time passed to say."""
        if self.follow is None:
            return (~fallen).float()
        error = s.memory["error"]
        allowed = (self.follow * s.command[:, :2].norm(dim=1)).clamp(min=SLACK)
        good = ~fallen & (error[:, :2].norm(dim=1) <= allowed * error[:, 2])
        return torch.where(fallen | (error[:, 2] * s.sim.control_dt >= TELLING), good.float(), torch.nan)


def _scanned(sim: Sim) -> tuple[str, ...]:
    """Columns of the robot's height scan."""
    found = [sensor for sensor in sim.robot.sensors if sensor.kind == "height_scan"]
    if not found:
        raise InputError(
            f"{sim.robot.name} has no height scan: give the Sim surefoot.robots.scanning(robot), or scan=False"
        )
    return tuple(scan_points(found[0]))
