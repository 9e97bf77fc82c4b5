"""One answer, from its text to a verdict."""

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from headwise.check.evaluate import value
from headwise.check.grammar import Item, read
from headwise.check.limits import Outcome, Reading, tried
from headwise.check.properties import Average, Property, margins
from headwise.check.repairs import Mistake, look_alike, mistake
from headwise.check.scope import free, shape, words
from headwise.check.sheet import Problem
from headwise.check.tree import Node, Number, Relation, Symbol, Transposed, children
from headwise.check.unreadable import Unreadable
from headwise.check.verdict import Counterexample, Verdict
from headwise.check.worlds import Scored
from headwise.core.random_keys import RandomKeys
from headwise.stress import law

_MOST_SCALES = 4
_LONGEST_WORD = 400


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
            return _word(problem, text)
        if problem.kind == "condition":
            return _condition(problem, text)
        assert problem.wanted is not None  # noqa: S101  only the two kinds above have none
        return _expression(problem, problem.wanted, text)
    except Unreadable as error:
        return Verdict(problem.part, text, "unreadable", problem=error.shown(text))
    except RecursionError:
        return Verdict(problem.part, text, "unreadable", problem="this nests too deep")


def _expression(problem: Problem, wanted: Property, text: str) -> Verdict:
    if problem.kind == "number":  # Var(c) = 1/4 + 1/4 = 1/2: the last is the answer
        text = re.split(r"[=≈]|\\\\approx", text)[-1] if re.search(r"[=≈]|\\\\approx", text) else text
    written = read(text, _known(wanted))
    remarks: list[str] = []
    fixed = {
        item.name: item.body for item in written.items if item.name not in _names(wanted) and isinstance(item.body, Number)
    }
    items = _items(wanted, tuple(item for item in written.items if item.name not in fixed or item.name is None))
    items = {name: _put(node, fixed) for name, node in items.items()}
    for name, goal in wanted.give.items():
        node = items[name]
        found = shape(node, wanted.world.scope)
        if found == (goal[1], goal[0]) != goal and "1" in goal:
            items[name] = Transposed(node.start, node.end, node)
            remarks.append(f"{name} is a column; this was read as its transpose")
        elif found != goal:
            said = f"{name} must be {words(goal)}, but this is {words(found)}"
            return _wrong(problem, text, said, look_alike(wanted, items), None, remarks)
    scales = tuple(dict.fromkeys(name for node in items.values() for name in free(node, wanted.world.scope)))
    if len(scales) > _MOST_SCALES:
        raise Unreadable(f"at most {_MOST_SCALES} new letters are read, but there are {', '.join(scales)}", 0, 1)
    sizes = {one.scale: one.size for one in written.conditions if one.scale in scales}
    reading = Reading(items, scales, {name: size for name, size in sizes.items() if name is not None})
    outcome = tried(wanted, reading)
    if not outcome.holds:
        return _wrong(problem, text, "", _known_number(problem, wanted, reading) or mistake(wanted, reading), outcome, remarks)
    same = _same_queries(wanted, reading)
    if same is not None:
        return _wrong(problem, text, "the queries are equal, so this is one head", same, None, remarks)
    if "mu" in wanted.world.scope.names and any(_uses(node, "k") for node in items.values()):
        remarks.append("the keys themselves are random and not known; write mu for k")
    remarks += _remarks(wanted, reading, outcome)
    return Verdict(
        problem.part,
        text,
        "remark" if remarks else "right",
        remarks,
        scale_for_one_percent=outcome.scale if not outcome.fixed else None,
        errors=outcome.errors if wanted.limit else (),
    )


def _names(wanted: Property) -> set[str | None]:
    """Return the names under which things are asked for, as students may write them."""
    return {None, *wanted.give, *(name.replace("_", "") for name in wanted.give)}


def _put(node: Node, fixed: Mapping[str | None, Node | Relation]) -> Node:
    """Put numbers for scales that an answer fixes, as in t = 1000."""
    if isinstance(node, Symbol):
        found = fixed.get(node.said)
        return found if isinstance(found, Number) else node
    parts = {name: _put(part, fixed) for name, part in vars(node).items() if any(part is one for one in children(node))}
    return replace(node, **parts) if parts else node  # type: ignore[arg-type]


def _known(wanted: Property) -> frozenset[str]:
    """Return the names that letters are cut into."""
    given = {name.partition("_")[0] for name in wanted.give}
    return frozenset(wanted.world.scope.names) | given


def _items(wanted: Property, written: tuple[Item, ...]) -> dict[str, Node]:
    """Match what was given with what is asked for."""
    names, found = list(wanted.give), {}  # type: list[str], dict[str, Node]
    unnamed = [item for item in written if item.name is None]
    for item in written:
        if isinstance(item.body, Relation):
            raise Unreadable(f"expected {' and '.join(names)}, but this is a relation", item.body.start, item.body.end)
        if item.name is None:
            continue
        name = next((one for one in names if one.replace("_", "") == item.name.replace("_", "")), None)
        if name is None or name in found:
            what = "is given twice" if name else f"is not asked for, but {' and '.join(names)}"
            raise Unreadable(f"{item.name} {what}", item.body.start, item.body.end)
        found[name] = item.body
    rest = [name for name in names if name not in found]
    if len(unnamed) > len(rest):
        extra = unnamed[len(rest)].body
        raise Unreadable(f"expected {' and '.join(names)}, but there is more", extra.start, extra.end)
    for name, item in zip(rest, unnamed, strict=False):
        assert not isinstance(item.body, Relation)  # noqa: S101  refused above
        found[name] = item.body
    missing = [name for name in names if name not in found]
    if missing:
        end = written[-1].body.end
        raise Unreadable(f"expected {' and '.join(names)}, but {' and '.join(missing)} is missing", end, end + 1)
    return {name: found[name] for name in names}


def _wrong(
    problem: Problem, text: str, said: str, known: Mistake | None, outcome: Outcome | None, remarks: list[str]
) -> Verdict:
    failure = outcome.failure if outcome is not None else None
    example = None if failure is None else Counterexample(failure.sentence, failure.data, failure.code)
    return Verdict(
        problem.part,
        text,
        "wrong",
        remarks,
        said or (failure.sentence if failure else ""),
        known.name if known else "",
        known.help if known else "",
        errors=outcome.errors if outcome is not None else (),
        counterexample=example,
    )


def _uses(node: Node, name: str) -> bool:
    return (isinstance(node, Symbol) and node.name == name) or any(_uses(part, name) for part in children(node))


def _remarks(wanted: Property, reading: Reading, outcome: Outcome) -> list[str]:
    found = []
    if outcome.fixed:
        error = max(error for _, error in outcome.errors)
        found.append(
            f"a fixed factor leaves an error ({error:.2g} with ten keys); one that may grow makes it as small as you like"
        )
    elif wanted.limit:
        unsaid = [name for name in reading.scales if (reading.sizes or {}).get(name) is None]
        if unsaid:
            found.append(f"say that {' and '.join(unsaid)} must be large")
    if isinstance(wanted, Average) and len(wanted.give) > 1:
        found += _steady(wanted, reading)
    return found


def _queries_at(wanted: Average, reading: Reading, scale: float) -> np.ndarray:
    instance = wanted.world.draw(0)
    values = instance.values.with_scales(reading.at(scale))
    return np.stack([value(node, values)[:, 0] for node in reading.items.values()])


def _same_queries(wanted: Property, reading: Reading) -> Mistake | None:
    """Say that queries which are all equal are one head."""
    if not isinstance(wanted, Average) or len(wanted.give) < 2:
        return None
    queries = _queries_at(wanted, reading, 10.0)
    if float(np.abs(queries - queries[0]).max()) > 1e-9 * float(np.abs(queries).max()):
        return None
    same, apart = (_length_variance(given) for given in (queries, 10 * np.eye(10)[:2]))
    return Mistake(
        "equal queries",
        f"The value is right, but when the length of k_a varies its variance is {same:.2f}, that of one head; two heads that "
        f"copy one value each have {apart:.3f}.",
    )


def _length_variance(queries: np.ndarray) -> float:
    """Return the variance of the averaged output when the length of key a varies by a variance of 1/2."""
    keys = RandomKeys(np.eye(10), isotropic=1e-8, along_mean={0: 0.5})
    return law(queries, keys, np.eye(10), tolerance=1e-2).variance


def _steady(wanted: Average, reading: Reading) -> list[str]:
    """Remark on heads that differ but jump together."""
    queries = _queries_at(wanted, reading, 10.0)
    size = float(np.linalg.norm(queries, axis=1).max())
    if not 0 < size < 1e4:
        return []
    variance = _length_variance(queries)
    if variance < 0.1:
        return []
    return [
        f"both heads look at a and b: when the length of k_a varies, the variance is {variance:.2f}; one value each is steadier"
    ]


def _known_number(problem: Problem, wanted: Property, reading: Reading) -> Mistake | None:
    """Return the mistake of the sheet that has the number given."""
    for one in problem.mistakes:
        try:
            node = read(one["value"], _known(wanted)).items[0].body
            values = wanted.world.draw(0).values
            if isinstance(node, Relation):
                continue
            said, wrong = (float(value(part, values)[0, 0]) for part in (next(iter(reading.items.values())), node))
        except (Unreadable, KeyError):
            continue
        if abs(said - wrong) <= max(wanted.tolerance, 1e-9):
            return Mistake(one["name"], one["help"])
    return None


def _word(problem: Problem, text: str) -> Verdict:
    """Mark a word by the first clause; what follows is an explanation."""
    if len(text) > _LONGEST_WORD:
        raise Unreadable(
            f"at most {_LONGEST_WORD} characters are read, but there are {len(text)}", _LONGEST_WORD, _LONGEST_WORD + 1
        )
    said = _plain(text)
    first = re.split(r"[,;.:!?]|\b(?:because|since|as|for)\b", said)[0].strip()
    for one in problem.mistakes:
        if _plain(one["value"]) in (said, first):
            return _wrong(problem, text, "", Mistake(one["name"], one["help"]), None, [])
    accepted = [_plain(one) for one in problem.accept]
    if said in accepted or first in accepted:
        return Verdict(problem.part, text, "right")
    raise Unreadable(f"expected an answer such as {accepted[0]!r}", 0, max(len(text), 1))


def _plain(text: str) -> str:
    """Bring different ways to write the same words together."""
    low = unicodedata.normalize("NFKC", re.sub(r"([a-zA-Z])([ₐ-ₜ₀-₉ⱼᵢ]+)", r"\1_\2", text)).lower()
    low = re.sub(r"\\(?:mathbf|mathrm|text|boldsymbol|vec|bm)\b", "", low).replace("\\approx", "≈").replace("\\to", "≈")
    low = re.sub(r"[$*`{}]", "", low)
    low = " ".join(re.sub(r"^\s*(?:c|it|the (?:answer|output|value))\s*(?:=|≈|->|→|~|is)\s*", "", low).split())
    return low.removeprefix("it is ").removeprefix("the value ").strip(" .!,;:")


def _condition(problem: Problem, text: str) -> Verdict:
    """Mark an inequality between scores: it must be large exactly when key j takes nearly all weight."""
    scope = Scored().scope
    written = read(text, frozenset(scope.names), relations=True)
    relation = written.items[0].body
    if not isinstance(relation, Relation) or relation.sign in ("=", "≈"):
        raise Unreadable("expected an inequality between scores, such as k_j^T q >> k_i^T q", 0, max(len(text), 1))
    for side in (relation.left, relation.right):
        if shape(side, scope) != ("1", "1"):
            raise Unreadable(f"scores are numbers, but this is {words(shape(side, scope))}", side.start, side.end)
        if free(side, scope):
            raise Unreadable(f"{free(side, scope)[0]} is no name of this problem", side.start, side.end)
    for number, level in ((number, level) for number in range(4) for level in (-200.0, 0.0, 200.0)):
        gaps = [margins(relation, number, size, level)[0] for size in (-20.0, 20.0, 40.0, 80.0)]
        if gaps[0] < 0 < gaps[1] < gaps[2] < gaps[3]:
            continue
        gap, weights = margins(relation, number, 20.0 if gaps[1] <= 0 else -20.0, level)
        said = f"with {len(weights)} keys the two sides differ by {gap:.3g}, but the weight of j is {weights[0]:.4g}"
        return Verdict(problem.part, text, "wrong", problem=said)
    remarks = []
    if relation.sign in (">", "<", "≥", "≤"):
        remarks.append(
            f"larger is not enough: the gap must be large against log n (with ten keys {math.log(9 * 999):.1f} for 99.9%)"
        )
    return Verdict(problem.part, text, "remark" if remarks else "right", remarks)
