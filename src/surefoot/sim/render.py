"""Pictures of worlds without a screen: one world, or many side by side in one scene; frames and videos.

On Linux an EGL context is made directly, so nothing needs to be set before MuJoCo is imported; elsewhere, and where there is a
display, MuJoCo's own choice is used.
"""

import os
import struct
import sys
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.files import replacing
from surefoot.report.png import encode_png
from surefoot.sim.sim import Sim

MOST_GEOMS = 20_000


def _context(width: int, height: int) -> Any:
    """An offscreen OpenGL context, current on this thread."""
    try:
        if sys.platform == "linux" and not os.environ.get("DISPLAY"):
            from mujoco.egl import GLContext
        else:
            from mujoco.gl_context import GLContext
        context = GLContext(width, height)
        context.make_current()
        return context
    except Exception as error:
        raise InputError(
            f"cannot render here ({error}): install a software OpenGL (Debian: libegl1 libegl-mesa0 libgl1-mesa-dri)"
        ) from None


class Camera:
    """Takes pictures of a Sim's worlds; a context manager, since it holds an OpenGL context."""

    def __init__(self, sim: Sim, *, width: int = 640, height: int = 480):
        self.sim, self.width, self.height = sim, width, height
        self._gl = _context(width, height)
        if not hasattr(sim.engine, "batch"):
            raise InputError(
                f"pictures are made of worlds on the CPU, not on engine '{sim.engine.name}': make a like Sim there"
            )
        self._model = sim.engine.batch.get_model(0)
        self._data = mujoco.MjData(self._model)
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = width, height
        self._model.vis.headlight.ambient[:] = 0.35
        self._model.vis.map.zfar = 100
        self._model.vis.quality.shadowsize = 2048
        self._model.stat.extent = (
            2.5 * max(sim.robot.height, 0.3) if sim.robot.base is not None else self._model.stat.extent
        )
        self._model.stat.center[:] = (
            [0.0, 0.0, 0.5 * sim.robot.height] if sim.robot.base is not None else self._model.stat.center
        )
        self._scene = mujoco.MjvScene(self._model, MOST_GEOMS)
        self._context = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0

    def __enter__(self) -> "Camera":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the OpenGL context back."""
        self._context.free()
        self._gl.free()

    def frame(
        self,
        worlds: int | list[int] = 0,
        *,
        azimuth: float = 130.0,
        elevation: float = -20.0,
        distance: float | None = None,
        target: tuple[float, float, float] | None = None,
        spacing: float | None = None,
    ) -> np.ndarray:
        """Picture of one world, or of several laid out in a square, (height, width, 3) uint8.

        Args:
            worlds: world, or worlds to put side by side.
            azimuth: viewing direction [deg].
            elevation: viewing angle above the ground, negative looks down [deg].
            distance: from the camera to its target [m]; None chooses it from the robot's size.
            target: point looked at [m]; None follows the robot.
            spacing: distance between worlds put side by side [m].
        """
        many = [worlds] if isinstance(worlds, int) else list(worlds)
        extent = (
            float(self._model.stat.extent) if self.sim.robot.base is None else 2.2 * max(self.sim.robot.height, 0.1)
        )
        spacing = 2.2 * extent if spacing is None else spacing
        side = int(np.ceil(np.sqrt(len(many))))
        eye = mujoco.MjvCamera()
        for count, world in enumerate(many):
            offset = np.array([(count % side) - (side - 1) / 2, (count // side) - (side - 1) / 2, 0.0]) * spacing
            self._place(world, offset if len(many) > 1 else np.zeros(3))
            if count == 0:
                look = self._look(target, len(many) > 1)
                eye.lookat[:], eye.azimuth, eye.elevation = look, azimuth, elevation
                eye.distance = (
                    distance if distance is not None else (extent * 2.4 if len(many) == 1 else side * spacing * 1.25)
                )
                everything = mujoco.mjtCatBit.mjCAT_ALL.value
                mujoco.mjv_updateScene(self._model, self._data, self._option, None, eye, everything, self._scene)
            else:
                moving = mujoco.mjtCatBit.mjCAT_DYNAMIC.value
                mujoco.mjv_addGeoms(self._model, self._data, self._option, mujoco.MjvPerturb(), moving, self._scene)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = len(many) <= 4
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        rectangle = mujoco.MjrRect(0, 0, self.width, self.height)
        mujoco.mjr_render(rectangle, self._scene, self._context)
        mujoco.mjr_readPixels(pixels, None, rectangle, self._context)
        return pixels[::-1]

    def _place(self, world: int, offset: np.ndarray) -> None:
        """Bring one world's model and state into the camera's own, moved by `offset`."""
        if not 0 <= world < self.sim.worlds:
            raise InputError(f"world {world} does not exist: this Sim has {self.sim.worlds}")
        self.sim.engine.batch.get_model(world, self._model)
        self.sim.engine.batch.get_data(world, self._data)
        base = self.sim.sensors.base_q
        if base is not None:
            self._data.qpos[base : base + 3] += offset
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        if base is None and offset.any():
            moving = self._model.geom_bodyid > 0
            self._data.geom_xpos[moving] += offset

    def _look(self, target: tuple[float, float, float] | None, many: bool) -> np.ndarray:
        if target is not None:
            return np.asarray(target, float)
        if self.sim.robot.base is None:
            return np.array(self._model.stat.center)
        at = np.array(self._data.body(self.sim.robot.base).xpos)
        return np.array([0.0, 0.0, self.sim.robot.height * 0.7]) if many else at * [1, 1, 0.85]


def check_video(path: str | Path) -> None:
    """Refuse a name whose ending is not of a video that `save_video` writes."""
    if Path(path).suffix not in (".png", ".apng", ".mp4"):
        raise InputError(f"'{Path(path).name}' is not a video we write: use .png (animated) or .mp4")


def save_video(path: str | Path, frames: list[np.ndarray], *, rate: float) -> Path:
    """Write frames (height, width, 3) uint8 as a video at `rate` [Hz]: .png (animated, any browser), or .mp4 (extra `video`)."""
    path = Path(path)
    check_video(path)
    if not frames:
        raise InputError("a video needs at least one frame")
    with replacing(path) as temporary:
        if path.suffix == ".mp4":
            _write_mp4(temporary, frames, rate)
        else:
            temporary.write_bytes(animated_png(frames, rate=rate))
    return path


def animated_png(frames: list[np.ndarray], *, rate: float) -> bytes:
    """Frames as an animated PNG: plays in every browser and needs no codec."""
    delay = round(1000 / rate)
    out, sequence = bytearray(b"\x89PNG\r\n\x1a\n"), 0
    for number, frame in enumerate(frames):
        chunks = _chunks(encode_png(frame))
        if number == 0:
            out += _chunk(b"IHDR", chunks[b"IHDR"]) + _chunk(b"acTL", struct.pack(">II", len(frames), 0))
        height, width = frame.shape[:2]
        out += _chunk(b"fcTL", struct.pack(">IIIIIHHBB", sequence, width, height, 0, 0, delay, 1000, 0, 0))
        sequence += 1
        if number == 0:
            out += _chunk(b"IDAT", chunks[b"IDAT"])
        else:
            out += _chunk(b"fdAT", struct.pack(">I", sequence) + chunks[b"IDAT"])
            sequence += 1
    return bytes(out + _chunk(b"IEND", b""))


def _chunks(png: bytes) -> dict[bytes, bytes]:
    """Chunks of a PNG by type, those of one type joined."""
    out: dict[bytes, bytes] = {}
    at = 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        kind = png[at + 4 : at + 8]
        out[kind] = out.get(kind, b"") + png[at + 8 : at + 8 + size]
        at += 12 + size
    return out


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _write_mp4(path: Path, frames: list[np.ndarray], rate: float) -> None:
    try:
        import av  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("writing .mp4 needs the extra 'video': pip install 'surefoot[video]', or write .png") from None
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("h264", rate=round(rate))
        stream.height, stream.width, stream.pix_fmt = frames[0].shape[0], frames[0].shape[1], "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode())
