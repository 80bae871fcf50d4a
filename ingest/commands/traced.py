"""What a trace says of a write, by OpenTelemetry's conventions for operations of memories. No content, no names of
people or agents: which operation, of which project, of how many documents, of which one.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from ingest.commands.command import Command
from ingest.commands.forgetting import ForgetSubject
from ingest.commands.lessons import ReinforceLesson, RetireLesson, ReviseLesson, TriggerLesson
from ingest.commands.memories import ChangeVisibility, ConfirmMemory, ReviseMemory
from ingest.commands.sessions import LinkCommit, Observe
from ingest.commands.slots import DeleteSlot
from ingest.platform import tracing
from ingest.platform.tracing import Span

UPSERT = "upsert_memory"
"""What may create a document or change one, as it turns out."""
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
"""`gen_ai.operation.name` of each command that is no UPSERT."""


def writing(commands: Sequence[Command]) -> AbstractContextManager[Span]:
    """The span of a write."""
    if not commands or not tracing.is_recording():
        return tracing.NO_SPAN
    operation = _only(OPERATIONS.get(type(one), UPSERT) for one in commands) or UPSERT
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": operation,
        "gen_ai.memory.record.count": len(commands),
    }
    if project := _only(one.project for one in commands):
        attributes["gen_ai.memory.store.id"] = project
    if command := _only(str(one.__struct_config__.tag) for one in commands):
        attributes["mnemolog.command"] = command
    return tracing.span(operation, attributes)


def written(span: Span, document: str) -> None:
    """Say which document a write concerns."""
    span.set({"gen_ai.memory.record.id": document})


def appending(events: int) -> AbstractContextManager[Span]:
    """The span of an append: waiting for the group that it joins, and the script that the log's server runs."""
    attributes: dict[str, str | int] = {
        "db.system.name": "redis",
        "db.operation.name": "EVALSHA",
        "db.stored_procedure.name": "append",
    }
    if events > 1:
        attributes["db.operation.batch.size"] = events
    return tracing.span("EVALSHA append", attributes, "client")


def _only(values: Iterable[str]) -> str:
    """The value that all of them have; "" where they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""
