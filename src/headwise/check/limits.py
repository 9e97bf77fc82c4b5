"""Whether the error of an answer goes away: tried on many instances, and up a ladder of scales."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from headwise.check.conditions import Size
from headwise.check.evaluate import value
from headwise.check.properties import Property, Trial
from headwise.check.tree import Node, Number, put, symbols
from headwise.check.unreadable import Unreadable
from headwise.check.worlds import INSTANCES, Instance

# Of work, by the clock of the thread: a verdict does not depend on what else the machine does.
SECONDS = 2.0
_RUNGS = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0)
# The first of these are tried always, for answers that turn late; the others as long as the error falls, for scales that help
# slowly, such as a logarithm.
_BEYOND = tuple((0.0, 4.0**power) for power in (10, 14, 18, 22, 26))
_FAR, _SLOWLY = 2, 0.97
# Where the scales above are beyond the range of numbers from the first few on: answers that grow steeply, such as t^20.
_FINE, _FEW = (1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 1.8), 4
_MIDDLING = 16.0
# A scale that is a fixed number is let pass, with a remark, if it leaves no more than this.
_FIXED = 0.01
# What must hold for every scale does not hold by luck.
_ANY = (0.73, 1.9, 5.3)
# A scale that may be this large may be any.
_HIGHEST = 1e6
# The noise that a problem itself names, when an answer is made of it; the answer's own scale grows slowly against it.
_VANISHING = tuple(10.0**-power for power in (4, 8, 12, 16, 20, 24))
# The floor of rounding must be reached where it is no higher than this.
_ROUNDING = 1e-8
# An error that falls like a power need not reach it; by how much it falls over a rung.
_NEARLY, _FALLS = 1e-3, 0.6

# Pairs of the problem's own scale and the answer's.
Ladder = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Reading:
    """An answer that was read and has the right shapes: expressions by name, its own scales, and what was said of them."""

    items: Mapping[str, Node]
    scales: tuple[str, ...] = ()
    sizes: Mapping[str, Size] = field(default_factory=dict)

    def at(self, rung: float) -> dict[str, float]:
        """Return numbers for the scales; different scales grow differently, for nothing says that they are equal."""
        grown = {name: rung * 1.7**place for place, name in enumerate(self.scales)}
        turned = {"small": lambda number: 1 / number, "negative": lambda number: -number}
        found = {name: turned.get(self.size(name).way, float)(number) for name, number in grown.items()}
        for name in self.scales:
            found[name] = max([found[name], *(rung * found[other] for other in self.size(name).above)])
        return found

    def size(self, name: str) -> Size:
        """Return what was said of a scale."""
        return self.sizes.get(name, Size())

    def towards(self, way: str) -> "Reading":
        """Return the same with every scale of which nothing was said going somewhere."""
        turned = {name: replace(self.size(name), way=self.size(name).way or way) for name in self.scales}
        return replace(self, sizes=turned)

    def fixed(self, numbers: Mapping[str, float]) -> "Reading":
        """Return the same with numbers for some scales."""
        known: dict[str, Node] = {name: Number(0, 0, number) for name, number in numbers.items()}
        items = {name: put(node, known) for name, node in self.items.items()}
        return replace(self, items=items, scales=tuple(name for name in self.scales if name not in numbers))


@dataclass(frozen=True)
class Failure:
    """Where an answer fails: the number of the instance, the problem's own scale and the answer's, and what was seen."""

    number: int
    size: float
    rung: float
    trial: Trial
    reading: Reading


@dataclass(frozen=True)
class Outcome:
    """Whether a property holds; the errors up the ladder of the first instance; and where it fails."""

    holds: bool
    errors: tuple[tuple[float, float], ...]
    fixed: bool
    way: str = "large"
    failure: Failure | None = None
    scale: float | None = None


def decided(wanted: Property, reading: Reading, deadline: float) -> Outcome:
    """Try an answer as its scales are said to be: large, small, between two numbers, or nothing said."""
    unsaid = [name for name in reading.scales if not reading.size(name).way]
    bounds = {name: min(high, _HIGHEST) for name in reading.scales if (high := reading.size(name).high) is not None}
    if not wanted.limit:
        return tried(wanted, reading, deadline)
    if not bounds:
        outcome = tried(wanted, reading, deadline)
        return _or_small(wanted, reading, deadline, outcome) if unsaid else outcome
    highest = tried(wanted, reading.fixed(bounds), deadline)
    if not unsaid:
        outcome = tried(wanted, reading, deadline)
        return outcome if highest.holds or not outcome.holds else highest
    lows = {name: low for name in bounds if (low := reading.size(name).low) is not None and low > 0}
    if lows:
        lowest = tried(wanted, reading.fixed({**bounds, **lows}), deadline)
        return highest if lowest.holds else lowest
    return highest if highest.holds else _or_small(wanted, reading, deadline, highest)


def _or_small(wanted: Property, reading: Reading, deadline: float, outcome: Outcome) -> Outcome:
    """Try scales of which nothing was said as small ones, if they fail as large ones."""
    if outcome.holds:
        return outcome
    try:
        small = tried(wanted, reading.towards("small"), deadline)
    except Unreadable:
        return outcome
    return replace(small, way="small") if small.holds else outcome


def tried(wanted: Property, reading: Reading, deadline: float) -> Outcome:
    """Try an answer on every instance."""
    ladder = _ladder(wanted, reading)
    fixed = wanted.limit and len(ladder) == 1
    first: list[tuple[float, float]] = []
    for number in range(INSTANCES):
        trials = _climbed(wanted, reading, number, ladder, deadline)
        first = first or [(size or rung, trial.error) for size, rung, trial in trials]
        if not _holds(wanted, [trial for *_, trial in trials], fixed=fixed):
            unclear = _unclear([trial for *_, trial in trials], len(ladder)) if wanted.limit else ""
            if unclear:
                node = next(iter(reading.items.values()))
                raise Unreadable(unclear, node.start, node.end)
            failure = _telling(wanted, reading, number, trials)
            return Outcome(holds=False, errors=tuple(first), fixed=fixed, failure=failure)
    scale = _one_percent(wanted, reading, first, deadline) if wanted.limit else None
    return Outcome(holds=True, errors=tuple(first), fixed=fixed, scale=scale)


def _holds(wanted: Property, trials: Sequence[Trial], *, fixed: bool) -> bool:
    """Say whether the errors up a ladder are as they must be."""
    if not wanted.limit:
        return all(trial.error <= wanted.tolerance for trial in trials)
    return trials[-1].error <= _FIXED if fixed else _settled(trials)


def _settled(trials: Sequence[Trial]) -> bool:
    """Say whether the error fell to what rounding leaves, where that is little, and stayed there; or falls like a power."""
    there: list[Trial] = []
    for trial in reversed(trials):
        if trial.error > trial.floor:
            break
        there.append(trial)
    if there and min(trial.floor for trial in there) <= _ROUNDING:
        return True
    errors = [trial.error for trial in trials[-4:]]
    falls = all(after <= _FALLS * before for before, after in pairwise(errors))
    return len(errors) == 4 and falls and errors[-1] <= _NEARLY


def _unclear(trials: Sequence[Trial], rungs: int) -> str:
    """Say why errors do not tell whether an answer fails in the limit; nothing if they do."""
    if all(trial.error <= trial.floor for trial in trials):
        return "scores are so large here that rounding hides how far off this is"
    last = [trial.error for trial in trials[-4:]]
    if len(last) == 4 and all(after < _SLOWLY * before for before, after in pairwise(last)):
        return "its error falls too slowly to tell where it ends; take a steeper scale"
    if len(trials) > rungs and all(trial.error <= trial.floor for trial in trials[rungs - 3 : rungs]):
        return "this is right for some large scales and wrong for larger ones; say how large they are"
    return ""


def _climbed(
    wanted: Property, reading: Reading, number: int, ladder: Ladder, deadline: float
) -> list[tuple[float, float, Trial]]:
    """Climb the ladder on one instance, and beyond its end: an answer may turn late, or help slowly."""
    beyond: Ladder = ()
    if ladder[-1][1] == _RUNGS[-1]:
        beyond = _BEYOND
    elif wanted.world.ladder:
        beyond = tuple((size, size**2) for size in (64.0, 128.0, 256.0, 512.0))
    found = _rungs(wanted, reading, number, ladder, deadline)
    if beyond is _BEYOND and len(found) < _FEW:
        return _rungs(wanted, reading, number, tuple((0.0, rung) for rung in _FINE), deadline)
    if len(found) < len(ladder):
        return found
    for one in beyond:
        errors = [trial.error for *_, trial in found]
        settled = _settled([trial for *_, trial in found])
        far = beyond is _BEYOND and len(found) < len(ladder) + _FAR
        if not far and (settled or not errors[-1] < _SLOWLY * errors[-2]):
            break
        more = _rungs(wanted, reading, number, (one,), deadline, found=True)
        if not more:
            break
        found += more
    return found


def _rungs(
    wanted: Property, reading: Reading, number: int, ladder: Ladder, deadline: float, *, found: bool = False
) -> list[tuple[float, float, Trial]]:
    """Try some scales on one instance, up to the range of numbers; the first must be in it, unless others were `found`."""
    trials: list[tuple[float, float, Trial]] = []
    for size, rung in ladder:
        try:
            trials.append((size, rung, at(wanted, reading, wanted.world.draw(number, size), rung, deadline)))
        except Unreadable:
            if not (trials or found) or time.thread_time() > deadline:
                raise
            break
    return trials


def at(wanted: Property, reading: Reading, instance: Instance, rung: float, deadline: float) -> Trial:
    """Try an answer on one instance at one scale."""
    values = replace(instance.values.with_scales(reading.at(rung)), deadline=deadline)
    return wanted.trial(instance, {name: value(node, values) for name, node in reading.items.items()})


def _ladder(wanted: Property, reading: Reading) -> Ladder:
    """Return the scales to try."""
    if wanted.world.ladder:
        return tuple((size, size**2) for size in wanted.world.ladder)
    if any(one.name == wanted.world.vanishing for node in reading.items.values() for one in symbols(node)):
        return tuple((size, size ** (-1 / 8)) for size in _VANISHING)
    if wanted.limit and reading.scales:
        return tuple((0.0, rung) for rung in _RUNGS)
    return tuple((0.0, rung) for rung in (_ANY if reading.scales else _ANY[:1]))


def _telling(wanted: Property, reading: Reading, number: int, trials: Sequence[tuple[float, float, Trial]]) -> Failure:
    """Return the failure in the form that is easiest to look at: at a middling scale if it fails there too."""
    size, rung, trial = next(
        (one for one in trials if max(one[0], one[1]) >= _MIDDLING and one[2].error > _FIXED),
        max(trials, key=lambda one: one[2].error) if not wanted.limit else trials[-1],
    )
    return Failure(number, size, rung, trial, reading)


def _one_percent(wanted: Property, reading: Reading, errors: list[tuple[float, float]], deadline: float) -> float | None:
    """Return the scale at which the error on the first instance falls to one percent."""
    if len(errors) < 2 or wanted.world.ladder or errors[0][0] > errors[-1][0]:
        return next((scale for scale, error in errors if error <= _FIXED), None) if wanted.world.ladder else None
    place = next((i for i, (_, error) in enumerate(errors) if error <= _FIXED), None)
    if place in (None, 0):
        return None if place is None else errors[0][0]
    low, high = errors[place - 1][0], errors[place][0]
    instance = wanted.world.draw(0)
    for _ in range(12):
        middle = float(np.sqrt(low * high))
        if at(wanted, reading, instance, middle, deadline).error > _FIXED:
            low = middle
        else:
            high = middle
    return high
