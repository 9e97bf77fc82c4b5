"""A few rows of a layer looked at as a whole: how heads of a layer resemble each other, how near they look, a short text.

Rows are spread evenly over the text. Their weights are made again from queries and keys; for a few rows that is cheap, and
nothing as large as queries times keys ever exists.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.arrays import Array
from headwise.inspect.task import Rows, Task

# Rows per text, and numbers held at one time.
MOST_ROWS, _MOST_NUMBERS = 32, 1 << 24
# Rows whose contexts are kept for the comparison of heads.
_KEPT_ROWS = 512


def weights_of(task: Task, entry: int, places: Array) -> tuple[Array, Array, Array]:
    """Return weights (h, s, k) of some queries, how fast their scores grow with key length, and which keys they may see."""
    torch = task.torch
    each = task.queries.shape[1] // task.keys.shape[1]
    queries = task.queries[entry][:, places].to(task.dtype) * task.scale
    keys = task.keys[entry].to(task.dtype).repeat_interleave(each, 0)
    scores = queries @ keys.transpose(1, 2)
    rate = scores
    if task.softcap is not None:
        bent = torch.tanh(scores / task.softcap)
        scores, rate = bent * task.softcap, scores * (1 - bent.square())
    allowed = torch.stack([_row(task, entry, int(place)) for place in places], dim=-2)
    scores = torch.where(allowed, scores, -torch.inf)
    columns = scores
    if task.sinks is not None:
        sink = task.sinks.to(task.dtype)[:, None, None].expand(-1, scores.shape[1], 1)
        columns = torch.cat([scores, sink], dim=-1)
    weights = torch.softmax(columns, dim=-1)[..., : scores.shape[-1]]
    return torch.nan_to_num(weights), torch.where(allowed, rate, 0.0), allowed


def _row(task: Task, entry: int, place: int) -> Array:
    """Return which keys one query may look at, (k,) or (h, k)."""
    torch, count = task.torch, task.keys.shape[2]
    found = task.rule.block(entry, slice(place, place + 1), slice(0, count))
    if isinstance(found, bool):
        return torch.full((count,), found, device=task.queries.device)
    return found.expand(*found.shape[:-1], count)[..., 0, :]


@dataclass(frozen=True)
class Likeness:
    """How heads of a layer resemble each other on this text, each of shape (h, h).

    overlap: mean over rows of sum_j min(a_j, b_j), 1 for equal weights. contexts: linear CKA of what they read, which no
    rotation of values changes. averaging: variance left when two heads are averaged under noise in key lengths that both
    see, over their mean variance, in score space: 1/2 if they lean on different keys, 1 if on the same.
    """

    overlap: np.ndarray
    contexts: np.ndarray
    averaging: np.ndarray
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as plain data."""
        tables = {name: getattr(self, name).tolist() for name in ("overlap", "contexts", "averaging")}
        return {"rows": self.rows, **tables}


class Sample:
    """What is summed up over the sampled rows of a layer."""

    def __init__(self, heads: int, near: int) -> None:
        """Start with no row."""
        self.near, self.rows = near, 0
        self.overlap, self.averaging = np.zeros((heads, heads)), np.zeros((heads, heads))
        self.sums = {name: np.zeros(heads) for name in ("near_weight", "near_share", "distance", "evenness")}
        self.contexts: list[np.ndarray] = []

    def add(self, task: Task, entry: int, places: Array, rows: Rows) -> Array:
        """Take in some rows of a batch entry and return their weights (h, s, k)."""
        torch = task.torch
        weights, rate, allowed = weights_of(task, entry, places)
        visible = allowed.sum(-1).expand(weights.shape[:2])
        count = task.keys.shape[2]
        away = (places[:, None] + task.rule.offset - torch.arange(count, device=places.device)).abs()
        close = away <= self.near
        self.sums["near_weight"] += _total((weights * close).sum(-1))
        self.sums["near_share"] += _total((close & allowed).sum(-1).expand(visible.shape) / visible.clamp(min=1))
        self.sums["distance"] += _total((weights * away).sum(-1))
        self.sums["evenness"] += _total(rows.entropy[entry][:, places].exp() / visible.clamp(min=1))
        moved = weights * rate
        for head in range(len(weights)):
            self.overlap[head] += _total(torch.minimum(weights[head], weights).sum(-1))
        cross = torch.einsum("hsk,gsk->shg", moved, moved)
        own = torch.diagonal(cross, dim1=1, dim2=2)
        both = own[:, :, None] + own[:, None, :]
        self.averaging += (
            torch.where(both > 0, (both + 2 * cross) / (2 * both.clamp(min=1e-30)), 1.0).sum(0).double().cpu().numpy()
        )
        if self.rows < _KEPT_ROWS and rows.context is not None:
            self.contexts.append(rows.context[entry][:, places].double().cpu().numpy())
        self.rows += len(places)
        return weights

    def means(self) -> dict[str, np.ndarray]:
        """Return the means over rows, one number per head."""
        return {name: total / max(1, self.rows) for name, total in self.sums.items()}

    def likeness(self) -> Likeness:
        """Return how heads resemble each other."""
        rows = max(1, self.rows)
        return Likeness(self.overlap / rows, _cka(np.concatenate(self.contexts, axis=1)), self.averaging / rows, self.rows)


def _total(found: Array) -> np.ndarray:
    return found.sum(-1).double().cpu().numpy()


def _cka(contexts: np.ndarray) -> np.ndarray:
    """Return the linear CKA of every pair of heads from contexts (h, s, v)."""
    centred = contexts - contexts.mean(axis=1, keepdims=True)
    # |X^T Y|^2 = <X X^T, Y Y^T>: products of the small tables of rows by rows.
    grams = np.einsum("hsv,htv->hst", centred, centred).reshape(len(contexts), -1)
    cross = grams @ grams.T
    own = np.sqrt(np.diagonal(cross))
    both = np.outer(own, own)
    return np.where(both > 0, cross / np.where(both > 0, both, 1.0), 0.0)


def chosen_rows(task: Task, counted: Array, most: int) -> Array:
    """Return up to `most` counted rows, spread evenly, fewer where weights of that many would take much memory."""
    torch = task.torch
    where = torch.nonzero(counted).squeeze(-1)
    most = max(1, min(most, _MOST_NUMBERS // (task.queries.shape[1] * task.keys.shape[2])))
    if len(where) <= most:
        return where
    # From the middle of each stretch, so that the first row, which sees one key, does not stand for many.
    places = (torch.arange(most, device=where.device) * 2 + 1) * len(where) // (2 * most)
    return where[places]
