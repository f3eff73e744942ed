"""The critic's process: the bits of a thread, and nothing lost when it is."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from surefoot.learn import PPO, Learner, Mirror, learner, sidecar
from test_learn_update import FLIP, PointMass, rolled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")

PLAIN = PPO(hidden=(8,), horizon=6, epochs=3, minibatches=2)


def learners(ppo: PPO, mirror: Mirror | None, monkeypatch) -> tuple[PointMass, Learner, Learner]:
    """A world and two like learners; the first update of any learner makes its process."""
    monkeypatch.setattr(learner, "AFTER", -1.0)
    world = PointMass(16)
    one, two = (Learner(ppo, world.widths, 1, seed=3, mirror=mirror) for _ in range(2))
    return world, one, two


def same(one: Learner, two: Learner) -> bool:
    a, b = one.snapshot(), two.snapshot()
    differ = [name for name in a if name != "noise" and not np.array_equal(a[name], b[name])]
    assert not differ
    return True


def ended(pid: int) -> bool:
    """Whether a process is gone within two seconds."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("ppo", "mirror"),
    [(PLAIN, None), (PLAIN, FLIP), (replace(PLAIN, both_sides=False), FLIP), (replace(PLAIN, memory=3), None)],
    ids=["plain", "both sides", "by turns", "policy with memory"],
)
def test_a_process_learns_the_same_bits(ppo, mirror, monkeypatch):
    world, one, two = learners(ppo, mirror, monkeypatch)
    for k in range(3):
        rollout = rolled(one, world)
        rollout.broken[k, 2 : 4 + k] = True
        a, b = one.update(rollout, threads=2), two.update(rollout, threads=1)
        assert a.numbers == b.numbers
        assert same(one, two)
    assert one._sidecar is not None
    assert not one._sidecar.lost
    assert two._sidecar is None


def test_a_minibatch_that_is_refused_there_is_named_here(monkeypatch):
    world, one, two = learners(replace(PLAIN, value_clip=1e30), None, monkeypatch)
    rollout = rolled(one, world)
    rollout.critic[2, 3] = 1e30
    for each in (one, two):
        each.critic.normaliser.limit = 1e30
    said = [each.update(rollout, threads=threads).refused for each, threads in ((one, 2), (two, 1))]
    assert said[0] == said[1]
    assert any(sentence.startswith("critic, epoch 1 minibatch") for sentence in said[0])


def test_a_lost_process_costs_no_bit(monkeypatch):
    world, one, two = learners(PLAIN, None, monkeypatch)
    for k in range(3):
        rollout = rolled(one, world)
        if k == 1:
            assert one._sidecar is not None
            os.kill(one._sidecar.pid, signal.SIGKILL)
        assert one.update(rollout, threads=2).numbers == two.update(rollout, threads=1).numbers
        assert same(one, two)
    assert one._sidecar is not None
    assert one._sidecar.lost


def test_a_process_that_says_nothing_is_not_waited_for_for_ever(monkeypatch):
    world, one, two = learners(PLAIN, None, monkeypatch)
    for k in range(2):
        rollout = rolled(one, world)
        if k:
            monkeypatch.setattr(sidecar, "WAIT", 0.05)
            assert one._sidecar is not None
            os.kill(one._sidecar.pid, signal.SIGSTOP)
        one.update(rollout, threads=2)
        two.update(rollout, threads=1)
    assert same(one, two)
    assert one._sidecar is not None
    assert one._sidecar.lost
    assert ended(one._sidecar.pid)


def test_nothing_is_left_of_a_process_when_its_learner_is_gone_or_fails(monkeypatch):
    world, one, two = learners(PLAIN, None, monkeypatch)
    rollout = rolled(one, world)
    one.update(rollout, threads=2)
    two.update(rollout, threads=2)
    assert one._sidecar is not None
    assert two._sidecar is not None
    pids = one._sidecar.pid, two._sidecar.pid
    monkeypatch.setattr(one.actor_adam, "step", lambda _rate: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        one.update(rollout, threads=2)
    assert ended(pids[0])
    assert os.kill(pids[1], 0) is None
    del two
    assert ended(pids[1])


def test_no_process_where_there_can_be_none(monkeypatch):
    world, one, _two = learners(PLAIN, None, monkeypatch)

    def full() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", full)
    rollout = rolled(one, world)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        assert one.update(rollout, threads=2).numbers
    assert one._sidecar is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_killed_training_takes_its_process_along(tmp_path):
    script = (
        "import os, sys, time\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from test_learn_update import PointMass, rolled\n"
        "from surefoot.learn import PPO, Learner, learner\n"
        "learner.AFTER = -1.0\n"
        "world = PointMass(16)\n"
        "one = Learner(PPO(hidden=(8,), horizon=6), world.widths, 1, seed=0)\n"
        "one.update(rolled(one, world), threads=2)\n"
        "print(one._sidecar.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    here = os.path.dirname(__file__)
    with subprocess.Popen([sys.executable, "-c", script, here], stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        pid = int(training.stdout.readline())
        training.kill()
        assert ended(pid)
