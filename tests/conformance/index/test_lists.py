"""Lists of documents by time: the last, the nearest, those around one, and pages of all.

Random documents that come, change, get vectors, go and come back: an index answers as a dictionary would.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from index_model import WORDS, Model, RandomFeed, Step, partition_of, values_of
from indexes import PARTITIONS, T0, Filled, OpenIndex
from msgspec.structs import replace

from ingest.ids import DocumentId
from projections.index import embedded
from projections.index.protocol import DocumentLocation, Index, Linked, Links, Window
from projections.nouns.index_entry import IndexEntry
from projections.search.decay import lesson_weights, memory_weights
from projections.search.question import Filter, Hit, Question, entry_facets
from projections.search_engine import index as on_engine
from projections.store.feed import Put, Vectors
from projections.vectors.static import StaticTable

ANYTHING = Filter(tenant="default", now_ms=T0)


def ids(places: Sequence[DocumentLocation]) -> list[str]:
    return [name for _, name in places]


def page(expected: Window, limit: int) -> list[str]:
    """The ids of the page itself."""
    return ids([place for _, place in expected.located])[expected.skipped : expected.skipped + limit]


async def test_an_empty_index_has_empty_lists(filled: Filled):
    index = await filled.settle()
    assert len(index) == 0
    assert index.every(ANYTHING) == index.recorded_last(ANYTHING, 9) == index.most_recent(ANYTHING, 9) == []
    assert index.nearest(ANYTHING, T0) == index.saying(ANYTHING, "tea", everywhere=True) == []
    assert index.around(ANYTHING, "mem_1", T0, 2, 2) == ([], [])
    assert index.facets([]) == []
    assert index.with_vectors([]) == index.with_vectors(["mem_1"]) == set()


async def test_a_document_is_where_its_partition_is(filled: Filled):
    for partition in range(PARTITIONS):
        await filled.put(f"mem_{partition}", "tea", partition=partition)
    index = await filled.settle()
    assert len(index) == PARTITIONS
    assert sorted(index.every(ANYTHING)) == [(partition, f"mem_{partition}") for partition in range(PARTITIONS)]


async def test_all_or_some_of_all_are_listed(filled: Filled):
    for n in range(20):
        await filled.put(f"mem_{n:02d}", "tea", tags=["even"] if n % 2 == 0 else [])
    index = await filled.settle()
    even = Filter(tenant="default", now_ms=T0, tags=["even"])
    assert sorted(ids(index.every(even))) == [f"mem_{n:02d}" for n in range(0, 20, 2)]
    for most in (0, 1, 9, 10, 11):
        some = ids(index.every(even, most))
        assert len({*some}) == len(some) == min(most, 10)


async def test_documents_are_found_by_the_beginning_of_their_ids_if_the_filter_allows_them(filled: Filled):
    for name in ("mem_1a2b3c4d5e", "mem_1a2b3c4fff", "mem_1a2b3caaaa", "obs_1a2b3c4d5e"):
        await filled.put(name, "tea", tags=["hot"] if name.endswith("fff") else ["cold"])
    index = await filled.settle()
    assert sorted(ids(index.beginning(ANYTHING, "mem_1a2b3c4"))) == ["mem_1a2b3c4d5e", "mem_1a2b3c4fff"]
    hot = Filter(tenant="default", now_ms=T0, tags=["hot"])
    assert ids(index.beginning(hot, "mem_1a2b3c4")) == ["mem_1a2b3c4fff"]
    assert index.beginning(ANYTHING, "mem_9999999") == []


async def test_more_than_one_answer_of_the_engine_holds_are_listed(filled: Filled, monkeypatch: pytest.MonkeyPatch):
    """And a list that is not read to its end leaves nothing open there: it may be asked for again and again."""
    monkeypatch.setattr(on_engine, "AT_ONCE", 3)
    for n in range(10):
        await filled.put(f"mem_{n}", "tea")
    index = await filled.settle()
    assert sorted(ids(index.every(ANYTHING))) == [f"mem_{n}" for n in range(10)]
    assert {len(index.every(ANYTHING, 4)) for _ in range(200)} == {4}


async def test_those_recorded_last_come_newest_first_and_of_equals_the_smallest_id(filled: Filled):
    for name, at in (("mem_5", 1), ("mem_2", 3), ("mem_4", 3), ("mem_1", 2), ("mem_3", 3)):
        await filled.put(name, "tea", recorded_ms=T0 + at, occurred_ms=T0 - at)
    index = await filled.settle()
    newest = ["mem_2", "mem_3", "mem_4", "mem_1", "mem_5"]
    for count in range(7):
        assert ids(index.recorded_last(ANYTHING, count)) == newest[:count]


async def test_those_that_happened_last_come_newest_first(filled: Filled):
    for n in (3, 1, 4, 0, 2):
        await filled.put(f"mem_{n}", "tea", occurred_ms=T0 + n, recorded_ms=T0 - n)
    index = await filled.settle()
    newest = [f"mem_{n}" for n in (4, 3, 2, 1, 0)]
    for count in range(7):
        for offset in range(7):
            assert ids(index.most_recent(ANYTHING, count, offset)) == newest[offset : offset + count]


async def test_pages_of_what_happened_last_have_each_document_once_also_of_one_moment(filled: Filled):
    for n in range(30):
        await filled.put(f"mem_{n:02d}", "tea", occurred_ms=T0 + n // 10)
    index = await filled.settle()
    for size in (1, 4, 30):
        pages = [item for at in range(0, 30, size) for item in ids(index.most_recent(ANYTHING, size, at))]
        assert sorted(pages) == [f"mem_{n:02d}" for n in range(30)]
        assert [int(name[4]) for name in pages] == sorted((int(name[4]) for name in pages), reverse=True)


async def test_the_nearest_is_before_or_after_a_moment_and_of_equals_the_smallest_id(filled: Filled):
    for name, at in (("mem_2", 10), ("mem_1", 10), ("mem_0", 20), ("mem_3", 40)):
        await filled.put(name, "tea", occurred_ms=T0 + at)
    index = await filled.settle()
    for at, name in ((-999, "mem_1"), (10, "mem_1"), (14, "mem_1"), (15, "mem_0"), (16, "mem_0"), (30, "mem_0"),
                     (31, "mem_3"), (999, "mem_3")):  # fmt: skip
        assert ids(index.nearest(ANYTHING, T0 + at)) == [name], at
    assert index.nearest(Filter(tenant="other", now_ms=T0), T0) == []


async def test_those_around_an_anchor_are_in_the_order_of_time_and_id(filled: Filled):
    """The anchor itself need not match, nor be there."""
    times = {"mem_1": 1, "mem_2": 2, "mem_3": 5, "mem_4": 5, "mem_5": 5, "mem_6": 5, "mem_7": 8, "mem_8": 9}
    for name, at in times.items():
        await filled.put(name, "tea", occurred_ms=T0 + at, tags=["anchor"] if name == "mem_4" else ["other"])
    index = await filled.settle()

    def around(
        anchor: str, at: int, before: int, after: int, allowed: Filter = ANYTHING
    ) -> tuple[list[str], list[str]]:
        past, future = index.around(allowed, anchor, T0 + at, before, after)
        return ids(past), ids(future)

    assert around("mem_4", 5, 1, 1) == (["mem_3"], ["mem_5"])
    assert around("mem_4", 5, 2, 3) == (["mem_2", "mem_3"], ["mem_5", "mem_6", "mem_7"])
    assert around("mem_3", 5, 1, 0) == (["mem_2"], [])
    assert around("mem_6", 5, 0, 1) == ([], ["mem_7"])
    assert around("mem_4", 5, 9, 9) == (["mem_1", "mem_2", "mem_3"], ["mem_5", "mem_6", "mem_7", "mem_8"])
    assert around("mem_4x", 5, 1, 1) == (["mem_4"], ["mem_5"])
    assert around("mem_9", 0, 3, 1) == ([], ["mem_1"])
    assert around("mem_4", 5, 2, 2, Filter(tenant="default", now_ms=T0, tags=["other"])) == (
        ["mem_2", "mem_3"],
        ["mem_5", "mem_6"],
    )


async def test_of_many_of_one_moment_the_next_by_id_are_around_one(filled: Filled):
    names = [f"mem_{n:02d}" for n in range(40)]
    for name in Random(5).sample(names, len(names)):
        await filled.put(name, "tea")
    index = await filled.settle()
    past, future = index.around(ANYTHING, "mem_20", T0, 2, 3)
    assert (ids(past), ids(future)) == (["mem_18", "mem_19"], ["mem_21", "mem_22", "mem_23"])
    assert ids(index.nearest(ANYTHING, T0 + 5)) == ["mem_00"]
    assert ids(index.recorded_last(ANYTHING, 2)) == ["mem_00", "mem_01"]


async def test_what_is_not_there_is_an_empty_page(filled: Filled):
    index = await filled.settle()
    assert index.window(ANYTHING, 0, 10) == Window([], 0, frozenset(), 0)
    await filled.put("mem_1", "tea")
    index = await filled.settle()
    assert index.window(ANYTHING, 1, 10) == Window([], 0, frozenset(), 1)
    assert index.window(ANYTHING, 0, 0) == Window([], 0, frozenset(), 1)


async def test_a_page_has_all_of_the_moments_at_its_ends_and_no_others(filled: Filled):
    for name, at in (("mem_1", 9), ("mem_2", 5), ("mem_3", 5), ("mem_4", 5), ("mem_5", 3), ("mem_6", 3), ("mem_7", 1)):
        await filled.put(name, "tea", occurred_ms=T0 + at)
    window = (await filled.settle()).window(ANYTHING, 2, 3)
    assert ids([place for _, place in window.located]) == ["mem_4", "mem_3", "mem_2", "mem_6", "mem_5"]
    assert [at_ms - T0 for at_ms, _ in window.located] == [5, 5, 5, 3, 3]
    assert page(window, 3) == ["mem_3", "mem_2", "mem_6"]
    assert (window.total, window.crowded) == (7, frozenset())


async def test_pages_put_together_are_the_whole_list(filled: Filled):
    documents = await spread(filled)
    index = await filled.settle()
    whole = [name for _, name in sorted(documents, reverse=True)]
    for size in (1, 2, 7, 60, 100):
        pages = [index.window(ANYTHING, offset, size) for offset in range(0, 60, size)]
        assert [name for row in pages for name in page(row, size)] == whole
        assert all(row.total == 60 and not row.crowded for row in pages)


@pytest.mark.parametrize("most", [0, 3])
async def test_pages_of_crowded_moments_have_each_document_once_in_the_order_of_time(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, most: int
):
    """A crowded moment is not completed: it is cut where the page is, and its documents may come in any order."""
    for module in (embedded, on_engine):
        monkeypatch.setattr(module, "MAX_OF_ONE_MOMENT", most)
    documents = await spread(filled)
    index = await filled.settle()
    time_of = {name: at_ms for at_ms, name in documents}
    whole = [at_ms for at_ms, _ in sorted(documents, reverse=True)]
    for size in (1, 2, 7, 60, 100):
        pages = [index.window(ANYTHING, offset, size) for offset in range(0, 60, size)]
        names = [name for row in pages for name in page(row, size)]
        assert len({*names}) == len(names) == 60
        assert [time_of[name] for name in names] == whole
        assert all(len(row.located) <= size + 2 * most and row.total == 60 for row in pages)
        for row in pages:
            assert row.crowded == {at_ms for at_ms in ends(row, size) if whole.count(at_ms) > most}


def ends(expected: Window, size: int) -> set[int]:
    """The moments at the ends of a page."""
    times = [at_ms for at_ms, _ in expected.located][expected.skipped : expected.skipped + size]
    return {times[0], times[-1]}


async def spread(filled: Filled) -> list[tuple[int, str]]:
    """Time and id of 60 documents of twelve moments."""
    random = Random(7)
    documents = [(T0 + random.randrange(12), f"mem_{n:02d}") for n in range(60)]
    for at_ms, name in documents:
        await filled.put(name, "tea", occurred_ms=at_ms, partition=int(name[-1]) % PARTITIONS)
    return documents


async def test_what_does_not_match_is_on_no_page(filled: Filled):
    for n, tag in enumerate("abc", 1):
        await filled.put(f"mem_{n}", "tea", tags=[tag])
    window = (await filled.settle()).window(Filter(tenant="default", now_ms=T0, any_tags=["a", "c"]), 0, 1)
    assert (page(window, 1), window.total) == (["mem_3"], 2)


def saying(index: Index, words: str, *, everywhere: bool = True, tenant: str = "default") -> list[str]:
    return ids(index.saying(Filter(tenant=tenant, now_ms=T0), words, everywhere=everywhere))


@pytest.mark.parametrize("everywhere", [True, False])
async def test_those_that_say_all_the_words_or_are_about_that_concept_come_newest_first(
    filled: Filled, everywhere: bool
):
    await filled.put("mem_1", "green tea", occurred_ms=T0 + 1)
    await filled.put("mem_2", "tea, and a green cup", occurred_ms=T0 + 3)
    await filled.put("mem_3", "black tea", occurred_ms=T0 + 2)
    await filled.put("mem_4", "nothing of that", concepts=["green tea"], occurred_ms=T0 + 2)
    await filled.put("mem_5", "green tea", tenant="other")
    index = await filled.settle()
    assert saying(index, "green tea", everywhere=everywhere) == ["mem_2", "mem_4", "mem_1"]
    assert saying(index, "Green TEA green", everywhere=everywhere) == ["mem_2", "mem_1"]
    assert saying(index, "tea", everywhere=everywhere) == ["mem_2", "mem_3", "mem_1"]
    assert saying(index, "coffee", everywhere=everywhere) == []
    assert saying(index, "?!", everywhere=everywhere) == saying(index, "", everywhere=everywhere) == []
    assert saying(index, "tea", everywhere=everywhere, tenant="other") == ["mem_5"]


async def test_odd_words_are_found_where_they_are_said(filled: Filled):
    odd = {
        "mem_1": "東京タワー", "mem_2": "naïve Ærøskøbing", "mem_3": "src/app_main.py:12", "mem_4": "a" * 500,
        "mem_5": "İstanbul STRASSE straße", "mem_6": "C++ {x|y} @z:(a)", "mem_7": "हिन्दी", "mem_8": "🙂 smile",
    }  # fmt: skip
    for name, text in odd.items():
        await filled.put(name, text)
    index = await filled.settle()
    for name, text in odd.items():
        assert saying(index, text) == [name]


WEEK = 7 * 86_400_000
LONG = "docs/" + "x" * 300


async def test_each_value_of_a_facet_is_counted_and_one_that_none_has_is_left_out(filled: Filled):
    await filled.put("mem_1", "tea", agent_id="ada", types=["semantic", "decision"])
    await filled.put("mem_2", "tea", agent_id="ada", types=["semantic"], project=LONG)
    await filled.put("mem_3", "tea", project="", types=[LONG])
    await filled.put("mem_4", "tea", tenant="other", project="theirs", agent_id="eve")
    index = await filled.settle()
    assert index.counts(ANYTHING, "project") == {"atlas": 1, LONG: 1, "": 1}
    assert index.counts(ANYTHING, "agent") == {"ada": 2}
    assert index.counts(ANYTHING, "type") == {"semantic": 2, "decision": 1, LONG: 1}
    assert index.counts(Filter(tenant="default", now_ms=T0, types=["decision"]), "type") == {
        "semantic": 1,
        "decision": 1,
    }
    assert index.counts(Filter(tenant="nobody", now_ms=T0), "project") == {}


async def test_facets_are_told_for_each_document_and_none_for_one_that_is_not_there(filled: Filled):
    await filled.put("mem_1", "tea", tags=["a,b", ""], files=["src/a.py"], audience=["ada"], partition=2)
    index = await filled.settle()
    (place,) = index.every(Filter(tenant="default", now_ms=T0, operator=True))
    answer, nothing = index.facets([place, (3, DocumentId("mem_2"))])
    assert {"partition\x1f2", "tag\x1fa,b", "tag\x1f", "file\x1fsrc/a.py", "reader\x1fada", "restricted\x1fyes"} <= {
        *answer
    }
    assert [*nothing] == []


async def test_ids_with_vectors_are_told_wherever_they_are(filled: Filled):
    for partition in (0, 3):
        await filled.put(f"mem_{partition}", "tea", partition=partition)
        await filled.put(f"mem_{partition}x", "tea", partition=partition)
        await filled.embed(f"mem_{partition}", [1, 0, 0, 0], [0, 1, 0, 0], partition=partition)
    index = await filled.settle()
    assert index.with_vectors(["mem_0", "mem_0x", "mem_3", "mem_3x", "mem_9"]) == {"mem_0", "mem_3"}
    assert index.with_vectors([]) == set()


async def test_linked_values_are_those_of_matching_documents_in_an_order_that_holds(filled: Filled):
    for n in range(6):
        await filled.put(f"mem_{n}", "tea", files=[f"f{n}.py", LONG], tenant="other" if n % 2 else "default")
    index = await filled.settle()
    values = index.linked_values(ANYTHING, "file", 100)
    assert {*values} == {"f0.py", "f2.py", "f4.py", LONG}
    assert len(values) == 4
    for most in (0, 1, 3, 4):
        assert index.linked_values(ANYTHING, "file", most) == values[:most]
    assert index.linked_values(ANYTHING, "concept", 9) == []


async def test_links_count_memories_and_the_episodes_of_observations(filled: Filled):
    await filled.put("mem_1", "tea", concepts=["a", "b"])
    await filled.put("mem_2", "tea", concepts=["a"])
    await filled.put("lsn_1", "tea", concepts=["a", "c"])
    for n, session in enumerate(("s1", "s1", "s2")):
        await filled.put(f"obs_{n}", "tea", concepts=["a", LONG], session_id=session, episode=session)
    await filled.put("obs_9", "tea", concepts=["b"], tenant="other", episode="s9")
    index = await filled.settle()
    values = ["a", "b", "c", LONG, "nothing", ""]
    assert index.links(ANYTHING, "concept", values) == {"a": Links(2, 2), "b": Links(1, 0), LONG: Links(0, 2)}
    assert index.links(ANYTHING, "session", ["s1", "s9"]) == {"s1": Links(0, 1)}
    assert index.links(ANYTHING, "project", ["atlas"]) == {"atlas": Links(2, 2)}
    assert index.links(ANYTHING, "concept", []) == {}


async def test_observations_outside_any_episode_count_as_one(filled: Filled):
    for n in range(3):
        await filled.put(f"obs_{n}", "tea", files=["a.py"], episode="s1" if n == 2 else "")
    index = await filled.settle()
    assert index.links(ANYTHING, "file", ["a.py"]) == {"a.py": Links(0, 2)}


async def test_the_surest_lessons_fade_unless_they_are_said_again(filled: Filled):
    await filled.put("lsn_1", "tea", confidence=0.9, renewed_ms=T0 - 10 * WEEK)
    await filled.put("lsn_2", "tea", confidence=0.7, renewed_ms=T0)
    await filled.put("lsn_3", "tea", confidence=0.7)
    await filled.put("lsn_4", "tea", confidence=0.5, project="borealis")
    await filled.put("mem_1", "tea", confidence=1.0)
    index = await filled.settle()
    surest = index.lessons_by_confidence(ANYTHING, "borealis", T0, 10)
    assert [(lesson.id, lesson.partition, round(lesson.weight, 3)) for lesson in surest] == [
        ("lsn_4", 0, 0.75), ("lsn_2", 0, 0.7), ("lsn_3", 0, 0.7), ("lsn_1", 0, 0.4),
    ]  # fmt: skip
    assert [lesson.id for lesson in index.lessons_by_confidence(ANYTHING, "", T0, 2)] == ["lsn_2", "lsn_3"]
    assert (
        index.lessons_by_confidence(ANYTHING, "", T0, 0)
        == index.lessons_by_confidence(Filter(tenant="x", now_ms=T0), "", T0, 9)
        == []
    )


async def test_notable_memories_are_important_new_of_the_project_and_the_readers_own(filled: Filled):
    documents: dict[str, dict[str, Any]] = {
        "mem_1": {"importance": 10.0, "recorded_ms": T0 - 50 * WEEK},
        "mem_2": {"importance": 5.0, "recorded_ms": T0},
        "mem_3": {"importance": 5.0, "recorded_ms": T0},
        "mem_4": {"importance": 0.0, "recorded_ms": T0, "project": "borealis"},
        "mem_5": {"importance": 0.0, "recorded_ms": T0, "agent_id": "ada"},
    }
    for name, fields in documents.items():
        await filled.put(name, "tea", **fields)
    index = await filled.settle()

    def notable(project: str, count: int = 9, reader: str = "") -> list[str]:
        return [
            name
            for _, name in index.notable_memories(
                Filter(tenant="default", now_ms=T0, reader=reader), project, T0, count
            )
        ]

    assert notable("") == ["mem_2", "mem_3", "mem_1", "mem_4", "mem_5"]
    assert notable("borealis") == ["mem_2", "mem_3", "mem_4", "mem_1", "mem_5"]
    assert notable("", reader="ada") == ["mem_2", "mem_3", "mem_5", "mem_1", "mem_4"]
    assert notable("", 2) == ["mem_2", "mem_3"]
    assert notable("", 0) == []


@pytest.mark.parametrize("text", ["secret tea", "x" * 400])
async def test_nothing_that_was_removed_is_found_or_counted(with_table: Filled, text: str):
    """Nor the values that it alone had."""
    fields: dict[str, Any] = {
        "project": LONG, "agent_id": "eve", "tags": ["t"], "types": ["semantic"], "files": [LONG], "concepts": [text],
    }  # fmt: skip
    await with_table.put("mem_1", f"{text} dogs", **fields)
    await with_table.put("obs_1", f"{text} dogs", **fields, session_id="s1", episode="s1")
    await with_table.put("lsn_1", f"{text} dogs", **fields)
    await with_table.embed("mem_1", [1, 0, 0, 0])
    assert (await with_table.settle()).count(ANYTHING) == 3
    await with_table.remove("mem_1", "obs_1", "lsn_1")
    index = await with_table.settle()
    everybody = Filter(tenant="default", now_ms=T0, operator=True)
    assert len(index) == index.count(everybody) == index.window(everybody, 0, 9).total == 0
    assert index.every(everybody) == index.recorded_last(everybody, 9) == index.most_recent(everybody, 9) == []
    assert index.nearest(everybody, T0) == index.saying(everybody, text, everywhere=True) == []
    assert index.around(everybody, "mem_1", T0, 9, 9) == ([], [])
    for name in ("project", "agent", "type"):
        assert index.counts(everybody, name) == {}
    had: dict[Linked, str] = {"project": LONG, "session": "s1", "file": LONG, "concept": text}
    for name, value in had.items():
        assert index.linked_values(everybody, name, 9) == []
        assert index.links(everybody, name, [value]) == {}
    assert index.lessons_by_confidence(everybody, LONG, T0, 9) == index.notable_memories(everybody, LONG, T0, 9) == []
    assert index.with_vectors(["mem_1"]) == set()
    assert [*index.facets([(0, DocumentId("mem_1"))])[0]] == []


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

    def __init__(self, model: Model, allowed: Filter) -> None:
        self.entries = [model.entries[name] for name in sorted(model.matching(allowed))]
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
        allowed = feed.filter()
        for name in ("project", "session", "file", "concept"):
            matching = model.matching(allowed)
            linked = {value for row in matching for value in values_of(model.entries[row], name)} - {""}
            assert {*index.linked_values(allowed, name, 100)} - {""} == linked
        query = Asked(model, allowed)
        names = [entry.id for entry in query.entries]
        assert_lists(index, allowed, query, model, random)
        assert {*index.every(allowed)} == {*placed(names)}
        assert index.count(allowed) == len(names)
        only, project = (
            Filter(tenant=allowed.tenant, now_ms=60, embedded=random.random() < 0.5),
            random.choice(("", "atlas")),
        )
        having = [row for row in model.matching(only) if (row in model.rows) == only.embedded]
        assert index.count(only) == len(having) == len(index.every(only))
        for name in ("project", "agent", "type"):
            values = Counter(value for entry in query.entries for value in values_of(entry, name))
            assert index.counts(allowed, name) == {
                value: count for value, count in values.items() if value or name == "project"
            }
        for name in ("project", "session", "file", "concept"):
            values = ["a", "b", "atlas", "blue whale", "s1", "s2", "c" * 300, "nothing"]
            links = {value: query.links(name, value) for value in values}
            assert index.links(allowed, name, values) == {k: v for k, v in links.items() if v != (0, 0)}
        surest = index.lessons_by_confidence(allowed, project, allowed.now_ms, 9)
        lessons, memories = (Asked(model, replace(allowed, kinds=[kind])) for kind in ("lesson", "memory"))
        assert [(-row.weight, row.id) for row in surest] == lessons.surest(project, allowed.now_ms)[:9]
        notable = [name for _, name in index.notable_memories(allowed, project, allowed.now_ms, 9)]
        assert notable == memories.notable(project, allowed.reader, allowed.now_ms)[:9]


def assert_lists(index: Index, allowed: Filter, options: Asked, model: Model, random: Random) -> None:
    """The lists by time."""
    by_time, count, offset, at = options.by_time(), random.randrange(12), random.randrange(6), random.randrange(60)
    newest = sorted(options.entries, key=lambda entry: (-entry.recorded_ms, entry.id))
    assert index.recorded_last(allowed, count) == placed(document.id for document in newest[:count])
    assert same_times(index.most_recent(allowed, count, offset), by_time[offset : offset + count], model)
    window = index.window(allowed, offset, count)
    page = [place for _, place in window.located][window.skipped : window.skipped + count]
    assert page == placed(document.id for document in by_time[offset : offset + count])
    assert window.total == len(by_time)
    closest = sorted((abs(document.occurred_ms - at), document.id) for document in by_time)
    assert index.nearest(allowed, at) == placed(name for _, name in closest[:1])
    anchor = random.choice([*model.entries])
    past = [document.id for document in reversed(by_time) if (document.occurred_ms, document.id) < (at, anchor)]
    future = [document.id for document in reversed(by_time) if (document.occurred_ms, document.id) > (at, anchor)]
    results = index.around(allowed, anchor, at, count, offset)
    assert results == (placed(past[len(past) - min(count, len(past)) :]), placed(future[:offset]))
    words = random.choice((["a"], random.sample(WORDS, 2), random.sample(WORDS, 1)))
    saying = options.saying(words)
    for everywhere in (True, False):
        fields = index.saying(allowed, " ".join(words), everywhere=everywhere)
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
