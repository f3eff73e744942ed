"""Mutated files: every reader answers with an InputError or with a log whose values are those in the file.

Each seed file is mutated thousands of times. A log that comes back must keep its invariants and must be the truth:
for formats with checksums, what was written (or its beginning, said to be cut); for text, what an independent parse
of the mutated text says; for the rest, what the format's other reader says.
"""

import csv
import gzip
import io
import json
import re
import resource
import signal
from contextlib import contextmanager

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.logs import Channel, Log, read_logs

ROOM = 3 << 30  # [bytes] that reading a small file may take at most
PATIENCE = 5.0  # [s] for one file


def truth():
    rng = np.random.default_rng(7)
    t = np.arange(40) / 50 + 0.5
    return Log(
        channels=(
            Channel(name="joint_pos", unit="rad", t=t, values=rng.normal(size=(40, 3)), columns=("a", "b", "c")),
            Channel(name="joint_pos_target", unit="rad", t=t[::4], values=rng.normal(size=(10, 3)),
                    columns=("a", "b", "c"), role="u"),
            Channel(name="accel", unit="m/s^2", t=t + 1e-3, values=rng.normal(size=40), columns=("x",), clock="imu"),
        ),
        robot="arm", meta={"kp": 20.0},
    )  # fmt: skip


T, Q = truth()["joint_pos"].t, truth()["joint_pos"].values
HEAD = 'title = "t"\nsource = "s"\nfiles = {{ d = "*" }}\n{}[time]\ncolumn = "t"\n'
BODY = '[[channels]]\nname = "joint_pos"\nunit = "rad"\nfrom = {}\ncolumns = ["a", "b", "c"]\n'


# Mutations: bytes in, bytes out


def flip(data, rng):
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return bytes(data)


def overwrite(data, rng):
    data = bytearray(data)
    data[rng.integers(len(data))] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
    return bytes(data)


def truncate(data, rng):
    return data[: rng.integers(len(data))]


def ends(data, rng):
    a, b = sorted(rng.integers(0, len(data) + 1, 2))
    return int(a), int(b)


def delete(data, rng):
    a, b = ends(data, rng)
    return data[:a] + data[min(b, a + 64) :]


def duplicate(data, rng):
    a, b = ends(data, rng)
    return data[:b] + data[a:b] + data[b:]


def blank(data, rng):
    a, b = ends(data, rng)
    b = min(b, a + 64)
    return data[:a] + bytes(b - a) + data[b:]


def garbage(data, rng):
    a = int(rng.integers(len(data)))
    return data[:a] + rng.bytes(int(rng.integers(1, 64))) + data[a:]


def swap_parts(data, rng):
    a, b, c = sorted(int(i) for i in rng.integers(0, len(data), 3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


BINARY = [flip, flip, overwrite, overwrite, truncate, delete, duplicate, blank, garbage, swap_parts]


def on_lines(change):
    def mutate(data, rng):
        lines = data.split(b"\n")
        return b"\n".join(change(lines, rng))

    return mutate


def lose_line(lines, rng):
    k = int(rng.integers(len(lines)))
    return lines[:k] + lines[k + 1 :]


def repeat_line(lines, rng):
    k = int(rng.integers(len(lines)))
    return lines[: k + 1] + lines[k:]


def swap_lines(lines, rng):
    a, b = (int(i) for i in rng.integers(0, len(lines), 2))
    lines = list(lines)
    lines[a], lines[b] = lines[b], lines[a]
    return lines


def shuffle_columns(lines, rng):
    cut = b"," if any(b"," in line for line in lines[-5:]) else None
    start = 2 if lines[0].startswith(b"#") and len(lines) > 2 else 0
    width = len(lines[start].split(cut))
    order = rng.permutation(width)
    rest = [line.split(cut) for line in lines[start:]]
    joined = [(cut or b" ").join([cells[k] for k in order] if len(cells) == width else cells) for cells in rest]
    return lines[:start] + joined


def other_number(data, rng):
    """Replace one number by something that is none, or that no robot sends."""
    found = list(re.finditer(rb"-?\d+\.?\d*(?:e-?\d+)?", data))
    if not found:
        return data
    match = found[int(rng.integers(len(found)))]
    words = [b"nan", b"NaN", b"inf", b"-Infinity", b"1e999", b"1e300", b"x", b"", b"1_0", b"null", b"true",
             b"[1, 2]", b'"1"', b"0x10", b"1,5", b"9" * 5000, "٣".encode(), b"-", b"1e", b"--1"]  # fmt: skip
    return data[: match.start()] + words[int(rng.integers(len(words)))] + data[match.end() :]


TEXT = [flip, overwrite, truncate, delete, duplicate, garbage, swap_parts, other_number, other_number, other_number,
        on_lines(lose_line), on_lines(repeat_line), on_lines(swap_lines), on_lines(shuffle_columns)]  # fmt: skip


# Seeds: (file name, content, mapping or None, mutations, judge)


def saved(folder, suffix):
    return truth().save(folder / f"seed{suffix}").read_bytes()


def same_as_written(path, logs):
    """Checksummed formats: the whole log, or its beginning when it says that it was cut."""
    (log,) = logs
    whole = truth()
    if "truncated" not in log.meta:
        assert log == whole
        return
    for channel in log:
        n = len(channel)
        np.testing.assert_array_equal(channel.values, whole[channel.name].values[:n])


def mapped_as_written(path, logs):
    (log,) = logs
    np.testing.assert_array_equal(log["joint_pos"].values, Q)
    np.testing.assert_array_equal(log["joint_pos"].t, T)


def same_as_columns(log, columns):
    """The mapped channel against columns t, a, b, c found by an independent parse."""
    np.testing.assert_array_equal(log["joint_pos"].t, columns["t"])
    for name in "abc":
        np.testing.assert_array_equal(log["joint_pos"].column(name), columns[name])


def same_as_foreign_csv(path, logs):
    (log,) = logs
    rows = [row for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))) if row]
    same_as_columns(log, {title.strip(): [float(row[k]) for row in rows[1:]] for k, title in enumerate(rows[0])})


def same_as_text(path, logs):
    (log,) = logs
    rows = [line.split() for line in path.read_text().split("\n") if line.strip()]
    same_as_columns(log, {name: [float(row[k]) for row in rows] for k, name in enumerate("tabc")})


def same_as_json(path, logs):
    (log,) = logs
    rows = json.loads(path.read_text(encoding="utf-8-sig"))["rows"]
    same_as_columns(log, {name: [float(row[name]) for row in rows] for name in "tabc"})


def same_as_our_csv(path, logs):
    (log,) = logs
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    rows = [row for row in csv.reader(io.StringIO("\n".join(lines[2:]))) if row]
    at = 1
    for channel in log:
        for name in channel.columns:
            assert rows[0][at].strip().startswith(f"{channel.name}.{name} [")
            cells = [(row[0], row[at]) for row in rows[1:] if row[at].strip()]
            np.testing.assert_array_equal(channel.column(name), [float(value) for _, value in cells])
            np.testing.assert_array_equal(channel.t, [float(time) for time, _ in cells])
            at += 1


def stands_in_the_file(path, logs):
    """Plain MATLAB files have no checksum (and scipy's reader crashes on some): the numbers are there as they are."""
    (log,) = logs
    data = path.read_bytes()
    assert log["joint_pos"].t.tobytes() in data
    assert log["joint_pos"].values.tobytes(order="F") in data


def same_as_numpy(path, logs):
    (log,) = logs
    np.testing.assert_array_equal(log["joint_pos"].values, np.load(path))


def no_more_than_invariants(path, logs):
    """Formats without checksums and without another reader at hand: the invariants alone."""


def seed(kind, folder):
    """File name, content, mapping, mutations and judge of one kind of file."""
    mapping = folder / "fuzz.toml"
    names = '["a", "b", "c"]'
    rows = [f"{t!r},{a!r},{b!r},{c!r}" for t, (a, b, c) in zip(T.tolist(), Q.tolist(), strict=True)]
    if kind == "mcap":
        return "x.mcap", saved(folder, ".mcap"), None, BINARY, same_as_written
    if kind == "npz":
        return "x.npz", saved(folder, ".npz"), None, BINARY, same_as_written
    if kind == "csv":
        return "x.csv", saved(folder, ".csv"), None, TEXT, same_as_our_csv
    if kind == "csv.gz":
        return "x.csv.gz", gzip.compress(saved(folder, ".csv")), None, BINARY, same_as_written
    if kind == "foreign csv":
        mapping.write_text(HEAD.format("") + BODY.format(names))
        return "x.csv", "\n".join(["t,a,b,c", *rows]).encode(), mapping, TEXT, same_as_foreign_csv
    if kind == "text":
        mapping.write_text(HEAD.format('header = ["t", "a", "b", "c"]\n') + BODY.format(names))
        return "x.txt", "\n".join(rows).replace(",", " ").encode(), mapping, TEXT, same_as_text
    if kind == "json":
        mapping.write_text(HEAD.format('layout = { records = "rows" }\n') + BODY.format(names))
        records = [dict(zip("tabc", (t, *q), strict=True)) for t, q in zip(T.tolist(), Q.tolist(), strict=True)]
        content = json.dumps({"kp": 3, "rows": records}, indent=1).encode()
        return "x.json", content, mapping, TEXT, same_as_json
    if kind in ("mat", "mat packed"):
        import scipy.io

        mapping.write_text(HEAD.format("") + BODY.format('"q"'))
        file = io.BytesIO()
        scipy.io.savemat(file, {"t": T, "q": Q, "kp": 3.0, "note": "text"}, do_compression=kind == "mat packed")
        return (
            "x.mat",
            file.getvalue(),
            mapping,
            BINARY,
            mapped_as_written if kind == "mat packed" else stands_in_the_file,
        )
    if kind == "npy":
        mapping.write_text(HEAD.format("").replace('column = "t"', "rate = 50.0") + BODY.format('"values"'))
        file = io.BytesIO()
        np.save(file, Q)
        return "x.npy", file.getvalue(), mapping, BINARY, same_as_numpy
    if kind == "foreign npz":
        mapping.write_text(HEAD.format("") + BODY.format('"q"'))
        file = io.BytesIO()
        np.savez(file, t=T, q=Q)
        return "x.npz", file.getvalue(), mapping, BINARY, mapped_as_written
    return extra_seed(kind, folder)


def extra_seed(kind, folder):
    from test_logs_extras import write_bag, write_lerobot

    if kind == "parquet":
        root = write_lerobot(folder / "set", "v3.0")
        return "x.parquet", next(root.rglob("*.parquet")).read_bytes(), None, BINARY, no_more_than_invariants
    path = write_bag(
        folder / ("seed.bag" if kind == "rosbag 1" else "seed"),
        {"rosbag 1": "ros1", "rosbag 2": "sqlite"}.get(kind, "mcap"),
        samples=15,
    )
    if kind == "rosbag 1":
        return "x.bag", path.read_bytes(), None, BINARY, no_more_than_invariants
    suffix = "db3" if kind == "rosbag 2" else "mcap"
    return f"x.{suffix}", next(path.glob(f"*.{suffix}")).read_bytes(), None, BINARY, no_more_than_invariants


class Late(BaseException):
    """Not an Exception, so that no reader can take it for damage in the file."""


@contextmanager
def bounded():
    """Raise when reading takes too long or too much memory."""

    def late(*_):
        raise Late(f"reading took more than {PATIENCE} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    old = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, before)


def check_invariants(log):
    for channel in log:
        assert channel.t.dtype == channel.values.dtype == np.float64
        assert (np.diff(channel.t) > 0).all()
        assert np.isfinite(channel.t).all()
        assert channel.values.shape == (len(channel.t), len(channel.columns))
        assert (np.isfinite(channel.values) | (np.isnan(channel.values) & channel.nan)).all()


def fuzz(kind, folder, count):
    """Read `count` mutations of a seed; return how many were refused and how many gave a log."""
    name, content, mapping, mutations, judge = seed(kind, folder)
    path = folder / name
    path.write_bytes(content)
    for log in read_logs(path, mapping=mapping):
        check_invariants(log)
    rng = np.random.default_rng(list(kind.encode()))
    refused = 0
    for k in range(count):
        mutate = mutations[int(rng.integers(len(mutations)))]
        mutated = mutate(content, rng)
        if rng.random() < 0.15 and mutated:
            mutated = mutations[int(rng.integers(len(mutations)))](mutated, rng)
        path.write_bytes(mutated)
        try:
            with bounded():
                logs, sentence = read_logs(path, mapping=mapping), ""
        except InputError as error:
            refused += 1
            sentence = str(error)
        except (Exception, Late) as error:
            raise AssertionError(
                f"{kind}, mutation {k} ({mutate.__name__}): {type(error).__name__}: {error}"
            ) from error
        assert "\n" not in sentence, f"{kind}, mutation {k}: {sentence}"
        assert "MemoryError" not in sentence, f"{kind}, mutation {k}: {sentence}"
        if sentence:
            continue
        for log in logs:
            check_invariants(log)
        if mutated != content:
            judge(path, logs)
    return refused, count - refused


KINDS = ["mcap", "npz", "csv", "csv.gz", "foreign csv", "text", "json", "mat", "mat packed", "npy", "foreign npz"]
EXTRAS = {"parquet": "pyarrow", "rosbag 1": "rosbags", "rosbag 2": "rosbags", "rosbag mcap": "rosbags"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *EXTRAS])
def test_a_hundred_mutated_files_give_no_surprise(tmp_path, kind):
    if kind in EXTRAS:
        pytest.importorskip(EXTRAS[kind])
    refused, _ = fuzz(kind, tmp_path, 100)
    assert refused > 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *EXTRAS])
def test_two_thousand_mutated_files_give_no_surprise(tmp_path, kind):
    if kind in EXTRAS:
        pytest.importorskip(EXTRAS[kind])
    refused, read = fuzz(kind, tmp_path, 2000)
    assert refused > 200
    print(f"{kind}: {refused} refused, {read} read")
