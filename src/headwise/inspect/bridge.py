"""From a real head back to theory: fit random keys to one token's keys over a corpus, and predict the spread of the output.

One query of one text is held fixed, with all its keys but one. That one belongs to a token type that comes many times in
the corpus, and its key is drawn: as observed (every key of that type, put in this place), or from `RandomKeys` fitted to
them, by `stress.law`. How far the two variances agree says how far the theory of noisy keys carries over to this head.
"""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.arrays import Array, Given
from headwise.core.random_keys import RandomKeys
from headwise.errors import OptionError
from headwise.inspect import libraries, loading, texts
from headwise.inspect.capture import UnsupportedModelError
from headwise.inspect.geometry import by_head
from headwise.inspect.listener import Listener
from headwise.inspect.model import inputs, own_tokenizer, pad_token, positions
from headwise.inspect.task import Rows, Task
from headwise.shown import Shown, Summary, number
from headwise.stress.law import law

_WHO = "predict"
_FEWEST = 8
# The most observed keys that are used.
_MOST = 4096


@dataclass(frozen=True, repr=False, eq=False)
class Prediction(Shown):
    """The spread of a head's output when the key of one token varies as it does over a corpus; made by `predict`.

    Attributes
    ----------
    measured, measured_error
        Variance of the output (trace of its covariance) over the observed keys, and twice its standard error.
    predicted, predicted_error
        The same by `stress.law` for the fitted keys: variance alpha in every direction, and tau along the mean.
    whole, whole_error
        The same with the whole covariance of the observed keys: what is left between this and `measured` is that keys are
        not Gaussian; what is left between this and `predicted` is that their noise is not alike in all directions.
    """

    layer: int
    head: int
    token: str
    occurrences: int
    keys: int
    weight: float  # of the token in the query that was looked at, mean over its keys
    alpha: float
    tau: float
    measured: float
    measured_error: float
    predicted: float
    predicted_error: float
    whole: float
    whole_error: float

    @property
    def ratio(self) -> float:
        """Predicted over measured variance."""
        return self.predicted / self.measured if self.measured > 0 else float("inf")

    def sentence(self) -> str:
        """Say how well prediction and measurement agree."""
        if self.measured_error >= self.measured > 0:
            return f"the {self.occurrences} keys are too few, or too uneven, for a measurement"
        if abs(self.predicted - self.measured) <= self.measured_error + self.predicted_error:
            return "prediction and measurement agree within the error of the measurement"
        inside = abs(self.whole - self.measured) <= self.measured_error + self.whole_error
        why = "the noise of these keys is not alike in all directions; their whole covariance predicts it"
        if not inside:
            why = f"these keys are not Gaussian; with their whole covariance the prediction is {number(self.whole)}"
        return f"the prediction is {number(self.ratio)} times the measurement: {why}"

    def to_dict(self) -> dict[str, Any]:
        """Return every number and the sentence as plain data."""
        return {"kind": "prediction", **vars(self), "ratio": self.ratio, "sentence": self.sentence()}

    def summary(self) -> Summary:
        """Describe the spread, measured and predicted."""
        rows = [
            ["measured", number(self.measured), number(self.measured_error)],
            ["predicted from alpha and tau", number(self.predicted), number(self.predicted_error)],
            ["predicted from the whole covariance", number(self.whole), number(self.whole_error)],
        ]
        title = f'Layer {self.layer}, head {self.head}: variance of the output when the key of "{self.token}" varies'
        notes = [
            f"{self.occurrences} keys of this token, alpha {number(self.alpha)}, tau {number(self.tau)}",
            f"one query on {self.keys} keys that gives it weight {number(self.weight)} on average",
            self.sentence(),
        ]
        return Summary(title, ["", "variance", "error"], rows, notes)

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Prediction: {number(self.predicted)}, measured {number(self.measured)} ± {number(self.measured_error)}>"


@dataclass(frozen=True)
class _Seen:
    """One batch of the layer that is looked at, one head only."""

    queries: Array  # (b, n, d), scaled
    keys: Array  # (b, n, d), as they are multiplied
    plain: Array  # (b, n, d), before rotary positions
    values: Array
    log_normalizer: Array  # (b, n)
    task: Task
    ids: np.ndarray
    counted: np.ndarray
    turn: tuple[Any, Array, Array] | None  # rotation: function, cosines, sines


class _Keeper(Listener):
    """A listener that keeps one head whole."""

    def __init__(self, torch: Any, model: Any, count: int, layer: int, head: int) -> None:  # noqa: ANN401
        super().__init__(torch, model, count, layers=[layer], sensitivity=False)
        self.head, self.seen, self.turns = head, list[_Seen](), dict[int, tuple[Any, Array, Array]]()

    def hear_turns(self, undo: ExitStack) -> None:
        """Note the rotary positions that attention modules are called with."""

        def note(module: Any, _given: Any, named: dict[str, Any]) -> None:  # noqa: ANN401
            found = named.get("position_embeddings")
            function = getattr(sys.modules.get(type(module).__module__), "apply_rotary_pos_emb", None)
            if isinstance(found, tuple) and function is not None:
                self.turns[id(module)] = (function, *found)

        for module in self.model.modules():
            if any(hasattr(module, name) for name in ("k_proj", "key")):
                undo.callback(module.register_forward_pre_hook(note, with_kwargs=True).remove)

    def _keep(self, number: int, module: Any, task: Task, found: Rows, heard: dict[str, Array]) -> None:  # noqa: ANN401, ARG002
        assert self.batch is not None  # noqa: S101  for the type checker
        heads, groups = task.queries.shape[1], task.keys.shape[1]
        if not 0 <= self.head < heads:
            raise OptionError(_WHO, f"head must be one of 0 to {heads - 1}, but got {self.head!r}")
        if task.softcap is not None:
            raise UnsupportedModelError(_WHO, "scores must be products of queries and keys, but this layer caps them")
        group = self.head // (heads // groups)
        plain = next((by_head(heard[name], task.keys) for name in ("normed", "projected") if name in heard), None)
        plain = task.keys if plain is None else plain
        self.seen.append(
            _Seen(
                task.queries[:, self.head].double() * task.scale,
                task.keys[:, group].double(),
                plain[:, group].double(),
                task.values[:, group].double() if task.values is not None else task.keys[:, group].double(),
                found.log_normalizer[:, self.head].double(),
                task,
                self.batch.ids,
                self.batch.counted,
                self.turns.get(id(module)),
            )
        )


def predict(
    model: Any,  # noqa: ANN401  a transformers model, or its name
    text: str | Iterable[str] | Given,
    token: str | int | Given,
    layer: int,
    head: int,
    tokenizer: Any = None,  # noqa: ANN401  a tokenizer
    *,
    window: int | None = None,
    batch: int | Given = 8,
) -> Prediction:
    """Fit random keys to one token's keys over a corpus and compare the spread of the output they predict with the real one.

    Parameters
    ----------
    model, text, tokenizer, window, batch
        As for `model`.
    token
        The token type, a word or a token id; it should come many times, at least 8.
    layer, head
        Which head.

    Returns
    -------
    Prediction
    """
    torch = libraries.torch(_WHO)
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        model, found = loading.load(_WHO, str(model))
        tokenizer = found if tokenizer is None else tokenizer
    tokenizer = own_tokenizer(model) if tokenizer is None else tokenizer
    base = getattr(model, "base_model", model)
    number_of, word = _token(token, tokenizer)
    read = texts.read(_WHO, text, tokenizer)
    limit = positions(base, tokenizer)
    pieces = texts.pieces(_WHO, read, limit, window)
    keeper = _Keeper(torch, base, len(read), layer, head)
    with ExitStack() as undo, torch.no_grad():
        keeper.hear_turns(undo)
        batches = list(texts.batches(_WHO, pieces, batch, "padded", pad_token(base, tokenizer), limit))
        keeper.run(batches, lambda one: base(**inputs(torch, base, one, base.device)))
        if not keeper.seen:
            raise OptionError(_WHO, f"layer must be one of 0 to {len(keeper.numbers) - 1}, but got {layer!r}")
        return _compared(torch, keeper.seen, number_of, word, (layer, head))


def _token(token: Any, tokenizer: Any) -> tuple[int, str]:  # noqa: ANN401
    """Return the id of a token type and its word."""
    if isinstance(token, (int, np.integer)) and not isinstance(token, bool):
        return int(token), str(token) if tokenizer is None else str(tokenizer.convert_ids_to_tokens(int(token)))
    if tokenizer is None:
        raise OptionError(_WHO, "token must be a token id where there is no tokenizer, but it is a word")
    for form in (str(token), f" {token}"):
        ids = tokenizer(form, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            return int(ids[0]), str(token)
    raise OptionError(_WHO, f"token must be a single token, but {token!r} is several")


def _compared(torch: Any, seen: list[_Seen], wanted: int, word: str, place: tuple[int, int]) -> Prediction:  # noqa: ANN401
    observed = torch.cat([one.plain[torch.from_numpy((one.ids == wanted) & one.counted)] for one in seen])[:_MOST]
    if len(observed) < _FEWEST:
        raise OptionError(_WHO, f"token must come at least {_FEWEST} times, but {word!r} comes {len(observed)} times")
    one, entry, row, column = _chosen(torch, seen, wanted)
    drawn = _turned(torch, one, entry, column, observed).numpy()
    allowed = one.task.rule.block(entry, slice(row, row + 1), slice(0, one.keys.shape[1]))
    visible = np.ones(one.keys.shape[1], dtype=bool) if isinstance(allowed, bool) else allowed.reshape(-1).numpy()
    keys, values, query = one.keys[entry].numpy()[visible], one.values[entry].numpy()[visible], one.queries[entry, row].numpy()
    spot = int(visible[:column].sum())
    measured, error, weight = _measured(keys, values, query, spot, drawn)
    mean, covariance = drawn.mean(axis=0), np.cov(drawn.T, bias=True)
    size = float(mean @ mean)
    along = float(mean @ covariance @ mean) / size
    alpha = max(0.0, (float(np.trace(covariance)) - along) / (len(mean) - 1))
    tau = (along - alpha) / size
    means = keys.copy()
    means[spot] = mean
    noise = np.zeros(len(keys))
    noise[spot] = alpha
    fitted = law(query, RandomKeys(means, isotropic=noise, along_mean={spot: tau}), values)
    roots, axes = np.linalg.eigh(covariance)
    whole = law(query, RandomKeys(means, factors={spot: axes * np.sqrt(np.maximum(roots, 0.0))}), values)
    return Prediction(
        *place, word, len(drawn), len(keys), weight, alpha, tau, measured, error,
        fitted.variance, fitted.variance_error, whole.variance, whole.variance_error,
    )  # fmt: skip


def _chosen(torch: Any, seen: list[_Seen], wanted: int) -> tuple[_Seen, int, int, int]:  # noqa: ANN401
    """Return the batch, entry, query and key for which the token's weight is nearest to one half."""
    best: tuple[float, tuple[_Seen, int, int, int]] | None = None
    for one in seen:
        for entry, column in np.argwhere((one.ids == wanted) & one.counted)[:64]:
            scores = one.queries[entry] @ one.keys[entry, column]
            weights = torch.exp(scores - one.log_normalizer[entry])
            # A query that may not look there would have a weight that is none.
            for row in (torch.abs(weights - 0.5) + torch.from_numpy(~one.counted[entry])).argsort()[:16].tolist():
                answer = one.task.rule.block(int(entry), slice(row, row + 1), slice(int(column), int(column) + 1))
                if answer is True or (answer is not False and bool(answer.all())):
                    away = abs(float(weights[row]) - 0.5)
                    if best is None or away < best[0]:
                        best = away, (one, int(entry), int(row), int(column))
                    break
    if best is None:
        raise OptionError(_WHO, "token must be looked at by some query, but none may")
    return best[1]


def _turned(torch: Any, one: _Seen, entry: int, column: int, observed: Array) -> Array:  # noqa: ANN401
    """Return observed keys as they would be multiplied in this place."""
    if torch.allclose(one.plain, one.keys, rtol=1e-4, atol=1e-5):
        return observed
    if one.turn is None:
        raise UnsupportedModelError(_WHO, "rotary positions must be known, but this model keeps them to itself")
    function, cosines, sines = one.turn
    place = min(entry, len(cosines) - 1)
    parts = [angle[place, column].double().expand(1, len(observed), -1) for angle in (cosines, sines)]
    turned = function(observed[None, None], observed[None, None], *parts)[1]
    return turned[0, 0]


def _measured(
    keys: np.ndarray, values: np.ndarray, query: np.ndarray, spot: int, drawn: np.ndarray
) -> tuple[float, float, float]:
    """Return variance of the output over the observed keys, twice its standard error, and the mean weight of the token.

    Only the weight a of the token varies: the output is c + a (v - c), with c what the other keys give alone.
    """
    scores = np.delete(keys @ query, spot)
    others = np.delete(values, spot, axis=0)
    if not len(scores):
        return 0.0, 0.0, 1.0
    peak = scores.max()
    terms = np.exp(scores - peak)
    rest, base = peak + np.log(terms.sum()), (terms / terms.sum()) @ others
    weights = 1 / (1 + np.exp(np.clip(rest - drawn @ query, -700, 700)))
    length = float(((values[spot] - base) ** 2).sum())
    away = weights - weights.mean()
    variance = float((away**2).mean())
    spread = float(np.sqrt(max(0.0, (away**4).mean() - variance**2) / len(away)))
    return length * variance, 2 * length * spread, float(weights.mean())
