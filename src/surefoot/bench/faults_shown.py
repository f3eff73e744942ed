"""Faults in what the policy is shown: order, sign, unit, frame, age, history, last action, clock, normaliser."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from surefoot.bench.fault_runs import Case, Hooks, Past, Readings
from surefoot.bench.planted import (
    DEGREES,
    Plant,
    Planted,
    any_joint,
    fault,
    group_changed,
    history_of,
    legged,
    on,
    signed,
    swap,
    term_changed,
    terms_of,
)
from surefoot.contract import Group, projected_gravity
from surefoot.deploy.imu_checks import conjugate


@fault("legs swapped")
def _(case: Case, rng: np.random.Generator) -> Planted:
    order = swap(case, rng)
    hooks = Hooks(seen=on(("joint_pos", "joint_vel"), lambda v: v[order]))
    terms = terms_of(case, "joint_pos") + terms_of(case, "joint_vel")
    also = tuple(("observation", term, "*") for term in terms) if not legged(case) else ()
    return Planted(hooks=hooks, where="observation", terms=terms, kinds=("permuted",), also=also)


@fault("sign of one joint")
def _(case: Case, rng: np.random.Generator) -> Planted:
    j = any_joint(case, rng)
    hooks = Hooks(seen=on(("joint_pos",), lambda v: v * signed(len(v), j)))
    return Planted(hooks=hooks, where="observation", terms=terms_of(case, "joint_pos"), kinds=("sign",))


@fault("joint angles in degrees")
def _(case: Case, rng: np.random.Generator) -> Planted:
    hooks = Hooks(seen=on(("joint_pos",), lambda v: v * DEGREES))
    return Planted(hooks=hooks, where="observation", terms=terms_of(case, "joint_pos"), kinds=("degrees",))


@fault("speed sign")
def _(case: Case, rng: np.random.Generator) -> Planted:
    hooks = Hooks(seen=on(("joint_vel",), lambda v: -v))
    return Planted(hooks=hooks, where="observation", terms=terms_of(case, "joint_vel"), kinds=("sign",))


def _gravity(value: Callable[[np.ndarray], np.ndarray], kind: str) -> Plant:
    def plant(case: Case, rng: np.random.Generator) -> Planted | None:
        if not terms_of(case, "gravity"):
            return None
        hooks = Hooks(seen=lambda y, past: {**y, "gravity": value(y["quat"])})
        return Planted(hooks=hooks, where="observation", terms=terms_of(case, "gravity"), kinds=(kind,))

    return plant


fault("quaternion order")(_gravity(lambda q: projected_gravity(np.roll(q, 1)), "quaternion order"))
fault("gravity in the world's frame")(_gravity(lambda q: np.array([0.0, 0.0, -1.0]), "frame"))
fault("gravity by the inverse rotation")(_gravity(lambda q: projected_gravity(conjugate(q)), "frame"))


@fault("gyro in degrees per second")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not terms_of(case, "gyro"):
        return None
    hooks = Hooks(seen=on(("gyro",), lambda v: v * DEGREES))
    return Planted(hooks=hooks, where="observation", terms=terms_of(case, "gyro"), kinds=("degrees",))


@fault("history newest first")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    group = history_of(case)
    if group is None:
        return None
    other = "oldest-first" if group.order == "newest-first" else "newest-first"
    hooks = Hooks(contract=group_changed(lambda g: replace(g, order=other), group.name))
    return Planted(hooks=hooks, where="observation", terms=_past_terms(group), kinds=("history order",))


def _past_terms(group: Group) -> tuple[str, ...]:
    return (group.name, *(t.name for t in group.terms if t.history > 1))


@fault("history stacked the other way")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    group = history_of(case)
    if group is None:
        return None
    other = "term" if group.stack == "step" else "step"
    hooks = Hooks(contract=group_changed(lambda g: replace(g, stack=other), group.name))
    return Planted(hooks=hooks, where="observation", terms=_past_terms(group), kinds=("history stack",))


def _ages(group: Group) -> np.ndarray:
    """Age of every entry of a group, in steps."""
    return np.array([int(label.rpartition(" t-")[2]) if " t-" in label else 0 for label in group.labels])


@fault("history starts with zeros")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    group = history_of(case)
    if group is None:
        return None
    ages = _ages(group)

    def empty(shown: dict[str, np.ndarray], past: Past) -> dict[str, np.ndarray]:
        shown[group.name][:, ages > past.step] = 0.0
        return shown

    return Planted(
        hooks=Hooks(observation=empty), where="observation", terms=_past_terms(group), kinds=("history not filled",)
    )


@fault("stale history")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    group = history_of(case)
    if group is None:
        return None
    ages = _ages(group)

    def stale(shown: dict[str, np.ndarray], past: Past) -> dict[str, np.ndarray]:
        before = past.delayed("stale", shown[group.name].copy(), 1)
        shown[group.name][:, ages > 0] = before[:, ages > 0]
        return shown

    return Planted(
        hooks=Hooks(observation=stale), where="observation", terms=_past_terms(group), kinds=("history stale",)
    )


@fault("last action missing")
def _(case: Case, rng: np.random.Generator) -> Planted:
    hooks = Hooks(last=lambda a, past: np.zeros_like(a))
    return Planted(hooks=hooks, where="observation", terms=terms_of(case, "last_action"), kinds=("missing",))


@fault("last action scaled")
def _(case: Case, rng: np.random.Generator) -> Planted:
    terms = case.bundle.contract.action
    clip = (-np.inf, np.inf) if terms.clip is None else terms.clip
    hooks = Hooks(last=lambda a, past: np.array(terms.scale) * np.clip(a, *clip))
    return Planted(hooks=hooks, where="observation", terms=terms_of(case, "last_action"), kinds=("processed", "scale"))


@fault("last action one step old")
def _(case: Case, rng: np.random.Generator) -> Planted:
    def old(a: np.ndarray, past: Past) -> np.ndarray:
        return past.delayed("last", a.copy(), 1) if past.step > 1 else np.zeros_like(past.delayed("last", a.copy(), 1))

    return Planted(hooks=Hooks(last=old), where="observation", terms=terms_of(case, "last_action"), kinds=("delayed",))


@fault("normaliser dropped")
def _(case: Case, rng: np.random.Generator) -> Planted:
    groups = case.bundle.contract.groups

    def bare(shown: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {g.name: _denormalised(g, shown[g.name]) for g in groups}

    return Planted(hooks=Hooks(fed=bare), where="action", terms=("action",), kinds=("normaliser",))


def _denormalised(group: Group, x: np.ndarray) -> np.ndarray:
    norm = group.normaliser
    assert norm is not None
    return (x * np.sqrt(np.array(norm.var) + norm.eps) + np.array(norm.mean)).astype(np.float32)


@fault("normalised twice")
def _(case: Case, rng: np.random.Generator) -> Planted:
    group = case.bundle.contract.group("policy")
    norm = group.normaliser
    assert norm is not None
    mean, std = np.array(norm.mean), np.sqrt(np.array(norm.var) + norm.eps)
    limit = np.inf if norm.limit is None else norm.limit

    def twice(shown: dict[str, np.ndarray], past: Past) -> dict[str, np.ndarray]:
        return {**shown, "policy": np.clip((shown["policy"] - mean) / std, -limit, limit).astype(np.float32)}

    return Planted(hooks=Hooks(observation=twice), where="observation", terms=("policy",), kinds=("normaliser",))


@fault("one term's scale")
def _(case: Case, rng: np.random.Generator) -> Planted:
    name = str(rng.choice([*terms_of(case, "joint_vel"), *terms_of(case, "gyro")]))
    term = next(t for g in case.bundle.contract.groups for t in g.terms if t.name == name)
    factor = float(rng.choice([2.0, 0.25, 1 / np.array(term.scale)[0]]))
    hooks = Hooks(contract=term_changed(name, scale=tuple(factor * np.array(term.scale))))
    return Planted(hooks=hooks, where="observation", terms=(name,), kinds=("scale",))


@fault("default pose not subtracted")
def _(case: Case, rng: np.random.Generator) -> Planted:
    term = next(t for g in case.bundle.contract.groups for t in g.terms if t.source == "joint_pos" and np.any(t.offset))
    hooks = Hooks(contract=term_changed(term.name, offset=0.0))
    return Planted(hooks=hooks, where="observation", terms=(term.name,), kinds=("offset",))


@fault("clip missing")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    found = [t for g in case.bundle.contract.groups for t in g.terms if t.clip is not None]
    if not found:
        return None
    hooks = Hooks(contract=term_changed(found[0].name, clip=None))
    return Planted(hooks=hooks, where="observation", terms=(found[0].name,), kinds=("clip",))


@fault("readings one step old")
def _(case: Case, rng: np.random.Generator) -> Planted:
    sources = {t.source for g in case.bundle.contract.groups for t in g.terms}

    def old(y: Readings, past: Past) -> Readings:
        return past.delayed("seen", dict(y), 1)

    terms = tuple(t for s in sources for t in terms_of(case, s)) + tuple(g.name for g in case.bundle.contract.groups)
    return Planted(hooks=Hooks(seen=old), where="observation", terms=terms, kinds=("delayed",))


@fault("command axes swapped")
def _(case: Case, rng: np.random.Generator) -> Planted:
    hooks = Hooks(command=lambda c: c[[1, 0, *range(2, len(c))]])
    return Planted(hooks=hooks, where="observation", terms=("command",), kinds=("permuted",))


@fault("command scaled")
def _(case: Case, rng: np.random.Generator) -> Planted:
    return Planted(hooks=Hooks(command=lambda c: 0.5 * c), where="observation", terms=("command",), kinds=("scale",))


@fault("clock phase")
def _(case: Case, rng: np.random.Generator) -> Planted:
    contract = case.bundle.contract
    group = next(g for g in contract.groups if any(t.source == "clock" for t in g.terms))
    at = [i for i, text in enumerate(group.labels) if text.startswith("clock[")]
    shift = 2 * np.pi * float(rng.choice([0.25, 0.5, 0.1]))

    def late(shown: dict[str, np.ndarray], past: Past) -> dict[str, np.ndarray]:
        s, c = shown[group.name][0, at]
        turned = (s * np.cos(shift) + c * np.sin(shift), c * np.cos(shift) - s * np.sin(shift))
        shown[group.name][0, at] = turned
        return shown

    return Planted(hooks=Hooks(observation=late), where="observation", terms=("clock",), kinds=("clock",))


@fault("clock period")
def _(case: Case, rng: np.random.Generator) -> Planted:
    period = case.bundle.contract.clock_period
    assert period is not None
    hooks = Hooks(contract=lambda contract: replace(contract, clock_period=0.8 * period))
    return Planted(hooks=hooks, where="observation", terms=("clock",), kinds=("clock",))


@fault("two terms swapped")
def _(case: Case, rng: np.random.Generator) -> Planted:
    group = case.bundle.contract.group("policy")

    def swapped(g: Group) -> Group:
        return replace(g, terms=(g.terms[1], g.terms[0], *g.terms[2:]), normaliser=None)

    terms = (group.name, group.terms[0].name, group.terms[1].name)
    return Planted(
        hooks=Hooks(contract=group_changed(swapped, "policy")), where="observation", terms=terms, kinds=("permuted",)
    )
