"""Key, query and value matrices of one self-attention layer that make chosen positions read what they should."""

import itertools
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.arrays import Array, Given
from headwise.core.attention import Attention
from headwise.core.masks import Mask
from headwise.core.self_attention import SelfAttention
from headwise.design.certificates import Certificate, Dependency, LayerBlocked, LayerWinner
from headwise.design.door import check_between, check_matrix, check_reads, check_seconds, check_targets
from headwise.design.pattern import Pattern, level_map, solve
from headwise.design.result import finite
from headwise.design.scale import smallest_scale
from headwise.design.separate import UNIT, Mixture, Undecided, distances, length, power_of_two, scaled
from headwise.design.value_map import value_map
from headwise.errors import OptionError
from headwise.files import replacing
from headwise.shown import Shown, Summary, number

# Patterns tried, all of them, when only targets are given; beyond that one position is settled after the other.
_MOST_PATTERNS = 4096
_ORDINARY = 900

Reads = dict[int, dict[int, float]]


@dataclass(frozen=True, repr=False)
class Layer(Shown):
    """A self-attention layer found by `layer`, or the proof that there is none.

    Call it on tokens to run it. ``key``, ``query`` and ``value`` are matrices applied as K x (None: the identity);
    ``rank`` is the width of keys and queries (a smaller one may do); ``margin`` the smallest score difference between a
    token to be read and another; ``leak`` the largest weight on other tokens; ``uneven`` bounds by which factor, less 1,
    weights of a mixture are off their ratios.
    """

    verdict: str
    reason: str
    reads: Reads = field(default_factory=dict)
    key: Float[np.ndarray, "r d"] | None = None
    query: Float[np.ndarray, "r d"] | None = None
    value: Float[np.ndarray, "v d"] | None = None
    margin: float | None = None
    leak: float | None = None
    error_bound: float | None = None
    uneven: float | None = None
    certificate: Certificate | None = None

    @property
    def rank(self) -> int | None:
        """How wide keys and queries are."""
        return None if self.key is None else len(self.key)

    def verify(self) -> bool:
        """Check the certificate in exact arithmetic, independent of the solver; False if there is none."""
        return self.certificate is not None and self.certificate.check()

    def __call__(
        self, tokens: Float[Array, "*_ n d"] | Given, *, allowed: Mask | Given = None, empty: str = "error"
    ) -> Attention:
        """Run the layer on tokens."""
        return SelfAttention(**self._matrices())(tokens, allowed=allowed, empty=empty)

    def to_torch(self) -> Any:  # noqa: ANN401  a torch module, which is not imported here
        """Return a ``torch.nn.ModuleDict`` of linear maps named key, query and value (float64, no bias).

        A matrix that is the identity is left out. Scores are ``key(x) @ query(x).T``, without 1/sqrt(d).
        """
        from headwise.core.with_torch import linear_maps  # noqa: PLC0415  loads torch

        return linear_maps(self._matrices())

    def save(self, path: str | Path) -> None:
        """Write the matrices to a .safetensors file."""
        from safetensors.numpy import save  # noqa: PLC0415

        if Path(path).suffix != ".safetensors":
            raise OptionError("save", f"path must end in .safetensors, but got {str(path)!r}")
        with replacing(Path(path)) as stream:
            stream.write(save({name: np.ascontiguousarray(matrix) for name, matrix in self._matrices().items()}))

    def _matrices(self) -> dict[str, Any]:
        if self.key is None or self.query is None:
            raise OptionError("Layer", f"only a possible layer has matrices, but this one is {self.verdict}")
        named = {"key": self.key, "query": self.query, "value": self.value}
        return {name: matrix for name, matrix in named.items() if matrix is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        matrices = {"key": self.key, "query": self.query, "value": self.value}
        return {
            "kind": "layer",
            "verdict": self.verdict,
            "reason": self.reason,
            "reads": {str(i): {str(j): weight for j, weight in part.items()} for i, part in self.reads.items()},
            **{name: None if matrix is None else matrix.tolist() for name, matrix in matrices.items()},
            "rank": self.rank,
            "margin": self.margin,
            "leak": self.leak,
            "error_bound": self.error_bound,
            "uneven": self.uneven,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }

    def summary(self) -> Summary:
        """Describe where each position looks and the numbers that go with it."""
        rows = [
            [
                f"position {i} reads",
                ", ".join(f"{j} ({number(weight)})" if len(part) > 1 else str(j) for j, weight in part.items()),
            ]
            for i, part in list(self.reads.items())[:8]
        ]
        named = {"margin": self.margin, "leak": self.leak, "error at most": self.error_bound}
        rows += [[name, number(value)] for name, value in named.items() if value is not None]
        if self.key is not None:
            rows.append(["head width", str(self.rank)])
        if self.certificate is not None and self.certificate.describe() != self.reason:
            rows.append(["proof", self.certificate.describe()])
        return Summary(f"layer: {self.verdict}", ["", ""], rows, [self.reason])

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Layer: {self.verdict}{'' if self.key is None else f', head width {self.rank}'}>"


def layer(
    tokens: Float[Array, "n d"] | Given,
    *,
    reads: Mapping[int, int | Mapping[int, float]] | Given = None,
    targets: Mapping[int, Float[Array, " v"]] | Given = None,
    leak: float = 1e-3,
    seconds: float = 20.0,
) -> Layer:
    """Find K, Q and V of one self-attention layer on these tokens, or prove that there are none.

    Parameters
    ----------
    tokens
        ``(n, d)``.
    reads
        Where positions look: ``{i: j}`` for one token, ``{i: {j: weight, ...}}`` for a mixture. Positions that are not
        mentioned are free. None: the pattern is chosen, so that the targets can be met by reading one token each; all
        patterns are tried up to 4096 of them, beyond that greedily, one position after the other.
    targets
        What positions get, ``{i: vector}``. None: they get the token that they read (V is the identity).
    leak
        The weight that may go to other tokens; a promise that the layer keeps on these tokens.
    seconds
        How long exact arithmetic may take.

    Examples
    --------
    Token 1 shall read token 0, and get something else than what stands there:

    >>> found = layer(np.eye(3), reads={1: 0}, targets={1: [0.0, 2.0, 0.0]})
    >>> found.verdict, found(np.eye(3)).contexts[1].round(2) + 0.0
    ('possible', array([0., 2., 0.]))
    """
    found = check_matrix("layer", "tokens", tokens, "(n, d)")
    check_between("layer", "leak", leak)
    check_seconds("layer", seconds)
    wanted = check_targets("layer", targets, len(found))
    if reads is None and not wanted:
        raise OptionError("layer", "reads or targets must be given, but both are missing")
    # Tokens of size 1/2 at most, so that no product leaves the range of floats; powers of two round nothing.
    shift = power_of_two(found)
    small = scaled(found, shift)
    if reads is None:
        return _restored(_chosen(small, wanted, leak, time.monotonic() + seconds), found, shift)
    given = check_reads("layer", reads, len(found), wanted)
    return _restored(_built(small, given, wanted, leak, seconds), found, shift)


def _restored(built: Layer, tokens: np.ndarray, shift: int) -> Layer:
    """Turn a layer for scaled tokens into one for the tokens as they are; its certificate is then about those."""
    proof: Any = built.certificate
    if built.key is None or built.query is None:
        return built if proof is None else replace(built, certificate=replace(proof, tokens=tokens))
    with np.errstate(over="ignore", under="ignore"):
        key, query = scaled(built.key, shift), scaled(built.query, shift)
        value = None if built.value is None else scaled(built.value, shift)
    proof = replace(proof, tokens=tokens, key=key, query=query)
    whole = all(np.isfinite(matrix).all() for matrix in (key, query, *([] if value is None else [value])))
    if not whole or (abs(shift) > _ORDINARY and not proof.check()):
        return Layer("undecided", "the matrices are too large or too small for float64", built.reads)
    return replace(built, key=key, query=query, value=value, certificate=proof)


def _chosen(tokens: np.ndarray, targets: dict[int, np.ndarray], leak: float, deadline: float) -> Layer:
    """Choose a pattern that reads one token per target."""
    tried, few = 0, len(tokens) ** len(targets) <= _MOST_PATTERNS
    for reads in _all_patterns(len(tokens), list(targets)) if few else _greedy_pattern(tokens, targets, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            return Layer("undecided", f"time was up after {tried} patterns")
        tried += 1
        if isinstance(value_map(tokens, reads, targets), Dependency):
            continue
        built = _built(tokens, reads, targets, leak, left)
        if built.verdict == "possible":
            return built
    how = f"all {tried} patterns that read one token each" if few else "the pattern found greedily"
    return Layer("undecided", f"{how} failed; patterns that mix tokens were not tried")


def _all_patterns(count: int, places: list[int]) -> Iterator[Reads]:
    for choice in itertools.product(range(count), repeat=len(places)):
        yield {place: {j: 1.0} for place, j in zip(places, choice, strict=True)}


def _greedy_pattern(tokens: np.ndarray, targets: dict[int, np.ndarray], deadline: float) -> Iterator[Reads]:
    """Settle one position after the other on the first token that leaves the targets and the pattern possible so far."""
    reads: Reads = {}
    for place in targets:
        for j in range(len(tokens)):
            trial = {**reads, place: {j: 1.0}}
            part = {i: targets[i] for i in trial}
            if isinstance(value_map(tokens, trial, part), Dependency):
                continue
            if isinstance(solve(_pattern(tokens, trial), seconds=deadline - time.monotonic()), np.ndarray):
                reads = trial
                break
        else:
            return
    yield reads


def _pattern(tokens: np.ndarray, reads: Reads) -> Pattern:
    members = np.zeros((len(reads), len(tokens)), dtype=bool)
    for row, part in zip(members, reads.values(), strict=True):
        row[list(part)] = True
    return Pattern(tokens, np.array(list(reads)), members)


@dataclass(frozen=True)
class _Plan:
    """Both halves of a layer before it is scaled: scores are x_j^T (offset + scale matrix) x_i."""

    pattern: Pattern
    reads: Reads
    targets: dict[int, np.ndarray]
    matrix: Float[np.ndarray, "d d"]
    offset: Float[np.ndarray, "d d"]
    value: Float[np.ndarray, "v d"] | None


def _built(tokens: np.ndarray, reads: Reads, targets: dict[int, np.ndarray], leak: float, seconds: float) -> Layer:
    """Solve both halves for a given pattern."""
    value = None
    if targets:
        mapped = value_map(tokens, reads, targets)
        if isinstance(mapped, Dependency):
            return Layer("impossible", mapped.describe(), reads, certificate=mapped)
        value, missed = mapped
        if missed > leak:
            reason = f"what is read is so nearly dependent that the best V in float64 misses the targets by {missed:.1e}"
            return Layer("undecided", reason, reads)
    pattern = _pattern(tokens, reads)
    matrix = solve(pattern, seconds=seconds)
    if isinstance(matrix, Mixture):
        return _blocked(pattern, reads, matrix, leak)
    if isinstance(matrix, Undecided):
        return Layer("undecided", matrix.reason, reads)
    offset = level_map(pattern, [[part.get(j, 0.0) for j in range(len(tokens))] for part in reads.values()])
    if offset is None:
        return Layer("undecided", "no K and Q were found that give these ratios of weights", reads)
    return _scaled(_Plan(pattern, reads, targets, matrix, offset, value), leak)


def _blocked(pattern: Pattern, reads: Reads, mixture: Mixture, leak: float) -> Layer:
    """Translate the mixture; it decides, unless members shall get weights so unequal that they make room for a margin."""
    outside = np.argwhere(~pattern.members)
    level = pattern.members.copy()
    level[np.arange(len(level)), pattern.leaders] = False
    inside = np.argwhere(level)
    place = pattern.positions.tolist()
    proof = LayerBlocked(
        pattern.tokens,
        reads,
        leak,
        [(place[outside[r][0]], int(outside[r][1]), weight) for r, weight in zip(mixture.rows, mixture.weights, strict=True)],
        [(place[p], int(j), weight) for (p, j), weight in zip(inside.tolist(), mixture.span_weights, strict=True) if weight],
    )
    if proof.check():
        return Layer("impossible", proof.describe(), reads, certificate=proof)
    return Layer("undecided", "with members level there is no margin; whether unequal weights help was not decided", reads)


def _scaled(plan: _Plan, leak: float) -> Layer:
    """Scale the pattern until it keeps the promise, factor it, and state what is proved."""
    pattern = plan.pattern
    gaps, slack = pattern.gaps(plan.matrix)
    safe = np.where(pattern.members, np.inf, gaps - 4 * slack)
    if safe.min() <= 0:
        return Layer("undecided", "the margin is too small for float64 scores to show it", plan.reads)
    strict = leak * (1 - 1e-10 * (1 - math.log(leak)))
    needs = [
        smallest_scale(row[np.isfinite(row)], int(inside.sum()), strict)
        for row, inside in zip(safe, pattern.members, strict=True)
    ]
    scale = max(needs, default=0.0)
    for trial in range(26):
        key, query = _factored(plan.offset + scale * plan.matrix)
        built = SelfAttention(key=key, query=query, value=plan.value)(pattern.tokens)
        found = np.where(pattern.members, 0.0, built.weights[pattern.positions]).sum(axis=1).max(initial=0.0)
        if found <= leak:
            return _told(plan, key, query, float(found), leak)
        scale *= 1 + 1e-12 * 4.0**trial
    return Layer("undecided", "no scale keeps the leak in float64", plan.reads)


def _factored(matrix: Float[np.ndarray, "d d"]) -> tuple[Float[np.ndarray, "r d"], Float[np.ndarray, "r d"]]:
    """Write B as K^T Q with as few rows as its rank, balanced."""
    left, sizes, right = np.linalg.svd(matrix)
    rank = max(1, int((sizes > 1e-13 * sizes[0]).sum()))
    root = np.sqrt(sizes[:rank])[:, None]
    return root * left[:, :rank].T, root * right[:rank]


def _told(plan: _Plan, key: np.ndarray, query: np.ndarray, leak: float, leak_wanted: float) -> Layer:
    """State what holds for the finished matrices."""
    pattern = plan.pattern
    gaps, slack = pattern.factored_gaps(key, query)
    lower = (gaps - slack)[~pattern.members]
    uneven = _uneven(plan, key, query)
    if uneven > leak_wanted:
        reason = f"the rounding of scores upsets the wanted ratios of weights by {uneven:.1e}"
        return Layer("undecided", reason, plan.reads)
    proof = LayerWinner(pattern.tokens, plan.reads, key, query, uneven)
    margin = float(gaps[~pattern.members].min(initial=np.inf))
    if not (lower.min(initial=np.inf) > 0 or proof.check()):
        return Layer("undecided", "the margin is too small for float64 scores to show it", plan.reads)
    reason = f"{len(plan.reads)} positions read as asked, with keys and queries of width {len(key)}"
    return Layer(
        "possible",
        reason,
        plan.reads,
        key,
        query,
        plan.value,
        margin=margin if math.isfinite(margin) else None,
        leak=leak,
        error_bound=finite(_error(plan, key, query)) if plan.targets else None,
        uneven=uneven,
        certificate=proof,
    )


def _error(plan: _Plan, key: np.ndarray, query: np.ndarray) -> float:
    """Bound |context - target| over the positions: as computed, plus what rounding of scores and sums can do."""
    pattern = plan.pattern
    built = SelfAttention(key=key, query=query, value=plan.value)(pattern.tokens)
    values = pattern.tokens if plan.value is None else pattern.tokens @ plan.value.T
    _, slack = pattern.factored_gaps(key, query)
    rows = {place: row for row, place in enumerate(plan.reads)}
    worst = 0.0
    for place, target in plan.targets.items():
        with np.errstate(over="ignore"):
            doubt = float(np.expm1(4 * slack[rows[place]].max()))
        far = float(distances(values, target).max())
        worst = max(worst, length(built.contexts[place] - target) + far * doubt)
    sizes = np.abs(pattern.tokens) if plan.value is None else np.abs(pattern.tokens) @ np.abs(plan.value).T
    return worst + 4 * (sum(values.shape) + sum(pattern.tokens.shape) + 8) * UNIT * float(np.sqrt(sizes.shape[1]) * sizes.max())


def _uneven(plan: _Plan, key: np.ndarray, query: np.ndarray) -> float:
    """Bound how far the score differences of members are from the logarithms of their wanted ratios."""
    tokens = plan.pattern.tokens
    scores = (tokens[plan.pattern.positions] @ query.T) @ (tokens @ key.T).T
    _, slack = plan.pattern.factored_gaps(key, query)
    worst = 0.0
    for row, wanted in enumerate(plan.reads.values()):
        first = min(wanted)
        for j, weight in wanted.items():
            away = abs(scores[row, j] - scores[row, first] - math.log(weight / wanted[first]))
            worst = max(worst, float(away + 2 * slack[row].max()) if len(wanted) > 1 else 0.0)
    return worst
