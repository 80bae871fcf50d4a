"""Every command, and `decide`: a command, its caller and the time, to the one event it becomes. Pure.

Secrets and private spans are removed here from every field, before an event exists.
"""

from datetime import datetime
from typing import TypeAlias, get_args

from ingest.errors import CommandRejected, OutsideKeyScope
from ingest.ids import EventId
from ingest.names import nfc, with_nfc
from ingest.nouns.action import ClaimActions, ExpireClaim, ReleaseClaim, RenewClaim, WriteAction
from ingest.nouns.command import DECIDERS, KEEP_NAMES, MAX_NAME_CHARS, Caller, Command, Decision, Origin
from ingest.nouns.forgetting import ForgetSubject, Quarantine
from ingest.nouns.lesson import RecordLesson, ReinforceLesson, RetireLesson, ReviseLesson, TriggerLesson
from ingest.nouns.memory import ChangeVisibility, CondenseMemories, ConfirmMemory, Remember, ReviseMemory
from ingest.nouns.observation import Observe
from ingest.nouns.relation import Relate
from ingest.nouns.session import EndIdleSession, LinkCommit, RetireSession, SummariseSession, TrackSession
from ingest.nouns.slot import DeleteSlot, SetSlot
from ingest.secrets.clean import Names, clean_agent, cleaned

WriteCommand: TypeAlias = (
    Observe | Remember | RecordLesson | TrackSession | LinkCommit | SetSlot | DeleteSlot | WriteAction | Relate
)
"""The commands that a batch can contain: those that do not read documents first."""
AnyCommand: TypeAlias = (
    WriteCommand
    | ReviseMemory | ChangeVisibility | ConfirmMemory | CondenseMemories
    | ReinforceLesson | ReviseLesson | TriggerLesson | RetireLesson
    | ClaimActions | RenewClaim | ReleaseClaim | ExpireClaim
    | SummariseSession | EndIdleSession | RetireSession
    | ForgetSubject | Quarantine
)  # fmt: skip
"""Every command. Those that are not a WriteCommand come from `projections.operations`, which reads first."""

WRITE_TYPES = tuple(str(command.__struct_config__.tag) for command in get_args(WriteCommand))
MAX_METADATA_BYTES = 4096
_NAME_FIELDS = ("project", "session_id", "agent_id", "user_id", "event_id")
_WRITES = frozenset(get_args(WriteCommand))
_EXPLAINED_SOURCES = ("native", "mcp")
"""Sources whose callers see why a write was refused. Other sources are hooks, other systems' clients, and imports."""


def stated_agent(name: str, header: str) -> str:
    """The agent's name in a header, in NFC; raises CommandRejected for a name that no field of a body may have."""
    if len(name) > MAX_NAME_CHARS:
        raise CommandRejected(f"{header} is {len(name):,} characters; the limit is {MAX_NAME_CHARS}", header)
    if "\0" in name:
        raise CommandRejected(f"{header} cannot contain NUL", header)
    return nfc(name)


def decide(
    command: AnyCommand, caller: Caller, event_id: EventId, now: datetime, *, is_clean: bool = False
) -> Decision:
    """The decision on one command; raises CommandRejected with the field at fault, OutsideKeyScope for a project or
    agent outside the caller's key. `is_clean`: `are_clean` has found that it holds no secret. The same command with the
    same event id decides the same subject, so a repeat acknowledges the same document."""
    if type(command) in _WRITES:  # the others name what is stored, as it is stored
        command = with_nfc(command)
    names: Names = "refuse" if caller.source in _EXPLAINED_SOURCES else "replace"
    if type(command) in KEEP_NAMES or (isinstance(command, Relate) and command.remove):
        names = "keep"
    original, command = command, command if is_clean else cleaned(command, names)
    if original.event_id == event_id:
        event_id = EventId(command.event_id or event_id)
    if caller.agent_id and not command.agent_id:
        caller = caller._replace(agent_id=clean_agent(caller.agent_id, names))
    _check_names(command)
    metadata = command.metadata
    if metadata and sum(len(f"{key}{value}".encode()) for key, value in metadata.items()) > MAX_METADATA_BYTES:
        raise CommandRejected(f"metadata is over {MAX_METADATA_BYTES} bytes", "metadata")
    decision = DECIDERS[type(command)](command, Origin(caller, event_id, now))
    envelope = decision.event.envelope
    if not caller.key_scope.allows(envelope.project):
        raise OutsideKeyScope("project", envelope.project, "project")
    if not caller.key_scope.speaks_for(envelope.agent_id):
        raise OutsideKeyScope("agent", envelope.agent_id, "agent_id")
    return decision


def _check_names(command: Command) -> None:
    names = command.project + command.session_id + command.agent_id + command.user_id + command.event_id
    if names.isascii() and "\0" not in names:
        return
    for field in _NAME_FIELDS:
        if "\0" in getattr(command, field):
            raise CommandRejected("a name cannot contain NUL", field)
        try:
            getattr(command, field).encode()
        except UnicodeEncodeError:
            raise CommandRejected("a name cannot contain half a surrogate pair", field) from None
