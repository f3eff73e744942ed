"""Kernels of the CUDA engine: what would take many small tensor operations a step, in one launch each.

They do what commands.py, tape.py and noise.py do for NumPy; tests compare the two. Random numbers are a function of
(seed, stream, step, world, column) and of nothing else.
"""

import warp as wp

# Kernels are compiled by Warp, not run by Python: a type checker does not know how many indices wp.tid() gives.
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false

NORMAL, UNIFORM = 0, 1


@wp.kernel
def draw(
    seed: int,
    stream: int,
    kind: int,
    clock: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
    out: wp.array2d(dtype=float),  # type: ignore[valid-type]
):
    """Noise of one stream for this step, (worlds, columns)."""
    world, column = wp.tid()
    key = wp.rand_init(seed + stream * 7919, clock[0])
    state = wp.rand_init(int(key), world * 509 + column)
    if kind == 0:
        out[world, column] = wp.randn(state)
    else:
        out[world, column] = wp.randf(state)


@wp.kernel
def deliver(
    u: wp.array2d(dtype=float),  # type: ignore[valid-type]
    delay: wp.array(dtype=float),  # type: ignore[valid-type]
    dt: float,
    substeps: int,
    history: wp.array3d(dtype=float),  # type: ignore[valid-type]
    control: wp.array3d(dtype=float),  # type: ignore[valid-type]
):
    """Take u into the history (worlds, depth, nu), newest first, and give the mean of the delayed command over each substep."""
    world, column = wp.tid()
    depth = history.shape[1]
    for back in range(depth - 1):
        age = depth - 1 - back
        history[world, age, column] = history[world, age - 1, column]
    history[world, 0, column] = u[world, column]
    period = dt * float(substeps)
    for j in range(substeps):
        start = float(j) * dt - delay[world]
        first = wp.floor(start / period + 1.0e-6)
        share = wp.clamp(1.0 - ((first + 1.0) * period - start) / dt, 0.0, 1.0)
        age = int(-first)
        older = history[world, wp.clamp(age, 0, depth - 1), column]
        newer = history[world, wp.clamp(age - 1, 0, depth - 1), column]
        control[world, j, column] = older + share * (newer - older)


@wp.kernel
def command(control: wp.array3d(dtype=float), j: int, ctrl: wp.array2d(dtype=float)):  # type: ignore[valid-type]
    """Control of substep j."""
    world, column = wp.tid()
    ctrl[world, column] = control[world, j, column]


@wp.kernel
def record(
    count: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
    j: int,
    source: wp.array2d(dtype=float),  # type: ignore[valid-type]
    first: int,
    ring: wp.array3d(dtype=float),  # type: ignore[valid-type]
):
    """Keep one array's state after substep j in the ring (slots, worlds, columns), from column `first` on."""
    world, column = wp.tid()
    ring[(count[0] + j) % ring.shape[0], world, first + column] = source[world, column]


@wp.kernel
def add(count: wp.array(dtype=wp.int32), more: int):  # type: ignore[valid-type]
    """Move a counter on."""
    count[0] = count[0] + more


@wp.kernel
def sample(
    count: wp.array(dtype=wp.int32),  # type: ignore[valid-type]
    age: wp.array(dtype=float),  # type: ignore[valid-type]
    dt: float,
    ring: wp.array3d(dtype=float),  # type: ignore[valid-type]
    out: wp.array2d(dtype=float),  # type: ignore[valid-type]
):
    """State of every world `age` seconds ago, linear between the two substeps around it."""
    world, column = wp.tid()
    slots = ring.shape[0]
    back = age[world] / dt
    whole = wp.clamp(int(wp.floor(back + 1.0e-6)), 0, slots - 2)
    share = wp.clamp(back - float(whole), 0.0, 1.0)
    near = (count[0] + 2 * slots - 1 - whole) % slots
    far = (near + slots - 1) % slots
    now = ring[near, world, column]
    out[world, column] = now + share * (ring[far, world, column] - now)


@wp.kernel
def copy_rows(
    mask: wp.array(dtype=wp.bool),  # type: ignore[valid-type]
    row: wp.array(dtype=wp.int64),  # type: ignore[valid-type]
    source: wp.array2d(dtype=float),  # type: ignore[valid-type]
    target: wp.array2d(dtype=float),  # type: ignore[valid-type]
):
    """target[w] = source[row[w]] in the worlds of the mask."""
    world, column = wp.tid()
    if mask[world]:
        target[world, column] = source[int(row[world]), column]


@wp.kernel
def copy_whole_rows(
    mask: wp.array(dtype=wp.bool),  # type: ignore[valid-type]
    row: wp.array(dtype=wp.int64),  # type: ignore[valid-type]
    source: wp.array2d(dtype=wp.int32),  # type: ignore[valid-type]
    target: wp.array2d(dtype=wp.int32),  # type: ignore[valid-type]
):
    """copy_rows for whole numbers."""
    world, column = wp.tid()
    if mask[world]:
        target[world, column] = source[int(row[world]), column]


@wp.kernel
def fill_ring(
    mask: wp.array(dtype=wp.bool),  # type: ignore[valid-type]
    source: wp.array2d(dtype=float),  # type: ignore[valid-type]
    first: int,
    ring: wp.array3d(dtype=float),  # type: ignore[valid-type]
):
    """As if the worlds of the mask had been in their present state for ever."""
    world, column = wp.tid()
    if mask[world]:
        for slot in range(ring.shape[0]):
            ring[slot, world, first + column] = source[world, column]
