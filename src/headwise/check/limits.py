"""Whether the error of an answer goes away: tried on many instances, and up a ladder of scales."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headwise.check.evaluate import value
from headwise.check.properties import Property, Trial
from headwise.check.tree import Node
from headwise.check.unreadable import Unreadable
from headwise.check.worlds import INSTANCES, Instance

SECONDS = 2.0
_RUNGS = tuple(4.0**power for power in range(8))
# Tried only as long as the error falls, for scales that help slowly, such as a logarithm.
_BEYOND = tuple((0.0, 4.0**power) for power in (10, 14, 18, 22, 26))
_MIDDLING = 16.0
# A scale that is a fixed number is let pass, with a remark, if it leaves no more than this.
_FIXED = 0.01


# Pairs of the problem's own scale and the answer's.
Ladder = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Reading:
    """An answer that was read and has the right shapes: expressions by name, its own scales, and what was said of them."""

    items: Mapping[str, Node]
    scales: tuple[str, ...] = ()
    sizes: Mapping[str, str | None] | None = None

    def at(self, rung: float) -> dict[str, float]:
        """Return numbers for the scales; different scales grow differently, for nothing says that they are equal."""
        sizes = self.sizes or {}
        grown = {name: rung * 1.7**place for place, name in enumerate(self.scales)}
        turned = {"small": lambda number: 1 / number, "negative": lambda number: -number}
        return {name: turned.get(sizes.get(name) or "", float)(number) for name, number in grown.items()}


@dataclass(frozen=True)
class Outcome:
    """Whether a property holds; the errors up the ladder of the first instance; and where it fails."""

    holds: bool
    errors: tuple[tuple[float, float], ...]
    fixed: bool
    failure: Trial | None = None
    scale: float | None = None


def tried(wanted: Property, reading: Reading, seconds: float = SECONDS) -> Outcome:
    """Try an answer on every instance."""
    deadline = time.monotonic() + seconds
    ladder = _ladder(wanted, reading)
    fixed = wanted.limit and len(ladder) == 1
    allowed = _FIXED if fixed else wanted.tolerance
    first: list[tuple[float, float]] = []
    for number in range(INSTANCES):
        errors, last = _climbed(wanted, reading, number, ladder, allowed, deadline)
        first = first or errors
        if not errors[-1][1] <= allowed or errors[-1][1] > max(errors[0][1], allowed):
            failure = _telling(wanted, reading, number, ladder, last)
            return Outcome(holds=False, errors=tuple(first), fixed=fixed, failure=failure)
    scale = _one_percent(wanted, reading, first, deadline) if wanted.limit else None
    return Outcome(holds=True, errors=tuple(first), fixed=fixed, scale=scale)


def _climbed(
    wanted: Property, reading: Reading, number: int, ladder: Ladder, allowed: float, deadline: float
) -> tuple[list[tuple[float, float]], Trial]:
    """Climb the ladder on one instance; beyond its end as long as the error is too large but falls."""
    errors: list[tuple[float, float]] = []
    last: Trial | None = None
    beyond = _BEYOND if ladder[-1][1] == _RUNGS[-1] else ()
    for size, rung in (*ladder, *beyond):
        if len(errors) >= len(ladder) and not allowed < errors[-1][1] < 0.9 * errors[-2][1]:
            break
        try:
            last = at(wanted, reading, wanted.world.draw(number, size), rung, deadline)
        except Unreadable:
            if last is None or time.monotonic() > deadline:
                raise
            break  # beyond the range of numbers; what came before must do
        errors.append((size or rung, last.error))
    assert last is not None  # noqa: S101  a ladder has a rung
    return errors, last


def at(wanted: Property, reading: Reading, instance: Instance, rung: float, deadline: float) -> Trial:
    """Try an answer on one instance at one scale."""
    values = replace(instance.values.with_scales(reading.at(rung)), deadline=deadline)
    return wanted.trial(instance, {name: value(node, values) for name, node in reading.items.items()})


def _ladder(wanted: Property, reading: Reading) -> Ladder:
    """Return the scales to try."""
    if wanted.world.ladder:
        return tuple((size, size**2) for size in wanted.world.ladder)
    if wanted.limit and reading.scales:
        return tuple((0.0, rung) for rung in _RUNGS)
    # A number like any other: what must hold for every scale does not hold by luck.
    return ((0.0, 0.73),)


def _telling(wanted: Property, reading: Reading, number: int, ladder: Ladder, last: Trial) -> Trial:
    """Return the failure in the form that is easiest to look at: at a middling scale if it fails there too."""
    for size, rung in ladder:
        if max(size, rung) < _MIDDLING:
            continue
        try:
            found = at(wanted, reading, wanted.world.draw(number, size), rung, time.monotonic() + SECONDS / 10)
        except Unreadable:
            break
        if found.error > _FIXED:
            return found
    return last


def _one_percent(wanted: Property, reading: Reading, errors: list[tuple[float, float]], deadline: float) -> float | None:
    """Return the scale at which the error on the first instance falls to one percent."""
    if len(errors) < 2 or wanted.world.ladder:
        return next((scale for scale, error in errors if error <= _FIXED), None)
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
