"""A world that left the numbers: named with its e and its step, and kept so that it can be run again from a file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from surefoot.errors import InputError
from surefoot.files import replacing

if TYPE_CHECKING:
    from surefoot.sim.sim import Sim


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One world that blew up."""

    world: int
    step: int
    """Control step in which it happened."""
    robot: str
    robot_hash: str
    e: dict[str, np.ndarray]
    state: np.ndarray
    """Physics state before that control step, (nstate,)."""
    control: np.ndarray
    """What the motors received in it, (substeps, nu)."""
    file: str | None = None

    def save(self, path: Path) -> "Failure":
        """Write to an .npz file and return the Failure that names it."""
        values: dict[str, Any] = {
            "world": self.world, "step": self.step, "robot": self.robot, "robot_hash": self.robot_hash,
            "state": self.state, "control": self.control, **{f"e:{k}": v for k, v in self.e.items()},
        }  # fmt: skip
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **values)
        return replace(self, file=str(path))


def load_failure(path: str | Path) -> Failure:
    """Read a Failure from the file that `save` wrote."""
    try:
        with np.load(path, allow_pickle=False) as data:
            e = {k[2:]: data[k] for k in data.files if k.startswith("e:")}
            return Failure(
                world=int(data["world"]), step=int(data["step"]), robot=str(data["robot"]),
                robot_hash=str(data["robot_hash"]), e=e, state=data["state"], control=data["control"], file=str(path),
            )  # fmt: skip
    except (OSError, EOFError, ValueError, KeyError, BadZipFile) as error:
        raise InputError(f"'{path}' is not the file of a failed world: {error}") from None


def describe(sim: "Sim", world: int, state: np.ndarray, control: np.ndarray) -> Failure:
    """The Failure of one world of a Sim."""
    e = {name: value[world] for name, value in sim.e.items()}
    return Failure(
        world=world, step=sim.steps - 1, robot=sim.robot.name, robot_hash=sim.robot.hash, e=e, state=np.array(state),
        control=np.array(control),
    )  # fmt: skip


def rerun(sim: "Sim", found: Failure) -> bool:
    """Run a failed step again in world 0 of a like Sim, laws included; True if it leaves the numbers again."""
    if found.state.shape != sim.engine.state[0].shape:
        raise InputError(f"the failed world is of '{found.robot}' with other Params: make the Sim it came from")
    sim.apply({name: np.broadcast_to(value, (1, *value.shape)) for name, value in found.e.items()}, ids=[0])
    sim.engine.clear(np.array([0]))
    sim.engine.state[0] = found.state
    sim.engine.forward(np.array([0]))
    sim.laws.settle(np.array([0]))
    others, sim.alive = sim.alive, np.arange(sim.worlds) == 0
    sim.advance(np.broadcast_to(found.control, (sim.worlds, *found.control.shape)))
    sim.alive = others
    return 0 in sim.engine.failed()


def sentence(found: list[Failure], worlds: int) -> str:
    """Which worlds, when, under which e, and what to do."""
    shown = ", ".join(str(f.world) for f in found[:5]) + (", ..." if len(found) > 5 else "")
    first = found[0]
    values = ", ".join(f"{k}={np.ravel(v)[0]:.4g}" for k, v in list(first.e.items())[:6])
    where = f"; replay it from '{first.file}'" if first.file else ""
    return (
        f"{len(found)} of {worlds} worlds ({shown}) left the numbers at control step {first.step} and are frozen until "
        f"reset; world {first.world} had {values or 'the nominal e'}{where}. "
        "Lower the time step or narrow these bounds."
    )
