"""Every error a caller can act on, one class per decision. They carry values; the doors turn them into words."""

from collections.abc import Sequence
from typing import ClassVar


class MnemologError(Exception):
    """Base of everything this project raises on purpose; `code` is stable and appears on the wire."""

    code: ClassVar[str] = "internal"


class CommandRejected(MnemologError):
    """The request is well formed but may not become an event. `field` is the path of the offending value."""

    code = "invalid"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class MalformedRequest(MnemologError):
    """The bytes are not what the content type says (not JSON, not msgpack, not UTF-8)."""

    code = "malformed"


class RequestTooLarge(MnemologError):
    """A body, a batch or one encoded event is over its limit."""

    code = "too_large"

    def __init__(self, what: str, size: int, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"{what} is {size:,} {unit}; the limit is {limit:,} {unit}")
        self.size, self.limit = size, limit


class Overloaded(MnemologError):
    """A bounded queue is full; nothing was stored. Retry the same event ids after `retry_after_s`."""

    code = "overloaded"

    def __init__(self, reason: str, retry_after_s: int = 1) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class LogUnavailable(MnemologError):
    """The log did not acknowledge. The outcome is unknown: retrying the same event ids is safe."""

    code = "log_unavailable"


class LogRefused(LogUnavailable):
    """The log's server answers but refuses to write (full disk or memory, too few replicas): trying on is no use."""


class NotFound(MnemologError):
    """No such document, session, dead letter or route for this tenant."""

    code = "not_found"


class ProjectionBehind(MnemologError):
    """A read asked for a position that is not projected yet. `lag` counts log entries not applied, by partition."""

    code = "projection_behind"

    def __init__(self, waited_s: float, lag: dict[int, int]) -> None:
        super().__init__(f"waited {waited_s:.2f} s; {sum(lag.values())} events are not projected yet")
        self.lag = lag


class PartitionCountMismatch(MnemologError):
    """The log was created with another number of partitions; events would be routed to the wrong place."""

    code = "partition_count_mismatch"

    def __init__(self, recorded: int, configured: int) -> None:
        super().__init__(
            f"this log has {recorded} partitions and the settings say {configured}; "
            f"set MNEMOLOG_PARTITIONS={recorded} (the number is fixed when a log is created)"
        )
        self.recorded, self.configured = recorded, configured


class UnreadableEvent(MnemologError):
    """Stored bytes that this version of the code cannot turn into an event. Parked as a dead letter, never dropped."""

    code = "unreadable_event"


class UnknownEventType(UnreadableEvent):
    """The event type is not in the registry."""

    code = "unknown_event_type"

    def __init__(self, event_type: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown event type {event_type!r}; this version knows {', '.join(known)}")


class NewerEventVersion(UnreadableEvent):
    """The event was written by a newer release."""

    code = "newer_event_version"

    def __init__(self, event_type: str, version: int, newest: int) -> None:
        super().__init__(
            f"{event_type} version {version} is newer than version {newest}, the newest this release knows; "
            "upgrade, then rebuild"
        )


class LeaseLost(MnemologError):
    """Another worker owns the partition now; whatever this worker was about to save has not been saved."""

    code = "lease_lost"


class ServerStartFailed(MnemologError):
    """A child process (embedded Valkey, worker, API) did not come up."""

    code = "server_start_failed"


class InvalidSetting(MnemologError):
    """An environment variable has an impossible value, or a name nobody reads."""

    code = "invalid_setting"
