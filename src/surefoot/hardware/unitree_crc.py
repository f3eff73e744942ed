"""The checksum of Unitree's low-level messages.

    r <- 0xFFFFFFFF
    for every 32-bit word, for every bit b of it from the highest:   r <- (r << 1) ⊕ (P if (r >> 31) ⊕ b else 0)

with P = 0x04C11DB7: the CRC-32 of MPEG-2 over the words, highest byte first. It covers the message as it lies in the memory
of a little-endian C program, with C's padding, without its last word, which holds the checksum.

zlib computes the mirror image (bits from the lowest, result inverted), in C. So every word is mirrored first, which is its
bytes in reverse order with every byte mirrored, and the result is inverted and mirrored back.
"""

import zlib

import numpy as np

from surefoot.errors import InputError

POLYNOMIAL = 0x04C11DB7
_MIRROR = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def crc32(words: bytes | bytearray | memoryview | np.ndarray) -> int:
    """Checksum of little-endian 32-bit words, given as their bytes (4 n,) in the order of memory."""
    raw = bytes(words)
    if len(raw) % 4:
        raise InputError(
            f"a checksum is taken over whole 32-bit words, got {len(raw)} bytes: pad the message as C does"
        )
    highest_first = np.frombuffer(raw, dtype="<u4").byteswap().tobytes()
    mirrored = zlib.crc32(highest_first.translate(_MIRROR)) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_MIRROR), "big")
