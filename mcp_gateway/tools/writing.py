"""The tools that write: remember, observe, lesson, revise, confirm, forget, slots."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from ingest.commands.decide import DeleteSlot, Observe, RecordLesson, Remember, SetSlot
from ingest.errors import CommandRejected
from ingest.nouns.command import Name, Version
from ingest.nouns.feedback import Verdict
from ingest.nouns.memory import MemoryType, Visibility
from ingest.nouns.slot import SlotScope
from ingest.roles import READ_WRITE, WRITE
from mcp_gateway.tools.tool import (
    Arguments,
    Call,
    EventId,
    Project,
    Tags,
    Tool,
    ToolAnswer,
    WriteArguments,
    Written,
    without_unset,
    written,
)

if TYPE_CHECKING:
    from projections.nouns.slot import Slot


Readers = Annotated[list[Name], Meta(max_length=200, description="If shared.")]
Files = Annotated[list[Name], Meta(max_length=200, description="Related files.")]
Importance = Annotated[float, Meta(ge=0, le=10, description="0 to 10; 1: trivia.")]
WhoReads = Annotated[Visibility, Meta(description="Who can read it.")]
OfSession = Annotated[Name, Meta(description="Its session.")]
Position = Annotated[str, Meta(description="Position in the log; REST reads take it as `after`.")]
Days = Annotated[float, Meta(gt=0, le=36_500, description="Omit to keep it forever.")]
Until = Annotated[datetime, Meta(tz=True, description="When it stops being true.")]


class RememberArguments(WriteArguments, frozen=True, kw_only=True):
    """A memory to keep."""

    content: Annotated[str, Meta(description="Full sentences.")]
    memory_type: Annotated[MemoryType, Meta(description="Fact, event, how-to, or rule.")] = "semantic"
    tags: Tags | UnsetType = UNSET
    files: Files | UnsetType = UNSET
    importance: Importance = 5.0
    visibility: WhoReads = "public"
    shared_with: Readers | UnsetType = UNSET
    session_id: OfSession = ""
    ttl_days: Days | UnsetType = UNSET
    valid_until: Until | UnsetType = UNSET


Replaced = Annotated[list[str], Meta(description="Near-duplicates that it replaced.")]
Similar = Annotated[list[str], Meta(description="Similar memories that remain current.")]


class MemoryWritten(Written, frozen=True, kw_only=True):
    """An acknowledged memory, and its effect on others; absent if not known in time."""

    superseded: Replaced | UnsetType = UNSET
    similar: Similar | UnsetType = UNSET


async def remember(call: Call, arguments: RememberArguments) -> ToolAnswer:
    """Record the memory; lists replaced and similar ones."""
    accepted = await call.write(Remember(**without_unset(arguments)))
    answer = written("remembered", accepted)
    if not call.may_read:
        return answer
    outcome = await call.queries.memories.answer_to(accepted, partial(call.reader, arguments.agent_id))
    replacing = f", replacing {', '.join(outcome.superseded)}" if outcome.superseded else ""
    similar = f"; similar and still current: {', '.join(outcome.similar)}" if outcome.similar else ""
    data = MemoryWritten(**{name: getattr(outcome, name) for name in MemoryWritten.__struct_fields__})
    return ToolAnswer(answer.text + replacing + similar, data)


REMEMBER = Tool(
    name="remember", title="Remember",
    description=(
        "Save a fact, decision, preference or procedure for later sessions and other agents. Use it when the user "
        "states something lasting, for choices (include why), and for how-tos you worked out. One idea per call. For "
        "events use `observe`; for advice from experience use `lesson`."
    ),
    arguments=RememberArguments, answer=MemoryWritten, reads_only=False, needs=WRITE, call=remember,
)  # fmt: skip


When = Annotated[datetime, Meta(tz=True, description="Omit for now.")]
Data = Annotated[dict[str, Any], Meta(description="Tool name, input, output.")]


class ObserveArguments(WriteArguments, frozen=True, kw_only=True):
    """Something seen or done."""

    session_id: Annotated[Name, Meta(min_length=1, description="Any stable name.")]
    content: Annotated[str, Meta(min_length=1, description="What happened.")]
    kind: Annotated[str, Meta(max_length=64, description="E.g. `decision`, `error`.")] = ""
    data: Data | UnsetType = UNSET
    occurred_at: When | UnsetType = UNSET


async def observe(call: Call, arguments: ObserveArguments) -> ToolAnswer:
    """Record the observation; creates its session if needed."""
    return written("observed", await call.write(Observe(**without_unset(arguments))))


OBSERVE = Tool(
    name="observe", title="Observe",
    description=(
        "Record one event of a session as you work: a step, a result, an error, a request of the user. For knowledge "
        "that should outlive the session use `remember`."
    ),
    arguments=ObserveArguments, answer=Written, reads_only=False, needs=WRITE, call=observe,
)  # fmt: skip


class LessonArguments(WriteArguments, frozen=True, kw_only=True):
    """A lesson to record."""

    project: Annotated[Name, Meta(description="Codebase or task; `*` for every project.")] = ""
    content: Annotated[str, Meta(description="As advice: `Do X before Y, because Z`.")]
    context: Annotated[str, Meta(description="When it applies.")] = ""
    confidence: Annotated[float, Meta(ge=0, le=1, description="Yours, 0 to 1.")] = 0.5
    tags: Tags | UnsetType = UNSET
    session_id: OfSession = ""


async def record_lesson(call: Call, arguments: LessonArguments) -> ToolAnswer:
    """Record the lesson, or raise the confidence of an equal one."""
    return written("lesson recorded", await call.write(RecordLesson(**without_unset(arguments))))


LESSON = Tool(
    name="lesson", title="Record a lesson",
    description=(
        "Record advice from experience: after you understand a mistake, after the user corrects you, or when something "
        "works well. Record it again when it holds up: repeats raise its confidence."
    ),
    arguments=LessonArguments, answer=Written, reads_only=False, needs=WRITE, call=record_lesson,
)  # fmt: skip


class ReviseArguments(Arguments, frozen=True, kw_only=True):
    """Which memory, and what changes. Omitted fields stay the same."""

    id: Annotated[Name, Meta(min_length=1, description="Id of the memory.")]
    content: Annotated[str, Meta(min_length=1, description="Its complete new text.")] | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    files: Files | UnsetType = UNSET
    importance: Importance | UnsetType = UNSET
    visibility: WhoReads | UnsetType = UNSET
    shared_with: Readers | UnsetType = UNSET
    valid_until: Until | UnsetType = UNSET
    expected_version: Annotated[Version, Meta(description="Version you read.")] | UnsetType = UNSET
    event_id: EventId = ""


async def revise(call: Call, arguments: ReviseArguments) -> ToolAnswer:
    """Revise the memory; its earlier versions stay readable."""
    from projections.operations.memory import MemoryChanges  # loads the index, which the stdio bridge must not

    changes = without_unset(arguments)
    (name,) = await call.whole_ids([changes.pop("id")], arguments.agent_id)
    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    accepted = await call.operations.memories.change(name, MemoryChanges(**changes), reader, caller)
    call.wrote(caller.agent_id, accepted.position)
    return written("revised", accepted)


REVISE = Tool(
    name="revise", title="Revise a memory",
    description=(
        "Correct an outdated or wrong memory: its text, tags or readers. Old versions stay readable."
    ),
    arguments=ReviseArguments, answer=Written, reads_only=False, needs=READ_WRITE, call=revise,
)  # fmt: skip


class ConfirmArguments(Arguments, frozen=True, kw_only=True):
    """The judged memories and lessons; without a verdict they proved correct."""

    ids: Annotated[list[Name], Meta(min_length=1, max_length=100, description="Ids of memories and lessons.")]
    verdict: Annotated[Verdict, Meta(description="Your verdict.")] | UnsetType = UNSET
    event_id: EventId = ""


class JudgedIds(Struct, frozen=True, kw_only=True):
    """The judged ids, and those that are no memories or lessons, or were not given to this agent."""

    judged: list[str]
    unknown: list[str]
    event_id: str
    position: Position


async def confirm(call: Call, arguments: ConfirmArguments) -> ToolAnswer:
    """Confirm or judge the memories and lessons."""
    from projections.operations.feedback import FeedbackRequest  # loads numpy and more, which the stdio bridge must not

    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    ids = await call.whole_ids(arguments.ids, arguments.agent_id)
    verdict, event_id = arguments.verdict, arguments.event_id
    outcome: Any
    if verdict is UNSET:
        outcome = await call.operations.confirming.confirm(ids, reader, caller, event_id)
        judged = outcome.confirmed
    else:
        request = FeedbackRequest(ids=ids, verdict=verdict, event_id=event_id)
        outcome = await call.operations.feedback(request, reader, caller)
        judged = outcome.judged
    call.wrote(caller.agent_id, outcome.position)
    unknown = f"; no memory or lesson that you can judge: {', '.join(outcome.unknown)}" if outcome.unknown else ""
    answer = JudgedIds(judged=judged, unknown=outcome.unknown, event_id=outcome.event_id, position=outcome.position)
    return ToolAnswer(f"{verdict or 'confirmed'}: {', '.join(judged) or 'nothing'}{unknown}", answer)


CONFIRM = Tool(
    name="confirm", title="Confirm",
    description=(
        "Mark memories and lessons that proved correct, which ranks them higher; or, with a `verdict`, those that did "
        "not."
    ),
    arguments=ConfirmArguments, answer=JudgedIds, reads_only=False, needs=READ_WRITE, call=confirm,
)  # fmt: skip


Reason = Annotated[str, Meta(max_length=512, description="Stored.")]


class ForgetArguments(Arguments, frozen=True, kw_only=True):
    """What to forget."""

    id: Annotated[Name, Meta(min_length=1, description="Id of any document.")]
    reason: Reason = ""
    event_id: EventId = ""


class Forgot(Struct, frozen=True, kw_only=True):
    """What was deleted: the document, and documents derived from it."""

    documents: Annotated[dict[str, int], Meta(description="Number of deleted documents, by kind.")]
    event_id: Annotated[str, Meta(description="Id of the deletion event in the log.")]
    position: Position


async def forget(call: Call, arguments: ForgetArguments) -> ToolAnswer:
    """Delete the document, if this agent can read it."""
    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    (name,) = await call.whole_ids([arguments.id], arguments.agent_id)
    deleted = await call.operations.forgetting.document(
        name, reader, caller, reason=arguments.reason, event_id=arguments.event_id
    )
    call.wrote(caller.agent_id, deleted.position)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(deleted.documents.items()))
    return ToolAnswer(f"forgot {name} ({counts})", convert(deleted, Forgot, from_attributes=True))


FORGET = Tool(
    name="forget", title="Forget",
    description=(
        "Permanently delete a document and everything derived from it. Use it when the user asks, or for "
        "content that must not be stored. To correct a memory use `revise`."
    ),
    arguments=ForgetArguments, answer=Forgot, reads_only=False, needs=READ_WRITE, destructive=True, call=forget,
)  # fmt: skip


class SlotsArguments(Arguments, frozen=True, kw_only=True):
    """The action, and its slot."""

    action: Annotated[
        Literal["list", "read", "write", "append", "delete"],
        Meta(description="`write` replaces, `append` adds a line."),
    ] = "list"
    label: Annotated[str, Meta(pattern="^([a-z][a-z0-9_]{0,63})?$", description="E.g. `pending_items`.")] = ""
    content: Annotated[str, Meta(max_length=20_000, description="Text to write.")] = ""
    project: Project = ""
    scope: Annotated[SlotScope, Meta(description="Of this project, or global.")] = "project"
    event_id: EventId = ""


class SlotAnswer(Struct, frozen=True, kw_only=True):
    """One slot."""

    label: str
    content: str
    scope: SlotScope
    size_limit: Annotated[int, Meta(description="Maximum number of characters.")]
    pinned: Annotated[bool, Meta(description="Pinned slots open every `context`.")]


class SlotTexts(Struct, frozen=True, kw_only=True):
    """The requested slots, in their current state."""

    slots: list[SlotAnswer]


async def use_slots(call: Call, arguments: SlotsArguments) -> ToolAnswer:
    """Read or write slots."""
    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    if arguments.action == "list":
        await call.wait_for_own_writes(arguments.agent_id)
        return _answer(await call.queries.slots.of_project(reader, arguments.project))
    if not arguments.label:
        raise CommandRejected("name a slot", "label")
    slot: dict[str, Any] = {name: getattr(arguments, name) for name in ("event_id", "label", "project", "scope")}
    if arguments.action == "delete":
        deleted = await call.operations.slots.delete(DeleteSlot(**slot), caller)
        call.wrote(caller.agent_id, deleted.position)
        return ToolAnswer(f"deleted {arguments.label}", SlotTexts(slots=[]))
    if arguments.action != "read":
        command = SetSlot(**slot, content=arguments.content, append=arguments.action == "append")
        accepted = await call.operations.slots.set(command, caller)
        call.wrote(caller.agent_id, accepted.position)
    project = "" if arguments.scope == "global" and arguments.action != "read" else arguments.project
    return _answer([await call.operations.slots.get(reader, project, arguments.label)])


def _answer(slots: "Sequence[Slot]") -> ToolAnswer:
    answers = [convert(slot, SlotAnswer, from_attributes=True) for slot in slots]
    lines = [f"{slot.label} ({len(slot.content)}/{slot.size_limit}): {slot.content or '(empty)'}" for slot in answers]
    return ToolAnswer("\n".join(lines), SlotTexts(slots=answers))


SLOTS = Tool(
    name="slots", title="Slots",
    description=(
        "Short pinned notes that every session of a project sees at its start: what is pending, who the user is, how "
        "to work here. Keep them short and current; for everything else use `remember`."
    ),
    arguments=SlotsArguments, answer=SlotTexts, reads_only=False, needs=READ_WRITE, call=use_slots,
)  # fmt: skip
