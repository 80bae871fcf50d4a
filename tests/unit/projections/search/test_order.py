from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projections.search.candidates import best_first
from projections.search.columns import Column
from projections.search.replica import IndexReplica


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.text("ab_é", max_size=12), st.sampled_from([0.0, 0.25, 0.5])), max_size=40),
    st.integers(0, 50),
)
def test_the_best_of_any_scores_are_what_sorting_all_would_give(scored: list[tuple[str, float]], count: int):
    """Ids that agree in the eight bytes that are packed are told apart too."""
    index = IndexReplica.__new__(IndexReplica)
    index.ids = [name for name, _ in scored]
    keys = [int.from_bytes(name.encode()[:8].ljust(8, b"\0")) for name in index.ids]
    index.id_key = Column.of(np.asarray(keys, np.uint64))
    places = np.arange(len(scored))
    scores = np.asarray([score for _, score in scored], np.float64)
    found = best_first(index, places, scores, count)
    wanted = sorted((-score, name) for name, score in scored)[:count]
    assert [(-scores[place], index.ids[place]) for place in found] == wanted


def test_the_packed_id_of_a_document_goes_with_it(index: IndexReplica, put: Callable[..., str]):
    put("mem_1", "tea")
    assert int(index.id_key[0]) == int.from_bytes(b"mem_1\0\0\0")
