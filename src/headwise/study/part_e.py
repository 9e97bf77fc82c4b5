"""Part e: self-attention without and with key, query and value matrices."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.core.orthonormal import orthonormal
from headwise.core.self_attention import SelfAttention
from headwise.design import Layer, context, layer
from headwise.study.part import Finding, Part, Proof, told
from headwise.study.pictures import Heat, Line, Lines, Picture
from headwise.study.setting import Setting

# The length of the tokens' vectors: scores of its square, so weights elsewhere of e^-25.
_LENGTH = 5.0
_ADDED = np.linspace(-4, 4, 81)
_TOKENS = ("$x_1$", "$x_2$", "$x_3$")
_OUTPUTS = ("$c_1$", "$c_2$")


@dataclass(frozen=True)
class _Tokens:
    """Four orthogonal vectors of one length, and the three tokens made of them."""

    a: Float[np.ndarray, " d"]
    b: Float[np.ndarray, " d"]
    c: Float[np.ndarray, " d"]
    d: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, setting: Setting) -> "_Tokens":
        return cls(*(_LENGTH * orthonormal(4, setting.width, seed=setting.seed + 6)))

    def with_added(self, added: Float[np.ndarray, " d"] | float = 0.0) -> Float[np.ndarray, "3 d"]:
        """Return the tokens, with a vector added to the second."""
        return np.stack([self.d + self.b, self.a + added, self.c + self.b])


def _code(setting: Setting) -> str:
    return (
        "import numpy as np\nimport headwise as hw\n"
        f"a, b, c, d = {_LENGTH:g} * hw.orthonormal(4, {setting.width}, seed={setting.seed + 6})\n"
        "tokens = np.stack([d + b, a, c + b])\n"
    )


def plain(setting: Setting) -> Part:
    """Part e.i."""
    u = _Tokens.of(setting)
    found = SelfAttention()(u.with_added())
    elsewhere = 1 - float(np.asarray(found.contexts)[1] @ u.a) / _LENGTH**2
    expected = 2 / (math.exp(_LENGTH**2) + 2)
    rounding = 64 * setting.width * 2.0**-52
    verdicts = [context(tokens, tokens, u.b) for tokens in (u.with_added(), u.with_added(3 * u.c), u.with_added(-2 * u.d))]
    lines, nearest = [], math.inf
    for name, vector, style in (("multiples of $u_c$", u.c, "three"), ("multiples of $u_d$", u.d, "four")):
        away = []
        for many in _ADDED:
            output = np.asarray(SelfAttention()(u.with_added(many * vector)).contexts)[1]
            away.append(float(np.linalg.norm(output - u.b)) / _LENGTH)
        nearest = min(nearest, *away)
        lines.append(Line(name, _ADDED.tolist(), away, style))
    # With s u_c + t u_d added, x2 scores 1 + s^2 + t^2 with itself and t, s with the others, so at least 3/4 more; and the
    # share w of u_a in c_2 leaves c_2 at least w sqrt(2) away: w^2 along u_a, w^2 along u_b.
    least = math.sqrt(2) / (1 + 2 * math.exp(-0.75 * _LENGTH**2))
    lines.append(Line("bound: no multiple comes nearer", [_ADDED[0], _ADDED[-1]], [least, least], "bound"))
    return told(
        setting,
        "e.i",
        {"length": f"{_LENGTH:g}"},
        (
            Finding("the weight elsewhere", elsewhere, rounding, "=", expected, rounding),
            Finding("the nearest that c_2 comes to u_b, in units of β", nearest, rounding, ">=", least),
            Finding(
                "how far the directions separate them at least, in units of β²",
                min(_gap(u, many * vector, 1 + abs(many)) for many in _ADDED for vector in (u.c, u.d)),
                rounding,
                "=",
                1.0,
                rounding,
            ),
        ),
        Picture(
            "stuck",
            "The distance of c_2 from u_b for multiples of u_c or u_d added to x_2: it never falls below 1.414 lengths.",
            [
                Lines(
                    r"distance of $c_2$ from $u_b$",
                    r"multiple added to $x_2$",
                    r"distance / $\beta$",
                    lines,
                )
            ],
        ),
        _code(setting) + "print(hw.design.context(tokens, tokens, b))\n"
        f"print(1 - hw.SelfAttention()(tokens).contexts[1] @ a / {_LENGTH**2:g})",
        tuple(
            Proof(f"{name}: {one.reason}", one.verdict == "impossible" and one.verify())
            for name, one in zip(("x_2 = u_a", "x_2 = u_a + 3 u_c", "x_2 = u_a - 2 u_d"), verdicts, strict=True)
        ),
    )


def _gap(u: _Tokens, added: Float[np.ndarray, " d"], share: float) -> float:
    """Return how far u_b lies beyond all tokens along the direction u_b - share u_a - u_c - u_d."""
    way = u.b - share * u.a - u.c - u.d
    return float((way @ u.b - (u.with_added(added) @ way).max()) / _LENGTH**2)


def matrices(setting: Setting) -> Part:
    """Part e.ii."""
    u, square = _Tokens.of(setting), _LENGTH**2
    tokens, targets = u.with_added(), {0: u.b - u.c, 1: u.b}
    value = (np.outer(u.b, u.b) - np.outer(u.c, u.c)) / square
    query = (np.outer(u.d, u.a) + np.outer(u.c, u.d)) / square
    book = SelfAttention(key=np.eye(setting.width), query=query, value=value)(tokens)
    weights = np.asarray(book.weights)
    off = _farthest(book.contexts, targets) / _LENGTH
    # Both positions leak 2 / (e^25 + 2): position 1 reads x3 and what leaks has values u_b and 0, position 2 reads x1.
    bound = 2 / (math.exp(square) + 2) * 2
    free, guided = layer(tokens, targets=targets), layer(tokens, reads={0: 2, 1: 0}, targets=targets)
    rounding = 64 * setting.width * 2.0**-52
    shown = {
        "K = Q = V = I": SelfAttention()(tokens),
        "the usual answer": book,
        f"found, rank {free.rank}": free(tokens),
        f"found, guided, rank {guided.rank}": guided(tokens),
    }
    heats = [Heat(title, np.asarray(one.weights)[:2], _OUTPUTS, _TOKENS) for title, one in shown.items()]
    return told(
        setting,
        "e.ii",
        {"one": _read(free, 0), "two": _read(free, 1), "free": free.rank, "guided": guided.rank},
        (
            Finding("the larger distance from a target, usual answer, in units of β", off, rounding, "<=", bound),
            Finding("the weight with which c_2 reads x_1", float(weights[1, 0]), rounding, "=", 1 - bound / 2, rounding),
            Finding("the weight with which c_1 reads x_3", float(weights[0, 2]), rounding, "=", 1 - bound / 2, rounding),
            *_measured("found", free, tokens, targets),
            *_measured("found, guided", guided, tokens, targets),
        ),
        Picture(
            "matrices",
            "Attention weights of the first two outputs: without matrices each reads its own token; with the usual answer c_1 "
            "reads x_3 and c_2 reads x_1; two found solutions beside them.",
            heats,
            r"tokens $x_1 = u_d + u_b$, $x_2 = u_a$, $x_3 = u_c + u_b$",
        ),
        _code(setting) + f"value = (np.outer(b, b) - np.outer(c, c)) / {square:g}\n"
        f"query = (np.outer(d, a) + np.outer(c, d)) / {square:g}\n"
        f"contexts = hw.SelfAttention(key=np.eye({setting.width}), query=query, value=value)(tokens).contexts\n"
        "print(hw.design.layer(tokens, targets={0: b - c, 1: b}))\n"
        f"print(max(np.linalg.norm(contexts[1] - b), np.linalg.norm(contexts[0] - (b - c))) / {_LENGTH:g})",
        tuple(
            Proof(f"{name}: {one.reason}", one.verdict == "possible" and one.verify())
            for name, one in (("found", free), ("found, guided", guided))
        ),
    )


def _farthest(contexts: Any, targets: dict[int, np.ndarray]) -> float:  # noqa: ANN401  an array of any library
    return max(float(np.linalg.norm(np.asarray(contexts)[row] - target)) for row, target in targets.items())


def _measured(name: str, found: Layer, tokens: Float[np.ndarray, "3 d"], targets: dict[int, np.ndarray]) -> tuple[Finding, ...]:
    """Hold what a layer says of itself against its weights and matrices."""
    result = found(tokens)
    weights = np.asarray(result.weights)[:2]
    read = [_read(found, row) - 1 for row in (0, 1)]
    others = np.stack([np.delete(row, place) for row, place in zip(weights, read, strict=True)])
    margin = float(np.log(weights[[0, 1], read] / others.max(axis=1)).min())
    table = np.asarray(found.key).T @ np.asarray(found.query)
    rounding = 64 * tokens.shape[1] * 2.0**-52
    return (
        Finding(
            f"the larger distance from a target, {name}",
            _farthest(result.contexts, targets),
            rounding * _LENGTH,
            "<=",
            float(found.error_bound or 0.0),
        ),
        Finding(f"the rank of Kᵀ Q, {name}", int(np.linalg.matrix_rank(table, rtol=1e-10)), 0.0, "=", float(found.rank or 0)),
        Finding(f"the smallest margin, {name}", margin, 1e-9, "=", float(found.margin or 0.0), 1e-9),
        Finding(f"the largest leak, {name}", float(others.sum(axis=1).max()), rounding, "<=", 1e-3),
    )


def _read(found: Layer, row: int) -> int:
    """Return the token, counted from 1, that a position reads."""
    read = found.reads[row]
    return 1 + (max(read, key=lambda place: read[place]) if isinstance(read, dict) else int(read))
