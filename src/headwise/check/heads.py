"""How steady several heads are when the length of one key varies."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from headwise.check.evaluate import value
from headwise.check.limits import Reading
from headwise.check.properties import Average, Property, weights_of
from headwise.check.repairs import Mistake
from headwise.check.verdict import Counterexample
from headwise.check.worlds import Instance, Keys

_SCALE = 10.0
# The length of key a is normal with mean 1 and variance 1/2; these are points and weights of its law.
_LENGTHS = np.linspace(-4.0, 6.0, 2001)
_CHANCES = np.exp(-((_LENGTHS - 1.0) ** 2)) / np.exp(-((_LENGTHS - 1.0) ** 2)).sum()


def same_queries(wanted: Property, reading: Reading) -> tuple[Mistake, Counterexample] | None:
    """Say that queries which are all equal are one head."""
    if not isinstance(wanted, Average) or len(wanted.give) < 2:
        return None
    queries = _queries(wanted, reading)
    if float(np.abs(queries - queries[0]).max()) > 1e-9 * float(np.abs(queries).max()):
        return None
    keys = _keys(wanted)
    count = len(keys)
    same, apart = variance(queries, keys), variance(_SCALE * np.eye(2, count) @ keys, keys)
    help_ = (
        f"The value is right, but when the length of k_a varies its variance is {same:.2f}, that of one head; two heads that "
        f"copy one value each have {apart:.3f}."
    )
    weights = weights_of(queries @ keys.T).mean(axis=0)
    data = {
        "seed": 0,
        "n": count,
        "keys": keys,
        "values": np.eye(count),
        "queries": queries,
        "weights": weights,
        "output": weights,
        "variance": same,
        "error": same - apart,
    }
    code = (
        f"import numpy as np\nimport headwise as hw\nqueries = np.zeros({queries.shape})\n"
        f"queries[:] = {queries[0].round(9).tolist()}\n"
        f"keys = hw.RandomKeys(np.eye({count}, {keys.shape[1]}), isotropic=1e-8, along_mean={{0: 0.5}})\n"
        f"print(hw.stress.law(queries, keys, np.eye({count})).variance)\n"
    )
    return Mistake("equal queries", help_), Counterexample("the queries are equal, so this is one head", data, code)


def unsteady(wanted: Property, reading: Reading) -> Sequence[str]:
    """Remark on heads that differ but jump together."""
    if not isinstance(wanted, Average) or len(wanted.give) < 2:
        return []
    queries = _queries(wanted, reading)
    if not 0 < float(np.linalg.norm(queries, axis=1).max()) < 1e4:
        return []
    found = variance(queries, _keys(wanted))
    if found < 0.1:
        return []
    return [
        f"both heads look at a and b: when the length of k_a varies, the variance is {found:.2f}; one value each is steadier"
    ]


def variance(queries: Float[np.ndarray, "h d"], keys: Float[np.ndarray, "k d"]) -> float:
    """Return the variance of the averaged output when the length of key a has variance 1/2, for values at right angles."""
    scores = np.repeat((queries @ keys.T)[None], len(_LENGTHS), axis=0)
    scores[:, :, 0] *= _LENGTHS[:, None]
    outputs = weights_of(scores).mean(axis=1)
    mean = _CHANCES @ outputs
    return float(_CHANCES @ ((outputs - mean) ** 2).sum(axis=1))


def _plain(wanted: Average) -> Instance:
    """Return the first instance, with keys that are coordinates."""
    world = wanted.world
    return Keys(world.letter, world.elements, noise=world.noise, counts=world.counts, width=world.width).draw(0, 1e-8)


def _keys(wanted: Average) -> Float[np.ndarray, "k d"]:
    return np.asarray(_plain(wanted).arrays["keys"])


def _queries(wanted: Average, reading: Reading) -> Float[np.ndarray, "h d"]:
    """Return the queries on keys that are coordinates, at a middling scale."""
    values = _plain(wanted).values.with_scales(reading.at(_SCALE))
    return np.stack([value(node, values)[:, 0] for node in reading.items.values()])
