"""What the commands share: the sorts of arguments, and how answers and progress are printed."""

import json as json_format
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from surefoot.params import Params
    from surefoot.robots import Robot

RobotName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ROBOT")]
AnyRobot = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[ROBOT]")]
BenchName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
Source = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
Target = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
Mapping = Annotated[str | None, tyro.conf.arg(metavar="NAME|FILE")]
Count = Annotated[int | None, tyro.conf.arg(metavar="COUNT")]
Seconds = Annotated[float | None, tyro.conf.arg(metavar="SECONDS")]


def say(text: str) -> None:
    """An answer, on stdout."""
    print(text, flush=True)


def tell(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def answer(data: Any, text: Callable[[], str], as_json: bool) -> None:
    """Print an answer: as one JSON value, or as text for people."""
    say(json_format.dumps(plain(data), ensure_ascii=False, allow_nan=False) if as_json else text())


def plain(value: Any) -> Any:
    """`value` with NaN and infinity, which JSON has not, as None, and paths and NumPy numbers as plain ones."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        return None
    return value


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text lined up; the first is the titles."""
    from surefoot.bench.table import aligned

    return aligned(rows)


def params_of(robot: "Robot", file: Path | None) -> "Params":
    """The Params in a file, or the robot's own."""
    from surefoot.params import Params

    return robot.params if file is None else Params.load(file)
