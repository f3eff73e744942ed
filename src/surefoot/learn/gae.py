"""How much better an action was than expected: generalised advantage estimation over a rollout with ends.

    δ_t = r_t + γ V(s_{t+1}) − V(s_t)          V(s_{t+1}) = 0 after a real end, V(final observation) at a time limit
    A_t = δ_t + γ λ A_{t+1}                    the recursion is cut at both kinds of end
    R_t = A_t + V(s_t)                         what the critic regresses on

A time limit is not an end of the task: the state just before the reset is worth what it is worth. A critic that is told
of zero there believes the clock: a reward of 1 at every step with γ = 0.99 and a limit of 100 steps is worth 100, but
such a critic finds 50.25 (λ = 0) or 37.24 (λ = 1).
"""

import torch
from torch import Tensor


def advantages(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    *,
    terminated: Tensor,
    truncated: Tensor,
    broken: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """A_t of every transition of a rollout; all arrays are (steps, worlds).

    Args:
        reward: r_t.
        value: V(s_t).
        next_value: V(s_{t+1}); at truncated steps that of the final observation, at terminated ones anything.
        terminated: real ends (bool).
        truncated: time limits (bool).
        broken: transitions that are not to be learned from (bool): they get A_t = 0 and hand nothing back in time, so
            the transition before one is bootstrapped with V(s_{t+1}).
        gamma: discount per step [1].
        lam: λ: 0 trusts the critic, 1 the rewards [1].
    """
    zero = torch.zeros((), dtype=value.dtype, device=value.device)
    ahead = torch.where(terminated, zero, next_value)
    delta = torch.where(broken, zero, reward + gamma * ahead - value)
    carry = torch.where(terminated | truncated | broken, zero, zero + gamma * lam)
    A = torch.empty_like(delta)
    follower = torch.zeros_like(delta[0])
    for t in range(len(delta) - 1, -1, -1):
        follower = torch.addcmul(delta[t], carry[t], follower)
        A[t] = follower
    return A


def next_values(value: Tensor, last: Tensor) -> Tensor:
    """V(s_{t+1}) of a rollout without ends: `value` (steps, worlds) moved up by one, `last` (worlds,) at the bottom."""
    return torch.cat([value[1:], last[None]])
