"""What matters most without a query: the surest lessons and the most notable memories of an index."""

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projections.documents.lessons import DECAY_FLOOR, WEEK
from projections.documents.memories import MOST_IMPORTANT
from projections.search.filters import facet, ordinals
from projections.search.matching import Filter, best_first, matches
from projections.search.replica import IndexReplica

WEEKLY_DECAY = 0.05
"""What a lesson loses a week without being said again, as in agentmemory."""
SAME_PROJECT = 1.5
"""How much more a lesson of the asked project weighs than another."""
_WEEK_MS = WEEK.total_seconds() * 1000


class RankedLesson(NamedTuple):
    """A lesson by how sure it is: `weight` is its confidence now, times `SAME_PROJECT` in the asked project."""

    id: str
    partition: int
    weight: float


def decayed_confidence(
    confidence: NDArray[np.float64], renewed_ms: NDArray[np.int64], now_ms: int
) -> NDArray[np.float64]:
    """`lesson_rules.decayed` of each, `WEEKLY_DECAY` a week since it was last said; 0 ms is never: nothing decays."""
    weeks = np.where(renewed_ms == 0, 0.0, np.maximum(0, now_ms - renewed_ms) / _WEEK_MS)
    faded = np.maximum(DECAY_FLOOR, confidence - WEEKLY_DECAY * weeks)
    rounded = np.round(faded, 3)
    # Python rounds the exact binary value, NumPy a product that may have become a tie: those few again, one by one
    for place in np.flatnonzero(np.abs(np.abs(faded - rounded) - 0.0005) < 1e-9).tolist():
        rounded[place] = round(float(faded[place]), 3)
    return np.where(weeks < 1, confidence, rounded)


def best_lessons(index: IndexReplica, allowed: Filter, project: str, now_ms: int, count: int) -> list[RankedLesson]:
    """The surest lessons that a filter allows, at most `count`; equals by id. Runs in the index thread."""
    lessons = ordinals(matches(index, replace(allowed, kinds=["lesson"]), now_ms))
    weight = decayed_confidence(index.confidence.values[lessons], index.renewed_ms.values[lessons], now_ms)
    own = np.isin(lessons, ordinals(index.facets.of(facet("project", project))), assume_unique=True)
    weight = np.where(own, SAME_PROJECT * weight, weight)
    return [
        RankedLesson(index.ids[ordinal], int(index.partition[ordinal]), float(weight[place]))
        for place, ordinal in ((place, int(lessons[place])) for place in best_first(index, lessons, weight, count))
    ]


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
