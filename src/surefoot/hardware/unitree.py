"""A Unitree robot over its low-level topics (extra `unitree`): rt/lowstate in, rt/lowcmd out.

Each motor applies τ = kp (q_target − q) + kd (dq_target − dq) + τ_ff at its own rate. The driver is the last to see a command
before a motor does, so whatever the runtime does:

- nothing is sent before a first good state has come, and while the last one is older than `STALE` the motors are damped;
- targets, gains and torques are cut to what the motors may be told (`unitree_motors`), and the cuts are counted;
- a command with a number that is not finite stops the robot;
- `stop` damps, latched, and a thread repeats it; the same thread damps when nobody has written for `SILENCE`;
- a second sender on rt/lowcmd is refused at the start, and stops the robot later.

The maker's own walking service sends on rt/lowcmd too: release it first with the maker's app or MotionSwitcher.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping

import numpy as np

from surefoot.contract import Command, Reading, Wire, projected_gravity
from surefoot.errors import InputError, choose
from surefoot.hardware.unitree_dds import COMMAND_TOPIC, STATE_TOPIC, Node, place, raw_type
from surefoot.hardware.unitree_idl import GO, checksum, decode, empty, encode
from surefoot.hardware.unitree_motors import SERVO, Motors, motors

RATE = 500.0  # [Hz] of rt/lowstate
TICK = 1e-3  # [s] unit of the state's counter
STALE = 0.1  # [s] age of the last good state after which targets are withheld
SILENCE = 0.1  # [s] without a command after which the driver damps
REPEAT = 0.01  # [s] period of the guarding thread
STOPPING = 1.0  # [s] for which a stop is repeated at least
LISTEN = 0.3  # [s] in which another sender is looked for before the first command


def connect_unitree(interface: str, robot: str = "go2", *, check: bool = True, timeout: float = 5.0) -> "Unitree":
    """The robot on a network interface: "eth0", or "lo@37" for DDS domain 37 of loopback.

    `check` refuses states whose checksum is wrong (a checksum of 0 means that the sender gives none). Raises InputError when
    no state comes within `timeout` [s], nobody listens to commands, or another program sends them.
    """
    name, domain = place(interface)
    driver = Unitree(motors(robot), Node.open(name, domain), check=check)
    try:
        driver.begin(timeout, f"{name!r} (DDS domain {domain})")
    except BaseException:
        driver.close()
        raise
    return driver


class Unitree:
    """A `Hardware`; the module says what it promises.

    Attributes:
        faults: how often what went wrong: "bad" (not a message), "checksum", "stale" (the same tick again), "clipped" (commands
            cut to the limits), "withheld" (damping for want of a state), "silence" (nobody wrote), "unsent" (DDS refused).
        stopped: why it was stopped; empty while it runs.
    """

    kinds = ("joint_pos_target", "joint_torque_target")
    rate = RATE
    paced = True

    def __init__(self, known: Motors, node: Node, *, check: bool):
        self.robot, self.outputs, self._motors = known.robot, known.joints, known
        self.channels: Mapping[str, Wire] = channels(known)
        self.faults: Counter[str] = Counter()
        self.stopped = ""
        self._check = check
        self._state_name, self._command_name = f"{known.messages}.LowState_", f"{known.messages}.LowCmd_"
        self._states = node.reader(STATE_TOPIC, self._state_name)
        self._others = node.reader(COMMAND_TOPIC, self._command_name)
        self._commands = node.writer(COMMAND_TOPIC, self._command_name)
        self._message = blank(known)
        self._lock = threading.RLock()  # of the message and of whether it may be sent
        self._tick: int | None = None
        self._time, self._count = 0.0, 0
        self._arrived = self._wrote = self._ended_at = 0.0  # [s] of time.monotonic
        self._begun = self._sending = self._silent = self._closed = False
        self._over = threading.Event()
        self._guard = threading.Thread(target=self._watch, name="unitree-guard", daemon=True)

    def begin(self, timeout: float, where: str) -> None:
        """Wait for a first good state, a listener, and quiet on the command topic; then commands are taken."""
        end = time.monotonic() + timeout
        while self.read(0.05) is None:
            if time.monotonic() >= end:
                raise InputError(f"no good state of a {self.robot} came on {where} within {timeout:g} s: {self._why()}")
        while not self._commands.get_matched_subscriptions():
            if time.monotonic() >= end:
                raise InputError(
                    f"nobody listens to {COMMAND_TOPIC} on {where}: commands would go nowhere; is low-level control switched on?"
                )
            time.sleep(0.01)
        if self._others.take(LISTEN) is not None:
            raise InputError(
                f"another program sends on {COMMAND_TOPIC} on {where} and two masters would fight over the motors: "
                "end it, or release the maker's walking service (MotionSwitcher ReleaseMode, or the app), then connect again"
            )
        self._begun = True
        self._guard.start()

    def read(self, timeout: float) -> Reading | None:
        """The newest good state not yet given, in SI; None when none came within `timeout` [s]."""
        end = time.monotonic() + timeout
        while not self._closed:
            raw = self._states.take(max(0.0, end - time.monotonic()))
            reading = None if raw is None else self._reading(raw)
            if reading is not None or time.monotonic() >= end:
                return reading
        return None

    def write(self, command: Command) -> None:
        """Send a command, cut to the limits of the motors; after a stop nothing but damping is sent."""
        choose(command.kind, self.kinds, f"a kind of command that a {self.robot} takes")
        if command.target.shape != (len(self.outputs),):
            raise InputError(
                f"a command of {len(command.target)} motors for the {len(self.outputs)} of a {self.robot}: give one each"
            )
        with self._lock:
            if not self._begun or self._closed:
                raise InputError(
                    f"the {self.robot} is not connected: nothing is sent before its first good state and after close"
                )
            self._wrote, self._silent = time.monotonic(), False
            if self.stopped:
                return
            parts = (command.target, command.velocity, command.torque, command.kp, command.kd)
            if not all(np.isfinite(part).all() for part in parts):
                self.halt("a command had a number that is not finite")
            elif self._wrote - self._arrived > STALE:
                self.faults["withheld"] += 1
                self._damp()
            else:
                self._fill(command)
                self._send()

    def stop(self) -> None:
        """Damp all motors now; the guarding thread repeats it until `close`."""
        self.halt("stop was asked for")

    def halt(self, why: str) -> None:
        """Damp, latched, and remember the first reason."""
        with self._lock:
            self.stopped = self.stopped or why
            if self._begun and not self._closed:
                self._ended_at = self._ended_at or time.monotonic()
                self._damp()

    def close(self) -> None:
        """Stop if it moved, repeat that for at least a second, and leave the topics; closing twice is harmless."""
        if self._closed:
            return
        if self._sending and not self.stopped:
            self.halt("the driver was closed")
        if self._guard.is_alive():
            if self._ended_at:
                time.sleep(max(0.0, self._ended_at + STOPPING - time.monotonic()))
            self._over.set()
            self._guard.join()
        with self._lock:
            self._closed = True

    # States

    def _reading(self, raw: bytes) -> Reading | None:
        """The reading in a message; None, counted, when it is none, damaged, or one that was seen before."""
        try:
            state = decode(raw, self._state_name)
        except InputError:
            self.faults["bad"] += 1
            return None
        given = int(state["crc"])
        if self._check and given and given != checksum(state):
            self.faults["checksum"] += 1
            return None
        tick = int(state["tick"])
        if tick == self._tick:
            self.faults["stale"] += 1
            return None
        if self._tick is None:
            self._time = tick * TICK
        else:
            step = (tick - self._tick + 2**31) % 2**32 - 2**31  # the counter wraps after 49.7 days
            self._time += step * TICK
            # Ticks of 1 ms are uneven: only what is clearly more than a period counts as lost samples.
            self._count += max(1, int(step * TICK * RATE + 0.25))
        self._tick = tick
        with self._lock:
            self._arrived = time.monotonic()
            if self._motors.messages != GO:
                self._message["mode_machine"] = state["mode_machine"]
        return Reading(time=round(self._time, 3), count=self._count, values=si(state, self._motors))

    def _why(self) -> str:
        """What a start without a state was missing."""
        if self.faults["checksum"]:
            return f"{self.faults['checksum']} states came with a wrong checksum; is it another robot, or connect with check=False"
        if self.faults["bad"]:
            return f"{self.faults['bad']} messages were not states of this robot"
        writers = self._states.writers()
        if writers:
            return f"{writers} sender of {STATE_TOPIC} is known but silent"
        return f"nobody sends {STATE_TOPIC}; check the cable, the interface (the robot is on 192.168.123.x) and the robot's name"

    # Commands; the caller holds the lock

    def _fill(self, command: Command) -> None:
        """Put a command into the message, cut to the limits."""
        limits, slots = self._motors, self._message["motor_cmd"][: len(self.outputs)]
        if command.kind == "joint_torque_target":
            torque = np.clip(command.target, -limits.torque, limits.torque)
            slots["q"], slots["dq"], slots["tau"] = limits.position_off, limits.velocity_off, torque
            slots["kp"], slots["kd"] = 0.0, 0.0
            if (torque != command.target).any():
                self.faults["clipped"] += 1
            return
        cut = False
        for name, wanted, low, high in (
            ("q", command.target, limits.low, limits.high),
            ("dq", command.velocity, -limits.speed, limits.speed),
            ("tau", command.torque, -limits.torque, limits.torque),
            ("kp", command.kp, 0.0, limits.kp),
            ("kd", command.kd, 0.0, limits.kd),
        ):
            sent = np.minimum(np.maximum(wanted, low), high)
            # A target without gain does nothing, and damping is sent with any.
            cut |= bool((sent != wanted).any()) and (name != "q" or bool(command.kp.any()))
            slots[name] = sent
        if cut:
            self.faults["clipped"] += 1

    def _damp(self) -> None:
        slots = self._message["motor_cmd"][: len(self.outputs)]
        slots["q"], slots["dq"], slots["tau"], slots["kp"] = self._motors.position_off, 0.0, 0.0, 0.0
        slots["kd"] = self._motors.damping
        self._send()

    def _send(self) -> None:
        from cyclonedds.core import DDSException

        self._sending = True
        self._message["crc"] = checksum(self._message)
        try:
            self._commands.write(raw_type(self._command_name)(encode(self._message, self._command_name)))
        except DDSException:
            self.faults["unsent"] += 1

    def _watch(self) -> None:
        """The guarding thread: repeats a stop, damps a robot that nobody commands, stops it when a second master appears."""
        while not self._over.wait(REPEAT):
            if self._others.take() is not None:
                self.halt(f"another program sends on {COMMAND_TOPIC}")
            with self._lock:
                quiet = self._sending and time.monotonic() - self._wrote > SILENCE
                if quiet and not self.stopped and not self._silent:
                    self._silent = True
                    self.faults["silence"] += 1
                if self.stopped or quiet:
                    self._damp()


def channels(known: Motors) -> dict[str, Wire]:
    """What every reading of a robot holds."""
    found = {
        "joint_pos": Wire(unit="rad", columns=known.joints),
        "joint_vel": Wire(unit="rad/s", columns=known.joints),
        "joint_torque": Wire(unit="N·m", columns=known.joints),
        "joint_temperature": Wire(unit="degC", columns=known.joints),
        "gyro": Wire(unit="rad/s", columns=("x", "y", "z")),
        "accel": Wire(unit="m/s^2", columns=("x", "y", "z")),
        "quat": Wire(unit="1", columns=("w", "x", "y", "z")),
        "gravity": Wire(unit="1", columns=("x", "y", "z")),
    }
    if known.feet:
        found["foot_force_raw"] = Wire(unit="count", columns=known.feet)
        found["voltage"] = Wire(unit="V", columns=("battery",))
        found["current"] = Wire(unit="A", columns=("battery",))
    return found


def si(state: np.ndarray, known: Motors) -> dict[str, np.ndarray]:
    """The channels of a state message, float64; gravity is NaN when the quaternion is not of unit length."""
    joints, imu = state["motor_state"][: len(known.joints)], state["imu_state"]
    quat = imu["quaternion"].astype(np.float64)
    norm = float(np.sqrt(quat @ quat))
    unit = abs(norm - 1.0) < 0.05
    heat = joints["temperature"].astype(np.float64)
    values = {
        "joint_pos": joints["q"].astype(np.float64),
        "joint_vel": joints["dq"].astype(np.float64),
        "joint_torque": joints["tau_est"].astype(np.float64),
        "joint_temperature": heat if heat.ndim == 1 else heat.max(axis=1),  # case and winding: the hotter one
        "gyro": imu["gyroscope"].astype(np.float64),
        "accel": imu["accelerometer"].astype(np.float64),
        "quat": quat,
        "gravity": projected_gravity(quat / norm) if unit else np.full(3, np.nan),
    }
    if known.feet:
        values["foot_force_raw"] = state["foot_force"].astype(np.float64)
        values["voltage"] = np.array([state["power_v"]], dtype=np.float64)
        values["current"] = np.array([state["power_a"]], dtype=np.float64)
    return values


def blank(known: Motors) -> np.ndarray:
    """A command message in which no motor does anything: servo mode, no position, speed or torque, no gains."""
    message = empty(f"{known.messages}.LowCmd_")
    go = known.messages == GO
    # The maker's examples switch on all slots of a quadruped, and of a humanoid only those that have a motor.
    slots = message["motor_cmd"][: known.slots if go else len(known.joints)]
    slots["mode"], slots["q"], slots["dq"] = SERVO, known.position_off, known.velocity_off
    if go:
        message["head"], message["level_flag"] = (0xFE, 0xEF), 0xFF
    return message
