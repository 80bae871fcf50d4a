from collections.abc import Callable, Sequence
from random import Random

import pytest

from projections.search import embedded
from projections.search.embedded import EmbeddedIndex
from projections.search.index import Window
from projections.search.question import Filter
from projections.search.replica import IndexReplica

Put = Callable[..., str]
T0 = 1_769_860_800_000
ANYTHING = Filter(tenant="default")


def page(seen: Window, limit: int) -> Sequence[str]:
    """The ids of the page itself."""
    return [name for _, (_, name) in seen.found][seen.skipped : seen.skipped + limit]


def test_nothing_is_an_empty_page(index: IndexReplica, put: Put):
    assert EmbeddedIndex(index).window(ANYTHING, T0, 0, 10) == Window([], 0, frozenset(), 0)
    put("mem_1", "tea")
    assert EmbeddedIndex(index).window(ANYTHING, T0, 1, 10) == Window([], 0, frozenset(), 1)


def test_a_page_has_all_of_the_moments_at_its_ends_and_no_others(index: IndexReplica, put: Put):
    for name, at in (("mem_1", 9), ("mem_2", 5), ("mem_3", 5), ("mem_4", 5), ("mem_5", 3), ("mem_6", 3), ("mem_7", 1)):
        put(name, "tea", occurred_ms=T0 + at)
    seen = EmbeddedIndex(index).window(ANYTHING, T0, 2, 3)
    assert [name for _, (_, name) in seen.found] == ["mem_4", "mem_3", "mem_2", "mem_6", "mem_5"]
    assert page(seen, 3) == ["mem_3", "mem_2", "mem_6"]
    assert seen.total == 7


@pytest.mark.parametrize("most", [0, 3, 1_000])
def test_pages_put_together_are_the_whole_list(
    index: IndexReplica, put: Put, monkeypatch: pytest.MonkeyPatch, most: int
):
    """However many there are of one moment: a crowded one is not completed, and is cut where the page is."""
    monkeypatch.setattr(embedded, "MAX_OF_ONE_MOMENT", most)
    random = Random(7)
    documents = [(T0 + random.randrange(12), f"mem_{n:02d}") for n in range(60)]
    for at_ms, name in documents:
        put(name, "tea", occurred_ms=at_ms)
    whole = [name for _, name in sorted(documents, reverse=True)]
    for size in (1, 2, 7, 60, 100):
        seen = [EmbeddedIndex(index).window(ANYTHING, T0, offset, size) for offset in range(0, 60, size)]
        assert [name for one in seen for name in page(one, size)] == whole
        assert all(len(one.found) <= size + 2 * most and one.total == 60 for one in seen)


def test_what_does_not_match_is_not_counted(index: IndexReplica, put: Put):
    put("mem_1", "tea", tags=["a"])
    put("mem_2", "tea", tags=["b"])
    put("mem_3", "tea", tags=["c"])
    seen = EmbeddedIndex(index).window(Filter(tenant="default", any_tags=["a", "c"]), T0, 0, 1)
    assert (page(seen, 1), seen.total) == (["mem_3"], 2)
