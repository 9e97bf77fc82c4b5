"""Pictures of a report as SVG, written directly: rectangles, lines and words."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headwise.inspect.ties import clean
from headwise.shown import number

if TYPE_CHECKING:
    from headwise.inspect.report import HeadReport

INK, LINES = "#1f2933", (31, 78, 121)
# Ink can be read on every colour between these two.
_PALE, _DEEP = (243, 245, 248), (104, 152, 200)
_CELL_WIDTH, _CELL_HEIGHT, _LEFT, _TOP = 46, 24, 64, 52
_FONT = "font-family='system-ui, sans-serif' font-size='12'"
_LINE = 22  # height of a token
_LETTER = 7.2  # width of a letter, at most


def heat_map(report: "HeadReport", statistic: str) -> str:
    """Draw one statistic: a row per layer, a column per head, the number in the cell and its verdict on hovering."""
    table = report.table(statistic)
    finite = table[np.isfinite(table)]
    least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    texts = [[f"{table[row, head]:.3g}" for head in range(layer.heads)] for row, layer in enumerate(report.layers)]
    wide = max(_CELL_WIDTH, 10 + _LETTER * max(len(text) for line in texts for text in line))
    cells = []
    for row, layer in enumerate(report.layers):
        y = _TOP + row * _CELL_HEIGHT
        cells.append(_words(_LEFT - 8, y + 16, f"layer {layer.number}", "end"))
        for head, said in enumerate(layer.verdicts):
            x, value = _LEFT + head * wide, float(table[row, head])
            share = (min(value, most) - least) / (most - least) if most > least else 0.0
            cells.append(
                f"<g><title>{html.escape(f'{layer.number}.{head}: {said}')}</title>"
                f"<rect x='{x:g}' y='{y}' width='{wide - 2:g}' height='{_CELL_HEIGHT - 2}' fill='{shade(share)}'/>"
                f"{_words(x + (wide - 2) / 2, y + 15, texts[row][head], 'middle')}</g>"
            )
    heads = [_words(_LEFT + (i + 0.5) * wide, _TOP - 8, str(i), "middle") for i in range(table.shape[1])]
    told = f"{statistic.replace('_', ' ')} of each head, {number(least)} to {number(most)}"
    title = _words(_LEFT, 18, told, "start")
    width, height = _LEFT + max(table.shape[1] * wide, _LETTER * len(told)) + 8, _TOP + len(report.layers) * _CELL_HEIGHT + 8
    return _page(width, height, told, [title, *heads, *cells])


def token_view(words: Sequence[str] | None, weights: np.ndarray, title: str) -> str:
    """Draw one head: queries on the left, keys on the right, a line for each weight, thicker where it is larger."""
    count = len(weights)
    known = [str(place) for place in range(count)] if words is None else [clean(word) for word in words[:count]]
    words_wide = _LETTER * max(len(word) for word in known)
    left, right = 16 + words_wide, 16 + words_wide + 180
    lines = []
    for i in range(count):
        for j in np.flatnonzero(weights[i] >= 0.02):
            weight = float(weights[i, j])
            lines.append(
                f"<line x1='{left + 6:.0f}' y1='{_height(i)}' x2='{right - 6:.0f}' y2='{_height(int(j))}' "
                f"stroke='rgb{LINES}' stroke-width='{0.6 + 3 * weight:.2f}' stroke-opacity='{max(0.08, weight):.2f}'>"
                f"<title>{html.escape(f'{known[i]} reads {known[int(j)]}: {number(weight)}')}</title></line>"
            )
    names = [_words(left, _height(i) + 4, word, "end") for i, word in enumerate(known)]
    names += [_words(right, _height(i) + 4, word, "start") for i, word in enumerate(known)]
    head = [_words(8, 18, f"{title}: who reads whom", "start")]
    return _page(right + words_wide + 16, _height(count), f"{title}: weights of {count} tokens", [*head, *lines, *names])


def _height(place: int) -> int:
    return 44 + place * _LINE


def shade(share: float) -> str:
    """Return the colour of a cell between pale and deep.

    >>> shade(0.0), shade(1.0)
    ('rgb(243, 245, 248)', 'rgb(104, 152, 200)')
    """
    return f"rgb{tuple(round(low + share * (high - low)) for low, high in zip(_PALE, _DEEP, strict=True))}"


def _words(x: float, y: float, text: str, anchor: str) -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{INK}'>{html.escape(text)}</text>"


def _page(width: float, height: float, alt: str, parts: Sequence[str]) -> str:
    size = f"width='{width:.0f}' height='{height:.0f}' viewBox='0 0 {width:.0f} {height:.0f}'"
    said = html.escape(alt, quote=True)
    start = f"<svg xmlns='http://www.w3.org/2000/svg' {size} {_FONT} role='img' aria-label='{said}'>"
    return "\n".join([start, f"<title>{said}</title>", *parts, "</svg>\n"])
