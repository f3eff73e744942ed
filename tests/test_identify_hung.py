"""A robot that hangs from a strap: what was planted in its legs is found, and a fit that holds its base still is misled."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.identify import identify
from surefoot.identify.excite import excite
from surefoot.logs import Channel, Log

PLANTED = {"armature": 0.02, "thigh_mass": 1.35, "slope": 0.25, "rotor": 1.4e-4}


def unknowns() -> sf.Params:
    return sf.Params(
        armature=sf.armature(".*_(hip|thigh)_joint", low=1e-3, high=0.1, nominal=0.01, scale="log"),
        thigh_mass=sf.mass(".*_thigh", low=0.8, high=1.8),
        slope=sf.coulomb_slope(".*_calf_joint", low=-1.0, high=1.0, nominal=0.0),
        rotor=sf.rotor_inertia(".*_calf_joint", low=2e-5, high=5e-4, nominal=1e-4, scale="log"),
    )


def recorded(sim: sf.Sim, seconds: float, seed: int = 0) -> Log:
    """The legs step about their default pose; encoders with noise of 0.1 mrad."""
    rng = np.random.default_rng(seed)
    live = sim.replace(worlds=1, noise=False)
    live.apply({name: np.array([value]) for name, value in PLANTED.items()})
    live.reset()
    steps = round(seconds / live.control_dt)
    t = live.control_dt * np.arange(steps)
    rest = np.asarray(live.rest_command, float).reshape(-1)
    u = rest + 0.25 * np.repeat(rng.uniform(-1, 1, (steps // 5 + 1, len(rest))), 5, axis=0)[:steps]
    y = []
    for command in u:
        y.append(live.truth()["joint_pos"][0].copy())
        live.step(command)
    values = np.array(y) + 1e-4 * rng.standard_normal((steps, len(rest)))
    return Log(channels=(
        Channel(name="joint_pos_target", unit="rad", t=t, values=u, columns=live.command_names, role="u"),
        Channel(name="joint_pos", unit="rad", t=t, values=values, columns=live.robot.joints, role="y"),
    ))  # fmt: skip


@pytest.mark.slow
def test_identify_recovers_the_legs_of_a_hung_robot_and_not_on_a_stand():
    sim = sf.Sim(sf.load("go2").hung(), unknowns(), threads=2)
    log = recorded(sim, 3.0)
    found = identify(sim, log, window=1.0, held_out=0.0, jumps=False)
    for name, value in PLANTED.items():
        assert found.e[name][0] == pytest.approx(value, rel=0.05), name
    stand = sf.Sim(sf.load("go2").suspended(), unknowns(), threads=2)
    wrong = identify(stand, log, window=1.0, held_out=0.0, jumps=False)
    off = {name: abs(wrong.e[name][0] / value - 1) for name, value in PLANTED.items()}
    assert off["armature"] > 0.2
    assert wrong.scores[0].after > 3 * found.scores[0].after


def test_a_motion_is_designed_on_a_stand_not_on_a_strap():
    with pytest.raises(sf.InputError, match=r"robot\.suspended\(\)"):
        excite(sf.Sim(sf.load("go2").hung(), unknowns()), seconds=2.0)


def test_shapes_of_the_legs_do_not_lift_a_robot_that_hangs():
    sim = sf.Sim(sf.load("go2").hung(), sf.Params(zero=sf.zero_offset(".*_thigh_joint", low=-0.3, high=0.3)), worlds=3)
    sim.apply({"zero": np.array([-0.2, 0.0, 0.2])})
    sim.reset()
    np.testing.assert_allclose(sim.engine.qpos[:, 2], 1.0)


def test_a_hung_robot_goes_on_from_a_snapshot_with_the_same_bits():
    sim = sf.Sim(sf.load("go2").hung(), unknowns(), worlds=2)
    sim.apply(sim.params.prior().sample(2, 0))
    sim.reset()
    sim.step(sim.rest_command)
    kept, ends = sim.snapshot(), []
    for _ in range(2):
        sim.restore(kept)
        for _ in range(5):
            sim.step(sim.rest_command)
        ends.append(np.array(sim.engine.qpos))
    np.testing.assert_array_equal(*ends)


def test_a_hung_robot_is_refused_on_physx_in_words():
    pytest.importorskip("sapien")
    with pytest.raises(sf.InputError, match=r"robot\.suspended\(\)"):
        sf.Sim(sf.load("go2").hung(), sf.Params(), engine="physx")
