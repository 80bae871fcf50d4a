"""The spans of writes, by OpenTelemetry's conventions."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from ingest.commands.decide import (
    ChangeVisibility,
    ConfirmMemory,
    DeleteSlot,
    ForgetSubject,
    LinkCommit,
    Observe,
    ReinforceLesson,
    RetireLesson,
    ReviseLesson,
    ReviseMemory,
    TriggerLesson,
)
from ingest.nouns.command import Command
from ingest.platform import tracing
from ingest.platform.tracing import Span

UPSERT = "upsert_memory"
"""`gen_ai.operation.name` of commands that can create or change a document."""
_UPDATES = (
    ReviseMemory, ChangeVisibility, ConfirmMemory, ReinforceLesson, ReviseLesson, TriggerLesson, RetireLesson,
)  # fmt: skip
OPERATIONS: dict[type[Command], str] = {
    Observe: "create_memory",
    LinkCommit: "create_memory",
    **dict.fromkeys(_UPDATES, "update_memory"),
    ForgetSubject: "delete_memory",
    DeleteSlot: "delete_memory",
}
"""`gen_ai.operation.name` of each command that is not an UPSERT."""


def write_span(commands: Sequence[Command]) -> AbstractContextManager[Span]:
    """The span of a write, by OpenTelemetry's conventions for operations of memories. No content, no names of people or
    agents: collectors have other readers than the log."""
    if not commands or not tracing.is_recording():
        return tracing.NO_SPAN
    operation = _only(OPERATIONS.get(type(command), UPSERT) for command in commands) or UPSERT
    attributes: dict[str, str | int] = {"gen_ai.operation.name": operation, "gen_ai.memory.record.count": len(commands)}
    if project := _only(command.project for command in commands):
        attributes["gen_ai.memory.store.id"] = project
    if tag := _only(str(command.__struct_config__.tag) for command in commands):
        attributes["mnemolog.command"] = tag
    return tracing.span(operation, attributes)


def append_span(count: int) -> AbstractContextManager[Span]:
    """The span of an append: waiting for the group, and the script that Redis runs."""
    if not tracing.is_recording():
        return tracing.NO_SPAN
    batch = {"db.operation.batch.size": count} if count > 1 else {}
    attributes = {"db.system.name": "redis", "db.operation.name": "EVALSHA", "db.stored_procedure.name": "append"}
    return tracing.span("EVALSHA append", {**attributes, **batch}, "client")


def _only(values: Iterable[str]) -> str:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""
