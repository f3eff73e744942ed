"""Networks, normaliser and losses against autograd and closed forms."""

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence

from surefoot.errors import InputError
from surefoot.learn import PPO, Critic, Map, Mirror, Normaliser, Policy
from surefoot.learn.adam import Adam, Rate
from surefoot.learn.losses import Seen, surrogate, value_loss
from surefoot.learn.net import ACTIVATIONS, Net, Shape
from surefoot.learn.networks import MOST, entropy, kl, log_prob


def test_normaliser_statistics_do_not_depend_on_the_batches():
    x = torch.randn(1000, 5, dtype=torch.float64) * torch.tensor([1, 10, 0.1, 3, 1e-3]) + torch.tensor(
        [0, 5, -300, 2, 1e3]
    )
    whole, pieces = Normaliser(5), Normaliser(5)
    whole.update(x)
    for piece in x.split([1, 2, 400, 597]):
        pieces.update(piece)
    for one in (whole, pieces):
        assert torch.allclose(one.mean, x.mean(0), rtol=1e-12)
        assert torch.allclose(one.var, x.var(0, unbiased=False), rtol=1e-8)
        assert one.count == 1000


def test_normaliser_applies_its_equation_freezes_and_leaves_nan_rows_out():
    z = Normaliser(2)
    x = torch.tensor([[1.0, 10.0], [3.0, 30.0], [torch.nan, 5.0]])
    z.update(x)
    expected = (x[0] - torch.tensor([2.0, 20.0])) / (torch.tensor([1.0, 100.0]) + 1e-4).sqrt()
    assert torch.allclose(z(x[:1])[0], expected)
    assert z(torch.tensor([[1e6, -1e6]])).tolist() == [[10, -10]]
    z.freeze()
    z.update(torch.full((9, 2), 77.0))
    assert z.count == 2
    again = Normaliser(2)
    again.restore(z.snapshot())
    assert torch.equal(again(x[:2]), z(x[:2]))


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_the_written_backward_pass_equals_autograd(activation):
    net = Net(
        Shape(inputs=7, outputs=3, hidden=(16, 9), activation=activation), generator=torch.Generator().manual_seed(0)
    )
    x, d = torch.randn(33, 7), torch.randn(33, 3)
    y, tape = net.forward(x)
    net.backward(tape, d.clone())
    leaves = {name: part.clone().requires_grad_() for name, part in net.parts.items()}
    h = x
    for i in range(3):
        h = h @ leaves[f"{i}.weight"].t() + leaves[f"{i}.bias"]
        h = getattr(torch.nn.functional, activation)(h) if i < 2 else h
    assert torch.allclose(y, h, atol=1e-6)
    h.backward(d)
    for name, leaf in leaves.items():
        assert torch.allclose(net.grad_parts[name], leaf.grad, atol=1e-5), name


def test_log_prob_entropy_and_kl_equal_those_of_torch():
    torch.manual_seed(0)
    mean, old, action = torch.randn(3, 6, 4)
    log_std, log_old = torch.randn(2, 4) * 0.3
    new_ = Independent(Normal(mean, log_std.exp()), 1)
    old_ = Independent(Normal(old, log_old.exp()), 1)
    assert torch.allclose(log_prob(action, mean, log_std), new_.log_prob(action), atol=1e-5)
    assert torch.allclose(entropy(log_std), new_.entropy()[0], atol=1e-5)
    assert torch.allclose(kl(old, log_old, mean, log_std), kl_divergence(old_, new_), atol=1e-5)


def test_the_written_losses_and_their_gradients_equal_autograd():
    torch.manual_seed(1)
    rows, n, clip, bonus = 64, 3, 0.2, 0.01
    mean, log_std = torch.randn(rows, n, requires_grad=True), (torch.randn(n) * 0.2).requires_grad_()
    old_mean = mean.detach() + 0.3 * torch.randn(rows, n)
    old_std = log_std.detach() + 0.05
    action, A = old_mean + 0.8 * torch.randn(rows, n), torch.randn(rows)
    before = log_prob(action, old_mean, old_std)
    found = surrogate(
        mean.detach(), log_std.detach(), old_std, Seen(action, old_mean, before, A),
        clip=clip, bonus=bonus, count=rows, real=rows,
    )  # fmt: skip
    pi = Independent(Normal(mean, log_std.exp()), 1)
    ratio = (pi.log_prob(action) - before).exp()
    loss = torch.max(-A * ratio, -A * ratio.clamp(1 - clip, 1 + clip)).mean() - bonus * log_std.sum()
    loss.backward()
    assert 0.1 < found.clipped < 0.9
    assert found.loss == pytest.approx(loss.item(), abs=1e-5)
    assert torch.allclose(found.d_mean, mean.grad, atol=1e-6)
    assert torch.allclose(found.d_log_std, log_std.grad, atol=1e-5)
    assert found.kl == pytest.approx(kl(old_mean, old_std, mean, log_std).mean().item(), abs=1e-5)

    v = torch.randn(rows, requires_grad=True)
    target, old = torch.randn(2, rows)
    held = old + (v - old).clamp(-clip, clip)
    expected = torch.max((v - target) ** 2, (held - target) ** 2).mean()
    expected.backward()
    value, d = value_loss(v.detach(), target, old, clip=clip, count=rows)
    assert value == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(d, v.grad, atol=1e-6)


@pytest.mark.parametrize("beta2", [0.999, 0.9])
def test_flat_adam_equals_that_of_torch_and_refuses_a_gradient_that_is_not_finite(beta2):
    torch.manual_seed(2)
    w, g = torch.randn(50), torch.zeros(50)
    leaf = w.clone().requires_grad_()
    ours = Adam(w, g, longest=1.0, beta2=beta2)
    theirs = torch.optim.Adam([leaf], lr=0.01, betas=(0.9, beta2))
    for _ in range(5):
        g.copy_(torch.randn(50))
        leaf.grad = g.clone()
        torch.nn.utils.clip_grad_norm_([leaf], 1.0)
        ours.step(0.01)
        theirs.step()
    assert torch.allclose(w, leaf, atol=1e-6)
    before = w.clone()
    g[3] = torch.nan
    assert np.isnan(ours.step(0.01))
    assert torch.equal(w, before)
    assert ours.t == 5


def test_the_learning_rate_climbs_and_falls_its_ladder_between_floor_and_ceiling():
    rate = Rate(1e-3, target=0.02, floor=4e-4, ceiling=2e-3)
    assert rate.adapt(0.02) == 1e-3
    assert rate.adapt(0.009) == pytest.approx(1.5e-3)
    assert rate.adapt(0.0) == 2e-3
    assert rate.adapt(0.011) == 2e-3
    assert rate.adapt(0.039) == 2e-3
    assert rate.adapt(0.041) == pytest.approx(2e-3 / 1.5)
    assert [rate.adapt(1.0) for _ in range(4)][-1] == 4e-4
    assert rate.adapt(float("nan")) == 4e-4
    assert rate.adapt(0.0) == pytest.approx(6e-4)


def test_gru_unrolled_with_resets_equals_stepping_it_and_its_state_is_emptied_at_episode_starts():
    net = Net(Shape(inputs=4, outputs=2, hidden=(8,), memory=6), generator=torch.Generator().manual_seed(0))
    reference = torch.nn.GRUCell(4, 6)
    names = {
        "weight_ih": "gru.input",
        "weight_hh": "gru.state",
        "bias_ih": "gru.input_bias",
        "bias_hh": "gru.state_bias",
    }
    reference.load_state_dict({theirs: net.parts[ours].detach() for theirs, ours in names.items()})
    x, begins = torch.randn(9, 5, 4), torch.rand(9, 5) < 0.3
    with torch.no_grad():
        y, memories = net.unroll(x, torch.randn(5, 6), begins)
        h = memories[3]
        for t in range(4, 9):
            h = h.clone()
            h[begins[t]] = 0.0
            h = reference(x[t], h)
            assert torch.allclose(memories[t], h, atol=1e-6)
            assert torch.allclose(y[t], net.read(h), atol=1e-6)


def test_critic_rescaling_keeps_its_values():
    critic = Critic({"critic": 3}, hidden=(8,))
    x = torch.randn(40, 3)
    critic.rescale(torch.randn(500) + 3)
    before = critic.values(x)
    assert before.mean().item() == pytest.approx(3, abs=1)
    critic.rescale(torch.randn(500) * 40 + 1000)
    assert critic.unit.std > 40
    assert torch.allclose(critic.values(x), before, atol=2e-3)


def test_policy_survives_the_way_to_plain_arrays_bit_for_bit_and_freezes():
    for memory, integral in ((0, 0.0), (5, 0.0), (0, 0.2)):
        policy = Policy({"policy": 4, "history": 6}, 2, hidden=(8, 8), memory=memory, integral=integral, std=0.3)
        policy.normaliser.update(torch.randn(50, 10) * 3 + 1)
        again = Policy.from_arrays(policy.to_arrays())
        seen = {"history": torch.randn(3, 6), "policy": torch.randn(3, 4), "critic": torch.full((3, 2), torch.nan)}
        ours, theirs = policy.play(), again.play()
        for _ in range(3):
            assert torch.equal(ours(seen), theirs(seen))
        assert again.normaliser.frozen
        assert np.array_equal(again.std, policy.std)


def test_a_numpy_reader_of_the_arrays_gets_the_same_action():
    policy = Policy({"policy": 4}, 2, hidden=(8, 8))
    policy.normaliser.update(torch.randn(50, 4) * 3 + 1)
    a, x = policy.to_arrays(), np.random.default_rng(0).normal(size=(5, 4))
    z = (x - a["normaliser.mean"]) / np.sqrt(a["normaliser.var"] + a["normaliser.eps"])
    z = np.clip(z, -a["normaliser.limit"], a["normaliser.limit"])
    for i in range(3):
        z = z @ a[f"net.{i}.weight"].T + a[f"net.{i}.bias"]
        z = np.where(z > 0, z, np.expm1(z)) if i < 2 else z
    assert np.allclose(policy.play()({"policy": torch.from_numpy(x).float()}).numpy(), z, atol=1e-5)


def test_memory_of_ended_worlds_is_emptied_in_play():
    policy = Policy({"policy": 2}, 1, hidden=(4,), memory=4)
    x = {"policy": torch.randn(2, 2)}
    act = policy.play()
    first = act(x)
    act(x)
    third = act(x, torch.tensor([1]))
    assert torch.allclose(third[1], first[1], atol=1e-6)
    assert not torch.allclose(third[0], first[0], atol=1e-6)


def test_an_integral_part_adds_up_what_the_network_says_within_its_limit():
    policy = Policy({"policy": 2}, 2, hidden=(4,), integral=0.25)
    x = torch.tensor([[0.5, -0.1], [1.5, 0.3], [-0.2, 0.4]])
    policy.net.parts["1.weight"].copy_(torch.tensor([[1.0, 2.0, -1.0, 0.5], [0.3, -0.2, 0.1, 0.0]]))
    policy.net.parts["0.weight"].copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [0.2, 0.2]]))
    own = policy.mean(x)[0]
    act = policy.play()
    for step in range(9):
        wanted = own + (0.25 * step * own).clamp(-MOST, MOST)
        assert torch.allclose(act({"policy": x}), wanted, atol=1e-6)
    assert (own.abs() * 2 > MOST).any()  # the limit was met
    assert (own.abs() * 2 < MOST).any()
    again = act({"policy": x}, torch.tensor([1]))
    assert torch.allclose(again[1], own[1], atol=1e-6)
    with pytest.raises(InputError, match="a GRU or an integral part, not both"):
        Policy({"policy": 2}, 2, memory=4, integral=0.1)
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(InputError, match=r"integral must lie in 0\.\.1"):
            PPO(integral=wrong)


def test_an_integral_part_holds_against_a_steady_force_that_nobody_senses():
    """x' = a + w under a policy that says -x: it rests at x = w without an integral part, at 0 with one."""
    for integral, rests in ((0.0, 0.5), (0.1, 0.0)):
        policy = Policy({"policy": 1}, 1, hidden=(), integral=integral)
        policy.net.parts["0.weight"].fill_(-1.0)
        policy.net.parts["0.bias"].zero_()
        act, x = policy.play(), torch.zeros(1, 1)
        for _ in range(400):
            x = x + 0.1 * (act({"policy": x}) + 0.5)
        assert x.item() == pytest.approx(rests, abs=1e-3)


def test_the_actor_reads_only_its_groups_and_says_what_is_missing():
    policy = Policy({"policy": 2}, 1, hidden=(4,))
    with pytest.raises(InputError, match=r"'policy' is missing .*policies"):
        policy.play()({"policies": torch.zeros(1, 2)})
    with pytest.raises(InputError, match="outside its bounds"):
        Policy({"policy": 2}, 1, std=3.0)
    with pytest.raises(InputError, match=r"need shape \(4, 2\)"):
        policy.load({**policy.to_arrays(), "net.0.weight": np.zeros((3, 3))})
    with pytest.raises(InputError, match="'gelu' is not an activation"):
        Policy({"policy": 2}, 1, activation="gelu")


def test_a_mirror_must_return_to_the_original():
    assert Map(index=[1, 0, 2], sign=[1, 1, -1])(torch.tensor([1.0, 2.0, 3.0])).tolist() == [2, 1, -3]
    with pytest.raises(InputError, match="entry 0 does not return"):
        Map(index=[1, 2, 0], sign=[1, 1, 1])
    with pytest.raises(InputError, match="entry 0 does not return"):
        Map(index=[1, 0], sign=[1, -1])
    with pytest.raises(InputError, match="a permutation"):
        Map(index=[1, 1], sign=[1, 1])
    flip = Map(index=[0], sign=[-1])
    mirror = Mirror(groups={"policy": flip, "critic": Map(index=[1, 0], sign=[1, 1])}, action=flip)
    assert mirror.over(("policy", "critic"))(torch.tensor([1.0, 2.0, 3.0])).tolist() == [-1, 3, 2]
    with pytest.raises(InputError, match="'history' has no mirror map"):
        mirror.over(("history",))


@pytest.mark.parametrize("beta2", [1.0, -0.1, float("nan")])
def test_a_beta2_with_which_adam_cannot_step_is_refused(beta2):
    with pytest.raises(InputError, match=r"beta2 must lie in 0\.\.1 and be below 1"):
        PPO(beta2=beta2)
