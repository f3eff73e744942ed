"""PNG files from arrays with nothing but zlib, and the type of picture and video bytes."""

import struct
import zlib
from typing import Any

import numpy as np

from surefoot.errors import InputError

COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # channels -> PNG colour type: grey, RGB, RGBA
SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)


def encode_png(image: Any, level: int = 6) -> bytes:
    """PNG bytes of an image: (h, w), (h, w, 1), (h, w, 3) or (h, w, 4); uint8, or floats in 0..1."""
    pixels = _bytes_of(np.asarray(image))
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    body = zlib.compress(_filtered(pixels).tobytes(), level)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return SIGNATURES[0][0] + chunks


def media_type(data: bytes) -> str:
    """What kind of picture or video the bytes are, "image/png" for example."""
    for signature, kind in SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[4:8] == b"ftyp":
        return "video/mp4"
    raise InputError(f"these {len(data)} bytes are no PNG, JPEG, GIF, WebM or MP4; they begin with {data[:8]!r}")


def _bytes_of(image: np.ndarray) -> np.ndarray:
    """The image as (h, w, channels) of uint8."""
    pixels = image[:, :, None] if image.ndim == 2 else image
    if pixels.ndim != 3 or pixels.shape[2] not in COLOUR_TYPES or 0 in pixels.shape:
        raise InputError(f"an image must be (h, w), (h, w, 3) or (h, w, 4), got shape {image.shape}")
    if pixels.dtype == np.uint8:
        return pixels
    if not np.issubdtype(pixels.dtype, np.floating):
        raise InputError(f"an image must hold uint8 or floats in 0..1, got {pixels.dtype}")
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise InputError(f"a floating image must lie in 0..1, it goes from {pixels.min():g} to {pixels.max():g}")
    return np.round(pixels * 255).astype(np.uint8)


def _filtered(pixels: np.ndarray) -> np.ndarray:
    """Rows with their PNG filter in front: per row the one of none, left and up that leaves the least."""
    height, width, channels = pixels.shape
    left, up = pixels.copy(), pixels.copy()
    left[:, 1:] -= pixels[:, :-1]
    up[1:] -= pixels[:-1]
    choices = np.stack([p.reshape(height, width * channels) for p in (pixels, left, up)])  # (3, h, bytes)
    cost = np.abs(choices.view(np.int8).astype(np.int16)).sum(axis=2, dtype=np.int64)  # (3, h)
    best = cost.argmin(axis=0).astype(np.uint8)
    rows = choices[best, np.arange(height)]
    return np.concatenate([best[:, None], rows], axis=1)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
