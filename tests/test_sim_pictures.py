"""Pictures without a screen, videos without a codec, and a live view that only this machine reaches."""

import socket
import struct
import threading
import time
import urllib.request
import zlib
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.sim.render import Camera, animated_png, save_video


@pytest.fixture(scope="module")
def sim() -> sf.Sim:
    return sf.Sim(sf.load("go2"), worlds=4)


@pytest.fixture(scope="module")
def camera(sim):
    try:
        with Camera(sim, width=160, height=120) as camera:
            yield camera
    except sf.InputError as error:
        pytest.skip(f"this machine cannot render: {error}")


def test_a_picture_shows_the_robot_where_it_stands(sim, camera):
    sim.reset()
    here = camera.frame(0, target=(0.0, 0.0, 0.2), distance=2.0)
    away = sim.start_qpos
    away[0] += 50.0
    sim.reset([1], qpos=away)
    empty = camera.frame(1, target=(0.0, 0.0, 0.2), distance=2.0)
    assert here.shape == (120, 160, 3)
    assert here.dtype == np.uint8
    changed = (np.abs(here.astype(int) - empty) > 20).any(-1)
    rows, columns = np.nonzero(changed)
    assert 0.005 < changed.mean() < 0.3
    assert abs(rows.mean() - 60) < 20
    assert abs(columns.mean() - 80) < 25


def test_worlds_stand_side_by_side_in_one_picture(sim, camera):
    sim.reset()
    one, four = camera.frame([0], distance=4.0), camera.frame([0, 1, 2, 3], distance=4.0)
    dark = [(picture.max(-1) < 90).sum() for picture in (one, four)]
    assert dark[1] > 2 * dark[0]


def test_a_picture_shows_each_worlds_own_geometry(camera):
    thick = sf.Sim(sf.load("go2"), sf.Params(foot=sf.radius(".*_foot", low=0.01, high=0.3)), worlds=2)
    thick.apply({"foot": np.array([0.01, 0.3])})
    with Camera(thick, width=160, height=120) as other:
        thin, fat = other.frame(0), other.frame(1)
    assert (fat.max(-1) < 70).sum() > 5 * (thin.max(-1) < 70).sum()


def test_a_world_that_is_not_there_is_named(camera):
    with pytest.raises(sf.InputError, match="world 9 does not exist: this Sim has 4"):
        camera.frame(9)


def test_an_animated_png_holds_every_frame_with_right_checksums(tmp_path):
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 255, (8, 10, 3), dtype=np.uint8) for _ in range(5)]
    data = save_video(tmp_path / "film.png", frames, rate=25.0).read_bytes()
    assert data == animated_png(frames, rate=25.0)
    at, kinds, sequence = 8, [], []
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        kinds.append(kind)
        if kind in (b"fcTL", b"fdAT"):
            sequence.append(struct.unpack(">I", body[:4])[0])
        if kind == b"fcTL":
            assert struct.unpack(">HH", body[20:24]) == (40, 1000)
        at += 12 + size
    assert kinds[:2] == [b"IHDR", b"acTL"]
    assert kinds.count(b"fcTL") == 5
    assert kinds.count(b"fdAT") == 4
    assert sequence == list(range(9))


def test_a_video_we_do_not_write_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(sf.InputError, match=r"use \.png \(animated\) or \.mp4"):
        save_video(tmp_path / "film.gif", [np.zeros((4, 4, 3), np.uint8)], rate=10)
    with pytest.raises(sf.InputError, match="at least one frame"):
        save_video(tmp_path / "film.png", [], rate=10)


@pytest.mark.slow
def test_the_live_view_answers_on_loopback_alone_and_moves():
    pytest.importorskip("mjviser")
    from surefoot.sim.view import serve

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sim = sf.Sim(sf.load("cartpole"), worlds=2)
    told: list[str] = []
    thread = threading.Thread(target=serve, args=(sim,), kwargs={"port": port, "seconds": 4.0, "announce": told.append})
    thread.start()
    deadline = time.monotonic() + 20
    while not told and time.monotonic() < deadline:
        time.sleep(0.05)
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5).read()
    table = Path("/proc/net/tcp").read_text().splitlines()[1:] if Path("/proc/net/tcp").exists() else []
    addresses = {line.split()[1] for line in table if line.split()[3] == "0A"}
    thread.join()
    assert b"<html" in page.lower() or b"<!doctype" in page.lower()
    if not table:
        pytest.skip("this system does not list its sockets in /proc/net/tcp")
    assert f"0100007F:{port:04X}" in addresses
    assert f"00000000:{port:04X}" not in addresses
    assert sim.time[0] > 0.2
    assert f"http://127.0.0.1:{port}" in told[0]
