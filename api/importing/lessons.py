"""What a lesson must have been when it was first said, to be what another system says it is now. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from projections.documents.lessons import DECAY_RATE, decayed, strengthened, weeks_since

MAX_REINFORCEMENTS = 200
"""How often at most a lesson is said to have been confirmed."""
_STEPS = 40
_CLOSE = 0.005


class History(NamedTuple):
    """The confidence that a lesson began with, when it was confirmed, and what is left of it in the end."""

    began_with: float
    confirmed: Sequence[datetime]
    left: float

    def leads_to(self, confidence: float) -> bool:
        """Whether what is left is the confidence, but for rounding."""
        return abs(self.left - confidence) <= _CLOSE


def history(
    confidence: float, reinforcements: int, created: datetime, reinforced: datetime, until: datetime
) -> History:
    """The likeliest history of a lesson of that confidence at `until`, last confirmed at `reinforced`.

    It was confirmed in even steps of time from `created` on. When no beginning leads to the confidence, the nearest
    is taken.
    """
    count = min(reinforcements, MAX_REINFORCEMENTS)
    confirmed = [created + (reinforced - created) * (number + 1) / count for number in range(count)]
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _left(middle, created, confirmed, until) < confidence:
            low = middle
        else:
            high = middle
    began_with = round(high, 6)
    return History(began_with, confirmed, _left(began_with, created, confirmed, until))


def _left(began_with: float, created: datetime, confirmed: Sequence[datetime], until: datetime) -> float:
    """What the fold makes of a history; it grows with the beginning."""
    confidence, last = began_with, created
    for at in confirmed:
        confidence, last = strengthened(decayed(confidence, DECAY_RATE, weeks_since(last, at))), at
    return decayed(confidence, DECAY_RATE, weeks_since(last, until))
