"""Counterexamples: an instance in words, in numbers, and as the lines of Python that make it from its seed."""

from contextlib import suppress

from headwise.check.evaluate import value
from headwise.check.limits import Failure
from headwise.check.properties import Property
from headwise.check.python import as_python, variable
from headwise.check.scope import free
from headwise.check.tree import Node
from headwise.check.unreadable import Unreadable
from headwise.check.verdict import Counterexample
from headwise.check.worlds import Instance

# What scales and vanishing noise are where only the shape counts.
_SCALE, _TINY = 16.0, 1e-8


def snippet(wanted: Property, failure: Failure) -> Counterexample:
    """Return where an answer fails."""
    instance = wanted.world.draw(failure.number, failure.size)
    scales = {**failure.reading.at(failure.rung), **_vanishing(wanted, failure)}
    named = "".join(f"{variable(name)} = {number!r}\n" for name, number in scales.items())
    items = {name: _line(wanted, instance, name, node) for name, node in failure.reading.items.items()}
    trial = failure.trial
    code = _headed(f"{instance.code}{named}{''.join(items.values())}{wanted.shown(trial.data)}")
    data = {**trial.data, "scales": scales} if scales else trial.data
    return Counterexample(trial.sentence, data, code)


def _headed(code: str) -> str:
    """Put the imports in front that the lines need."""
    math = "import math\n" if "math." in code else ""
    numpy = "import numpy as np\n" if "np." in code else ""
    return f"{math}{numpy}{'import headwise as hw' if 'hw.' in code else ''}\n{code}".lstrip()


def _vanishing(wanted: Property, failure: Failure) -> dict[str, float]:
    return {wanted.world.vanishing: failure.size} if wanted.world.vanishing and failure.size else {}


def _line(wanted: Property, instance: Instance, name: str, node: Node) -> str:
    return f"{name} = {as_python(node, wanted.world.scope, instance.values)}\n"


def mismatch(wanted: Property, name: str, node: Node, said: str) -> Counterexample:
    """Return an instance on which an answer has the wrong shape."""
    size = wanted.world.ladder[0] if wanted.world.ladder else _TINY if wanted.world.vanishing else 0.0
    instance = wanted.world.draw(1, size)
    scales = dict.fromkeys(free(node, wanted.world.scope), _SCALE)
    if wanted.world.vanishing:
        scales[wanted.world.vanishing] = size
    data = {"seed": instance.number, **instance.arrays}
    if "keys" in instance.arrays:
        data["n"] = len(instance.arrays["keys"])
    with suppress(Unreadable):
        data["answer"] = value(node, instance.values.with_scales(scales))
    named = "".join(f"{variable(scale)} = {number!r}\n" for scale, number in scales.items())
    code = _headed(f"{instance.code}{named}{_line(wanted, instance, name, node)}print(np.shape({name}))\n")
    return Counterexample(said, data, code)
