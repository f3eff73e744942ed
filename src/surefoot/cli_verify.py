"""`surefoot verify`."""

from pathlib import Path
from typing import Annotated

import tyro

from surefoot.cli_words import answer

BundleFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE")]
LogFile = Annotated[Path | None, tyro.conf.arg(metavar="LOG")]
RobotOption = Annotated[str | None, tyro.conf.arg(metavar="ROBOT")]


def verify(bundle: BundleFolder, /, *, log: LogFile = None, robot: RobotOption = None, json: bool = False) -> int:
    """Check a bundle, and a recorded run of it: names what breaks the contract, and how. Exits with 1 where something does.

    Args:
        bundle: folder made by `surefoot export` or `surefoot import-policy`.
        log: recorded run (.mcap, .npz); its observations, actions and commands are rebuilt, its raw readings checked against physics.
        robot: robot to compare with; the one the bundle names when left out and it is in the library. "none" compares with none.
        json: print the verdict as JSON.
    """
    from surefoot.deploy import load_bundle
    from surefoot.deploy.verify import verify as examine
    from surefoot.errors import InputError
    from surefoot.logs import read_log
    from surefoot.robots import load

    given = load_bundle(bundle)
    recorded = None if log is None else read_log(log)
    known = None
    if robot is None:
        try:
            known = load(given.contract.robot)
        except InputError:
            known = None
    elif robot != "none":
        known = load(robot)
    verdict = examine(given, recorded, known)
    answer(verdict.to_dict(), lambda: str(verdict), json)
    return 0 if verdict.ok else 1
