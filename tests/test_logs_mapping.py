"""Mapping files: every format, units, several files, and each thing that can be wrong."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.logs import bundled, load_mapping, read_log, read_logs

T = np.arange(50) / 100
Q = np.stack([np.sin(T), np.cos(T)], axis=1)

MAPPING = """
title = "bench"
source = "here"
robot = "arm"
files = { data = "*.csv" }

[time]
column = "ms"
unit = "ms"

[constants]
kp = { from = "gain" }
where = "desk"
file = { path = "file" }

[[channels]]
name = "joint_pos_target"
role = "u"
unit = "deg"
from = ["goal1", "goal2"]
columns = ["shoulder", "elbow"]

[[channels]]
name = "joint_pos"
unit = "rad"
scale = 0.0015
offset = [0.1, 0.2]
from = ["tick1", "tick2"]
columns = ["shoulder", "elbow"]
"""


def bench(folder, mapping=MAPPING):
    """A CSV file with angles in degrees and encoder ticks, and its mapping."""
    rows = ["ms,tick1,tick2,goal1,goal2,gain,comment"]
    rows += [
        f"{1000 * t!r},{a / 0.0015!r},{b / 0.0015!r},{math.degrees(a)!r},90,20,x"
        for t, (a, b) in zip(T.tolist(), Q.tolist(), strict=True)
    ]
    (folder / "run.csv").write_text("\n".join(rows) + "\n")
    (folder / "bench.toml").write_text(mapping)
    return folder / "run.csv", folder / "bench.toml"


def test_columns_become_channels_in_si(tmp_path):
    path, mapping = bench(tmp_path)
    log = read_log(path, mapping)
    np.testing.assert_allclose(log["joint_pos"].values, Q + np.array([0.1, 0.2]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(log["joint_pos_target"].column("shoulder"), Q[:, 0], atol=1e-12)
    np.testing.assert_allclose(log["joint_pos_target"].column("elbow"), np.pi / 2)
    np.testing.assert_allclose(log["joint_pos"].t, T, atol=1e-12)
    assert log.robot == "arm"
    assert log["joint_pos_target"].role == "u"
    assert (log.meta["kp"], log.meta["where"], log.meta["file"]) == (20.0, "desk", "run")
    assert list(log.meta["source"]["files"]) == [f"{tmp_path.name}/run.csv"]


def test_packed_files_match_the_same_pattern(tmp_path):
    path, mapping = bench(tmp_path)
    packed = tmp_path / "other.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_log(packed, mapping).hash == read_log(path, mapping).hash
    assert len(read_logs(tmp_path, mapping=mapping)) == 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"tick1"', '"tik1"', r"no column 'tik1' \(did you mean 'tick1'\?\)"),
        ('unit = "deg"', 'unit = "degree"', "'degree' is not a known unit"),
        ('unit = "ms"', 'unit = "V"', "time of channel .* cannot be in 'V'"),
        ('unit = "deg"', 'unit = "V"', "'joint_pos_target' cannot be in 'V'"),
        ('columns = ["shoulder", "elbow"]', 'columns = ["shoulder"]', "2 columns for channel|`offset` has 2"),
        ('from = "gain"', 'from = "gian"', "no constant 'gian'"),
        ('from = "gain"', 'from = "tick1"', "is not constant"),
        ('from = "gain"', 'form = "gain"', "'form' is not a key here"),
        ('role = "u"', 'roll = "u"', r"'roll' is not a key here \(did you mean 'role'\?\)"),
        ('role = "u"', 'role = "w"', "'w' is not a role"),
        ('name = "joint_pos"\n', "", "needs a `name`"),
        ('column = "ms"', "", r"\[time\] needs one of"),
        ('column = "ms"', "column = 3", "`column` cannot be 3"),
        ('title = "bench"', "", "needs `title`"),
        ("[time]", "[time", "is not TOML"),
        ("scale = 0.0015", 'scale = "big"', "must be a number"),
        ("scale = 0.0015", "scale = [1.0, 2.0, 3.0]", "`scale` has 3 entries for 2 columns"),
        ("scale = 0.0015", "bits = 40", "`bits` is 0 to 32"),
        ("scale = 0.0015", "bits = 8", "do not fit into 8 bits"),
        (
            'from = ["tick1", "tick2"]',
            'from = ["tick1", "comment"]',
            "column 'comment' holds 'x' in row 1, not a number",
        ),
        ('from = ["tick1", "tick2"]', 'from = ["tick1", "tick2[1]"]', "'tick2' has 1 columns"),
    ],
)
def test_a_fault_in_a_mapping_is_one_sentence(tmp_path, old, new, words):
    assert old in MAPPING
    path, mapping = bench(tmp_path, MAPPING.replace(old, new))
    with pytest.raises(InputError, match=words) as error:
        read_log(path, mapping)
    assert "\n" not in str(error.value).strip()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda lines: [*lines[:10], lines[10].replace(",20,", ",nan,"), *lines[11:]], "is not constant"),
        (
            lambda lines: [*lines[:10], "90.0,nan" + lines[10][lines[10].index(",", 6) :], *lines[11:]],
            "has NaN in column",
        ),
        (lambda lines: [*lines[:10], lines[11], lines[10], *lines[12:]], "time goes backwards"),
        (lambda lines: [*lines[:10], lines[10], *lines[10:]], "same time"),
        (lambda lines: [*lines[:10], lines[10] + ",1", *lines[11:]], "line 11 has 8 columns, its header has 7"),
        (lambda lines: [*lines[:10], lines[10][:9], *lines[11:]], "line 11 has"),
        (lambda lines: lines[:1], "no rows"),
        (lambda lines: [lines[0].replace("tick2", "tick1"), *lines[1:]], "two columns named 'tick1'"),
        (lambda lines: [*lines[:10], "90.0,1e999" + lines[10][lines[10].index(",", 6) :], *lines[11:]], "infinite"),
    ],
)
def test_a_fault_in_a_table_is_one_sentence(tmp_path, fault, words):
    path, mapping = bench(tmp_path)
    lines = path.read_text().strip().split("\n")
    path.write_text("\n".join(fault(lines)) + "\n")
    with pytest.raises(InputError, match=words) as error:
        read_log(path, mapping)
    assert "\n" not in str(error.value)


def write_mapping(folder, files, body, name="m"):
    path = folder / f"{name}.toml"
    path.write_text(f'title = "t"\nsource = "s"\nfiles = {files}\n{body}')
    return path


ANGLES = '[[channels]]\nname = "joint_pos"\nunit = "rad"\nfrom = "{}"\ncolumns = ["a", "b"]\n'


def test_npz_and_npy_and_text_and_matlab_agree(tmp_path):
    import scipy.io

    np.savez(tmp_path / "a.npz", time=T, q=Q.astype(np.float32))
    np.save(tmp_path / "a.npy", np.asfortranarray(Q))
    np.savetxt(tmp_path / "a.txt", np.column_stack([T, Q]), fmt="%.18e")
    scipy.io.savemat(
        tmp_path / "a.mat", {"time": T, "q": Q, "kp": 3, "name": "text", "cells": np.array([{}, 1], dtype=object)}
    )
    scipy.io.savemat(tmp_path / "b.mat", {"time": T, "q": Q, "kp": 3}, do_compression=True)
    time = '[time]\ncolumn = "time"\n'
    npz = read_log(tmp_path / "a.npz", write_mapping(tmp_path, '{d = "*.npz"}', time + ANGLES.format("q")))
    np.testing.assert_array_equal(npz["joint_pos"].values, Q.astype(np.float32).astype(float))
    npy = read_log(
        tmp_path / "a.npy", write_mapping(tmp_path, '{d = "*.npy"}', "[time]\nrate = 100.0\n" + ANGLES.format("values"))
    )
    np.testing.assert_array_equal(npy["joint_pos"].values, Q)
    text = read_log(
        tmp_path / "a.txt",
        write_mapping(
            tmp_path, '{d = "*.txt"}\nheader = ["time", "x", "y"]', time + ANGLES.replace('"{}"', '["x", "y"]')
        ),
    )
    np.testing.assert_array_equal(text["joint_pos"].values, Q)
    for name in ("a.mat", "b.mat"):
        mapping = write_mapping(
            tmp_path, '{d = "*.mat"}', time + '[constants]\nkp = {from = "kp"}\n' + ANGLES.format("q")
        )
        mat = read_log(tmp_path / name, mapping)
        np.testing.assert_array_equal(mat["joint_pos"].values, Q)
        assert mat.meta["kp"] == 3


def test_json_records_lists_pairs_and_tables(tmp_path):
    records = {
        "kp": 5,
        "rows": [{"t": t, "a": a, "b": b, "on": True} for t, (a, b) in zip(T.tolist(), Q.tolist(), strict=True)],
    }
    (tmp_path / "a.json").write_text(json.dumps(records))
    body = '[layout]\nrecords = "rows"\n[time]\ncolumn = "t"\n' + ANGLES.replace('"{}"', '["a", "b"]')
    log = read_log(tmp_path / "a.json", write_mapping(tmp_path, '{d = "*.json"}', body))
    np.testing.assert_array_equal(log["joint_pos"].values, Q)

    (tmp_path / "b.json").write_text(json.dumps({"t": T.tolist(), "a": Q[:, 0].tolist(), "b": Q[:, 1].tolist()}))
    log = read_log(
        tmp_path / "b.json", write_mapping(tmp_path, '{d = "*.json"}', body.replace('[layout]\nrecords = "rows"\n', ""))
    )
    np.testing.assert_array_equal(log["joint_pos"].values, Q)

    (tmp_path / "c.json").write_text('{"real": {"x": {"p": 0.5, "q": 1}}, "sim": {"x": {"p": 0.25}}}')
    body = '[layout]\ntables = ["real", "sim"]\n[time]\ntrials = true\n[constants]\nlabels = {labels = "key"}\n'
    body += '[[channels]]\nname = "rate"\nunit = "1"\nfrom = ["real", "sim"]\ncolumns = ["real", "sim"]\nnan = true\n'
    log = read_log(tmp_path / "c.json", write_mapping(tmp_path, '{d = "*.json"}', body))
    np.testing.assert_array_equal(log["rate"].values, [[0.5, 0.25], [1, np.nan]])
    assert log.meta["labels"] == ["x/p", "x/q"]
    assert log.meta["axis"] == "trial"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ('{"rows": 3}', "no list of records under 'rows'"),
        ('{"rows": [{"t": 0, "a": 1}, {"t": 1}]}', "record 2 .* differ in 'a'"),
        ('{"rows": [{"t": 0, "t": 1, "a": 1}]}', "'t' stands twice"),
        ('{"rows": [{"t": 0, "a": "x"}]}', "holds 'x' in row 1, not a number"),
        ('{"rows": [{"t": 0, "a": null}]}', "has NaN"),
        ('{"rows": [{"t": 0, "a": 1' + "0" * 400 + "}]}", "too large|infinite"),
        ("[" * 100000, "is not JSON"),
    ],
)
def test_a_fault_in_json_is_one_sentence(tmp_path, content, words):
    (tmp_path / "a.json").write_text(content)
    body = '[layout]\nrecords = "rows"\n[time]\ncolumn = "t"\n'
    body += '[[channels]]\nname = "q"\nunit = "1"\nfrom = "a"\ncolumns = ["a"]\n'
    with pytest.raises(InputError, match=words):
        read_log(tmp_path / "a.json", write_mapping(tmp_path, '{d = "*.json"}', body))


def test_list_cells_and_companion_files_make_one_log(tmp_path):
    state = ["stamp,q"] + [f'{1e6 * t!r},"[{a!r}, {b!r}]"' for t, (a, b) in zip(T.tolist(), Q.tolist(), strict=True)]
    (tmp_path / "state_1.csv").write_text("\n".join(state))
    (tmp_path / "goal_1.csv").write_text('stamp,q\n0,"[1, 2]"\n100000,"[3, 4]"\n')
    body = '[time]\ncolumn = "stamp"\nunit = "us"\n' + ANGLES.format("state:q")
    body += ANGLES.format("goal:q").replace("joint_pos", "joint_pos_target") + 'role = "u"\n'
    mapping = write_mapping(tmp_path, '{state = "state_*.csv", goal = "goal_*.csv"}', body)
    for name in ("state_1.csv", "goal_1.csv"):
        log = read_log(tmp_path / name, mapping)
        np.testing.assert_array_equal(log["joint_pos"].values, Q)
        assert log["joint_pos_target"].t.tolist() == [0.0, 0.1]
    assert len(read_logs(tmp_path, mapping=mapping)) == 1
    (tmp_path / "goal_1.csv").unlink()
    with pytest.raises(InputError, match=r"'goal_\*.csv' is missing"):
        read_log(tmp_path / "state_1.csv", mapping)


def test_one_file_may_hold_many_logs(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.vstack([Q, 2 * Q[:20]]), n=[50, 20], who=[7, 9])
    body = '[split]\nlengths = "n"\nids = "who"\n[time]\nrate = 100.0\n' + ANGLES.format("x")
    mapping = write_mapping(tmp_path, '{d = "*.npz"}', body)
    logs = read_logs(tmp_path / "a.npz", mapping=mapping)
    assert [log.meta["part"] for log in logs] == [7, 9]
    np.testing.assert_array_equal(logs[1]["joint_pos"].values, 2 * Q[:20])
    assert read_log(tmp_path / "a.npz", mapping, part=9) == logs[1]
    with pytest.raises(InputError, match="holds 2 logs: use read_logs"):
        read_log(tmp_path / "a.npz", mapping)
    np.savez(tmp_path / "a.npz", x=Q, n=[50, 20], who=[7, 9])
    with pytest.raises(InputError, match="lengths add up to 70"):
        read_logs(tmp_path / "a.npz", mapping=mapping)


def test_repeated_rows_are_dropped_only_when_the_mapping_says_so(tmp_path):
    (tmp_path / "a.csv").write_text("t,q\n0,9\n1,5\n1,5\n2,6\n2,6\n2,6\n")
    body = '[time]\ncolumn = "t"\n{}\n[[channels]]\nname = "q"\nunit = "1"\nfrom = "q"\ncolumns = ["a"]\n'
    with pytest.raises(InputError, match="same time"):
        read_log(tmp_path / "a.csv", write_mapping(tmp_path, '{d = "*.csv"}', body.format("")))
    mapping = write_mapping(tmp_path, '{d = "*.csv"}', body.format('repeats = "drop"\nunset = 0.0'))
    log = read_log(tmp_path / "a.csv", mapping)
    assert log["q"].values[:, 0].tolist() == [5, 6]
    assert log.meta["rows_left_out"] == {"q": {"rows": 4, "of": 6}}


def test_a_signed_register_stored_unsigned_is_signed(tmp_path):
    (tmp_path / "a.csv").write_text("t,q\n0,65535\n1,32768\n2,5\n3,-3\n")
    body = '[time]\ncolumn = "t"\n[[channels]]\nname = "load"\nunit = "count"\nbits = 16\nfrom = "q"\ncolumns = ["a"]\n'
    log = read_log(tmp_path / "a.csv", write_mapping(tmp_path, '{d = "*.csv"}', body))
    assert log["load"].values[:, 0].tolist() == [-1, -32768, 5, -3]


def test_mcap_of_another_program_reads_through_a_mapping(tmp_path):
    from mcap.writer import Writer

    with open(tmp_path / "a.mcap", "wb") as file:
        writer = Writer(file)
        writer.start()
        topic = writer.register_channel("/state", "json", 0)
        for k in range(20):
            writer.add_message(
                topic, k * 10**7, json.dumps({"pose": {"x": k, "name": "n"}, "j": [k, 2 * k]}).encode(), 0
            )
        writer.finish()
    with pytest.raises(InputError, match="give a mapping"):
        read_log(tmp_path / "a.mcap")
    body = '[time]\ncolumn = "/state.log_time"\nunit = "ns"\n[[channels]]\nname = "q"\nunit = ["m", "rad"]\n'
    body += 'from = ["/state.pose.x", "/state.j[1]"]\ncolumns = ["x", "j"]\n'
    log = read_log(tmp_path / "a.mcap", write_mapping(tmp_path, '{d = "*.mcap"}', body))
    assert log["q"].values[3].tolist() == [3, 6]
    assert log["q"].t[3] == pytest.approx(0.03)


def test_bundled_mappings_are_all_valid_and_name_their_source():
    for name, mapping in bundled().items():
        assert mapping.title, name
        assert mapping.source, name
        assert mapping.channels, name
    with pytest.raises(InputError, match="did you mean 'emps'"):
        read_log(__file__, "empss")


def test_two_mappings_that_match_are_asked_about(tmp_path, monkeypatch):
    from surefoot.logs import mapping as module

    path, toml = bench(tmp_path)
    folder = tmp_path / "mappings"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(toml.read_text())
    monkeypatch.setattr(module, "FOLDER", folder)
    with pytest.raises(InputError, match="give --mapping one or --mapping two"):
        read_log(path)


def test_a_mapping_that_is_not_there_is_named(tmp_path):
    path, _ = bench(tmp_path)
    with pytest.raises(InputError, match="cannot read mapping"):
        read_log(path, tmp_path / "nothing.toml")
    with pytest.raises(InputError, match="cannot read mapping"):
        load_mapping(tmp_path)


def test_the_worked_example_of_the_documentation_works(tmp_path):
    text = (Path(__file__).parents[1] / "docs" / "logs.md").read_text()
    example = text.split("### A worked example")[1].split("### All keys")[0]
    lines = [line[4:] for line in example.split("\n") if line.startswith("    ")]
    start = lines.index('title = "Two-joint arm on the bench"')
    (tmp_path / "run_07.csv").write_text("\n".join(lines[:start]) + "\n")
    (tmp_path / "arm.toml").write_text("\n".join(lines[start:]) + "\n")
    log = read_log(tmp_path / "run_07.csv", tmp_path / "arm.toml")
    np.testing.assert_allclose(log["joint_pos"].values[0], [0, 512 * 2 * np.pi / 4096])
    np.testing.assert_allclose(log["joint_pos_target"].values[1], np.radians([2, 45]))
    np.testing.assert_allclose(log["current"].values[:, 1], [-6 * 3.36e-3, -8 * 3.36e-3])
    assert log.timing()["joint_pos"].rate == pytest.approx(200)
    assert (log.meta["kp"], log.meta["operator"], log.meta["run"]) == (20.0, "Ada", "run_07")


def test_the_documentation_lists_every_bundled_mapping():
    text = (Path(__file__).parents[1] / "docs" / "logs.md").read_text()
    assert [name for name in bundled() if f"`{name}`" not in text] == []
