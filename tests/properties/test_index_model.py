"""Random feeds: the packed index holds what a dictionary would, however often items come and wherever it is saved."""

import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from index_model import MODEL, WORDS, Model, Step, changed, of_its_kind, partition_of

from projections.index import snapshots
from projections.index.embedded import matches, search
from projections.index.replica import IndexReplica
from projections.index.snapshots import compacted
from projections.nouns.index_entry import IndexEntry
from projections.search.question import Filter, Hit, Question
from projections.store.feed import FeedItem, Put, Remove, Switched, Vectors
from projections.vectors.columns import hashed_text

DIMENSIONS = 3

ids = st.sampled_from([f"{kind}_{n}" for kind in ("mem", "obs") for n in range(4)])
ms = st.integers(1, 9)
maybe_ms = st.one_of(st.just(0), ms)
names = st.sampled_from(["", "ada", "bob"])
some = st.lists(st.sampled_from(["a", "b"]), unique=True)
entries = st.builds(
    IndexEntry, id=ids, kind=st.just(""), terms=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    episode=st.sampled_from(["", "s1", "s2"]), tenant=st.sampled_from(["default", "default", "other"]),
    project=st.sampled_from(["", "atlas"]), session_id=names, agent_id=names, user_id=names,
    tags=st.lists(st.sampled_from(["a", "b"]), unique=True), occurred_ms=ms, recorded_ms=ms, retired_ms=maybe_ms,
    expires_ms=maybe_ms, importance=st.just(5.0), confidence=st.sampled_from([0.5, 1.0]),
    audience=st.lists(names, unique=True), types=some, files=some, concepts=some, renewed_ms=maybe_ms,
)  # fmt: skip
filters = st.builds(
    Filter, tenant=st.sampled_from(["default", "other", "nobody"]), project=st.sampled_from([None, "", "atlas"]),
    agent_id=names, session_id=names, user_id=names,
    kinds=st.lists(st.sampled_from(["memory", "observation", "lesson"]), max_size=2),
    tags=st.lists(st.sampled_from(["a", "b"]), max_size=2), from_ms=st.none() | ms, to_ms=st.none() | ms,
    as_of_ms=st.none() | ms, now_ms=ms, reader=names, types=some, files=some, concepts=some,
)  # fmt: skip


@st.composite
def vectors(draw: st.DrawFn) -> Vectors:
    rows = draw(st.lists(st.sampled_from(np.eye(DIMENSIONS).tolist()), min_size=1, max_size=3))
    model = draw(st.sampled_from([MODEL, MODEL, MODEL, "other"]))
    return Vectors(draw(ids), model, DIMENSIONS, np.asarray(rows, "<f2").tobytes())


@st.composite
def feeds(draw: st.DrawFn) -> list[Step]:
    """Documents come, change what may change while the text stays, get vectors, go, and come back."""
    fields: dict[str, IndexEntry] = {}
    steps: list[Step] = []
    for _ in range(draw(st.integers(0, 25))):
        item: FeedItem
        match draw(st.sampled_from(["put", "put", "update", "remove", "vectors", "switched"])):
            case "put":
                item = Put(of_its_kind(draw(entries)))
            case "update" if fields:
                same, other = draw(st.sampled_from(list(fields.values()))), draw(entries)
                item = Put(changed(same, other))
            case "remove":
                item = Remove(draw(ids))
            case "switched" if draw(st.integers(0, 4)) == 0:
                steps.append((draw(st.integers(0, 1)), Switched(2)))
                continue
            case _:
                item = draw(vectors())
        if isinstance(item, Put):
            before = fields.get(item.entry.id)
            if before is not None and before.terms == item.entry.terms:
                item = Put(changed(before, item.entry))
            fields[item.entry.id] = item.entry
        name = item.entry.id if isinstance(item, Put) else getattr(item, "id", "")
        steps.append((partition_of(name), item))
    return steps


@contextmanager
def folders() -> Generator[Path]:
    """A short-lived folder; a function-scoped fixture would be shared by all examples."""
    folder = Path(tempfile.mkdtemp(prefix="ix-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def applied(steps: Sequence[Step]) -> IndexReplica:
    index = IndexReplica(DIMENSIONS, MODEL)
    for partition, item in steps:
        index.apply(partition, [item])
    return index


def modelled(steps: Sequence[Step]) -> Model:
    model = Model()
    for _, item in steps:
        model.apply(item)
    return model


def matching(index: IndexReplica, allowed: Filter) -> set[str]:
    return {index.ids[ordinal] for ordinal in matches(index, allowed).bitmap}


def contents(index: IndexReplica) -> dict[str, tuple[Any, ...]]:
    """Everything a reader could learn of each document."""
    query = np.asarray([0.8, 0.6, 0], np.float32)
    results: dict[str, tuple[Any, ...]] = {}
    for name, ordinal in index.ordinal_of.items():
        (cosine,) = index.vectors.cosine(query, np.asarray([ordinal])).tolist()
        results[name] = (
            index.terms[ordinal].tolist(), sorted(index.facets_of[ordinal]), index.authors[int(index.author[ordinal])],
            [index.ids[it[ordinal]] if it[ordinal] >= 0 else "" for it in (index.earlier, index.later)],
            int(index.occurred_ms[ordinal]),
            int(index.recorded_ms[ordinal]), int(index.retired_ms[ordinal]), int(index.expires_ms[ordinal]),
            int(index.renewed_ms[ordinal]), int(index.sequence[ordinal]), float(index.confidence[ordinal]),
            None if np.isnan(cosine) else cosine,
        )  # fmt: skip
    return results


def answers(index: IndexReplica, allowed: Filter) -> list[list[Hit]]:
    """What every ranking says."""
    vector = np.asarray([0.8, 0.6, 0], np.float32)
    return [
        search(index, Question(text=word, vector=vector, ranking=ranking, limit=9, now_ms=allowed.now_ms), allowed)
        for word in WORDS[:2]
        for ranking in ("fused", "similarity", "rrf")
    ]


def found(index: IndexReplica, word: str, allowed: Filter) -> set[str]:
    question = Question(text=word, vector=None, mode="lexical", limit=100, now_ms=allowed.now_ms)
    return {hit.id for hit in search(index, question, allowed)}


@settings(max_examples=60)
@given(feeds(), st.lists(filters, min_size=1, max_size=4))
def test_the_index_holds_what_a_dictionary_would(steps: list[Step], allowed: list[Filter]):
    """Filters, the words and vectors of every document."""
    model = modelled(steps)
    index = applied(steps)
    assert set(index.ordinal_of) == model.entries.keys()
    assert len(index) == len(model.entries)
    for item in allowed:
        assert matching(index, item) == model.matching(item)
    for name, ordinal in index.ordinal_of.items():
        assert index.terms[ordinal].tolist() == hashed_text(model.entries[name].terms).tolist()
        assert index.vectors.has(ordinal) == (name in model.rows)


@settings(max_examples=30)
@given(feeds(), filters, st.sampled_from(WORDS))
def test_a_word_finds_the_matching_documents_that_say_it(steps: list[Step], allowed: Filter, word: str):
    """And, of those that do not say it, only neighbours in the session of one that does."""
    model = modelled(steps)
    index = applied(steps)
    hits = found(index, word, allowed)
    match = model.matching(allowed)
    saying = {name for name in match if word in model.entries[name].terms.split()}
    episodes = {model.entries[name].episode for name in saying} - {""}
    assert saying <= hits <= match
    assert all(model.entries[name].episode in episodes for name in hits - saying)


@settings(max_examples=30)
@given(feeds())
def test_an_item_applied_twice_changes_nothing(steps: list[Step]):
    """A replica that lost its place reads an entry again."""
    once = contents(applied(steps))
    twice = contents(applied([step for step in steps for _ in range(2)]))
    assert once == twice


@settings(max_examples=20)
@given(feeds(), st.data())
def test_saving_and_loading_in_the_middle_changes_nothing(steps: list[Step], data: st.DataObject):
    at = data.draw(st.integers(0, len(steps)))
    with folders() as folder:
        straight = applied(steps)
        first = applied(steps[:at])
        manifest = snapshots.save(first, {}, folder / "snapshots", "01")
        index = snapshots.load(folder / "snapshots" / "01", manifest)
        for partition, item in steps[at:]:
            index.apply(partition, [item])
        assert contents(index) == contents(straight)
        assert index.ids == straight.ids


@settings(max_examples=30)
@given(feeds(), filters, st.data())
def test_compacting_in_the_middle_changes_no_answer(steps: list[Step], allowed: Filter, data: st.DataObject):
    """And leaves nothing of what was removed before."""
    at = data.draw(st.integers(0, len(steps)))
    straight = applied(steps)
    index = compacted(applied(steps[:at]))
    assert "" not in index.ids
    assert {index.authors[author] for author in index.author.values.tolist()} == set(index.authors)
    for partition, item in steps[at:]:
        index.apply(partition, [item])
    assert contents(index) == contents(straight)
    assert answers(index, allowed) == answers(straight, allowed)


@settings(max_examples=30)
@given(feeds(), filters)
def test_two_replicas_of_the_same_documents_answer_alike(steps: list[Step], allowed: Filter):
    """One has read all that happened, the other (after a rebuild) only what is left, in the order of the sessions."""
    straight = applied(steps)
    model = modelled(steps)
    order = sorted(
        model.entries, key=lambda name: (model.entries[name].episode, straight.sequence[straight.ordinal_of[name]])
    )
    late = applied([(partition_of(name), Put(model.entries[name])) for name in order])
    for name, rows in model.rows.items():
        late.apply(partition_of(name), [Vectors(name, MODEL, DIMENSIONS, rows)])
    assert answers(late, allowed) == answers(straight, allowed)
