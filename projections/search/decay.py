"""What time does to what documents weigh: lessons fade, and memories are no longer new."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projections.nouns.lesson import DECAY_FLOOR, DECAY_RATE, WEEK
from projections.nouns.memory import MOST_IMPORTANT

SAME_PROJECT = 1.5
"""How much more a lesson of the asked project weighs than another."""
_WEEK_MS = WEEK.total_seconds() * 1000


def decayed_confidence(
    confidence: NDArray[np.float64], renewed_ms: NDArray[np.int64], now_ms: int
) -> NDArray[np.float64]:
    """`decayed` of each, `DECAY_RATE` a week since it was last said; 0 ms is never: nothing decays."""
    if not renewed_ms.any():  # the usual case, of observations
        return confidence
    weeks = np.where(renewed_ms == 0, 0.0, np.maximum(0, now_ms - renewed_ms) / _WEEK_MS)
    faded = np.maximum(DECAY_FLOOR, confidence - DECAY_RATE * weeks)
    rounded = np.round(faded, 3)
    # Python rounds the exact binary value, NumPy a product that may have become a tie: those few again, one by one
    for place in np.flatnonzero(np.abs(np.abs(faded - rounded) - 0.0005) < 1e-9).tolist():
        rounded[place] = round(float(faded[place]), 3)
    return np.where(weeks < 1, confidence, rounded)


def faded_judgment(confidence: NDArray[np.float64], renewed_ms: NDArray[np.int64], now_ms: int) -> NDArray[np.float64]:
    """Verdicts on memories, 1 for none, half as strong VERDICT_HALF_LIFE_MS after the newest."""
    age_ms = np.maximum(0, now_ms - renewed_ms).astype(np.float64)
    return 1 + (confidence - 1) * 0.5 ** (age_ms / VERDICT_HALF_LIFE_MS)


VERDICT_HALF_LIFE_MS = 90 * 86_400_000


def lesson_weights(
    confidence: NDArray[np.float64], renewed_ms: NDArray[np.int64], own: NDArray[np.bool_], now_ms: int
) -> NDArray[np.float64]:
    """(n,), how sure lessons are now; those of the asked project (`own`) weigh `SAME_PROJECT` times as much."""
    weight = decayed_confidence(confidence, renewed_ms, now_ms)
    return np.where(own, SAME_PROJECT * weight, weight)


HALF_LIFE_MS = 30 * 86_400_000
"""After which half of what a memory's newness weighs is gone; all of it weighs as much as the highest importance."""
SAME_AGENT = 1.2
"""How much more a memory that the reader wrote weighs than another's."""


def memory_weights(
    importance: NDArray[np.floating[Any]],
    recorded_ms: NDArray[np.int64],
    own_project: NDArray[np.bool_],
    own: NDArray[np.bool_],
    now_ms: int,
) -> NDArray[np.float64]:
    """(n,), how notable memories are; those of the asked project, and the reader's own, more than others."""
    age_ms = np.maximum(0, now_ms - recorded_ms).astype(np.float64)
    weight = importance.astype(np.float64) / MOST_IMPORTANT + 0.5 ** (age_ms / HALF_LIFE_MS)
    weight = np.where(own_project, SAME_PROJECT * weight, weight)
    return np.where(own, SAME_AGENT * weight, weight)
