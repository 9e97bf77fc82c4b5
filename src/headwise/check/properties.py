"""What an answer must do: one class per kind of property, each of which measures how far off an answer is on an instance."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.check.evaluate import value
from headwise.check.grammar import read
from headwise.check.python import as_python
from headwise.check.scope import SCALAR, Shape, free, shape, words
from headwise.check.tree import Node, Relation
from headwise.check.unreadable import Unreadable
from headwise.check.worlds import Instance, Keys, Numbers, Scored, Subspaces, Tokens, World

# Noise that is nothing but rounding, once the query has stretched it; and when stretched noise is still tiny.
_TINY, _STILL_TINY = 1e-12, 0.03
# What rounding leaves, per unit of score; beyond the longest, the difference of two scores is nothing else.
_ROUNDING, _LONGEST = 1e-13, 1e9
# Likewise for tokens, whose scores are far apart.
_LONG_SUMS = 1e-9
_COLUMN: Shape = ("d", "1")
_SQUARE: Shape = ("d", "d")

Given = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Trial:
    """An answer on one instance: its error and what was seen there.

    `floor` is the error that rounding, and noise as small as rounding, may leave.
    """

    error: float
    sentence: str
    data: Mapping[str, Any]
    floor: float = _ROUNDING


class Property(ABC):
    """What must hold; `give` names what is to be given, with its shape."""

    world: World
    give: Mapping[str, Shape]
    # Whether it need only hold in the limit of a large scale.
    limit = True
    tolerance = 1e-3

    @abstractmethod
    def trial(self, instance: Instance, given: Given) -> Trial:
        """Measure an answer on an instance."""

    @abstractmethod
    def shown(self, data: Mapping[str, Any]) -> str:
        """Return the last lines of Python under a counterexample, behind those that make the instance and the answer."""


def weights_of(scores: Float[np.ndarray, "*q k"]) -> Float[np.ndarray, "*q k"]:
    """Return the softmax of every row; `attend` does more than a trial needs, and there are thousands of trials."""
    away = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return away / away.sum(axis=-1, keepdims=True)


def _rounded(array: np.ndarray) -> list[Any]:
    return np.round(np.asarray(array, dtype=float), 4).tolist()


class Average(Property):
    """Queries whose averaged output goes to the mean of the values of some keys; `noise` is put on keys, tiny for any query."""

    def __init__(self, names: Sequence[str], world: Keys) -> None:
        """Name the queries."""
        self.world: Keys = world
        self.give, self.noise, self.count = dict.fromkeys(names, _COLUMN), world.noise, len(world.elements)

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Attend and compare."""
        queries = np.stack([given[name][:, 0] for name in self.give])
        longest = float(np.linalg.norm(queries, axis=1).max())
        if longest > _LONGEST:
            raise Unreadable("scores of this size are nothing but rounding", 0, 1)
        keys, values = instance.arrays["keys"], instance.arrays["values"]
        # Without a variance of its own, noise vanishes before the query grows; stretched noise that is still tiny vanishes too.
        alpha = instance.arrays.get("alpha", 0.0)
        spread = math.sqrt(alpha)
        if spread * longest <= _STILL_TINY * alpha ** (1 / 12):
            spread = _TINY / max(longest, 1.0)
        if self.noise:
            keys = keys + spread * np.random.default_rng([17, instance.number]).standard_normal(keys.shape)
        wanted = values[: self.count].mean(axis=0)
        weights = weights_of(queries @ keys.T)
        output = weights.mean(axis=0) @ values
        error = float(np.linalg.norm(output - wanted)) / float(np.linalg.norm(values, axis=1).max())
        shown = weights.mean(axis=0)
        names = self.world.elements
        sentence = (
            f"with {len(keys)} keys the weights of {' and '.join(names)} are "
            f"{' and '.join(f'{shown[place]:.4g}' for place in range(len(names)))}, and the output misses the target by "
            f"{error:.2g} of a value's length"
        )
        data = {
            "seed": instance.number,
            "n": len(keys),
            "keys": keys,
            "values": values,
            "queries": queries,
            "weights": shown,
            "output": output,
            "target": wanted,
            "error": error,
            **({"alpha": spread**2} if self.noise else {}),
        }
        return Trial(error, sentence, data, _ROUNDING * max(longest, 1.0) + (10 * _TINY if self.noise else 0.0))

    def shown(self, data: Mapping[str, Any]) -> str:
        """Attend with the queries."""
        noise = ""
        if self.noise:
            noise = (
                f"noise = np.random.default_rng([17, {data['seed']}]).standard_normal(keys.shape)\n"
                f"keys = keys + {math.sqrt(data['alpha']):.6g} * noise\n"
            )
        return (
            f"{noise}queries = np.hstack([{', '.join(self.give)}]).T\ntarget = values[:{self.count}].mean(axis=0)\n"
            "found = hw.average_heads(queries, keys, values)\nprint(found.contexts, target)\n"
        )


class Extract(Property):
    """A matrix that takes v_a out of v_a + v_b."""

    limit = False
    tolerance = 1e-8

    def __init__(self, name: str = "M") -> None:
        """Name the matrix."""
        self.world, self.give, self.name = Subspaces(), {name: _SQUARE}, name

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Multiply and compare."""
        first, second, matrix = instance.arrays["v_a"], instance.arrays["v_b"], given[self.name]
        found = matrix @ (first + second)
        # Every vector of A and of B counts, not only these two.
        whole = np.linalg.norm(matrix @ instance.arrays["A"] - instance.arrays["A"]) + np.linalg.norm(
            matrix @ instance.arrays["B"]
        )
        error = float(whole) + float(np.linalg.norm(found - first))
        sentence = f"{self.name} (v_a + v_b) is {_rounded(found)}, but v_a is {_rounded(first)}"
        data = {"seed": instance.number, "matrix": matrix, "output": found, "target": first, "error": error, **instance.arrays}
        return Trial(error, sentence, data)

    def shown(self, data: Mapping[str, Any]) -> str:
        """Multiply."""
        del data
        return f"print({self.name} @ (v_a + v_b), v_a)\n"


class Layer(Property):
    """Matrices K, Q, V for which some positions read their targets, as the tokens grow long."""

    def __init__(self, targets: Mapping[str, str], names: Sequence[str] = ("K", "Q", "V")) -> None:
        """Read the targets, which are written as answers are."""
        self.world, self.give = Tokens(), dict.fromkeys(names, _SQUARE)
        self.targets = {int(row): expression(text, self.world, _COLUMN) for row, text in targets.items()}

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Attend and compare every target."""
        tokens = instance.arrays["tokens"]
        size = float(np.linalg.norm(instance.arrays["u"][0]))
        keys, queries, values = (tokens @ given[name].T for name in ("K", "Q", "V"))
        weights = weights_of(queries @ keys.T)
        contexts = weights @ values
        wanted = {row: value(node, instance.values)[:, 0] for row, node in self.targets.items()}
        errors = {row: float(np.linalg.norm(contexts[row - 1] - target)) / size for row, target in wanted.items()}
        worst = max(errors, key=lambda row: errors[row])
        sentence = (
            f"with vectors of length {size:g}, c_{worst} is {_rounded(contexts[worst - 1])}, but should be near "
            f"{_rounded(wanted[worst])}; its weights are {_rounded(weights[worst - 1])}"
        )
        data = {
            "seed": instance.number,
            "n": len(tokens),
            "tokens": tokens,
            **dict(given),
            "weights": weights,
            "output": contexts,
            "row": worst,
            "target": wanted[worst],
            "error": errors[worst],
        }
        return Trial(errors[worst], sentence, data, _LONG_SUMS)

    def shown(self, data: Mapping[str, Any]) -> str:
        """Attend with the matrices."""
        return (
            "found = hw.SelfAttention(key=K, query=Q, value=V)(tokens)\n"
            f"print(found.contexts[{data['row'] - 1}], found.weights)\n"
        )


class Approximates(Property):
    """A vector that the context of a position goes to, in plain self-attention on the tokens."""

    def __init__(self, name: str, row: int) -> None:
        """Name the vector and the position."""
        self.world, self.give, self.name, self.row = Tokens(), {name: _COLUMN}, name, row

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Attend and compare."""
        tokens = instance.arrays["tokens"]
        size = float(np.linalg.norm(instance.arrays["u"][0]))
        found = (weights_of(tokens @ tokens.T) @ tokens)[self.row - 1]
        said = given[self.name][:, 0]
        error = float(np.linalg.norm(found - said)) / size
        sentence = f"with vectors of length {size:g}, {self.name} is {_rounded(found)}, not {_rounded(said)}"
        data = {"seed": instance.number, "n": len(tokens), "tokens": tokens, "output": found, "answer": said, "error": error}
        return Trial(error, sentence, data, _LONG_SUMS)

    def shown(self, data: Mapping[str, Any]) -> str:
        """Attend without matrices."""
        del data
        return f"print(hw.SelfAttention()(tokens).contexts[{self.row - 1}], {self.name}.ravel())\n"


class Equals(Property):
    """An expression that has the value of another one: on keys, values and a query at random, or on keys and values alone."""

    limit = False
    tolerance = 1e-8

    def __init__(self, name: str, reference: str, letter: str = "") -> None:
        """Read the other one; `letter` is what keys are called where there is no query."""
        self.world: World = Keys(letter) if letter else Scored()
        self.name, self.reference = name, reference
        self.node = expression(reference, self.world)
        self.give = {name: shape(self.node, self.world.scope)}

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Compare the two values."""
        wanted, said = value(self.node, instance.values), given[self.name]
        error = float(np.abs(said - wanted).max()) / max(float(np.abs(wanted).max()), 1e-300)
        sentence = f"with {len(instance.arrays['keys'])} keys this is {_rounded(said)}, but {self.name} is {_rounded(wanted)}"
        count = len(instance.arrays["keys"])
        data = {"seed": instance.number, "n": count, **instance.arrays, "answer": said, "target": wanted, "error": error}
        return Trial(error, sentence, data)

    def shown(self, data: Mapping[str, Any]) -> str:
        """Work out both."""
        wanted = as_python(self.node, self.world.scope, self.world.draw(int(data["seed"])).values)
        return f"target = {wanted}\nprint({self.name}, target)\n"


class Number(Property):
    """A number."""

    limit = False

    def __init__(self, name: str, wanted: str, tolerance: float, names: Mapping[str, float]) -> None:
        """Work out the number."""
        self.world = Numbers(names)
        self.wanted = float(value(expression(wanted, self.world, SCALAR), self.world.draw(0).values)[0, 0])
        self.tolerance, self.give, self.name = tolerance, {name: SCALAR}, name

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Compare."""
        said = float(given[self.name][0, 0])
        error = abs(said - self.wanted)
        data = {"answer": said, "target": self.wanted, "error": error}
        del instance
        return Trial(error, f"this is {said:.4g}, off by {error:.2g}", data)

    def shown(self, data: Mapping[str, Any]) -> str:
        """Print the number."""
        del data
        return f"print({self.name})\n"


def expression(text: str, world: World, wanted: Shape | None = None) -> Node:
    """Read an expression of a sheet and check its shape."""
    body = read(text, frozenset(world.scope.names)).items[0].body
    if isinstance(body, Relation):
        raise Unreadable("this is a relation, not an expression", body.start, body.end)
    found = shape(body, world.scope)
    if wanted is not None and found != wanted:
        raise Unreadable(f"this must be {words(wanted)}, but it is {words(found)}", body.start, body.end)
    if free(body, world.scope):
        raise Unreadable(f"{free(body, world.scope)[0]} is no name of this problem", body.start, body.end)
    return body
