"""One answer, from its text to a verdict."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwise.check.conditions import holds_at, sizes
from headwise.check.evaluate import Values
from headwise.check.given import Given, as_read, given
from headwise.check.grammar import Written
from headwise.check.heads import same_queries, unsteady
from headwise.check.inequality import inequality, not_enough, refuted
from headwise.check.limits import SECONDS, Outcome, Reading, decided
from headwise.check.properties import Property
from headwise.check.repairs import Mistake, known_number, look_alike, mistake
from headwise.check.scope import SCALAR, free, shape, words
from headwise.check.sheet import Problem
from headwise.check.snippets import mismatch, snippet
from headwise.check.tree import Node, Symbol, Transposed, symbols
from headwise.check.unreadable import Unreadable
from headwise.check.verdict import Counterexample, Verdict
from headwise.check.words import word

_MOST_SCALES = 4
# What makes an inequality one for some keys only.
_FOR_ONE = re.compile(r"\b(?:some|exists?|at least one)\b|∃|\\exists\b", re.IGNORECASE)
# A scale and a noise at which conditions on both are tried.
_SCALE, _NOISE = 10.0, 1e-16
# Scales at which other conditions on them are tried.
_HIGH = (64.0, 4096.0)
# Reading, trying and looking for known mistakes take no longer than this together.
_TRYING, _ALL = 0.5 * SECONDS, 0.8 * SECONDS


def marked(problem: Problem, text: str) -> Verdict:
    """Return the verdict on an answer; whatever the text is, there is one, and a class is marked to its end."""
    try:
        return judged(problem, text)
    except Exception as error:  # noqa: BLE001  a mistake of ours must not stop the marking of others
        said = f"this could not be marked, for headwise itself failed ({type(error).__name__})"
        return Verdict(problem.part, text, "unreadable", problem=said)


def judged(problem: Problem, text: str) -> Verdict:
    """Return the verdict on an answer."""
    try:
        if problem.kind == "word":
            known = word(problem, text)
            return Verdict(problem.part, text, "right") if known is None else _wrong(problem, text, "", known)
        if problem.wanted is None:
            return _condition(problem, text)
        return _Marking(problem, problem.wanted, text, time.thread_time()).verdict()
    except Unreadable as error:
        return Verdict(problem.part, text, "unreadable", problem=error.shown(text))
    except RecursionError:
        return Verdict(problem.part, text, "unreadable", problem=Unreadable("this nests too deep", 0, 1).shown(text))


def _condition(problem: Problem, text: str) -> Verdict:
    """Mark an inequality between scores."""
    for one in _FOR_ONE.finditer(text):
        raise Unreadable("expected an inequality for every other key, but this is said of some", *one.span())
    relation, deadline = inequality(as_read(problem, text)), time.thread_time() + _ALL
    example = refuted(relation, deadline)
    if example is not None:
        return _wrong(problem, text, example.sentence, None, example=example)
    missing = not_enough(relation, deadline)
    if missing is not None:
        return _wrong(problem, text, missing[1].sentence, missing[0], example=missing[1])
    return Verdict(problem.part, text, "right")


@dataclass(frozen=True)
class _Marking:
    """An expression that is being marked."""

    problem: Problem
    wanted: Property
    text: str
    start: float

    def verdict(self) -> Verdict:
        written = as_read(self.problem, self.text)
        found = given(self.wanted, written)
        self.refuse_loud(written)
        items, remarks, misfit = self.shaped(found.items)
        if misfit is not None:
            self.refuse_others(found, items, holds=False)
            known = look_alike(self.wanted, items, self.start + _ALL)
            return _wrong(self.problem, self.text, misfit.sentence, known, remarks=remarks, example=misfit)
        scales = self.scales(items)
        reading = Reading(items, scales, sizes(found.conditions, scales))
        self.refuse_contrary(written, reading)
        outcome = decided(self.wanted, reading, self.start + _TRYING)
        self.refuse_others(found, items, holds=outcome.holds, sizes_of=reading)
        if not outcome.holds:
            return self.failed(outcome, reading, remarks)
        same = same_queries(self.wanted, reading)
        if same is not None:
            return _wrong(self.problem, self.text, same[1].sentence, same[0], remarks=remarks, example=same[1])
        remarks += [*self.remarks(reading, outcome), *unsteady(self.wanted, reading)]
        return Verdict(
            self.problem.part,
            self.text,
            "remark" if remarks else "right",
            remarks,
            scale_for_one_percent=outcome.scale if not outcome.fixed and outcome.way == "large" else None,
            errors=outcome.errors if self.wanted.limit else (),
        )

    def refuse_loud(self, written: Written) -> None:
        """Refuse scales that are to outgrow the noise, which is small only beside them: t >> 1/alpha."""
        name = self.wanted.world.vanishing
        for one in written.relations:
            named = {symbol.said for side in (one.left, one.right) for symbol in symbols(side)}
            if name in named and not holds_at(one, Values({}, scales={**dict.fromkeys(named, _SCALE), name: _NOISE})):
                raise Unreadable(
                    f"the noise {name} is small beside any scale here, but this asks for the contrary", one.start, one.end
                )

    def refuse_contrary(self, written: Written, reading: Reading) -> None:
        """Refuse what is said of scales if it is no bound on one of them, and is not so as they grow: t^2 < 1."""
        values = self.wanted.world.draw(0, next(iter(self.wanted.world.ladder), _NOISE)).values
        for one in written.relations:
            used = {symbol.said for side in (one.left, one.right) for symbol in symbols(side)} & set(reading.scales)
            if not used or any(isinstance(side, Symbol) and side.said in used for side in (one.left, one.right)):
                continue
            if any(shape(side, self.wanted.world.scope) != SCALAR for side in (one.left, one.right)):
                raise Unreadable("only numbers can be compared", one.start, one.end)
            if not any(holds_at(one, values.with_scales(reading.at(rung))) for rung in _HIGH):
                raise Unreadable("this is not so as the scales grow; say how they grow", one.start, one.end)

    def shaped(self, items: Mapping[str, Node]) -> tuple[dict[str, Node], list[str], Counterexample | None]:
        """Check shapes; a row for a column is turned, with a remark."""
        found, remarks = dict(items), []  # type: dict[str, Node], list[str]
        for name, goal in self.wanted.give.items():
            node = found[name]
            seen = shape(node, self.wanted.world.scope)
            if seen == (goal[1], goal[0]) != goal and "1" in goal:
                found[name] = Transposed(node.start, node.end, node)
                remarks.append(f"{name} is a column; this was read as its transpose")
            elif seen != goal:
                said = f"{name} must be {words(goal)}, but this is {words(seen)}"
                return found, remarks, mismatch(self.wanted, name, node, said)
        return found, remarks, None

    def scales(self, items: Mapping[str, Node]) -> tuple[str, ...]:
        """Return the letters that the problem does not name."""
        found = tuple(dict.fromkeys(name for node in items.values() for name in free(node, self.wanted.world.scope)))
        if len(found) > _MOST_SCALES:
            extra = next(one for node in items.values() for one in symbols(node) if one.said == found[_MOST_SCALES])
            said = f"at most {_MOST_SCALES} new letters are read, but there are {', '.join(found)}"
            raise Unreadable(said, extra.start, extra.end)
        return found

    def refuse_others(self, found: Given, items: Mapping[str, Node], *, holds: bool, sizes_of: Reading | None = None) -> None:
        """Refuse an answer that was given twice, once right and once wrong."""
        for other in found.others:
            try:
                shaped, _, misfit = self.shaped(other)
                scales = self.scales(shaped)
                reading = Reading(shaped, scales, sizes_of.sizes if sizes_of is not None else {})
                fine = misfit is None and decided(self.wanted, reading, self.start + _ALL).holds
            except Unreadable:
                fine = False
            if fine != holds:
                place = next(node for name, node in other.items() if node is not items.get(name))
                raise Unreadable("this gives two different answers; give the one that counts", place.start, place.end)

    def failed(self, outcome: Outcome, reading: Reading, remarks: Sequence[str]) -> Verdict:
        """Say what is wrong, with a known mistake if there is one."""
        known = known_number(self.problem.mistakes, self.wanted, reading) or mistake(
            self.wanted, reading, outcome, self.start + _ALL
        )
        failure = outcome.failure
        example = None if failure is None else snippet(self.wanted, failure)
        said = example.sentence if example is not None else ""
        return replace(_wrong(self.problem, self.text, said, known, remarks=remarks, example=example), errors=outcome.errors)

    def remarks(self, reading: Reading, outcome: Outcome) -> list[str]:
        """Remark on what a right answer leaves open."""
        found = []
        names = self.wanted.world.scope.names
        if "mu" in names and any(one.name == "k" for node in reading.items.values() for one in symbols(node)):
            found.append("the keys themselves are random and not known; write mu for k")
        if outcome.fixed:
            error = max(error for _, error in outcome.errors)
            count = len(self.wanted.world.draw(0).arrays.get("keys", ()))
            where = f"{error:.2g} with {count} keys" if count else f"{error:.2g}"
            found.append(f"a fixed factor leaves an error ({where}); one that may grow makes it as small as you like")
        elif self.wanted.limit:
            unsaid = [name for name in reading.scales if not reading.size(name).way]
            if unsaid:
                found.append(f"say that {' and '.join(unsaid)} must be {outcome.way}")
        return found


def _wrong(
    problem: Problem,
    text: str,
    said: str,
    known: Mistake | None,
    *,
    remarks: Sequence[str] = (),
    example: Counterexample | None = None,
) -> Verdict:
    return Verdict(
        problem.part,
        text,
        "wrong",
        remarks,
        said,
        known.name if known else "",
        known.help if known else "",
        counterexample=example,
    )
