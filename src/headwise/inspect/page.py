"""A report as one HTML file that needs nothing else; its picture is drawn by a short script inside it."""

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.inspect.ties import clean
from headwise.shown import number, plain
from headwise.version import __version__

if TYPE_CHECKING:
    from headwise.inspect.report import HeadReport

# Letter, colour, ink and meaning of each kind of head.
_KINDS = {
    "first": ("F", "#1f4e79", "#ffffff", "sits on the first token"),
    "previous": ("P", "#e07b39", "#1f2933", "looks at the previous token"),
    "self": ("S", "#f2c57c", "#1f2933", "looks at its own position"),
    "copy": ("C", "#b0413e", "#ffffff", "copies one token"),
    "average": ("A", "#4fae93", "#1f2933", "averages a few tokens"),
    "local": ("L", "#9cc9bb", "#1f2933", "stays near"),
    "diffuse": ("D", "#c3ccd6", "#1f2933", "spreads over everything"),
    "mixed": ("M", "#f3f5f8", "#1f2933", "mixed"),
}
# More numbers than these are not put into a page.
_MOST_WEIGHTS = 500_000
_MEANINGS = {
    "effective keys": "that many tokens with equal weights would be as spread out.",
    "collision keys": "one over the sum of squared weights; far below effective keys: one heavy token and a long tail.",
    "margin": "best score minus second best; how firm the choice is.",
    "near weight": "weight on tokens a few positions away; distance is the mean distance of what is read.",
    "evenness": "effective keys over the tokens that can be seen.",
    "gain": "how far the weights move when lengths of keys wobble; sensitivity is what that does to the output.",
    "wobble": "relative change of the output per relative change of key lengths: at 2, one percent of noise in lengths moves "
    "the output by two percent.",
    "length variation": "standard deviation of key lengths over their mean.",
    "mean share": "how much of the keys is their common mean.",
    "alpha and tau": "alpha is the variance of a coordinate of the keys across their mean direction; tau is how much more they "
    "vary along it (less, where it is below 0), relative to the squared length of the mean.",
}


def page(report: "HeadReport") -> str:
    """Return the page."""
    template = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    kinds = ", ".join(f"{count} {kind}" for kind, count in report.counts.most_common())
    parts = {
        "TITLE": html.escape(report.title),
        "SENTENCE": html.escape(f"{len(report.rows)} heads: {kinds}."),
        "NOTES": "".join(f"<p>{html.escape(note)}</p>" for note in [*report.remarks, *report.notes]),
        "HEAT": report.heat_map(),
        "TABLE": _table(report),
        "MEANINGS": "\n".join(f"<li><b>{name}</b>: {said}</li>" for name, said in _MEANINGS.items()),
        "VERSION": __version__,
        # "</" would end the script that holds the data.
        "DATA": json.dumps(plain(_data(report)), allow_nan=False).replace("<", "\\u003c"),
    }
    for name, text in parts.items():
        template = template.replace(f"%%{name}%%", text)
    return template


def _table(report: "HeadReport") -> str:
    names = [name for name in report.rows[0] if name not in ("layer", "head", "verdict")]
    head = "".join(f'<th scope="col">{html.escape(name.replace("_", " "))}</th>' for name in ("head", "verdict", *names))
    lines = [
        f"<tr><td>{row['layer']}.{row['head']}</td><td>{html.escape(row['verdict'])}</td>"
        + "".join(f"<td>{number(row[name])}</td>" for name in names)
        + "</tr>"
        for row in report.rows
    ]
    return f'<table class="all"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _data(report: "HeadReport") -> dict[str, Any]:
    """Return what the script draws."""
    size = sum(0 if layer.weights is None else layer.weights.size for layer in report.layers)
    layers = []
    for layer in report.layers:
        told = layer.to_dict()
        layers.append(
            {
                "number": layer.number,
                "heads": told["heads"],
                "overlap": np.round(layer.likeness.overlap, 3),
                "weights": None if layer.weights is None or size > _MOST_WEIGHTS else np.round(layer.weights, 4),
            }
        )
    kinds = {
        kind: {"letter": letter, "fill": fill, "ink": ink, "means": means, "count": report.counts[kind]}
        for kind, (letter, fill, ink, means) in _KINDS.items()
    }
    return {
        "layers": layers,
        "statistics": [name for name in report.rows[0] if name not in ("layer", "head", "verdict")],
        "kinds": kinds,
        "words": None if report.words is None else [clean(word) for word in report.words],
        "start": _start(report),
    }


def _start(report: "HeadReport") -> list[int]:
    """Return the head that is shown first: the firmest that does not sit on the first token."""
    best = max(
        report.rows, key=lambda row: row["top_weight"] - row["first_weight"] - row["previous_weight"] - row["self_weight"]
    )
    places = [layer.number for layer in report.layers]
    return [places.index(best["layer"]), best["head"]]
