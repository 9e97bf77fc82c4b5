"""What the heads of a model do on a text: a table of layers and heads that prints itself and goes into files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.arrays import Given
from headwise.errors import OptionError, check_option
from headwise.inspect.geometry import KeyGeometry
from headwise.inspect.listener import SUMMED, Layer
from headwise.inspect.sampled import Likeness
from headwise.inspect.ties import Ties, tied
from headwise.inspect.verdict import HeadVerdict, Thresholds, verdict
from headwise.shown import Shown, Summary, number, plain

# The statistics of a head, in the order in which they are told.
STATISTICS = (
    "entropy",
    "effective_keys",
    "collision_keys",
    "top_weight",
    "margin",
    "first_weight",
    "self_weight",
    "previous_weight",
    "near_weight",
    "distance",
    "evenness",
    "gain",
    "sensitivity",
    "wobble",
    "length_variation",
    "mean_share",
    "alpha",
    "tau",
)
_SHOWN = ("effective_keys", "top_weight", "margin", "first_weight", "self_weight", "previous_weight", "wobble")
_PLACES = ("normed", "projected", "attended")


@dataclass(frozen=True, eq=False, repr=False)
class LayerReport:
    """The heads of one layer: a number per head and statistic, and what is known of their keys and of each other.

    Attributes
    ----------
    statistics
        Means over all counted rows, one number per head.
    per_text
        The same per text, ``(h, texts)``, for what is summed over every row.
    geometry
        Key geometry per key head, by place: "projected" and "normed" (after QK-norm) before rotary positions, or "attended",
        as keys are multiplied, where a model does not show them before. Statistics of keys are of the last of these.
    likeness
        How heads resemble each other.
    weights
        ``(h, n, n)`` for the first text if it is short, None otherwise.
    """

    number: int
    name: str
    heads: int
    key_heads: int
    rows: int
    statistics: Mapping[str, np.ndarray]
    per_text: Mapping[str, np.ndarray]
    geometry: Mapping[str, Sequence[KeyGeometry]]
    likeness: Likeness
    verdicts: Sequence[HeadVerdict]
    weights: np.ndarray | None

    @property
    def keys(self) -> str:
        """Where the keys were taken that length variation, mean share, alpha and tau are of."""
        return next(place for place in _PLACES if place in self.geometry)

    def to_dict(self) -> dict[str, Any]:
        """Return the layer as plain data, None for what is infinite."""
        return {
            "layer": self.number,
            "name": self.name,
            "rows": self.rows,
            "key_heads": self.key_heads,
            "keys": self.keys,
            "heads": [
                {
                    "head": head,
                    **{name: plain(float(found[head])) for name, found in self.statistics.items()},
                    "verdict": said.to_dict(),
                }
                for head, said in enumerate(self.verdicts)
            ],
            "geometry": {place: [one.to_dict() for one in found] for place, found in self.geometry.items()},
            "likeness": self.likeness.to_dict(),
        }


def layer_report(place: int, layer: Layer, limits: Thresholds) -> LayerReport:
    """Turn the sums of a layer into numbers and words."""
    totals = {name: layer.sums[name].sum(axis=1) for name in SUMMED}
    counts = {
        name: layer.margins if name == "margin" else np.broadcast_to(layer.tokens, layer.margins.shape) for name in SUMMED
    }
    means = {name: _ratio(totals[name], counts[name].sum(axis=1)) for name in SUMMED}
    # A text of one token leaves nothing to choose between.
    means["margin"] = np.where(counts["margin"].sum(axis=1) > 0, means["margin"], np.inf)
    means["wobble"] = np.sqrt(_ratio(means["sensitivity"], means["context_square"]))
    means |= layer.sample.means()
    geometry = {name: layer.moments[name].finished(name) for name in reversed(_PLACES) if name in layer.moments}
    last = next(geometry[name] for name in _PLACES if name in geometry)
    each = layer.heads // layer.groups
    for name in ("length_variation", "mean_share", "alpha", "tau"):
        means[name] = np.repeat([getattr(one, name) for one in last], each)
    numbers = [{name: float(means[name][head]) for name in means} for head in range(layer.heads)]
    return LayerReport(
        place,
        layer.name,
        layer.heads,
        layer.groups,
        int(layer.tokens.sum()),
        {name: means[name] for name in STATISTICS},
        {name: _per_text(layer, name, counts[name]) for name in SUMMED if name != "context_square"},
        geometry,
        layer.sample.likeness(),
        [verdict(one, limits) for one in numbers],
        layer.short,
    )


def _per_text(layer: Layer, name: str, counts: np.ndarray) -> np.ndarray:
    found = _ratio(layer.sums[name], counts)
    return np.where(counts > 0, found, np.inf) if name == "margin" else found


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(count > 0, total / np.where(count > 0, count, 1), 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class HeadReport(Shown):
    """What each head of a model does on a text; made by `model`.

    ``report.table("entropy")`` is an array of layers by heads; ``report.layers[3].verdicts[5]`` says what one head does and
    why; `print` shows the heads, `save` writes a file.
    """

    model: str
    texts: int
    tokens: int
    layers: Sequence[LayerReport]
    thresholds: Thresholds
    words: Sequence[str] | None = None  # tokens of the first text, if it is short
    notes: Sequence[str] = ()

    @property
    def complete(self) -> bool:
        """Whether every layer and every text was read to the end."""
        return not self.notes

    def table(self, statistic: str) -> Float[np.ndarray, "layers h"]:
        """Return one statistic for every head, a row per layer; NaN where a layer has fewer heads than the widest.

        `statistic` is one of the columns of the file that `save` writes.
        """
        check_option("table", "statistic", statistic, STATISTICS)
        found = np.full((len(self.layers), max(layer.heads for layer in self.layers)), np.nan)
        for row, layer in enumerate(self.layers):
            found[row, : layer.heads] = layer.statistics[statistic]
        return found

    def layer(self, place: int | Given) -> LayerReport:
        """Return the report of a layer by its number in the model."""
        for layer in self.layers:
            if layer.number == place:
                return layer
        known = ", ".join(str(layer.number) for layer in self.layers)
        raise OptionError("layer", f"layer must be one that was looked at ({known}), but got {place!r}")

    def weights(self, place: int | Given, head: int | Given) -> Float[np.ndarray, "n n"]:
        """Return the weights of one head on a short text (at most 64 tokens), a row per query."""
        layer = self.layer(place)
        if layer.weights is None:
            raise OptionError("weights", "weights are kept for a first text of at most 64 tokens, but it is longer")
        if not isinstance(head, (int, np.integer)) or not 0 <= head < layer.heads:
            raise OptionError("weights", f"head must be one of 0 to {layer.heads - 1}, but got {head!r}")
        return layer.weights[head]

    def ties(self, query: str | Given, key: str | Given) -> Ties:
        """Tell which heads tie one word of a short text to another: their weight, and whether it is the top one."""
        words = [] if self.words is None else list(self.words)
        if not words:
            raise OptionError(
                "ties",
                "words are known for a first text of at most 64 tokens, read as a whole, but it is longer or has no words",
            )
        stacks = [(layer.number, layer.weights) for layer in self.layers if layer.weights is not None]
        return tied(stacks, words, query, key)

    def heat_map(self, statistic: str = "effective_keys") -> str:
        """Return a picture of one statistic as SVG, a row per layer and a column per head."""
        from headwise.inspect.pictures import heat_map  # noqa: PLC0415

        return heat_map(self, statistic)

    def token_view(self, place: int | Given, head: int | Given) -> str:
        """Return a picture of one head on a short text as SVG: lines from each token to those it reads."""
        from headwise.inspect.pictures import token_view  # noqa: PLC0415

        return token_view(self.words, self.weights(place, head), f"Layer {place}, head {head}")

    def redundant(self, overlap: float = 0.8) -> list[tuple[int, int, int, float]]:
        """Return (layer, head, head, overlap) for pairs of heads whose weights overlap that much, most alike first."""
        found = []
        for layer in self.layers:
            like = layer.likeness.overlap
            rows, columns = np.nonzero(np.triu(like >= overlap, k=1))
            found += [(layer.number, int(i), int(j), float(like[i, j])) for i, j in zip(rows, columns, strict=True)]
        return sorted(found, key=lambda pair: -pair[3])

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per head: layer, head, verdict, and every statistic."""
        return [
            {
                "layer": layer.number,
                "head": head,
                "verdict": said.words,
                **{name: float(layer.statistics[name][head]) for name in STATISTICS},
            }
            for layer in self.layers
            for head, said in enumerate(layer.verdicts)
        ]

    def save(self, path: str | Path) -> Path:
        """Write a file and return its path.

        .csv and .parquet (which needs pyarrow) hold a line per head, .json everything, .html a page that fetches nothing, .svg
        the heat map of effective keys.
        """
        from headwise.inspect.writing import write  # noqa: PLC0415

        return write(self, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the weights as plain data."""
        return {
            "kind": "head report",
            "model": self.model,
            "texts": self.texts,
            "tokens": self.tokens,
            "complete": self.complete,
            "notes": list(self.notes),
            "remarks": self.remarks,
            "thresholds": self.thresholds.to_dict(),
            "verdicts": dict(self.counts),
            "layers": [layer.to_dict() for layer in self.layers],
        }

    @property
    def counts(self) -> Counter[str]:
        """How many heads have which kind of verdict."""
        return Counter(said.kind for layer in self.layers for said in layer.verdicts)

    def summary(self) -> Summary:
        """Describe every head by its verdict and the numbers that matter most."""
        rows = [[f"{row['layer']}.{row['head']}", *(number(row[name]) for name in _SHOWN), row["verdict"]] for row in self.rows]
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts.most_common())
        pairs = self.redundant()
        notes = [f"heads: {kinds}"]
        if pairs:
            layer, one, other, like = pairs[0]
            count = "1 pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
            notes.append(
                f"{count} of heads overlap by 0.8 or more, most of all {layer}.{one} and {layer}.{other} ({number(like)})"
            )
        notes += [*self.remarks, *self.notes]
        columns = ["head", *(name.replace("_", " ") for name in _SHOWN), "verdict"]
        return Summary(self.title, columns, rows, notes)

    @property
    def remarks(self) -> list[str]:
        """What has to be known of the numbers to read them rightly."""
        turned = [str(layer.number) for layer in self.layers if layer.keys == "attended"]
        if not turned:
            return []
        where = f"layer {turned[0]}" if len(turned) == 1 else f"layers {', '.join(turned)}"
        said = (
            f"length variation, mean share, alpha and tau of {where} are of keys as they are multiplied, after rotary positions"
        )
        return [f"{said} if there are any: this model does not show them before"]

    @property
    def title(self) -> str:
        """What was looked at, in one line."""
        counts = {"layer": len(self.layers), "text": self.texts, "token": self.tokens}
        said = ", ".join(f"{count} {name}" + "s" * (count != 1) for name, count in counts.items())
        return f"Heads of {self.model}: {said}"

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<HeadReport of {self.model}: {len(self.rows)} heads in {len(self.layers)} layers, {self.tokens} tokens>"
