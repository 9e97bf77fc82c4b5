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
from headwise.check.tree import Relation
from headwise.check.unreadable import Unreadable
from headwise.check.verdict import Counterexample
from headwise.check.worlds import Scored

_LEVELS = (-200.0, 0.0, 200.0)


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
            if not gaps[0] < 0 < gaps[1] < gaps[2] < gaps[3]:
                return _example(relation, number, 40.0 if gaps[1] <= 0 else -20.0 if gaps[0] >= 0 else 160.0, level, deadline)
    return None


def not_enough(relation: Relation, deadline: float) -> tuple[Mistake, Counterexample] | None:
    """Return the mistake of an inequality that asks only for larger, with keys for which it holds by a little."""
    if relation.sign in ("≫", "≪") or _gap(relation, 0, 1.0, 0.0, deadline)[0] <= 0:
        return None
    said = f"Larger is not enough: the gap must be large against log n (with ten keys {math.log(9 * 999):.1f} for 99.9%)."
    return Mistake("the margin is missing", said), _example(relation, 0, 1.0, 0.0, deadline)


def _gap(
    relation: Relation, number: int, size: float, level: float, deadline: float
) -> tuple[float, int, Float[np.ndarray, " n"]]:
    """Return by how much less the smaller side is for the worst other key, which key that is, and the weights.

    `size` is the margin of key j, `level` where the scores of the other keys lie.
    """
    world = Scored()
    instance = world.draw(number, size, 1, level)
    gaps = []
    for other in range(1, len(instance.arrays["keys"])):
        named = {"keys": {"j": 0, "i": other}}
        values = replace(instance.values, elements=named, deadline=deadline)
        left, right = (float(value(node, values)[0, 0]) for node in (relation.left, relation.right))
        gaps.append(left - right if relation.sign in (">", "≫", "≥") else right - left)
    worst = int(np.argmin(gaps))
    return gaps[worst], worst + 1, weights_of(instance.arrays["keys"] @ instance.arrays["query"])


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
