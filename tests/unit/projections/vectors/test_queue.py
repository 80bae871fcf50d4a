import pytest

from projections.embedding.embed_job import PART_CHARACTERS, parts_of
from projections.vectors.embedder import Urgency, place, waiting_since_ms

NOW = 1_790_000_000_000


def test_what_was_recalled_comes_first_then_what_was_kept_then_what_was_reported_the_newest_first():
    order = [
        place(Urgency.RECALLED, NOW),
        place(Urgency.RECALLED, NOW - 1),
        place(Urgency.KEPT, NOW + 1),
        place(Urgency.KEPT, 0),
        place(Urgency.REPORTED, NOW),
        place(Urgency.REPORTED, NOW - 0.5),
        place(Urgency.REPORTED, 0),
    ]
    assert order == sorted(order)
    assert len(set(order)) == len(order)


@pytest.mark.parametrize("urgency", list(Urgency))
@pytest.mark.parametrize("at_ms", [0, NOW, NOW + 0.5])
def test_a_place_says_since_when_it_waits(urgency: Urgency, at_ms: float):
    assert waiting_since_ms(place(urgency, at_ms)) == at_ms


def test_texts_are_divided_into_parts_of_like_length():
    lengths = [10, 7_000, 4_000, 20, 3_900, 50_000, 30]
    assert parts_of(lengths) == [[5], [1], [2, 4], [6, 3, 0]]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0], [PART_CHARACTERS] * 3, [1] * 20_000])
def test_every_text_is_in_one_part_and_no_part_is_too_long(lengths: list[int]):
    parts = parts_of(lengths)
    assert sorted(number for part in parts for number in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or len(part) * max(lengths[n] for n in part) <= PART_CHARACTERS for part in parts)
