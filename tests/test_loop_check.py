"""The loop checks what its designed motion was expected to teach, says so on its page, and still opens folders of before."""

import pytest

from surefoot.loop import Folder, Ladder, loop_of
from surefoot.loop.ladder import Step, page_of
from surefoot.loop.on_robot import design_motion, identify_robot, play_motion

TWIN = "twin:qube/02-warm"
TITLE = "What the designed motion was expected to teach"
STOPPED = {"log": "robot/randomized.mcap", "robot_seconds": 2.0, "outcome": {"seconds": 0.0}}
ENDS = (1.0, 0.5, 1.0)
STEP = Step(name="oracle", title="oracle", success=ENDS, error=ENDS, trials=1, robot_seconds=0.0)
LADDER = Ladder(robot="qube", task="swing_up", hardware=TWIN, unit="rad", steps=(STEP,), robot_seconds=0.0, seconds=0.0)


def page(folder: Folder) -> str:
    return page_of(LADDER, folder).html()


@pytest.mark.slow
def test_the_loop_checks_what_its_motion_was_expected_to_teach(tmp_path):
    effort = {"families": ("multi-sine",), "population": 2, "rounds": 1, "elite": 1, "samples": 1, "climbs": 0}
    loop = loop_of("qube", TWIN, explore=2.0, effort=effort, only=("resistance", "command_delay"))
    folder, told = Folder(tmp_path), []
    folder.step("deploy randomized", {}, lambda _again: STOPPED)
    expected = {row["name"]: row for row in design_motion(loop, folder)["expected"]}
    play_motion(loop, folder)
    result = identify_robot(loop, folder, loop.rung("randomized"), told.append)
    fitted = {row["name"]: row for row in result["values"]}
    assert [row["name"] for row in result["checked"]] == ["resistance", "command_delay"]
    for row in result["checked"]:
        assert row["after"] == expected[row["name"]]["after"]
        assert row["value"] == fitted[row["name"]]["value"]
        assert row["within"]
        assert row["sentence"] in told
    resistance = result["checked"][0]
    assert resistance["value"] == pytest.approx(9.2, abs=2 * resistance["std"])  # ohm, what qube/02-warm hides
    assert resistance["std"] < 0.5 * resistance["before"]
    html = page(folder)
    assert TITLE in html
    assert resistance["verdict"] in html


def test_a_motion_that_was_never_played_is_not_checked(tmp_path):
    from types import SimpleNamespace

    from surefoot.loop.on_robot import checked_motion

    folder, told = Folder(tmp_path), []
    folder.step("explore", {}, lambda _again: STOPPED)
    fit = SimpleNamespace(provenance={"logs": ["that of the policy"]})
    assert checked_motion(folder, fit, told.append) == []  # type: ignore[arg-type]
    assert "not checked" in told[0]


def test_a_folder_of_before_the_check_has_its_page(tmp_path):
    folder = Folder(tmp_path)
    row = {"name": "resistance", "value": 9.2, "low": 9.0, "high": 9.4, "unit": "ohm"}
    old = {"values": [row], "robot_seconds": 8.0, "at_bound": [], "unidentified": [], "misfit": []}
    folder.step("identify", {}, lambda _again: old)
    html = page(folder)
    assert "resistance" in html
    assert TITLE not in html
