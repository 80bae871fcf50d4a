"""Reading: who may see a document, and which documents come first."""

from datetime import UTC, datetime

import numpy as np
from factories import decided, place
from folding import folded
from indexes import T0, FilledReplica
from reference.pools import Pool, score

from ingest.commands.decide import Remember
from projections.nouns.access import Reader, may_read
from projections.nouns.index_entry import index_terms
from projections.search.question import Filter, Question
from projections.text.terms import terms
from projections.vectors.columns import TermRows

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)
SESSION = [
    "Where are we with the invoices?",
    "They are in the archive",
    "Lunch was good",
    "It rained all day",
]


def test_tenants_never_see_each_other():
    [memory] = folded([decided(Remember(event_id="event-1", content="Tea at noon"), place(1))]).documents.values()

    assert may_read(memory, Reader("default", "bob"))
    assert not may_read(memory, Reader("elsewhere", "bob"))


def test_a_private_memory_is_its_authors():
    secret = Remember(event_id="event-1", content="Tea at noon", agent_id="ada", visibility="private")
    [memory] = folded([decided(secret, place(1))]).documents.values()

    assert may_read(memory, Reader("default", "ada"))
    assert not may_read(memory, Reader("default", "bob"))
    assert not may_read(memory, Reader("default"))  # a reader without a name


async def test_an_index_finds_words_and_forgets_what_is_removed():
    """The index follows the feed of the store: documents are put and removed, and it is rebuilt from nothing else."""
    index = FilledReplica(None, 4)
    await index.put("mem_1", "The invoices are in the archive")
    await index.put("mem_2", "Lunch was good")
    question, allowed = Question(text="invoices", vector=None, now_ms=T0), Filter(tenant="default", now_ms=T0)

    hits = (await index.settle()).search(question, allowed)
    assert [hit.id for hit in hits] == ["mem_1"]

    await index.remove("mem_1")
    assert (await index.settle()).search(question, allowed) == []


def test_a_turn_that_contains_the_words_and_the_answer_to_it_come_first():
    """The four turns are one session, in this order. There are no vectors yet, so words alone decide."""
    pool = Pool(
        terms=TermRows.of(index_terms(text, NOON) for text in SESSION),
        cosine=np.full(len(SESSION), np.nan),
        episode=np.zeros(len(SESSION), np.int32),
        sequence=np.arange(len(SESSION), dtype=np.int32),
    )

    scores = score(terms("invoices"), pool)

    best_first = sorted(range(len(SESSION)), key=lambda turn: -scores.final[turn])
    # the answer, which contains no word of the question, comes after a turn that asks
    assert {SESSION[turn] for turn in best_first[:2]} == {"Where are we with the invoices?", "They are in the archive"}
    assert (scores.relevance.min(), scores.relevance.max()) == (0.0, 1.0)


def test_a_vector_finds_other_words_for_the_same():
    pool = Pool(
        terms=TermRows.of(["own kitten", "own truck"]),
        cosine=np.array([0.8, 0.1]),
        episode=np.full(2, -1, np.int32),
        sequence=np.zeros(2, np.int32),
    )

    scores = score(terms("pets"), pool)

    assert scores.final[0] > scores.final[1]
