"""Queries that copy one value or average a set, with the scale that a wanted leak needs, or a proof that there are none."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from headwise.arrays import Array, Given
from headwise.core.rows import check_rows
from headwise.design.certificates import Together
from headwise.design.door import check_between, check_count, check_keys, check_seconds
from headwise.design.face import face_design
from headwise.design.result import Design
from headwise.errors import EmptyError, OptionError


def copy(
    keys: Float[Array, "k d"] | Given,
    index: int | Given,
    *,
    leak: float = 1e-3,
    values: Float[Array, "k v"] | Given = None,
    heads: int = 1,
    seconds: float = 20.0,
) -> Design:
    """Find the query that reads one value and nothing else, or prove that no query can.

    A key can win if and only if it is a vertex of the hull of all keys. The best direction is found, its margin proved, and
    scaled to the smallest length at which the weight elsewhere is at most `leak`.

    Parameters
    ----------
    keys
        ``(k, d)``.
    index
        The row to copy.
    leak
        The weight that may go elsewhere; a promise that ``attend`` with the returned query keeps.
    values
        ``(k, v)``; with them the design bounds how far the context is from the value.
    heads
        How many heads; all of them copy.
    seconds
        How long exact arithmetic may take before the answer is "undecided".

    Examples
    --------
    >>> design = copy(np.eye(3), 0, leak=0.01)
    >>> design.verdict, design.query.round(3)
    ('possible', array([ 3.526, -1.763, -1.763]))
    >>> copy([[0.0], [1.0], [2.0]], 1).reason
    'key 1 is a mixture of keys 0, 2, so under every query one of them scores at least as high'
    """
    found, others = check_keys("copy", keys, values)
    row = check_rows("copy", index, len(found)).tolist()
    if len(row) != 1:
        raise OptionError("copy", f"index must be one row, but got {len(row)}", "Use average for a set.")
    parts = [row] * check_count("copy", "heads", heads)
    return _designed(
        "copy", parts, found, check_between("copy", "leak", leak), values=others, seconds=check_seconds("copy", seconds)
    )


def average(
    keys: Float[Array, "k d"] | Given,
    indices: Iterable[int] | Given,
    *,
    leak: float = 1e-3,
    values: Float[Array, "k v"] | Given = None,
    heads: int = 1,
    seconds: float = 20.0,
) -> Design:
    """Find the query that reads the mean of a set of values, or prove that no query can.

    All keys of the set must score alike and above all others, so the set must be all the keys on a face of the hull. With
    several heads the set is split over them.

    Parameters
    ----------
    keys, leak, values, seconds
        As in `copy`.
    indices
        The rows of the set; repeats count once.
    heads
        How many heads. Each serves an equal part of the set, so that the mean of the heads is the mean of the set; where
        the numbers do not divide, parts overlap evenly.

    Examples
    --------
    >>> keys = np.eye(10)
    >>> design = average(keys, [0, 1], leak=1e-3)
    >>> round(float(design.query @ keys[0] - design.query @ keys[2]), 6)  # log(8 (1 - leak) / (2 leak))
    8.293049
    >>> average(keys, [0, 1], heads=2).queries.shape
    (2, 10)
    """
    found, others = check_keys("average", keys, values)
    rows = sorted(set(check_rows("average", indices, len(found)).tolist()))
    if not rows:
        raise EmptyError("average", "indices must name at least one key, but there are none")
    parts = split(rows, check_count("average", "heads", heads))
    return _designed(
        "average",
        parts,
        found,
        check_between("average", "leak", leak),
        values=others,
        seconds=check_seconds("average", seconds),
    )


def split(rows: Sequence[int], heads: int) -> list[list[int]]:
    """Give every head an equal part of the set, each row served by the same number of heads.

    >>> split([0, 1, 2, 3], 2), split([0, 1, 2], 2), split([5, 7], 4)
    ([[0, 1], [2, 3]], [[0, 1, 2], [0, 1, 2]], [[5], [7], [5], [7]])
    """
    size = len(rows) // math.gcd(len(rows), heads)
    places = [[(head * size + step) % len(rows) for step in range(size)] for head in range(heads)]
    return [sorted(rows[place] for place in part) for part in places]


def _designed(
    task: str,
    parts: list[list[int]],
    keys: Float[np.ndarray, "k d"],
    leak: float,
    *,
    values: Float[np.ndarray, "k v"] | None,
    seconds: float,
) -> Design:
    """Design one query per part of the set; parts that are the same are designed once."""
    designs = {
        part: face_design(task, keys, list(part), leak, values=values, seconds=seconds)
        for part in dict.fromkeys(map(tuple, parts))
    }
    chosen = [designs[tuple(part)] for part in parts]
    failed = next((design for design in chosen if design.queries is None), None)
    whole = sorted({row for part in parts for row in part})
    if failed is not None and len(designs) > 1:
        # What one head can do, all of them can; else the set might be split in another way.
        together = face_design(task, keys, whole, leak, values=values, seconds=seconds)
        if together.queries is None:
            return Design(task, "undecided", f"this split fails and others were not tried: {failed.reason}")
        parts, chosen, failed = [whole] * len(parts), [together] * len(parts), None
    if len(chosen) == 1 or failed is not None:
        return failed or chosen[0]
    bounds = [design.error_bound for design in chosen if design.error_bound is not None]
    return Design(
        task,
        "possible",
        f"{len(parts)} heads, {len(parts[0])} of the keys each; {chosen[0].reason}",
        np.concatenate([design.queries for design in chosen if design.queries is not None]),
        margin=min((design.margin for design in chosen if design.margin is not None), default=None),
        best_margin=min((design.best_margin for design in chosen if design.best_margin is not None), default=None),
        leak=max(design.leak for design in chosen if design.leak is not None),
        error_bound=sum(bounds) / len(bounds) if bounds else None,
        certificate=Together([design.certificate for design in designs.values() if design.certificate is not None]),
        rounding_only=any(design.rounding_only for design in chosen),
    )
