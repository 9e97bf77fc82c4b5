"""What would help: the same noise met by another scale, more heads or normalised keys, ranked by the error that is left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.random_keys import RandomKeys
from headwise.core.rows import check_rows
from headwise.errors import EmptyError
from headwise.shown import Shown, Summary, number
from headwise.stress.curve import best_scale
from headwise.stress.estimate import Estimate
from headwise.stress.law import Law, law
from headwise.stress.normalised import normalised_errors

_HEADS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Remedy:
    """One thing to try: its queries, the mean squared error that is left, and the law behind it (None if it was sampled)."""

    name: str
    queries: Float[np.ndarray, "h d"]
    mean_squared_error: Estimate
    variance: Estimate
    law: Law | None


@dataclass(frozen=True, repr=False)
class Remedies(Shown):
    """All remedies, by what their error is at most, the best first."""

    ranked: Sequence[Remedy]
    target: Float[np.ndarray, " v"]
    keys: Sequence[int]

    def __getitem__(self, name: str) -> Remedy:
        """Return one remedy by its name."""
        return {remedy.name: remedy for remedy in self.ranked}[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {
            "kind": "remedies",
            "keys": list(self.keys),
            "remedies": [
                {
                    "name": remedy.name,
                    "queries": remedy.queries.tolist(),
                    "mean_squared_error": remedy.mean_squared_error.to_dict(),
                    "variance": remedy.variance.to_dict(),
                    "method": "sampled keys" if remedy.law is None else remedy.law.method,
                }
                for remedy in self.ranked
            ],
        }

    def summary(self) -> Summary:
        """Describe each remedy by one row."""
        rows = [
            [
                remedy.name,
                number(remedy.mean_squared_error.value),
                number(remedy.mean_squared_error.error, 2),
                number(remedy.variance.value),
                "sampled keys" if remedy.law is None else remedy.law.method,
            ]
            for remedy in self.ranked
        ]
        keys = ", ".join(map(str, self.keys[:8])) + (" ..." if len(self.keys) > 8 else "")
        return Summary(
            "What would help", ["remedy", "mean squared error", "error", "variance", "by"], rows, [f"heads share keys {keys}"]
        )

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Remedies: {self.ranked[0].name} is best of {len(self.ranked)}>"


def remedies(
    queries: Float[Array, "*h d"] | Given,
    random_keys: RandomKeys | Given,
    values: Float[Array, "k v"] | Given,
    target: Float[Array, " v"] | Given,
    *,
    keys: Sequence[int] | Given = None,
    tolerance: float = 1e-3,
    seed: int = 0,
    progress: Callable[[int, int, str], object] | None = None,
) -> Remedies:
    """Compare, on the same noise, how far from a target the output is: as it is, and with each remedy.

    The remedies are the best single scale, the division by sqrt(d), keys normalised to the
    length of their means (QK-norm), and 1, 2, 4 or 8 heads that share the keys to be read. A head's query is the one that
    scores its keys at the level of the queries given and all other means at zero, by least squares.

    Parameters
    ----------
    target
        ``(v,)``, the output wanted.
    keys
        The keys to be read; those with at least half of the largest weight at the mean keys, if not given.

    Examples
    --------
    >>> import headwise as hw
    >>> e = np.eye(10)
    >>> noisy = hw.RandomKeys(e, isotropic=1e-6, along_mean={0: 0.5})
    >>> found = remedies(10 * (e[0] + e[1]), noisy, e, (e[0] + e[1]) / 2)
    >>> found.ranked[0].name, round(float(found["as is"].mean_squared_error), 3)
    ('2 heads', 0.391)
    """
    base = law(queries, random_keys, values, tolerance=tolerance, seed=seed)
    heads, found = base.scores.queries, arrays.float64("remedies", "values", values)
    goal = arrays.float64("remedies", "target", target)
    asked = base.mean_squared_error(goal)
    chosen = keys_read(base) if keys is None else np.unique(check_rows("remedies", keys, random_keys.count, "keys"))
    if not len(chosen):
        raise EmptyError("remedies", "keys must name at least one key, but there are none")
    search = partial(best_scale, heads, random_keys, found, goal, moves=3, tolerance=tolerance, seed=seed, progress=progress)
    jobs: list[tuple[str, Callable[[], np.ndarray]]] = [
        (
            "best scale",
            lambda: search().scale * heads,
        ),
        ("1/sqrt(d)", lambda: heads / np.sqrt(random_keys.width)),
        *((f"{count} head{'s' * (count > 1)}", partial(split, base, chosen, count)) for count in _HEADS),
    ]
    tried = [Remedy("as is", heads, asked, Estimate(base.variance, base.variance_error), base)]
    for done, (name, make) in enumerate(jobs):
        if progress is not None:
            progress(done, len(jobs) + 1, name)
        other = make()
        result = law(other, random_keys, found, tolerance=tolerance, seed=seed)
        spread = Estimate(result.variance, result.variance_error)
        tried.append(Remedy(name, other, result.mean_squared_error(goal), spread, result))
    error, spread = normalised_errors(heads, random_keys, found, goal, seed, progress)
    tried.append(Remedy("normalised keys", heads, error, spread, None))
    # By what the error certainly is below; what differs by little keeps its order, the simpler remedy first.
    most = {remedy.name: remedy.mean_squared_error.value + remedy.mean_squared_error.error for remedy in tried}
    ranked = sorted(tried, key=lambda remedy: float(f"{most[remedy.name]:.2e}"))
    return Remedies(ranked, goal, chosen.tolist())


def keys_read(base: Law) -> Int[np.ndarray, " r"]:
    """Return the keys with at least half of the largest weight, at the mean keys."""
    weights = base.scores.shares.mean(axis=1)
    return np.flatnonzero(weights >= 0.5 * weights.max())


def split(base: Law, keys: Int[np.ndarray, " r"], heads: int) -> Float[np.ndarray, "h d"]:
    """Return one query per head: each head reads an equal part of the keys; with more heads than keys, one each.

    They score at the level of the queries of a law.
    """
    level = float((base.scores.shares * base.scores.mean).sum(axis=0).mean())
    parts = np.array_split(keys, heads) if heads <= len(keys) else [keys[[h % len(keys)]] for h in range(heads)]
    wanted = np.zeros((base.scores.count, heads))
    for head, part in enumerate(parts):
        wanted[part, head] = level
    return np.linalg.lstsq(np.asarray(base.scores.keys.means, dtype=np.float64), wanted)[0].T
