"""A live view of a Sim in the browser (extra `view`: viser and mjviser); bound to this machine alone."""

import time
from collections.abc import Callable

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.sim.sim import Sim


def serve(
    sim: Sim,
    control: Callable[[Sim], np.ndarray] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    seconds: float | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Run `sim` in real time and show it at http://host:port until stopped, or for `seconds`.

    Args:
        sim: all its worlds are drawn over one another; a slider chooses the one the camera follows.
        control: gives u (worlds, nu) from the sim before every step; None holds the default pose.
        host: address to listen on; the default is reached from this machine only.
        port: TCP port.
        seconds: how long to run; None until interrupted.
        announce: where to print the address.
    """
    try:
        import viser
        from mjviser import ViserMujocoScene
    except ImportError:
        raise InputError("the live view needs the extra 'view': pip install 'surefoot[view]'") from None
    server = viser.ViserServer(host=host, port=port, verbose=False)
    try:
        scene = ViserMujocoScene(server, _shown(sim), num_envs=sim.worlds)
        world = server.gui.add_slider(
            "world", min=0, max=max(sim.worlds - 1, 1), step=1, initial_value=0, disabled=sim.worlds == 1
        )
        again = server.gui.add_button("reset all worlds")
        again.on_click(lambda _event: waiting.append(True))
        waiting: list[bool] = []
        text = server.gui.add_markdown(_describe(sim, 0))
        world.on_update(lambda _event: setattr(text, "content", _describe(sim, int(world.value))))
        announce(f"{sim} at http://{host}:{server.get_port()} (Ctrl+C stops it)")
        start = time.monotonic()
        while seconds is None or time.monotonic() - start < seconds:
            if waiting:
                waiting.clear()
                sim.reset()
            tick = time.monotonic()
            sim.step(sim.rest_command if control is None else control(sim))
            places = sim.engine.derived("xpos"), sim.engine.derived("xmat").reshape(sim.worlds, -1, 3, 3)
            scene.update_from_arrays(np.array(places[0]), np.array(places[1]), env_idx=int(world.value))
            time.sleep(max(0.0, sim.control_dt - (time.monotonic() - tick)))
    finally:
        server.stop()


def _describe(sim: Sim, world: int) -> str:
    rows = [
        f"- {name}: {np.array2string(np.asarray(value[world]), precision=4)} {sim.params[name].unit}"
        for name, value in sim.e.items()
    ]
    return "**e of this world**\n\n" + "\n".join(rows)


def _shown(sim: Sim) -> mujoco.MjModel:
    """The model to draw: plates are no planes in it, since the view draws every plane, transparent or not."""
    model = sim.engine.batch.get_model(0)
    if sim.built.plates is not None:
        model.geom_type[sim.built.plates.ids] = int(mujoco.mjtGeom.mjGEOM_SPHERE)
    return model
