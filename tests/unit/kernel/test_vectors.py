"""The compiled products and codes are those of the reference, on arrays of any size."""

import numpy as np
import pytest
import reference.vectors as reference
from hypothesis import given
from hypothesis import strategies as st

from projections.kernel.module import native
from projections.vectors.vectors import quantized

SEEDS = st.integers(0, 2**32 - 1)
PARTS = 0.1, 0.8, 0.08, 0.01, 0.01


@given(rows=st.integers(0, 20), width=st.integers(1, 400), seed=SEEDS)
def test_quantized_rows(rows: int, width: int, seed: int):
    """Of any length, zeros among them; each row is of unit length again, to half a percent."""
    dice = np.random.default_rng(seed)
    given = (dice.standard_normal((rows, width)) * dice.choice([0, 1e-3, 1, 50], (rows, 1))).astype(np.float32)
    packed, scale = native.quantize(given)
    expected, expected_scale = reference.quantized(given)
    assert packed.tolist() == expected.tolist()
    assert scale.tolist() == expected_scale.tolist()
    lengths = np.linalg.norm(packed * scale[:, None], axis=1)
    assert np.allclose(lengths[packed.any(axis=1)], 1, atol=5e-3)


@given(documents=st.integers(1, 40), width=st.integers(1, 400), seed=SEEDS)
def test_cosines(documents: int, width: int, seed: int):
    """Of documents with no, one or several vectors, some of them equal, asked twice, or unknown."""
    dice = np.random.default_rng(seed)
    count = dice.integers(0, 4, documents).astype(np.int32)
    first = (np.cumsum(count) - count).astype(np.int64)
    matrix, scale = quantized(dice.standard_normal((3, width))[dice.integers(0, 3, int(count.sum()))])
    query = (dice.standard_normal(width) * dice.choice([0, 1, 1e-3, np.nan, np.inf], width, p=PARTS)).astype(np.float32)
    asked = dice.integers(0, documents + 3, 2 * documents)
    columns = matrix, scale, first, count, asked, query
    np.testing.assert_array_equal(native.cosines(*columns), reference.cosines(*columns))


def test_the_largest_numbers_do_not_overflow():
    matrix, query = np.full((1, 4_096), -127, np.int8), np.full(4_096, -32_767, np.float32)
    one = np.ones(1, np.float32), np.zeros(1, np.int64), np.ones(1, np.int32), np.zeros(1, np.int64)
    assert native.cosines(matrix, *one, query).tolist() == [np.float32(127 * 32_767 * 4_096)]


@given(rows=st.integers(0, 60), width=st.integers(1, 200), seed=SEEDS)
def test_a_code_has_the_components_above_the_mean(rows: int, width: int, seed: int):
    dice = np.random.default_rng(seed)
    matrix, mean = dice.integers(-3, 4, (rows, width)).astype(np.int8), dice.integers(-3, 4, width).astype(np.float32)
    bits = np.unpackbits(native.sign_codes(matrix, mean).view(np.uint8), axis=1, bitorder="little")
    assert bits[:, :width].tolist() == (matrix > mean).tolist()
    assert not bits[:, width:].any()


@given(rows=st.integers(0, 60), words=st.integers(1, 4), most=st.integers(0, 70), seed=SEEDS)
def test_the_nearest_codes(rows: int, words: int, most: int, seed: int):
    dice = np.random.default_rng(seed)
    codes = dice.integers(0, 2**64, (rows, words), np.uint64)
    query = dice.integers(0, 2**64, words, np.uint64)
    document = dice.integers(-1, max(1, rows), rows)
    allowed = dice.random(max(1, rows)) < 0.7
    given = codes, document, allowed, query, most
    assert native.nearest_codes(*given).tolist() == reference.nearest_codes(*given).tolist()


def test_arrays_that_do_not_fit_together_are_refused():
    matrix, query, one = np.zeros((3, 8), np.int8), np.zeros(8, np.float32), np.zeros(1, np.int64)
    scale, count = np.ones(3, np.float32), np.ones(1, np.int32)
    for asked, first, reason in (
        (np.zeros(9, np.float32), one, "another width"),
        (query, np.array([3]), "not in the matrix"),
        (query, np.array([-1]), "not in the matrix"),
        (query, np.zeros(2, np.int64), "the same documents"),
    ):
        with pytest.raises(ValueError, match=reason):
            native.cosines(matrix, scale, first, count, one, asked)
    with pytest.raises(ValueError, match="needs a document"):
        native.nearest_codes(np.zeros((3, 2), np.uint64), one, np.ones(1, np.bool_), np.zeros(2, np.uint64), 1)
