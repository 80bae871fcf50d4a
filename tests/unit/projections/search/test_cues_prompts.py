"""Which prompts are the question itself."""

from datetime import UTC, datetime

import pytest

from projections.documents.index_entry import index_terms
from projections.search.columns import TermRows
from projections.search.cues import PROMPT, USER_TURN, says_only
from projections.search.terms import terms

WHEN = datetime(2026, 11, 24, tzinfo=UTC)
QUESTION = "Why were customers charged twice?"


def is_repetition(text: str, question: str = QUESTION, trait: str = PROMPT) -> bool:
    rows = TermRows.of([index_terms(text, WHEN, also=[trait] if trait else [])])
    return bool(says_only(list(dict.fromkeys(terms(question))), rows)[0])


@pytest.mark.parametrize("trait", [PROMPT, USER_TURN])
@pytest.mark.parametrize(
    "text",
    [QUESTION, "Please tell me: why were customers charged twice?", "look up why customers charged twice"],
)
def test_a_prompt_that_only_asks_the_same_repeats_the_question(text: str, trait: str):
    assert is_repetition(text, trait=trait)


@pytest.mark.parametrize(
    "text",
    [
        "Customers were charged twice because of the retry.",
        "Customers were charged twice on 2026-11-03.",
        "Thank you!",
        "Who is charged?",
    ],
)
def test_a_prompt_that_states_a_fact_or_asks_little_of_it_does_not(text: str):
    assert not is_repetition(text)


def test_what_an_agent_says_never_repeats_the_question():
    assert not is_repetition(QUESTION, trait="")


def test_the_day_that_a_prompt_means_adds_nothing_to_a_question_that_names_it_alike():
    assert is_repetition("What did we deploy yesterday?", "what did we deploy yesterday?")
    assert not is_repetition("We deploy version 4 on the 12th", "which version did we deploy")


def test_of_several_documents_each_is_judged_alone():
    texts = [(QUESTION, PROMPT), ("", PROMPT), ("The retry charged customers twice.", PROMPT), (QUESTION, USER_TURN)]
    rows = TermRows.of([index_terms(text, WHEN, also=[trait]) for text, trait in texts])
    assert says_only(terms(QUESTION), rows).tolist() == [True, False, False, True]
