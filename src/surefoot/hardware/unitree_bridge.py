"""A robot that speaks Unitree's topics, backed by any `Hardware`: the other side of the driver.

    python -m surefoot.hardware.unitree_bridge twin:go2/01-nominal --domain 37 --seconds 60
    connect("unitree:lo@37")           # in another process: the driver cannot tell it from a robot

Every reading becomes one rt/lowstate, with its checksum; after each the newest rt/lowcmd, if any, goes to the hardware, so a
command waits at most one period. A command whose checksum is wrong is ignored and counted, as the robot does. When commands stop
coming nothing more is written, and the hardware's own watchdog acts.
"""

import argparse
import math
import signal
import sys
import time
from collections import Counter

import numpy as np

from surefoot.contract import Command, Hardware, Reading
from surefoot.errors import InputError
from surefoot.hardware.unitree_dds import COMMAND_TOPIC, STATE_TOPIC, Node, place, raw_type
from surefoot.hardware.unitree_idl import GO, checksum, decode, empty, encode
from surefoot.hardware.unitree_motors import POSITION_OFF, SERVO, VELOCITY_OFF, motors

NEEDED = ("joint_pos", "joint_vel", "gyro", "accel", "quat")
ROOM = 25  # [°C] temperature of motors that report none


class Bridge:
    """Publishes a hardware's readings as a Unitree robot's states, and writes the commands it receives to the hardware.

    Attributes:
        seen: "states" published, "commands" written, "checksum" commands with a wrong one, "bad" messages that were no commands,
            "refused" commands that the hardware did not take.
    """

    def __init__(self, hardware: Hardware, *, interface: str = "lo", domain: int = 0):
        known = motors(hardware.robot)
        if not hardware.paced:
            raise InputError(
                "the bridge speaks in real time and this hardware is in lockstep: connect it without lockstep"
            )
        lacking = [name for name in NEEDED if name not in hardware.channels]
        if lacking:
            raise InputError(f"a Unitree state needs the channel {lacking[0]!r}, which this hardware does not give")
        missing = [joint for joint in known.joints if joint not in hardware.outputs]
        if missing:
            raise InputError(
                f"a Unitree {known.robot} has the motor {missing[0]!r}, which is not an output of this hardware"
            )
        self.hardware, self._motors = hardware, known
        self.seen: Counter[str] = Counter()
        self.over = False
        """Set it to end `run`."""
        self._places = {
            name: [wire.columns.index(joint) for joint in known.joints]
            for name, wire in hardware.channels.items()
            if name.startswith("joint_") and set(known.joints) <= set(wire.columns)
        }
        self._outputs = [known.joints.index(joint) for joint in hardware.outputs]
        node = Node.open(interface, domain)
        self._state_name, self._command_name = f"{known.messages}.LowState_", f"{known.messages}.LowCmd_"
        self._commands = node.reader(COMMAND_TOPIC, self._command_name)
        self._states = node.writer(STATE_TOPIC, self._state_name)

    def run(self, seconds: float = math.inf) -> None:
        """Speak for `seconds` of wall time."""
        end = time.monotonic() + seconds
        while not self.over and time.monotonic() < end:
            self.step()

    def step(self) -> None:
        """One reading out, at most one command in."""
        reading = self.hardware.read(0.01)
        if reading is not None:
            state = self.state(reading)
            self._states.write(raw_type(self._state_name)(encode(state, self._state_name)))
            self.seen["states"] += 1
        raw = self._commands.take()
        command = None if raw is None else self.command(raw)
        if command is not None:
            try:
                self.hardware.write(command)
                self.seen["commands"] += 1
            except InputError:
                self.seen["refused"] += 1

    def state(self, reading: Reading) -> np.ndarray:
        """The state message of a reading, with its checksum; forces of feet in whole newtons, as raw counts have no unit."""
        state, values, n = empty(self._state_name), reading.values, len(self._motors.joints)
        slots, imu = state["motor_state"][:n], state["imu_state"]
        slots["mode"] = SERVO
        for field, channel in (("q", "joint_pos"), ("dq", "joint_vel"), ("tau_est", "joint_torque")):
            if channel in self._places:
                slots[field] = values[channel][self._places[channel]]
        heat = (
            values["joint_temperature"][self._places["joint_temperature"]]
            if "joint_temperature" in self._places
            else ROOM
        )
        heat = np.round(np.broadcast_to(heat, n))
        slots["temperature"] = np.clip(heat, 0, 255) if slots["temperature"].ndim == 1 else heat[:, None]
        imu["quaternion"], imu["gyroscope"], imu["accelerometer"] = values["quat"], values["gyro"], values["accel"]
        imu["rpy"] = _rpy(values["quat"])
        state["tick"] = round(reading.time * 1e3) % 2**32
        if self._motors.messages == GO:
            state["head"], state["level_flag"] = (0xFE, 0xEF), 0xFF
            self._feet_and_battery(state, reading)
        state["crc"] = checksum(state)
        return state

    def _feet_and_battery(self, state: np.ndarray, reading: Reading) -> None:
        forces = reading.values.get("foot_force")
        if forces is not None:
            columns = self.hardware.channels["foot_force"].columns
            by_name = dict(zip(columns, forces, strict=True))
            counts = np.clip(np.round([by_name.get(foot, 0.0) for foot in self._motors.feet]), -32768, 32767)
            state["foot_force"] = state["foot_force_est"] = counts
        for field, channel in (("power_v", "voltage"), ("power_a", "current")):
            value = reading.values.get(channel)
            if value is not None and value.size == 1:
                state[field] = value[0]

    def command(self, raw: bytes) -> Command | None:
        """What a command message tells the hardware's outputs; None, counted, when it is damaged.

        A motor that is not in servo mode is off; a position or speed of "off" switches that part of the control off.
        """
        try:
            message = decode(raw, self._command_name)
        except InputError:
            self.seen["bad"] += 1
            return None
        if int(message["crc"]) != checksum(message):
            self.seen["checksum"] += 1
            return None
        slots = message["motor_cmd"][: len(self._motors.joints)]
        on = slots["mode"] == SERVO
        position, speed = on & (slots["q"] < POSITION_OFF / 2), on & (slots["dq"] < VELOCITY_OFF / 2)
        return Command(
            kind="joint_pos_target",
            target=np.where(position, slots["q"], 0.0)[self._outputs],
            kp=np.where(position, slots["kp"], 0.0)[self._outputs],
            kd=np.where(speed, slots["kd"], 0.0)[self._outputs],
            velocity=np.where(speed, slots["dq"], 0.0)[self._outputs],
            torque=np.where(on, slots["tau"], 0.0)[self._outputs],
        )


def _rpy(quat: np.ndarray) -> tuple[float, float, float]:
    """Roll, pitch, yaw [rad] of a quaternion w, x, y, z: turns about z, then y, then x."""
    w, x, y, z = (float(part) for part in quat)
    return (
        math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x)))),
        math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )


def main(arguments: list[str] | None = None) -> int:
    """Run a bridge from the command line; 2 when something given was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m surefoot.hardware.unitree_bridge", description="A robot that speaks Unitree's topics."
    )
    parser.add_argument("hardware", help='what stands behind the topics, such as "twin:go2/01-nominal"')
    parser.add_argument("--interface", default="lo", help="network interface (default: lo)")
    parser.add_argument("--domain", type=int, default=0, help="DDS domain (default: 0, Unitree's)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long [s] (default: until interrupted)")
    asked = parser.parse_args(arguments)
    from surefoot.hardware.connect import connect

    hardware = bridge = None
    try:
        interface, domain = place(f"{asked.interface}@{asked.domain}")
        hardware = connect(asked.hardware)
        bridge = Bridge(hardware, interface=interface, domain=domain)
        print(
            f"{hardware.robot} speaks {STATE_TOPIC} and {COMMAND_TOPIC} on {interface}, DDS domain {domain}", flush=True
        )
        # An exception raised by a signal may end in a callback of DDS, which swallows it.
        signal.signal(signal.SIGINT, lambda _number, _frame: setattr(bridge, "over", True))
        bridge.run(asked.seconds)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    finally:
        if bridge is not None:
            print(", ".join(f"{name} {count}" for name, count in sorted(bridge.seen.items())), flush=True)
        if hardware is not None:
            hardware.stop()
            hardware.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
