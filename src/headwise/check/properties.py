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
from headwise.check.scope import SCALAR, Shape, shape
from headwise.check.tree import Node, Relation
from headwise.check.unreadable import Unreadable
from headwise.check.worlds import Instance, Keys, Numbers, Scored, Subspaces, Tokens, World
from headwise.core.attend import attend
from headwise.core.self_attention import SelfAttention

# Tiny noise, once the query has stretched it.
_TINY = 1e-8
# Beyond this, the difference of two scores is rounding.
_LONGEST = 1e9
_COLUMN: Shape = ("d", "1")
_SQUARE: Shape = ("d", "d")

Given = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Trial:
    """An answer on one instance: its error, what was seen there, and the lines that show it."""

    error: float
    sentence: str
    data: Mapping[str, Any]
    code: str


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


def _softmax(scores: np.ndarray) -> np.ndarray:
    away = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return away / away.sum(axis=-1, keepdims=True)


def _rounded(array: np.ndarray) -> list[Any]:
    return np.round(np.asarray(array, dtype=float), 4).tolist()


def _attended(instance: Instance, queries: Float[np.ndarray, "h d"], wanted: Float[np.ndarray, " v"]) -> Trial:
    """Average the contexts of some queries and compare with what is wanted."""
    keys, values = instance.arrays["keys"], instance.arrays["values"]
    weights = _softmax(queries @ keys.T)
    output = weights.mean(axis=0) @ values
    error = float(np.linalg.norm(output - wanted)) / float(np.linalg.norm(values, axis=1).max())
    shown = weights.mean(axis=0)
    sentence = (
        f"with {len(keys)} keys the weights of a and b are {shown[0]:.4g} and {shown[1]:.4g}, and the output misses the "
        f"target by {error:.2g} of a value's length"
    )
    data = {
        "seed": instance.number,
        "keys": keys,
        "values": values,
        "queries": queries,
        "weights": shown,
        "output": output,
        "target": wanted,
        "error": error,
    }
    code = (
        f"import numpy as np\nimport headwise as hw\n{instance.code}queries = np.array({queries.tolist()})\n"
        f"target = np.array({wanted.tolist()})\nfound = hw.average_heads(queries, keys, values)\n"
        "print(found.contexts, target)\n"
    )
    return Trial(error, sentence, data, code)


class Average(Property):
    """Queries whose averaged output goes to the mean of the values of some keys; `noise` is put on keys, tiny for any query."""

    def __init__(
        self, names: Sequence[str], keys: Sequence[str], letter: str = "k", *, noise: bool = False, kind: str = ""
    ) -> None:
        """Name the queries and the keys."""
        self.world = Keys(letter, tuple(keys), independent=kind == "independent")
        self.give, self.noise, self.count = dict.fromkeys(names, _COLUMN), noise, len(keys)
        self.tolerance = 1e-3 if noise else 1e-6

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Attend and compare."""
        queries = np.stack([given[name][:, 0] for name in self.give])
        if float(np.abs(queries).max()) > _LONGEST:
            raise Unreadable("scores of this size are nothing but rounding", 0, 1)
        wanted = instance.arrays["values"][: self.count].mean(axis=0)
        if self.noise:
            keys = instance.arrays["keys"]
            size = math.sqrt(_TINY / max(float((queries**2).sum(axis=1).max()), 1.0))
            noisy = keys + size * np.random.default_rng([17, instance.number]).standard_normal(keys.shape)
            code = f"keys = np.array({noisy.tolist()})\nvalues = np.array({instance.arrays['values'].tolist()})\n"
            instance = Instance(instance.number, instance.values, {**instance.arrays, "keys": noisy}, code)
        return _attended(instance, queries, wanted)


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
        code = f"import numpy as np\n{instance.code}M = np.array({matrix.tolist()})\nprint(M @ (v_a + v_b), v_a)\n"
        return Trial(error, sentence, data, code)


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
        weights = _softmax(queries @ keys.T)
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
            "tokens": tokens,
            **dict(given),
            "weights": weights,
            "output": contexts,
            "row": worst,
            "target": wanted[worst],
            "error": errors[worst],
        }
        matrices = "".join(f"{name} = np.array({given[name].tolist()})\n" for name in ("K", "Q", "V"))
        code = (
            f"import numpy as np\nimport headwise as hw\n{instance.code}{matrices}"
            f"found = hw.SelfAttention(key=K, query=Q, value=V)(tokens)\nprint(found.contexts[{worst - 1}], found.weights)\n"
        )
        return Trial(errors[worst], sentence, data, code)


class Approximates(Property):
    """A vector that the context of a position goes to, in plain self-attention on the tokens."""

    def __init__(self, name: str, row: int) -> None:
        """Name the vector and the position."""
        self.world, self.give, self.name, self.row = Tokens(), {name: _COLUMN}, name, row

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Attend and compare."""
        tokens = instance.arrays["tokens"]
        size = float(np.linalg.norm(instance.arrays["u"][0]))
        found = np.asarray(SelfAttention()(tokens).contexts)[self.row - 1]
        said = given[self.name][:, 0]
        error = float(np.linalg.norm(found - said)) / size
        sentence = f"with vectors of length {size:g}, {self.name} is {_rounded(found)}, not {_rounded(said)}"
        data = {"seed": instance.number, "tokens": tokens, "output": found, "answer": said, "error": error}
        code = (
            f"import numpy as np\nimport headwise as hw\n{instance.code}"
            f"print(hw.SelfAttention()(tokens).contexts[{self.row - 1}], {said.tolist()})\n"
        )
        return Trial(error, sentence, data, code)


class Equals(Property):
    """An expression that has the value of another one: on keys, values and a query at random, or on keys and values alone."""

    limit = False
    tolerance = 1e-8

    def __init__(self, name: str, reference: str, letter: str = "") -> None:
        """Read the other one; `letter` is what keys are called where there is no query."""
        self.world: World = Keys(letter) if letter else Scored()
        self.name, self.reference = name, reference
        written = read(reference, frozenset(self.world.scope.names)).items[0].body
        assert not isinstance(written, Relation)  # noqa: S101  sheets are checked
        self.node: Node = written
        self.give = {name: shape(written, self.world.scope)}

    def trial(self, instance: Instance, given: Given) -> Trial:
        """Compare the two values."""
        wanted, said = value(self.node, instance.values), given[self.name]
        error = float(np.abs(said - wanted).max()) / max(float(np.abs(wanted).max()), 1e-300)
        sentence = f"with {len(instance.arrays['keys'])} keys this is {_rounded(said)}, but {self.name} is {_rounded(wanted)}"
        data = {"seed": instance.number, **instance.arrays, "answer": said, "target": wanted, "error": error}
        shown = "hw.attend(query, keys, keys).weights" if "query" in instance.arrays else "values"
        code = f"import numpy as np\nimport headwise as hw\n{instance.code}print({shown}, {said.ravel().tolist()})\n"
        return Trial(error, sentence, data, code)


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
        return Trial(error, f"this is {said:.4g}, off by {error:.2g}", data, f"print({said!r})\n")


def expression(text: str, world: World, wanted: Shape) -> Node:
    """Read an expression of a sheet and check its shape."""
    body = read(text, frozenset(world.scope.names)).items[0].body
    if isinstance(body, Relation) or shape(body, world.scope) != wanted:
        raise Unreadable("this has the wrong shape", 0, len(text))
    return body


def margins(relation: Relation, number: int, size: float, level: float) -> tuple[float, Float[np.ndarray, " n"]]:
    """Return by how much less the smaller side is for the worst other key, and the weights, at a margin of key j.

    `level` is where the scores of the other keys lie.
    """
    world = Scored()
    count = len(world.draw(number).arrays["keys"])
    gaps = []
    for other in range(1, count):
        instance = world.draw(number, size, other, level)
        left, right = (float(value(node, instance.values)[0, 0]) for node in (relation.left, relation.right))
        gaps.append(left - right if relation.sign in (">", "≫", "≥") else right - left)
    found = attend(instance.arrays["query"], instance.arrays["keys"], instance.arrays["values"])
    return min(gaps), np.asarray(found.weights)
