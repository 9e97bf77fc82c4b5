"""Bad input, each with its sentence to the letter."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import headwise as hw
from headwise import errors

EYE = np.eye(3)


def with_entry(value, *place):
    array = np.ones((4, 3))
    array[place] = value
    return array


def mapped(tmp_path, array):
    np.save(tmp_path / "array.npy", array)
    return np.load(tmp_path / "array.npy", mmap_mode="r")


CASES = {
    "d disagrees": (
        lambda: hw.attend(np.ones(4), np.ones((2, 6)), np.ones((2, 1))),
        ValueError,
        "attend(): queries and keys must agree on axis d, but queries has d=4 and keys has d=6.",
    ),
    "k disagrees": (
        lambda: hw.attend(np.ones(3), np.ones((10, 3)), np.ones((9, 1))),
        ValueError,
        "attend(): keys and values must agree on axis k, but keys has k=10 and values has k=9.",
    ),
    "batch disagrees": (
        lambda: hw.attend(np.ones((2, 5, 3)), np.ones((7, 4, 3)), np.ones((4, 1))),
        ValueError,
        "attend(): batch axes of queries, keys and values must broadcast, but they are (2,), (7,) and ().",
    ),
    "rank of keys": (
        lambda: hw.attend(np.ones(3), np.ones(3), EYE),
        ValueError,
        "attend(): keys must have shape (..., k, d), but its shape is (3,).",
    ),
    "rank of values": (
        lambda: hw.attend(np.ones(3), EYE, np.ones(3)),
        ValueError,
        "attend(): values must have shape (..., k, v), but its shape is (3,).",
    ),
    "rank of queries": (
        lambda: hw.attend(np.float64(1), EYE, EYE),
        ValueError,
        "attend(): queries must have shape (d,) or (..., q, d), but its shape is ().",
    ),
    "nan": (
        lambda: hw.attend(np.ones(3), with_entry(np.nan, 2, 1), np.ones((4, 2))),
        ValueError,
        "attend(): keys must be finite, but keys[2, 1] is nan.",
    ),
    "infinity": (
        lambda: hw.attend(
            torch.ones(3, dtype=torch.float64), torch.ones(4, 3, dtype=torch.float64), torch.tensor(with_entry(-np.inf, 3, 0))
        ),
        ValueError,
        "attend(): values must be finite, but values[3, 0] is -inf.",
    ),
    "nan in a query vector": (
        lambda: hw.attend(jnp.asarray([1.0, jnp.nan, 0.0]), jnp.eye(3), jnp.eye(3)),
        ValueError,
        "attend(): queries must be finite, but queries[1] is nan.",
    ),
    "integers": (
        lambda: hw.attend(np.ones(3), np.eye(3, dtype=int), EYE),
        TypeError,
        "attend(): keys must be a real floating-point array, but its dtype is int64. Convert it first.",
    ),
    "complex": (
        lambda: hw.attend(torch.ones(3, dtype=torch.complex64), torch.eye(3), torch.eye(3)),
        TypeError,
        "attend(): queries must be a real floating-point array, but its dtype is complex64. Convert it first.",
    ),
    "two libraries": (
        lambda: hw.attend(np.ones(3), torch.eye(3), EYE),
        TypeError,
        "attend(): all arrays must come from one library, but queries is NumPy and keys is PyTorch. Convert one of them.",
    ),
    "two devices": (
        lambda: hw.attend(torch.ones(3), torch.eye(3), torch.eye(3, device="meta")),
        TypeError,
        "attend(): all arrays must be on one device, but queries is on cpu and values is on meta. Move one of them.",
    ),
    "no array at all": (
        lambda: hw.attend("q", EYE, EYE),
        TypeError,
        "attend(): queries must be an array or a list of numbers, but it is a str.",
    ),
    "a list of words": (
        lambda: hw.attend(["a", "b", "c"], EYE, EYE),
        TypeError,
        "attend(): queries must be an array or a list of numbers, but it is a list of <U1.",
    ),
    "a ragged list": (
        lambda: hw.attend([1.0, 2.0], [[1.0, 2.0], [1.0]], EYE),
        ValueError,
        "attend(): keys must have rows of equal length, but they differ.",
    ),
    "masked array": (
        lambda: hw.attend(np.ones(3), np.ma.masked_equal(EYE, 0), EYE),
        TypeError,
        "attend(): keys must be a plain array, but it is masked. Pass the mask as allowed=.",
    ),
    "no keys": (
        lambda: hw.attend(np.ones(3), np.ones((0, 3)), np.ones((0, 2))),
        ValueError,
        "attend(): there must be at least one key, but keys has k=0.",
    ),
    "no coordinates": (
        lambda: hw.attend(np.ones(0), np.ones((3, 0)), EYE),
        ValueError,
        "attend(): keys must have at least one coordinate, but keys has d=0.",
    ),
    "blind queries": (
        lambda: hw.attend(np.ones((5, 3)), np.ones((2, 3)), np.ones((2, 1)), allowed=hw.causal(5, 2)),
        ValueError,
        (
            "attend(): every query must be allowed at least one key, but 3 of 5 have none (first: query 0). "
            'Pass empty="zero" to let them read zeros.'
        ),
    ),
    "blind query in a batch": (
        lambda: hw.attend(np.ones((2, 4, 3)), EYE, EYE, allowed=np.arange(24).reshape(2, 4, 3) < 18),
        ValueError,
        (
            "attend(): every query must be allowed at least one key, but 2 of 8 have none (first: query 1, 2). "
            'Pass empty="zero" to let them read zeros.'
        ),
    ),
    "mask of the wrong shape": (
        lambda: hw.attend(EYE, EYE, EYE, allowed=np.ones((2, 3), dtype=bool)),
        ValueError,
        "attend(): allowed must broadcast to (..., q, k) with q=3 and k=3, but its shape is (2, 3).",
    ),
    "mask with too many rows for one query": (
        lambda: hw.attend(EYE[0], EYE, EYE, allowed=np.ones((2, 3), dtype=bool)),
        ValueError,
        "attend(): allowed must broadcast to (..., q, k) with q=1 and k=3, but its shape is (2, 3).",
    ),
    "mask of numbers": (
        lambda: hw.attend(EYE, EYE, EYE, allowed=EYE),
        TypeError,
        "attend(): allowed must be boolean, but its dtype is float64. True means that the query may look at the key.",
    ),
    "mask that is none": (
        lambda: hw.attend(EYE, EYE, EYE, allowed="causal"),
        TypeError,
        "attend(): allowed must be a boolean array or a mask, but it is a str.",
    ),
    "unknown option": (
        lambda: hw.attend(EYE, EYE, EYE, empty="zeros"),
        ValueError,
        'attend(): empty must be "error" or "zero", but got "zeros". Did you mean "zero"?',
    ),
    "unknown option, no guess": (
        lambda: hw.causal(3, 3, align="middle"),
        ValueError,
        'causal(): align must be "end" or "start", but got "middle".',
    ),
    "scale": (
        lambda: hw.attend(EYE, EYE, EYE, scale=float("nan")),
        ValueError,
        "attend(): scale must be a finite number, but got nan.",
    ),
    "overflow": (
        lambda: hw.attend(np.full(1, 1e200), np.full((2, 1), 1e200), np.ones((2, 1))).contexts,
        OverflowError,
        "attend(): scores must fit float64, but some are larger than 1.8e+308. Divide queries, keys or scale.",
    ),
    "all scores below the range": (
        lambda: hw.attend(np.full(1, 1e200), np.full((2, 1), -1e200), np.ones((2, 1))).weights,
        OverflowError,
        "attend(): scores must fit float64, but some are larger than 1.8e+308. Divide queries, keys or scale.",
    ),
    "half precision overflows": (
        lambda: hw.attend(*[300 * np.eye(4, dtype=np.float16)] * 3).scores,
        OverflowError,
        "attend(): the result must fit float16, but some numbers are larger than 6.6e+04. Convert the arrays to float32.",
    ),
    "NumPy beside JAX": (
        lambda: hw.attend(np.ones(3), jnp.eye(3), jnp.eye(3)),
        TypeError,
        "attend(): all arrays must come from one library, but queries is NumPy and keys is JAX. Convert one of them.",
    ),
    "values too large to add": (
        lambda: hw.attend(np.ones(1), np.ones((4, 1)), np.full((4, 1), 1e308)),
        ValueError,
        (
            "attend(): values must be smaller than 4.5e+307, so that 4 of them can be added, but the largest is 1e+308. "
            "Divide them."
        ),
    ),
    "row of a leak": (
        lambda: hw.attend(EYE[0], EYE, EYE).leak([0, 12]),
        IndexError,
        "leak(): index must be a key's row, 0 to 2, but got 12.",
    ),
    "negative row": (
        lambda: hw.attend(EYE[0], EYE, EYE).log_leak(-1),
        IndexError,
        "log_leak(): index must be a key's row, 0 to 2, but got -1.",
    ),
    "row that is no whole number": (
        lambda: hw.attend(EYE[0], EYE, EYE).log_leak(1.5),
        TypeError,
        "log_leak(): index must be a whole number, but got 1.5.",
    ),
    "a boolean is no row": (
        lambda: hw.attend(EYE[0], EYE, EYE).log_leak([True, False, True]),
        TypeError,
        "log_leak(): index must be a whole number, but got True.",
    ),
    "causal of nothing": (
        lambda: hw.causal(0, 3),
        ValueError,
        "causal(): queries must be a whole number of at least 1, but got 0.",
    ),
    "too many vectors": (
        lambda: hw.orthonormal(5, 3),
        ValueError,
        "orthonormal(): count may not exceed width, but 5 vectors do not fit at right angles into width 3.",
    ),
    "heads of the wrong rank": (
        lambda: hw.average_heads(np.ones(3), EYE, EYE),
        ValueError,
        "average_heads(): queries must have shape (h, d) or (h, q, d), but its shape is (3,).",
    ),
    "no heads": (
        lambda: hw.average_heads(np.ones((0, 3)), EYE, EYE),
        ValueError,
        "average_heads(): there must be at least one head, but queries has h=0.",
    ),
    "rows that heads do not divide": (
        lambda: hw.MultiHeadAttention(np.ones((5, 3)), np.ones((4, 3)), np.ones((4, 3)), heads=2),
        ValueError,
        "MultiHeadAttention(): query must have a multiple of heads=2 rows, but it has 5.",
    ),
    "projections that disagree": (
        lambda: hw.MultiHeadAttention(np.ones((6, 3)), np.ones((4, 3)), np.ones((4, 3)), heads=2),
        ValueError,
        "MultiHeadAttention(): query and key must agree on axis h * d, but query has h * d=6 and key has h * d=4.",
    ),
    "bias of the wrong length": (
        lambda: hw.MultiHeadAttention((EYE, np.ones(2)), EYE, EYE, heads=3),
        ValueError,
        "MultiHeadAttention(): query bias must have shape (3,), but its shape is (2,).",
    ),
    "tokens of the wrong width": (
        lambda: hw.MultiHeadAttention(EYE, EYE, EYE, heads=1)(np.ones((2, 4))),
        ValueError,
        "MultiHeadAttention(): queries and query must agree on axis width, but queries has width=4 and query has width=3.",
    ),
    "not a torch module": (
        lambda: hw.MultiHeadAttention.from_torch(torch.nn.Linear(2, 2)),
        TypeError,
        "from_torch(): module must be a torch.nn.MultiheadAttention, but it is a Linear.",
    ),
    "dropout": (
        lambda: hw.MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(4, 2, dropout=0.5)),
        ValueError,
        (
            "from_torch(): module must not drop weights at random, but it is in training mode with dropout 0.5. "
            "Call module.eval() first."
        ),
    ),
    "self-attention matrices": (
        lambda: hw.SelfAttention(key=np.ones((2, 3)))(EYE),
        ValueError,
        "SelfAttention(): query and key must agree on axis r, but query has r=3 and key has r=2.",
    ),
    "self-attention tokens": (
        lambda: hw.SelfAttention(value=EYE)(np.ones((5, 4))),
        ValueError,
        "SelfAttention(): tokens and value must agree on axis d, but tokens has d=4 and value has d=3.",
    ),
    "negative variance": (
        lambda: hw.RandomKeys(EYE, isotropic=-0.1),
        ValueError,
        "RandomKeys(): isotropic holds variances, at least 0, but the smallest is -0.1.",
    ),
    "diagonal of the wrong shape": (
        lambda: hw.RandomKeys(EYE, diagonal=np.ones(2)),
        ValueError,
        "RandomKeys(): diagonal must be (3,) or (3, 3), but its shape is (2,).",
    ),
    "factor of the wrong shape": (
        lambda: hw.RandomKeys(EYE, factors={1: np.ones((2, 2))}),
        ValueError,
        "RandomKeys(): factors[1] must have shape (3, rank), but its shape is (2, 2).",
    ),
    "factor of no key": (
        lambda: hw.RandomKeys(EYE, factors={7: np.ones((3, 1))}),
        IndexError,
        "RandomKeys(): factors row must be a key's row, 0 to 2, but got 7.",
    ),
    "parts that are no dictionary": (
        lambda: hw.RandomKeys(EYE, along_mean=[0.5]),
        ValueError,
        "RandomKeys(): along_mean must be a dictionary from rows, but it is a list.",
    ),
    "not positive semidefinite": (
        lambda: hw.RandomKeys(2 * EYE, isotropic=0.1, along_mean={0: -0.1}),
        ValueError,
        (
            "RandomKeys(): the covariance of key 0 must be positive semidefinite, but along_mean[0]=-0.1 takes away more "
            "than the variance that is there. The lowest it can be is -0.025."
        ),
    ),
    "negative tau without noise": (
        lambda: hw.RandomKeys(EYE, diagonal=[1.0, 0.0, 1.0], along_mean={0: -0.1}),
        ValueError,
        (
            "RandomKeys(): along_mean[0] may be negative only where every coordinate has noise, but coordinate 1 of key 0 "
            "has none. Give it isotropic or diagonal noise."
        ),
    ),
    "tau that is no number": (
        lambda: hw.RandomKeys(EYE, along_mean={0: float("inf")}),
        ValueError,
        "RandomKeys(): along_mean[0] must be a finite number, but got inf.",
    ),
    "queries of the wrong width": (
        lambda: hw.RandomKeys(EYE).score_law(np.ones((2, 4))),
        ValueError,
        "score_law(): queries and means must agree on axis d, but queries has d=4 and means has d=3.",
    ),
    "a variance that is nan": (
        lambda: hw.RandomKeys(EYE, isotropic=float("nan")),
        ValueError,
        "RandomKeys(): isotropic must be finite, but isotropic is nan.",
    ),
    "scores beyond the largest number": (
        lambda: hw.RandomKeys(1e200 * EYE, along_mean={0: 0.5}).score_law(1e200 * EYE),
        OverflowError,
        "score_law(): scores must fit float64, but their mean or variance is larger than 1.8e+308. Divide queries.",
    ),
    "tokens of another library": (
        lambda: hw.MultiHeadAttention(torch.eye(3), torch.eye(3), torch.eye(3), heads=1)(EYE),
        TypeError,
        (
            "MultiHeadAttention(): all arrays must come from one library, but queries is NumPy and query is PyTorch. "
            "Convert one of them."
        ),
    ),
    "leak out of range": (
        lambda: hw.design.copy(EYE, 0, leak=0.0),
        ValueError,
        "copy(): leak must lie strictly between 0 and 1, but got 0.0.",
    ),
    "index of no key": (
        lambda: hw.design.copy(EYE, 12),
        IndexError,
        "copy(): index must be a key's row, 0 to 2, but got 12.",
    ),
    "several rows to copy": (
        lambda: hw.design.copy(EYE, [0, 1]),
        ValueError,
        "copy(): index must be one row, but got 2. Use average for a set.",
    ),
    "heads of a design": (
        lambda: hw.design.average(EYE, [0], heads=0),
        ValueError,
        "average(): heads must be a whole number of at least 1, but got 0.",
    ),
    "an average of nothing": (
        lambda: hw.design.average(EYE, []),
        ValueError,
        "average(): indices must name at least one key, but there are none.",
    ),
    "keys of a design": (
        lambda: hw.design.copy(np.ones(3), 0),
        ValueError,
        "copy(): keys must have shape (k, d), but its shape is (3,).",
    ),
    "no keys to design for": (
        lambda: hw.design.copy(np.ones((0, 3)), 0),
        ValueError,
        "copy(): keys must not be empty, but its shape is (0, 3).",
    ),
    "values of a design": (
        lambda: hw.design.copy(EYE, 0, values=np.ones((4, 1))),
        ValueError,
        "copy(): keys and values must agree on axis k, but keys has k=3 and values has k=4.",
    ),
    "negative weights": (
        lambda: hw.design.weights(EYE, [0.6, 0.5, -0.1]),
        ValueError,
        "weights(): target must not be negative, but target[2] is -0.1.",
    ),
    "weights of the wrong sum": (
        lambda: hw.design.weights(EYE, [0.6, 0.5, 0.1]),
        ValueError,
        "weights(): target must sum to 1, but it sums to 1.2. Divide it by its sum.",
    ),
    "weights of the wrong length": (
        lambda: hw.design.weights(EYE, [0.5, 0.5]),
        ValueError,
        "weights(): target and keys must agree on axis k, but target has k=2 and keys has k=3.",
    ),
    "a target of the wrong width": (
        lambda: hw.design.context(EYE, EYE, [1.0, 2.0]),
        ValueError,
        "context(): target and values must agree on axis v, but target has v=2 and values has v=3.",
    ),
    "a target that is a table": (
        lambda: hw.design.context(EYE, EYE, EYE),
        ValueError,
        "context(): target must have shape (v,), but its shape is (3, 3).",
    ),
    "subspaces that meet": (
        lambda: hw.design.extractor(EYE[:2], against=EYE[1:]),
        ValueError,
        (
            "extractor(): the two subspaces must meet only in zero, but to rounding they share a vector (angle 0.0e+00). "
            "It is the witness of this error."
        ),
    ),
    "a layer for nothing": (
        lambda: hw.design.layer(EYE),
        ValueError,
        "layer(): reads or targets must be given, but both are missing.",
    ),
    "a list of tokens to read": (
        lambda: hw.design.layer(EYE, reads={0: [0, 1]}),
        ValueError,
        (
            "layer(): reads[0] must be a token or a dictionary from tokens to weights, but it is a list. "
            "Write for example {0: 0.5, 1: 0.5}."
        ),
    ),
    "a read of no token": (
        lambda: hw.design.layer(EYE, reads={0: 7}),
        IndexError,
        "layer(): reads[0] must be a key's row, 0 to 2, but got 7.",
    ),
    "reads of the wrong sum": (
        lambda: hw.design.layer(EYE, reads={0: {1: 0.5, 2: 0.6}}),
        ValueError,
        "layer(): weights in reads[0] must be positive and sum to 1, but they are [0.5, 0.6].",
    ),
    "a target without a read": (
        lambda: hw.design.layer(EYE, reads={0: 1}, targets={1: [1.0]}),
        ValueError,
        "layer(): every target must have a read, but position 1 has none. Leave reads out to have all chosen.",
    ),
    "targets of two widths": (
        lambda: hw.design.layer(EYE, targets={0: [1.0], 1: [1.0, 2.0]}),
        ValueError,
        "layer(): targets[0] and targets[1] must agree on axis v, but targets[0] has v=1 and targets[1] has v=2.",
    ),
    "matrices of no layer": (
        lambda: hw.design.layer(np.array([[1.0], [2.0], [3.0]]), reads={0: 1}).to_torch(),
        ValueError,
        "Layer(): only a possible layer has matrices, but this one is impossible.",
    ),
    "keys that are not random": (
        lambda: hw.stress.law(EYE[0], EYE, EYE),
        ValueError,
        "law(): random_keys must be RandomKeys, but it is a ndarray.",
    ),
    "values of another number": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), np.ones((4, 1))),
        ValueError,
        "law(): values and means must agree on axis k, but values has k=4 and means has k=3.",
    ),
    "queries of another width": (
        lambda: hw.stress.law([1.0, 2.0], hw.RandomKeys(EYE), EYE),
        ValueError,
        "law(): queries and means must agree on axis d, but queries has d=2 and means has d=3.",
    ),
    "no tolerance": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE, tolerance=0.0),
        ValueError,
        "law(): tolerance must be positive, but got 0.0.",
    ),
    "an unknown method": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE, method="exact"),
        ValueError,
        'law(): method must be "auto", "laplace", "pairs", "hybrid", "montecarlo" or "delta", but got "exact".',
    ),
    "laplace on heads that share noise": (
        lambda: hw.stress.law(EYE[:2] + EYE[1:], hw.RandomKeys(EYE, isotropic=1.0), EYE, method="laplace"),
        ValueError,
        'law(): method "laplace" needs independent heads, but heads 0 and 1 share noise. Use "pairs".',
    ),
    "a direction of width 0": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE).quantile([], 0.5),
        ValueError,
        "quantile(): direction and values must agree on axis v, but direction has v=0 and values has v=3.",
    ),
    "no direction": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE).cdf([0.0, 0.0, 0.0], 0.5),
        ValueError,
        "cdf(): direction must not be zero, but all its entries are.",
    ),
    "a quantile of no probability": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE).quantile(EYE[0], 1.0),
        ValueError,
        "quantile(): p must lie strictly between 0 and 1, but got 1.0.",
    ),
    "a target outside the values' space": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE).mean_squared_error([1.0, 2.0]),
        ValueError,
        "mean_squared_error(): target and values must agree on axis v, but target has v=2 and values has v=3.",
    ),
    "no radius": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE).probability_within(EYE[0], 0.0),
        ValueError,
        "probability_within(): radius must be positive, but got 0.0.",
    ),
    "a flip of no key": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE).flip_probability(7),
        IndexError,
        "flip_probability(): key must be a key's row, 0 to 2, but got 7.",
    ),
    "scales of a curve": (
        lambda: hw.stress.curve(EYE[0], hw.RandomKeys(EYE), EYE, EYE[0], scales=[1.0, -1.0]),
        ValueError,
        "curve(): scales must be positive numbers, at least one, but they are not.",
    ),
    "robust without random keys": (
        lambda: hw.design.robust(EYE, EYE, EYE[0]),
        ValueError,
        "robust(): random_keys must be RandomKeys, but it is a ndarray.",
    ),
    "values too large for their squares": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE, isotropic=1.0), 1e100 * EYE),
        ValueError,
        "law(): the largest value must be between 1e-70 and 1e+70 in size, but it is 1e+100. Scale values.",
    ),
    "a seed below zero": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE, seed=-1),
        ValueError,
        "law(): seed must be a whole number of at least 0, but got -1.",
    ),
    "a head that is not there": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE).flip_probability(0, head=1),
        ValueError,
        "flip_probability(): head must be one of 0 to 0, but got 1.",
    ),
    "a key against itself": (
        lambda: hw.stress.law(EYE[0], hw.RandomKeys(EYE), EYE).flip_probability(0, against=0),
        ValueError,
        "flip_probability(): against must be another key, but both are 0.",
    ),
    "remedies for no key": (
        lambda: hw.stress.remedies(EYE[0], hw.RandomKeys(EYE, isotropic=0.1), EYE, EYE[0], keys=[]),
        ValueError,
        "remedies(): keys must name at least one key, but there are none.",
    ),
    "no time": (
        lambda: hw.design.copy(EYE, 0, seconds=-5.0),
        ValueError,
        "copy(): seconds must be a number of at least 0, but got -5.0.",
    ),
    "a divergence that floats cannot tell": (
        lambda: hw.design.weights(EYE, [0.5, 0.3, 0.2], within=1e-20),
        ValueError,
        "weights(): within must be at least 1e-12, which float64 can tell from 0, but got 1e-20.",
    ),
    "weights of a read that are no numbers": (
        lambda: hw.design.layer(EYE, reads={0: {1: float("nan")}}),
        ValueError,
        "layer(): weights in reads[0] must be positive and sum to 1, but they are [nan].",
    ),
    "no draws": (
        lambda: hw.RandomKeys(EYE).sample(0),
        ValueError,
        "sample(): draws must be a whole number of at least 1, but got 0.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sentence(name):
    call, kind, sentence = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == sentence
    assert isinstance(caught.value, hw.HeadwiseError)


def test_a_file_names_the_row_in_the_whole(tmp_path, monkeypatch):
    from headwise.core import setting

    monkeypatch.setattr(setting, "_BLOCK", 1)
    monkeypatch.setattr(setting, "_FEWEST_KEYS", 2)
    keys, good = mapped(tmp_path, with_entry(np.nan, 3, 1)), np.ones((4, 3))
    for quantity in ("contexts", "entropy", "score_error"):
        with pytest.raises(errors.NotFiniteError, match=r"^attend\(\): keys must be finite, but keys\[3, 1\] is nan\.$"):
            getattr(hw.attend(np.ones(3), keys, good), quantity)
    values = mapped(tmp_path, with_entry(np.inf, 2, 0))
    with pytest.raises(errors.NotFiniteError, match=r"^attend\(\): values must be finite, but values\[2, 0\] is inf\.$"):
        _ = hw.attend(np.ones(3), good, values).contexts


def test_values_in_a_file_that_are_too_large_to_add(tmp_path):
    values = mapped(tmp_path, np.full((4, 3), 1e308))
    with pytest.raises(errors.OptionError, match=r"so that 4 of them can be added, but the largest is 1e\+308"):
        _ = hw.attend(np.ones(3), np.ones((4, 3)), values).contexts


def test_a_missing_extra_names_its_command():
    assert str(errors.missing_extra("inspect", "torch", "inspect")) == (
        'inspect(): needs torch, but it is not installed. Run: pip install "headwise[inspect]"'
    )


def test_unknown_public_name():
    with pytest.raises(AttributeError, match="module 'headwise' has no attribute 'atend'"):
        _ = hw.atend
