"""Judge: whether it worked, with intervals, on worlds whose e is drawn or given."""

from surefoot.evaluate.walking import Walk as Walk
from surefoot.evaluate.walking import walk as walk
