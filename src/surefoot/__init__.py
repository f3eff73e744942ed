"""surefoot: from a robot's log to a policy that survives reality.

    x' = f(x, u, e) + g(x, u, m) + w        y = h(x, e) + v

Every name below is imported on first use, so that `import surefoot` stays light. The kinds of unknowns are functions
of the same name: `sf.friction(".*_foot", low=0.3, high=1.2)`.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {
    "params": "E KINDS Kind Param Params Prior Spread Point Discrete Empirical Uniform LogUniform Normal "
    "TruncatedNormal LogNormal Beta LogBeta discrete load_e save_e quasi_direct_drive series_elastic",
    "logs": "Channel Log Recorder read_log read_logs",
    "contract": "Builder Contract",
    "robots": "Robot available load",
    "report": "Page",
    "sim": "Correction Replay Residual Sim Situation",
    "tasks": "Hop Hover Reach SwingUp Task Track Velocity World",
    "learn": "PPO Mirror Policy Run load_run train",
    "learn.walking": "Lesson LESSONS teach",
    "randomize": "ADR Cvar Doraemon Fixed Redraw Widening legged",
    "identify": "Fit identify load_fit",
    "evaluate": "film survey walk",
    "errors": "InputError",
}
_HOME = {name: package for package, names in _NAMES.items() for name in names.split()}

if TYPE_CHECKING:
    from surefoot.contract import Builder as Builder
    from surefoot.contract import Contract as Contract
    from surefoot.errors import InputError as InputError
    from surefoot.evaluate import film as film
    from surefoot.evaluate import survey as survey
    from surefoot.evaluate import walk as walk
    from surefoot.identify import Fit as Fit
    from surefoot.identify import identify as identify
    from surefoot.identify import load_fit as load_fit
    from surefoot.learn import PPO as PPO
    from surefoot.learn import Mirror as Mirror
    from surefoot.learn import Policy as Policy
    from surefoot.learn import Run as Run
    from surefoot.learn import load_run as load_run
    from surefoot.learn import train as train
    from surefoot.learn.walking import LESSONS as LESSONS
    from surefoot.learn.walking import Lesson as Lesson
    from surefoot.learn.walking import teach as teach
    from surefoot.logs import Channel as Channel
    from surefoot.logs import Log as Log
    from surefoot.logs import Recorder as Recorder
    from surefoot.logs import read_log as read_log
    from surefoot.logs import read_logs as read_logs
    from surefoot.params import KINDS as KINDS
    from surefoot.params import Beta as Beta
    from surefoot.params import Discrete as Discrete
    from surefoot.params import E as E
    from surefoot.params import Empirical as Empirical
    from surefoot.params import Kind as Kind
    from surefoot.params import LogBeta as LogBeta
    from surefoot.params import LogNormal as LogNormal
    from surefoot.params import LogUniform as LogUniform
    from surefoot.params import Normal as Normal
    from surefoot.params import Param as Param
    from surefoot.params import Params as Params
    from surefoot.params import Point as Point
    from surefoot.params import Prior as Prior
    from surefoot.params import Spread as Spread
    from surefoot.params import TruncatedNormal as TruncatedNormal
    from surefoot.params import Uniform as Uniform
    from surefoot.params import discrete as discrete
    from surefoot.params import load_e as load_e
    from surefoot.params import quasi_direct_drive as quasi_direct_drive
    from surefoot.params import save_e as save_e
    from surefoot.params import series_elastic as series_elastic
    from surefoot.randomize import ADR as ADR
    from surefoot.randomize import Cvar as Cvar
    from surefoot.randomize import Doraemon as Doraemon
    from surefoot.randomize import Fixed as Fixed
    from surefoot.randomize import Redraw as Redraw
    from surefoot.randomize import Widening as Widening
    from surefoot.randomize import legged as legged
    from surefoot.report import Page as Page
    from surefoot.robots import Robot as Robot
    from surefoot.robots import available as available
    from surefoot.robots import load as load
    from surefoot.sim import Correction as Correction
    from surefoot.sim import Replay as Replay
    from surefoot.sim import Residual as Residual
    from surefoot.sim import Sim as Sim
    from surefoot.sim import Situation as Situation
    from surefoot.tasks import Hop as Hop
    from surefoot.tasks import Hover as Hover
    from surefoot.tasks import Reach as Reach
    from surefoot.tasks import SwingUp as SwingUp
    from surefoot.tasks import Task as Task
    from surefoot.tasks import Track as Track
    from surefoot.tasks import Velocity as Velocity
    from surefoot.tasks import World as World


def __getattr__(name: str) -> Any:
    """Import a public name on first use; a kind of Param is found by its own name."""
    if name in _HOME:
        return getattr(importlib.import_module(f"surefoot.{_HOME[name]}"), name)
    if not name.startswith("_"):
        params = importlib.import_module("surefoot.params")
        if name in params.CONSTRUCTORS:
            return params.CONSTRUCTORS[name]
    raise AttributeError(f"module 'surefoot' has no attribute {name!r}")


def __dir__() -> list[str]:
    kinds = importlib.import_module("surefoot.params").CONSTRUCTORS
    return sorted([*globals(), *_HOME, *kinds])
