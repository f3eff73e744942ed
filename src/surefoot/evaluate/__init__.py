"""Judge: whether it worked, with intervals, on worlds whose e is drawn or given."""

from surefoot.evaluate.film import film as film
from surefoot.evaluate.intervals import Estimate as Estimate
from surefoot.evaluate.intervals import mean as mean
from surefoot.evaluate.intervals import mean_difference as mean_difference
from surefoot.evaluate.intervals import share as share
from surefoot.evaluate.intervals import share_difference as share_difference
from surefoot.evaluate.intervals import wilson as wilson
from surefoot.evaluate.judge import Aim as Aim
from surefoot.evaluate.judge import Judged as Judged
from surefoot.evaluate.judge import judge as judge
from surefoot.evaluate.judge import judge_world as judge_world
from surefoot.evaluate.rough import RoughWalk as RoughWalk
from surefoot.evaluate.rough import rough_walk as rough_walk
from surefoot.evaluate.survey import Survey as Survey
from surefoot.evaluate.survey import survey as survey
from surefoot.evaluate.walking import Walk as Walk
from surefoot.evaluate.walking import walk as walk
from surefoot.evaluate.width import Width as Width
from surefoot.evaluate.width import width as width
