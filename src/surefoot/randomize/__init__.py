"""How p(e) moves during training, and a preset of what to randomize on legged robots."""

from surefoot.randomize.adr import ADR as ADR
from surefoot.randomize.cvar import Cvar as Cvar
from surefoot.randomize.cvar import cvar_weights as cvar_weights
from surefoot.randomize.doraemon import Doraemon as Doraemon
from surefoot.randomize.legged import legged as legged
from surefoot.randomize.levels import Levels as Levels
from surefoot.randomize.named import SCHEDULES as SCHEDULES
from surefoot.randomize.named import nominal as nominal
from surefoot.randomize.named import schedule as schedule
from surefoot.randomize.redraw import Redraw as Redraw
from surefoot.randomize.schedule import Fixed as Fixed
from surefoot.randomize.schedule import Schedule as Schedule
from surefoot.randomize.widening import Widening as Widening
from surefoot.randomize.widening import contracted as contracted
