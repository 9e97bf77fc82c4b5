"""From texts to batches of tokens: whole, in sliding windows, padded or packed into one row."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from headwise.arrays import host
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


def listed(text: Any) -> list[Any]:  # noqa: ANN401  text or token ids
    """Return the texts that somebody passed: one, several, or lists of token ids."""
    text = host(text) if is_torch_array(text) else text
    if isinstance(text, (list, tuple)) and not text:
        return []
    if isinstance(text, (str, bytes, Mapping)) or _is_ids(text) or not isinstance(text, Iterable):
        return [text]
    return [host(one) if is_torch_array(one) else one for one in text]


def read(function: str, given: Sequence[Any], tokenizer: Any, step: str = "") -> list[np.ndarray]:  # noqa: ANN401
    """Return the token ids of each text; `step` says what to do where there is no tokenizer."""
    if not given:
        raise TextError(function, "text must hold at least one text, but it is empty")
    found = []
    for number, one in enumerate(given):
        which = "text" if len(given) == 1 else f"text {number}"
        if isinstance(one, str):
            found.append(_tokens(function, one, which, tokenizer, step))
            continue
        if not _is_ids(one):
            raise TextError(function, f"{which} must be a string or a list of token ids, but it is a {type(one).__name__}")
        found.append(np.asarray(one, dtype=np.int64))
        if not found[-1].size:
            raise TextError(function, f"{which} must hold at least one token, but it is empty")
    return found


def _tokens(function: str, text: str, which: str, tokenizer: Any, step: str) -> np.ndarray:  # noqa: ANN401  a tokenizer
    if not text.strip():
        raise TextError(function, f"{which} must not be empty, but it holds no word")
    if tokenizer is None:
        step = step or "Pass tokenizer=, or token ids as text."
        raise TextError(function, "text needs a tokenizer, but the model has none", step)
    found = np.asarray(tokenizer(text, verbose=False)["input_ids"], dtype=np.int64)
    if not found.size:
        raise TextError(function, f"{which} must hold at least one token, but the tokenizer found none")
    return found


def _is_ids(given: Any) -> bool:  # noqa: ANN401  anything
    if isinstance(given, np.ndarray):
        return given.ndim == 1 and given.dtype.kind in "iu"
    return isinstance(given, (list, tuple)) and all(isinstance(i, (int, np.integer)) for i in given)


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


@dataclass(frozen=True)
class Packing:
    """How texts run together: `size` of them, padded to one length, or packed into rows of at most `limit` tokens."""

    size: int
    together: str
    pad: int  # the token that fills rows up
    limit: int | None
    first: int = 0  # the position of a text's first token


def checked_size(function: str, size: Any, together: str) -> int:  # noqa: ANN401  anything
    """Return how many texts run at once, or say what is wrong with it."""
    check_option(function, "together", together, ("padded", "packed"))
    if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
        raise OptionError(function, f"batch must be a whole number of at least 1, but got {size!r}")
    return int(size)


def batches(found: Sequence[Piece], how: Packing) -> Iterator[Batch]:
    """Put pieces together."""
    if how.together == "padded":
        for start in range(0, len(found), how.size):
            yield padded(found[start : start + how.size], how.pad)
        return
    row: list[Piece] = []
    for piece in found:
        full = how.limit is not None and sum(len(one.ids) for one in row) + len(piece.ids) > how.limit
        if row and (full or len(row) == how.size):
            yield packed(row, how.first)
            row = []
        row.append(piece)
    yield packed(row, how.first)


def padded(found: Sequence[Piece], pad: int) -> Batch:
    """Return pieces filled up to one length."""
    shape = (len(found), max(len(piece.ids) for piece in found))
    ids, real, counted = np.full(shape, pad), np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    texts = np.full(shape, -1)
    for row, piece in enumerate(found):
        inside = slice(0, len(piece.ids))
        ids[row, inside], real[row, inside], counted[row, inside] = piece.ids, True, piece.counted
        texts[row, inside] = piece.text
    return Batch(ids, real, counted, texts, None, None)


def packed(found: Sequence[Piece], first: int = 0) -> Batch:
    """Return pieces in one row; the positions of each begin at `first`."""

    def row(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts)[None]

    sizes = [len(piece.ids) for piece in found]
    return Batch(
        row([piece.ids for piece in found]),
        np.ones((1, sum(sizes)), dtype=bool),
        row([piece.counted for piece in found]),
        row([np.full(size, piece.text) for piece, size in zip(found, sizes, strict=True)]),
        row([np.full(size, number) for number, size in enumerate(sizes)]),
        row([first + np.arange(size) for size in sizes]),
    )
