"""The bench of rough ground, from training to marks, with trainings too short to learn anything."""

from dataclasses import replace

import pytest

from surefoot.bench import Request, rough
from surefoot.learn import PPO
from surefoot.learn.walking import rough as ground


@pytest.mark.slow
def test_both_kinds_are_trained_judged_and_forgotten(monkeypatch, tmp_path):
    def few(robot, *, scan, lesson):
        found = ground(robot, scan=scan, lesson=lesson)
        lesson = replace(found.lesson, worlds=8, ppo=PPO(horizon=4, epochs=1, minibatches=1, hidden=(8,), warmup=4))
        return replace(found, lesson=lesson)

    monkeypatch.setenv("SUREFOOT_CACHE", str(tmp_path))
    monkeypatch.setattr(rough, "rough", few)
    monkeypatch.setattr(rough, "_gpu", lambda: None)
    monkeypatch.setitem(rough.PACES, "cpu", rough.Pace(steps=64, every=32, glanced=4))
    monkeypatch.setattr(rough, "JUDGED", 8)
    said = []
    result = rough.measure(Request(tell=said.append))
    assert [m.mark for m in result.marks] == [0.75, 0.9]
    assert [m.name for m in result.marks] == [
        "go2, blind, seed 0: survival on rough ground",
        "go2, height scan, seed 0: survival on rough ground",
    ]
    assert all(0.0 <= m.value <= 1.0 and "8 fresh worlds" in m.reference for m in result.marks)
    assert sum("survival" in line for line in said) >= 2
    assert not list(tmp_path.iterdir())
