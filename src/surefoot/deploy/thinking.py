"""One policy step: from a reading and what is asked of the robot to the targets of its motors.

    o_k = observation(reading, a_{k−1}, command, k)     a_k = policy(o_k)     target = action(a_k, k · control_dt)

The clock in the observation and the rhythm in the action count the same steps k since `reset`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from surefoot.contract import Builder, Reading
from surefoot.contract import action as act
from surefoot.deploy.bundle import Bundle
from surefoot.errors import InputError, choose

Asked = Mapping[str, float] | Callable[[float], Mapping[str, float]]
"""What is asked of the policy: values by name, or a function of the policy's time [s] that gives them."""


@dataclass(frozen=True, kw_only=True)
class Thought:
    """What a policy step saw and did.

    Attributes:
        time: of the policy: its steps so far times the control period [s].
        seen: the robot's time of the reading [s].
        observation: group -> (1, size).
        action: raw output, (actions,).
        command: what was asked, (commands,).
        target: of the motors, (outputs,), in the unit of the action's kind.
    """

    time: float
    seen: float
    observation: Mapping[str, np.ndarray]
    action: np.ndarray
    command: np.ndarray
    target: np.ndarray


class Thinker:
    """A policy with its builder, memory and clock.

    Args:
        bundle: the policy.
        builder: made for the robot's readings.
        outputs: motors, the order of targets.
    """

    def __init__(self, bundle: Bundle, builder: Builder, outputs: tuple[str, ...]):
        self.contract = contract = bundle.contract
        self.steps = 0
        self._builder, self._policy = builder, bundle.policy()
        self._motors = [contract.joints.index(name) for name in outputs]
        self._last: np.ndarray | None = None
        self._asked: Asked = {}
        self._row = self._values({})
        self._warm()

    def ask(self, command: Asked) -> None:
        """Ask this of the policy from its next step on; what is not named is 0, or the nearest to it in the training range.

        Values must lie in the training range; those of a function are cut to it.
        """
        if not callable(command):
            self._row = self._values(command)
        self._asked = command

    def reset(self) -> None:
        """Start anew: history, memory, last action and time are empty."""
        self.steps, self._last = 0, None
        self._builder.reset()
        self._policy.reset()

    def step(self, reading: Reading) -> Thought:
        """Think once; moves history, memory and time on."""
        contract, time = self.contract, self.steps * self.contract.control_dt
        if callable(self._asked):
            self._row = self._values(self._asked(time), cut=True)
        observation = self._builder.observe(reading.values, last_action=self._last, command=self._row)
        self._last = raw = self._policy(observation)
        target = act(contract, raw, np.array([time], np.float32))[0].astype(np.float64)[self._motors]
        self.steps += 1
        return Thought(
            time=time, seen=reading.time, observation=observation, action=raw[0], command=self._row[0], target=target
        )

    def _values(self, given: Mapping[str, float], *, cut: bool = False) -> np.ndarray:
        """The command as the builder wants it, (1, commands) float32."""
        known = {item.name: item for item in self.contract.commands}
        for name in given:
            choose(name, known, "a command of this policy")
        row = []
        for name, item in known.items():
            value = float(given.get(name, 0.0))
            inside = min(max(value, item.low), item.high)
            if name in given and inside != value and not cut:
                raise InputError(
                    f"{name} = {value:g} {item.unit} was asked for, the policy was trained for {item.low:g} to {item.high:g}".replace(
                        "  ", " "
                    )
                )
            row.append(inside if inside == inside else min(max(0.0, item.low), item.high))
        return np.array([row], np.float32).reshape(1, len(known))

    def _warm(self) -> None:
        """Run the policy once on zeros: the first call of a network is much slower than the others."""
        self._policy({group.name: np.zeros((1, group.size), np.float32) for group in self.contract.groups})
        self._policy.reset()
