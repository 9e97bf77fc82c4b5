"""Sobol points for the keys that carry the randomness, closed formulas for the bulk given them, and a bias certificate.

Given the scores of the wide keys, the bulk's sums are nearly Gaussian with known moments, so the conditional mean of a head's
context is known to second order and its conditional covariance to first. How far that is from the truth is measured: whole
draws of all keys are compared with what the formulas say of the same wide scores.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from headwise.errors import OptionError
from headwise.stress import sobol
from headwise.stress.assemble import Found, Tick, weighted_gram
from headwise.stress.laplace import Split
from headwise.stress.sampling import STUDENT, contexts_given, roots
from headwise.stress.scores import Scores, cumulants
from headwise.stress.unseen import allowance

_MOST_POINTS = 14
_MOST_DIMENSIONS = 21_000
_FEW_DIMENSIONS = 256
_DIRECTIONS = 8
_PAIRS = 4096


@dataclass(frozen=True)
class Given:
    """What the formulas say, given wide scores: coefficients of the mean, and of each head's leading context."""

    rows: Float[np.ndarray, "n r"]
    leading: Float[np.ndarray, "n h e"]
    pull: Float[np.ndarray, "n h"]


class Conditional:
    """The closed formulas for the bulk."""

    def __init__(self, scores: Scores, split: Split) -> None:
        """Collect the vectors that coefficients multiply: wide values, and each head's bulk sums."""
        self.scores, self.split = scores, split
        width, heads = scores.given.shape[1], scores.heads
        bulk = split.bulk
        self.first = np.zeros(heads) if bulk is None else (bulk.plain + bulk.extra)[:, -1]
        self.sums = np.zeros((heads, width)) if bulk is None else (bulk.plain + bulk.extra)[:, :-1]
        self.second = np.zeros((heads, heads)) if bulk is None else bulk.second[:, :, -1]
        self.vectors = np.zeros((heads, heads, width)) if bulk is None else bulk.second[:, :, :-1]
        own = np.einsum("hhv->hv", self.vectors)
        self.basis = np.concatenate([scores.values(split.wide), self.sums, own])
        self.root = roots(split.covariances)
        self.mean = scores.mean[split.wide] - scores.shift
        # Coordinates of the noise with the largest variance first: Sobol points are best there.
        sizes = (self.root**2).sum(axis=1).ravel()
        self.order = np.argsort(-sizes, kind="stable")
        self.order = self.order[sizes[self.order] > 1e-15 * sizes.max(initial=0.0)]

    def wide_scores(self, noise: Float[np.ndarray, "n z"]) -> Float[np.ndarray, "n w h"]:
        """Turn independent normals into scores of the wide keys, from the shift."""
        spread = np.zeros((len(noise), self.mean.size))
        spread[:, self.order] = noise
        return np.einsum("whg,nwg->nwh", self.root, spread.reshape(len(noise), *self.mean.shape)) + self.mean

    def given(self, found: Float[np.ndarray, "n w h"]) -> Given:
        """Return the coefficients, given the wide scores."""
        heads = self.scores.heads
        with np.errstate(divide="ignore"):
            top = np.maximum(found.max(axis=1, initial=-np.inf), np.log(self.first))
        x, fade = np.exp(found - top[:, None, :]), np.exp(-top)
        total = x.sum(axis=1) + self.first * fade
        pull = fade / total
        lift = 1 + np.diag(self.second) * pull**2
        shares = np.swapaxes(x / total[:, None, :], 1, 2)
        rows = np.concatenate([(shares * lift[:, :, None]).sum(axis=1), pull * lift, -(pull**2)], axis=1)
        return Given(rows / heads, np.concatenate([shares, pull[:, :, None]], axis=2), pull)

    def leading(self, given: Given) -> Float[np.ndarray, "n h v"]:
        """Return the leading contexts of each head themselves."""
        values = self.scores.values(self.split.wide)
        return given.leading[:, :, :-1] @ values + given.leading[:, :, -1:] * self.sums

    def within(self, given: Given) -> tuple[Float[np.ndarray, "v v"], Float[np.ndarray, "h h"]]:
        """Return the mean conditional covariance less the sum over bulk keys, and the factors of that sum."""
        heads, count = self.scores.heads, len(given.rows)
        contexts = self.leading(given)
        weighted = contexts * given.pull[:, :, None]
        factors = given.pull.T @ given.pull / count
        cross = np.einsum("nh,ngv->hgv", given.pull, weighted, optimize=True) / count
        part = -np.einsum("hgv,hgx->vx", self.vectors, cross)
        flat = weighted.reshape(count, -1)
        products = (flat.T @ flat / count).reshape(heads, contexts.shape[2], heads, contexts.shape[2])
        total = part + part.T + np.einsum("hg,hvgx->vx", self.second, products)
        return total / heads**2, factors / heads**2


def _bulk_gram(scores: Scores, split: Split, factors: Float[np.ndarray, "h h"]) -> Float[np.ndarray, "v v"]:
    width = scores.given.shape[1]
    gram = np.zeros((width, width))
    for rows, covariance in scores.bulk_blocks(split.wide):
        x = scores.bulk_means(rows)[2]
        weights = np.einsum("khg,hg->k", cumulants(x, covariance)[0], factors)
        gram += weighted_gram(scores.values(rows), weights)
    return gram


def _looked_at(scores: Scores, tolerance: float) -> Int[np.ndarray, " w"]:
    few = scores.count * scores.heads <= _FEW_DIMENSIONS
    return np.arange(scores.count) if few else scores.wide(tolerance / 10)


def fits(scores: Scores, tolerance: float) -> bool:
    """Say whether there are few enough scores for Sobol points."""
    return len(_looked_at(scores, tolerance)) * scores.heads <= _MOST_DIMENSIONS


def hybrid(scores: Scores, tolerance: float, seed: int, tick: Tick | None) -> tuple[Found, bool]:
    """Double the Sobol points until the covariance has the tolerance; True if interrupted, with the law so far."""
    formulas = Conditional(scores, Split.at(scores, _looked_at(scores, tolerance)))
    if len(formulas.order) > _MOST_DIMENSIONS:
        raise OptionError(
            "law",
            f'method "hybrid" takes at most {_MOST_DIMENSIONS} scores that are not negligible, but there are '
            f"{len(formulas.order)}",
            'Use "montecarlo".',
        )
    found = _scrambled(formulas, 7, seed, tick)
    try:
        for power in range(8, _MOST_POINTS + 1):
            found = _scrambled(formulas, power, seed, tick)
            norm = max(float(np.linalg.norm(found.covariance)), 1e-300)
            if found.covariance_error <= 0.7 * tolerance * norm:
                break
    except KeyboardInterrupt:
        return _certified(formulas, found, seed), True
    return _certified(formulas, found, seed), False


def _scrambled(formulas: Conditional, power: int, seed: int, tick: Tick | None) -> Found:
    scores, width = formulas.scores, formulas.scores.given.shape[1]
    means, covariances, factors = [], [], np.zeros((scores.heads, scores.heads))
    dimensions = len(formulas.order)
    # Coefficients are taken from those without noise, lest little noise drowns in rounding.
    usual = formulas.given(formulas.mean[None]).rows
    for number in range(sobol.SCRAMBLES if dimensions else 1):
        rng = np.random.default_rng([seed, number])
        noise = sobol.normals(dimensions, 2**power, rng) if dimensions else np.zeros((1, 0))
        sums, square, inner = np.zeros(len(formulas.basis)), np.zeros((len(formulas.basis),) * 2), np.zeros((width, width))
        size = max(16, (1 << 20) // max(1, formulas.mean.size + width * scores.heads))
        for start in range(0, len(noise), size):
            given = formulas.given(formulas.wide_scores(noise[start : start + size]))
            share = len(given.rows) / len(noise)
            away = given.rows - usual
            sums += away.sum(axis=0) / len(noise)
            square += away.T @ away / len(noise)
            part, factor = formulas.within(given)
            inner += share * part
            factors += share * factor / (sobol.SCRAMBLES if dimensions else 1)
        means.append((sums + usual[0]) @ formulas.basis)
        covariances.append(formulas.basis.T @ (square - np.outer(sums, sums)) @ formulas.basis + inner)
        if tick is not None:
            tick(number + 1, sobol.SCRAMBLES, f"{2**power} Sobol points")
    each, centres = np.array(covariances), np.array(means)
    covariance = each.mean(axis=0) + _bulk_gram(scores, formulas.split, factors)
    mean = scores.centre + centres.mean(axis=0)
    traces = np.einsum("bvv->b", each)
    doubt, rounding = scores.rounding(float(np.trace(covariance)), 1.0)
    shift, more = allowance(scores, len(each) * 2**power)
    errors = sobol.spread(centres) + doubt + shift, sobol.spread(each) + rounding + more, sobol.spread(traces) + rounding + more
    return Found(mean, covariance, *errors, 1.0, len(each) * 2**power)


def _certified(formulas: Conditional, found: Found, seed: int) -> Found:
    """Add to the errors how far the formulas are from whole draws with the same wide scores, in the leading directions."""
    if formulas.split.bulk is None:
        return found
    scores, rng = formulas.scores, np.random.default_rng([seed, 1 << 20])
    directions = np.linalg.eigh(found.covariance)[1][:, -_DIRECTIONS:]
    ours, whole, inner = [], [], []
    size = int(np.clip((1 << 22) // (scores.count * scores.heads), 4, _PAIRS // 8))
    for _ in range(min(_PAIRS // size, 64)):
        noise = rng.standard_normal((size, len(formulas.order)))
        wide = formulas.wide_scores(noise)
        given = formulas.given(wide)
        ours.append(given.rows @ formulas.basis @ directions)
        whole.append(contexts_given(scores, formulas.split.wide, wide, rng).mean(axis=1) @ directions)
        inner.append(_within_each(formulas, given, directions))
    a, b, c = np.concatenate(ours), np.concatenate(whole), np.concatenate(inner)
    centre = found.mean - scores.centre
    a, b = a - centre @ directions, b - centre @ directions
    off = b[:, :, None] * b[:, None, :] - a[:, :, None] * a[:, None, :] - c
    bias, spread = off.mean(axis=0), off.std(axis=0) / np.sqrt(len(off))
    extra = float(np.linalg.norm(bias)) + STUDENT * float(np.linalg.norm(spread))
    trace = abs(float(np.trace(bias))) + STUDENT * float(np.trace(off, axis1=1, axis2=2).std() / np.sqrt(len(off)))
    move = b - a
    drift = float(np.linalg.norm(move.mean(axis=0))) + STUDENT * float(np.linalg.norm(move.std(axis=0))) / np.sqrt(len(move))
    return Found(
        found.mean,
        found.covariance,
        found.mean_error + drift,
        found.covariance_error + extra,
        found.variance_error + trace,
        found.mass,
        found.evaluations + len(off),
    )


def _within_each(formulas: Conditional, given: Given, directions: Float[np.ndarray, "v c"]) -> Float[np.ndarray, "n c c"]:
    """Return the conditional covariance of the bulk for each draw, in some directions."""
    scores = formulas.scores
    contexts = formulas.leading(given) @ directions
    pull, heads = given.pull, scores.heads
    tau = pull[:, :, None] * pull[:, None, :]
    vectors = formulas.vectors @ directions
    cross = np.einsum("nhg,hgv,ngx->nvx", tau, vectors, contexts, optimize=True)
    total = np.einsum("nhg,hg,nhv,ngx->nvx", tau, formulas.second, contexts, contexts, optimize=True)
    total -= cross + np.swapaxes(cross, 1, 2)
    width = directions.shape[1]
    sums = np.zeros((heads, heads, width, width))
    for rows, covariance in scores.bulk_blocks(formulas.split.wide):
        values = scores.values(rows) @ directions
        second = cumulants(scores.bulk_means(rows)[2], covariance)[0]
        sums += np.einsum("khg,kv,kx->hgvx", second, values, values, optimize=True)
    return (total + np.einsum("nhg,hgvx->nvx", tau, sums, optimize=True)) / heads**2
