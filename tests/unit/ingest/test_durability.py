"""What an acknowledgement survives: the levels and how they compare."""

import itertools

import pytest

from ingest.durability import LEVELS, parse_durability, reaches, weakest
from ingest.errors import CommandRejected


def test_a_level_reaches_itself_and_every_weaker_one():
    for (place, reached), (other, wanted) in itertools.product(enumerate(LEVELS), enumerate(LEVELS)):
        assert reaches(reached, wanted) == (place >= other)


def test_without_a_wish_any_level_will_do():
    assert all(reaches(level, None) for level in LEVELS)


def test_several_writes_are_as_durable_as_the_weakest():
    assert weakest(["replicated", "fsync"]) == "fsync"
    assert weakest(["fsync", "memory", "replicated"]) == "memory"
    assert weakest(["replicated"]) == "replicated"


def test_of_nothing_nothing_is_promised():
    assert weakest([]) == "memory"


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_is_read_by_its_name(level: str):
    assert parse_durability(level, "X-Durability") == level


def test_no_text_is_no_wish():
    assert parse_durability(None, "X-Durability") is None


@pytest.mark.parametrize("level", ["diamond", "", "fsync, fsync"])
def test_an_unknown_level_is_refused_and_the_known_ones_are_named(level: str):
    with pytest.raises(CommandRejected, match="memory, fsync, replicated") as refused:
        parse_durability(level, "X-Durability")
    assert refused.value.field == "X-Durability"
