"""Pieces of a step that a GPU runs from a recording: recorded once as a CUDA graph, replayed at the cost of one launch.

A piece is a function without arguments or result that works on arrays that stay where they are. It may hold no decision of the host:
what it did while it was recorded is what it does for ever. On a CPU, pieces are called as they are.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import warp as wp

WARM = 3
"""Calls before the recording: kernels are compiled and buffers made in these."""


def on_stream(device: torch.device) -> AbstractContextManager[Any]:
    """Let Warp launch on torch's current stream of a GPU; nothing on a CPU."""
    if device.type != "cuda":
        return nullcontext()
    return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(device)), sync_enter=False)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let nothing be collected while a graph is recorded: a graph of torch's that is dropped meanwhile would spoil the recording."""
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Piece:
    """Torch operations and kernels, recorded by torch."""

    def __init__(self, function: Callable[[], None], device: torch.device, *, record: bool = True):
        self.function, self.device = function, device
        self.record = record and device.type == "cuda"
        self._calls, self._graph = 0, None

    @torch.no_grad()
    def __call__(self) -> None:
        """Run it once."""
        if self._graph is not None:
            self._graph.replay()
            return
        with on_stream(self.device):
            self.function()
        self._calls += 1
        if self.record and self._calls >= WARM:
            self._capture()

    def _capture(self) -> None:
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with undisturbed(), torch.cuda.graph(graph, capture_error_mode="thread_local"), on_stream(self.device):
            self.function()
        self._graph = graph

    def forget(self) -> None:
        """Record anew at a later call: something it works on has moved."""
        self._calls, self._graph = 0, None


class PhysicsPiece:
    """Physics of the engine, recorded by Warp, whose solver loops until all worlds are solved within the recording."""

    def __init__(self, function: Callable[[], None], device: torch.device, *, record: bool = True):
        self.function, self.device = function, device
        self.record = record and device.type == "cuda"
        self._calls, self._graph = 0, None

    def __call__(self) -> None:
        """Run it once, in the order of torch's current stream."""
        if self.device.type != "cuda":
            self.function()
            return
        stream = wp.stream_from_torch(torch.cuda.current_stream(self.device))
        with wp.ScopedStream(stream, sync_enter=False):
            if self._graph is not None:
                wp.capture_launch(self._graph, stream=stream)
                return
            self.function()
            self._calls += 1
        if self.record and self._calls >= WARM:
            wp.synchronize_device(wp.device_from_torch(self.device))
            with undisturbed(), wp.ScopedDevice(wp.device_from_torch(self.device)), wp.ScopedCapture() as capture:
                self.function()
            self._graph = capture.graph

    def forget(self) -> None:
        """Record anew at a later call."""
        self._calls, self._graph = 0, None
