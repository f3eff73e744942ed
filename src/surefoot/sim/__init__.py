"""f and h: many worlds stepped together; the only writer of physics; replay of a log."""

from surefoot.sim.failure import Failure as Failure
from surefoot.sim.failure import load_failure as load_failure
from surefoot.sim.failure import rerun as rerun
from surefoot.sim.replay import Replay as Replay
from surefoot.sim.residual import Correction as Correction
from surefoot.sim.residual import Residual as Residual
from surefoot.sim.residual import Situation as Situation
from surefoot.sim.sim import Sim as Sim
