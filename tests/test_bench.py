"""The benchmarks' one language, and the bench of the simulator in small."""

import importlib.metadata
import json
import time
from dataclasses import replace

import numpy as np
import pytest

import surefoot
from surefoot.bench import BENCHES, Bench, Mark, Request, Result, cases, results, run
from surefoot.bench import sim as bench_sim
from surefoot.bench.examples import _EXAMPLES, example_params, example_robot, structural_kinds
from surefoot.bench.speed import Loop, figure, ratio, take_turns
from surefoot.bench.table import aligned, machine, versions
from surefoot.errors import InputError
from surefoot.params import KINDS
from surefoot.robots import load
from surefoot.versions import versions_of

KEYS = ["name", "value", "unit", "op", "mark", "goal", "reference", "holds"]
TINY = bench_sim.Sizes(
    worlds=4, rounds=2, control_steps=3, kinds=("friction", "voltage_sag"), kind_rounds=2, scaling_worlds=(2, 4),
    threads=(1, 2), candidates=4, robots=("servo",),
)  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREFOOT_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("op", "value", "holds"), [
    (">=", 0.85, True), (">=", 0.84, False), ("<=", 0.85, True), ("<=", 0.86, False), ("==", 0.85, True),
    ("==", 0.0, False), (">=", None, None), (None, 1.0, None),
])  # fmt: skip
def test_a_mark_holds_when_its_value_reaches_it(op, value, holds):
    assert Mark(name="speed", value=value, op=op, mark=0.85).holds is holds


def test_the_object_has_exactly_the_keys_of_the_language():
    result = Result(bench="sim", marks=(Mark(name="a", value=1.0),), seed=3, seconds=2.5)
    data = json.loads(result.to_json())
    assert list(data) == ["bench", "marks", "machine", "versions", "seed", "seconds"]
    assert list(data["marks"][0]) == KEYS
    assert Mark.from_dict(data["marks"][0]) == result.marks[0]


def test_the_table_lines_up_and_names_what_was_missed():
    marks = (Mark(name="fast", value=0.5, op=">=", mark=0.85, reference="x"), Mark(name="absent one", value=None))
    result = Result(bench="sim", marks=marks, seed=0, seconds=1.0)
    lines = result.text.splitlines()
    assert lines[0].split() == ["name", "value", "unit", "reference", "mark", "holds"]
    assert lines[2].split() == ["fast", "0.5", "1", "x", ">=", "0.85", "NO"]
    assert "absent" in lines[3]
    assert result.verdict == "0 of 1 marks hold; missed: fast"
    assert len({line.index("1") for line in aligned([("a", "b"), ("xx", "1"), ("y", "1")]).splitlines()[2:]}) == 1


def test_machine_facts_hold_no_host_name_and_no_path():
    import platform

    text = json.dumps({**machine(), **versions()})
    assert platform.node() not in text or not platform.node()
    assert "/" not in machine()["system"]
    assert machine()["cores"] >= 1
    assert versions()["mujoco"] != "absent"


def test_versions_are_told_also_where_a_package_is_not_installed(monkeypatch):
    def none(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", none)
    assert versions_of() == {"surefoot": surefoot.__version__, "mujoco": "absent", "numpy": "absent", "scipy": "absent"}


def test_an_interrupted_bench_goes_on_where_it_stopped_and_a_finished_one_starts_anew():
    calls: list[str] = []

    def one() -> list[Mark]:
        calls.append("one")
        return [Mark(name="one", value=1.0)]

    def broken() -> list[Mark]:
        raise KeyboardInterrupt

    def two() -> list[Mark]:
        return [Mark(name="two", value=2.0)]

    with pytest.raises(KeyboardInterrupt):
        cases.work("planted", {"one": one, "two": broken}, Request())
    marks = cases.work("planted", {"one": one, "two": two}, Request())
    assert [m.name for m in marks] == ["one", "two"]
    assert calls == ["one"]
    cases.work("planted", {"one": one, "two": two}, Request())
    assert calls == ["one", "one"]


def test_other_options_do_not_take_over_finished_cases():
    with pytest.raises(ZeroDivisionError):
        cases.work(
            "planted", {"one": lambda: [Mark(name="one", value=1.0)], "two": lambda: [1 / 0]}, Request(quick=True)
        )  # type: ignore[list-item]
    marks = cases.work("planted", {"one": lambda: [Mark(name="one", value=5.0)]}, Request(quick=False))
    assert marks[0].value == 5.0


def test_loops_that_take_turns_give_a_planted_ratio(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("surefoot.bench.speed.time.perf_counter", lambda: now[0])

    def worker(seconds: float) -> Loop:
        def go(_k: int) -> None:
            now[0] += seconds

        return Loop(start=lambda: None, go=go, steps=1)

    rates = take_turns({"slow": worker(0.02), "fast": worker(0.01)}, rounds=4, control_steps=2)
    assert rates["slow"] == pytest.approx(np.full(4, 50.0))
    assert ratio(rates, "slow", "fast").median == pytest.approx(0.5)
    assert figure(np.array([1.0, 2.0, 3.0])).median == 2.0


def test_results_are_written_by_the_command_and_keep_other_benches(tmp_path):
    with pytest.raises(InputError, match="benchmarks"):
        results.results_folder(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    for name in ("alpha", "beta"):
        mark = Mark(name=f"speed of {name}", value=2.0, op=">=", mark=1.0)
        results.write_results([Result(bench=name, marks=(mark,), seed=0, seconds=1.0)], tmp_path)
    text = (tmp_path / "benchmarks" / "RESULTS.md").read_text()
    assert "| speed of alpha | 2 | 1 |  | >= 1 | yes |" in text
    assert "## beta" in text


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"bench": "other", "marks": []}', '{"bench": "old", "marks": [{"nme": 1}]}']
)
def test_a_kept_file_that_is_no_result_is_named_and_the_new_result_is_not_lost(tmp_path, text):
    kept = tmp_path / "benchmarks" / "results"
    kept.mkdir(parents=True)
    (kept / "old.json").write_text(text)
    with pytest.raises(InputError, match=r"results/old.json holds no result of bench 'old': delete it"):
        results.write_results([Result(bench="new", marks=(), seed=0, seconds=1.0)], tmp_path)
    assert json.loads((kept / "new.json").read_text())["bench"] == "new"


def test_every_row_of_the_results_stands_there_once_as_measured_last(tmp_path, monkeypatch):
    whole = Bench(about="", module="none", minutes=1, quick_minutes=1)
    monkeypatch.setitem(BENCHES, "whole", whole)
    for name in ("half", "other"):
        monkeypatch.setitem(BENCHES, name, replace(whole, part_of="whole"))
    (tmp_path / "benchmarks").mkdir()

    def write(bench: str, *, quick: bool = False, **figures: float) -> str:
        marks = tuple(Mark(name=name, value=value) for name, value in figures.items())
        results.write_results([Result(bench=bench, marks=marks, seed=0, seconds=1.0, quick=quick)], tmp_path)
        return (tmp_path / "benchmarks" / "RESULTS.md").read_text()

    write("whole", speed=1.0, error=2.0)
    write("other", size=7.0)
    text = write("half", speed=3.0)
    assert "| speed | 3 |" in text
    assert "| speed | 1 |" not in text
    assert "| error | 2 |" in text
    assert "left out here: 1, see half." in text, "a part that shares no row is not named"
    with monkeypatch.context() as m:
        m.setattr(results, "write_text", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write("whole", speed=9.0)
    assert (tmp_path / "benchmarks" / "results" / "half.json").exists(), "parts stay until the whole is written"
    assert "| speed | 3 |" in write("whole", quick=True, speed=4.0, error=2.0), "a quick run takes nothing away"
    text = write("whole", speed=5.0, error=2.0)
    assert "| speed | 5 |" in text
    assert "## half" not in text
    text = write("half", quick=True, speed=6.0)
    assert "| speed | 5 |" in text, "a quick part does not stand in for a whole run"


@pytest.mark.parametrize(("name", "request_", "match"), [
    ("simm", Request(), "did you mean 'sim'"),
    ("sim", Request(seeds=3), "leave out --seeds"),
])  # fmt: skip
def test_a_bench_refuses_what_it_does_not_use(name, request_, match):
    with pytest.raises(InputError, match=match):
        run(name, request_)


def test_a_folder_the_bench_does_not_take_or_that_is_missing_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="takes no --train"):
        run("sim", Request(train=tmp_path))
    monkeypatch.setitem(BENCHES, "planted", Bench(about="", module="none", minutes=1, quick_minutes=1, uses=("train",)))
    with pytest.raises(InputError, match="not a folder"):
        run("planted", Request(train=tmp_path / "missing"))


def test_every_kind_has_an_example_and_every_structural_one_is_measured():
    assert set(_EXAMPLES) == set(KINDS)
    assert {k for k in KINDS if KINDS[k].structural} - set(structural_kinds()) == {"rotor_lag"}


def test_quick_measures_one_kind_for_each_structural_need():
    quick = bench_sim.sizes(True)
    assert {KINDS[k].structural for k in quick.kinds} == {KINDS[k].structural for k in structural_kinds()}
    assert len(quick.kinds) == len({KINDS[k].structural for k in quick.kinds})


def test_speed_is_measured_beside_both_bare_loops():
    marks = {m.name: m for m in bench_sim.speed(TINY)}
    for e in ("the same drawn e in both", "nominal e in both"):
        same, plain = marks[f"Sim / bare loop, same model, {e}"], marks[f"Sim / bare loop, plain Go2, {e}"]
        assert (same.op, same.mark, plain.op, plain.mark) == (">=", 0.85, ">=", 0.70)
    mixed = [m.mark for m in marks.values() if m.name.startswith("Sim with drawn e / bare loop with nominal e")]
    assert mixed == [0.85, 0.70]
    assert all(m.value > 0 for m in marks.values())


@pytest.mark.slow
def test_costs_scaling_and_replay_are_measured():
    assert [m.name for m in bench_sim.costs(TINY)] == ["with / without friction", "with / without voltage_sag"]
    names = [m.name for m in bench_sim.scaling(TINY)]
    assert names == ["Sim: 2 worlds", "Sim: 4 worlds", "Sim: 1 threads", "Sim: 2 threads"]
    assert bench_sim.replay_speed(TINY)[0].value > 0


@pytest.mark.parametrize(
    "kind", ["friction", "inertia", "strength", "roughness", "timestep", "rotor_lag", "imu_mounting"]
)
def test_e_is_read_back_as_applied(kind):
    assert bench_sim.read_back_error(example_robot(kind), example_params(kind), worlds=3) <= 1e-12


def test_bits_are_the_same_over_threads_and_after_restore():
    marks = bench_sim.same_bits((1, 2), worlds=3, steps=4)
    assert [m.holds for m in marks] == [True, True]


def test_differing_bits_are_counted():
    a = np.array([1.0, 2.0])
    assert bench_sim.differing_bits(a, a.copy()) == 0
    assert bench_sim.differing_bits(a, np.array([1.0, np.nextafter(2.0, 3.0)])) == 1


def test_params_check_counts_inert_params():
    count, seconds = bench_sim.params_check(("servo",))
    assert count.holds is True
    assert seconds.unit == "s"


def test_a_reference_that_is_absent_is_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREFOOT_ROBOTS", str(tmp_path))
    (mark,) = bench_sim.go2_reference()
    assert mark.value is None
    assert mark.holds is None
    assert mark.row[1] == "absent"


def test_go2_agrees_with_its_reference_and_a_planted_difference_shows(reference_dir, tmp_path):
    file = reference_dir / "unitree_go2" / "go2.xml"
    assert bench_sim.contact_free_gap(load("go2"), file, seconds=0.2) < 1e-6
    heavier = tmp_path / "go2.xml"
    spec = load("go2").spec()
    spec.body("FL_calf").mass *= 1.01
    heavier.write_text(spec.to_xml())
    assert bench_sim.contact_free_gap(load("go2"), heavier, seconds=0.2) > 1e-6


def test_tasks_side_by_side_return_what_they_return_one_after_the_other():
    tasks = {f"task {i}": lambda i=i: np.random.default_rng(i).normal(size=3).tolist() for i in range(4)}
    begun = []
    alone = {name: value for name, (value, _) in cases.beside(tasks, 1, begun.append)}
    assert begun == list(tasks)
    assert {name: value for name, (value, _) in cases.beside(tasks, 2, begun.append)} == alone
    assert cases._shared == {}


def test_a_task_that_fails_ends_those_beside_it(tmp_path):
    def fails():
        raise InputError("no such robot")

    def lasts():
        time.sleep(60)
        (tmp_path / "ended").touch()

    start = time.monotonic()
    with pytest.raises(InputError, match="no such robot"):
        dict(cases.beside({"fails": fails, "lasts": lasts, "waits": lasts}, 2, print))
    assert time.monotonic() - start < 30
    assert not (tmp_path / "ended").exists()
    assert cases._shared == {}
