"""Circuit breaker: after some failures in a short time nobody asks for a while, then one caller tries. Pure."""

from datetime import datetime, timedelta
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

FAILURES = 3
WINDOW = timedelta(seconds=60)
"""Failures further apart than this are bad luck, not an outage."""
PAUSE = timedelta(seconds=30)
"""How long an outage is left alone; also how long a trial that never reported back keeps others from trying."""


class State(Enum):
    """CLOSED: everybody may ask. OPEN: nobody. HALF_OPEN: one caller asks, on trial for all."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker(Struct, frozen=True):
    """What is known of a server's health. `opened_at`: when it was opened, or the trial began; None while closed."""

    failures: tuple[datetime, ...] = ()
    opened_at: datetime | None = None
    state: State = State.CLOSED


CLOSED = Breaker()


def enter(breaker: Breaker, now: datetime) -> Breaker | None:
    """The breaker with one more caller asking, who must report by `succeeded` or `failed`; None: do not ask."""
    if breaker.opened_at is None:
        return breaker
    if now - breaker.opened_at < PAUSE:
        return None
    return replace(breaker, state=State.HALF_OPEN, opened_at=now)


def succeeded(breaker: Breaker) -> Breaker:
    """The breaker after an answer: a trial closes it; one asked before it opened does not."""
    return CLOSED if breaker.state is State.HALF_OPEN else breaker


def failed(breaker: Breaker, now: datetime) -> Breaker:
    """The breaker after no answer: opened again by a trial, opened by the last of FAILURES within WINDOW."""
    match breaker.state:
        case State.OPEN:
            return breaker
        case State.HALF_OPEN:
            return Breaker(opened_at=now, state=State.OPEN)
        case State.CLOSED:
            recent = (*(at for at in breaker.failures if now - at < WINDOW), now)
            if len(recent) >= FAILURES:
                return Breaker(opened_at=now, state=State.OPEN)
            return Breaker(failures=recent)
