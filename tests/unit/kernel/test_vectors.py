"""The compiled products and codes against numpy, on arrays of any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from projections.kernel.module import NATIVE, native

pytestmark = pytest.mark.skipif(not NATIVE, reason="mnemolog-kernel is not installed")


@given(rows=st.integers(1, 50), width=st.integers(1, 400), seed=st.integers(0, 2**32 - 1))
def test_products_are_exact(rows: int, width: int, seed: int):
    dice = np.random.default_rng(seed)
    matrix = dice.integers(-127, 128, (rows, width)).astype(np.int8)
    query = dice.integers(-32_767, 32_768, width).astype(np.int16)
    some = dice.integers(0, rows, 2 * rows)
    expected = matrix[some].astype(np.int64) @ query.astype(np.int64)
    assert native.products(matrix, some, query).tolist() == expected.tolist()


def test_products_of_the_largest_numbers_do_not_overflow():
    matrix, query = np.full((1, 4_096), -127, np.int8), np.full(4_096, -32_767, np.int16)
    assert native.products(matrix, np.zeros(1, np.int64), query).tolist() == [127 * 32_767 * 4_096]


@given(rows=st.integers(0, 60), words=st.integers(1, 4), count=st.integers(0, 70), seed=st.integers(0, 2**32 - 1))
def test_the_nearest_codes_differ_in_the_fewest_bits(rows: int, words: int, count: int, seed: int):
    dice = np.random.default_rng(seed)
    codes: NDArray[np.uint64] = dice.integers(0, 2**64, (rows, words), np.uint64)
    query: NDArray[np.uint64] = dice.integers(0, 2**64, words, np.uint64)
    some = np.sort(dice.permutation(rows)[: rows // 2 + 1])
    away = np.bitwise_count(codes[some] ^ query).sum(axis=1)
    expected = np.sort(some[np.argsort(away, kind="stable")[:count]])
    assert native.nearest_codes(codes, some, query, count).tolist() == expected.tolist()


@pytest.mark.parametrize("rows", [[-1], [3], [2**62]])
def test_a_row_outside_the_matrix_is_refused(rows: list[int]):
    some: NDArray[np.int64] = np.array(rows)
    with pytest.raises(ValueError, match="a row is not in the matrix"):
        native.products(np.zeros((3, 8), np.int8), some, np.zeros(8, np.int16))
    with pytest.raises(ValueError, match="a row is not in the matrix"):
        native.nearest_codes(np.zeros((3, 2), np.uint64), some, np.zeros(2, np.uint64), 1)


def test_a_query_of_another_width_is_refused():
    with pytest.raises(ValueError, match="another width"):
        native.products(np.zeros((3, 8), np.int8), np.zeros(1, np.int64), np.zeros(9, np.int16))
