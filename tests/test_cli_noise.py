"""`surefoot noise`: recordings at rest in, a table and a Prior out, one sentence for a mistake."""

import json

import numpy as np
import pytest

import surefoot as sf
from surefoot import cli
from surefoot.cli_noise import noise
from surefoot.logs import Channel, Log, read_logs
from surefoot.tasks import Velocity, World
from test_identify_sensor_noise import at_rest

TRUTH = {"gyro_noise": 1e-3, "accel_noise": 8e-3, "encoder_noise": 2e-4}


@pytest.fixture(autouse=True)
def command(monkeypatch):
    monkeypatch.setitem(cli.COMMANDS, "noise", noise)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return at_rest(TRUTH, seed=1).save(tmp_path_factory.mktemp("rest") / "rest.npz")


@pytest.fixture(scope="module")
def xsens(data_dir):
    folder = data_dir / "imu_xsens"
    if not folder.is_dir():
        pytest.skip(f"no recordings at {folder}")
    return folder


def test_a_static_log_becomes_a_prior_that_a_training_draws_from(file, tmp_path, capsys):
    out = tmp_path / "noise.toml"
    assert cli.run(["noise", "go2", str(file), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert f"written: {out}" in said.err
    prior = sf.Prior.load(out)
    interval = prior.interval(0.99)
    for name, value in TRUTH.items():
        assert interval[name][0] < value < interval[name][1]
        assert interval[name][1] < 1.3 * interval[name][0]
        assert name in said.out
    assert "0.00026" in said.out, "what the robot file says stands beside it"
    assert "accel_walk" in said.out
    assert "not identified" in said.out
    world = World(Velocity(), sf.Sim(sf.load("go2"), prior.params, worlds=4), e=prior)
    world.reset()
    drawn = world.sim.e["gyro_noise"]
    assert len(set(drawn)) == 4
    assert ((drawn > interval["gyro_noise"][0] / 1.2) & (drawn < 1.2 * interval["gyro_noise"][1])).all()


def test_the_figures_are_given_to_programs_too_and_samples_on_request(file, tmp_path, capsys):
    longer = [str(file)] * 2
    out = tmp_path / "noise.json"
    assert cli.run(["noise", "go2", *longer, "--samples", "--out", str(out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in data["params"]}
    assert rows["gyro_noise"]["low"] < rows["gyro_noise"]["value"] < rows["gyro_noise"]["high"]
    assert rows["gyro_noise"]["robot_file"] == [0.00026]
    assert rows["gyro_noise"]["unit"] == "rad/s/√Hz"
    assert rows["accel_walk"]["identified"] is False
    assert rows["accel_walk"]["value"] is None
    assert rows["accel_walk"]["high"] > 0
    assert data["blocks"] == 40
    assert {row["sensor"]: row["stretches"] for row in data["rest"]} == {"gyro": 2, "accel": 2, "encoder": 2}
    drawn = sf.Prior.load(out).sample(1000, 0)
    assert len(np.unique(drawn["gyro_noise"])) == 20, "the same log twice has each block twice"
    assert cli.run(["noise", "go2", str(file), "--samples", "--out", str(out)]) == 0


def test_a_robot_without_an_imu_uses_its_encoders_alone(tmp_path, capsys):
    rng = np.random.default_rng(0)
    t = 0.005 * np.arange(8000)
    robot = sf.load("servo")
    channels = (
        Channel(name="joint_pos", unit="rad", t=t, values=5e-4 * rng.standard_normal((8000, 1)), columns=robot.joints),
        Channel(name="gyro", unit="rad/s", t=t, values=1e-3 * rng.standard_normal((8000, 3)), columns=("x", "y", "z")),
    )
    path = Log(channels=channels, robot="servo").save(tmp_path / "log.npz")
    assert cli.run(["noise", "servo", str(path)]) == 0
    said = capsys.readouterr()
    assert "'gyro' is left out: 'servo' has no IMU" in said.err
    assert "encoder_noise" in said.out
    assert said.out.splitlines()[1].endswith("0.0005"), "what the robot file says"
    assert "gyro" not in said.out


@pytest.mark.slow
def test_a_real_imu_in_counts_needs_no_scale_by_hand(xsens, tmp_path, capsys):
    out = tmp_path / "noise.toml"
    assert cli.run(["noise", "go2", str(xsens), "--mapping", "imu_xsens", "--samples", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "SI units per count" in said.err
    prior = sf.Prior.load(out)
    drawn = prior.sample(500, 0)
    assert 4e-4 < np.median(drawn["gyro_noise"]) < 8e-4
    assert 6e-4 < np.median(drawn["accel_noise"]) < 1.2e-3
    assert len(np.unique(drawn["accel_noise"])) > 80
    sf.Sim(sf.load("go2"), prior.params, worlds=500).apply(drawn)


def mistakes(folder) -> dict[str, tuple[list[str], str]]:
    rng = np.random.default_rng(0)
    t, axes = 0.01 * np.arange(4000), ("x", "y", "z")

    def saved(name: str, unit: str, size: float = 1.0) -> str:
        one = Channel(name=name, unit=unit, t=t, values=size * rng.standard_normal((4000, 3)), columns=axes)
        return str(Log(channels=(one,)).save(folder / f"{name}-{size}.npz"))

    shaken, quiet = saved("gyro", "rad/s"), saved("gyro", "rad/s", 1e-3)
    counts, alone, other = saved("accel_raw", "count"), saved("gyro_raw", "count"), saved("temperature", "degC")
    return {
        "no log": (["go2"], "name at least one log file or folder"),
        "no robot": (["go3", quiet], "did you mean"),
        "no file": (["go2", str(folder / "missing.npz")], "does not exist"),
        "no suffix": (["go2", quiet, "--out", "noise.txt"], "must end in .toml or .json"),
        "nowhere": (["go2", quiet, "--samples"], "give --out FILE too"),
        "moved": (["go2", shaken], "still moves by"),
        "one pose": (["go2", counts], "1 poses at rest cannot give scale"),
        "no gravity": (["go2", alone], "have no accelerometer"),
        "no sensor": (["go2", other], "hold neither gyro, accel nor joint_pos"),
        "no IMU": (["servo", quiet], "the logs hold gyro: noise is fitted to an IMU or encoders"),
        "no mapping": (["go2", quiet, "--mapping", "imu_xsenss"], "imu_xsens"),
    }


def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    for words, sentence in mistakes(tmp_path).values():
        assert cli.run(["noise", *words]) == 2
        caught = capsys.readouterr()
        assert caught.out == ""
        assert sentence in caught.err
        assert caught.err.startswith("surefoot: ")
        assert len(caught.err.strip().splitlines()) == 1


def test_samples_that_cannot_be_are_not_written(tmp_path, capsys):
    log = read_logs(at_rest(TRUTH, 30.0).save(tmp_path / "short.npz"))[0]
    assert log["gyro"].duration < 31
    assert cli.run(["noise", "go2", str(tmp_path / "short.npz"), "--samples", "--out", str(tmp_path / "n.toml")]) == 2
    assert "are too few to draw from, 20 are needed" in capsys.readouterr().err
    assert not (tmp_path / "n.toml").exists()
