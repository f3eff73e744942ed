"""The settings of proximal policy optimisation (PPO) as robots use it; learner.py holds the update."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from surefoot.errors import InputError, choose


@dataclass(frozen=True, kw_only=True)
class PPO:
    """Settings of the learner; the defaults walk a quadruped on two cores with 256 worlds."""

    horizon: int = 24
    """Steps of every world per update."""
    epochs: int = 4
    """Passes over a rollout."""
    minibatches: int = 4
    """Parts of a pass; each is one step of Adam."""
    gamma: float = 0.99
    """γ: discount per step [1]."""
    lam: float = 0.95
    """λ of the advantages [1]."""
    clip: float = 0.2
    """ε: how far the probability ratio may go before its gradient is cut [1]."""
    value_clip: float = 0.2
    """How far a value may go in one update [standard deviations of the returns]."""
    entropy: float = 0.005
    """Weight of the entropy bonus [1/nat]."""
    kl: float = 0.02
    """Target of the adaptive learning rate: KL(old‖new) after an update [nat]."""
    rate: float = 1e-3
    """Learning rate at the start [1]."""
    rate_bounds: tuple[float, float] = (3e-4, 1e-3)
    """Floor and ceiling of the learning rate [1]."""
    gradient: float = 1.0
    """Longest gradient of each network [1]."""
    beta2: float = 0.999
    """β2 of Adam: what a squared gradient counts for one step later [1]; lower is bolder, as the first gradients are forgotten sooner."""
    std: float = 0.8
    """σ of the actions at the start [action units]."""
    std_bounds: tuple[float, float] = (0.05, 1.5)
    """Smallest and largest σ [action units]."""
    actor: tuple[str, ...] = ("policy",)
    """Observation groups of the policy: only what the robot senses."""
    critic: tuple[str, ...] | None = None
    """Observation groups of the critic; None: "critic" where the world has it, else those of the policy."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of the policy."""
    critic_hidden: tuple[int, ...] | None = None
    """Hidden layers of the critic; None: as the policy."""
    activation: str = "elu"
    """Between layers: "elu", "tanh" or "relu"."""
    memory: int = 0
    """Width of the policy's GRU, 0: none."""
    integral: float = 0.0
    """k of the policy's integral part, which adds up what it does (see surefoot.learn.networks) [1 per step], 0: none."""
    critic_memory: int = 0
    """Width of the critic's GRU, 0: none."""
    both_sides: bool = True
    """With a mirror: every minibatch shows each transition and its mirror image. False: one of the two, by turns from
    epoch to epoch, at half the cost."""
    warmup: int = 16
    """Steps of every world before the first update that only feed the normalisers, rounded up to whole rollouts."""

    def __post_init__(self):
        for name in ("actor", "critic", "hidden", "critic_hidden", "rate_bounds", "std_bounds"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        floor, ceiling = self.rate_bounds
        checks = {
            "horizon, epochs and minibatches must be at least 1": min(self.horizon, self.epochs, self.minibatches) >= 1,
            "gamma and lam must lie in 0..1": 0 <= self.gamma <= 1 and 0 <= self.lam <= 1,
            "clip, value_clip, kl and gradient must be above 0": min(self.clip, self.value_clip, self.kl, self.gradient)
            > 0,
            "rate must lie within rate_bounds, above 0": 0 < floor <= self.rate <= ceiling,
            "entropy, memory, critic_memory and warmup must not be negative": min(
                self.entropy, self.memory, self.critic_memory, self.warmup
            )
            >= 0,
            "beta2 must lie in 0..1 and be below 1": 0 <= self.beta2 < 1,
            "integral must lie in 0..1": 0 <= self.integral <= 1,
        }
        for sentence, holds in checks.items():
            if not holds:
                raise InputError(f"{sentence}, given {self}")

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a run's config.json."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "PPO":
        """The settings of `to_dict`; an unknown name is refused."""
        for name in settings:
            choose(name, cls.__dataclass_fields__, "a setting of PPO")
        return cls(**settings)
