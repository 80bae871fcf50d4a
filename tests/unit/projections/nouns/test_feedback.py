"""What agents' verdicts change: by independent writers, within bounds."""

from typing import Any

import pytest
from factories import NOW, learned, remembered, said
from folding import contents, one_by_one, replayed

from ingest.events.envelope import Event, Recorded, encode
from ingest.log.position import Position
from ingest.nouns.feedback import FeedbackGiven, Verdict
from ingest.nouns.memory import MemoryConfirmed
from ingest.nouns.registry import decode
from projections.nouns.lesson import DECAY_FLOOR, Lesson, lesson_id
from projections.nouns.memory import Judgment, Memory, judged_factor, memory_id
from projections.store.protocol import MemoryStore

MEMORY, LESSON = remembered(0, "The API listens on port 8080."), learned(0)
NAME = str(memory_id(MEMORY))


def judged(n: int, verdict: Verdict, agent: str, *, key: str = "", document: str = NAME) -> Recorded:
    return said(n, FeedbackGiven(document=document, verdict=verdict), agent_id=agent, key=key)


def memory(store: MemoryStore) -> Memory:
    existing = store.documents[memory_id(MEMORY)]
    assert isinstance(existing, Memory)
    return existing


def verdicts(*kinds: Verdict) -> list[Judgment]:
    return [Judgment(f"agent-{number}", kind, NOW) for number, kind in enumerate(kinds)]


HELPED: list[Verdict] = ["helped"]
WRONG: list[Verdict] = ["wrong"]


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        ([], 1.0),
        (HELPED, 1.125),
        (HELPED * 50, 1.25),
        (WRONG, 0.75),
        (["wrong", "misled", "outdated"], 0.5625),
        (WRONG * 50, 0.5),
        (["helped", "wrong"], 0.875),
    ],
    ids=["none", "one helped", "many helped", "one wrong", "three against", "many wrong", "one of each"],
)
def test_verdicts_multiply_a_rank_by_a_half_to_five_quarters(given: list[Verdict], factor: float):
    assert judged_factor(verdicts(*given)) == pytest.approx(factor)


def test_newest_verdict_of_each_writer_counts_and_a_key_is_one_writer():
    events = [judged(n, "wrong", f"agent-{n}", key="k1") for n in range(1, 9)]
    store = one_by_one([MEMORY, *events, judged(9, "wrong", "bob"), judged(10, "helped", "bob")])
    assert [(it.writer, it.verdict) for it in memory(store).verdicts] == [("k1", "wrong"), ("bob", "helped")]
    assert not memory(store).is_disputed


def test_writer_has_no_verdict_on_its_own_memory():
    assert memory(one_by_one([MEMORY, judged(1, "helped", "ada")])).verdicts == []


def test_memory_is_disputed_from_the_third_wrong_until_it_is_confirmed():
    three = [judged(n, "wrong", f"agent-{n}") for n in (1, 2, 3)]
    assert not memory(one_by_one([MEMORY, *three[:2]])).is_disputed
    store = one_by_one([MEMORY, *three])
    assert memory(store).is_disputed
    entry = memory(store).index_entry()
    assert (entry.confidence, entry.importance) == (pytest.approx(0.125), pytest.approx(5 * 0.5625))
    confirmed = one_by_one([MEMORY, *three, said(4, MemoryConfirmed(memory=NAME))])
    assert not memory(confirmed).is_disputed


def test_lesson_rises_and_falls_by_verdicts_of_alternating_writers_only():
    name = lesson_id(LESSON, LESSON.data)  # type: ignore[arg-type]

    def confidence(*events: Recorded) -> float:
        lesson = one_by_one([LESSON, *events]).documents[name]
        assert isinstance(lesson, Lesson)
        return lesson.confidence

    def of(n: int, verdict: Verdict, agent: str) -> Recorded:
        return judged(n, verdict, agent, document=str(name))

    assert confidence(of(1, "helped", "bob")) == pytest.approx(0.55)
    assert confidence(of(1, "helped", "bob"), of(2, "helped", "bob")) == pytest.approx(0.55)
    assert confidence(of(1, "misled", "bob")) == pytest.approx(0.35)
    many = [of(n, "wrong", f"agent-{n}") for n in range(1, 40)]
    assert confidence(*many) == DECAY_FLOOR


def test_repeated_verdict_and_one_on_a_forgotten_memory_change_nothing_and_replay_the_same():
    first = judged(1, "wrong", "bob")
    again = first._replace(position=said(5, first.data).position)
    unknown = judged(6, "wrong", "eve", document="mem_00000000000000000000")
    events = [MEMORY, first, again, unknown]
    store = one_by_one(events)
    assert len(memory(store).verdicts) == 1
    assert {again.position, unknown.position} == {*store.erased}
    assert contents(replayed(events, store)) == contents(store)


@pytest.mark.parametrize("more", [{}, {"key": "k"}, {"key": "k", "recorded_at": MEMORY.envelope.occurred_at}])
def test_event_with_every_field_of_its_envelope_is_read_as_it_was_written(more: Any):
    """With 15 fields and more, the map of an event has another kind of head."""
    fields: dict[str, Any] = {
        "user_id": "u",
        "causation": "c",
        "trace": "t",
        "metadata": {"a": "b"},
        "trust": "imported",
    }
    event = said(1, MEMORY.data, source="mcp", **fields, **more)
    stored = decode(encode(Event(event.envelope, event.data)), Position(1, 1))
    assert (stored.data, stored.envelope.metadata) == (event.data, {"a": "b"})
    assert [getattr(stored.envelope, name) for name in more] == list(more.values())
