"""The CUDA engine: many worlds of one compiled model on MuJoCo Warp, all arrays on the device.

It owns the numbers of the physics and nothing else, as CpuEngine does. Fields that differ between worlds are views of packed rows
(cuda_rows.py), so that a reset copies one row; state and derived quantities are torch tensors over MuJoCo Warp's own memory. With device
"cpu" the same code runs on a CPU, slowly: for tests.
"""

import copy
import time
from collections.abc import Callable

import mujoco
import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.sim.cuda_pieces import PhysicsPiece

MISSING = "engine 'cuda' needs MuJoCo Warp, which is not installed: install surefoot with its extra, pip install 'surefoot[gpu]'"
TOUCHES = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): 1,
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): 2,
}
"""Contacts that a geom can have with a plane, by its type; 4 where it is not named."""
ON_FIELD = 8
"""Contacts that a geom can have with a height field."""
ROWS = {1: 1, 3: 4, 4: 6, 6: 10}
"""Rows of a pyramidal friction cone by contact dimension; an elliptic one has as many as its dimension."""


ITERATIONS, LINE_ITERATIONS = 10, 20
"""Most iterations of the solver and of its line search: on a GPU all worlds wait for the slowest, and three to four iterations are enough
on average. With these the engine agrees with the CPU's, which keeps the model's own, to five digits in most worlds; with 6 and 10 not to
two."""


class CudaEngine:
    """x' = f(x, u, e) for `worlds` worlds on one device."""

    name = "cuda"

    def __init__(self, model: mujoco.MjModel, worlds: int, *, device: str = "cuda"):
        try:
            import mujoco_warp as mjw
            import warp as wp
        except ImportError:
            raise InputError(MISSING) from None
        wp.config.log_level = getattr(wp, "LOG_WARNING", 30)
        wp.init()
        if device != "cpu" and not torch.cuda.is_available():
            raise InputError(
                f"engine '{device}' needs an NVIDIA GPU, and torch sees none here: use engine='cpu', or a machine that has one"
            )
        self.torch_device = torch.device(device)
        if self.torch_device.type == "cuda" and self.torch_device.index is None:
            self.torch_device = torch.device("cuda", torch.cuda.current_device())
        self._wp, self._mjw = wp, mjw
        self.device = wp.device_from_torch(self.torch_device)
        self.model, self.worlds = model, worlds
        self.everyone = np.arange(worlds)
        contacts, rows = capacity(model)
        try:
            with wp.ScopedDevice(self.device):
                plain = copy.copy(model)
                # MuJoCo Warp has no autoreset to switch off, and does not know the flag.
                plain.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
                _widen_fields(plain)
                plain.opt.iterations = min(plain.opt.iterations, ITERATIONS)
                plain.opt.ls_iterations = min(plain.opt.ls_iterations, LINE_ITERATIONS)
                self.m = mjw.put_model(plain)
                self.d = mjw.make_data(plain, nworld=worlds, nconmax=contacts, njmax=rows)
        except NotImplementedError as error:
            raise InputError(f"the cuda engine cannot hold this model: {error} Use engine='cpu'.") from None
        self.m.opt.warn_overflow = 0
        # The solver starts from the last step's solution anyway, so the unconstrained one need not be computed.
        self.m.opt.run_qacc_smooth = False
        solver = int(mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS)
        self._crowded = ~solver
        """Kinds of overflow that mean lost contacts or constraints; a solver that stops at its last iteration is none."""
        self._accelerations = bool(self.m.sensor_rne_postconstraint)
        self._views: dict[str, Tensor] = {}
        self._fields: dict[str, Tensor] = {}
        self._nominal: dict[str, np.ndarray] = {}
        self.compile_seconds = 0.0
        """Time that the first calls took for compiling kernels, or for loading them where they were compiled before."""
        self.qpos, self.qvel, self.act, self.time = (self.view(n) for n in ("qpos", "qvel", "act", "time"))
        self.qfrc_applied, self.xfrc_applied, self.ctrl = (
            self.view(n) for n in ("qfrc_applied", "xfrc_applied", "ctrl")
        )
        self.warm_start, self.overflow = self.view("qacc_warmstart"), self.view("overflow")

    def array(self, values: np.ndarray) -> Tensor:
        """`values` as a tensor on this engine's device: single precision, whole numbers stay whole."""
        value = torch.from_numpy(np.array(values))
        return value.to(self.torch_device, torch.float32 if value.is_floating_point() else value.dtype)

    # ---------------------------------------------------------------- fields of the model

    def holds(self, name: str) -> bool:
        """Whether MuJoCo Warp can give each world its own values of a field of the model."""
        owner, attribute = (self.m.opt, name[4:]) if name.startswith("opt.") else (self.m, name)
        field = type(owner).__dataclass_fields__.get(attribute)
        shape = getattr(getattr(field, "type", None), "shape", ())
        return bool(shape) and shape[0] == "*" and name != "opt.timestep"

    def give(self, name: str, values: Tensor) -> None:
        """Let a field of the model be `values` (worlds, ...), a row per world; they may be written to at any time."""
        owner, attribute = (self.m.opt, name[4:]) if name.startswith("opt.") else (self.m, name)
        dtype = getattr(owner, attribute).dtype
        shape = tuple(getattr(dtype, "_shape_", ()))
        tail = values.shape[1:]
        if shape and tuple(tail[-len(shape) :]) != shape:
            inner = int(np.prod(shape))
            values = values.unflatten(-1, (-1, inner)) if values.shape[-1] != inner else values
        setattr(owner, attribute, self._wp.from_torch(values, dtype=dtype))
        self._fields[name] = values

    def field(self, name: str) -> Tensor:
        """Live values of a model field that differs between worlds, (worlds, ...)."""
        return self._fields[name]

    def nominal(self, name: str) -> np.ndarray:
        """The compiled model's own value of a field, (...)."""
        if name not in self._nominal:
            owner, attribute = (self.model.opt, name[4:]) if name.startswith("opt.") else (self.model, name)
            self._nominal[name] = np.array(getattr(owner, attribute))
        return self._nominal[name]

    @property
    def expanded(self) -> dict[str, Tensor]:
        """Fields that differ between worlds, live."""
        return self._fields

    # ---------------------------------------------------------------- state

    def view(self, name: str) -> Tensor:
        """A tensor over MuJoCo Warp's own memory of a quantity of all worlds, (worlds, ...)."""
        if name not in self._views:
            if not hasattr(self.d, name):
                raise InputError(f"the cuda engine has no quantity '{name}'")
            self._views[name] = self._wp.to_torch(getattr(self.d, name))
        return self._views[name]

    def watch(self, *names: str) -> None:
        """Nothing: on the device every derived quantity is kept."""

    def derived(self, name: str) -> Tensor:
        """Live values of a derived quantity, (worlds, ...), one substep behind the state."""
        return self.view(name)

    def physics(self, substep: Callable[[int], None], after: Callable[[int], None], substeps: int) -> PhysicsPiece:
        """The piece that steps all worlds `substeps` times; `substep(j)` and `after(j)` run before and after each."""

        def run() -> None:
            for j in range(substeps):
                substep(j)
                self._mjw.step(self.m, self.d)
                after(j)

        return PhysicsPiece(run, self.torch_device)

    def compile(self) -> float:
        """Compile the kernels, or load them; returns the seconds. The state is not touched."""
        begin = time.perf_counter()
        kept = [(a, a.clone()) for a in (self.qpos, self.qvel, self.act, self.time, self.warm_start)]
        with self._wp.ScopedDevice(self.device):
            self._mjw.step(self.m, self.d)
            self._wp.synchronize_device(self.device)
        for a, before in kept:
            a.copy_(before)
        self.compile_seconds += time.perf_counter() - begin
        return self.compile_seconds

    def silence(self, *, accelerations: bool, all_sensors: bool) -> None:
        """Do not compute native sensors of accelerations and forces at bodies, or none at all; their values are stale then."""
        self.m.sensor_rne_postconstraint = self._accelerations and not accelerations
        flag = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
        flags = self.m.opt.disableflags
        self.m.opt.disableflags = flags | flag if all_sensors else flags & ~flag

    def forward(self) -> None:
        """Bring derived quantities of all worlds up to the state."""
        with self._wp.ScopedDevice(self.device):
            self._mjw.forward(self.m, self.d)

    def overflowed(self) -> np.ndarray:
        """Worlds whose contacts or constraints did not fit into their buffers since the last call, (k,)."""
        found = np.flatnonzero(self.overflow.cpu().numpy() & self._crowded)
        self.overflow.zero_()
        return found


def _widen_fields(model: mujoco.MjModel) -> None:
    """Let the box and the ball around every height-field geom hold each field of the model, whichever a world stands on.

    Otherwise feet on a high field never meet the ground of a geom that was compiled with a low one.
    """
    if not model.nhfield:
        return
    across, high, deep = model.hfield_size[:, :2].max(0), model.hfield_size[:, 2].max(), model.hfield_size[:, 3].max()
    half = np.array([*across, 0.5 * (high + deep)])
    for geom in np.flatnonzero(model.geom_type == int(mujoco.mjtGeom.mjGEOM_HFIELD)):
        model.geom_aabb[geom] = [0.0, 0.0, 0.5 * (high - deep), *half]
        model.geom_rbound[geom] = np.linalg.norm([*across, max(high, deep)])


def capacity(model: mujoco.MjModel) -> tuple[int, int]:
    """Contacts a world may have on average, and rows of constraints it may have at most.

    A robot that stands touches the ground with its feet, one that lies with the rest: the larger of the two counts wholly and the
    other by half. Every joint rubs, and half of them are at a limit. A world that needs more is named by `overflowed`.
    """
    ground = (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD))
    hilly = bool((model.geom_type == ground[1]).any())
    elliptic = model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    leaf = ~np.isin(np.arange(model.nbody), model.body_parentid)
    contacts, rows = 0, [0, 0]
    for i in range(model.ngeom):
        if not (model.geom_contype[i] or model.geom_conaffinity[i]) or model.geom_type[i] in ground:
            continue
        count = ON_FIELD if hilly else TOUCHES.get(int(model.geom_type[i]), 4)
        condim = int(model.geom_condim[i])
        contacts += count
        rows[int(leaf[model.geom_bodyid[i]])] += count * (condim if elliptic else ROWS.get(condim, 4))
    loose = np.isin(model.jnt_type, [int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL)])
    rubbing = model.nv - sum(int(n) for n in np.where(model.jnt_type[loose] == mujoco.mjtJoint.mjJNT_FREE, 6, 3))
    others = (int(model.jnt_limited.sum()) + 1) // 2 + rubbing + 6 * model.neq + 2 * model.ntendon
    most = max(rows) + (min(rows) + 1) // 2 + others
    return max(8, contacts + contacts // 2), max(16, -(-most // 8) * 8)


def driven_by() -> str:
    """Name of the GPU and the versions of what drives it; an InputError where there is none."""
    if not torch.cuda.is_available():
        raise InputError("this needs an NVIDIA GPU, and torch sees none here: run it on a machine that has one")
    from importlib.metadata import PackageNotFoundError, version

    named = []
    for package in ("warp-lang", "mujoco-warp"):
        try:
            named.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            named.append(package)
    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {', '.join(named)}"
