"""Key, query and value matrices of one self-attention layer that make chosen positions read what they should."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.arrays import Array, Given
from headwise.core.attention import Attention
from headwise.core.masks import Mask
from headwise.core.self_attention import SelfAttention
from headwise.design.certificates import Certificate, Dependency, LayerBlocked, LayerWinner
from headwise.design.door import check_between, check_matrix, check_reads, check_targets
from headwise.design.pattern import Pattern, level_map, solve
from headwise.design.scale import smallest_scale
from headwise.design.separate import UNIT, Mixture, Undecided
from headwise.design.value_map import value_map
from headwise.errors import OptionError
from headwise.files import replacing
from headwise.shown import Shown, Summary, number

# Patterns tried, all of them, when only targets are given; beyond that one position is settled after the other.
_MOST_PATTERNS = 4096

Reads = dict[int, dict[int, float]]


@dataclass(frozen=True, repr=False)
class Layer(Shown):
    """A self-attention layer found by `layer`, or the proof that there is none.

    Call it on tokens to run it. ``key``, ``query`` and ``value`` are matrices applied as K x (None: the identity);
    ``rank`` is the head width that the pattern needs; ``margin`` the smallest score difference between a token to be read
    and another; ``leak`` the largest weight on other tokens.
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
    certificate: Certificate | None = None

    @property
    def rank(self) -> int | None:
        """How wide keys and queries must be."""
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
    wanted = check_targets("layer", targets, len(found))
    if reads is None and not wanted:
        raise OptionError("layer", "reads or targets must be given, but both are missing")
    if reads is not None:
        return _built(found, check_reads("layer", reads, len(found), wanted), wanted, leak, seconds)
    return _chosen(found, wanted, leak, seconds)


def _chosen(tokens: np.ndarray, targets: dict[int, np.ndarray], leak: float, seconds: float) -> Layer:
    """Choose a pattern that reads one token per target."""
    tried, few = 0, len(tokens) ** len(targets) <= _MOST_PATTERNS
    for reads in _all_patterns(len(tokens), list(targets)) if few else _greedy_pattern(tokens, targets, seconds):
        tried += 1
        if isinstance(value_map(tokens, reads, targets), Dependency):
            continue
        built = _built(tokens, reads, targets, leak, seconds)
        if built.verdict == "possible":
            return built
    how = f"all {tried} patterns that read one token each" if few else "the pattern found greedily"
    return Layer("undecided", f"{how} failed; patterns that mix tokens were not tried")


def _all_patterns(count: int, places: list[int]) -> Iterator[Reads]:
    for choice in itertools.product(range(count), repeat=len(places)):
        yield {place: {j: 1.0} for place, j in zip(places, choice, strict=True)}


def _greedy_pattern(tokens: np.ndarray, targets: dict[int, np.ndarray], seconds: float) -> Iterator[Reads]:
    """Settle one position after the other on the first token that leaves the targets and the pattern possible so far."""
    reads: Reads = {}
    for place in targets:
        for j in range(len(tokens)):
            trial = {**reads, place: {j: 1.0}}
            part = {i: targets[i] for i in trial}
            if isinstance(value_map(tokens, trial, part), Dependency):
                continue
            if isinstance(solve(_pattern(tokens, trial), seconds=seconds), np.ndarray):
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
    residual: float


def _built(tokens: np.ndarray, reads: Reads, targets: dict[int, np.ndarray], leak: float, seconds: float) -> Layer:
    """Solve both halves for a given pattern."""
    value, residual = None, 0.0
    if targets:
        mapped = value_map(tokens, reads, targets)
        if isinstance(mapped, Dependency):
            return Layer("impossible", mapped.describe(), reads, certificate=mapped)
        value, residual = mapped
    pattern = _pattern(tokens, reads)
    matrix = solve(pattern, seconds=seconds)
    if isinstance(matrix, Mixture):
        proof = _blocked(pattern, reads, matrix)
        return Layer("impossible", proof.describe(), reads, certificate=proof)
    if isinstance(matrix, Undecided):
        return Layer("undecided", matrix.reason, reads)
    offset = level_map(pattern, [[part.get(j, 0.0) for j in range(len(tokens))] for part in reads.values()])
    if offset is None:
        return Layer("undecided", "the wanted weights contradict each other: no K and Q give these ratios", reads)
    return _scaled(_Plan(pattern, reads, targets, matrix, offset, value, residual), leak)


def _blocked(pattern: Pattern, reads: Reads, mixture: Mixture) -> LayerBlocked:
    outside = np.argwhere(~pattern.members)
    level = pattern.members.copy()
    level[np.arange(len(level)), pattern.leaders] = False
    inside = np.argwhere(level)
    place = pattern.positions.tolist()
    return LayerBlocked(
        pattern.tokens,
        {i: sorted(part) for i, part in reads.items()},
        [(place[outside[r][0]], int(outside[r][1]), weight) for r, weight in zip(mixture.rows, mixture.weights, strict=True)],
        [(place[p], int(j), weight) for (p, j), weight in zip(inside.tolist(), mixture.span_weights, strict=True) if weight],
    )


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
            return _told(plan, key, query, float(found))
        scale *= 1 + 1e-12 * 4.0**trial
    return Layer("undecided", "no scale keeps the leak in float64", plan.reads)


def _factored(matrix: Float[np.ndarray, "d d"]) -> tuple[Float[np.ndarray, "r d"], Float[np.ndarray, "r d"]]:
    """Write B as K^T Q with as few rows as its rank, balanced."""
    left, sizes, right = np.linalg.svd(matrix)
    rank = max(1, int((sizes > 1e-13 * sizes[0]).sum()))
    root = np.sqrt(sizes[:rank])[:, None]
    return root * left[:, :rank].T, root * right[:rank]


def _told(plan: _Plan, key: np.ndarray, query: np.ndarray, leak: float) -> Layer:
    """State what holds for the finished matrices."""
    pattern = plan.pattern
    gaps, slack = pattern.factored_gaps(key, query)
    lower = (gaps - slack)[~pattern.members]
    proof = LayerWinner(pattern.tokens, {i: sorted(part) for i, part in plan.reads.items()}, key, query)
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
        error_bound=_error(plan, key, query) if plan.targets else None,
        certificate=proof,
    )


def _error(plan: _Plan, key: np.ndarray, query: np.ndarray) -> float:
    """Bound |context - target| over the positions: as computed, plus what rounding of scores and sums can do."""
    pattern = plan.pattern
    built = SelfAttention(key=key, query=query, value=plan.value)(pattern.tokens)
    values = pattern.tokens if plan.value is None else pattern.tokens @ plan.value.T
    _, slack = pattern.factored_gaps(key, query)
    worst = 0.0
    for row, (place, target) in enumerate(plan.targets.items()):
        far = float(np.linalg.norm(values - target, axis=1).max())
        away = float(np.linalg.norm(built.contexts[place] - target))
        worst = max(worst, away + far * math.expm1(4 * float(slack[row].max())))
    return worst + 4 * (sum(values.shape) + 8) * UNIT * float(np.abs(values).max())
