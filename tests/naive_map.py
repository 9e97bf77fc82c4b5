"""Statistics from the whole map in float64, for the tests of `inspect`: short, slow and plain."""

import numpy as np


def naive(queries, keys, values, allowed, scale, *, first=None, sinks=None, softcap=None):
    """Return every statistic of queries (h, q, d) on keys (g, k, d); `allowed` is (h, q, k), `first` a key per query."""
    queries, keys = (np.asarray(array, dtype=np.float64) for array in (queries, keys))
    each = len(queries) // len(keys)
    count, length = queries.shape[1], keys.shape[1]
    raw = scale * np.einsum("hqd,hkd->hqk", queries, np.repeat(keys, each, axis=0))
    scores = raw if softcap is None else softcap * np.tanh(raw / softcap)
    rate = raw if softcap is None else raw * (1 - np.tanh(raw / softcap) ** 2)
    scores = np.where(allowed, scores, -np.inf)
    rate = np.where(allowed, rate, 0.0)
    columns = scores
    if sinks is not None:
        columns = np.concatenate([scores, np.broadcast_to(np.asarray(sinks)[:, None, None], (*scores.shape[:2], 1))], axis=-1)
    some = allowed.any(-1)
    peak = columns.max(-1, keepdims=True)
    terms = np.exp(columns - np.where(np.isfinite(peak), peak, 0.0))
    total = terms.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(total[..., None] > 0, terms / total[..., None], 0.0)
        logs = np.where(weights > 0, np.log(weights), 0.0)
        lse = np.log(total) + np.where(np.isfinite(peak[..., 0]), peak[..., 0], 0.0)
    real = weights[..., :length]
    ordered = np.sort(scores, axis=-1)
    own = np.arange(count) + length - count
    heads, lines = np.arange(len(queries))[:, None], np.arange(count)[None, :]

    def single(place):
        inside = (place >= 0) & (place < length)
        return np.where(inside, real[heads, lines, np.clip(place, 0, length - 1)], 0.0)

    with np.errstate(invalid="ignore"):
        margin = ordered[..., -1] - ordered[..., -2] if length > 1 else np.full(some.shape, np.inf)
    entropy = -(weights * logs).sum(-1)
    found = {
        "log_normalizer": lse,
        "entropy": np.where(some, entropy, 0.0),
        "effective_keys": np.where(some, np.exp(entropy), 0.0),
        "collision_keys": np.where(some, 1 / np.where(some, (weights**2).sum(-1), 1.0), 0.0),
        "top_weight": real.max(-1),
        "top_index": np.where(some, scores.argmax(-1), -1),
        "margin": np.where(some, margin, 0.0),
        "first_weight": single(np.zeros(count, dtype=int) if first is None else first),
        "self_weight": single(own),
        "previous_weight": single(own - 1),
        "gain": (real**2 * rate**2).sum(-1),
    }
    if values is not None:
        spread = np.repeat(np.asarray(values, dtype=np.float64), each, axis=0)
        context = real @ spread
        away = ((spread[:, None] - context[:, :, None]) ** 2).sum(-1)
        found["contexts"] = context
        found["sensitivity"] = (real**2 * rate**2 * away).sum(-1)
    return found
