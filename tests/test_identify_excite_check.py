"""A motion that was designed, played and fitted is checked against its own prediction, on real Fits and the files that `excite` writes."""

import json
from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.deploy.trajectory import write_trajectory
from surefoot.errors import InputError
from surefoot.identify import Fit, identify
from surefoot.identify.design import Design, Expected, Motion, check_prediction, checked_table, load_design
from surefoot.identify.excite import Effort, excite
from surefoot.identify.information import sensor_noise_of

ONLY = ("kp", "coulomb", "command_delay")
TRUTH = {"kp": 1.4, "coulomb": 0.035, "command_delay": 0.0121}
WINDOW = 0.5
FEW = Effort(families=("multi-sine",), population=6, rounds=1, elite=2, samples=2, climbs=0)
MOTION = Motion(channel="joint_pos_target", columns=("a",), dt=0.01, values=np.zeros((2, 1)), setting="fixed")


@pytest.fixture(scope="module")
def sim():
    robot = sf.load("servo")
    return sf.Sim(replace(robot, timestep=0.0025), robot.params.only(*ONLY), threads=1)


@pytest.fixture(scope="module")
def design(sim):
    """What the servo is expected to teach to someone who knows its bounds and trusts its sensors' figures."""
    return excite(sim, only=ONLY, seconds=2.0, window=WINDOW, noise=sensor_noise_of(sim), effort=FEW)


def played(sim: sf.Sim, u: np.ndarray) -> sf.Log:
    """The recording of commands u (T, 1) on a servo with the planted e, its encoder noisy."""
    t = sim.control_dt * np.arange(len(u))
    command = sf.Channel(name="joint_pos_target", unit="rad", t=t, values=u, columns=("servo",), role="u")
    empty = sf.Channel(name="joint_pos", unit="rad", t=t, values=np.zeros((len(t), 1)), columns=("servo",))
    real, log = sim.replace(seed=3), sf.Log(channels=(command, empty), robot="servo")
    e = {name: [value] for name, value in TRUTH.items()}
    return real.replay(log, e, noise=True, qpos=sim.start_qpos, qvel=np.zeros(1)).world(0)


def fitted(sim: sf.Sim, u: np.ndarray) -> Fit:
    return identify(sim, played(sim, u), only=ONLY, window=WINDOW, held_out=0.0)


@pytest.fixture(scope="module")
def fit(sim, design):
    return fitted(sim, design.motion.values)


@pytest.mark.slow
def test_a_designed_motion_teaches_what_was_expected_of_it(design, fit, tmp_path):
    path = write_trajectory(tmp_path / "motion.json", design.to_dict())
    rows = check_prediction(json.loads(path.read_text()), fit)
    assert rows == check_prediction(load_design(path), fit) == check_prediction(design, fit)
    for row, x in zip(rows, design.expected, strict=True):
        assert (row.name, row.unit, row.believed, row.before, row.after) == tuple(vars(x).values())
        assert row.value == fit[row.name]
        assert row.within
        assert row.verdict == "as expected"
        assert 0.5 < row.std / row.after < 2.0
        assert row.value == pytest.approx(TRUTH[row.name], abs=4 * row.std)
        assert row.to_dict()["sentence"] == row.sentence
    table = checked_table(rows)
    assert all(name in table for name in ONLY)
    assert table.count("as expected") == 3


@pytest.mark.slow
def test_a_robot_that_stood_still_taught_less_than_was_expected(sim, design):
    rows = check_prediction(design, fitted(sim, np.repeat(design.motion.values[:1], 400, axis=0)))
    assert {row.verdict for row in rows} <= {"learned less", "at a bound"}
    assert rows[0].verdict == "learned less"
    assert all(row.std > 10 * row.after for row in rows)


@pytest.mark.slow
def test_a_belief_that_the_robot_contradicts_was_wrong(sim, fit):
    """kp was believed to be 0.9 ± 0.02 N·m/rad, and is 1.4."""
    belief = sim.params.prior().replace(kp=sf.Normal(mean=0.9, sd=0.02))
    design = excite(sim, belief, only=ONLY, seconds=2.0, window=WINDOW, noise=sensor_noise_of(sim), effort=FEW)
    rows = {row.name: row for row in check_prediction(design, fit)}
    assert rows["kp"].verdict == "belief was wrong"
    assert not rows["kp"].within
    assert "which was 0.9" in rows["kp"].sentence
    assert rows["command_delay"].within


# -------------------------------------------------------------------- verdicts and refusals


def fit_of(found: dict[str, tuple[float, float]], **more) -> Fit:
    """A Fit of masses by name: value and standard deviation [kg]."""
    masses = sf.Params(**{name: sf.mass("base", low=0.01, high=9.0, nominal=1.0) for name in found})
    values, std = np.array(list(found.values())).T
    bound = masses.bind({name: () for name in found})
    return Fit.made(bound, values, np.diag(std**2), white_std=std, freedom=np.inf, **more)


def design_of(*names: str, **changes) -> Design:
    expected = tuple(
        Expected(**{"name": n, "unit": "kg", "value": 1.0, "before": 0.5, "after": 0.1, **changes}) for n in names
    )
    return Design(robot="servo", motion=MOTION, family="chirp", expected=expected)


def test_every_verdict_is_what_its_numbers_say():
    fit = fit_of(
        {"right": (1.1, 0.12), "less": (1.0, 0.4), "more": (1.0, 0.02), "wrong": (4.0, 0.1), "edge": (2.0, 0.12)},
        at_bound=("edge",),
    )
    rows = {row.name: row for row in check_prediction(design_of(*fit.names, "absent"), fit)}
    assert {name: row.verdict for name, row in rows.items()} == {
        "right": "as expected", "less": "learned less", "more": "learned more", "wrong": "belief was wrong", "edge": "at a bound",
    }  # fmt: skip
    assert [name for name, row in rows.items() if not row.within] == ["wrong"]
    assert rows["right"].sentence == "right: expected ±0.5 -> ±0.1 kg, found 1.1 ±0.12 kg: as expected"
    assert rows["wrong"].sentence.endswith("belief was wrong, which was 1 ±0.5 kg")


def test_a_vague_fit_does_not_contradict_a_belief_and_what_was_not_taught_is_no_gain():
    (row,) = check_prediction(design_of("mass", before=0.01, after=0.009), fit_of({"mass": (1.5, 0.6)}))
    assert row.within
    assert row.verdict == "learned less"
    (row,) = check_prediction(design_of("mass", after=0.45), fit_of({"mass": (1.0, 0.1)}))
    assert row.verdict == "as expected"


def test_a_fit_of_something_else_is_refused():
    design = design_of("mass")
    with pytest.raises(InputError, match="nothing in common"):
        check_prediction(design, fit_of({"other": (1.0, 0.1)}))
    with pytest.raises(InputError, match="was designed for servo, the fit is of go2"):
        check_prediction(design, fit_of({"mass": (1.0, 0.1)}, provenance={"robot": "go2"}))
    assert check_prediction(design, fit_of({"mass": (1.0, 0.1)}, provenance={"robot": "servo_suspended"}))
    with pytest.raises(InputError, match="says nothing of what it should teach"):
        check_prediction(replace(design, expected=()).to_dict(), fit_of({"mass": (1.0, 0.1)}))


@pytest.mark.parametrize(("change", "sentence"), [
    ({"format": "surefoot fit"}, "it is no surefoot trajectory of version 1: make one with"),
    ({"robot": None}, "'robot' is missing"),
    ({"values": [[0.0], [1.0, 2.0]]}, "not rows of numbers"),
    ({"values": [[float("nan")]]}, "needs finite values"),
    ({"dt": 0.0}, "must be above 0 s, got 0.0"),
    ({"setting": "air!"}, "is not a setting of a motion"),
    ({"expected": ["kp"]}, "holds name, unit, value, before and after, got 'kp'"),
    ({"expected": [{"name": "kp", "unit": "1", "value": 1.0, "before": 0.1}]}, "'after' is missing"),
    ({"expected": [{"name": "kp", "unit": "1", "value": 1.0, "before": -0.1, "after": 0.1}]}, "'before' of what is expected of kp"),
])  # fmt: skip
def test_a_file_that_is_no_design_is_one_sentence(tmp_path, change, sentence):
    data = {name: value for name, value in (design_of("kp").to_dict() | change).items() if value is not None}
    file = tmp_path / "motion.json"
    file.write_text(json.dumps(data))
    with pytest.raises(InputError, match=sentence) as caught:
        load_design(file)
    assert str(caught.value).startswith(f"cannot read the trajectory '{file}': ")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=sentence):
        check_prediction(data, fit_of({"kp": (1.0, 0.1)}))


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_a_file_that_is_no_json_object_is_one_sentence(tmp_path, text):
    (tmp_path / "motion.json").write_text(text)
    for file in (tmp_path / "motion.json", tmp_path / "missing.json"):
        with pytest.raises(InputError, match="cannot read the trajectory"):
            load_design(file)
