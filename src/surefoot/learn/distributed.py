"""One training in several processes, as many as there are GPUs: every rank has its own worlds, all have the same policy.

    g = Σ_r n_r g_r / Σ_r n_r          gradient of a minibatch over the rows n_r of all ranks, one sum for each network

Every other number that decides a weight is shared as well: the advantages' mean and standard deviation, the KL that moves
the learning rate, the returns' unit, the normalisers. All ranks then take the same step, so their weights stay equal bit
for bit, and a minibatch that is not finite on one rank is refused by all. Nothing travels as a pickle.
"""

import contextlib
import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from surefoot.errors import InputError, choose

if TYPE_CHECKING:
    from surefoot.learn.episodes import Ended

WAIT = timedelta(hours=1)
"""How long a rank waits for the others: rank 0 also evaluates the policy while they do."""
SEED_STEP = 1_000_003
"""Between the seeds of two ranks."""
SUMS = ("episodes", "broken")
"""Numbers of a record that add up over ranks; of all others the mean is shown."""


class Alone:
    """A training in one process, with the interface of `Group`: nobody to ask, nothing to wait for."""

    rank, size, first = 0, 1, True

    def seed(self, seed: int) -> int:
        """The seed of this rank's worlds and noise."""
        return seed

    def device(self, name: str) -> torch.device:
        """Where this rank learns, when rank 0 learns on `name`."""
        return torch.device(name)

    def tell(self, numbers: Sequence[float]) -> list[float]:
        """Rank 0's numbers, on every rank."""
        return [float(x) for x in numbers]

    def sum(self, number: int) -> int:
        """The sum of every rank's number."""
        return sum(int(message) for message in self.gather_bytes(str(number).encode()))

    def wait(self) -> None:
        """Until every rank is here."""

    def gather_bytes(self, message: bytes) -> list[bytes]:
        """Every rank's message, in the order of ranks."""
        return [message]

    def all_numbers(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """A record over all ranks: means of what is finite, and sums of counts."""
        heard = [json.loads(text) for text in self.gather_bytes(json.dumps(dict(numbers)).encode())]
        if len(heard) == 1:
            return dict(numbers)
        return {name: _over_ranks(name, [one[name] for one in heard if name in one]) for name in numbers}

    def all_ended(self, ended: "Ended", worlds: int) -> "Ended":
        """The ended episodes of all ranks, rank after rank; `worlds` is how many this rank has.

        World ids go on from rank to rank: the first world of rank 1 follows the last one of rank 0.
        """
        if self.size == 1:
            return ended
        own = {"worlds": np.array(worlds), "world": ended.world, "score": ended.score, "length": ended.length}
        own |= {"success": ended.success} | {f"e/{name}": value for name, value in ended.e.items()}
        heard = [_from_bytes(message) for message in self.gather_bytes(_to_bytes(own))]
        before = 0
        for part in heard:
            part["world"] = part["world"] + before
            before += int(part.pop("worlds"))
        spoken = [part for part in heard if len(part["world"])] or heard[:1]
        whole = {name: np.concatenate([part[name] for part in spoken]) for name in spoken[0]}
        e = {name[2:]: value for name, value in whole.items() if name.startswith("e/")}
        return type(ended)(**{name: value for name, value in whole.items() if "/" not in name}, e=e)

    def close(self) -> None:
        """Leave the group."""


class Group(Alone):
    """The ranks of one training; what `joined` and `launch` give.

    Attributes:
        rank: number of this process, 0 .. size − 1.
        size: number of processes.
        first: whether this is rank 0, which alone writes the run's config, diary and policy.
        wire: torch's process group for tensors on the learner's device.
        side: a second one for tensors on the CPU: numbers between updates, and the critic's thread within them.
        recordable: whether sums on the GPU may be part of a CUDA graph: nccl's may, gloo's pass through the host.
    """

    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.first = self.rank == 0
        self.wire: Any = dist.group.WORLD
        self.side: Any = dist.new_group(backend="gloo", timeout=WAIT)
        self.recordable = "nccl" in str(dist.get_backend_config(self.wire))

    def __repr__(self) -> str:
        return f"Group(rank={self.rank}, size={self.size}, backend={'nccl' if self.recordable else 'gloo'})"

    def seed(self, seed: int) -> int:
        """The seed of this rank's worlds and noise; rank 0 keeps the seed as given."""
        return seed + SEED_STEP * self.rank

    def device(self, name: str) -> torch.device:
        """Where this rank learns, when rank 0 learns on `name`: on this rank's own GPU, if it is one."""
        found = torch.device(name)
        return torch.device("cuda", torch.cuda.current_device()) if found.type == "cuda" else found

    # ---------------------------------------------------------------- tensors on the learner's device

    def broadcast(self, x: Tensor) -> None:
        """Overwrite x by that of rank 0."""
        dist.broadcast(x, 0, group=self.wire)

    def gather(self, x: Tensor) -> Tensor:
        """x (...) of every rank, (size, ...)."""
        out = torch.empty(self.size, *x.shape, dtype=x.dtype, device=x.device)
        dist.all_gather(list(out), x.contiguous(), group=self.wire)
        return out

    # ---------------------------------------------------------------- numbers and bytes of the host

    def tell(self, numbers: Sequence[float]) -> list[float]:
        """Rank 0's numbers, on every rank; the others' are overruled."""
        x = torch.tensor(list(numbers), dtype=torch.float64)
        dist.broadcast(x, 0, group=self.side)
        return x.tolist()

    def wait(self) -> None:
        """Until every rank is here."""
        dist.barrier(group=self.side)

    def gather_bytes(self, message: bytes) -> list[bytes]:
        """Every rank's message, in the order of ranks."""
        lengths = torch.empty(self.size, 1, dtype=torch.int64)
        dist.all_gather(list(lengths), torch.tensor([len(message)]), group=self.side)
        longest = int(lengths.max())
        mine, out = torch.zeros(longest, dtype=torch.uint8), torch.empty(self.size, longest, dtype=torch.uint8)
        mine[: len(message)] = torch.from_numpy(np.frombuffer(message, dtype=np.uint8).copy())
        dist.all_gather(list(out), mine, group=self.side)
        return [bytes(row[: int(n)].numpy()) for row, n in zip(out, lengths, strict=True)]

    def close(self) -> None:
        """Leave the group; the last thing a process does with it.

        torch's threads end with the last reference to a process group. One that outlives the interpreter and then lets go of
        a tensor aborts the process, so nothing else keeps such a reference.
        """
        self.wire = self.side = None
        if dist.is_initialized():
            dist.destroy_process_group()


class RowMean:
    """The mean over the rows of all ranks of one network's gradient and of a few numbers beside it, one sum a minibatch.

    The packet that travels is (n g, n_1 x_1, ... n_k x_k, n_1, ... n_k) with n = n_1: each number has its own rows. A NaN of
    one rank is a NaN of all, which is how they agree to refuse a minibatch.
    """

    def __init__(self, group: Group, grads: Tensor, numbers: int):
        self._group, self._grads, self._k = group, grads, numbers
        self._aside = grads.device.type == "cpu" and numbers == 1
        self._packet = torch.zeros(len(grads) + 2 * numbers, device=grads.device)

    def __call__(self, numbers: Tensor, rows: Sequence[int]) -> list[float]:
        """As `shared`, read by the host."""
        return self.shared(numbers, rows).tolist()

    def shared(self, numbers: Tensor, rows: Sequence[int]) -> Tensor:
        """Overwrite the gradient by its mean; `numbers` (k,) and their rows, as they are on this rank -> their means (k,).

        Nothing waits for the device, and nothing is allocated that a recording (surefoot.sim.pieces) could not keep; the means
        stay valid until the next call.
        """
        n, k, packet = len(self._grads), self._k, self._packet
        g, x, weight = packet[:n], packet[n : n + k], packet[n + k :]
        if rows[0]:
            for i in range(k):
                weight[i].fill_(rows[i])
            torch.mul(numbers, weight, out=x)
            torch.mul(self._grads, rows[0], out=g)
        else:
            packet.zero_()
        dist.all_reduce(packet, group=self._group.side if self._aside else self._group.wire)
        weight.clamp_(min=1.0)
        torch.div(g, weight[0], out=self._grads)
        return x.div_(weight)


def fingerprint(weights: Tensor) -> Tensor:
    """A float64 that changes when any bit of float32 `weights` does, almost surely; the same in any order of summing."""
    return weights.detach().view(torch.int32).sum(dtype=torch.int64).remainder(1 << 40).double()


# -------------------------------------------------------------------- joining and launching


def joined(backend: str | None = None) -> Group | None:
    """The group this process was started into, or None for a process that is on its own. Called once by every rank.

    It goes by what `torchrun` sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and LOCAL_RANK for the GPU.

    Args:
        backend: "nccl" or "gloo"; None: nccl where every process of this machine has a GPU of its own. With either,
            tensors on the CPU travel by gloo.
    """
    if dist.is_available() and dist.is_initialized():
        return Group()
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    given = {name: os.environ[name] for name in names if os.environ.get(name)}
    if "RANK" not in given and "WORLD_SIZE" not in given:
        return None
    rank, size = (_whole(given, name) for name in ("RANK", "WORLD_SIZE"))
    if size == 1:
        return None
    if not 0 <= rank < size:
        raise InputError(f"RANK={rank} is outside 0 .. {size - 1} (WORLD_SIZE={size}): start the processes by torchrun")
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(f"WORLD_SIZE={size} but {', '.join(missing)} is not set: start the processes by torchrun")
    local = int(os.environ.get("LOCAL_RANK") or rank)
    with _named(f"rank {rank} of {size} could not join at {given['MASTER_ADDR']}:{given['MASTER_PORT']}"):
        _join(backend, local, int(os.environ.get("LOCAL_WORLD_SIZE") or size), rank=rank, world_size=size)
    return Group()


def launch(function: Callable[[Group], None], processes: int, backend: str | None = None) -> None:
    """Run `function(group)` in `processes` new processes of this machine, and wait; the first failure ends all.

    The processes meet through a file, not through a port.

    Args:
        function: at the top of a module, so that a new process can import it; functools.partial gives it arguments.
        processes: how many; one for each GPU.
        backend: as in `joined`.
    """
    if processes < 1:
        raise InputError(f"processes={processes}: at least 1 is needed")
    inner = function.func if isinstance(function, partial) else function
    if "<" in getattr(inner, "__qualname__", "<"):
        raise InputError(f"{inner!r} cannot be imported by another process: define it at the top of a module")
    _backend(backend, processes)
    from torch.multiprocessing.spawn import ProcessException, spawn

    with tempfile.TemporaryDirectory(prefix="surefoot") as folder:
        try:
            spawn(_enter, args=(function, processes, backend, folder), nprocs=processes, join=True)
        except ProcessException as error:
            said = Path(folder, f"error{error.error_index}")
            if said.exists():
                raise InputError(said.read_text(encoding="utf-8")) from None
            raise RuntimeError(f"rank {error.error_index} of {processes} failed: {error}") from None


def _enter(rank: int, function: Callable[[Group], None], processes: int, backend: str | None, folder: str) -> None:
    """Where a process of `launch` begins."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))
    store = Path(folder, "store").as_uri()
    try:
        _join(backend, rank, processes, rank=rank, world_size=processes, init_method=store)
        group = Group()
        function(group)
        group.wait()
        group.close()
    except InputError as error:
        Path(folder, f"error{rank}").write_text(str(error), encoding="utf-8")
        raise


def _join(backend: str | None, local: int, neighbours: int, **where: Any) -> None:
    """Enter torch's default process group; the GPU of this process becomes torch's current one."""
    kind = _backend(backend, neighbours)
    if torch.cuda.is_available():
        torch.cuda.set_device(local % torch.cuda.device_count())
    dist.init_process_group(kind, timeout=WAIT, **where)


def _backend(name: str | None, neighbours: int) -> str:
    """torch's words for a backend; `neighbours` processes share this machine."""
    if not dist.is_available():
        raise InputError("this build of torch has no torch.distributed: install one that has, or train in one process")
    gpus = torch.cuda.device_count() if dist.is_nccl_available() else 0
    if choose(name or "gloo", ("gloo", "nccl"), "a backend") == "nccl" and gpus < neighbours:
        raise InputError(
            f"nccl needs a GPU for each process: {neighbours} processes, {gpus} GPUs here; use gloo or fewer"
        )
    return "cpu:gloo,cuda:nccl" if name == "nccl" or (name is None and gpus >= neighbours) else "gloo"


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """Errors of torch's rendezvous as a sentence."""
    try:
        yield
    except (dist.DistError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what} ({str(error).splitlines()[0]}): start all processes by one torchrun") from None


def _whole(given: Mapping[str, str], name: str) -> int:
    try:
        return int(given[name])
    except (KeyError, ValueError):
        raise InputError(
            f"{name}={given.get(name, '')!r} must be a whole number where RANK or WORLD_SIZE is set: "
            "start the processes by torchrun, or unset both to train in one process"
        ) from None


# -------------------------------------------------------------------- plain data as bytes


def _to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{f"_{name}": value for name, value in arrays.items()})  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def _from_bytes(message: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(message), allow_pickle=False) as file:
        return {name[1:]: file[name] for name in file.files}


def _over_ranks(name: str, values: list[float]) -> float:
    finite = [x for x in values if math.isfinite(x)]
    if name in SUMS:
        return sum(finite)
    return sum(finite) / len(finite) if finite else math.nan
