"""Every kind of unknown the simulator knows; importing this declares them all."""

from surefoot.params import kinds_body as kinds_body
from surefoot.params import kinds_motor as kinds_motor
from surefoot.params import kinds_world as kinds_world
