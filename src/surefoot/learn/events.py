"""TensorBoard event files, written by hand: a file of records, each an Event message of protocol buffers.

record = length (u64) | masked crc32c(length) (u32) | data | masked crc32c(data) (u32)
masked(c) = rotate_right(c, 15) + 0xa282ead8
    Event: 1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary
summary: 1 value (repeated): 1 tag (string), 2 simple_value (float)
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from surefoot.errors import InputError

POLYNOMIAL = 0x82F63B78
"""Castagnoli's, reflected."""


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Cyclic redundancy check, Castagnoli's polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """The crc as a record holds it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= 0xFFFFFFFFFFFFFFFF
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _block(number: int, data: bytes) -> bytes:
    """A field of bytes: text or a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def version(wall: float) -> bytes:
    """The first record of an event file; `wall` is in seconds since 1970."""
    return record(b"\x09" + struct.pack("<d", wall) + _block(3, b"brain.Event:2"))


def scalars(wall: float, step: int, numbers: Mapping[str, float]) -> bytes:
    """One record with some scalars at `step`."""
    values = b"".join(_block(1, _block(1, tag.encode()) + b"\x15" + struct.pack("<f", x)) for tag, x in numbers.items())
    return record(b"\x09" + struct.pack("<d", wall) + b"\x10" + _varint(step) + _block(5, values))


class Scalar(NamedTuple):
    """One number of an event file."""

    wall: float  # [s] since 1970
    step: int
    tag: str
    value: float


def read_events(path: str | Path) -> Iterator[Scalar]:
    """The scalars of an event file; a wrong checksum is refused, a record cut off at the end is left out."""
    data = Path(path).read_bytes()
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        if struct.unpack_from("<I", data, at + 8)[0] != masked(data[at : at + 8]):
            raise InputError(f"{path} is damaged at byte {at}: the checksum of a record's length is wrong")
        body = data[at + 12 : at + 12 + length]
        if at + 16 + length > len(data):
            return
        if struct.unpack_from("<I", data, at + 12 + length)[0] != masked(body):
            raise InputError(f"{path} is damaged at byte {at}: the checksum of a record is wrong")
        yield from _scalars_of(body)
        at += 16 + length


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(number, content) of a message: integers of varints, raw bytes of everything else."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at : at + size]
        at += size


def _scalars_of(event: bytes) -> Iterator[Scalar]:
    found = dict(_fields(event))
    wall = struct.unpack("<d", bytes(found[1]))[0] if isinstance(found.get(1), bytes) else 0.0
    summary, step = found.get(5, b""), found.get(2, 0)
    if not isinstance(summary, bytes) or not isinstance(step, int):
        return
    for _, value in _fields(summary):
        if isinstance(value, bytes):
            inner = dict(_fields(value))
            tag, number = inner.get(1), inner.get(2)
            if isinstance(tag, bytes) and isinstance(number, bytes):
                yield Scalar(wall, step, tag.decode(), struct.unpack("<f", number)[0])
