"""Lists of documents by time: the last, the nearest, those around one, and pages of all."""

from collections.abc import Sequence
from random import Random

import pytest
from indexes import PARTITIONS, T0, Filled

from projections.search import embedded
from projections.search.index import DocumentLocation, Index, Window
from projections.search.question import Filter
from projections.search_engine import index as on_engine

ANYTHING = Filter(tenant="default")


def ids(places: Sequence[DocumentLocation]) -> list[str]:
    return [name for _, name in places]


def page(seen: Window, limit: int) -> list[str]:
    """The ids of the page itself."""
    return ids([place for _, place in seen.found])[seen.skipped : seen.skipped + limit]


async def test_an_empty_index_has_empty_lists(filled: Filled):
    index = await filled.settle()
    assert len(index) == 0
    assert index.every(ANYTHING, T0) == index.recorded_last(ANYTHING, T0, 9) == index.most_recent(ANYTHING, T0, 9) == []
    assert index.nearest(ANYTHING, T0, T0) == index.saying(ANYTHING, T0, "tea", everywhere=True) == []
    assert index.around(ANYTHING, T0, "mem_1", T0, 2, 2) == ([], [])
    assert index.facets([]) == []
    assert index.with_vectors([]) == index.with_vectors(["mem_1"]) == set()


async def test_a_document_is_where_its_partition_is(filled: Filled):
    for partition in range(PARTITIONS):
        await filled.put(f"mem_{partition}", "tea", partition=partition)
    index = await filled.settle()
    assert len(index) == PARTITIONS
    assert sorted(index.every(ANYTHING, T0)) == [(partition, f"mem_{partition}") for partition in range(PARTITIONS)]


async def test_all_or_some_of_all_are_listed(filled: Filled):
    for n in range(20):
        await filled.put(f"mem_{n:02d}", "tea", tags=["even"] if n % 2 == 0 else [])
    index = await filled.settle()
    even = Filter(tenant="default", tags=["even"])
    assert sorted(ids(index.every(even, T0))) == [f"mem_{n:02d}" for n in range(0, 20, 2)]
    for most in (0, 1, 9, 10, 11):
        some = ids(index.every(even, T0, most))
        assert len({*some}) == len(some) == min(most, 10)


async def test_more_than_one_answer_of_the_engine_holds_are_listed(filled: Filled, monkeypatch: pytest.MonkeyPatch):
    """And a list that is not read to its end leaves nothing open there: it may be asked for again and again."""
    monkeypatch.setattr(on_engine, "AT_ONCE", 3)
    for n in range(10):
        await filled.put(f"mem_{n}", "tea")
    index = await filled.settle()
    assert sorted(ids(index.every(ANYTHING, T0))) == [f"mem_{n}" for n in range(10)]
    assert {len(index.every(ANYTHING, T0, 4)) for _ in range(200)} == {4}


async def test_those_recorded_last_come_newest_first_and_of_equals_the_smallest_id(filled: Filled):
    for name, at in (("mem_5", 1), ("mem_2", 3), ("mem_4", 3), ("mem_1", 2), ("mem_3", 3)):
        await filled.put(name, "tea", recorded_ms=T0 + at, occurred_ms=T0 - at)
    index = await filled.settle()
    newest = ["mem_2", "mem_3", "mem_4", "mem_1", "mem_5"]
    for count in range(7):
        assert ids(index.recorded_last(ANYTHING, T0, count)) == newest[:count]


async def test_those_that_happened_last_come_newest_first(filled: Filled):
    for n in (3, 1, 4, 0, 2):
        await filled.put(f"mem_{n}", "tea", occurred_ms=T0 + n, recorded_ms=T0 - n)
    index = await filled.settle()
    newest = [f"mem_{n}" for n in (4, 3, 2, 1, 0)]
    for count in range(7):
        for offset in range(7):
            assert ids(index.most_recent(ANYTHING, T0, count, offset)) == newest[offset : offset + count]


async def test_pages_of_what_happened_last_have_each_document_once_also_of_one_moment(filled: Filled):
    for n in range(30):
        await filled.put(f"mem_{n:02d}", "tea", occurred_ms=T0 + n // 10)
    index = await filled.settle()
    for size in (1, 4, 30):
        seen = [one for at in range(0, 30, size) for one in ids(index.most_recent(ANYTHING, T0, size, at))]
        assert sorted(seen) == [f"mem_{n:02d}" for n in range(30)]
        assert [int(name[4]) for name in seen] == sorted((int(name[4]) for name in seen), reverse=True)


async def test_the_nearest_is_before_or_after_a_moment_and_of_equals_the_smallest_id(filled: Filled):
    for name, at in (("mem_2", 10), ("mem_1", 10), ("mem_0", 20), ("mem_3", 40)):
        await filled.put(name, "tea", occurred_ms=T0 + at)
    index = await filled.settle()
    for at, name in ((-999, "mem_1"), (10, "mem_1"), (14, "mem_1"), (15, "mem_0"), (16, "mem_0"), (30, "mem_0"),
                     (31, "mem_3"), (999, "mem_3")):  # fmt: skip
        assert ids(index.nearest(ANYTHING, T0, T0 + at)) == [name], at
    assert index.nearest(Filter(tenant="other"), T0, T0) == []


async def test_those_around_an_anchor_are_in_the_order_of_time_and_id(filled: Filled):
    """The anchor itself need not match, nor be there."""
    times = {"mem_1": 1, "mem_2": 2, "mem_3": 5, "mem_4": 5, "mem_5": 5, "mem_6": 5, "mem_7": 8, "mem_8": 9}
    for name, at in times.items():
        await filled.put(name, "tea", occurred_ms=T0 + at, tags=["anchor"] if name == "mem_4" else ["other"])
    index = await filled.settle()

    def around(
        anchor: str, at: int, before: int, after: int, allowed: Filter = ANYTHING
    ) -> tuple[list[str], list[str]]:
        past, future = index.around(allowed, T0, anchor, T0 + at, before, after)
        return ids(past), ids(future)

    assert around("mem_4", 5, 1, 1) == (["mem_3"], ["mem_5"])
    assert around("mem_4", 5, 2, 3) == (["mem_2", "mem_3"], ["mem_5", "mem_6", "mem_7"])
    assert around("mem_3", 5, 1, 0) == (["mem_2"], [])
    assert around("mem_6", 5, 0, 1) == ([], ["mem_7"])
    assert around("mem_4", 5, 9, 9) == (["mem_1", "mem_2", "mem_3"], ["mem_5", "mem_6", "mem_7", "mem_8"])
    assert around("mem_4x", 5, 1, 1) == (["mem_4"], ["mem_5"])
    assert around("mem_9", 0, 3, 1) == ([], ["mem_1"])
    assert around("mem_4", 5, 2, 2, Filter(tenant="default", tags=["other"])) == (
        ["mem_2", "mem_3"],
        ["mem_5", "mem_6"],
    )


async def test_of_many_of_one_moment_the_next_by_id_are_around_one(filled: Filled):
    names = [f"mem_{n:02d}" for n in range(40)]
    for name in Random(5).sample(names, len(names)):
        await filled.put(name, "tea")
    index = await filled.settle()
    past, future = index.around(ANYTHING, T0, "mem_20", T0, 2, 3)
    assert (ids(past), ids(future)) == (["mem_18", "mem_19"], ["mem_21", "mem_22", "mem_23"])
    assert ids(index.nearest(ANYTHING, T0, T0 + 5)) == ["mem_00"]
    assert ids(index.recorded_last(ANYTHING, T0, 2)) == ["mem_00", "mem_01"]


async def test_what_is_not_there_is_an_empty_page(filled: Filled):
    index = await filled.settle()
    assert index.window(ANYTHING, T0, 0, 10) == Window([], 0, frozenset(), 0)
    await filled.put("mem_1", "tea")
    index = await filled.settle()
    assert index.window(ANYTHING, T0, 1, 10) == Window([], 0, frozenset(), 1)
    assert index.window(ANYTHING, T0, 0, 0) == Window([], 0, frozenset(), 1)


async def test_a_page_has_all_of_the_moments_at_its_ends_and_no_others(filled: Filled):
    for name, at in (("mem_1", 9), ("mem_2", 5), ("mem_3", 5), ("mem_4", 5), ("mem_5", 3), ("mem_6", 3), ("mem_7", 1)):
        await filled.put(name, "tea", occurred_ms=T0 + at)
    seen = (await filled.settle()).window(ANYTHING, T0, 2, 3)
    assert ids([place for _, place in seen.found]) == ["mem_4", "mem_3", "mem_2", "mem_6", "mem_5"]
    assert [at_ms - T0 for at_ms, _ in seen.found] == [5, 5, 5, 3, 3]
    assert page(seen, 3) == ["mem_3", "mem_2", "mem_6"]
    assert (seen.total, seen.crowded) == (7, frozenset())


async def test_pages_put_together_are_the_whole_list(filled: Filled):
    documents = await spread(filled)
    index = await filled.settle()
    whole = [name for _, name in sorted(documents, reverse=True)]
    for size in (1, 2, 7, 60, 100):
        seen = [index.window(ANYTHING, T0, offset, size) for offset in range(0, 60, size)]
        assert [name for one in seen for name in page(one, size)] == whole
        assert all(one.total == 60 and not one.crowded for one in seen)


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
        seen = [index.window(ANYTHING, T0, offset, size) for offset in range(0, 60, size)]
        names = [name for one in seen for name in page(one, size)]
        assert len({*names}) == len(names) == 60
        assert [time_of[name] for name in names] == whole
        assert all(len(one.found) <= size + 2 * most and one.total == 60 for one in seen)
        for one in seen:
            assert one.crowded == {at_ms for at_ms in ends(one, size) if whole.count(at_ms) > most}


def ends(seen: Window, size: int) -> set[int]:
    """The moments at the ends of a page."""
    times = [at_ms for at_ms, _ in seen.found][seen.skipped : seen.skipped + size]
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
    seen = (await filled.settle()).window(Filter(tenant="default", any_tags=["a", "c"]), T0, 0, 1)
    assert (page(seen, 1), seen.total) == (["mem_3"], 2)


def saying(index: Index, words: str, *, everywhere: bool = True, tenant: str = "default") -> list[str]:
    return ids(index.saying(Filter(tenant=tenant), T0, words, everywhere=everywhere))


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
