"""The loop from a simulator to a robot and back: train, deploy, identify, retrain; it ends in a ladder."""

from surefoot.loop.choice import choose_policy as choose_policy
from surefoot.loop.folder import Folder as Folder
from surefoot.loop.judging import judge_itself as judge_itself
from surefoot.loop.judging import judge_rung as judge_rung
from surefoot.loop.ladder import Ladder as Ladder
from surefoot.loop.ladder import ladder_of as ladder_of
from surefoot.loop.ladder import write_ladder as write_ladder
from surefoot.loop.loop import begin_with as begin_with
from surefoot.loop.loop import prepare_loop as prepare_loop
from surefoot.loop.loop import run_loop as run_loop
from surefoot.loop.on_robot import deploy_rung as deploy_rung
from surefoot.loop.on_robot import design_motion as design_motion
from surefoot.loop.on_robot import gap_of as gap_of
from surefoot.loop.on_robot import identify_robot as identify_robot
from surefoot.loop.on_robot import play_motion as play_motion
from surefoot.loop.settings import KITS as KITS
from surefoot.loop.settings import RUNGS as RUNGS
from surefoot.loop.settings import Kit as Kit
from surefoot.loop.settings import Loop as Loop
from surefoot.loop.settings import Rung as Rung
from surefoot.loop.settings import loop_of as loop_of
from surefoot.loop.training import export_rung as export_rung
from surefoot.loop.training import train_rung as train_rung
