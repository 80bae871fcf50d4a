"""The order of the embedding queue, a sorted set of document ids: lowest first.

What recall has shown, then what was kept on purpose, then what was reported; of each the newest first. Under load the
oldest observations wait, which nobody has asked for: every document is found by its static vector meanwhile.
"""

from enum import IntEnum

STEP = 1e13
_FAR_MS = 9e12
"""The year 2255: what is counted down from, so that the newest is the lowest."""


class Urgency(IntEnum):
    """Whose turn it is."""

    RECALLED = 0
    KEPT = 1
    REPORTED = 2


def place(urgency: Urgency, at_ms: float) -> float:
    """The score of a document that was recorded, or shown, at that time (ms since the epoch)."""
    return urgency * STEP + _FAR_MS - at_ms


def changed_place(urgency: Urgency, at_ms: float) -> float:
    """The score of a document that was recorded before, and is queued again: no event's, since those are whole."""
    return place(urgency, at_ms) + 0.5


def waiting_since_ms(score: float) -> float:
    """When what has this score was recorded, or shown."""
    return _FAR_MS - score % STEP
