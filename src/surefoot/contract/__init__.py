"""What must match between training and robot, and the one observation builder that interprets it."""

from surefoot.contract.action import action as action
from surefoot.contract.action import invert as invert
from surefoot.contract.builder import Builder as Builder
from surefoot.contract.channels import STANDARD as STANDARD
from surefoot.contract.contract import Contract as Contract
from surefoot.contract.frames import projected_gravity as projected_gravity
from surefoot.contract.frames import to_body as to_body
from surefoot.contract.terms import Action as Action
from surefoot.contract.terms import Group as Group
from surefoot.contract.terms import Memory as Memory
from surefoot.contract.terms import Normaliser as Normaliser
from surefoot.contract.terms import Range as Range
from surefoot.contract.terms import Term as Term
from surefoot.contract.wire import Command as Command
from surefoot.contract.wire import Hardware as Hardware
from surefoot.contract.wire import Reading as Reading
from surefoot.contract.wire import Wire as Wire

__all__ = [
    "STANDARD",
    "Action",
    "Builder",
    "Command",
    "Contract",
    "Group",
    "Hardware",
    "Memory",
    "Normaliser",
    "Range",
    "Reading",
    "Term",
    "Wire",
    "action",
    "invert",
    "projected_gravity",
    "to_body",
]
