"""From the observation to the action, and from the action to what was sent to the motors."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from surefoot.contract import action
from surefoot.deploy.bundle import Bundle
from surefoot.deploy.compare import Cause, Guess, explain, fits, order_in_words
from surefoot.deploy.findings import Notes, listed
from surefoot.deploy.recorded_run import Run
from surefoot.errors import InputError

SHARE = 0.97
"""Of the motor commands that must be the policy's; the safety layer may have had the rest."""
FEW = 10
"""Fewer samples than this tell nothing."""
SAME = 0.01
"""Relative difference of gains that is rounding."""


def observations(run: Run) -> dict[str, np.ndarray] | None:
    """Recorded observations by group, (K, size) float32; None where one is absent or of another size."""
    found = {}
    for group in run.contract.groups:
        values = run.exact(f"observation/{group.name}")
        if values is None or values.shape[1] != group.size or np.isnan(values).any():
            return None
        found[group.name] = values.astype(np.float32)
    return found


def actions_of(bundle: Bundle, seen: dict[str, np.ndarray], starts: np.ndarray) -> np.ndarray:
    """The policy's answer to observations in sequence, (K, n); its memory is emptied at `starts`."""
    policy = bundle.policy()
    if not bundle.contract.memory:
        try:
            return policy(seen).astype(np.float64)
        except InputError:  # the file is made for one world alone
            policy.reset()
    begins, rows = set(starts.tolist()), []
    for k in range(len(next(iter(seen.values())))):
        if k in begins:
            policy.reset()
        rows.append(policy({name: values[k : k + 1] for name, values in seen.items()})[0])
    return np.array(rows, dtype=np.float64)


def check_policy(bundle: Bundle, run: Run, notes: Notes) -> None:
    """Run the policy file on the recorded observations and compare with the recorded actions."""
    joints = run.contract.action.joints
    if "action" in run.log and len(run.log["action"].columns) != len(joints):
        have = len(run.log["action"].columns)
        notes.find("action", "action", "count", f"{have} actions recorded, the policy has {len(joints)}")
    recorded, seen = run.actions, observations(run)
    if recorded is None or seen is None:
        lacks = "the action" if recorded is None else "observations of the policy's size"
        notes.unchecked.append(f"action: the policy file was not compared, the log lacks {lacks}")
        return
    expected = actions_of(bundle, seen, run.starts)
    keep = np.where(np.isnan(recorded), expected, recorded)
    cause = explain(keep, expected, joints, guesses=_policy_guesses(bundle, run, seen, expected))
    notes.checked.append(
        f"action: the policy file on {len(keep)} recorded observations gives "
        + ("the recorded actions" if cause is None else "others than the recorded ones")
    )
    if cause is not None:
        if cause.kind == "unexplained":
            cause = Cause(
                kind="unexplained",
                detail=f"{cause.detail}: another policy or another normaliser",
                columns=cause.columns,
            )
        notes.find("action", "action", cause.kind, cause.detail, cause.columns)


def _policy_guesses(bundle: Bundle, run: Run, seen: dict[str, np.ndarray], expected: np.ndarray) -> Iterator[Guess]:
    """Faults between the observation and the recorded action."""
    contract = run.contract
    clip = contract.action.clip
    if clip is not None:
        low, high = map(np.array, clip)
        detail = "the recorded action is clipped, the policy's raw output is meant"
        yield Guess(kind="clip", detail=detail, values=lambda: np.clip(expected, low, high))
    time = run.since * contract.control_dt
    index = [contract.joints.index(j) for j in contract.action.joints]
    detail = "it is the target sent to the motors, not the policy's raw output"
    yield Guess(kind="processed", detail=detail, values=lambda: action(contract, expected, time)[:, index])
    normalisers = {g.name: g.normaliser for g in contract.groups if g.normaliser and g.normaliser.by == "network"}
    if normalisers:
        dropped, twice = dict(seen), dict(seen)
        for name, norm in normalisers.items():
            mean, std = np.array(norm.mean), np.sqrt(np.array(norm.var) + norm.eps)
            dropped[name] = (seen[name] * std + mean).astype(np.float32)
            twice[name] = ((seen[name] - mean) / std).astype(np.float32)
        for detail, other in (
            ("the policy was run without its normaliser", dropped),
            ("the observation was normalised before the policy file, which does so itself", twice),
        ):
            yield Guess(
                kind="normaliser",
                detail=detail,
                values=lambda o=other: _near(actions_of(bundle, o, run.starts), expected, run),
            )
    if contract.memory:
        every = np.arange(len(expected))
        detail = "the recurrent state was emptied before every step"
        yield Guess(kind="memory", detail=detail, values=lambda: actions_of(bundle, seen, every))


def _near(values: np.ndarray, expected: np.ndarray, run: Run) -> np.ndarray:
    """Guesses that pass through float32 and back fit a little less closely: take the recorded value where they nearly agree."""
    recorded = run.actions
    assert recorded is not None
    scale = 1e-3 * (1 + np.abs(values).max(axis=0))
    return np.where(np.abs(values - recorded) < scale, recorded, values)


# ---------------------------------------------------------------- what was sent


def check_sent(run: Run, notes: Notes) -> None:
    """Compare what was sent to the motors with the contract's target of the recorded action."""
    contract, kind = run.contract, run.contract.action.kind
    if kind not in run.log or run.actions is None or not len(run.t):
        what = kind if kind not in run.log else "the action"
        notes.unchecked.append(f"{kind}: what was sent was not compared, the log lacks {what}")
        return
    sent = run.log[kind]
    outputs = [j for j in contract.joints if j in sent.columns]
    lost = [j for j in contract.action.joints if j not in sent.columns]
    if lost:
        detail = f"{len(sent.columns)} motors were sent a command, the action has {len(contract.action.joints)}: {listed(lost)} missing"
        notes.find("action", kind, "count", detail, lost)
        return
    rows, index = _driven(run, sent.t)
    if len(rows) < FEW:
        notes.unchecked.append(
            f"{kind}: the policy drove the motors in only {len(rows)} samples that the safety layer left alone"
        )
        return
    places = [contract.joints.index(j) for j in outputs]
    raw = run.actions
    time = run.since * contract.control_dt
    target = action(contract, raw, time)[:, places]
    given = sent.values[:, [sent.columns.index(j) for j in outputs]][rows]
    step = max(1, round(run.dt / float(np.median(np.diff(sent.t)))))
    late = _late(given, target, index, step)
    expected = target[np.maximum(index - late, 0)] if late else target[index]
    cause = explain(given, expected, outputs, guesses=_target_guesses(run, raw, time, places, index), share=SHARE)
    notes.checked.append(f"{kind}: {len(rows)} samples compared with the target of the recorded action")
    if late:
        notes.find(
            "action",
            kind,
            "delayed",
            f"the target of the action {late} control step{'s' * (late > 1)} ({1e3 * late * run.dt:.3g} ms) before was sent",
        )
    if cause is not None:
        notes.find("action", kind, cause.kind, cause.detail, cause.columns)


def _late(given: np.ndarray, target: np.ndarray, index: np.ndarray, step: int) -> int:
    """Policy steps by which the sent target lags, where that alone explains it; else 0."""
    if fits(given, target[index], SHARE):
        return 0
    for late in range(1, 6):
        ok = index >= late
        if ok.sum() > FEW and fits(given[ok], target[index[ok] - late], SHARE):
            return late
    return 0


def _driven(run: Run, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Samples at which the policy alone decided what was sent, and the policy step that each belongs to.

    Left out: before the first and long after the last action, where the safety layer acted, and while the gains were ramped.
    """
    if not len(run.t):
        return np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    index = np.searchsorted(run.t, t + 1e-6, side="right") - 1
    ok = index >= 0
    ok &= t - run.t[np.maximum(index, 0)] < 1.5 * run.dt
    if run.actions is not None:
        ok &= ~np.isnan(run.actions[np.maximum(index, 0)]).any(axis=1)
    if "safety" in run.log:
        state = run.log["safety"]
        names = state.columns
        if "state" in names:
            ok &= run.at("safety", t)[:, names.index("state")] < 0.5
        if "events" in names:
            count = run.at("safety", t)[:, names.index("events")]
            ok &= np.concatenate([[True], np.diff(count) == 0])
    if "motor_kp" in run.log:
        kp = run.at("motor_kp", t)
        top = np.nanmax(kp[ok], axis=0) if ok.any() else kp.max(axis=0)
        ok &= (kp >= (1 - SAME) * top - 1e-9).all(axis=1)
    rows = np.flatnonzero(ok)
    return rows, index[rows]


def _target_guesses(
    run: Run, raw: np.ndarray, time: np.ndarray, places: list[int], index: np.ndarray
) -> Iterator[Guess]:
    """Faults between the action and the motor's target."""
    contract, terms = run.contract, run.contract.action

    def sent(**changes: object) -> np.ndarray:
        there = replace(contract, action=replace(terms, **changes))
        return action(there, raw, time)[:, places][index]

    scale = np.array(terms.scale)
    if np.any(terms.offset):
        words = "the default pose is not added" if terms.kind == "joint_pos_target" else "its offset is not added"
        yield Guess(kind="offset", detail=words, values=lambda: sent(offset=0.0))
    if np.any(terms.lift):
        yield Guess(kind="clock", detail="the rhythm of the gait is not added", values=lambda: sent(lift=0.0))
    yield Guess(kind="scale", detail=f"its scale {scale[0]:.4g} is not applied", values=lambda: sent(scale=1.0))
    for factor in (0.5, 2.0):
        scaled = tuple(factor * scale)
        yield Guess(
            kind="scale",
            detail=f"the action is scaled by {factor:g} times what it should be",
            values=lambda s=scaled: sent(scale=s),
        )
    turned = tuple(-scale)
    yield Guess(kind="sign", detail="the action has the opposite sign", values=lambda: sent(scale=turned))
    if terms.clip is not None:
        yield Guess(kind="clip", detail="the action is not clipped", values=lambda: sent(clip=None))
    if terms.limits is not None:
        yield Guess(kind="clip", detail="the target is not limited", values=lambda: sent(limits=None))
    yield from _mapped(run, raw, time, places, index)


def _mapped(run: Run, raw: np.ndarray, time: np.ndarray, places: list[int], index: np.ndarray) -> Iterator[Guess]:
    """Actions that go to other joints, or with the opposite sign, before the pose is added: found by least squares."""
    contract, terms = run.contract, run.contract.action
    if terms.joints != tuple(contract.joints[p] for p in places):
        return
    zero = action(contract, np.zeros_like(raw), time)[:, places]
    given = run.at(terms.kind, run.log[terms.kind].t)
    rows, _ = _driven(run, run.log[terms.kind].t)
    wanted = (given[rows] - zero[index]) / np.array(terms.scale)
    a = raw[index]
    factor = float((wanted * a).sum() / max((a * a).sum(), 1e-12))
    if abs(factor) > 1e-3 and abs(factor - 1) > 1e-3:
        words = f"the action is scaled by {factor:.4g} times what it should be"
        yield Guess(kind="scale", detail=words, values=lambda: zero[index] + factor * np.array(terms.scale) * a)
    signs = np.where((wanted * a).sum(axis=0) < 0, -1.0, 1.0)
    if (signs < 0).any():
        names = [j for j, s in zip(terms.joints, signs, strict=True) if s < 0]
        words = f"the action of {listed(names)} has the opposite sign"
        yield Guess(kind="sign", detail=words, values=lambda: zero[index] + np.array(terms.scale) * signs * a)
    if raw.shape[1] > 1:
        from scipy.optimize import linear_sum_assignment

        order = linear_sum_assignment(np.abs(wanted[:, :, None] - a[:, None, :]).mean(axis=0))[1]
        if (order != np.arange(len(order))).any():
            words = f"actions go to other joints: {order_in_words(terms.joints, order)}"
            yield Guess(kind="permuted", detail=words, values=lambda: zero[index] + np.array(terms.scale) * a[:, order])


# ---------------------------------------------------------------- gains


def check_gains(run: Run, notes: Notes) -> None:
    """Compare the gains sent to the motors with the contract's."""
    contract = run.contract
    if contract.action.kind != "joint_pos_target":
        return
    for name in ("motor_kp", "motor_kd"):
        meant = getattr(contract, name.removeprefix("motor_"))
        if name not in run.log or meant is None:
            lacks = "the contract states none" if meant is None else f"the log lacks {name}"
            notes.unchecked.append(f"{name}: gains were not compared, {lacks}")
            continue
        _compare_gains(run, name, np.array(meant), notes)


def _compare_gains(run: Run, name: str, meant: np.ndarray, notes: Notes) -> None:
    contract, channel = run.contract, run.log[name]
    rows, _ = _driven(run, channel.t)
    joints = [j for j in contract.joints if j in channel.columns]
    places = [contract.joints.index(j) for j in joints]
    if len(rows) < FEW:
        notes.unchecked.append(f"{name}: too few samples in which the policy drove the motors")
        return
    sent = np.median(run.log[name].values[rows][:, [channel.columns.index(j) for j in joints]], axis=0)
    meant = meant[places]
    off = np.abs(sent - meant) > SAME * np.maximum(np.abs(meant), 1e-9)
    notes.checked.append(f"{name}: gains of {len(joints)} motors compared")
    if not off.any():
        return
    first = int(np.argmax(off))
    other = contract.kd if name == "motor_kp" else contract.kp
    swapped = other is not None and np.allclose(sent, np.array(other)[places], rtol=SAME)
    hint = f": these are the contract's {'kd' if name == 'motor_kp' else 'kp'}" if swapped else ""
    ratio = sent[off] / np.where(meant[off] == 0, np.nan, meant[off])
    same = np.isfinite(ratio).all() and np.ptp(ratio) < SAME * abs(ratio[0])
    words = f"all {ratio[0]:.3g} times" if same and off.all() else f"{int(off.sum())} of {len(off)} differ"
    detail = f"{joints[first]} was sent {sent[first]:.4g}, the contract has {meant[first]:.4g} ({words}){hint}"
    notes.find("action", name, "gains", detail, [j for j, o in zip(joints, off, strict=True) if o])
