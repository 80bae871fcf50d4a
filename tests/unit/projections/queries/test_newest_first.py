"""The newest of two statements about the same thing comes first, and the older one names it."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from ingest.ids import DocumentId
from projections.nouns.memory import Memory
from projections.queries import memory as memories
from projections.queries.recall import Recalled, newest_first
from projections.search.question import Hit

assert memories  # has the view of a memory

DAY_ONE = datetime(2026, 3, 2, 9, tzinfo=UTC)
ASKED = "What is the maximum size of the pool?"
OLD, NEW = "The pool's maximum size is 12.", "The size of the pool is 18 at most now."


def memory_of(day: int, text: str, rank: int = 0, session: str = "") -> Recalled:
    name = DocumentId(f"mem_{day}")
    memory = Memory(
        id=name,
        event_id=f"e{day}",
        agent_id="ada",
        tenant="acme",
        project="shop",
        content=text,
        session_id=session,
        occurred_at=DAY_ONE + timedelta(days=day),
        recorded_at=DAY_ONE,
        updated_at=DAY_ONE,
        position=f"0:{day}-0",
    )
    sure = round(0.9 - rank / 10, 2)
    return Recalled(Hit(id=name, partition=0, kind="memory", score=sure, explain={}, confidence=sure), memory, [])


def ordered(query: str, *texts: tuple[int, str]) -> list[tuple[str, str]]:
    """The days of the results and of what replaces each, for statements of these days, best first."""
    results = [memory_of(day, text, rank, f"s{day}") for rank, (day, text) in enumerate(texts)]
    return [(result.hit.id[4:], result.superseded_by[4:]) for result in newest_first(results, query)]


def test_the_newer_comes_first_and_the_older_names_it():
    assert ordered(ASKED, (1, OLD), (5, NEW)) == [("5", ""), ("1", "5")]
    assert ordered(ASKED, (5, NEW), (1, OLD)) == [("5", ""), ("1", "5")]


def test_the_newest_of_three_comes_first():
    assert ordered(ASKED, (1, OLD), (3, "The pool: maximum size 30."), (5, NEW)) == [("5", ""), ("3", "5"), ("1", "5")]


@pytest.mark.parametrize(
    ("query", "newer"),
    [
        ("What was the maximum size of the pool?", NEW),
        ("What is the maximum size the pool used to have?", NEW),
        ("Why is the maximum size of the pool so low?", NEW),
        (ASKED, "The pool's maximum size is 12 as agreed."),
        (ASKED, "The maximum size of the pool is under discussion."),
        (ASKED, "The dining room has 18 chairs."),
    ],
    ids=["past tense", "the past", "why", "the same number", "no number", "another subject"],
)
def test_the_order_stays(query: str, newer: str):
    assert ordered(query, (1, OLD), (5, newer)) == [("1", ""), ("5", "")]


@pytest.mark.parametrize(
    ("query", "older", "newer"),
    [
        (
            "which broker do we use for orders?",
            "Orders go through the broker Kafka.",
            "NATS replaced Kafka as the orders broker.",
        ),
        ("when do we deploy?", "We deploy on Tuesdays.", "From Monday on we deploy on Thursdays."),
        ("is the export job on?", "The export job is on.", "The export job is turned off since yesterday."),
        ("who is on call for billing?", "Femi is on call for billing.", "Ada took over being on call for billing."),
        ("deploy day", "Our deploy day is Tuesday.", "Our deploy day moved to Thursday."),
        ("Wann liefern wir aus?", "Wir liefern am Dienstag aus.", "Ab sofort liefern wir am Freitag aus."),
        ("¿Qué base de datos usamos?", "Usamos la base de datos MySQL.", "Ahora usamos la base de datos Postgres."),
        ("订单用什么队列？", "订单队列用Kafka。", "订单队列改为NATS。"),
    ],
)
def test_a_statement_that_announces_a_change_comes_before_the_one_that_it_replaces(query: str, older: str, newer: str):
    assert ordered(query, (1, older), (5, newer)) == [("5", ""), ("1", "5")]


def test_a_question_announces_nothing():
    assert ordered("when do we deploy?", (1, "We deploy on Tuesdays."), (5, "Do we deploy on Fridays now?"))[0] == (
        "1",
        "",
    )


def test_what_one_session_says_keeps_its_order():
    results = [memory_of(1, OLD, session="s1"), memory_of(5, NEW, 1, session="s1")]
    assert [(result.hit.id, result.superseded_by) for result in newest_first(results, ASKED)] == [
        ("mem_1", ""),
        ("mem_5", ""),
    ]


def test_only_the_first_five_change_places():
    others = [(day, f"Chair {day} of the dining room is broken.") for day in range(10, 14)]
    assert ordered(ASKED, (1, OLD), *others, (5, NEW))[0] == ("1", "")


@pytest.mark.parametrize(("confidence", "first"), [(0.2, "mem_5"), (0.1, "mem_1"), (None, "mem_5")])
def test_a_newer_result_of_much_lower_confidence_is_about_something_else(confidence: float | None, first: str):
    """The older one has 0.9."""
    newer = memory_of(5, NEW, 1, "s5")
    newer = newer._replace(hit=replace(newer.hit, confidence=confidence))
    assert newest_first([memory_of(1, OLD, 0, "s1"), newer], ASKED)[0].hit.id == first


def test_scores_and_confidences_stay_in_order():
    results = newest_first([memory_of(1, OLD, 0, "s1"), memory_of(5, NEW, 1, "s5")], ASKED)
    assert [(result.hit.id, result.hit.score, result.hit.confidence) for result in results] == [
        ("mem_5", 0.9, 0.9),
        ("mem_1", 0.8, 0.8),
    ]


def test_no_results_stay_none():
    assert newest_first([], ASKED) == []
