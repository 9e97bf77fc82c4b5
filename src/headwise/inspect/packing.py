"""Texts packed into one row: where their positions begin, and whether the model keeps them apart."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headwise.errors import OptionError
from headwise.inspect.listener import WHO, Listener
from headwise.inspect.texts import Batch, Piece, packed

# Tokens of each text that is tried; what mixes tokens outside attention does so near the seam.
_TRIED = 16


def first_position(base: Any) -> int:  # noqa: ANN401  a model
    """Return the position of a text's first token: RoBERTa and its kin begin to count behind the padding token."""
    return max((padding + 1 for _, padding in _position_tables(base)), default=0)


def table_positions(base: Any) -> int | None:  # noqa: ANN401  a model
    """Return how many tokens fit into a table of positions that begins behind the padding token, None if there is none."""
    return min((count - padding - 1 for count, padding in _position_tables(base)), default=None)


def _position_tables(base: Any) -> list[tuple[int, int]]:  # noqa: ANN401  a model
    """Return size and padding row of every table of positions that has such a row."""
    found = []
    for name, module in base.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            found.append((int(module.num_embeddings), int(padding)))
    return found


def check_apart(torch: Any, base: Any, pieces: Sequence[Piece], forward: Callable[[Batch], Any]) -> None:  # noqa: ANN401
    """Refuse a model whose texts touch outside attention: short pieces of two texts are run packed and each alone."""
    short = [_shortened(piece) for piece in (pieces[0], pieces[-1])]

    def outputs(some: Sequence[Piece]) -> Any:  # noqa: ANN401  an array
        found: list[Any] = []
        batch = packed(some, first_position(base))
        listener = Listener(torch, base, 1, layers=[], sensitivity=False)
        listener.run([batch], lambda one: found.append(forward(one)[0][0].double()))
        return found[0]

    together, alone = outputs(short), torch.cat([outputs([piece]) for piece in short])
    off, size = float((together - alone).abs().max()), float(alone.abs().max())
    rounding = torch.finfo(next(base.parameters()).dtype).eps
    if off > max(min(256 * rounding, rounding**0.5), 1e-10) * size:
        name = type(base).__name__
        raise OptionError(
            WHO,
            f'together="packed" needs texts that meet in attention only, but {name} mixes neighbours elsewhere too',
            'Pass together="padded".',
        )


def _shortened(piece: Piece) -> Piece:
    ids = piece.ids[:_TRIED]
    return Piece(0, ids, np.ones(len(ids), dtype=bool))
