"""What to do: command, reward, termination as plain functions; one file a task."""

from surefoot.tasks.commands import Commands as Commands
from surefoot.tasks.hop import Hop as Hop
from surefoot.tasks.hover import Hover as Hover
from surefoot.tasks.hover import Track as Track
from surefoot.tasks.reach import Reach as Reach
from surefoot.tasks.swing_up import SwingUp as SwingUp
from surefoot.tasks.task import Situation as Situation
from surefoot.tasks.task import Task as Task
from surefoot.tasks.velocity import Velocity as Velocity
from surefoot.tasks.world import Outcome as Outcome
from surefoot.tasks.world import World as World
