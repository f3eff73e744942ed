"""The robot at the other end of the wire: stand-in robots in their own process, recorded logs, drivers of real ones.

`connect("twin:go2/01-nominal")` gives a Hardware; who runs a policy cannot tell what stands behind it.
"""

from surefoot.hardware.connect import connect as connect
from surefoot.hardware.referee import Truth as Truth
from surefoot.hardware.referee import read_truth as read_truth

__all__ = ["Truth", "connect", "read_truth"]
