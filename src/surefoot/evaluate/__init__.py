"""Judge: whether it worked, with intervals, on worlds whose e is drawn or given."""

from surefoot.evaluate.film import film as film
from surefoot.evaluate.intervals import wilson as wilson
from surefoot.evaluate.walking import Walk as Walk
from surefoot.evaluate.walking import walk as walk
