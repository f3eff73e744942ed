"""The loop: its folder resumes, its truth is the reality's, its ladder says what happened; a small one runs from end to end."""

import json
from dataclasses import replace

import numpy as np
import pytest

from surefoot.deploy.odometry import Walk
from surefoot.errors import InputError
from surefoot.hardware.generator import draw
from surefoot.hardware.referee import Truth
from surefoot.learn import checkpoint
from surefoot.logs import Channel, Log
from surefoot.loop import (
    RUNGS,
    Folder,
    Ladder,
    Loop,
    Rung,
    begin_with,
    choose_policy,
    judge_rung,
    ladder_of,
    loop_of,
    run_loop,
)
from surefoot.loop.choice import kept_by, off_asked
from surefoot.loop.judging import Trial, distinct, ended_words, swung_up, walked
from surefoot.loop.ladder import Step, drawn, page_of, shown
from surefoot.loop.on_robot import runs_of
from surefoot.loop.training import Best, belief_of, hedged
from surefoot.loop.truth import held_text, true_e
from surefoot.robots import load
from surefoot.sim import Sim

TWIN = "twin:qube/06-nasty"


def counted(calls: list, value: float = 1.0):
    def work(again: bool) -> dict:
        calls.append(again)
        return {"value": value}

    return work


# -------------------------------------------------------------------- the folder


def test_a_finished_step_is_not_done_again(tmp_path):
    calls: list[bool] = []
    for _ in range(2):
        assert Folder(tmp_path).step("fit", {"window": 1.0}, counted(calls)) == {"value": 1.0}
    assert calls == [False]


def test_other_inputs_or_another_step_before_it_do_it_again(tmp_path):
    folder, calls = Folder(tmp_path), []
    folder.step("train", {"seed": 0}, counted([]))
    folder.step("fit", {"window": 1.0}, counted(calls), after=["train"])
    folder.step("fit", {"window": 2.0}, counted(calls), after=["train"])
    folder.step("train", {"seed": 1}, counted([]))
    folder.step("fit", {"window": 2.0}, counted(calls), after=["train"])
    assert calls == [False, False, False]


def test_an_interrupted_step_is_told_that_it_was_begun(tmp_path):
    def stopped(_again: bool) -> dict:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Folder(tmp_path).step("train", {}, stopped)
    with pytest.raises(InputError, match="has not been done"):
        Folder(tmp_path).result("train")
    calls: list[bool] = []
    Folder(tmp_path).step("train", {}, counted(calls))
    assert calls == [True]


def test_a_loop_may_begin_with_a_prepared_folder(tmp_path):
    Folder(tmp_path / "a").step("train", {}, counted([]))
    begin_with(tmp_path / "a", tmp_path / "b")
    Folder(tmp_path / "a").step("design", {}, counted([]))
    begin_with(tmp_path / "a", tmp_path / "b")
    calls: list[bool] = []
    Folder(tmp_path / "b").step("train", {}, counted(calls))
    Folder(tmp_path / "b").step("design", {}, counted(calls))
    assert calls == [False]


def test_a_loop_in_a_file_is_refused(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="is a file"):
        Folder(tmp_path / "x")


# -------------------------------------------------------------------- settings


@pytest.mark.parametrize("hardware", ["unitree:eth0", "twin:", "go2/12-nasty"])
def test_a_loop_needs_a_stand_in(hardware):
    with pytest.raises(InputError, match="stand-in"):
        loop_of("qube", hardware)


def test_unknown_robots_tasks_and_ladders_are_refused():
    with pytest.raises(InputError, match="robot with a loop"):
        loop_of("qub", TWIN)
    with pytest.raises(InputError, match="task"):
        loop_of("qube", TWIN, task="walk")
    good = loop_of("qube", TWIN)
    with pytest.raises(InputError, match="does not come before"):
        replace(good, rungs=(RUNGS[2], RUNGS[1]))
    with pytest.raises(InputError, match="needs the rung"):
        replace(good, rungs=RUNGS[:1])


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"explore": float("nan")}, "explore must be"),
    ({"steps": -5}, "steps of a loop must be a number above 0, got -5"),
    ({"trials": 0}, "trials"),
])  # fmt: skip
def test_sizes_that_make_no_loop_are_refused_before_anything_is_trained(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        loop_of("qube", TWIN, **changes)


def test_a_stand_in_must_exist_and_be_of_the_robot():
    with pytest.raises(InputError, match="reality"):
        loop_of("qube", "twin:qube/99")
    with pytest.raises(InputError, match="stands in for 'go2'"):
        loop_of("qube", "twin:go2/01-nominal")


def test_a_further_rung_finds_its_place():
    more = Rung(name="adaptive", title="adaptive", e="randomized", start="randomized")
    assert replace(loop_of("qube", TWIN), rungs=(*RUNGS, more)).rung("adaptive") is more


# -------------------------------------------------------------------- truth and beliefs


@pytest.fixture(scope="module")
def qube() -> Sim:
    return Sim(load("qube"))


def test_the_truth_of_a_reality_in_the_words_of_the_params(qube):
    found = true_e(Loop(robot="qube", hardware="twin:qube/02-warm", kit=loop_of("qube", TWIN).kit).reality, qube.params)
    assert found.e["resistance"] == pytest.approx(9.2)
    assert found.e["torque_constant"] == pytest.approx(0.040)
    assert found.e["arm_damping"] == pytest.approx(5e-5)
    assert found.e["pendulum_damping"] == pytest.approx(5e-6)
    assert found.e["encoder_bias"] == pytest.approx(0.006)
    assert found.e["arm_mass"] == pytest.approx(0.095)
    assert found.e["velocity_filter"] == pytest.approx(0.005)
    assert found.beyond == ()


def test_what_no_param_holds_is_named(qube):
    found = true_e(loop_of("qube", TWIN).reality, qube.params)
    assert {"gear_ripple", "hysteresis", "sag", "jitter", "sensor_delay"} <= set(found.beyond)
    assert not found.whole


def test_gains_are_factors_and_patterns_reach_their_joints():
    params = Sim(load("go2")).params
    found = true_e(loop_of("go2", "twin:go2/12-nasty").reality, params)
    assert found.e["kp"] == pytest.approx(34.0)
    assert any(word.startswith("kd = 0.5") for word in found.beyond)
    joints = params.elements["encoder_bias"]
    bias = dict(zip(joints, found.e["encoder_bias"], strict=True))
    assert bias["FL_thigh_joint"] == pytest.approx(-0.03)
    assert bias["FL_hip_joint"] == 0.0
    assert found.e["base_com_x"] == pytest.approx(-0.045)


@pytest.mark.parametrize("robot", ["qube", "go2"])
def test_a_held_reality_is_held_whole(robot, tmp_path):
    file = tmp_path / "held.toml"
    file.write_text(held_text(draw(robot, 5, 0.9)))
    assert true_e(file, Sim(load(robot)).params).beyond == ()
    assert "beyond" not in file.read_text()


def test_the_rungs_draw_from_what_they_say(qube, tmp_path):
    loop, folder = loop_of("qube", "twin:qube/02-warm"), Folder(tmp_path)
    nominal = belief_of(loop, folder, loop.rung("simulation"), qube.params).sample(3, 0)
    assert np.ptp(nominal["resistance"]) == 0.0
    assert nominal["resistance"][0] == 8.4
    assert belief_of(loop, folder, loop.rung("randomized"), qube.params) == qube.params.prior()
    truth = belief_of(loop, folder, loop.rung("oracle"), qube.params).sample(2, 0)
    assert truth["resistance"] == pytest.approx([9.2, 9.2])


def test_retraining_draws_from_the_fits_own_posterior_and_the_prior_of_the_rest(qube, tmp_path):
    from scipy.stats import t as student

    from surefoot.identify import Fit

    params = qube.params.only("resistance", "arm_mass")
    sd = np.array([0.1, 0.002])
    fit = Fit.made(params, np.array([9.0, 0.11]), np.diag(sd**2), white_std=sd, freedom=3.0)
    loop, folder = loop_of("qube", "twin:qube/02-warm"), Folder(tmp_path)
    fit.save(tmp_path / "fit.json")
    drawn_e = belief_of(loop, folder, loop.rung("identified"), qube.params).sample(4000, 0)
    wider = student.ppf(0.95, 3.0) / student.ppf(0.95, np.inf)
    assert drawn_e["resistance"].mean() == pytest.approx(9.0, abs=0.02)
    assert drawn_e["resistance"].std() == pytest.approx(0.1 * wider, rel=0.1)
    assert drawn_e["arm_mass"].mean() == pytest.approx(0.11, abs=4e-4)
    assert np.ptp(drawn_e["encoder_bias"]) > 0.055


@pytest.mark.parametrize(("left", "share"), [(9.0, 0.0), (11.0, 0.5)])
def test_where_the_model_lacks_something_half_of_the_worlds_are_drawn_as_before(qube, left, share):
    from surefoot.identify import Fit, Score

    params = qube.params.only("resistance")
    floors = {"windows": "fitted", "unit": "rad", "before": 1.0, "horizon": 0.3, "start": "estimated"}
    scores = [
        Score(channel="joint_pos", column=name, after=factor * left * 1e-3, floor=1e-3, **floors)
        for name, factor in (("arm", 0.9), ("pendulum", 1.1))
    ]
    fit = Fit.made(params, np.array([9.0]), np.array([[1e-6]]), white_std=np.array([1e-3]), freedom=50.0, scores=scores)
    drawn_e = hedged(fit, qube.params.prior()).sample(4000, 0)
    assert (np.abs(drawn_e["resistance"] - 9.0) > 0.02).mean() == pytest.approx(share, abs=0.03)


# -------------------------------------------------------------------- judging


def truth_of(n: int = 601, **arrays) -> Truth:
    zeros = {k: np.zeros((n, 3)) for k in ("base_pos", "base_vel_world", "gyro")}
    base = {
        **zeros, "time": np.linspace(0.0, 6.0, n), "quat": np.tile([1.0, 0, 0, 0], (n, 1)), "height": np.full(n, 0.32),
        "upright": np.ones(n), "contact": np.zeros((n, 4)), "joint_pos": np.zeros((n, 2)), "joint_vel": np.zeros((n, 2)),
        "torque": np.zeros((n, 1)),
        "state": np.ones(n), "events": (), "about": {"joints": ["arm", "pendulum"]},
    }  # fmt: skip
    return Truth(**{**base, **arrays})


def test_a_swing_up_is_judged_by_its_second_half():
    angle = np.zeros((601, 2))
    angle[250:, 1] = np.pi + 0.1
    assert swung_up(truth_of(joint_pos=angle), 0.0, 6.0, 6.0) == (True, pytest.approx(0.1, abs=1e-6))
    angle[400:500, 1] = 0.0
    assert not swung_up(truth_of(joint_pos=angle), 0.0, 6.0, 6.0)[0]
    assert swung_up(truth_of(joint_pos=angle), 0.0, 3.0, 6.0) == (False, pytest.approx(np.pi))


def test_a_walk_is_judged_by_its_mean_velocity():
    speed = np.tile([0.5, 0.0, 0.0], (601, 1))
    good, error = walked(truth_of(base_vel_world=speed), 0.0, 6.0, 6.0, {"vx": 0.6})
    assert good
    assert error == pytest.approx(0.1)
    assert not walked(truth_of(base_vel_world=speed), 0.0, 6.0, 6.0, {"vx": 0.6, "yaw_rate": 0.7})[0]
    low = np.full(601, 0.32)
    low[300] = 0.05
    assert walked(truth_of(base_vel_world=speed, height=low), 0.0, 6.0, 6.0, {"vx": 0.6}) == (False, 1.0)


def test_repeated_runs_count_once_and_early_ends_are_told():
    fell = Trial(success=False, error=3.1, ended="safety", lasted=3.5, reason="freeze: stuck", trace="a")
    fell_otherwise = replace(fell, trace="b")
    good = Trial(success=True, error=0.1, ended="finished", lasted=6.0, trace="c")
    assert distinct([fell, fell, good]) == [fell, good]
    assert distinct([fell, fell_otherwise, good]) == [fell, fell_otherwise, good]
    assert ended_words([fell, fell, good]) == "2 of 3 runs ended early: freeze: stuck"
    assert ended_words([good]) == ""


def test_robot_time_that_is_not_there_is_refused_before_it_is_used(tmp_path):
    from surefoot.loop import play_motion

    with pytest.raises(InputError, match="explore for at most 12 s"):
        loop_of("qube", TWIN, explore=500.0)
    loop, folder = loop_of("qube", TWIN, explore=11.0), Folder(tmp_path)
    on_robot(folder, "randomized", loop.kit.seconds)
    folder.step("design", {}, lambda _again: {})
    with pytest.raises(InputError, match=r"7\.0 robot seconds were used and the runs ahead take 26\.0 more"):
        play_motion(loop, folder)


# -------------------------------------------------------------------- the ladder and its bench


def ladder(identified: float = 1.0, randomized: float = 0.5) -> Ladder:
    shares = {"simulation": 0.0, "randomized": randomized, "identified": identified, "oracle": 1.0}
    steps = [
        Step(
            name=r.name, title=r.title, success=(shares[r.name], 0.0, 1.0), error=(0.1, 0.05, 0.15), trials=4,
            robot_seconds=14.0 * (r.e == "posterior"),
        )
        for r in RUNGS if r.judged
    ]  # fmt: skip
    return Ladder(
        robot="qube", task="swing_up", hardware=TWIN, unit="rad", steps=tuple(steps), robot_seconds=20.0, seconds=60.0
    )


def test_a_ladder_prints_draws_and_loads_back(tmp_path):
    made = ladder()
    assert Ladder.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    text = str(made)
    assert "identified + retrained" in text
    assert "100 (0 .. 100)" in text
    assert drawn(made).count("<rect") == 1 + len(made.steps)
    assert "oracle" in page_of(made, Folder(tmp_path)).html()
    assert shown((None, None, None)) == ""


def test_a_robot_that_was_stopped_before_anything_drove_it_teaches_nothing(tmp_path):
    from surefoot.loop.on_robot import gap_of, logs_of, usable

    folder, told = Folder(tmp_path), []
    stopped = {"log": "robot/randomized.mcap", "robot_seconds": 2.0, "outcome": {"seconds": 0.0}}
    folder.step("deploy randomized", {}, lambda _again: stopped)
    assert logs_of(folder, ("deploy randomized",)) == []
    loop = loop_of("qube", TWIN)
    assert gap_of(loop, folder, loop.rung("randomized"), told.append) == {"rows": []}
    assert "stopped before" in told[-1]
    with pytest.raises(InputError, match="stopped before"):
        usable([], 0.3)


def test_the_bench_compares_the_rungs():
    from surefoot.bench.loop import marks_of, summary

    rows = [*marks_of("qube held 0", ladder(1.0)), *marks_of("qube beyond 1", ladder(0.5, 0.25))]
    found = {m.name: m for m in summary(rows)}
    assert found["loop, qube: success, identified − randomized"].value == pytest.approx(0.375)
    ratio = next(m for name, m in found.items() if "over the oracle" in name)
    assert ratio.value == 1.0
    assert ratio.holds
    assert found["loop, qube: robot seconds, the most"].value == 14.0


def test_the_bench_says_how_far_trainings_differ():
    from surefoot.bench.loop import marks_of, summary

    rows = [*marks_of("qube held 0", ladder(1.0, 0.5)), *marks_of("qube held 0 seed 1", ladder(0.5, 0.75))]
    found = {m.name: m for m in summary(rows)}["loop, qube: success, identified − randomized"]
    assert found.value == pytest.approx(0.125)
    assert "1 hidden realities" in found.reference
    assert "2 trainings of each: +0.500, -0.250" in found.reference


def test_every_seed_is_a_loop_of_its_own(tmp_path, monkeypatch):
    from surefoot.bench import Request
    from surefoot.bench.loop import cases_of

    monkeypatch.setenv("SUREFOOT_CACHE", str(tmp_path))
    names = list(cases_of(Request(quick=True, seeds=2)))
    assert names == ["qube held 0", "qube beyond 1", "qube held 0 seed 1", "qube beyond 1 seed 1"]


def test_hidden_realities_differ_and_are_partly_held():
    from surefoot.bench.loop import hidden

    sorts = [hidden("qube", k) for k in range(4)]
    assert [sort for sort, _ in sorts] == ["held", "beyond", "held", "beyond"]
    assert len({text for _, text in sorts}) == 4


def test_given_realities_are_sorted_by_what_the_params_hold_and_bad_ones_are_refused(tmp_path):
    from surefoot.bench.loop import cases_of, hidden
    from surefoot.bench.table import Request

    for k in range(2):
        (tmp_path / f"robot-{k}.toml").write_text(hidden("qube", k)[1])
    request = Request(realities=tmp_path, seeds=1)
    assert list(cases_of(request)) == ["qube held robot-0", "qube beyond robot-1"]
    for text, sentence in (
        ('robot = "qube', "odd.toml is not valid TOML"),
        ("level = 0.3", "odd has no 'robot'"),
        ('robot = "crazyflie"', "'crazyflie' is not a robot with a loop"),
    ):
        (tmp_path / "odd.toml").write_text(text)
        with pytest.raises(InputError, match=sentence):
            cases_of(request)
        if "crazyflie" not in text:
            with pytest.raises(InputError, match=sentence):
                loop_of("qube", f"twin:{tmp_path / 'odd.toml'}")


# -------------------------------------------------------------------- which policy is kept


def on_robot(folder: Folder, name: str, seconds: float, ended: str = "finished", second: float | None = None) -> None:
    """The runs on the robot of a rung as `deploy_rung` leaves them; `second`: how long the later ones lasted, if otherwise."""
    rung = next(rung for rung in RUNGS if rung.name == name)
    for k, step in enumerate(runs_of(rung)):
        lasted = seconds if not k or second is None else second
        said = {
            "log": f"robot/{name}{f'-{k + 1}' if k else ''}.mcap",
            "robot_seconds": lasted + 1.0,
            "outcome": {"ended": ended, "seconds": lasted},
        }
        folder.step(step, {"seconds": lasted, "ended": ended}, lambda _again, said=said: said)


@pytest.mark.parametrize(("seconds", "second", "kept"), [
    (2.0, 2.0, "randomized"), (9.0, 9.0, "identified"), (8.9, 8.9, "identified"), (9.0, 4.0, "randomized"),
])  # fmt: skip
def test_a_walk_that_was_stopped_sooner_is_not_kept(tmp_path, seconds, second, kept, monkeypatch):
    loop, folder = loop_of("go2", "twin:go2/01-nominal"), Folder(tmp_path)
    on_robot(folder, "randomized", 9.0)
    on_robot(folder, "identified", seconds, "finished" if seconds == 9.0 else "stopped", second)
    monkeypatch.setattr("surefoot.loop.choice.strayed", lambda *_about: ())
    found = choose_policy(loop, folder, loop.rung("identified"))
    assert found["kept"] == kept_by(folder, loop.rung("identified")) == kept
    assert ("the policy before was kept" in found["note"]) == (kept == "randomized")
    asked: list[str] = []

    def trial(_loop, bundle, *_more):
        asked.append(bundle.parent.name)
        return Trial(success=True, error=0.1, ended="finished", lasted=6.0, trace=str(len(asked)))

    monkeypatch.setattr("surefoot.loop.judging.trial", trial)
    judge_rung(loop, folder, loop.rung("identified"))
    assert set(asked) == {kept}
    step = ladder_of(loop, folder)["identified"]
    assert step.note == found["note"]
    assert step.robot_seconds == seconds + second + 2.0


def test_where_nothing_was_chosen_a_rung_stands_for_itself(tmp_path):
    loop = loop_of("qube", TWIN)
    assert kept_by(Folder(tmp_path), loop.rung("oracle")) == "oracle"


@pytest.mark.parametrize(("hangs", "ended", "kept"), [
    (0.5, "finished", "randomized"), (0.0, "finished", "identified"), (0.0, "stopped", "randomized"),
])  # fmt: skip
def test_a_swing_up_is_kept_by_what_its_encoder_says(tmp_path, monkeypatch, hangs, ended, kept):
    loop, folder = loop_of("qube", TWIN), Folder(tmp_path)
    t = np.linspace(0.0, loop.kit.seconds, 601)

    def played(path):
        """Upright from the first second on; the retrained one hangs again for a share of the second half."""
        down = (t < 1.0) | (path.stem.startswith("identified") & (t > loop.kit.seconds * (1.0 - 0.5 * hangs)))
        values = np.stack([0.0 * t, np.where(down, 0.0, np.pi)], axis=1)
        return Log(channels=(Channel(name="joint_pos", unit="rad", t=t, values=values, columns=("arm", "pendulum")),))

    monkeypatch.setattr("surefoot.deploy.trajectory.read_played", played)
    on_robot(folder, "randomized", loop.kit.seconds)
    on_robot(folder, "identified", loop.kit.seconds, ended)
    found = choose_policy(loop, folder, loop.rung("identified"))
    assert found["first"]["share"] == 1.0
    assert found["retrained"]["share"] == pytest.approx(0.0 if ended == "stopped" else 1.0 - hangs, abs=0.01)
    assert found["kept"] == kept


@pytest.mark.parametrize(("sway", "luck", "kept"), [
    (0.015, 0.0, "identified"), (0.02, 0.0, "identified"), (0.022, 0.0, "randomized"), (0.022, 0.015, "identified"),
    (0.05, 0.015, "randomized"),
])  # fmt: skip
def test_of_two_pendulums_that_stand_the_calmer_one_is_kept(tmp_path, monkeypatch, sway, luck, kept):
    """Whatever the encoder's zero is and however many turns the swing took, and only where it is more than luck."""
    loop, folder = loop_of("qube", TWIN), Folder(tmp_path)
    t = np.linspace(0.0, loop.kit.seconds, 1201)

    def played(path):
        retrained = path.stem.startswith("identified")
        size = (sway if retrained else 0.02) + luck * (-1.0) ** (t // 0.5) * (1.0 if retrained else -1.0)
        up = (3.05 - 4 * np.pi) if retrained else np.pi
        values = np.stack([0.0 * t, up + size * np.sign(np.sin(20 * np.pi * t + 0.1))], axis=1)
        return Log(channels=(Channel(name="joint_pos", unit="rad", t=t, values=values, columns=("arm", "pendulum")),))

    monkeypatch.setattr("surefoot.deploy.trajectory.read_played", played)
    for name in ("randomized", "identified"):
        on_robot(folder, name, loop.kit.seconds)
    found = choose_policy(loop, folder, loop.rung("identified"))
    assert found["retrained"]["off"] * np.arccos(0.95) == pytest.approx(sway, rel=0.02)
    assert len(found["retrained"]["parts"]) == 6
    assert found["kept"] == kept


def test_a_walk_is_compared_by_the_second_half_of_every_command():
    t = np.arange(0.0, 6.0, 0.01) + 20.0
    late = (t - 20.0) % 3.0 >= 1.5
    speed = np.where(t < 23.0, 0.5, 0.3)
    velocity = np.stack([np.where(late, speed, -9.0), np.where(late & (t >= 23.0), 0.4, 0.0)], axis=1)
    walk = Walk(t=t, velocity=velocity, turning=np.where(t >= 23.0, 0.0, 0.25))
    asked = ({"vx": 0.6}, {"vx": 0.3, "vy": 0.3})
    assert off_asked(walk, asked, 20.0, 6.0) == pytest.approx([1.0] * 3 + [0.5] * 3, abs=1e-6)
    assert off_asked(walk, asked, 90.0, 6.0) == ()


# -------------------------------------------------------------------- all of it


@pytest.mark.slow
def test_a_training_may_start_from_another(tmp_path):
    from surefoot.learn import PPO, train
    from surefoot.tasks import World
    from surefoot.tasks.swing_up import cartpole

    def world() -> World:
        sim = Sim(load("cartpole"), worlds=4)
        return World(cartpole(), sim, e=sim.params.prior())

    ppo = PPO(horizon=4, minibatches=1, hidden=(8,), critic_hidden=(8,), rate_bounds=(1e-9, 1e-9), rate=1e-9)
    quiet = {"say": lambda _line: None}
    first = train(
        world(),
        PPO(horizon=4, minibatches=1, hidden=(8,), critic_hidden=(8,)),
        run=tmp_path / "a",
        steps=64,
        seed=0,
        **quiet,
    )
    warm = train(world(), ppo, run=tmp_path / "b", steps=16, seed=1, start=tmp_path / "a", **quiet)
    cold = train(world(), ppo, run=tmp_path / "c", steps=16, seed=1, **quiet)
    weights = {name: run.policy.to_arrays() for name, run in (("first", first), ("warm", warm), ("cold", cold))}
    key = next(k for k, v in weights["first"].items() if np.ndim(v) == 2)
    near = np.abs(weights["warm"][key] - weights["first"][key]).max()
    assert near < 0.1 * np.abs(weights["cold"][key] - weights["first"][key]).max()


def test_the_best_policy_of_a_training_goes_to_the_robot_not_the_last(tmp_path):
    class Shown:
        def __init__(self, number):
            self.number = number

        def to_arrays(self):
            return {"number": np.array(self.number)}

    def kept():
        return int(checkpoint.load(tmp_path / "best.npz")[0]["number"])

    best = Best(tmp_path / "best.npz", again=False)
    for number, (success, error) in enumerate(
        [(0.5, 0.1), (0.97, 0.3), (0.98, 0.2), (0.97, 0.1), (0.6, 0.01), (0.97, 0.2)]
    ):
        best.show(Shown(number), {"success": success, "off": error})
    assert kept() == 3
    resumed = Best(tmp_path / "best.npz", again=True)
    resumed.show(Shown(6), {"success": 0.5, "off": 0.0})
    assert kept() == 3
    Best(tmp_path / "best.npz", again=False).show(Shown(7), {"success": 0.1})
    assert kept() == 7


@pytest.mark.slow
def test_a_small_loop_from_end_to_end_and_again(tmp_path):
    effort = {"families": ("multi-sine",), "population": 2, "rounds": 1, "elite": 1, "samples": 1, "climbs": 1}
    loop = loop_of(
        "qube", "twin:qube/02-warm", steps=12_288, more=4_096, every=10**6, trials=1, judged=2.0, seconds=2.0, explore=2.0, effort=effort,
        only=("resistance", "command_delay"),
    )  # fmt: skip
    made = run_loop(loop, tmp_path)
    assert [step.name for step in made.steps] == [rung.name for rung in RUNGS if rung.judged]
    assert 0.0 < made["identified"].robot_seconds < loop.kit.budget
    for name in (
        "ladder.json",
        "ladder.svg",
        "report.html",
        "fit.json",
        "robot/motion.mcap",
        "rungs/identified/bundle/policy.onnx",
    ):
        assert (tmp_path / name).is_file(), name
    assert Folder(tmp_path).result("choose identified")["kept"] in ("identified", "randomized")
    fitted = Folder(tmp_path).record("identify")["result"]["values"]
    assert {row["name"]: row["unit"] for row in fitted} == {"resistance": "ohm", "command_delay": "s"}
    said: list[str] = []
    again = run_loop(loop, tmp_path, say=said.append)
    assert again == made
    assert all(line.endswith("done before") for line in said)
