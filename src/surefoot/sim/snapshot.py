"""Everything that decides what happens next in a Sim, taken and put back bit for bit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.sim.sim import Sim


def take(sim: "Sim") -> dict[str, np.ndarray]:
    """The whole state of a Sim as plain arrays by name."""
    out = {
        "state": sim.engine.state.copy(),
        "alive": sim.alive.copy(),
        "steps": np.array(sim.steps),
        "seed": np.array(sim.seed),
    }
    out["warning"] = sim.engine.batch.warning.copy()
    out |= {f"field:{k}": v.copy() for k, v in sim.engine.expanded.items()}
    out |= {f"table:{k}": v.copy() for k, v in sim.physics.tables.items()}
    out |= {f"command:{k}": getattr(sim.commands, k).copy() for k in ("history", "slewed", "spin")}
    out |= {f"sensor:{k}": v.copy() for k, v in sim.sensors.arrays().items()}
    out |= {f"memory:{k}": v.copy() for k, v in sim.memory.items()}
    out |= {f"derived:{k}": v for k, v in sim.engine.outputs.items()}
    out["gust"] = sim.disturbances.gust.copy()
    if sim.tape is not None:
        out |= {f"tape:{k}": v.copy() for k, v in sim.tape.arrays().items()}
    if "ground_law" in sim.laws.names:
        out["ground"] = sim.laws.last_pos.copy()
    if "terrain_law" in sim.laws.names:
        out["plates"] = sim.laws.plating.fresh.copy()
    return out


def put_back(sim: "Sim", snapshot: Mapping[str, np.ndarray]) -> None:
    """Bring a Sim into the state that `take` saved from a like one."""
    if snapshot["state"].shape != sim.engine.state.shape:
        raise InputError(
            f"the snapshot holds {len(snapshot['state'])} worlds of another size than this Sim's {sim.worlds}: make a like Sim"
        )
    sim.engine.state[:] = snapshot["state"]
    sim.engine.batch.warning[:] = snapshot["warning"]
    sim.alive[:] = snapshot["alive"]
    sim.steps = int(snapshot["steps"])
    sim.noise.seed = sim.seed = int(snapshot["seed"])
    parts: dict[str, dict[str, np.ndarray]] = {}
    for key, value in snapshot.items():
        if ":" in key:
            part, name = key.split(":", 1)
            parts.setdefault(part, {})[name] = value
    for name, value in parts.get("field", {}).items():
        sim.engine.field(name)[:] = value
    if parts.get("field"):
        sim.physics.refresh_constants(sim.engine.everyone)
    for name, value in parts["table"].items():
        sim.physics.tables[name][:] = value
    for name, value in parts["command"].items():
        getattr(sim.commands, name)[:] = value
    sim.sensors.load(parts["sensor"])
    sim.memory = {k: v.copy() for k, v in parts.get("memory", {}).items()}
    sim.disturbances.gust[:] = snapshot["gust"]
    if sim.tape is not None:
        sim.tape.load(parts["tape"])
    if "ground_law" in sim.laws.names:
        sim.laws.last_pos[:] = snapshot["ground"]
    if "terrain_law" in sim.laws.names:
        sim.laws.plating.fresh[:] = snapshot["plates"]
    sim.sensors.retune()
    sim.disturbances.retune()
    sim.plan_commands()
    sim.engine.outputs = parts["derived"]
