"""The critic's steps in a process of its own.

Policy and critic of a small task are hundreds of short operations, and two threads of one process take turns at every one of them
(Python's global lock): together they need little less time than one after the other. A forked process needs no turns. It holds
nothing between two updates: every update carries the critic's whole state there and back through shared memory, so the bits are
those of a thread, and a process that was lost costs the time of one update and no weight.

    -> "go", then the learning rate of every step as the policy finds it        8 bytes each
    <- the number of bytes that follow, and the reports as JSON

Only on Linux, and only for one CPU thread each: a forked process must not meet the thread pools of its parent.
"""

import contextlib
import gc
import json
import math
import mmap
import os
import select
import signal
import struct
import sys
import warnings
import weakref
from collections.abc import Mapping
from queue import SimpleQueue
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from surefoot.learn.adam import Adam
from surefoot.learn.minibatches import CriticSteps, Drawn, Report, Steps
from surefoot.learn.mirror import Map
from surefoot.learn.networks import Critic
from surefoot.learn.ppo import PPO
from surefoot.learn.rollout import Rollout

AFTER = 0.5
"""Seconds of updates before a process is worth its start."""
WAIT = 60.0
"""Seconds after which an answer no longer comes."""
GO = math.inf
"""Instead of a rate: an update begins."""
Data = tuple[Tensor, Tensor, Tensor, Tensor]
DATA = ("raw", "keep", "target", "old")
"""What `CriticSteps.rows` is given."""


def can_fork() -> bool:
    """Whether a process can be made here."""
    return sys.platform == "linux" and torch.get_num_threads() == 1


class Sidecar:
    """A process that takes the critic's steps; None of it is left when the object is gone, or its process.

    Args:
        ppo: settings of the updates.
        critic, adam: what they step; read at the start of an update, written at its end.
        mirrored: mirror map of the critic's inputs.
        steps, worlds: size of the rollouts.
    """

    def __init__(self, ppo: PPO, critic: Critic, adam: Adam, mirrored: Map | None, *, steps: int, worlds: int):
        self._critic, self._adam = critic, adam
        rows, size = steps * worlds, len(adam.weights)
        self.shared = _shared(
            raw=((steps, worlds, critic.inputs), torch.float32),
            keep=((steps, worlds), torch.bool),
            target=((steps, worlds), torch.float32),
            old=((steps, worlds), torch.float32),
            orders=((ppo.epochs, rows), torch.int64),
            turned=((rows,), torch.bool),
            counts=((3,), torch.int64),
            state=((3, size), torch.float32),
            view=((2, critic.inputs), torch.float32),
        )
        asked, tell = os.pipe()
        answer, answered = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                pid = os.fork()
            except OSError:
                for wire in (asked, tell, answer, answered):
                    os.close(wire)
                raise
        if not pid:
            _serve(ppo, critic, adam, mirrored, self.shared, asked, answered)
        os.close(asked)
        os.close(answered)
        self.pid, self._tell, self._answer = pid, tell, answer
        self._close = weakref.finalize(self, _end, pid, tell, answer)

    def fits(self, rollout: Rollout) -> bool:
        """Whether it was made for rollouts of this size."""
        return self.shared["keep"].shape == rollout.broken.shape

    @property
    def lost(self) -> bool:
        """Whether the process is gone."""
        return not self._close.alive

    def run(self, policy: Steps, critic: Steps, data: Data, drawn: Drawn) -> list[Report]:
        """Take the policy's steps here and the critic's there; reports of both.

        Args:
            policy: its steps.
            critic: its steps, taken here where the process is lost.
            data: what `CriticSteps.rows` is given.
            drawn: the order of its minibatches.
        """
        rates = self.begin(data, drawn)
        try:
            done = list(policy(rates))
        except BaseException:
            self.close()
            raise
        found = self.finish()
        return done + (list(critic(rates)) if found is None else found)

    def begin(self, data: Data, drawn: Drawn) -> "Told":
        """Start an update; rates that are put into what is returned reach the process and can be got here as well."""
        s, n = self.shared, len(drawn.orders[0])
        for name, value in zip(DATA, data, strict=True):
            s[name].copy_(value)
        for row, order in zip(s["orders"], drawn.orders, strict=True):
            row[:n].copy_(order)
        if drawn.turned is not None:
            s["turned"][:n].copy_(drawn.turned)
        s["counts"].copy_(torch.tensor([n, drawn.turned is not None, self._adam.t]))
        _copy_state(self._critic, self._adam, s, back=False)
        told = Told(self._tell)
        told.send(GO)
        return told

    def finish(self) -> list[Report] | None:
        """Wait for the end of the update and take over the critic's new state; None: the process is lost, nothing was changed."""
        try:
            (size,) = struct.unpack("q", self._receive(8))
            found = json.loads(self._receive(size))
        except OSError:
            self.close()
            return None
        _copy_state(self._critic, self._adam, self.shared, back=True)
        self._adam.t = int(self.shared["counts"][2])
        return found

    def close(self) -> None:
        """End the process."""
        self._close()

    def _receive(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            if not select.select([self._answer], [], [], WAIT)[0]:
                raise TimeoutError
            part = os.read(self._answer, size - len(found))
            if not part:
                raise BrokenPipeError
            found += part
        return found


class Told:
    """Learning rates on their way to the process; kept here too, for the case that it is lost."""

    def __init__(self, wire: int):
        self._wire = wire
        self._kept: SimpleQueue[float | None] = SimpleQueue()

    def put(self, rate: float | None) -> None:
        """Tell the rate of the next step; None: there is none."""
        self._kept.put(rate)
        self.send(math.nan if rate is None else rate)

    def get(self) -> float | None:
        """The next rate that was put."""
        return self._kept.get()

    def send(self, number: float) -> None:
        """To the process, if there still is one."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._wire, struct.pack("d", number))


# -------------------------------------------------------------------- in the process


class _Heard:
    """Learning rates as the process hears them."""

    def __init__(self, wire: int):
        self._wire = wire

    def put(self, rate: float | None) -> None:
        """Nobody listens."""

    def get(self) -> float | None:
        """The next rate; the process ends with its parent."""
        heard = os.read(self._wire, 8)
        if len(heard) < 8:
            os._exit(0)
        (number,) = struct.unpack("d", heard)
        return None if math.isnan(number) else number


def _serve(
    ppo: PPO, critic: Critic, adam: Adam, mirrored: Map | None, shared: Mapping[str, Tensor], asked: int, answered: int
) -> NoReturn:
    """Update after update, until the parent is gone. Nothing that the parent owns may be freed here: it is not ours."""
    gc.disable()
    try:
        for low, high in ((2, asked), (asked, answered), (answered, os.sysconf("SC_OPEN_MAX"))):
            os.closerange(low + 1, high)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        torch.set_num_threads(1)
        rates = _Heard(asked)
        steps = CriticSteps(ppo, critic, adam)
        while rates.get() == GO:
            n, turns, adam.t = shared["counts"].tolist()
            _copy_state(critic, adam, shared, back=True)
            drawn = Drawn([row[:n] for row in shared["orders"]], shared["turned"][:n] if turns else None)
            raw, keep, target, old = (shared[name] for name in DATA)
            with torch.no_grad():
                reports = list(steps.rows(raw, keep, target, old, mirrored, drawn)(rates))
            _copy_state(critic, adam, shared, back=False)
            shared["counts"][2] = adam.t
            text = json.dumps(reports).encode()
            message = struct.pack("q", len(text)) + text
            while message:
                message = message[os.write(answered, message) :]
    finally:
        os._exit(1)


# -------------------------------------------------------------------- what both share


def _shared(**sizes: tuple[tuple[int, ...], torch.dtype]) -> dict[str, Tensor]:
    """Zeros in memory that a forked process shares, 64 bytes apart."""
    lengths = {name: math.prod(shape) * dtype.itemsize for name, (shape, dtype) in sizes.items()}
    places = np.cumsum([0, *(-(-length // 64) * 64 for length in lengths.values())]).tolist()
    memory = mmap.mmap(-1, places[-1])
    found = {}
    for at, (name, (shape, dtype)) in zip(places, sizes.items(), strict=False):
        found[name] = torch.frombuffer(memory, dtype=dtype, count=math.prod(shape), offset=at).view(shape)
    return found


def _copy_state(critic: Critic, adam: Adam, shared: Mapping[str, Tensor], *, back: bool) -> None:
    """Weights, moments and normaliser into the shared memory, or `back` from it."""
    own = (adam.weights, adam.m, adam.v, critic.normaliser.shift, critic.normaliser.gain)
    for mine, other in zip(own, (*shared["state"], *shared["view"]), strict=True):
        mine.copy_(other) if back else other.copy_(mine)


def _end(pid: int, *wires: int) -> None:
    for wire in wires:
        os.close(wire)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
