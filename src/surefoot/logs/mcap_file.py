"""Reading MCAP: record by record, with every checksum, up to the cut when the file was cut."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.logs.rawbytes import one_line

MAGIC = b"\x89MCAP0\r\n"
LARGEST = 1 << 28  # [bytes] a chunk that unpacks to more is not from a recorder
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, METADATA, DATA_END = 1, 2, 3, 4, 5, 6, 12, 15
KNOWN = range(1, 16)


@dataclass
class Topic:
    """All messages of one MCAP channel, in file order."""

    topic: str
    encoding: str
    schema: int
    metadata: dict[str, str]
    stamps: list[int] = field(default_factory=list)  # [ns] log times
    sequence: list[int] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)


@dataclass
class Contents:
    """What an MCAP file holds: topics by id, schemas (name, encoding) by id, metadata in order, and the cut, if any."""

    topics: dict[int, Topic] = field(default_factory=dict)
    schemas: dict[int, tuple[str, str]] = field(default_factory=dict)
    metadata: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    truncated: str | None = None


def contents(path: Path) -> Contents:
    """Read an MCAP file whole; a cut one up to its cut. Raises InputError on anything else that is wrong."""
    data = path.read_bytes()
    if not data:
        raise InputError(f"{path} is empty")
    if data[: len(MAGIC)] != MAGIC:
        if MAGIC.startswith(data):
            raise InputError(f"{path} is cut before its first sample")
        raise InputError(f"{path} is not an MCAP file: it does not start with the MCAP magic")
    finished = len(data) >= 2 * len(MAGIC) and data.endswith(MAGIC)
    found = Contents()
    ended = False
    for opcode, start, body in _records(path, data, finished=finished):
        if opcode == DATA_END:
            _check_data(path, data[:start], body)
            ended = True
        elif not ended:
            _take(path, found, opcode, body)
    if finished and not ended:
        raise InputError(f"{path} is damaged: its end is there but its data do not reach it")
    if not finished:
        what = "its index is missing but all samples are there" if ended else "what came after is lost"
        found.truncated = f"the file is cut at byte {len(data)}: {what}"
    return found


def _records(path: Path, data: bytes, *, finished: bool) -> Iterator[tuple[int, int, bytes]]:
    """(opcode, offset, body) of each whole record; ends at the closing magic or at the cut."""
    at, end = len(MAGIC), len(data) - (len(MAGIC) if finished else 0)
    while end - at >= 9:
        opcode, length = struct.unpack_from("<BQ", data, at)
        if opcode == 0 or (opcode not in KNOWN and opcode < 0x80):
            raise InputError(f"{path} is damaged at byte {at}: {opcode:#x} is not a kind of MCAP record")
        if length > end - at - 9:
            if finished:
                raise InputError(f"{path} is damaged at byte {at}: a record is longer than the file")
            return
        yield opcode, at, data[at + 9 : at + 9 + length]
        at += 9 + length
    if finished and at != end:
        raise InputError(f"{path} is damaged at byte {at}: {end - at} bytes are no record")


def _check_data(path: Path, data: bytes, body: bytes) -> None:
    """Compare the checksum over all data that a finished file may carry."""
    crc = int.from_bytes(body[:4], "little")
    if len(body) < 4 or (crc and zlib.crc32(data) != crc):
        raise InputError(f"{path} is damaged: its data do not match their checksum")


def _take(path: Path, found: Contents, opcode: int, body: bytes) -> None:
    """Add one record to what was found."""
    from mcap.data_stream import ReadDataStream
    from mcap.records import Channel, Chunk, Message, Metadata, Schema
    from mcap.stream_reader import breakup_chunk

    stream = ReadDataStream(BytesIO(body))
    records: list[Any] = []
    try:
        if opcode == CHUNK:
            chunk = Chunk.read(stream)
            if max(chunk.uncompressed_size, unpacked_size(chunk.compression, chunk.data)) > LARGEST:
                raise InputError(f"{path} is damaged: a chunk claims to unpack to {chunk.uncompressed_size} bytes")
            records = breakup_chunk(chunk, validate_crc=True)
        elif opcode == METADATA:
            records = [Metadata.read(stream)]
        elif opcode == CHANNEL:
            records = [Channel.read(stream)]
        elif opcode == SCHEMA:
            records = [Schema.read(stream)]
        elif opcode == MESSAGE:
            records = [Message.read(stream, len(body))]
    except InputError:
        raise
    except Exception as error:  # The parsers and decompressors of others raise what they like on damaged bytes.
        raise InputError(f"{path} is damaged: a record cannot be read ({one_line(error)})") from None
    for record in records:
        if isinstance(record, Message):
            topic = found.topics.get(record.channel_id)
            if topic is None:
                raise InputError(
                    f"{path} is damaged: a message belongs to channel {record.channel_id}, which is not there"
                )
            topic.stamps.append(record.log_time)
            topic.sequence.append(record.sequence)
            topic.data.append(record.data)
        elif isinstance(record, Channel):
            found.topics.setdefault(
                record.id,
                Topic(record.topic, record.message_encoding, record.schema_id, dict(record.metadata)),
            )
        elif isinstance(record, Schema):
            found.schemas[record.id] = (record.name, record.encoding)
        elif isinstance(record, Metadata):
            found.metadata.append((record.name, dict(record.metadata)))


def unpacked_size(compression: str, data: bytes) -> int:
    """Size that a compressed chunk says it unpacks to [bytes]; 0 when it does not say."""
    if compression != "zstd":
        return len(data)
    import zstandard

    size = zstandard.frame_content_size(data)
    return max(size, 0)
