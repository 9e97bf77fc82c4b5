"""From texts to batches of tokens: whole, in sliding windows, padded or packed into one row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.errors import HeadwiseError, OptionError, check_option


class TextError(HeadwiseError, ValueError):
    """A text that cannot be run."""


@dataclass(frozen=True)
class Piece:
    """A text, or a window of one."""

    text: int  # which text it belongs to
    ids: np.ndarray
    counted: np.ndarray  # tokens that no window before had


@dataclass(frozen=True)
class Batch:
    """Pieces that run together, as arrays (b, n)."""

    ids: np.ndarray
    real: np.ndarray  # not padding
    counted: np.ndarray
    texts: np.ndarray  # which text each token belongs to
    segments: np.ndarray | None  # packed pieces, numbered
    positions: np.ndarray | None


def read(function: str, text: Any, tokenizer: Any) -> list[np.ndarray]:  # noqa: ANN401  text or token ids
    """Return the token ids of each text; `text` is one text, several, or lists of token ids."""
    given = [text] if isinstance(text, str) or _is_ids(text) else list(text) if isinstance(text, Sequence) else [text]
    if not given:
        raise TextError(function, "text must hold at least one text, but it is empty")
    found = []
    for number, one in enumerate(given):
        which = "text" if len(given) == 1 else f"text {number}"
        if _is_ids(one):
            found.append(np.asarray(one, dtype=np.int64))
            continue
        if not isinstance(one, str):
            raise TextError(function, f"{which} must be a string or a list of token ids, but it is a {type(one).__name__}")
        if not one.strip():
            raise TextError(function, f"{which} must not be empty, but it holds no word")
        if tokenizer is None:
            raise TextError(
                function, "text needs a tokenizer, but the model has none", "Pass tokenizer=, or token ids as text."
            )
        found.append(np.asarray(tokenizer(one, verbose=False)["input_ids"], dtype=np.int64))
        if not found[-1].size:
            raise TextError(function, f"{which} must hold at least one token, but the tokenizer found none")
    return found


def _is_ids(given: Any) -> bool:  # noqa: ANN401  anything
    if isinstance(given, np.ndarray):
        return given.ndim == 1 and given.dtype.kind in "iu"
    return isinstance(given, (list, tuple)) and bool(given) and all(isinstance(i, (int, np.integer)) for i in given)


def pieces(function: str, texts: Sequence[np.ndarray], limit: int | None, window: int | None) -> list[Piece]:
    """Cut texts that are longer than the window into windows that overlap by half; each token counts once.

    A token that a text begins or ends with because the tokenizer puts it there stays at the text's own ends.
    """
    if window is not None:
        if not isinstance(window, (int, np.integer)) or isinstance(window, bool) or window < 2:
            raise OptionError(function, f"window must be a whole number of at least 2, but got {window!r}")
        if limit is not None and window > limit:
            raise OptionError(function, f"window must be at most the model's {limit} positions, but got {window}")
    found = []
    for number, ids in enumerate(texts):
        if window is None or len(ids) <= window:
            if limit is not None and len(ids) > limit:
                raise TextError(
                    function,
                    f"text must have at most the model's {limit} positions, but it has {len(ids)} tokens",
                    f"Pass window={limit} (--window {limit}) to slide over it.",
                )
            found.append(Piece(number, ids, np.ones(len(ids), dtype=bool)))
            continue
        step, done = window - window // 2, 0
        for start in range(0, len(ids), step):
            part = ids[start : start + window]
            found.append(Piece(number, part, np.arange(start, start + len(part)) >= done))
            done = start + len(part)
            if done == len(ids):
                break
    return found


def batches(function: str, found: Sequence[Piece], size: int, together: str, pad: int, limit: int | None) -> Iterator[Batch]:
    """Put pieces together: `size` of them padded to one length, or packed into rows of at most the model's positions."""
    check_option(function, "together", together, ("padded", "packed"))
    if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
        raise OptionError(function, f"batch must be a whole number of at least 1, but got {size!r}")
    if together == "padded":
        for start in range(0, len(found), size):
            yield _padded(found[start : start + size], pad)
        return
    row: list[Piece] = []
    for piece in found:
        full = limit is not None and sum(len(one.ids) for one in row) + len(piece.ids) > limit
        if row and (full or len(row) == size):
            yield _packed(row)
            row = []
        row.append(piece)
    yield _packed(row)


def _padded(found: Sequence[Piece], pad: int) -> Batch:
    shape = (len(found), max(len(piece.ids) for piece in found))
    ids, real, counted = np.full(shape, pad), np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    texts = np.full(shape, -1)
    for row, piece in enumerate(found):
        inside = slice(0, len(piece.ids))
        ids[row, inside], real[row, inside], counted[row, inside] = piece.ids, True, piece.counted
        texts[row, inside] = piece.text
    return Batch(ids, real, counted, texts, None, None)


def _packed(found: Sequence[Piece]) -> Batch:
    def row(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts)[None]

    sizes = [len(piece.ids) for piece in found]
    return Batch(
        row([piece.ids for piece in found]),
        np.ones((1, sum(sizes)), dtype=bool),
        row([piece.counted for piece in found]),
        row([np.full(size, piece.text) for piece, size in zip(found, sizes, strict=True)]),
        row([np.full(size, number) for number, size in enumerate(sizes)]),
        row([np.arange(size) for size in sizes]),
    )
