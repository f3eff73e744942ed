"""The CPU engine: many worlds of one compiled model on `mujoco.batch.Batch`.

An engine owns the numbers of the physics and nothing else: fields of the model per world, the state, and `advance`. It
knows no Params, no sensors and no robot, so that another engine (CUDA, PhysX) can take its place under `Sim`.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

BAD = [
    int(w)
    for w in (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
]
RECORDS = ("qpos", "qvel", "sensordata", "actuator_force")


class Engine(Protocol):
    """What Sim asks of an engine that works on NumPy arrays; CpuEngine says what each does."""

    name: str
    model: mujoco.MjModel
    worlds: int
    everyone: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray
    act: np.ndarray
    time: np.ndarray
    ctrl: np.ndarray
    qfrc_applied: np.ndarray
    xfrc_applied: np.ndarray
    busy: float
    batch: Any

    @staticmethod
    def array(values: np.ndarray) -> np.ndarray: ...
    @property
    def threads(self) -> int: ...
    def field(self, name: str) -> np.ndarray: ...
    def nominal(self, name: str) -> np.ndarray: ...
    def refresh_constants(self, ids: np.ndarray) -> None: ...
    @property
    def expanded(self) -> dict[str, np.ndarray]: ...
    @property
    def state(self) -> np.ndarray: ...
    def watch(self, *names: str) -> None: ...
    def derived(self, name: str) -> np.ndarray: ...
    @property
    def outputs(self) -> dict[str, np.ndarray]: ...
    @outputs.setter
    def outputs(self, values: Mapping[str, np.ndarray]) -> None: ...
    def clear(self, ids: np.ndarray) -> None: ...
    def forward(self, ids: np.ndarray) -> None: ...
    def advance(
        self,
        control: np.ndarray,
        ids: np.ndarray | None = None,
        record: Sequence[str] = (),
        into: dict[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]: ...
    def failed(self) -> np.ndarray: ...
    def single(self, world: int) -> tuple[mujoco.MjModel, mujoco.MjData]: ...


class CpuEngine:
    """x' = f(x, u, e) for `worlds` worlds on `threads` threads (0: all cores); bit-identical at any thread count."""

    name = "cpu"

    def __init__(self, model: mujoco.MjModel, worlds: int, threads: int = 0):
        if mujoco.get_mju_user_warning() is None:
            # Otherwise every diverging world prints a line and writes a log file into the working folder.
            mujoco.set_mju_user_warning(lambda _message: None)
        self.model, self.worlds = model, worlds
        self.batch = Batch(model, worlds, threads)
        self.everyone = np.arange(worlds)
        self._fields: dict[str, np.ndarray] = {}
        self._derived: dict[str, np.ndarray] = {}
        self._nominal: dict[str, np.ndarray] = {}
        self._buffers: dict[int, dict[str, np.ndarray]] = {}
        bind = self.batch.bind
        self.qpos, self.qvel, self.act, self.time = bind("qpos"), bind("qvel"), bind("act"), bind("time")
        self.qfrc_applied, self.xfrc_applied = bind("qfrc_applied"), bind("xfrc_applied")
        self.ctrl = bind("ctrl")
        self.busy = 0.0
        """Seconds spent in `advance`, for benchmarks."""
        self.watch("sensordata", "actuator_force")

    @staticmethod
    def array(values: np.ndarray) -> np.ndarray:
        """`values` as an array of this engine's own library and device; sensors and disturbances work on those."""
        return values

    @property
    def threads(self) -> int:
        """Number of threads that step the worlds."""
        return self.batch.nthread

    # ---------------------------------------------------------------- fields of the model

    def field(self, name: str) -> np.ndarray:
        """Live values of a model field for every world, (worlds, ...); the first use gives each world its own."""
        if name not in self._fields:
            self._fields[name] = self.batch.expand(name)
        return self._fields[name]

    def nominal(self, name: str) -> np.ndarray:
        """The compiled model's own value of a field, (...)."""
        if name not in self._nominal:
            owner, attribute = (self.model.opt, name[4:]) if name.startswith("opt.") else (self.model, name)
            self._nominal[name] = np.array(getattr(owner, attribute))
        return self._nominal[name]

    def refresh_constants(self, ids: np.ndarray) -> None:
        """Compute anew what the engine derives from masses, lengths and reference positions; the state stays."""
        self.batch.set_const(np.sort(ids))

    @property
    def expanded(self) -> dict[str, np.ndarray]:
        """Fields that differ between worlds, live."""
        return self._fields

    # ---------------------------------------------------------------- state

    @property
    def state(self) -> np.ndarray:
        """The whole physics state, one row a world; writable."""
        return self.batch.state

    def watch(self, *names: str) -> None:
        """Follow derived quantities from now on; what is not followed yet when a call runs reads as zero after it."""
        for name in names:
            self._derived[name] = self.batch.bind(name)

    def derived(self, name: str) -> np.ndarray:
        """Live read-only values of a derived quantity, (worlds, ...), one substep behind the state."""
        if name not in self._derived:
            self.watch(name)
        return self._derived[name]

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """Copies of all followed derived quantities, for snapshots."""
        return {name: value.copy() for name, value in self._derived.items()}

    @outputs.setter
    def outputs(self, values: Mapping[str, np.ndarray]) -> None:
        for name, value in values.items():
            live = self.derived(name)
            live.flags.writeable = True
            live[:] = value
            live.flags.writeable = False

    def clear(self, ids: np.ndarray) -> None:
        """Put worlds back to the model's zero state, without computing anything."""
        self.batch.reset(np.sort(ids), stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self.batch.warning[ids] = 0

    def forward(self, ids: np.ndarray) -> None:
        """Bring derived quantities up to the state."""
        self.batch.forward(np.sort(ids))

    def advance(
        self,
        control: np.ndarray,
        ids: np.ndarray | None = None,
        record: Sequence[str] = (),
        into: dict[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        """Step n substeps with control (k, n, nu); returns records (k, n, ...), valid until the next call.

        Records are written to the arrays `into` where given. A world that leaves the numbers stops at the substep where it
        did so; `failed` names it.
        """
        n = control.shape[1]
        key = n if ids is None else -n
        out = into if into is not None else self._buffers.get(key, {}) if ids is None else {}
        for name in record:
            if name not in out:
                out[name] = np.zeros((len(control), n, *self.batch.bind(name).shape[1:]))
        begin = time.perf_counter()
        try:
            out = self.batch.rollout(n, control, record=record, ids=ids, out=out)
        except SimulationError as error:
            self.batch.warning[error.ids, BAD[0], 1] += 1
        self.busy += time.perf_counter() - begin
        if ids is None and into is None:
            self._buffers[key] = out  # type: ignore[assignment]
        return out  # type: ignore[return-value]

    def failed(self) -> np.ndarray:
        """Worlds whose numbers left the reals since they were last cleared, (k,)."""
        warned = self.batch.warning
        return np.flatnonzero(warned[:, BAD, 1].any(axis=1)) if warned.any() else np.zeros(0, dtype=np.int64)

    # ---------------------------------------------------------------- one world, for pictures and single use

    def single(self, world: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """One world as a model and data of its own, derived quantities computed."""
        model, data = self.batch.get_model(world), self.batch.get_data(world)
        mujoco.mj_forward(model, data)
        return model, data
