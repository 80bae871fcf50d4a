"""A crystal keeps what a chain of actions came to and taught."""

import pytest

from projections.condensing.crystals import LESSONS, NARRATIVE_CHARS, Taught, contents, crystal_of
from projections.nouns.action import Action


def done(name: str, title: str, description: str = "", result: str = "", status: str = "done") -> Action:
    return Action(id=name, title=title, description=description, result=result, status=status)


CHAIN = [
    done("a1", "Rotate the token", result="The token was rotated. Always rotate before the deploy window."),
    done("a2", "Raise the pool", "Don't raise it above fifty.", result="ok"),
    done("a3", "Move to Kafka", status="canceled"),
]


def test_the_narrative_tells_each_action_and_the_outcomes_only_the_done_ones():
    made = crystal_of(CHAIN)
    assert made.narrative == "The token was rotated. Raise the pool. Move to Kafka: canceled."
    assert made.key_outcomes == ["The token was rotated.", "Raise the pool."]


def test_a_memory_has_a_line_for_each_action():
    assert contents(CHAIN) == "The token was rotated.\nRaise the pool.\nMove to Kafka: canceled."


@pytest.mark.parametrize(
    ("title", "result", "content"),
    [
        ("Rotate the payment token", "It was rotated.", "Rotate the payment token."),
        ("Rotate the payment token", "", "Rotate the payment token."),
        ("Upgrade to Python 3.13", "Upgraded to Python 3.13.", "Upgraded to Python 3.13."),
        ("Run the tests", "done", "Run the tests."),
        ("Run the tests", "12 passed in 1.2s", "Run the tests: 12 passed in 1.2s."),
        ("", "It works on both hosts.", "It works on both hosts."),
    ],
)
def test_one_action_is_told_once(title: str, result: str, content: str):
    assert contents([done("a", title, result=result)]) == content


def test_sentences_that_state_a_rule_become_lessons():
    assert crystal_of(CHAIN).lessons == [
        Taught("Always rotate before the deploy window.", ["a1"]),
        Taught("Raise the pool: Don't raise it above fifty.", ["a2"]),
    ]


@pytest.mark.parametrize("text", ["Edit `src/always/exceptions.py`.", '{"always": "never"}', "always/never.py"])
def test_what_is_no_sentence_teaches_nothing(text: str):
    assert crystal_of([done("a", "t", result=text)]).lessons == []


@pytest.mark.parametrize(
    ("text", "is_rule"),
    [
        ("Make sure the index is warm.", True),
        ("Avoid two writers on one stream.", True),
        ("Check the lag, and don't restart twice.", True),
        ("The lease mustn't be shared.", True),
        ("We don't know why it failed.", False),
        ("It should have been caught earlier.", False),
        ("Should we always restart it?", False),
        ("The pool was raised to fifty.", False),
    ],
)
def test_a_rule_says_what_to_do(text: str, is_rule: bool):
    assert bool(crystal_of([done("a", "t", result=text)]).lessons) is is_rule


def test_a_rule_said_twice_is_one_lesson_and_there_are_few():
    twice = [done(f"a{n}", "t", result="Always rotate the token first.") for n in range(2)]
    assert crystal_of(twice).lessons == [Taught("Always rotate the token first.", ["a0", "a1"])]
    many = [done(f"a{n}", "t", result=f"Never run job{n} on host{n}.") for n in range(9)]
    assert len(crystal_of(many).lessons) == LESSONS


def test_the_narrative_is_bounded():
    many = [done(f"a{n}", f"Finding{n} " + f"about{n} " * 10) for n in range(20)]
    assert 0 < len(crystal_of(many).narrative) <= NARRATIVE_CHARS


def test_nothing_done_is_an_empty_crystal():
    made = crystal_of([])
    assert (made.narrative, made.key_outcomes, made.lessons) == ("", [], [])
