"""Random histories: however they are cut into batches, repeated or replayed, the documents are the same.

What a history is, and what of it is random: tests/support/histories.py. It holds every noun and every command, repeats
far apart (a spool that sends again behind the log's dedup window), and forgettings of documents, of sessions, of a
user's and of a whole project.
"""

from collections.abc import Iterable, Mapping
from itertools import count, pairwise
from typing import Any, TypeVar

from folding import apply, contents, folded, members, one_by_one, replayed
from histories import History, histories
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.events.envelope import Event, Recorded, encode, route_of
from ingest.ids import DocumentId
from ingest.kinds import ACTION, LESSON
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position, partition_of
from ingest.log.scripts import acquire_lease
from ingest.platform.connections import Client
from projections.nouns.document import Document
from projections.nouns.document import encode as encode_document
from projections.nouns.rows import Row
from projections.nouns.tombstone import Ledger, SupersededEvent, Tombstone, unpacked
from projections.store.protocol import MemoryStore, project
from projections.store.redis_store import RedisStore

T = TypeVar("T")


@st.composite
def cut(draw: st.DrawFn, events: list[T]) -> list[list[T]]:
    """The events as batches, in order."""
    places = sorted({0, len(events), *draw(st.lists(st.integers(0, len(events)), max_size=4))})
    return [events[start:end] for start, end in pairwise(places)]


def log_of(history: History) -> list[Recorded]:
    """The log as the live projection left it: with stubs in the place of what it erased."""
    erased = history.live.erased
    return [
        Recorded(event.position, *erased[event.position]) if event.position in erased else event
        for event in history.events
    ]


def differing(mine: MemoryStore, other: MemoryStore) -> dict[str, tuple[Any, Any]]:
    """Documents and listings that differ, both ways; empty when the stores hold the same."""
    return _differing(mine.documents, other.documents) | _differing(members(mine), members(other))


def _differing(mine: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[str, tuple[Any, Any]]:
    names = mine.keys() | other.keys()
    return {str(name): (mine.get(name), other.get(name)) for name in names if mine.get(name) != other.get(name)}


@given(histories(), st.data())
def test_batches_end_where_single_events_end(history: History, data: st.DataObject):
    in_batches = folded(*data.draw(cut(history.events)))
    assert differing(in_batches, history.live) == {}
    assert in_batches.erased == history.live.erased


@settings(max_examples=50)
@given(histories(), st.data())
def test_a_batch_applied_twice_changes_nothing(history: History, data: st.DataObject):
    """Redelivery at once, of one batch."""
    store = MemoryStore()
    for batch in data.draw(cut(history.events)):
        if batch:
            apply(store, batch)
            assert apply(store, batch).documents == {}


@settings(max_examples=50)
@given(histories(), st.data())
def test_a_history_repeated_from_anywhere_changes_nothing(history: History, data: st.DataObject):
    """A worker that lost its checkpoint applies old events again, forgettings among them."""
    before, erased = contents(history.live), dict(history.live.erased)
    for event in history.events[data.draw(st.integers(0, len(history.events))) :]:
        apply(history.live, [event])
    assert contents(history.live) == before
    assert history.live.erased.keys() == erased.keys()


@settings(max_examples=150)
@given(histories())
def test_a_replay_ends_exactly_where_live_did(history: History):
    """Documents, tombstones, marks and listings, although a replay no longer sees what was erased.

    It erases nothing that live did not: a stub is never replaced by one that says more.
    """
    again = replayed(history.events, history.live)
    assert differing(again, history.live) == {}
    assert again.erased.keys() <= history.live.erased.keys()


@settings(max_examples=50)
@given(histories(), st.data())
def test_a_replay_may_be_cut_anywhere_too(history: History, data: st.DataObject):
    assert differing(folded(*data.draw(cut(log_of(history)))), history.live) == {}


@given(histories())
def test_what_is_erased_is_nothing_that_is_still_read(history: History):
    living = [
        document
        for document in history.live.documents.values()
        if not isinstance(document, Tombstone | SupersededEvent)
    ]
    read = {getattr(document, "position", "") for document in living}
    retired = [entry for item in living if isinstance(item, Ledger) for entry in unpacked(item)]
    read |= {str(entry.position) for entry in retired if not entry.erased}
    assert read.isdisjoint(str(position) for position in history.live.erased)


GONE_FOR_GOOD = (ACTION, LESSON)
"""What no event but the one that makes it anew brings back: any other that comes later is void."""


def forgotten_words(history: History) -> set[str]:
    """The planted words that must be gone: said of what is forgotten for good, or before it was forgotten."""
    tombs = {name for name, document in history.live.documents.items() if isinstance(document, Tombstone)}
    tombs |= {
        document.subject for document in history.forgot if document.subject.startswith(GONE_FOR_GOOD)
    } - history.live.documents.keys()
    last: dict[str, Position] = {}
    for forgot in history.forgot:
        last[forgot.subject] = max(forgot.position, last.get(forgot.subject, forgot.position))
    return {
        text.word
        for text in history.said
        if text.subject in tombs or (text.subject in last and text.position < last[text.subject])
    }


def stored(documents: Iterable[Document]) -> bytes:
    """Everything that is kept of documents, as bytes."""
    return b"\n".join(
        document.model_dump_json().encode() if isinstance(document, Row) else encode_document(document)
        for document in documents
    )


def written(events: Iterable[Recorded]) -> bytes:
    """Everything that is kept of a log, as bytes."""
    return b"\n".join(encode(Event(event.envelope, event.data)) for event in events)


@settings(max_examples=100)
@given(histories())
def test_no_word_of_what_is_forgotten_is_left_anywhere(history: History):
    """Neither in the log or its stubs, nor in a document or a listing; nor does a replay bring one back."""
    words = forgotten_words(history)
    again = replayed(history.events, history.live)
    places = [written(log_of(history))]
    for store in (history.live, again):
        places += [stored(store.documents.values()), repr(members(store)).encode()]
    for place in places:
        assert [word for word in words if word.encode() in place] == []


_partitions = count(10)


@settings(max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories(longest=24), data=st.data())
async def test_redis_keeps_what_memory_keeps(redis: Client, history: History, data: st.DataObject):
    """The same batches, documents and listings alike, checkpoint included. Each example has a partition of its own."""
    memory, events = history.live, history.events
    keys = PartitionKeys(next(_partitions))
    store = RedisStore(redis, keys, 1, await acquire_lease(redis, keys, "ada", 60_000))
    for batch in data.draw(cut(events)):
        if batch:
            await store.save(await project(store, batch), batch[-1].position)
    assert await store.load(list(memory.documents)) == memory.documents
    listed = {name: set(result) for name, result in (await store.members(list(memory.listings))).items()}
    assert {name: result for name, result in listed.items() if result} == members(memory)
    prefix = store.keys.listing("")
    fields = {raw.decode().removeprefix(prefix) async for raw in redis.scan_iter(match=f"{prefix}*", count=1000)}
    assert fields == members(memory).keys()
    names = [store.keys.doc(""), store.keys.row("")]
    saved = {
        DocumentId(raw.decode().removeprefix(name))
        for name in names
        async for raw in redis.scan_iter(match=f"{name}*", count=1000)
    }
    assert saved == memory.documents.keys()
    assert await store.checkpoint() == events[-1].position


@given(histories(), st.sampled_from([2, 3, 7]))
def test_streams_make_the_same_apart_as_together(history: History, partitions: int):
    """What a partition holds is of each stream alone: so a log can be divided among more of them."""
    apart = [
        one_by_one(event for event in history.events if partition_of(route_of(*event[1:]), partitions) == partition)
        for partition in range(partitions)
    ]
    union = MemoryStore()
    for store in apart:
        assert union.documents.keys().isdisjoint(store.documents)
        union.documents.update(store.documents)
        for listing, result in store.listings.items():
            union.listings.setdefault(listing, set()).update(result)
    assert differing(union, history.live) == {}
