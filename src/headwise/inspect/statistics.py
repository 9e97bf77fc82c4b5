"""Statistics of attention rows from arrays: the door, and the result that prints itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from jaxtyping import Float, Int

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.masks import Mask, Table, as_mask
from headwise.errors import ArrayTypeError, EmptyError, OptionError, ShapeError
from headwise.inspect import engine, libraries
from headwise.inspect.rules import Spans
from headwise.inspect.task import Rows, Task
from headwise.shown import MOST_ROWS, Shown, Summary, number, plain

_WHO = "statistics"
NUMBERS = (
    "log_normalizer",
    "entropy",
    "effective_keys",
    "collision_keys",
    "top_weight",
    "top_index",
    "margin",
    "first_weight",
    "self_weight",
    "previous_weight",
    "gain",
)


@dataclass(frozen=True, repr=False, eq=False)
class HeadStatistics(Shown):
    """What each query of each head does with its keys; made by `statistics`.

    Every array has the axes of the queries without their width, so ``(h, q)`` for queries ``(h, q, d)``. A query that may
    look at no key has log_normalizer -inf (the sink's logit, where there is a sink), top_index -1 and 0 everywhere else.

    Attributes
    ----------
    log_normalizer
        Log of the sum of exponentials of the scores.
    entropy
        Entropy of the weights in nats.
    effective_keys
        Exponential of the entropy: that many equal weights would be as spread out.
    collision_keys
        One over the sum of squared weights.
    top_weight, top_index
        The largest weight and its key, the first of equals.
    margin
        Largest score minus the second largest; infinity where the query may look at one key only.
    first_weight, self_weight, previous_weight
        Weight of the first key that any query of the same text may look at, of the query's own position, and of the one
        before it; 0 where the query may not look there. The last query stands at the last key.
    gain
        Score-space gain, sum of (a_j r_j)^2: how far the weights move when the lengths of keys wobble. r_j is the score,
        or what is left of its growth under a soft cap.
    contexts
        With values: what each query reads.
    sensitivity
        With values: variance of the context per unit variance of relative key length, to first order. On a GPU it is
        rounding below about 1e-6 of gain times squared value length.
    """

    log_normalizer: Float[Array, "*h q"]
    entropy: Float[Array, "*h q"]
    effective_keys: Float[Array, "*h q"]
    collision_keys: Float[Array, "*h q"]
    top_weight: Float[Array, "*h q"]
    top_index: Int[Array, "*h q"]
    margin: Float[Array, "*h q"]
    first_weight: Float[Array, "*h q"]
    self_weight: Float[Array, "*h q"]
    previous_weight: Float[Array, "*h q"]
    gain: Float[Array, "*h q"]
    contexts: Float[Array, "*h q v"] | None = None
    sensitivity: Float[Array, "*h q"] | None = None
    keys: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return every array as plain data, None for what is infinite."""
        names = [*NUMBERS, *(name for name in ("contexts", "sensitivity") if getattr(self, name) is not None)]
        return {
            "kind": "head statistics",
            "shape": list(self.entropy.shape),
            "keys": self.keys,
            **{name: plain(getattr(self, name)) for name in names},
        }

    def summary(self) -> Summary:
        """Describe the first few heads by the means over their queries."""
        names = [name for name in NUMBERS if name not in ("log_normalizer", "top_index")]
        table = {name: np.atleast_2d(arrays.host(getattr(self, name))) for name in names}
        flat = {name: found.reshape(-1, found.shape[-1]) for name, found in table.items()}
        heads = len(flat["entropy"])
        rows = [
            [str(head), *(number(_finite_mean(flat[name][head])) for name in names)] for head in range(min(heads, MOST_ROWS))
        ]
        notes = ["means over queries; margins that are infinite are left out"]
        if heads > MOST_ROWS:
            notes.append(f"{heads - MOST_ROWS} more heads")
        return Summary(self._title(), ["head", *(name.replace("_", " ") for name in names)], rows, notes)

    def _title(self) -> str:
        *heads, queries = self.entropy.shape
        count = int(np.prod(heads))
        return f"Statistics of {count} head{'s' * (count != 1)}, {queries} queries on {self.keys} keys"

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Head{self._title()[:1].upper()}{self._title()[1:]}>"


def _finite_mean(row: np.ndarray) -> float:
    finite = row[np.isfinite(row)]
    return float(finite.mean()) if finite.size else float("inf")


def statistics(  # noqa: PLR0913  one setting, said in one call
    queries: Float[Array, "*h q d"] | Given,
    keys: Float[Array, "*g k d"] | Given,
    values: Float[Array, "*g k v"] | Given = None,
    *,
    causal: bool = False,
    window: int | Given = None,
    allowed: Mask | Given = None,
    scale: float | Given = None,
    segments: Int[Array, "*b k"] | Given = None,
    sinks: Float[Array, " h"] | Given = None,
    softcap: float | Given = None,
    sensitivity: bool = True,
) -> HeadStatistics:
    """Tell what each query of each head does with its keys, without building the table of weights.

    Memory grows with queries plus keys, not with their product. NumPy arrays are computed in float64 and come back as
    such; torch tensors come back as torch tensors, computed in their own precision and at least float32.

    Parameters
    ----------
    queries
        ``(q, d)``, ``(h, q, d)`` or ``(b, h, q, d)``.
    keys, values
        The same axes, ``k`` for ``q``; there may be fewer key heads than heads, if they divide them: head i then reads
        key head i // (h / g).
    causal
        Each query sees only keys up to its own position; the last query stands at the last key.
    window
        How many keys a causal query sees, its own included; without `causal`, keys less than that far away on both sides.
    allowed
        Which keys may be looked at, ``(k,)`` for padding, or anything that broadcasts to ``(b, h, q, k)``; or a mask as
        for `attend`. Combined with the others.
    scale
        Factor of the scores, 1/sqrt(d) if not given, as in Transformers.
    segments
        A whole number for each key, ``(k,)`` or ``(b, k)``: texts packed into one row. A query sees its own segment only.
    sinks
        One learned logit per head that takes part in the softmax and has no value. It counts in log_normalizer, entropy
        and collision_keys; top weight, index and margin are those of the keys.
    softcap
        Scores become ``softcap * tanh(score / softcap)``.
    sensitivity
        Whether to tell, with values, what the noise of key lengths does to contexts; costs about a quarter of the time.

    Returns
    -------
    HeadStatistics

    Examples
    --------
    A query that copies key 0, and one that averages keys 0 and 1:

    >>> import headwise as hw
    >>> keys = np.eye(4)
    >>> found = hw.inspect.statistics(20 * np.array([keys[0], keys[0] + keys[1]]), keys, keys, scale=1.0)
    >>> found.effective_keys.round(3), found.margin.round(3)
    (array([1., 2.]), array([20.,  0.]))
    """
    torch = libraries.torch(_WHO)
    named = {"queries": queries, "keys": keys, "values": values, "sinks": sinks}
    _, given = arrays.admit(_WHO, **{name: value for name, value in named.items() if value is not None})
    back = _numpy if is_numpy_array(given["queries"]) else _same
    tensors = {name: _tensor(torch, array) for name, array in given.items()}
    _check_finite(given)
    lead = _check_shapes(tensors)
    device = tensors["queries"].device
    four = {name: _four_axes(array) for name, array in tensors.items() if name != "sinks"}
    rule = Spans(
        torch,
        array_namespace(tensors["queries"]),
        device,
        four["queries"].shape[2],
        four["keys"].shape[2],
        bool(causal),
        _count("window", window),
        _segments(torch, segments, four, device),
        _table(torch, allowed, four, device),
    )
    width = four["queries"].shape[-1]
    task = Task(
        torch,
        four["queries"],
        four["keys"],
        four.get("values"),
        rule,
        width**-0.5 if scale is None else _number("scale", scale),
        None if softcap is None else _number("softcap", softcap, positive=True),
        tensors.get("sinks"),
        sensitivity=bool(sensitivity),
    )
    with torch.no_grad():
        found = engine.rows(task, _WHO)
    return wrapped(torch, found, four["keys"].shape[2], lambda array: back(array.reshape((*lead, *array.shape[2:]))))


def wrapped(torch: Any, rows: Rows, keys: int, back: Any) -> HeadStatistics:  # noqa: ANN401  a module, a function
    """Return what an engine found under the names that people know."""
    purity = torch.where(rows.purity > 0, rows.purity, 1.0)
    nobody = rows.top_index < 0
    found = {
        "log_normalizer": rows.log_normalizer,
        "entropy": rows.entropy,
        "effective_keys": torch.where(nobody, 0.0, rows.entropy.exp()),
        "collision_keys": torch.where(nobody, 0.0, 1 / purity),
        "top_weight": rows.top_weight,
        "top_index": rows.top_index,
        "margin": rows.top_score - rows.second_score,
        "first_weight": rows.first_weight,
        "self_weight": rows.self_weight,
        "previous_weight": rows.previous_weight,
        "gain": rows.gain,
        "contexts": rows.context,
        "sensitivity": rows.sensitivity,
    }
    return HeadStatistics(**{name: None if array is None else back(array) for name, array in found.items()}, keys=keys)


def _numpy(array: Array) -> np.ndarray:
    return array.numpy()


def _same(array: Array) -> Array:
    return array


def _tensor(torch: Any, array: Array) -> Array:  # noqa: ANN401  a module
    if is_torch_array(array):
        return array.detach()
    if not is_numpy_array(array):
        raise ArrayTypeError(_WHO, f"arrays must be NumPy or PyTorch, but they are {arrays.library(array)}", "Convert them.")
    return torch.from_numpy(np.array(array, dtype=np.float64))


def _check_finite(given: dict[str, Array]) -> None:
    for name, array in given.items():
        arrays.check_finite(_WHO, name, array)


def _check_shapes(given: dict[str, Array]) -> tuple[int, ...]:
    """Refuse shapes that do not fit; return the axes of the queries before the position."""
    queries, keys = given["queries"], given["keys"]
    for name in (name for name in given if name != "sinks"):
        shape = tuple(given[name].shape)
        if not 2 <= len(shape) <= 4:
            raise ShapeError(_WHO, f"{name} must have shape (n, d), (h, n, d) or (b, h, n, d), but its shape is {shape}")
        if len(shape) != queries.ndim:
            counts = f"queries has {queries.ndim} and {name} has {len(shape)}"
            raise ShapeError(_WHO, f"queries and {name} must have equally many axes, but {counts}")
    arrays.check_agree(_WHO, "d", {"queries": queries.shape[-1], "keys": keys.shape[-1]})
    if 0 in (*queries.shape, *keys.shape):
        raise EmptyError(_WHO, "queries and keys must have at least one row and one column, but one of them is empty")
    heads, groups = _heads(queries), _heads(keys)
    if heads % groups:
        raise ShapeError(_WHO, f"key heads must divide heads, but there are {groups} key heads and {heads} heads")
    if queries.ndim == 4:
        arrays.check_agree(_WHO, "b", {"queries": queries.shape[0], "keys": keys.shape[0]})
    _check_others(keys, given.get("values"), given.get("sinks"), heads)
    return tuple(queries.shape[:-2])


def _check_others(keys: Array, values: Array | None, sinks: Array | None, heads: int) -> None:
    """Refuse values and sinks that do not fit."""
    if values is not None:
        arrays.check_agree(_WHO, "k", {"keys": keys.shape[-2], "values": values.shape[-2]})
        if values.shape[:-2] != keys.shape[:-2]:
            before = f"they have {tuple(keys.shape[:-2])} and {tuple(values.shape[:-2])}"
            raise ShapeError(_WHO, f"keys and values must agree on all axes before the position, but {before}")
    if sinks is not None and tuple(sinks.shape) != (heads,):
        raise ShapeError(_WHO, f"sinks must have one logit per head, shape ({heads},), but its shape is {tuple(sinks.shape)}")


def _heads(array: Array) -> int:
    return 1 if array.ndim == 2 else int(array.shape[-3])


def _four_axes(array: Array) -> Array:
    return array[(None,) * (4 - array.ndim)]


def _count(name: str, given: Given) -> int | None:
    if given is None:
        return None
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool) or given < 1:
        raise OptionError(_WHO, f"{name} must be a whole number of at least 1, but got {given!r}")
    return int(given)


def _number(name: str, given: Given, *, positive: bool = False) -> float:
    fine = isinstance(given, (int, float, np.number)) and not isinstance(given, bool) and np.isfinite(given)
    if not fine or (positive and given <= 0):
        raise OptionError(_WHO, f"{name} must be a finite number{' above 0' * positive}, but got {given!r}")
    return float(given)


def _segments(torch: Any, given: Given, four: dict[str, Array], device: Any) -> Array | None:  # noqa: ANN401
    if given is None:
        return None
    found = np.asarray(arrays.host(given) if is_torch_array(given) else given)
    if found.dtype.kind not in "iu":
        raise ArrayTypeError(_WHO, f"segments must be whole numbers, but their dtype is {arrays.dtype_name(found.dtype)}")
    batch, keys = four["queries"].shape[0], four["keys"].shape[2]
    if found.shape not in ((keys,), (batch, keys)):
        wanted = f"({keys},)" if batch == 1 else f"({keys},) or ({batch}, {keys})"
        raise ShapeError(_WHO, f"segments must have shape {wanted}, but its shape is {found.shape}")
    if four["queries"].shape[2] > keys:
        raise ShapeError(_WHO, "with segments, each query must stand at a key, but there are more queries than keys")
    return torch.from_numpy(np.atleast_2d(found).astype(np.int64)).to(device)


def _table(torch: Any, given: Given, four: dict[str, Array], device: Any) -> Mask | None:  # noqa: ANN401
    if given is None:
        return None
    mask = as_mask(_WHO, given)
    whole = (*four["queries"].shape[:3], four["keys"].shape[2])
    try:
        fits = np.broadcast_shapes(mask.shape, whole) == whole
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(_WHO, f"allowed must broadcast to (b, h, q, k) = {whole}, but its shape is {tuple(mask.shape)}")
    if isinstance(mask, Table):
        table = mask.allowed if is_torch_array(mask.allowed) else torch.from_numpy(np.array(arrays.host(mask.allowed)))
        return Table(table.to(device).expand(*table.shape[:-1], whole[-1]))
    return mask
