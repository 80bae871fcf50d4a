import numpy as np
import pytest

from projections.search.columns import Column


def test_rows_are_kept_in_order_past_every_doubling():
    column = Column(np.int64)
    assert [column.append(3 * n) for n in range(5000)] == list(range(5000))
    assert len(column) == 5000
    assert column.values.tolist() == [3 * n for n in range(5000)]


def test_a_column_of_rows_keeps_their_width():
    column = Column(np.float16, 3)
    for n in range(1500):
        column.append([n, 0, 1])
    assert column.values.shape == (1500, 3)
    assert column[1499].tolist() == [1499, 0, 1]


def test_a_row_may_be_overwritten():
    column = Column(np.int32)
    column.append(1)
    column.append(2)
    column[0] = 9
    assert column.values.tolist() == [9, 2]


@pytest.mark.parametrize("place", [0, 5])
def test_rows_beyond_the_length_cannot_be_read_or_written(place: int):
    """The array is longer than what is stored; the rest of it is no row."""
    column = Column(np.int32)
    with pytest.raises(IndexError):
        column[place]
    with pytest.raises(IndexError):
        column[place] = 1


def test_extending_adds_zeros_up_to_a_length_and_never_shortens():
    column = Column(np.int64)
    column.append(7)
    column.extend_to(3)
    column.extend_to(2)
    assert column.values.tolist() == [7, 0, 0]


def test_a_column_goes_on_from_a_stored_array():
    column = Column[np.int16].of(np.arange(3, dtype=np.int16))
    assert column.append(9) == 3
    assert column.values.tolist() == [0, 1, 2, 9]
    assert column.values.dtype == np.int16


def test_a_column_goes_on_from_an_empty_stored_array():
    column = Column[np.float16].of(np.zeros((0, 4), np.float16))
    assert len(column) == 0
    column.append([1, 2, 3, 4])
    assert column.values.tolist() == [[1, 2, 3, 4]]


def test_going_on_leaves_the_rows_of_the_first_column_alone_when_it_grows():
    first = Column(np.int64)
    for n in range(1024):
        first.append(n)
    second = Column[np.int64].of(first.values.copy())
    second.append(-1)
    second[0] = -2
    assert first[0] == 0
    assert len(first) == 1024
