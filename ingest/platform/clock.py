"""The only module that reads the clock and the time zone. All other code gets the time as an argument."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

Clock = Callable[[], datetime]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> datetime:
    """Now, timezone-aware, UTC."""
    return datetime.now(UTC)


def to_ms(when: datetime) -> int:
    """Milliseconds since the epoch, rounded down; a naive time is read as UTC."""
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    delta = when - EPOCH
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000


def from_ms(ms: int) -> datetime:
    """The UTC time `ms` milliseconds after the epoch."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def in_utc(when: datetime) -> datetime:
    """The time in UTC; a naive time is read as UTC."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def utc_text(when: datetime, timespec: str = "auto") -> str:
    """An aware time as ISO 8601 in UTC, with a Z; `timespec` as of `datetime.isoformat`."""
    return when.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def time_zone(name: str) -> tzinfo:
    """The zone of an IANA name, UTC for an empty one. Raises ValueError for an unknown name."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, OSError, ValueError) as error:  # not found, a folder, a file of something else
        raise ValueError(f"{name!r} is not a time zone such as Europe/Berlin") from error


def machine_zone() -> str:
    """The IANA name of this machine's zone; empty if it has none."""
    link = os.path.realpath("/etc/localtime")
    name = os.environ.get("TZ", "").removeprefix(":") or link.rpartition("zoneinfo/")[2] * ("zoneinfo/" in link)
    try:
        time_zone(name)
    except ValueError:
        return ""
    return name
