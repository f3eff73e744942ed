"""The policy: networks, proximal policy optimisation, rollouts, checkpoints."""

from surefoot.learn.episodes import Ended as Ended
from surefoot.learn.events import read_events as read_events
from surefoot.learn.gae import advantages as advantages
from surefoot.learn.learner import Learner as Learner
from surefoot.learn.mirror import Map as Map
from surefoot.learn.mirror import Mirror as Mirror
from surefoot.learn.networks import Critic as Critic
from surefoot.learn.networks import Policy as Policy
from surefoot.learn.normaliser import Normaliser as Normaliser
from surefoot.learn.ppo import PPO as PPO
from surefoot.learn.rollout import Rollout as Rollout
from surefoot.learn.runs import Run as Run
from surefoot.learn.runs import load_run as load_run
from surefoot.learn.train import Schedule as Schedule
from surefoot.learn.train import train as train
