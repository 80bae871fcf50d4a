"""Random documents that come, change, get vectors, go and come back: an index answers as a dictionary would."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
import pytest
from index_model import WORDS, Model, RandomFeed, Step, partition_of, values_of
from indexes import Filled, OpenIndex
from msgspec.structs import replace

from projections.documents.index_entry import IndexEntry
from projections.search.index import DocumentLocation, Index, Links, lesson_weights, memory_weights
from projections.search.question import Filter, Hit, Question, entry_facets
from projections.store.feed import Put, Vectors
from projections.vectors.static import StaticTable

DOCUMENTS = 120
"""Fewer of them match than are candidates, so every index has the same ones."""
AN_ENTRY = 25
QUESTIONS = 200
TABLE = StaticTable(
    "static-words", WORDS[:4], np.array([[1, 0, 0.1], [0.9, 0.1, 0], [0.8, 0, 0.3], [0, 1, 0]], np.float32)
)
"""One word has no vector: a document that says nothing else has none either."""
STEPS = [pytest.param(1_000), pytest.param(10_000, marks=pytest.mark.nightly)]


async def applied(filled: Filled, steps: Iterable[Step], model: Model) -> None:
    """Apply the steps, as many as a feed entry has together."""
    waiting: dict[int, list[Step]] = {}
    for step in steps:
        model.apply(step[1])
        some = waiting.setdefault(step[0], [])
        some.append(step)
        if len(some) == AN_ENTRY:
            await filled.apply(step[0], *(item for _, item in some))
            some.clear()
    for partition, some in waiting.items():
        await filled.apply(partition, *(item for _, item in some))


async def remade(filled: Filled, model: Model) -> None:
    """Put what is left, as a rebuild does: the documents in the order of the log, and their vectors behind."""
    for name, entry in model.entries.items():
        await filled.apply(partition_of(name), Put(entry))
    for name, rows in model.rows.items():
        await filled.apply(partition_of(name), Vectors(name, "test/model", 4, rows))


def placed(names: Iterable[str]) -> list[tuple[int, str]]:
    return [(partition_of(name), name) for name in names]


class Asked:
    """What the model says of a filter."""

    def __init__(self, model: Model, allowed: Filter, now_ms: int) -> None:
        self.entries = [model.entries[name] for name in sorted(model.matching(allowed, now_ms))]
        self.rows = model.rows

    def by_time(self) -> list[IndexEntry]:
        """Newest first, of one moment the greatest id."""
        return sorted(self.entries, key=lambda entry: (entry.occurred_ms, entry.id), reverse=True)

    def saying(self, words: Sequence[str]) -> list[IndexEntry]:
        text = " ".join(words)
        return [
            document
            for document in self.by_time()
            if {*words} <= {*document.terms.split()} or text in document.concepts
        ]

    def links(self, name: str, value: str) -> Links:
        having = [entry for entry in self.entries if value in values_of(entry, name)]
        episodes = {item.episode for item in having if item.kind == "observation"}
        return Links(sum(item.kind == "memory" for item in having), len(episodes))

    def surest(self, project: str, now_ms: int) -> list[tuple[float, str]]:
        lessons = self.entries
        weights = lesson_weights(
            np.array([lesson.confidence for lesson in lessons]),
            np.array([lesson.renewed_ms for lesson in lessons], np.int64),
            np.array([lesson.project == project for lesson in lessons], np.bool_),
            now_ms,
        )
        return sorted((-weight, item.id) for weight, item in zip(weights.tolist(), lessons, strict=True))

    def notable(self, project: str, reader: str, now_ms: int) -> list[str]:
        memories = self.entries
        weights = memory_weights(
            np.array([memory.importance for memory in memories], np.float32),
            np.array([memory.recorded_ms for memory in memories], np.int64),
            np.array([project == memory.project != "" for memory in memories], np.bool_),
            np.array([reader == memory.agent_id != "" for memory in memories], np.bool_),
            now_ms,
        )
        return [name for _, name in sorted((-w, item.id) for w, item in zip(weights.tolist(), memories, strict=True))]


def same_times(places: Sequence[DocumentLocation], expected: Sequence[IndexEntry], model: Model) -> bool:
    """Whether a list has the times it should have, whatever the order of equals."""
    return [model.entries[name].occurred_ms for _, name in places] == [item.occurred_ms for item in expected]


def assert_answers_as(model: Model, index: Index, feed: RandomFeed, seed: int) -> None:
    """Every question but a search, of random filters."""
    random = Random(seed)
    assert len(index) == len(model.entries)
    assert index.with_vectors([*model.entries, "mem_none"]) == model.rows.keys()
    places = [(partition_of(name), entry) for name, entry in model.entries.items()]
    answer = index.facets([*placed(model.entries), (0, "mem_none")])  # type: ignore[list-item]
    assert [sorted(row) for row in answer] == [*(sorted(entry_facets(*place)) for place in places), []]
    for _ in range(QUESTIONS):
        allowed, now_ms = feed.filter(), random.randrange(90)
        for name in ("project", "session", "file", "concept"):
            matching = model.matching(allowed, now_ms)
            linked = {value for row in matching for value in values_of(model.entries[row], name)} - {""}
            assert {*index.linked_values(allowed, now_ms, name, 100)} - {""} == linked
        query = Asked(model, allowed, now_ms)
        names = [entry.id for entry in query.entries]
        assert_lists(index, allowed, now_ms, query, model, random)
        assert {*index.every(allowed, now_ms)} == {*placed(names)}
        assert index.count(allowed, now_ms) == len(names)
        only, project = Filter(tenant=allowed.tenant, embedded=random.random() < 0.5), random.choice(("", "atlas"))
        having = [row for row in model.matching(only, now_ms) if (row in model.rows) == only.embedded]
        assert index.count(only, now_ms) == len(having) == len(index.every(only, now_ms))
        for name in ("project", "agent", "type"):
            values = Counter(value for entry in query.entries for value in values_of(entry, name))
            assert index.counts(allowed, now_ms, name) == {
                value: count for value, count in values.items() if value or name == "project"
            }
        for name in ("project", "session", "file", "concept"):
            values = ["a", "b", "atlas", "blue whale", "s1", "s2", "c" * 300, "nothing"]
            links = {value: query.links(name, value) for value in values}
            assert index.links(allowed, now_ms, name, values) == {k: v for k, v in links.items() if v != (0, 0)}
        surest = index.lessons_by_confidence(allowed, project, now_ms, 9)
        lessons, memories = (Asked(model, replace(allowed, kinds=[kind]), now_ms) for kind in ("lesson", "memory"))
        assert [(-row.weight, row.id) for row in surest] == lessons.surest(project, now_ms)[:9]
        notable = [name for _, name in index.notable_memories(allowed, project, now_ms, 9)]
        assert notable == memories.notable(project, allowed.reader, now_ms)[:9]


def assert_lists(index: Index, allowed: Filter, now_ms: int, options: Asked, model: Model, random: Random) -> None:
    """The lists by time."""
    by_time, count, offset, at = options.by_time(), random.randrange(12), random.randrange(6), random.randrange(60)
    newest = sorted(options.entries, key=lambda entry: (-entry.recorded_ms, entry.id))
    assert index.recorded_last(allowed, now_ms, count) == placed(document.id for document in newest[:count])
    assert same_times(index.most_recent(allowed, now_ms, count, offset), by_time[offset : offset + count], model)
    window = index.window(allowed, now_ms, offset, count)
    page = [place for _, place in window.found][window.skipped : window.skipped + count]
    assert page == placed(document.id for document in by_time[offset : offset + count])
    assert window.total == len(by_time)
    closest = sorted((abs(document.occurred_ms - at), document.id) for document in by_time)
    assert index.nearest(allowed, now_ms, at) == placed(name for _, name in closest[:1])
    anchor = random.choice([*model.entries])
    past = [document.id for document in reversed(by_time) if (document.occurred_ms, document.id) < (at, anchor)]
    future = [document.id for document in reversed(by_time) if (document.occurred_ms, document.id) > (at, anchor)]
    results = index.around(allowed, now_ms, anchor, at, count, offset)
    assert results == (placed(past[len(past) - min(count, len(past)) :]), placed(future[:offset]))
    words = random.choice((["a"], random.sample(WORDS, 2), random.sample(WORDS, 1)))
    saying = options.saying(words)
    for everywhere in (True, False):
        fields = index.saying(allowed, now_ms, " ".join(words), everywhere=everywhere)
        assert {*fields} == {*placed(document.id for document in saying)}
        assert same_times(fields, saying, model)


@pytest.mark.parametrize("steps", STEPS)
async def test_every_question_is_answered_as_a_dictionary_would(open_index: OpenIndex, steps: int):
    """Also by an index that was made anew of the documents alone."""
    feed, model = RandomFeed(11, DOCUMENTS), Model()
    async with open_index(TABLE) as filled, open_index(TABLE) as anew:
        await applied(filled, feed.steps(steps), model)
        assert_answers_as(model, await filled.settle(), feed, 1)
        await remade(anew, model)
        assert_answers_as(model, await anew.settle(), feed, 2)


def searched(index: Index, question: Question, allowed: Filter) -> list[tuple[str, float, float]]:
    """Ids and scores, with what the best of them said about itself."""
    return [
        (hit.id, round(hit.score, 6), round(sum(hit.explain.values()), 4))
        for hit in flat(index.search(question, allowed))
    ]


def flat(hits: Iterable[Hit]) -> list[Hit]:
    return [item for hit in hits for item in (hit, *hit.repeats)]


@pytest.mark.parametrize("table", [None, TABLE])
@pytest.mark.parametrize("steps", STEPS)
async def test_every_index_finds_the_same_documents_with_the_same_scores(
    open_both: tuple[OpenIndex, OpenIndex], steps: int, table: StaticTable | None
):
    """The one that followed the feed, and the one that was made anew, of both kinds."""
    feed, model = RandomFeed(13, DOCUMENTS), Model()
    followed = [*feed.steps(steps)]
    embedded, on_engine = open_both
    async with embedded(table) as item, on_engine(table) as two, embedded(table) as three, on_engine(table) as four:
        await applied(item, followed, model)
        await applied(two, followed, Model())
        for anew in (three, four):
            await remade(anew, model)
        indexes = [await filled.settle() for filled in (item, two, three, four)]
        random = Random(3)
        for _ in range(QUESTIONS):
            question, allowed = question_of(random), feed.filter()
            answers = [searched(index, question, allowed) for index in indexes]
            assert all(answer == answers[0] for answer in answers), (question, allowed)


def question_of(random: Random) -> Question:
    """A question of some of the words, one of them mistaken now and then."""
    vector = np.asarray([random.gauss(0, 1) for _ in range(4)], np.float32)
    return Question(
        text=" ".join([*random.choices(WORDS, k=random.randrange(4)), *random.choice(([], [], ["biuld"], ["unsaid"]))]),
        vector=random.choice((None, (vector / np.linalg.norm(vector)).astype(np.float32))),
        model="test/model",
        mode=random.choice(("hybrid", "hybrid", "lexical", "vector")),
        ranking=random.choice(("fused", "fused", "similarity", "rrf")),
        limit=random.choice((100, 5)),
        shown=100,
        now_ms=random.randrange(90),
        half_life_days=random.choice((None, None, 1e-6)),
        recency_boost=random.random() < 0.5,
        fold=random.random() < 0.5,
    )  # type: ignore[arg-type]
