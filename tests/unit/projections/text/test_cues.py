from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from indexes import entry_of
from reference.pools import Pool, Scores, score
from reference.ranking import SPREAD_OVER
from reference.results import ECHO_WEIGHT, TOOL_WEIGHT

from projections.index.embedded import search
from projections.index.replica import IndexReplica
from projections.nouns.index_entry import index_terms
from projections.search.question import Filter, Question
from projections.search.ranking import FEATURES
from projections.store.feed import Put
from projections.text.cues import (
    ASKS,
    FIRST_PERSON,
    NO_CUES,
    NUMBER,
    PROMPT,
    SCANNED,
    TELLS_TIME,
    TOOL_OUTPUT,
    USER_TURN,
    cues_of,
    says_only,
    traits,
)
from projections.text.terms import MONTHS, terms
from projections.vectors.columns import TermRows

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)


def a_pool(
    texts: Sequence[str], episode: Sequence[int] = (), authors: Sequence[str] = (), stated: Sequence[int] = ()
) -> Pool:
    """Documents far apart in one episode, unless told otherwise, without vectors."""
    n = len(texts)
    return Pool(
        terms=TermRows.of(index_terms(text, NOON, stated=place in stated) for place, text in enumerate(texts)),
        cosine=np.full(n, np.nan),
        episode=np.array(episode or [0] * n, np.int32),
        sequence=np.arange(0, 10 * n, 10, dtype=np.int32),
        author=np.arange(n, dtype=np.int32) if authors else None,
        names={place: terms(name) for place, name in enumerate(authors)},
    )


def ranked(question: str, pool: Pool) -> Scores:
    return score(terms(question), pool, cues=cues_of(question))


def column(scores: Scores, name: str) -> list[float]:
    return scores.features[:, FEATURES.index(name)].tolist()


@pytest.mark.parametrize("text", ["I moved to Oslo", "It is my second flat", "They gave me the keys"])
def test_a_text_about_its_speaker_is_in_the_first_person(text: str):
    assert FIRST_PERSON in traits(text, terms(text))


@pytest.mark.parametrize(
    "text", ["You moved to Oslo", "for (i = 0; i < n; i++)", "", "I can help. " + 100 * "Step. " * 20]
)
def test_code_and_long_answers_are_not_in_the_first_person(text: str):
    assert FIRST_PERSON not in traits(text, terms(text))


@pytest.mark.parametrize("text", ["We met yesterday", "on 2023-05-08", "in May", "last weekend", "two years ago"])
def test_a_text_with_a_date_or_a_span_tells_a_time(text: str):
    assert TELLS_TIME in traits(text, terms(text))


def test_words_that_tell_a_time_are_known_by_their_stems():
    for word in [*MONTHS, "weeks", "weekends", "Mondays", "years", "yesterday", "tonight", "2023-05-08", "1999"]:
        assert TELLS_TIME in traits(word, terms(word)), word


@pytest.mark.parametrize(
    ("text", "trait", "has"),
    [
        ("Which port?", ASKS, True), ("哪个端口？", ASKS, True), ("Which port? 8061.", ASKS, False),
        ("Raise it to 20", NUMBER, True), ("two of them", NUMBER, True), ("commit 3fa9c1d", NUMBER, False),
    ],
)  # fmt: skip
def test_questions_and_numbers_are_traits(text: str, trait: str, has: bool):
    assert (trait in traits(text, terms(text))) is has


def test_only_the_beginning_of_a_long_text_is_looked_at():
    text = "x " * SCANNED + "I met you yesterday"

    assert traits(text, terms(text)) == []


def test_traits_are_no_words_that_a_text_or_a_question_can_say():
    assert {FIRST_PERSON, TELLS_TIME}.isdisjoint(terms("+i +when I when i"))


@pytest.mark.parametrize(
    ("question", "cue"),
    [
        ("Where did I park?", "first_person"),
        ("What did they give me?", "first_person"),
        ("When did the build break?", "time"),
        ("How long did it take?", "time"),
        ("What day was the release?", "time"),
        ("How many servers did we replace?", "several"),
        ("Which tools came up across the sessions?", "several"),
    ],
)
def test_small_words_of_a_question_are_its_cues(question: str, cue: str):
    assert getattr(cues_of(question), cue)


@pytest.mark.parametrize(
    "question", ["How do I rotate the key?", "Where can I find the logs?", "Should I restart the worker?"]
)
def test_who_asks_for_advice_does_not_ask_about_themselves(question: str):
    assert not cues_of(question).first_person
    assert cues_of(f"{question} I use two of them.").first_person


@pytest.mark.parametrize("question", ["", "redis timeout", "Which shell did it open when the server crashed?"])
def test_a_question_without_such_words_has_no_cues(question: str):
    form = {"exact": False, "question_word": False, "question_mark": False}
    assert cues_of(question)._replace(**form) == NO_CUES


def test_a_question_in_the_first_person_counts_what_the_user_said():
    asked = "Which Flask routes did I write?"
    rows = TermRows.of([index_terms("It has routes", NOON), index_terms("I wrote routes", NOON, also=[USER_TURN])])
    pool = replace(a_pool(["a", "b"]), terms=rows)

    assert column(ranked(asked, pool), "user_first_person") == [0.0, 1.0]
    assert column(ranked("Which routes has Flask?", pool), "user_first_person") == [0.0, 0.0]


def test_a_question_that_names_an_author_counts_what_they_said_of_themselves():
    pool = a_pool(["I sold the boat", "Nice boat", "I like your boat"], authors=["Ada", "Ada", "Ben"])

    scores = ranked("Which boat did Ada sell?", pool)

    assert column(scores, "named_first_person") == [1.0, 0.0, 0.0]


def test_what_others_said_is_marked_when_a_question_names_one_author():
    pool = a_pool(["I sold the boat", "I like your boat"], authors=["Ada", "Ben"])

    assert column(ranked("Which boat did Ada sell?", pool), "other_author") == [0.0, 1.0]
    assert column(ranked("Which boat did Ada sell Ben?", pool), "other_author") == [0.0, 0.0]


def test_a_question_for_a_time_or_a_number_counts_what_tells_one():
    pool = a_pool(["The build broke yesterday", "The build broke again", "It broke 3 times"])

    assert column(ranked("When did the build break?", pool), "time_asked") == [1.0, 0.0, 0.0]
    assert column(ranked("How many times did it break?", pool), "number_asked") == [0.0, 0.0, 1.0]


def test_the_answer_to_a_question_is_the_next_turn():
    pool = replace(a_pool(["Which port?", "8061", "ok"]), sequence=np.arange(3, dtype=np.int32))

    assert column(ranked("port", pool), "asks") == [1.0, 0.0, 0.0]
    assert column(ranked("port", pool), "after_question") == [0.0, 1.0, 0.0]


def test_a_question_about_now_counts_how_new_a_document_is():
    pool = replace(a_pool(["the port is 8040", "the port is 8061"]), occurred_ms=np.array([1, 2]))

    assert column(ranked("What is the port?", pool), "new_present") == [0.0, 1.0]
    assert column(ranked("What was the port?", pool), "new_present") == [0.0, 0.0]
    assert column(ranked("What is the port?", pool), "newer_strong") == [0.5, 0.0]


def test_a_question_that_counts_spreads_over_episodes():
    texts = ["kettle kettle", "kettle kettle kettle", "kettle tea", "kettle of tin and glass"]

    scores = ranked("How many kettles?", a_pool(texts, episode=[1, 1, -1, 2]))

    assert column(scores, "spread") == [-1.0, 0.0, 0.0, 0.0]


def test_what_a_long_episode_loses_is_bounded():
    scores = ranked("How many kettles?", a_pool(["kettle " * (place + 1) for place in range(30)]))

    assert min(column(scores, "spread")) == -SPREAD_OVER


def test_by_vectors_alone_no_cue_counts():
    pool = a_pool(["I bought a kettle yesterday", "kettle"])

    scores = score(terms("When did I buy it?"), pool, mode="vector", cues=cues_of("When did I buy it?"))

    assert column(scores, "time_asked") == [0.0, 0.0]


@pytest.mark.parametrize(
    "question",
    [
        "where is charge_card used?", "what is in src/checkout/charge.py?", "what does `make bench` do", "parseQuery",
        "which files were edited?", "what was the output of the build", "where is the limit set?", "pytest --lf",
        "who calls std::move", "open setup.py", "what came of 3fa9c1d", "checkout retries",
    ],
)  # fmt: skip
def test_a_name_in_code_or_what_a_tool_did_is_exact(question: str):
    assert cues_of(question).exact


@pytest.mark.parametrize(
    "question",
    ["Why were customers charged twice?", "How long do sessions last now?", "What did the pen test find, and why?"],
)
def test_a_question_in_plain_words_is_not_exact(question: str):
    assert not cues_of(question).exact


@pytest.mark.parametrize(
    ("question", "weights"),
    [
        ("Why does the checkout time out?", [(1, ECHO_WEIGHT), (1, 1), (TOOL_WEIGHT, 1), (1, 1)]),
        ("checkout times", [(1, 1)] * 4),
    ],
)
def test_prompts_that_ask_the_same_and_tool_output_weigh_less_unless_the_question_is_exact(
    question: str, weights: list[tuple[float, float]]
):
    documents = [
        index_terms("The payments team found out why the checkout times out.", NOON, also=[PROMPT]),
        index_terms("Let us move our release to Python 3.12 and fix the checkout.", NOON, also=[PROMPT]),
        index_terms("The checkout times out.", NOON, also=[TOOL_OUTPUT]),
        index_terms("The checkout times out.", NOON),
    ]
    index = IndexReplica(0, "none")
    index.apply(0, [Put(entry_of(f"obs_{number}", "", terms=said)) for number, said in enumerate(documents)])
    hits = search(index, Question(text=question, vector=None), Filter(tenant="default", now_ms=0))
    explained = {hit.id: (hit.explain["tool"], hit.explain["echo"]) for hit in hits}
    assert [explained[f"obs_{number}"] for number in range(4)] == weights


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
