"""Sensors and disturbances look again only at tables that `apply` wrote: afterwards they must know all the same."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.params import CONSTRUCTORS
from surefoot.params.kind import KINDS

OF = ("joint", "sensor", "actuator")
"""Targets that have names."""
KINDS_OF_TABLES = sorted(
    k.name for k in KINDS.values() if k.group in ("sensor", "environment", "process") and k.fields[0].startswith("sim.")
)


def states(sim) -> dict:
    s = sim.sensors
    arrays = {"mounting": s.mounting, "quantum": s.quantum} | {f"frame/{k}": v for k, v in s.frames.items()}
    arrays |= {f"white/{k}": v for k, v in s.white.items()}
    return {
        "active": dict(s.active),
        "all_quantised": s.all_quantised,
        "disturbing": dict(sim.disturbances.active),
        "pushes": sim.disturbances.pushes,
        "arrays": {k: None if v is None else np.array(v) for k, v in arrays.items()},
    }


def same(a: dict, b: dict) -> bool:
    if a.keys() != b.keys():
        return False
    for key, value in a["arrays"].items():
        other = b["arrays"][key]
        if (value is None) != (other is None) or (value is not None and not np.array_equal(value, other)):
            return False
    return all(a[key] == b[key] for key in a if key != "arrays")


@pytest.mark.parametrize("kind", KINDS_OF_TABLES)
def test_what_apply_left_is_what_a_look_at_everything_finds(kind):
    about = KINDS[kind]
    low, high = (max(about.hard[0], -0.01), min(about.hard[1], 0.01))
    if kind in ("gravity", "temperature"):
        low, high = (9.0, 10.0) if kind == "gravity" else (20.0, 30.0)
    name = ".*" if about.target in OF else None
    make = CONSTRUCTORS[kind]
    param = make(name, low=low, high=high) if name else make(low=low, high=high)
    sim = sf.Sim(sf.load("go2"), sf.Params(**{kind: param}), worlds=3, threads=1)
    size = sim.params.d
    for value in (high, high / 2 if low == 0 else low, max(low, 0.0) if low <= 0 else low):
        sim.apply(sim.params.unflatten(np.full((3, size), value)))
        found = states(sim)
        sim.sensors.retune()
        sim.disturbances.retune()
        assert same(found, states(sim))


def test_a_sim_that_did_not_look_would_be_noticed(monkeypatch):
    """The test above can fail: without a look at what was written, states differ."""
    sim = sf.Sim(sf.load("go2"), sf.Params(n=CONSTRUCTORS["gyro_noise"](low=0.0, high=0.01)), worlds=3, threads=1)
    monkeypatch.setattr(sim.sensors, "retune", lambda *_: None)
    sim.apply({"n": 0.0})
    found = states(sim)
    monkeypatch.undo()
    sim.sensors.retune()
    assert not same(found, states(sim))


def test_a_delay_holds_from_the_start_and_after_another_time_step():
    """Targets that step at t = 0 move no motor before the delay has passed, whether e was applied or is nominal."""
    robot = sf.load("go2")
    params = sf.Params(
        delay=CONSTRUCTORS["command_delay"](low=0.0, high=0.04, nominal=0.03),
        dt=CONSTRUCTORS["timestep"](low=0.001, high=0.005, nominal=0.005),
    )

    def moved(sim) -> list[bool]:
        sim.reset()
        rest, found = sim.rest_command, []
        for _ in range(3):
            sim.step(rest + 0.2)
            force = np.array(sim.engine.derived("actuator_force"))
            found.append(bool(np.abs(force - still).max() > 1.0))
        return found

    sim = sf.Sim(robot, params, worlds=2, threads=1)
    sim.reset()
    sim.step(sim.rest_command)
    still = np.array(sim.engine.derived("actuator_force"))
    assert sim.control_dt == pytest.approx(0.02)
    assert moved(sim) == [False, True, True]
    sim.apply({"dt": 0.0025})
    assert moved(sim)[0] is False
    assert moved(sim)[1:] == [True, True]
    sim.apply({"delay": 0.0})
    assert moved(sim) == [True, True, True]


def test_worlds_given_other_delays_and_lags_are_planned_as_if_all_were_looked_at():
    sim = sf.Sim(sf.load("crazyflie"), worlds=6, threads=1)
    sim.apply(sim.params.prior().sample(6, 9))
    for seed, ids in enumerate((None, [1, 4], [0], [2, 3, 5])):
        drawn = sim.params.prior().sample(6 if ids is None else len(ids), seed)
        before = [part.copy() for part in sim.commands._plan]
        sim.apply(drawn, ids)
        found = [part.copy() for part in (*sim.commands._plan, sim.commands.lags)]
        sim.plan_commands()
        for a, b in zip(found, (*sim.commands._plan, sim.commands.lags), strict=True):
            np.testing.assert_array_equal(a, b)
        assert any((a != b).any() for a, b in zip(before, found, strict=False))


def test_a_first_delay_in_one_world_is_planned():
    sim = sf.Sim(
        sf.load("cartpole"), sf.Params(delay=CONSTRUCTORS["command_delay"](low=0.0, high=0.04, nominal=0.0)), worlds=3
    )
    assert sim.commands._plan is None
    sim.apply({"delay": [0.03]}, [1])
    u = np.ones((3, 1))
    np.testing.assert_allclose(sim.commands.deliver(u).sum(axis=1)[:, 0], [4.0, 0.0, 4.0], atol=1e-12)
    np.testing.assert_allclose(sim.commands.deliver(u).sum(axis=1)[:, 0], [4.0, 2.0, 4.0], atol=1e-12)
