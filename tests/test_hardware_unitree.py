"""Unitree's protocol: the checksum and the layout against public facts, the driver against a robot that speaks its topics."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from surefoot.contract import Command, Reading, Wire, projected_gravity
from surefoot.errors import InputError
from surefoot.hardware import connect
from surefoot.hardware import unitree_idl as idl
from surefoot.hardware.unitree import Unitree, blank, channels, connect_unitree, si
from surefoot.hardware.unitree_bridge import Bridge
from surefoot.hardware.unitree_crc import POLYNOMIAL, crc32
from surefoot.hardware.unitree_dds import COMMAND_TOPIC, STATE_TOPIC, Node, configuration, place, raw_type, struct_type
from surefoot.hardware.unitree_motors import POSITION_OFF, VELOCITY_OFF, motors

try:
    import cyclonedds  # noqa: F401

    HAVE_DDS = True
except ImportError:
    HAVE_DDS = False
needs_dds = pytest.mark.skipif(not HAVE_DDS, reason="cyclonedds is not installed (extra `unitree`)")

LOW = [f"{module}.{name}" for module in (idl.GO, idl.HG) for name in ("LowCmd_", "LowState_")]
OWN = os.getpid() * 12
QUAT = np.array([0.9238795325, 0.0, 0.3826834324, 0.0])  # pitched by 45 degrees


def domain(k: int) -> int:
    """A DDS domain of a test's own, also when several test runs share a machine; its ports are below the passing ones."""
    return 1 + (OWN + k) % 100


# The checksum


def crc_bit_by_bit(raw: bytes) -> int:
    """The definition, as slow as it is written."""
    register = 0xFFFFFFFF
    for word in np.frombuffer(raw, "<u4").tolist():
        for bit in range(31, -1, -1):
            feedback = (register >> 31) ^ (word >> bit & 1)
            register = register << 1 & 0xFFFFFFFF ^ (POLYNOMIAL if feedback else 0)
    return register


def test_checksum_has_the_catalogued_values():
    # CRC-32/MPEG-2 of the text 123456789 is 0x0376E6E7 in every catalogue; eight of its bytes are two words, highest byte first.
    assert crc32(bytes(4)) == 0xC704DD7B  # one zero word, as microcontrollers with this unit give
    assert crc32(b"4321" + b"8765") == crc_bit_by_bit(b"4321" + b"8765")
    register = crc32(b"4321" + b"8765")
    for bit in range(7, -1, -1):  # the ninth byte by hand
        feedback = (register >> 31) ^ (ord("9") >> bit & 1)
        register = register << 1 & 0xFFFFFFFF ^ (POLYNOMIAL if feedback else 0)
    assert register == 0x0376E6E7


@pytest.mark.parametrize("words", [0, 1, 2, 7, 202, 294])
def test_checksum_follows_its_definition(words):
    raw = np.random.default_rng(words).bytes(4 * words)
    assert crc32(raw) == crc_bit_by_bit(raw)


def test_checksum_wants_whole_words():
    with pytest.raises(InputError, match="whole 32-bit words, got 5 bytes"):
        crc32(b"12345")


# What the maker's own SDK gives for messages of zeros (unitree_sdk2_python, utils/crc.py and its test).
ZEROS = dict(zip(LOW, (0x4B5A4880, 0x85F11EA6, 0xFE172F9F, 0xD64BB04A), strict=True))
SIZES = dict(zip(LOW, ((812, 808), (1180, 1176), (1004, 1000), (2092, 2088)), strict=True))


@pytest.mark.parametrize("name", LOW)
def test_layout_and_checksum_are_the_makers(name):
    assert (idl.layout(name).itemsize, idl.wire_size(name)) == SIZES[name]
    assert idl.checksum(idl.empty(name)) == ZEROS[name]


def test_the_message_of_the_makers_example_has_its_checksum():
    # All slots in servo mode, positions and speeds off: what the maker's stand example begins with.
    message = blank(motors("go2"))
    assert message["head"].tolist() == [0xFE, 0xEF]
    assert (message["motor_cmd"]["q"] == np.float32(2.146e9)).all()
    assert (message["motor_cmd"]["mode"] == 1).all()
    assert idl.checksum(message) == 0x06E577CD  # as the maker's SDK computes it


def filled(name: str, seed: int) -> np.ndarray:
    """A message with random numbers in every field; padding stays zero."""
    rng = np.random.default_rng(seed)

    def fill(record):
        for field in record.dtype.names:
            part = record[field]
            if part.dtype.names:
                for one in part.reshape(-1) if part.ndim else [part]:
                    fill(one)
            elif part.dtype.kind == "f":
                record[field] = rng.normal(size=part.shape)
            else:
                record[field] = rng.integers(0, 120, size=part.shape)

    message = idl.empty(name).reshape(1)
    fill(message[0])
    return message.reshape(())


@pytest.mark.parametrize("name", LOW)
def test_what_is_encoded_is_decoded(name):
    message = filled(name, 3)
    raw = idl.encode(message, name)
    assert len(raw) == 4 + idl.wire_size(name)
    assert raw[:4] == b"\x00\x01\x00\x00"
    assert idl.decode(raw, name).tobytes() == message.tobytes()
    with pytest.raises(InputError, match="are not a"):
        idl.decode(raw[:-1], name)
    with pytest.raises(InputError, match="little-endian"):
        idl.decode(b"\x00\x00" + raw[2:], name)


def test_fields_lie_where_they_should_on_the_wire():
    message = idl.empty(LOW[0])
    message["motor_cmd"]["mode"][0] = 7
    message["motor_cmd"]["q"][0] = 1.0
    message["motor_cmd"]["mode"][1] = 9
    raw = idl.encode(message, LOW[0])[4:]
    assert raw[22] == 7  # straight after the 16-bit bandwidth; C would pad by two
    assert raw[24:28] == np.float32(1.0).tobytes()
    assert raw[56] == 9
    assert message.tobytes()[24] == 7


def as_dataclass(record: np.ndarray, name: str):
    """The same message as Cyclone's own dataclass."""
    values = {}
    for field, kind, count in idl.MESSAGES[name]:
        part = record[field]
        if kind in idl.MESSAGES:
            values[field] = [as_dataclass(one, kind) for one in part] if count > 1 else as_dataclass(part, kind)
        else:
            values[field] = part.tolist()
    return struct_type(name)(**values)


@needs_dds
@pytest.mark.parametrize("name", LOW)
def test_encoding_is_that_of_cyclone(name):
    message = filled(name, 5)
    assert idl.encode(message, name) == as_dataclass(message, name).serialize()


# Minimal type identifiers of the maker's Python definitions (unitree_sdk2_python, idl/), as Cyclone computes them.
IDENTIFIERS = dict(
    zip(
        LOW,
        (
            "cad4e60020cace3bdcaefadd32ae",
            "bea62d31d8e2cf8edbede4dfd6d8",
            "fa968ef77641602adc6a4d1595e5",
            "2d915113389330c54645b3d311cf",
        ),
        strict=True,
    )
)


@needs_dds
@pytest.mark.parametrize("name", LOW)
def test_dds_types_are_the_makers(name):
    kind = raw_type(name)
    kind.__idl__.populate()
    kind.__idl__.fill_type_data()
    assert kind.__idl__.idl_transformed_typename == name.replace(".", "::")
    identifier = kind.__idl__.get_type_info().minimal.typeid_with_size.type_id
    assert bytes(identifier.value).hex() == IDENTIFIERS[name]


# States in SI


def test_state_in_si():
    known = motors("go2")
    state = filled(LOW[1], 7)
    state["imu_state"]["quaternion"] = QUAT
    state["foot_force"] = [10, -20, 30, 40]
    values = si(state, known)
    assert set(values) == set(channels(known))
    for name, wire in channels(known).items():
        assert values[name].shape == (len(wire.columns),), name
        assert values[name].dtype == np.float64
    assert known.joints[:4] == ("FR_hip_joint", "FR_thigh_joint", "FR_calf_joint", "FL_hip_joint")
    assert np.array_equal(values["joint_pos"], state["motor_state"]["q"][:12].astype(float))
    assert np.array_equal(values["joint_torque"], state["motor_state"]["tau_est"][:12].astype(float))
    assert np.allclose(values["gravity"], projected_gravity(QUAT), atol=1e-6)
    assert np.allclose(values["gravity"], [np.sqrt(0.5), 0.0, -np.sqrt(0.5)], atol=1e-6)
    assert values["foot_force_raw"].tolist() == [10, -20, 30, 40]
    assert values["voltage"] == pytest.approx(float(state["power_v"]))


def test_a_quaternion_of_zeros_is_not_upright():
    values = si(idl.empty(LOW[1]), motors("go2"))
    assert np.isnan(values["gravity"]).all()


@pytest.mark.parametrize("name", ["go2", "g1"])
def test_joints_and_ranges_are_those_of_the_robot_files(name):
    from surefoot.robots import load
    from surefoot.sim import Sim

    robot, known = load(name), motors(name)
    assert known.joints == tuple(robot.joints)
    model = Sim(robot, worlds=1).model
    ranges = np.array([model.joint(joint).range for joint in known.joints])
    assert np.allclose(np.stack([known.low, known.high], axis=1), ranges, atol=1e-4)


def test_g1_state_and_command():
    known = motors("g1")
    state = filled(LOW[3], 2)
    state["imu_state"]["quaternion"] = QUAT
    values = si(state, known)
    assert values["joint_pos"].shape == (29,)
    assert np.array_equal(values["joint_temperature"], state["motor_state"]["temperature"][:29].max(axis=1))
    assert blank(known)["motor_cmd"]["mode"].tolist() == [1] * 29 + [0] * 6


# The driver and a robot behind the topics


class Stand:
    """A hardware in this process: a planted motion at 500 Hz, outputs in another order than the maker's, commands kept."""

    def __init__(self, robot: str = "go2"):
        known = motors(robot)
        self.robot, self.outputs, self.kinds = robot, tuple(sorted(known.joints)), ("joint_pos_target",)
        self.channels = {
            "joint_pos": Wire(unit="rad", columns=self.outputs),
            "joint_vel": Wire(unit="rad/s", columns=self.outputs),
            "joint_torque": Wire(unit="N·m", columns=self.outputs),
            "gyro": Wire(unit="rad/s", columns=("x", "y", "z")),
            "accel": Wire(unit="m/s^2", columns=("x", "y", "z")),
            "quat": Wire(unit="1", columns=("w", "x", "y", "z")),
            "foot_force": Wire(unit="N", columns=("FL_foot", "FR_foot", "RL_foot", "RR_foot")),
        }
        self.rate, self.paced = 500.0, True
        self.began, self.given = time.monotonic(), -1
        self.commands: list[Command] = []
        self.frozen = False

    def read(self, timeout):
        end = time.monotonic() + timeout
        while int((time.monotonic() - self.began) * self.rate) <= self.given or self.frozen:
            if time.monotonic() >= end:
                return None
            time.sleep(0.0004)
        self.given = int((time.monotonic() - self.began) * self.rate)
        n = len(self.outputs)
        values = {
            "joint_pos": np.arange(n) * 0.01,
            "joint_vel": -np.arange(n) * 0.1,
            "joint_torque": np.arange(n) * 1.0,
            "gyro": np.array([0.1, 0.2, 0.3]),
            "accel": np.array([1.0, 2.0, 9.0]),
            "quat": QUAT,
            "foot_force": np.array([11.0, 22.0, 33.0, 44.0]),
        }
        return Reading(time=self.given / self.rate, count=self.given, values=values)

    def write(self, command):
        self.commands.append(command)

    def stop(self):
        pass

    close = stop


class Running:
    """A bridge in a thread; each test has a DDS domain of its own."""

    def __init__(self, domain: int, robot: str = "go2"):
        self.domain, self.stand = domain, Stand(robot)
        self.bridge = Bridge(self.stand, domain=domain)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self.over.is_set():
            self.bridge.step()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def until(what, timeout: float = 5.0) -> bool:
    end = time.monotonic() + timeout
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def heard(running, driver, command: Command) -> Command:
    """Write a command until the robot has heard one with gains, and return that; a slow machine may be damped in between."""
    commands = running.stand.commands
    assert until(lambda: (driver.read(0.01), driver.write(command), any(c.kp.any() for c in commands))[2])
    return next(c for c in commands if c.kp.any())


def hold(known, **changes) -> Command:
    n = len(known.joints)
    given = {"target": (known.low + known.high) / 2, "kp": np.full(n, 20.0), "kd": np.full(n, 0.5)}
    return Command(kind="joint_pos_target", **(given | changes))


@pytest.mark.slow
@needs_dds
@pytest.mark.parametrize("robot", ["go2", "g1"])
def test_readings_and_commands_cross_the_topics_by_name(robot):
    known = motors(robot)
    number = domain(0 if robot == "go2" else 1)
    with Running(number, robot) as running:
        driver = connect_unitree(f"lo@{number}", robot)
        try:
            readings = [reading for _ in range(20) if (reading := driver.read(0.5)) is not None]
            assert len(readings) == 20
            assert (np.diff([reading.time for reading in readings]) > 0).all()
            assert (np.diff([reading.count for reading in readings]) >= 1).all()
            values = readings[-1].values
            planted = dict(zip(running.stand.outputs, np.arange(len(known.joints)) * 0.01, strict=True))
            for joint, value in zip(driver.outputs, values["joint_pos"], strict=True):
                assert value == pytest.approx(planted[joint], abs=1e-7), joint
            assert np.allclose(values["quat"], QUAT, atol=1e-6)
            assert np.allclose(values["accel"], [1.0, 2.0, 9.0])
            if robot == "go2":
                assert values["foot_force_raw"].tolist() == [22, 11, 44, 33]  # FR, FL, RR, RL

            wanted = hold(known, torque=np.arange(len(known.joints)) * 0.1)
            got = heard(running, driver, wanted)
            for name in ("target", "kp", "kd", "torque", "velocity"):
                sent = dict(zip(known.joints, getattr(wanted, name), strict=True))
                for joint, value in zip(running.stand.outputs, getattr(got, name), strict=True):
                    assert value == pytest.approx(sent[joint], rel=1e-6, abs=1e-9), (name, joint)
            assert driver.faults["clipped"] == 0
        finally:
            driver.close()


@pytest.mark.slow
@needs_dds
def test_stop_is_latched_and_repeated_and_limits_hold():
    known = motors("go2")
    with Running(domain(2)) as running:
        driver = connect_unitree(f"lo@{domain(2)}")
        commands = running.stand.commands
        n = len(known.joints)
        wild = hold(known, target=np.full(n, 9.0), kp=np.full(n, 1e5), kd=np.full(n, 1e5), torque=np.full(n, -1e4))
        first = heard(running, driver, wild)
        order = [known.joints.index(joint) for joint in running.stand.outputs]
        assert np.allclose(first.target, known.high[order])
        assert np.allclose(first.torque, -known.torque[order])
        assert np.allclose(first.kp, known.kp[order])
        assert np.allclose(first.kd, known.kd[order])
        assert driver.faults["clipped"] >= 1

        driver.stop()
        driver.write(hold(known))  # ignored
        assert until(lambda: not commands[-1].kp.any())
        began = len(commands)
        assert until(lambda: len(commands) > began + 20)
        assert all((c.kp == 0).all() and (c.kd == 3.0).all() and (c.torque == 0).all() for c in commands[began:])
        assert driver.stopped == "stop was asked for"
        driver.close()
        driver.close()
        assert len(commands) > 40  # repeated for a second
        with pytest.raises(InputError, match="is not connected"):
            driver.write(hold(known))
        assert driver.read(0.01) is None


@pytest.mark.slow
@needs_dds
def test_a_command_that_is_not_finite_stops_and_silence_damps():
    known = motors("go2")
    with Running(domain(3)) as running:
        driver = connect_unitree(f"lo@{domain(3)}")
        commands = running.stand.commands
        assert driver.read(0.5)
        driver.write(hold(known))
        assert until(lambda: driver.faults["silence"] == 1)  # nobody writes: the guard damps, not latched
        assert until(lambda: (commands[-1].kp == 0).all())
        assert driver.stopped == ""
        assert until(lambda: (driver.read(0.01), driver.write(hold(known)), (commands[-1].kp == 20).all())[2])
        driver.write(hold(known, target=np.full(12, np.nan)))
        assert "not finite" in driver.stopped
        assert until(lambda: (commands[-1].kp == 0).all())
        driver.close()


@pytest.mark.slow
@needs_dds
def test_targets_are_withheld_when_the_state_is_old():
    known = motors("go2")
    with Running(domain(4)) as running:
        driver = connect_unitree(f"lo@{domain(4)}")
        assert driver.read(0.5)
        running.stand.frozen = True
        time.sleep(0.15)
        while driver.read(0.0):
            pass
        assert driver.read(0.05) is None
        driver._arrived -= 1.0
        driver.write(hold(known))
        assert driver.faults["withheld"] == 1
        assert until(lambda: running.stand.commands)
        assert all((command.kp == 0).all() for command in running.stand.commands)
        driver.close()


@pytest.mark.slow
@needs_dds
def test_a_second_master_is_refused_and_a_late_one_stops_the_robot():
    known = motors("go2")
    with Running(domain(5)):
        driver = connect_unitree(f"lo@{domain(5)}")
        over = threading.Event()

        def drive():
            while not over.wait(0.002):
                driver.read(0.01)
                driver.write(hold(known))

        thread = threading.Thread(target=drive)
        thread.start()
        try:
            with pytest.raises(InputError, match=r"another program sends on rt/lowcmd.*MotionSwitcher"):
                connect_unitree(f"lo@{domain(5)}")
            assert driver.stopped == ""
            node = Node.open("lo", domain(5))
            other = node.writer(COMMAND_TOPIC, LOW[0])
            message = raw_type(LOW[0])(idl.encode(blank(known), LOW[0]))
            assert until(lambda: (other.write(message), "another program" in driver.stopped)[1])
        finally:
            over.set()
            thread.join()
            driver.close()


@needs_dds
def test_damaged_messages_are_ignored_and_counted():
    known = motors("go2")
    running = Running(domain(6))
    bridge = running.bridge
    message = blank(known)
    message["crc"] = idl.checksum(message)
    command = bridge.command(idl.encode(message, LOW[0]))
    assert command is not None  # every part of the control is off
    assert not command.kp.any()
    assert not command.kd.any()
    assert not command.target.any()
    message["motor_cmd"]["kp"][3] = 50.0
    assert bridge.command(idl.encode(message, LOW[0])) is None
    assert bridge.command(b"\x00\x01\x00\x00") is None
    assert (bridge.seen["checksum"], bridge.seen["bad"]) == (1, 1)

    driver = Unitree(known, Node.open("lo", domain(6)), check=True)
    state = bridge.state(running.stand.read(0.1))
    raw = idl.encode(state, LOW[1])
    assert driver._reading(raw) is not None
    assert driver._reading(raw) is None  # the same tick again
    state["tick"] += 2
    assert driver._reading(idl.encode(state, LOW[1])) is None  # its checksum is of the old tick
    assert driver._reading(b"") is None
    assert driver.faults == {"stale": 1, "checksum": 1, "bad": 1}
    state["crc"] = 0  # a sender without checksums
    assert driver._reading(idl.encode(state, LOW[1])) is not None
    with pytest.raises(InputError, match="not connected"):
        driver.write(hold(known))
    driver.close()


@needs_dds
def test_a_torque_command_switches_position_and_speed_off():
    known = motors("go2")
    driver = Unitree(known, Node.open("lo", domain(11)), check=True)
    wanted = np.linspace(-60.0, 60.0, 12)
    driver._fill(Command(kind="joint_torque_target", target=wanted, kp=np.ones(12), kd=np.ones(12)))
    slots = driver._message["motor_cmd"][:12]
    assert np.allclose(slots["tau"], np.clip(wanted, -known.torque, known.torque))
    assert (slots["q"] == np.float32(POSITION_OFF)).all()
    assert (slots["dq"] == VELOCITY_OFF).all()
    assert not slots["kp"].any()
    assert not slots["kd"].any()
    assert driver.faults["clipped"] == 1
    driver.close()


@needs_dds
def test_ticks_become_time_and_lost_samples():
    driver = Unitree(motors("go2"), Node.open("lo", domain(7)), check=True)

    def reading(tick):
        state = idl.empty(LOW[1])
        state["tick"], state["crc"] = tick, 0
        return driver._reading(idl.encode(state, LOW[1]))

    first = 2**32 - 4
    got = [reading(tick % 2**32) for tick in (first, first + 2, first + 5, first + 6, first + 8, first + 18)]
    assert [round(r.time - got[0].time, 6) for r in got] == [0.0, 0.002, 0.005, 0.006, 0.008, 0.018]
    assert [r.count for r in got] == [0, 1, 2, 3, 4, 9]  # four samples lost before the last
    driver.close()


@needs_dds
def test_sentences_for_what_is_wrong():
    with pytest.raises(
        InputError, match=r"no good state of a go2 came on 'lo' \(DDS domain \d+\).*nobody sends rt/lowstate"
    ):
        connect_unitree(f"lo@{domain(8)}", timeout=0.2)
    with pytest.raises(InputError, match=r"'nosuchcard'.*ip link"):
        connect_unitree(f"nosuchcard@{domain(9)}")
    with pytest.raises(InputError, match="already open on 'lo'"):
        connect_unitree(f"eth7@{domain(8)}")
    with pytest.raises(InputError, match="did you mean 'go2'"):
        connect_unitree(f"lo@{domain(8)}", "go3")
    waiting, blind, lame = Stand(), Stand(), Stand()
    waiting.paced = False
    del blind.channels["gyro"]
    lame.outputs = lame.outputs[1:]
    for stand, why in (
        (waiting, "lockstep"),
        (blind, "needs the channel 'gyro'"),
        (lame, "'FL_calf_joint', which is not an output"),
    ):
        with pytest.raises(InputError, match=why):
            Bridge(stand, domain=domain(8))


@needs_dds
@pytest.mark.slow
def test_the_driver_stands_a_twin_up_over_the_topics():
    number = domain(10)
    words = ["twin:go2/01-nominal", "--domain", str(number), "--seconds", "60"]
    robot = subprocess.Popen(
        [sys.executable, "-m", "surefoot.hardware.unitree_bridge", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert "speaks rt/lowstate" in robot.stdout.readline()
        driver = connect(f"unitree:lo@{number}")
        first = driver.read(2.0)
        assert first is not None
        pose = {"hip": 0.0, "thigh": 0.9, "calf": -1.6}
        target = np.array([pose[joint.split("_")[1]] for joint in driver.outputs])
        start, reading = first.values["joint_pos"], first
        while reading.time - first.time < 3.0:
            got = driver.read(0.5)
            assert got is not None
            reading = got
            share = min(1.0, (reading.time - first.time) / 1.5)
            n = len(target)
            driver.write(
                Command(
                    kind="joint_pos_target",
                    target=start + share * (target - start),
                    kp=np.full(n, 60.0),
                    kd=np.full(n, 2.0),
                )
            )
        assert np.abs(reading.values["joint_pos"] - target).max() < 0.25
        assert reading.values["gravity"][2] < -0.95
        assert 100 < reading.values["foot_force_raw"].sum() < 200  # about 15 kg
        assert driver.stopped == ""
        driver.stop()
        last = reading
        while reading.time - last.time < 1.0:
            reading = driver.read(0.5) or reading
        assert reading.values["joint_pos"][2] < target[2] - 0.3  # it has sunk down
        driver.close()
    finally:
        robot.send_signal(signal.SIGINT)
        said, _ = robot.communicate(timeout=30)
    assert "commands" in said
    assert "checksum" not in said


def test_places():
    assert place("eth0") == ("eth0", 0)
    assert place("lo@37") == ("lo", 37)
    for wrong in ("@3", "lo@x", "lo@999"):
        with pytest.raises(InputError):
            place(wrong)
    with pytest.raises(InputError, match="not the name of a network interface"):
        configuration('lo"/><x')
    assert "AllowMulticast>false" in configuration("lo")


def test_importing_the_driver_needs_neither_dds_nor_the_models():
    code = (
        "import sys, os; before = dict(os.environ); import surefoot.hardware.unitree; "
        "print([m for m in ('cyclonedds', 'mujoco', 'torch', 'surefoot.robots') if m in sys.modules], dict(os.environ) == before)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[] True"


def test_off_values_are_the_makers():
    assert (POSITION_OFF, VELOCITY_OFF) == (2.146e9, 16000.0)
    assert (COMMAND_TOPIC, STATE_TOPIC) == ("rt/lowcmd", "rt/lowstate")
