"""The one place that asks what time it is. Everything else is handed the answer."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """Now, timezone-aware, UTC."""
    return datetime.now(UTC)


def to_ms(when: datetime) -> int:
    """Milliseconds since the epoch, rounded down; a naive time is read as UTC."""
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    delta = when - _EPOCH
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000


def from_ms(ms: int) -> datetime:
    """The UTC time `ms` milliseconds after the epoch."""
    return datetime.fromtimestamp(ms / 1000, UTC)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
