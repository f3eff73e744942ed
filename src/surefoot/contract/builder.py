"""The one observation builder: training, robot and `verify` all turn readings into observations here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array, is_torch_array

from surefoot.contract.channels import RUNTIME, of_joints
from surefoot.contract.contract import Contract
from surefoot.contract.terms import Group, Term
from surefoot.errors import InputError, choose, did_you_mean

TAU = 2.0 * np.pi


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """Columns `index` of the reading `source` go to the columns `to` of the present frame.

    With `turn` these are angles, to which `turn` is added, and each fills two columns with its sine and cosine.
    """

    source: str
    index: Any  # a slice where the columns are neighbours, else an integer array
    to: slice
    turn: Any = None  # (columns,) float32 or None


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Columns `of` of the frame, `history` steps of them, fill the columns `to` of the observation."""

    name: str
    of: slice
    to: slice
    history: int


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A group made ready: where each column goes, and the rows of numbers applied to the whole frame."""

    group: Group
    width: int
    pieces: tuple[_Piece, ...]
    blocks: tuple[_Block, ...]
    offset: Any  # (width,) or None where all are 0
    scale: Any  # (width,) or None where all are 1
    low: Any  # (width,) or None where nothing is clipped
    high: Any
    mean: Any  # (size,) or None where the builder does not normalise
    std: Any


class Builder:
    """Builds observations as the contract says, for many worlds at once or for one robot.

        obs = clip((y[columns] + offset) · scale)               or clip(scale · (sin, cos)(y[columns] + offset))
        z   = clip((obs − mean) / sqrt(var + eps), ±limit)      only where the contract has the builder do it

    Arithmetic is float32 throughout, whatever the readings are, so that NumPy and torch give the same bits; sine and
    cosine alone are taken in float64 and rounded, for the same reason.
    The builder's only state is the history of each group, the steps since each world's reset (for the clock) and
    which worlds are fresh; `snapshot` and `restore` carry it. In the first observation after a reset the
    history is filled with the first reading, and the last action is 0 whatever was given. A NaN in a
    reading stays a NaN in the observation: repairing it is not the builder's business.
    """

    def __init__(
        self,
        contract: Contract,
        *,
        worlds: int = 1,
        like: Any = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        units: Mapping[str, str] | None = None,
        groups: Sequence[str] | None = None,
    ):
        """Prepare a builder.

        Args:
            contract: what to build.
            worlds: how many worlds stand along axis 0 of every reading.
            like: an array whose library and device are used; NumPy when left out.
            columns: the names of a channel's columns in the order in which its readings come. The builder
                reorders by name. A channel left out comes in the contract's own order: the robot's joints,
                x,y,z, and so on; a channel the contract knows nothing of, in the order of its one term.
            units: unit in which a channel's readings come; one that is not the contract's is refused.
            groups: build only these; all when left out. A robot builds only what it has sensors for.
        """
        like = np.empty(0, dtype=np.float32) if like is None else like
        if not is_numpy_array(like) and not is_torch_array(like):
            raise InputError(f"a builder works on NumPy or torch arrays, `like` is a {type(like).__name__}")
        if not isinstance(worlds, int) or worlds < 1:
            raise InputError(f"worlds must be a whole number from 1, got {worlds!r}")
        self.contract = contract
        self.worlds = worlds
        self._xp = array_namespace(like)
        self._device = device(like)
        self._kind = np.ndarray if is_numpy_array(like) else type(self._xp.empty(0))
        names = [g.name for g in contract.groups] if groups is None else list(groups)
        chosen = [contract.group(name) for name in names]
        self._columns = _channel_columns(contract, chosen, columns or {})
        _check_units(chosen, units or {})
        self._plans = tuple(self._plan(group) for group in chosen)
        self._sources = tuple(dict.fromkeys(piece.source for plan in self._plans for piece in plan.pieces))
        self._shapes = {source: (worlds, len(self._columns[source])) for source in self._sources}
        self._rings: dict[str, Any] = {}  # name -> (worlds, 2 history, width): every step is kept twice
        for plan in self._plans:
            for block in plan.blocks:
                if block.history > 1:
                    width = block.of.stop - block.of.start
                    self._rings[block.name] = self._zeros((worlds, 2 * block.history, width))
        self._heads = dict.fromkeys(self._rings, 0)
        self.captured = False
        """Whether calls of `observe` are recorded and replayed (on a GPU): then histories are moved, not turned, and begin
        elsewhere."""
        self._steps = self._zeros((worlds,), "float64")
        self._fresh = self._zeros((worlds,), "bool")
        self.reset()

    @property
    def sources(self) -> tuple[str, ...]:
        """Channels that `observe` needs in its readings."""
        return tuple(source for source in self._sources if source not in RUNTIME)

    def reset(self, ids: Any = None) -> None:
        """Forget the past of the worlds `ids` (all when left out); their next observation starts anew."""
        try:
            self._fresh[slice(None) if ids is None else ids] = True
            self._steps[slice(None) if ids is None else ids] = 0
        except IndexError:
            raise InputError(f"reset of a world that is not there: this builder has {self.worlds} worlds") from None
        self._any_fresh = True

    def observe(self, readings: Mapping[str, Any], last_action: Any = None, command: Any = None) -> dict[str, Any]:
        """One observation per group; call it once per control step, it moves the history on.

        Args:
            readings: channel -> (worlds, k), at least those in `sources`; with one world (k,) will do.
            last_action: raw output of the policy at the previous step, (worlds, actions); may be left out
                while every world is fresh.
            command: (worlds, commands), in the order of the contract's commands.

        Returns:
            group -> (worlds, size), float32, new arrays that the builder does not touch again.
        """
        y = self._checked(readings, last_action, command)
        found = {plan.group.name: self._observe(plan, y) for plan in self._plans}
        self._steps += 1
        if self._any_fresh:
            self._fresh[:] = False
            self._any_fresh = False
        return found

    def restart(self, ids: Any, readings: Mapping[str, Any], command: Any = None) -> dict[str, Any]:
        """First observations of worlds `ids` that were reset after this step's `observe`, group -> (len(ids), size).

        As if `observe` had been called for these worlds alone: their history is filled with this reading, the last action
        is 0, the clock starts.

        Args:
            ids: worlds, (k,) integers.
            readings: channel -> (k, columns), rows for `ids` alone.
            command: (k, commands).
        """
        part = Builder.__new__(Builder)
        part.__dict__.update(self.__dict__)
        part.worlds = len(ids)
        part._shapes = {source: (part.worlds, shape[1]) for source, shape in self._shapes.items()}
        part._rings = {name: self._zeros((part.worlds, *ring.shape[1:])) for name, ring in self._rings.items()}
        part._heads = dict.fromkeys(part._rings, 0)
        part._steps, part._fresh = self._zeros((part.worlds,), "float64"), self._zeros((part.worlds,), "bool")
        part.reset()
        found = part.observe(readings, command=command)
        for name, ring in self._rings.items():
            ring[ids] = part._rings[name]
        self._steps[ids], self._fresh[ids] = part._steps, False
        return found

    # ---------------------------------------------------------------- for steps that are recorded and replayed

    @property
    def histories(self) -> dict[str, tuple[int, int]]:
        """Steps and width of every history that is kept, by name."""
        return {name: (ring.shape[1] // 2, ring.shape[2]) for name, ring in self._rings.items()}

    def capture(self, rings: Mapping[str, Any]) -> None:
        """Keep the histories in `rings` (worlds, history, width) from now on, moved by every `observe`, never turned round.

        Worlds begin elsewhere: whoever copies the first histories into the rings says so by `begun`.
        """
        self._rings, self.captured = dict(rings), True
        self._fresh[:] = False
        self._any_fresh = False

    @property
    def steps(self) -> Any:
        """Observations since each world's reset, (worlds,), live."""
        return self._steps

    def begun(self, mask: Any) -> None:
        """The worlds of the mask (worlds,) have just had their first observation, made by another builder."""
        self._steps[:] = self._xp.where(mask, self._xp.ones_like(self._steps), self._steps)

    def as_captured(self) -> dict[str, Any]:
        """The histories in the order in which a builder after `capture` keeps them, by name."""
        found = {name: value for name, value in self.snapshot().items() if name in self._rings}
        return {name: self._flipped(past) if self._newest_first(name) else past for name, past in found.items()}

    def snapshot(self) -> dict[str, Any]:
        """The whole state as arrays by name: histories oldest first, (worlds, history, width)."""
        state = {"fresh": self._copy(self._fresh), "steps": self._copy(self._steps)}
        for name, ring in self._rings.items():
            start, history = self._heads[name], ring.shape[1] // 2
            past = ring[:, start : start + history]
            state[name] = self._copy(self._flipped(past) if self._newest_first(name) else past)
        return state

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to a snapshot of a builder of the same contract and number of worlds."""
        expected = {name: tuple(value.shape) for name, value in self.snapshot().items()}
        given = {name: tuple(value.shape) for name, value in snapshot.items()}
        if expected != given:
            wrong = sorted(name for name in {*expected, *given} if expected.get(name) != given.get(name))
            raise InputError(
                f"this snapshot is of another builder: {wrong[0]!r} has shape {given.get(wrong[0])},"
                f" here it is {expected.get(wrong[0])}"
            )
        self._fresh[:] = self._xp.asarray(snapshot["fresh"], device=self._device)
        self._steps[:] = self._xp.asarray(snapshot["steps"], device=self._device)
        self._any_fresh = bool(self._fresh.any())
        for name, ring in self._rings.items():
            past = self._xp.asarray(snapshot[name], device=self._device)
            past = self._flipped(past) if self._newest_first(name) else past
            history = ring.shape[1] // 2
            ring[:, :history], ring[:, history:] = past, past
            self._heads[name] = 0

    def _plan(self, group: Group) -> _Plan:
        pieces, blocks, at, out = [], [], 0, 0
        for term in group.terms:
            to = slice(at, at + len(term.entries))
            turn = self._row(term.offset) if term.turn else None
            pieces.append(_Piece(source=term.source, index=self._index(term), to=to, turn=turn))
            if group.stack == "term":
                name = f"{group.name}/{term.name}"
                blocks.append(_Block(name=name, of=to, to=slice(out, out + term.size), history=term.history))
            at, out = to.stop, out + term.size
        if group.stack == "step":
            whole = slice(0, at)
            blocks = [_Block(name=f"{group.name}/*", of=whole, to=slice(0, out), history=group.terms[0].history)]
        offset = np.concatenate([np.zeros(len(t.entries)) if t.turn else t.offset for t in group.terms])
        scale = np.concatenate([term.scale for term in group.terms])
        low, high = _clip_rows(group)
        norm = group.normaliser if group.normaliser and group.normaliser.by == "builder" else None
        return _Plan(
            group=group,
            width=at,
            pieces=tuple(pieces),
            blocks=tuple(blocks),
            offset=self._row(offset) if np.any(offset != 0) else None,
            scale=self._row(scale) if np.any(scale != 1) else None,
            low=None if low is None else self._row(low),
            high=None if high is None else self._row(high),
            mean=None if norm is None else self._row(norm.mean),
            std=None if norm is None else self._row(np.sqrt(np.asarray(norm.var) + norm.eps)),
        )

    def _index(self, term: Term) -> Any:
        """Where the term's columns stand in its channel: a slice where they are neighbours in order."""
        have = self._columns[term.source]
        places = [have.index(column) for column in term.columns]
        if places == list(range(places[0], places[0] + len(places))):
            return slice(places[0], places[0] + len(places))
        return self._xp.asarray(np.array(places), device=self._device)

    def _observe(self, plan: _Plan, y: Mapping[str, Any]) -> Any:
        frame = self._xp.empty((self.worlds, plan.width), dtype=self._xp.float32, device=self._device)
        for piece in plan.pieces:
            value = y[piece.source][:, piece.index]
            frame[:, piece.to] = value if piece.turn is None else self._turned(value, piece.turn)
            if self._any_fresh and piece.source == "last_action":
                frame[self._fresh, piece.to] = 0
        if plan.offset is not None:
            frame += plan.offset
        if plan.scale is not None:
            frame *= plan.scale
        if plan.low is not None:
            self._xp.maximum(frame, plan.low, out=frame)
            self._xp.minimum(frame, plan.high, out=frame)
        obs = frame
        if any(block.history > 1 for block in plan.blocks):
            obs = self._xp.empty((self.worlds, plan.group.size), dtype=self._xp.float32, device=self._device)
            for block in plan.blocks:
                obs[:, block.to] = self._remember(block, frame, plan.group.order)
        if plan.mean is not None:
            obs -= plan.mean
            obs /= plan.std
            limit = plan.group.normaliser.limit if plan.group.normaliser else None
            obs = obs if limit is None else self._xp.clip(obs, -limit, limit)
        return obs

    def _turned(self, value: Any, offset: Any) -> Any:
        """sin and cos of value + offset, side by side, (worlds, 2 columns)."""
        angle = self._xp.astype(self._xp.astype(value, self._xp.float32) + offset, self._xp.float64)
        return self._xp.reshape(self._xp.stack((self._xp.sin(angle), self._xp.cos(angle)), axis=2), (self.worlds, -1))

    def _remember(self, block: _Block, frame: Any, order: str) -> Any:
        """Put the present frame into the block's ring and return its history in order, (worlds, history · width)."""
        now = frame[:, block.of]
        if block.history == 1:
            return now
        ring, head, history = self._rings[block.name], self._heads[block.name], block.history
        if self.captured:
            past = ring[:, :history]
            parts = (past[:, 1:], now[:, None]) if order == "oldest-first" else (now[:, None], past[:, :-1])
            ring[:, :history] = self._xp.concat(parts, axis=1)
            return self._xp.reshape(ring[:, :history], (self.worlds, -1))
        at = head if order == "oldest-first" else (head - 1) % history
        ring[:, at] = now
        ring[:, at + history] = now
        if self._any_fresh:
            ring[self._fresh] = now[self._fresh][:, None, :]
        self._heads[block.name] = start = (at + 1) % history if order == "oldest-first" else at
        return self._xp.reshape(ring[:, start : start + history], (self.worlds, -1))

    def _checked(self, readings: Mapping[str, Any], last_action: Any, command: Any) -> dict[str, Any]:
        """Readings of every source, (worlds, k) each, of this builder's array library."""
        found = {}
        for source in self._sources:
            if source == "clock":
                found[source] = self._clock()
                continue
            if source == "last_action":
                value = self._first_action() if last_action is None else last_action
            elif source == "command":
                value = command
            elif source in readings:
                value = readings[source]
            else:
                raise InputError(f"the readings lack the channel {source!r} {did_you_mean(source, readings)}")
            if not isinstance(value, self._kind):
                raise InputError(
                    f"{source!r} must be a {self._kind.__module__}.{self._kind.__name__} as this builder was made"
                    f" for, got {'nothing' if value is None else type(value).__name__}"
                )
            if self.worlds == 1 and value.ndim == 1:
                value = value[None, :]
            if tuple(value.shape) != self._shapes[source]:
                names = ", ".join(self._columns[source])
                raise InputError(
                    f"{source!r} must have shape {self._shapes[source]}, (worlds, columns: {names}),"
                    f" got {tuple(value.shape)}"
                )
            found[source] = value if self._kind is np.ndarray else value.detach()
        return found

    def _first_action(self) -> Any:
        if not bool(self._fresh.all()):
            raise InputError("last_action may be left out only in the first observation after a reset of all worlds")
        return self._zeros(self._shapes["last_action"])

    def _clock(self) -> Any:
        """sin, cos and phase of the time since each world's reset, (worlds, 3); in float64, rounded later."""
        period = self.contract.clock_period or self.contract.control_dt
        phase = (self._steps * (self.contract.control_dt / period)) % 1.0
        return self._xp.stack((self._xp.sin(TAU * phase), self._xp.cos(TAU * phase), phase), axis=1)

    def _newest_first(self, ring: str) -> bool:
        return self.contract.group(ring.partition("/")[0]).order == "newest-first"

    def _zeros(self, shape: tuple[int, ...], dtype: str = "float32") -> Any:
        return self._xp.zeros(shape, dtype=getattr(self._xp, dtype), device=self._device)

    def _row(self, values: Any) -> Any:
        row = np.asarray(values, dtype=np.float64).astype(np.float32)
        return self._xp.asarray(row, device=self._device)

    def _flipped(self, past: Any) -> Any:
        return self._xp.flip(past, axis=1)

    def _copy(self, value: Any) -> Any:
        return self._xp.asarray(value, copy=True)


def _clip_rows(group: Group) -> tuple[Any, Any]:
    """Lower and upper clip of every column of the frame, infinite where a term has none; None where none has."""
    if all(term.clip is None for term in group.terms):
        return None, None
    sides = []
    for side, none in ((0, -np.inf), (1, np.inf)):
        parts = [np.full(len(t.entries), none) if t.clip is None else np.asarray(t.clip[side]) for t in group.terms]
        sides.append(np.concatenate(parts))
    return sides[0], sides[1]


def _channel_columns(
    contract: Contract, groups: Sequence[Group], given: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Columns in which each source's readings come, checked against every term that reads them."""
    found: dict[str, tuple[str, ...]] = {}
    for group in groups:
        for term in group.terms:
            source = term.source
            if source in given and source not in RUNTIME:
                have = tuple(given[source])
            else:
                have = contract.columns(source) or found.get(source, term.columns)
            _check_columns(contract, term, have)
            found[source] = have
    return found


def _check_columns(contract: Contract, term: Term, have: tuple[str, ...]) -> None:
    where = f"channel {term.source!r}"
    twice = [name for name in have if have.count(name) > 1]
    if twice:
        raise InputError(f"{where} has the column {twice[0]!r} twice")
    if of_joints(term.source):
        for name in have:
            choose(name, contract.joints, f"a joint of {contract.robot!r}, yet {where} has it")
    for name in term.columns:
        choose(name, have, f"a column of {where}, which term {term.name!r} needs")


def _check_units(groups: Sequence[Group], units: Mapping[str, str]) -> None:
    for group in groups:
        for term in group.terms:
            unit = units.get(term.source, term.unit)
            if unit != term.unit:
                raise InputError(
                    f"channel {term.source!r} comes in {unit}, term {term.name!r} of group {group.name!r} wants"
                    f" {term.unit}: convert it where it is read"
                )
