"""Unitree's low-level messages: their fields, how they lie in memory, and how they travel.

One table of fields gives three things: the C struct that the checksum covers, the bytes on the wire (CDR), and the DDS type
that both sides compare before they talk. C and CDR differ only in padding: C aligns a nested struct as its widest member, CDR
aligns each number by itself. A message is a NumPy record of the C struct; encoding picks its bytes in CDR's order.

    message          C struct   on the wire   motors
    go LowCmd_       812 B      808 B         20
    go LowState_     1180 B     1176 B        20
    hg LowCmd_       1004 B     1000 B        35
    hg LowState_     2092 B     2088 B        35

Field order and types are facts of the public interface (unitree_sdk2, unitree_sdk2_python: idl/unitree_go, idl/unitree_hg).
"""

import functools
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.hardware.unitree_crc import crc32

GO, HG = "unitree_go.msg.dds_", "unitree_hg.msg.dds_"
"""Modules of the messages: quadrupeds (Go2, B2), and humanoids (G1, H1-2)."""

U8, U16, U32, I16, I32, F32 = "u1", "<u2", "<u4", "<i2", "<i4", "<f4"
Field = tuple[str, str, int]  # name, kind of number or name of a message, how many

_IMU = (("quaternion", F32, 4), ("gyroscope", F32, 3), ("accelerometer", F32, 3), ("rpy", F32, 3))
_SERVO = (("mode", U8, 1), ("q", F32, 1), ("dq", F32, 1), ("tau", F32, 1), ("kp", F32, 1), ("kd", F32, 1))
_MOTION = (("mode", U8, 1), ("q", F32, 1), ("dq", F32, 1), ("ddq", F32, 1), ("tau_est", F32, 1))
_FRAME = (
    ("head", U8, 2), ("level_flag", U8, 1), ("frame_reserve", U8, 1),
    ("sn", U32, 2), ("version", U32, 2), ("bandwidth", U16, 1),
)  # fmt: skip

MESSAGES: dict[str, tuple[Field, ...]] = {
    f"{GO}.MotorCmd_": (*_SERVO, ("reserve", U32, 3)),
    f"{GO}.BmsCmd_": (("off", U8, 1), ("reserve", U8, 3)),
    f"{GO}.LowCmd_": (
        *_FRAME, ("motor_cmd", f"{GO}.MotorCmd_", 20), ("bms_cmd", f"{GO}.BmsCmd_", 1), ("wireless_remote", U8, 40),
        ("led", U8, 12), ("fan", U8, 2), ("gpio", U8, 1), ("reserve", U32, 1), ("crc", U32, 1),
    ),
    f"{GO}.IMUState_": (*_IMU, ("temperature", U8, 1)),
    f"{GO}.MotorState_": (
        *_MOTION, ("q_raw", F32, 1), ("dq_raw", F32, 1), ("ddq_raw", F32, 1),
        ("temperature", U8, 1), ("lost", U32, 1), ("reserve", U32, 2),
    ),
    f"{GO}.BmsState_": (
        ("version_high", U8, 1), ("version_low", U8, 1), ("status", U8, 1), ("soc", U8, 1), ("current", I32, 1),
        ("cycle", U16, 1), ("bq_ntc", U8, 2), ("mcu_ntc", U8, 2), ("cell_vol", U16, 15),
    ),
    f"{GO}.LowState_": (
        *_FRAME, ("imu_state", f"{GO}.IMUState_", 1), ("motor_state", f"{GO}.MotorState_", 20),
        ("bms_state", f"{GO}.BmsState_", 1), ("foot_force", I16, 4), ("foot_force_est", I16, 4), ("tick", U32, 1),
        ("wireless_remote", U8, 40), ("bit_flag", U8, 1), ("adc_reel", F32, 1), ("temperature_ntc1", U8, 1),
        ("temperature_ntc2", U8, 1), ("power_v", F32, 1), ("power_a", F32, 1), ("fan_frequency", U16, 4),
        ("reserve", U32, 1), ("crc", U32, 1),
    ),
    f"{HG}.MotorCmd_": (*_SERVO, ("reserve", U32, 1)),
    f"{HG}.LowCmd_": (
        ("mode_pr", U8, 1), ("mode_machine", U8, 1), ("motor_cmd", f"{HG}.MotorCmd_", 35),
        ("reserve", U32, 4), ("crc", U32, 1),
    ),
    f"{HG}.IMUState_": (*_IMU, ("temperature", I16, 1)),
    f"{HG}.MotorState_": (
        *_MOTION, ("temperature", I16, 2), ("vol", F32, 1), ("sensor", U32, 2), ("motorstate", U32, 1), ("reserve", U32, 4),
    ),
    f"{HG}.LowState_": (
        ("version", U32, 2), ("mode_pr", U8, 1), ("mode_machine", U8, 1), ("tick", U32, 1),
        ("imu_state", f"{HG}.IMUState_", 1), ("motor_state", f"{HG}.MotorState_", 35),
        ("wireless_remote", U8, 40), ("reserve", U32, 4), ("crc", U32, 1),
    ),
}  # fmt: skip

HEADER = b"\x00\x01\x00\x00"
"""Of a message on the wire: plain CDR, little-endian."""
LITTLE_ENDIAN = (0x01, 0x07)
"""Encodings that are read: CDR and plain XCDR2, which is the same bytes for messages without 64-bit numbers."""


@functools.cache
def layout(name: str) -> np.dtype:
    """The message as a C struct with C's padding, as a NumPy record type."""
    choose(name, MESSAGES, "a message of Unitree's low-level interface")
    parts: list[Any] = []
    for field, kind, count in MESSAGES[name]:
        number = layout(kind) if kind in MESSAGES else np.dtype(kind)
        parts.append((field, number) if count == 1 else (field, number, (count,)))
    return np.dtype(parts, align=True)


def empty(name: str) -> np.ndarray:
    """A message of zeros: a record of shape (), written by its fields."""
    return np.zeros((), dtype=layout(name))


def _numbers(name: str, start: int) -> list[tuple[int, int]]:
    """(offset in the C struct, size) of every number of a message, in the order of its fields."""
    found = []
    places: Any = layout(name).fields
    for field, kind, count in MESSAGES[name]:
        offset = start + places[field][1]
        size = layout(kind).itemsize if kind in MESSAGES else np.dtype(kind).itemsize
        for k in range(count):
            found += _numbers(kind, offset + k * size) if kind in MESSAGES else [(offset + k * size, size)]
    return found


@functools.cache
def _wire(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of places: byte on the wire (after the header), byte in the C struct; both (n,), padding left out."""
    wire, memory, at = [], [], 0
    for offset, size in _numbers(name, 0):
        at = -(-at // size) * size
        wire += range(at, at + size)
        memory += range(offset, offset + size)
        at += size
    return np.array(wire), np.array(memory)


def wire_size(name: str) -> int:
    """Bytes of the message on the wire, without its header of 4 bytes."""
    return int(_wire(name)[0][-1]) + 1


def encode(message: np.ndarray, name: str) -> bytes:
    """The message as it travels: header, then CDR."""
    wire, memory = _wire(name)
    raw = np.zeros(4 + wire_size(name), dtype=np.uint8)
    raw[:4] = np.frombuffer(HEADER, np.uint8)
    raw[4 + wire] = np.frombuffer(message.tobytes(), np.uint8)[memory]
    return raw.tobytes()


def decode(raw: bytes, name: str) -> np.ndarray:
    """The message in bytes that came over the wire; raises InputError when they are not one."""
    size = wire_size(name)
    if len(raw) < 4 + size or raw[0] != 0 or raw[1] not in LITTLE_ENDIAN:
        raise InputError(f"{len(raw)} bytes are not a {name} message: it has {4 + size}, little-endian")
    wire, memory = _wire(name)
    record = np.zeros(layout(name).itemsize, dtype=np.uint8)
    record[memory] = np.frombuffer(raw, np.uint8, size, 4)[wire]
    return record.view(layout(name)).reshape(())


def checksum(message: np.ndarray) -> int:
    """Checksum of a record: over its C struct without the last word."""
    return crc32(message.tobytes()[:-4])
