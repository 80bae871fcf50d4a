"""Every error that a caller can act on, one class per decision. They carry values; each API formats the message."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, TypeVar

E = TypeVar("E", bound=BaseException)


class MnemologError(Exception):
    """Base of everything this project raises on purpose; `code` is stable and appears on the wire."""

    code: ClassVar[str] = "internal"


def without_traceback(error: E) -> E:
    """The same error without traceback and context, for storing: those keep the frames' objects alive, often the error
    itself, in a cycle that only the garbage collector ends."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def reason_of(error: BaseException) -> str:
    """An error's message, or the name of its class where the message is empty."""
    return str(error) or type(error).__name__


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
    """A body, a batch or one encoded event is over its limit; `size` is None where it was not counted to the end."""

    code = "too_large"

    def __init__(self, what: str, size: int | None, limit: int, unit: str = "bytes") -> None:
        stated = f"over {limit:,}" if size is None else f"{size:,}"
        super().__init__(f"{what} is {stated} {unit}; the limit is {limit:,} {unit}")
        self.size, self.limit = size, limit


class Overloaded(MnemologError):
    """The server has more work than it can take; nothing was stored. Retry the same event ids after `retry_after_s`.

    `cause` is one word for machines: `queue` (a bounded queue is full), `memory`, `lag` or `disk` (a ceiling was
    reached), `limit` (this caller asks too often).
    """

    code = "overloaded"

    def __init__(self, reason: str, retry_after_s: int = 1, cause: str = "queue") -> None:
        super().__init__(reason)
        self.retry_after_s, self.cause = retry_after_s, cause


class LogUnavailable(MnemologError):
    """The log did not acknowledge. The outcome is unknown; retrying with the same event ids is safe."""

    code = "log_unavailable"


class LogRefused(LogUnavailable):
    """The log's server answers but refuses to write (full disk or memory, too few replicas): retrying is no use."""


class DurabilityUnavailable(CommandRejected):
    """The log's server can never make a write as durable as was asked."""

    code = "durability_unavailable"

    def __init__(self, requested: str, reason: str) -> None:
        super().__init__(f"this log cannot confirm durability {requested!r}: {reason}", "X-Durability")


class DurabilityNotReached(LogUnavailable):
    """The log has the write, and did not confirm in time that it is as durable as was asked.

    Whether it survives a crash is unknown: repeating it with the same event id waits again and appends nothing.
    """

    code = "durability_not_reached"

    def __init__(self, requested: str, reached: str) -> None:
        super().__init__(f"the write is in the log, but so far only with durability {reached!r}, not {requested!r}")
        self.requested, self.reached = requested, reached


class LogFull(LogRefused):
    """The log's server is at its `maxmemory`. Some of what was sent together may be stored: repeat the same event ids.

    The ceilings on memory and lag keep writes from getting this far, unless much is written between two looks.
    """

    code = "overloaded"
    cause = "server"
    retry_after_s = 5


class IssuerUnavailable(MnemologError):
    """The keys of the access tokens' issuer cannot be read, so tokens cannot be checked."""

    code = "issuer_unavailable"


class ArchiveUnavailable(MnemologError):
    """The place of the archive cannot be reached, or refuses. Nothing was lost: try again when it is back."""

    code = "archive_unavailable"


class NotFound(MnemologError):
    """No such document, session, dead letter or route for this tenant."""

    code = "not_found"


class NothingToClaim(NotFound):
    """No action of the project is free for this agent."""

    code = "nothing_to_claim"


class Forbidden(MnemologError):
    """The document belongs to another agent: only its creator or owner may do that."""

    code = "forbidden"


class AccessDenied(MnemologError):
    """The caller's key does not allow that: another role, another project or another agent is needed."""

    code = "forbidden"


class RoleMissing(AccessDenied):
    """The caller's key or token has not all the roles in `needs`."""

    def __init__(self, message: str, needs: frozenset[str]) -> None:
        super().__init__(message)
        self.needs = needs


class OutsideKeyScope(AccessDenied, CommandRejected):
    """A command for a project, or in the name of an agent, that the caller's key is not for; nothing was stored."""

    def __init__(self, what: str, name: str, field: str) -> None:
        CommandRejected.__init__(self, f"this key does not cover {what} {name!r}", field)


class TooManyRequests(Overloaded):
    """A key made more requests than it may. Nothing was done."""

    def __init__(self, kind: str, per_minute: int, retry_after_s: int) -> None:
        super().__init__(f"this key's rate limit is {per_minute:,} {kind} a minute", retry_after_s, "limit")


class ReaderUnknown(CommandRejected):
    """The scope is isolated, and the request does not say which agent reads."""

    def __init__(self) -> None:
        super().__init__("the scope is isolated: name the reading agent (X-Agent-Id)", "agent_id")


class AlreadyThere(CommandRejected):
    """Something of that name exists and must not be overwritten."""

    code = "already_there"


class RebuildUnderWay(MnemologError):
    """Another rebuild is in progress, and there is one at a time. `rebuild` is its id."""

    code = "rebuild_under_way"

    def __init__(self, rebuild: str, state: str) -> None:
        super().__init__(f"rebuild {rebuild} is {state}: wait for it, or cancel it")
        self.rebuild = rebuild


class WrongRebuildState(MnemologError):
    """The rebuild is not in a state that allows this; nothing was changed."""

    code = "wrong_rebuild_state"


class SlotFull(MnemologError):
    """The text would exceed the slot's limit, in characters; nothing was written."""

    code = "slot_full"

    def __init__(self, label: str, size: int, limit: int) -> None:
        super().__init__(f"slot {label!r} holds {size:,} of {limit:,} characters; replace or shorten its text")
        self.size, self.limit = size, limit


class SessionFull(CommandRejected):
    """The session has as many observations as a session may have (MAX_OBS_PER_SESSION); nothing was written."""

    code = "session_full"

    def __init__(self, session_id: str, limit: int) -> None:
        super().__init__(
            f"session {session_id!r} has reached its limit of {limit:,} observations; start another session",
            "session_id",
        )
        self.limit = limit


class ChangeRefused(MnemologError):
    """A change that depended on the document's state was refused when it was its turn; nothing was changed.

    `version` is the document's version, `changed_by` the agent that made it. For an action, `holder` is the agent that
    works on it and `expires_at` the end of its claim, if it has one.
    """

    reason: ClassVar[str] = ""

    def __init__(self, version: int, changed_by: str, expires_at: datetime | None) -> None:
        until = f" until {expires_at:%Y-%m-%dT%H:%M:%SZ}" if expires_at else ""
        super().__init__(self.reason.format(version=version, changed_by=changed_by or "an unnamed agent", until=until))
        self.version, self.changed_by, self.expires_at = version, changed_by, expires_at


class VersionConflict(ChangeRefused):
    """The document has another version than the change expects."""

    code = "version_conflict"
    reason = "the document is at version {version}, changed by {changed_by}; read it again and repeat the change"


class AlreadyClaimed(ChangeRefused):
    """Another claim of the action is valid, or an agent works on it without one."""

    code = "claimed"
    reason = "{changed_by} works on this action{until}"


class StaleToken(ChangeRefused):
    """The token's claim expired, was released, or ended with the action."""

    code = "stale_token"
    reason = "the claim of this token has ended; claim the action again before you change it"


class NotReady(ChangeRefused):
    """The action waits for another one, or conflicts with one in progress."""

    code = "not_ready"
    reason = "the action waits for an unfinished one, or conflicts with one in progress"


class AlreadyFinished(ChangeRefused):
    """The action is done or was dropped."""

    code = "finished"
    reason = "the action is already finished or canceled"


CHANGE_REFUSED = {kind.code: kind for kind in (VersionConflict, AlreadyClaimed, StaleToken, NotReady, AlreadyFinished)}
"""By the code that an event's outcome has."""


class ProjectionBehind(MnemologError):
    """A read asked for a position that is not projected yet. `lag` counts log entries not applied, by partition."""

    code = "projection_behind"

    def __init__(self, waited_s: float, lag: dict[int, int]) -> None:
        super().__init__(f"waited {waited_s:.2f} s; {sum(lag.values())} events are pending")
        self.lag = lag


class IndexUnavailable(ProjectionBehind):
    """The server that has the index does not answer, or has no index. Documents and writes are not affected."""

    code = "index_unavailable"

    def __init__(self, why: str) -> None:
        MnemologError.__init__(self, why)
        self.lag = {}


class PartitionCountMismatch(MnemologError):
    """The log was created with another number of partitions; events would be routed to the wrong place."""

    code = "partition_count_mismatch"

    def __init__(self, recorded: int, configured: int) -> None:
        super().__init__(
            f"this log has {recorded} partitions but the settings say {configured}; "
            f"set MNEMOLOG_PARTITIONS={recorded} (the number is fixed when a log is created)"
        )
        self.recorded, self.configured = recorded, configured


class RestoreUnfinished(MnemologError):
    """A restore into this log was interrupted, so the log has only a part of the backup."""

    code = "restore_unfinished"

    def __init__(self, backup: str) -> None:
        super().__init__(
            f"restoring backup {backup} into this log was interrupted; "
            f"run `mnemolog admin restore --backup {backup}` again"
        )


class UnreadableEvent(MnemologError):
    """Stored bytes that this version of the code cannot turn into an event. Parked as a dead letter, never dropped."""

    code = "unreadable_event"


class AlteredEntry(UnreadableEvent):
    """The bytes of an entry of the log are not those that were written."""

    code = "altered_entry"

    def __init__(self, position: str) -> None:
        super().__init__(f"entry {position} was altered: its bytes do not match its checksum")
        self.position = position


class UnknownEventType(UnreadableEvent):
    """The event type is not in the registry."""

    code = "unknown_event_type"

    def __init__(self, event_type: str, types: Sequence[str]) -> None:
        super().__init__(f"unknown event type {event_type!r}; this version supports {', '.join(types)}")


class NewerEventVersion(UnreadableEvent):
    """The event was written by a newer release."""

    code = "newer_event_version"

    def __init__(self, event_type: str, version: int, newest: int) -> None:
        super().__init__(
            f"{event_type} version {version} is newer than version {newest}, the newest this release "
            "supports; "
            "upgrade, then rebuild"
        )


class BeingRebuilt(MnemologError):
    """The partition is being rebuilt, which may have applied the event already: discard it after the switch."""

    code = "being_rebuilt"

    def __init__(self, partition: int) -> None:
        super().__init__(
            f"partition {partition} is being rebuilt; try again after the switch (`mnemolog admin lag` shows it)"
        )


class LeaseLost(MnemologError):
    """Another worker owns the partition now; what this worker was about to save was not saved."""

    code = "lease_lost"


class ServerStartFailed(MnemologError):
    """A child process (embedded Valkey, worker, API) did not come up."""

    code = "server_start_failed"


class InUse(ServerStartFailed):
    """Another process uses the same data folder or port; nothing was touched."""

    code = "in_use"


class DamagedLogFile(ServerStartFailed):
    """The log's file is damaged in a way that no interrupted write explains; nothing was changed."""

    code = "damaged_log_file"


class InvalidSetting(MnemologError):
    """An environment variable has an invalid value or an unknown name."""

    code = "invalid_setting"
