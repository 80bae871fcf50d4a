"""How sure the lessons of an index are now, for all of them at once. `lesson_rules` says the same of one."""

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projections.documents.lesson_rules import DECAY_FLOOR, WEEK
from projections.search.filters import facet, ordinals
from projections.search.matching import Filter, matches
from projections.search.order import best_first
from projections.search.replica import IndexReplica

WEEKLY_DECAY = 0.05
"""What a lesson loses a week without being said again, as in agentmemory."""
SAME_PROJECT = 1.5
"""How much more a lesson of the asked project weighs than another."""
_WEEK_MS = WEEK.total_seconds() * 1000


class SureLesson(NamedTuple):
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


def best_lessons(index: IndexReplica, allowed: Filter, project: str, now_ms: int, count: int) -> list[SureLesson]:
    """The surest lessons that a filter allows, at most `count`; equals by id. Runs in the index thread."""
    lessons = ordinals(matches(index, replace(allowed, kinds=["lesson"]), now_ms))
    weight = decayed_confidence(index.confidence.values[lessons], index.renewed_ms.values[lessons], now_ms)
    own = np.isin(lessons, ordinals(index.facets.of(facet("project", project))), assume_unique=True)
    weight = np.where(own, SAME_PROJECT * weight, weight)
    return [
        SureLesson(index.ids[ordinal], int(index.partition[ordinal]), float(weight[place]))
        for place, ordinal in ((place, int(lessons[place])) for place in best_first(index, lessons, weight, count))
    ]
