"""Masks: alignment, blocks, combinations."""

import numpy as np
import pytest

import headwise as hw
from headwise.core.masks import as_mask


def by_definition(queries, keys, align):
    """Query i stands at key i (start) or such that the last two meet (end), and sees no later key."""
    place = {"start": 0, "end": keys - queries}[align]
    return np.array([[j <= i + place for j in range(keys)] for i in range(queries)])


@pytest.mark.parametrize("align", ["start", "end"])
@pytest.mark.parametrize(("queries", "keys"), [(2, 5), (5, 2), (3, 3), (1, 4), (4, 1)])
def test_causal_is_the_definition(queries, keys, align):
    np.testing.assert_array_equal(np.asarray(hw.causal(queries, keys, align=align)), by_definition(queries, keys, align))


def test_masks_combine_and_answer_in_blocks(rng):
    padding = rng.random((3, 1, 11)) < 0.7
    mask = hw.causal(7, 11) & padding
    wanted = by_definition(7, 11, "end") & padding
    np.testing.assert_array_equal(mask.table(), wanted)
    np.testing.assert_array_equal(mask.block(np, None, slice(2, 5), slice(3, 9)), wanted[:, 2:5, 3:9])
    np.testing.assert_array_equal(mask.any_per_query(np, None), wanted.any(axis=-1))
    np.testing.assert_array_equal((padding & hw.causal(7, 11)).table(), wanted)


def test_a_row_of_booleans_serves_every_query():
    keys = np.eye(3)
    out = hw.attend(keys, keys, keys, allowed=[True, False, True])
    assert (out.weights[:, 1] == 0).all()


def test_a_mask_passes_through_as_it_is():
    mask = hw.causal(2, 2)
    assert as_mask("attend", mask) is mask
