"""From a real head back to theory: fit random keys to one token's keys over a corpus, and predict the spread of the output.

One query of one text is held fixed, with all its keys but one. That one belongs to a token type that comes many times in
the corpus, and its key is drawn: as observed (every key of that type, put in this place), or from `RandomKeys` fitted to
them, by `stress.law`. How far the two variances agree says how far the theory of noisy keys carries over to this head.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.arrays import Array, Given
from headwise.core.random_keys import RandomKeys
from headwise.errors import OptionError
from headwise.inspect import libraries, loading, texts
from headwise.inspect.capture import UnsupportedModelError
from headwise.inspect.geometry import places
from headwise.inspect.listener import Listener
from headwise.inspect.model import base_of, check_ids, inputs, pad_token, positions
from headwise.inspect.task import Rows, Task
from headwise.shown import Shown, Summary, number
from headwise.stress.law import law

_WHO = "predict"
_FEWEST = 8
# The most observed keys that are used.
_MOST = 4096
# Keys whose variance is a smaller part of their squared length do not vary: that is rounding.
_STILL = 1e-9


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
        if self.measured == self.predicted == self.whole == 0:
            return f"the {self.occurrences} keys do not vary, and neither does the output"
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
    sink: float | None  # logit of a learned sink
    task: Task
    ids: np.ndarray
    counted: np.ndarray
    turn: tuple[Any, Array, Array] | None  # rotation: function, cosines, sines


class _Keeper(Listener):
    """A listener that keeps one head whole."""

    function = _WHO

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
            undo.callback(module.register_forward_pre_hook(note, with_kwargs=True).remove)

    def _keep(self, number: int, module: Any, task: Task, found: Rows, heard: dict[str, Array]) -> None:  # noqa: ANN401, ARG002
        assert self.batch is not None  # noqa: S101  for the type checker
        heads, groups = task.queries.shape[1], task.keys.shape[1]
        if not 0 <= self.head < heads:
            raise OptionError(_WHO, f"head must be one of 0 to {heads - 1}, but got {self.head!r}")
        if task.softcap is not None:
            raise UnsupportedModelError(_WHO, "scores must be products of queries and keys, but this layer caps them")
        known, values = places(self.torch, heard, heads, task.keys), task.values
        if not known or values is None:
            raise UnsupportedModelError(
                _WHO, "keys must be seen before rotary positions, but this model makes them where nobody can listen"
            )
        group = self.head // (heads // groups)
        plain = known["normed" if "normed" in known else "projected"]
        self.seen.append(
            _Seen(
                task.queries[:, self.head].double().cpu() * task.scale,
                task.keys[:, group].double().cpu(),
                plain[:, group].double().cpu(),
                values[:, group].double().cpu(),
                found.log_normalizer[:, self.head].double().cpu(),
                None if task.sinks is None else float(task.sinks[self.head]),
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
    layer: int | Given,
    head: int | Given,
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
    for name, given in (("layer", layer), ("head", head)):
        if not isinstance(given, (int, np.integer)) or isinstance(given, bool) or given < 0:
            raise OptionError(_WHO, f"{name} must be a number from 0 on, but got {given!r}")
    corpus, size = texts.listed(text), texts.checked_size(_WHO, batch, "padded")
    words = isinstance(token, str) or any(isinstance(one, str) for one in corpus)
    own = loading.opened(_WHO, model, tokenizer, words=words)
    base = base_of(_WHO, own.model)
    number_of, word = _token(token, own.tokenizer)
    read = texts.read(_WHO, corpus, own.tokenizer, own.step)
    check_ids(_WHO, base, read)
    limit = positions(base, own.tokenizer)
    how = texts.Packing(size, "padded", pad_token(base, own.tokenizer), limit)
    keeper = _Keeper(torch, base, len(read), int(layer), int(head))
    with ExitStack() as undo, torch.no_grad():
        keeper.hear_turns(undo)
        batches = texts.batches(texts.pieces(_WHO, read, limit, window), how)
        keeper.run(batches, lambda one: base(**inputs(torch, base, one, base.device)))
        return _compared(torch, keeper.seen, number_of, word, (int(layer), int(head)))


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
    setting = _setting(one, entry, row, column)
    measured, error, weight = _measured(setting, drawn)
    mean, covariance = drawn.mean(axis=0), np.cov(drawn.T, bias=True)
    size = float(mean @ mean)
    if float(np.trace(covariance)) <= _STILL * size:
        return Prediction(*place, word, len(drawn), setting.count, weight, *[0.0] * 8)
    along = float(mean @ covariance @ mean) / size
    alpha = max(0.0, (float(np.trace(covariance)) - along) / (len(mean) - 1))
    tau = (along - alpha) / size
    means = setting.keys.copy()
    means[setting.spot] = mean
    noise = np.zeros(len(means))
    noise[setting.spot] = alpha
    fitted = law(setting.query, RandomKeys(means, isotropic=noise, along_mean={setting.spot: tau}), setting.values)
    roots, axes = np.linalg.eigh(covariance)
    factors = {setting.spot: axes * np.sqrt(np.maximum(roots, 0.0))}
    whole = law(setting.query, RandomKeys(means, factors=factors), setting.values)
    return Prediction(
        *place, word, len(drawn), setting.count, weight, alpha, tau, measured, error,
        fitted.variance, fitted.variance_error, whole.variance, whole.variance_error,
    )  # fmt: skip


@dataclass(frozen=True)
class _Setting:
    """One query, the keys it may look at with their values, and which of them varies."""

    query: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    spot: int
    count: int  # keys without the sink


def _setting(one: _Seen, entry: int, row: int, column: int) -> _Setting:
    """Return what one query looks at; a learned sink is one more key, with that score and no value."""
    allowed = one.task.rule.block(entry, slice(row, row + 1), slice(0, one.keys.shape[1]))
    visible = np.ones(one.keys.shape[1], dtype=bool) if isinstance(allowed, bool) else allowed.cpu().reshape(-1).numpy()
    keys, values, query = one.keys[entry].numpy()[visible], one.values[entry].numpy()[visible], one.queries[entry, row].numpy()
    spot, count = int(visible[:column].sum()), len(keys)
    if one.sink is not None:
        keys = np.concatenate([keys, one.sink * query[None] / (query @ query)])
        values = np.concatenate([values, np.zeros_like(values[:1])])
    return _Setting(query, keys, values, spot, count)


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
    # The key that stands here comes along: it must become what was multiplied.
    both, wanted = torch.cat([one.plain[entry, column][None], observed]), one.keys[entry, column]
    near = 64 * torch.finfo(one.task.keys.dtype).eps * float(wanted.abs().max())
    for found in () if one.turn is None else _rotated(torch, both, one.turn, entry, column):
        if float((found[0] - wanted).abs().max()) <= near:
            return found[1:]
    raise UnsupportedModelError(_WHO, "rotary positions must be known, but this model keeps them to itself")


def _rotated(torch: Any, keys: Array, turn: tuple[Any, Array, Array], entry: int, column: int) -> Iterator[Array]:  # noqa: ANN401
    """Return keys (n, d) turned by the model's own function: as a whole, or their first coordinates only."""
    function, *angles = turn
    place = min(entry, len(angles[0]) - 1)
    parts = [angle[place, column].double().cpu().expand(1, len(keys), -1) for angle in angles]
    for width in {keys.shape[-1], min(keys.shape[-1], parts[0].shape[-1])}:
        some = keys[None, None, :, :width]
        try:
            turned = function(some, some, *parts)[1][0, 0]
        except (RuntimeError, TypeError, ValueError, IndexError):  # not made for this width
            continue
        yield torch.cat([turned, keys[:, width:]], dim=-1)


def _measured(setting: _Setting, drawn: np.ndarray) -> tuple[float, float, float]:
    """Return variance of the output over the observed keys, twice its standard error, and the mean weight of the token.

    Only the weight a of the token varies: the output is c + a (v - c), with c what the other keys give alone.
    """
    query, spot = setting.query, setting.spot
    scores, others = np.delete(setting.keys @ query, spot), np.delete(setting.values, spot, axis=0)
    if not len(scores):
        return 0.0, 0.0, 1.0
    peak = scores.max()
    terms = np.exp(scores - peak)
    rest, base = peak + np.log(terms.sum()), (terms / terms.sum()) @ others
    weights = 1 / (1 + np.exp(np.clip(rest - drawn @ query, -700, 700)))
    length = float(((setting.values[spot] - base) ** 2).sum())
    away = weights - weights.mean()
    variance = float((away**2).mean())
    spread = float(np.sqrt(max(0.0, (away**4).mean() - variance**2) / len(away)))
    return length * variance, 2 * length * spread, float(weights.mean())
