"""MATLAB level 5 .mat files (save -v6, -v7): the numeric arrays in them, every length checked."""

import struct
import zlib
from pathlib import Path

import numpy as np

from surefoot.errors import InputError
from surefoot.logs.rawbytes import LARGEST, file_bytes

MATRIX, COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = {6: 9, 7: 7, 8: 1, 9: 2, 10: 3, 11: 4, 12: 5, 13: 6, 14: 12, 15: 13}
"""Array classes double .. uint64 and the type that stores them."""
COMPACT = (1, 2, 3, 4, 5)
"""Types of small whole numbers, in which MATLAB stores arrays of any class to save room."""
COMPLEX = 0x0800


def mat_arrays(path: Path) -> dict[str, np.ndarray]:
    """All real numeric arrays of a MATLAB level 5 file by name, in column-major order as MATLAB shows them.

    Structures, cells, text and sparse arrays are left out. Compressed variables are checked against their checksum.
    """
    data = file_bytes(path)
    if data[:4] == b"MATL" and b"7.3" in data[:20]:
        raise InputError(f"{path} is a MATLAB 7.3 file (HDF5), which is not read: save it in MATLAB with -v7")
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if len(data) < 128 or not data.startswith(b"MATLAB 5.0 MAT-file") or order is None:
        raise InputError(f"{path} is not a MATLAB level 5 .mat file")
    arrays: dict[str, np.ndarray] = {}
    at = 128
    while at < len(data):
        kind, body, at = _element(path, data, at, order, padded=False)
        if kind == COMPRESSED:
            kind, body, _ = _element(path, _unpacked(path, body), 0, order, padded=False)
        if kind != MATRIX:
            raise InputError(f"{path} is damaged: an element of type {kind} stands where a variable should be")
        named = _matrix(path, body, order)
        if named is not None:
            if named[0] in arrays:
                raise InputError(f"{path} is damaged: variable {named[0]!r} stands twice")
            arrays[named[0]] = named[1]
    if not arrays:
        raise InputError(f"{path} holds no numeric variables")
    return arrays


def _unpacked(path: Path, data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        unpacked = stream.decompress(data, LARGEST)
    except zlib.error as error:
        raise InputError(f"{path} is damaged: {error}") from None
    if not stream.eof:
        raise InputError(f"{path} is damaged: a compressed variable has no end")
    return unpacked


def _element(path: Path, data: bytes, at: int, order: str, *, padded: bool) -> tuple[int, bytes, int]:
    """Type and body of the data element at `at`, and where the next one starts."""
    if len(data) - at < 8:
        raise InputError(f"{path} is cut: an element starts {len(data) - at} bytes before the end")
    kind, length = struct.unpack_from(f"{order}II", data, at)
    if kind >> 16:
        # Small elements keep their length in the upper half of the type and their data in the tag.
        kind, length, start, stop = kind & 0xFFFF, kind >> 16, at + 4, at + 8
    else:
        start = at + 8
        stop = start + length + (-length % 8 if padded else 0)
    if length > stop - start or start + length > len(data):
        raise InputError(f"{path} is cut or damaged: an element of {length} bytes does not fit")
    return kind, data[start : start + length], stop


def _matrix(path: Path, body: bytes, order: str) -> tuple[str, np.ndarray] | None:
    """Name and values of a numeric array; None for the other classes."""
    kind, flags, at = _element(path, body, 0, order, padded=True)
    if kind != 6 or len(flags) != 8:
        raise InputError(f"{path} is damaged: a variable has no flags")
    flag = struct.unpack_from(f"{order}I", flags)[0]
    if flag & 0xFF not in CLASSES or flag & COMPLEX:
        return None
    kind, shape, at = _element(path, body, at, order, padded=True)
    if kind != 5 or len(shape) % 4 or not 8 <= len(shape) <= 128:
        raise InputError(f"{path} is damaged: a variable has no size")
    dimensions = struct.unpack(f"{order}{len(shape) // 4}i", shape)
    _, name, at = _element(path, body, at, order, padded=True)
    kind, values, _ = _element(path, body, at, order, padded=True)
    if kind not in (*COMPACT, CLASSES[flag & 0xFF]) or not name.isascii():
        raise InputError(f"{path} is damaged: a variable is stored as type {kind}")
    count = 1
    for length in dimensions:
        count *= length
    dtype = np.dtype(order + STORED[kind])
    if min(dimensions) < 0 or count * dtype.itemsize != len(values):
        size = "x".join(map(str, dimensions))
        raise InputError(f"{path} is damaged: variable {name.decode()!r} has {len(values)} bytes for {size} values")
    array = np.frombuffer(values, dtype=dtype).reshape(dimensions, order="F")
    return name.decode(), array
