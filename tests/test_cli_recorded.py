"""What the commands on recordings refuse before any work: targets that destroy each other, fits and logs of another robot, designs."""

import json
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot import cli
from surefoot.identify import Fit
from surefoot.identify.design import Design, Expected, Motion
from surefoot.identify.excite import excite

NAMES = ("arm_mass", "arm_damping")


@pytest.fixture(scope="module")
def sim():
    return sf.Sim(sf.load("qube"), threads=1)


@pytest.fixture(scope="module")
def folder(sim, tmp_path_factory):
    """A second of a Qube with its nominal e, fits of it and of a servo, and a servo's design."""
    made = tmp_path_factory.mktemp("qube")
    t = np.arange(0.0, 1.0, sim.control_dt)
    u = np.sin(12.0 * t)[:, None]
    empty = np.zeros((len(t), len(sim.robot.joints)))
    log = sf.Log(channels=(
        sf.Channel(name=sim.command_channel, unit="V", t=t, values=u, columns=sim.command_names, role="u"),
        sf.Channel(name="joint_pos", unit="rad", t=t, values=empty, columns=sim.robot.joints),
    ), robot="qube")  # fmt: skip
    sim.replay(log, qpos=sim.start_qpos, qvel=np.zeros(sim.model.nv)).world(0).save(made / "log.npz")
    known = sim.params.only(*NAMES)
    for robot in ("qube", "servo"):
        values = known.flatten(known.nominal_e(1))[0]
        fit = Fit.made(known, values, np.diag((0.01 * values) ** 2), white_std=0.01 * values, freedom=np.inf,
                       provenance={"robot": robot, "notes": [], "logs": []})  # fmt: skip
        fit.save(made / f"{robot}.json")
        fit.posterior.save(made / f"{robot}-prior.toml")
        design_of(robot, "arm_mass").save(made / f"{robot}-motion.json")
    design_of("qube", "kp").save(made / "strange-motion.json")
    return made


def design_of(robot: str, name: str) -> Design:
    motion = Motion(channel="voltage_target", columns=("arm",), dt=0.01, values=np.zeros((9, 1)), setting="fixed")
    expected = Expected(name=name, unit="kg", value=0.1, before=0.05, after=0.004)
    return Design(robot=robot, motion=motion, family="chirp", expected=(expected,))


def refused(words, folder, capsys, monkeypatch) -> str:
    """The one sentence of a command that exits with 2, in the folder."""
    monkeypatch.chdir(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert cli.run(words.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1, said.err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return said.err


@pytest.mark.parametrize(("words", "sentence"), [
    ("--out x.json --another x.json", "'x.json' of --another is also written by --out, and would be lost"),
    ("--out x.json --another ./x.json", "is also written by --out"),
    ("--mode both --out x.json --another x-inverse.json", "is also written by --out with both modes"),
    ("--out qube-motion.json --check qube-motion.json", "is read by --check, and would be lost"),
    ("--out /proc/x.json", "'/proc/x.json' cannot be written"),
    ("--out log.npz/x.json", "cannot be written"),
    ("--check servo-motion.json", "was designed for servo, the fit is of qube"),
    ("--check strange-motion.json", "they have nothing in common"),
    ("--fixed arm_mass=0.1 --check qube-motion.json", "they have nothing in common"),
    ("--check log.npz", "'log.npz': it is no JSON, so no design"),
    ("--prior servo.json", "'servo.json' is a fit of servo, here is qube: give a fit of qube"),
])  # fmt: skip
def test_identify_refuses_before_it_fits(words, sentence, folder, capsys, monkeypatch):
    assert sentence in refused(f"identify qube log.npz {words}", folder, capsys, monkeypatch)


@pytest.mark.parametrize(
    "words",
    [
        "replay log.npz qube --e servo.json",
        "replay log.npz qube --prior servo.json",
        "gap qube log.npz --fit servo.json",
        "excite qube --fit servo.json --seconds 1",
        "excite qube --prior servo.json --seconds 1",
        "train qube --run runs --prior servo.json --steps 1",
    ],
)
def test_a_fit_of_another_robot_is_refused(words, folder, capsys, monkeypatch):
    said = refused(words, folder, capsys, monkeypatch)
    assert said == "surefoot: 'servo.json' is a fit of servo, here is qube: give a fit of qube\n"


def test_a_fit_of_this_robot_and_any_prior_are_taken(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    for words in ("--e qube.json", "--prior qube.json --draws 2", "--prior servo-prior.toml --draws 2"):
        assert cli.run(["replay", "log.npz", *words.split()]) == 0
    capsys.readouterr()


def test_a_fit_of_a_robot_in_the_air_is_of_that_robot():
    from surefoot.cli_recorded import FitFile, same_robot

    go2, params = sf.load("go2"), sf.Sim(sf.load("servo")).params.only("kp")
    for name in ("go2", "go2_suspended", "go2_hung"):
        fit = Fit.made(params, np.ones(1), np.eye(1), white_std=np.ones(1), freedom=9.0, provenance={"robot": name})
        same_robot(FitFile(Path("go2.json"), fit), go2.suspended())
        with pytest.raises(sf.errors.InputError, match=f"'go2.json' is a fit of {name}, here is servo"):
            same_robot(FitFile(Path("go2.json"), fit), sf.load("servo"))


@pytest.mark.parametrize("command", ["identify go2 log.npz", "gap go2 log.npz", "replay log.npz go2"])
def test_a_log_of_another_robot_is_one_sentence_before_any_note(command, folder, capsys, monkeypatch):
    said = refused(command, folder, capsys, monkeypatch)
    assert said.startswith("surefoot: the log is of qube, and go2 was named: ")


@pytest.mark.parametrize(("words", "sentence"), [
    ("excite qube --seconds inf", "at most 600 s, got inf"),
    ("excite qube --seconds nan", "at most 600 s, got nan"),
    ("excite qube --seconds 1 --out /proc/x.json", "'/proc/x.json' cannot be written"),
    ("noise qube log.npz --out /proc/x.toml", "'/proc/x.toml' cannot be written"),
    ("replay log.npz qube --params arm_mass", "'arm_mass' must be a .toml or .json file with Params: replay fits nothing"),
    ("replay log.npz qube --e log.npz", "'log.npz' must be a .toml or .json file with values of Params, or a fit"),
    ("gap qube log.npz --fit log.npz", "'log.npz' is no fit, which is a .json file"),
    ("replay log.npz qube --hold arms", "'arms' is not an actuator of 'qube'"),
    ("identify qube log.npz --window inf", "window=inf"),
    ("gap qube log.npz --window inf", "window=inf"),
])  # fmt: skip
def test_a_mistake_is_refused_before_the_work(words, sentence, folder, capsys, monkeypatch):
    assert sentence in refused(words, folder, capsys, monkeypatch)


def test_replay_holds_what_the_log_does_not_command_and_says_what_it_leaves_aside(folder, tmp_path, capsys):
    robot = sf.load("so101")
    sim = sf.Sim(robot)
    t = np.arange(0.0, 0.5, sim.control_dt)
    rest = np.tile(sim.rest_command, (len(t), 1))
    channels = [
        sf.Channel(name=name, unit="rad", t=t, values=rest, columns=sim.command_names, role=role)
        for name, role in ((sim.command_channel, "u"), ("joint_pos", "y"))
    ]
    last = sim.command_names[-1]
    some = channels[0].pick(sim.command_names[:-1])
    sf.Log(channels=tuple(channels), robot="so101").save(tmp_path / "all.npz")
    sf.Log(channels=(some, channels[1]), robot="so101").save(tmp_path / "some.npz")
    assert cli.run(["replay", str(tmp_path / "some.npz")]) == 2
    assert f"--hold {last}" in capsys.readouterr().err
    rows = []
    for name in ("some.npz", "all.npz"):
        assert cli.run(["replay", str(tmp_path / name), "--hold", last, "--json"]) == 0
        said = capsys.readouterr()
        rows.append(json.loads(said.out))
        assert (f"--hold {last} keeps it at its default pose" in said.err) == (name == "all.npz")
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--window 10 --only arm_mass,arm_damping", "--params arm_mass,arm_damping --window 1 --held-out 0"),
        (
            "--params params.toml --only arm_mass,arm_damping",
            "--params params.toml --fixed command_delay=0.002 --window 1",
        ),
        ("--params params.toml --only arm_mass,arm_damping --prior fit.json", "--prior fit.json --window 1"),
    ],
)
def test_the_command_that_excite_prints_checks_its_design(options, told, sim, folder, tmp_path, capsys, monkeypatch):
    """Played on the model itself: the printed words, as they are, fit the recording and check the design."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.json").write_bytes((folder / "qube.json").read_bytes())
    delay = sf.command_delay(low=0.0, high=0.01, nominal=0.002)
    sf.Params(**dict(sim.params.only(*NAMES)), command_delay=delay).save(tmp_path / "params.toml")
    words = f"excite qube --seconds 1 --effort quick --out motion.json {options}"
    monkeypatch.setattr("surefoot.identify.excite.excite", _few)
    assert cli.run(words.split()) == 0
    (hint,) = [line for line in capsys.readouterr().err.splitlines() if "surefoot identify" in line]
    assert told in hint
    u = np.array(json.loads((tmp_path / "motion.json").read_text())["values"])
    t = sim.control_dt * np.arange(len(u))
    empty = np.zeros((len(t), len(sim.robot.joints)))
    log = sf.Log(channels=(
        sf.Channel(name=sim.command_channel, unit="V", t=t, values=u, columns=sim.command_names, role="u"),
        sf.Channel(name="joint_pos", unit="rad", t=t, values=empty, columns=sim.robot.joints),
    ), robot="qube")  # fmt: skip
    sim.replay(log, qpos=sim.start_qpos, qvel=np.zeros(sim.model.nv)).world(0).save(tmp_path / "played.npz")
    command = hint.partition("surefoot ")[2].replace("RECORDING", "played.npz")
    assert cli.run([*command.split(), "--most", "2", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)["checked"]
    assert [row["name"] for row in checked] == list(NAMES)


def test_a_fit_is_written_before_its_design_is_checked(folder, tmp_path, capsys, monkeypatch):
    def wrong(*_given):
        raise sf.errors.InputError("they have nothing in common")

    monkeypatch.setattr("surefoot.cli_identify._checked", wrong)
    monkeypatch.chdir(folder)
    words = f"identify qube log.npz --params arm_mass --most 1 --check qube-motion.json --out {tmp_path}/fit.json"
    assert cli.run(words.split()) == 2
    capsys.readouterr()
    assert sf.load_fit(tmp_path / "fit.json").names == ("arm_mass",)


def _few(sim, belief, *, effort, **more):
    from surefoot.identify.excite import Effort

    return excite(
        sim, belief, effort=Effort(families=("chirp",), population=3, rounds=1, elite=1, samples=1, climbs=0), **more
    )
