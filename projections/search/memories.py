"""Which memories of an index matter most when nothing is asked: the important, the recent, one's own."""

import numpy as np
from msgspec.structs import replace

from projections.search.filters import facet, ordinals
from projections.search.lessons import SAME_PROJECT
from projections.search.matching import Filter, matches
from projections.search.order import best_first
from projections.search.replica import IndexReplica

MOST_IMPORTANT = 10.0
HALF_LIFE_MS = 30 * 86_400_000
"""After which half of what a memory's newness weighs is gone; all of it weighs as much as the highest importance."""
SAME_AGENT = 1.2
"""How much more a memory that the reader wrote weighs than another's."""


def notable_memories(
    index: IndexReplica, allowed: Filter, project: str, now_ms: int, count: int
) -> list[tuple[int, str]]:
    """Partition and id of the memories that weigh most, at most `count`; equals by id. Runs in the index thread.

    Those of `project`, and what the reader wrote, weigh more than others.
    """
    found = ordinals(matches(index, replace(allowed, kinds=["memory"]), now_ms))
    age_ms = np.maximum(0, now_ms - index.recorded_ms.values[found]).astype(np.float64)
    weight = index.importance.values[found].astype(np.float64) / MOST_IMPORTANT + 0.5 ** (age_ms / HALF_LIFE_MS)
    for name, value, factor in (("project", project, SAME_PROJECT), ("agent", allowed.reader, SAME_AGENT)):
        if value:
            own = np.isin(found, ordinals(index.facets.of(facet(name, value))), assume_unique=True)
            weight = np.where(own, factor * weight, weight)
    best = [int(found[place]) for place in best_first(index, found, weight, count)]
    return [(int(index.partition[ordinal]), index.ids[ordinal]) for ordinal in best]
