"""Answers that are an inequality between scores: its gap must be large exactly when key j takes nearly all weight."""

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from headwise.check.evaluate import value
from headwise.check.grammar import Written
from headwise.check.properties import weights_of
from headwise.check.python import as_python
from headwise.check.repairs import Mistake
from headwise.check.scope import SCALAR, free, shape, words
from headwise.check.tree import Node, Relation, symbols
from headwise.check.unreadable import Unreadable
from headwise.check.verdict import Counterexample
from headwise.check.worlds import Instance, Scored

_LEVELS = (-200.0, 0.0, 200.0)
_ROUNDING = 1e-9
# Margins up to which an inequality must hold at last, for its constants may be large.
_AT_LAST = (480.0, 1e4, 1e6)
# An inequality that holds by as little as it may must leave this weight to key j; instances and margins on which it is tried.
_NEARLY_ALL = 0.99
_NUMBERS, _MARGINS = (0, 1, 6), (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0)


def inequality(written: Written) -> Relation:
    """Return the inequality that was written."""
    if len(written.items) > 1:
        extra = written.items[1].body
        raise Unreadable("expected one inequality, but there is more", extra.start, extra.end)
    relation = written.items[0].body
    if not isinstance(relation, Relation) or relation.sign in ("=", "≈", "→"):
        raise Unreadable("expected an inequality between scores, such as k_j^T q >> k_i^T q", relation.start, relation.end)
    scope = Scored().scope
    for side in (relation.left, relation.right):
        found = shape(side, scope)
        if found != SCALAR:
            raise Unreadable(f"scores are numbers, but this is {words(found)}", side.start, side.end)
        if free(side, scope):
            raise Unreadable(f"{free(side, scope)[0]} is no name of this problem", side.start, side.end)
    return relation


def refuted(relation: Relation, deadline: float) -> Counterexample | None:
    """Return an instance on which the inequality and the weight of key j disagree, if there is one."""
    for number in range(4):
        for level in _LEVELS:
            gaps = [_gap(relation, number, size, level, deadline)[0] for size in (-20.0, 40.0, 80.0, 160.0)]
            rises = gaps[1] - _ROUNDING <= gaps[2] <= gaps[3] + _ROUNDING
            if not (gaps[0] < 0 and rises and _holds_at_last(relation, number, level, deadline)):
                return _example(relation, number, -20.0 if gaps[0] >= 0 else 160.0 if gaps[1] > 0 else 40.0, level, deadline)
    return None


def _holds_at_last(relation: Relation, number: int, level: float, deadline: float) -> bool:
    """Say whether an inequality holds once the margin is large enough for its own constants."""
    for size in _AT_LAST:
        try:
            if _gap(relation, number, size, level, deadline)[0] > 0:
                return True
        except Unreadable:  # beyond all numbers, as exponentials of such scores are
            break
    return False


def not_enough(relation: Relation, deadline: float) -> tuple[Mistake, Counterexample] | None:
    """Return the mistake of an inequality that asks for too small a margin, with keys for which it holds all the same."""
    if relation.sign in ("≫", "≪"):
        return None
    for number in _NUMBERS:
        small = [size for size in _MARGINS if _weight(number, size) < _NEARLY_ALL]
        # What holds by more holds by the largest of these, so the others need no look unless it does.
        if _gap(relation, number, small[-1], 0.0, deadline)[0] > 0:
            size = next(size for size in small if _gap(relation, number, size, 0.0, deadline)[0] > 0)
            needed = math.log(9 * 999)
            said = f"Larger is not enough: the gap must be large against log n (with ten keys {needed:.1f} for 99.9%)."
            return Mistake("the margin is missing", said), _example(relation, number, size, 0.0, deadline)
    return None


def _weight(number: int, size: float) -> float:
    """Return the weight of key j when its margin is so large."""
    arrays = Scored().draw(number, size).arrays
    return float(weights_of(arrays["keys"] @ arrays["query"])[0])


def _gap(
    relation: Relation, number: int, size: float, level: float, deadline: float
) -> tuple[float, int, Float[np.ndarray, " n"]]:
    """Return by how much less the smaller side is for the worst other key, which key that is, and the weights.

    `size` is the margin of key j, `level` where the scores of the other keys lie.
    """
    world = Scored()
    instance = world.draw(number, size, 1, level)
    left, right = (_side(node, instance, deadline) for node in (relation.left, relation.right))
    gaps = left - right if relation.sign in (">", "≫", "≥") else right - left
    worst = int(np.argmin(gaps))
    return float(gaps[worst]), worst + 1, weights_of(instance.arrays["keys"] @ instance.arrays["query"])


def _side(node: Node, instance: Instance, deadline: float) -> Float[np.ndarray, " i"]:
    """Return the value of one side for every other key; one that does not speak of i is worked out once."""
    count = len(instance.arrays["keys"]) - 1
    every = range(1, count + 1) if any(one.index == "i" for one in symbols(node)) else range(1, 2)
    found = [
        float(value(node, replace(instance.values, elements={"keys": {"j": 0, "i": other}}, deadline=deadline))[0, 0])
        for other in every
    ]
    return np.resize(np.array(found), count)


def _example(relation: Relation, number: int, size: float, level: float, deadline: float) -> Counterexample:
    gap, other, weights = _gap(relation, number, size, level, deadline)
    world = Scored()
    instance = world.draw(number, size, other, level)
    said = (
        f"with {len(weights)} keys the two sides differ by {gap:.3g}, but the weight of j is {weights[0]:.4g}; "
        f"j is the first key, i the {'second' if other == 1 else f'one at place {other + 1}'}"
    )
    data = {
        "seed": number,
        "n": len(weights),
        **instance.arrays,
        "weights": weights,
        "output": weights @ instance.arrays["values"],
        "gap": gap,
        "error": 1 - float(weights[0]) if gap > 0 else float(weights[0]),
    }
    left, right = (as_python(side, world.scope, instance.values) for side in (relation.left, relation.right))
    code = (
        f"import numpy as np\nimport headwise as hw\n{instance.code}left, right = {left}, {right}\n"
        "print(left, right, hw.attend(query, keys, values).weights[0])\n"
    )
    return Counterexample(said, data, code)
