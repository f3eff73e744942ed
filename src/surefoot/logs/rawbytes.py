"""Bytes of a file, unpacked when it is gzip; and the size limits that keep a damaged file from filling the memory."""

import zlib
from pathlib import Path

from surefoot.errors import InputError

LARGEST = 1 << 31  # [bytes] unpacked; larger logs belong in MCAP


def one_line(error: Exception) -> str:
    """What another library says, short and on one line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())
    return f"{type(error).__name__}: {text[:120]}"


def file_bytes(path: Path) -> bytes:
    """Content of `path`, unpacked when its name ends in .gz; raises InputError when it is empty, cut or damaged."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if not data:
        raise InputError(f"{path} is empty")
    if path.suffix.lower() == ".gz":
        data = _unpacked(path, data)
        if not data:
            raise InputError(f"{path} is empty inside")
    return data


def file_text(path: Path) -> str:
    """Content of `path` as UTF-8 text without carriage returns at the line ends."""
    try:
        text = file_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text: byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise InputError(f"{path} is not text: it holds zero bytes")
    return text.replace("\r\n", "\n")


def _unpacked(path: Path, data: bytes) -> bytes:
    """Content of all gzip members, each checked against its checksum and length."""
    if data[:2] != b"\x1f\x8b":
        raise InputError(f"{path} is not a gzip file although its name ends in .gz")
    parts, total = [], 0
    while data:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(data, LARGEST - total)
        except zlib.error as error:
            raise InputError(f"{path} is damaged: {error}") from None
        total += len(part)
        parts.append(part)
        if member.unconsumed_tail:
            raise InputError(f"{path} unpacks to more than {LARGEST >> 30} GiB")
        if not member.eof:
            raise InputError(f"{path} is cut: its gzip stream has no end")
        data = member.unused_data
    return b"".join(parts)
