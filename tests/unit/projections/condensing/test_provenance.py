"""What of a derived text its remaining sources still say."""

import pytest

from projections.text.claims import Remainder, confirmed, cut, reworded, says

TOPIC = "About redis\n- Redis lost a node.\n- Redis runs with appendfsync always."


@pytest.mark.parametrize(
    ("text", "said", "is_said"),
    [
        ("We saw that Redis\n lost a node, at noon.", "redis lost a node.", True),
        ("The code is 51234567.", "1234", False),
        ("Redis lost a node.", "Redis lost", True),
        ("Redis lost a node.", "Redis lost two nodes", False),
        ("Redis lost a node.", "…", False),
        ("Redis lost a node.", "", False),
        ("The value is -5.", "The value is 5.", False),
    ],
)
def test_a_text_says_the_same_words_in_a_row(text: str, said: str, is_said: bool):
    assert says(text, said) is is_said


def test_a_text_that_one_source_says_is_confirmed_by_those_that_say_it():
    texts = {"a": "The backup takes two hours.", "b": "Lunch is at noon.", "c": "the backup takes two hours"}
    assert confirmed("The backup takes two hours.", texts) == Remainder("The backup takes two hours.", ["a", "c"])
    assert confirmed("The backup takes three hours.", texts) is None
    assert confirmed("The backup takes two hours. The key is 17.", texts) is None
    assert confirmed("", texts) is None


def test_what_no_source_says_is_cut_out_of_a_text():
    texts = {"a": "Redis lost a node. Nobody noticed.", "b": "The cache is full."}
    assert cut(TOPIC, texts, heading=True) == Remainder("About redis\n- Redis lost a node.", ["a"])
    assert cut("Redis lost a node. The key is 17.\n- The key is 17.", texts, heading=False) == Remainder(
        "Redis lost a node.", ["a"]
    )
    assert cut(TOPIC, {"b": texts["b"]}, heading=True) is None


def test_a_heading_that_no_source_says_takes_the_text_along():
    assert cut("About hunter2\n- Redis lost a node.", {"a": "Redis lost a node."}, heading=True) is None


def test_a_text_is_said_in_the_words_of_a_source_that_claims_the_same():
    texts = {"a": "Lunch is at noon. The nightly backup needs two hours."}
    assert reworded("The nightly backup still takes two hours.", texts, 0.5) == Remainder(
        "The nightly backup needs two hours.", ["a"]
    )
    assert reworded("The nightly backup takes three hours.", texts, 0.5) is None
