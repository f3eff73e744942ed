"""A training that is interrupted keeps what it has learned, and goes on to the same bits."""

import signal
import threading

import numpy as np
import pytest

import surefoot as sf
from surefoot.learn import PPO, load_run, train
from surefoot.learn.interrupt import held_back
from surefoot.robots import load
from surefoot.tasks import World
from surefoot.tasks.swing_up import cartpole

SMALL = PPO(horizon=4, minibatches=1, hidden=(8,), critic_hidden=(8,))


def world() -> World:
    sim = sf.Sim(load("cartpole"), worlds=4)
    return World(cartpole(), sim, e=sim.params.prior())


def test_ctrl_c_writes_the_run_and_the_same_call_goes_on_to_the_same_bits(tmp_path):
    def press(record):
        if record["steps"] == 96:
            signal.raise_signal(signal.SIGINT)
        return False

    quiet = {"say": lambda _line: None, "steps": 128, "save_every": 1e9}
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="96 transitions are kept"):
        train(world(), SMALL, run=tmp_path / "a", stop=press, **quiet)
    assert signal.getsignal(signal.SIGINT) is before
    kept = load_run(tmp_path / "a")
    assert kept.steps == 96
    gone_on = train(world(), SMALL, run=tmp_path / "a", stop=lambda _record: False, **quiet)
    whole = train(world(), SMALL, run=tmp_path / "b", stop=lambda _record: False, **quiet)
    assert gone_on.steps == whole.steps == 128
    for name, value in whole.policy.to_arrays().items():
        assert np.array_equal(gone_on.policy.to_arrays()[name], value), name


def test_ctrl_c_in_the_last_update_is_judged_kept_and_not_swallowed(tmp_path):
    judged = []

    def evaluate(_policy):
        judged.append(1.0)
        return {"success": 1.0}

    def press(record):
        if record["steps"] == 96:
            signal.raise_signal(signal.SIGINT)
        return False

    with pytest.raises(KeyboardInterrupt, match="is finished with 96 transitions"):
        train(world(), SMALL, run=tmp_path, steps=96, stop=press, evaluate=evaluate, say=lambda _line: None)
    assert judged == [1.0]
    assert load_run(tmp_path).stopped == "steps"


def test_a_second_ctrl_c_ends_at_once_and_other_threads_hear_nothing():
    with held_back() as heard:
        assert not heard()
        signal.raise_signal(signal.SIGINT)
        assert heard()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    told = []

    def beside() -> None:
        with held_back() as heard:
            told.append(heard())

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert told == [False]
