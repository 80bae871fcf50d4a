"""The tools that write: remember, observe, lesson, revise, confirm, forget; slots, small texts that stay in view."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ingest.commands.command import Name
from ingest.commands.decide import DeleteSlot, Observe, RecordLesson, Remember, SetSlot
from ingest.errors import CommandRejected
from ingest.events.memory import MemoryType, Visibility
from ingest.events.slot import SlotScope
from ingest.roles import READ_WRITE, WRITE
from mcp_gateway.tools.tool import (
    Arguments,
    EventId,
    Project,
    Tags,
    Tool,
    ToolAnswer,
    ToolContext,
    WriteArguments,
    Written,
    without_unset,
    written,
)

if TYPE_CHECKING:
    from projections.documents.slots import Slot


Readers = Annotated[list[Name], Meta(max_length=200, description="Who may see it when `shared`.")]
Files = Annotated[list[Name], Meta(max_length=200, description="Paths it is about.")]
Days = Annotated[float, Meta(gt=0, le=36_500, description="Left out: for ever.")]


class RememberArguments(WriteArguments, frozen=True, kw_only=True):
    """A memory to keep."""

    content: Annotated[str, Meta(description="In sentences that make sense on their own.")]
    memory_type: Annotated[
        MemoryType,
        Meta(description="A fact or decision, something that happened, or a how-to."),
    ] = "semantic"
    tags: Tags | UnsetType = UNSET
    files: Files | UnsetType = UNSET
    importance: Annotated[float, Meta(ge=0, le=10, description="1: trivia.")] = 5.0
    visibility: Annotated[
        Visibility,
        Meta(description="Who finds it."),
    ] = "public"
    shared_with: Readers | UnsetType = UNSET
    session_id: Annotated[Name, Meta(description="Where it comes from.")] = ""
    ttl_days: Days | UnsetType = UNSET


Replaced = Annotated[list[str], Meta(description="Memories that it replaces: they state the same.")]
Similar = Annotated[list[str], Meta(description="Similar memories that stay current.")]


class MemoryWritten(Written, frozen=True, kw_only=True):
    """An acknowledged memory, and what it did to others; absent where that is not known in time."""

    superseded: Replaced | UnsetType = UNSET
    similar: Similar | UnsetType = UNSET


async def remember(call: ToolContext, arguments: RememberArguments) -> ToolAnswer:
    """Record the memory; says which others it superseded, and which it resembles."""
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
        "Keep a fact, decision, preference or procedure for later sessions and other agents. Use it when the user "
        "states something lasting, when a choice is made and why, or when you worked out how something is done. One "
        "idea per call. For what merely happened use `observe`; for advice from experience `lesson`."
    ),
    arguments=RememberArguments, answer=MemoryWritten, reads_only=False, needs=WRITE, call=remember,
)  # fmt: skip


When = Annotated[datetime, Meta(tz=True, description="With a zone. Left out: now.")]
Data = Annotated[dict[str, Any], Meta(description="Tool name, input, output.")]


class ObserveArguments(WriteArguments, frozen=True, kw_only=True):
    """Something seen or done."""

    session_id: Annotated[Name, Meta(min_length=1, description="Any stable name.")]
    content: Annotated[str, Meta(min_length=1, description="What happened.")]
    kind: Annotated[
        str,
        Meta(max_length=64, description="`tool_use`, `prompt`, `message`, `decision`, `error`..."),
    ] = ""
    data: Data | UnsetType = UNSET
    occurred_at: When | UnsetType = UNSET


async def observe(call: ToolContext, arguments: ObserveArguments) -> ToolAnswer:
    """Record the observation; its session opens by itself."""
    return written("observed", await call.write(Observe(**without_unset(arguments))))


OBSERVE = Tool(
    name="observe", title="Observe",
    description=(
        "Write down one thing that happened in a session, as you go: a step, a result, an error, what the user asked. "
        "For knowledge that should outlive the session use `remember`."
    ),
    arguments=ObserveArguments, answer=Written, reads_only=False, needs=WRITE, call=observe,
)  # fmt: skip


class LessonArguments(WriteArguments, frozen=True, kw_only=True):
    """A lesson to state."""

    project: Annotated[Name, Meta(description="Code base or task; `*`: every project.")] = ""
    content: Annotated[str, Meta(description="As advice: `Do X before Y, because Z`.")]
    context: Annotated[str, Meta(description="When it applies.")] = ""
    confidence: Annotated[float, Meta(ge=0, le=1, description="How sure you are.")] = 0.5
    tags: Tags | UnsetType = UNSET
    session_id: Annotated[Name, Meta(description="Where it comes from.")] = ""


async def record_lesson(call: ToolContext, arguments: LessonArguments) -> ToolAnswer:
    """Record the lesson, or make the one that says the same stronger."""
    return written("lesson recorded", await call.write(RecordLesson(**without_unset(arguments))))


LESSON = Tool(
    name="lesson", title="Record a lesson",
    description=(
        "Record advice learned from experience: after a mistake was understood, after a correction by the user, or "
        "when something proved itself. Stating the same lesson again makes it surer, so do."
    ),
    arguments=LessonArguments, answer=Written, reads_only=False, needs=WRITE, call=record_lesson,
)  # fmt: skip


class ReviseArguments(Arguments, frozen=True, kw_only=True):
    """Which memory, and what changes. What is left out stays."""

    id: Annotated[Name, Meta(min_length=1, description="Of the memory.")]
    content: Annotated[str, Meta(min_length=1, description="All of its new text.")] | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    files: Files | UnsetType = UNSET
    importance: Annotated[float, Meta(ge=0, le=10, description="1: trivia.")] | UnsetType = UNSET
    visibility: Annotated[Visibility, Meta(description="Who finds it.")] | UnsetType = UNSET
    shared_with: Readers | UnsetType = UNSET
    event_id: EventId = ""


async def revise(call: ToolContext, arguments: ReviseArguments) -> ToolAnswer:
    """Revise the memory; its earlier versions stay readable."""
    from projections.operations.memories import MemoryChanges  # loads the index, which the stdio bridge must not

    changes = without_unset(arguments)
    name = changes.pop("id")
    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    accepted = await call.operations.memories.change(name, MemoryChanges(**changes), reader, caller)
    call.wrote(caller.agent_id, accepted.position)
    return written("revised", accepted)


REVISE = Tool(
    name="revise", title="Revise a memory",
    description=(
        "Correct a memory that has changed or was wrong: its text, labels, or who may see it. The old version stays "
        "in its history."
    ),
    arguments=ReviseArguments, answer=Written, reads_only=False, needs=READ_WRITE, call=revise,
)  # fmt: skip


class ConfirmArguments(Arguments, frozen=True, kw_only=True):
    """What proved right."""

    ids: Annotated[list[Name], Meta(min_length=1, max_length=100, description="Of memories and lessons.")]
    event_id: EventId = ""


class ConfirmedIds(Struct, frozen=True, kw_only=True):
    """What counts for more now, and what is no memory or lesson for this agent."""

    confirmed: list[str]
    unknown: list[str]
    event_id: Annotated[str, Meta(description="Id of the confirmation.")]
    position: Annotated[str, Meta(description="Place in the log; REST reads take it as `after`. Empty: nothing.")]


async def confirm(call: ToolContext, arguments: ConfirmArguments) -> ToolAnswer:
    """Count what proved right."""
    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    told = await call.operations.confirming.confirm(arguments.ids, reader, caller, arguments.event_id)
    if told.position:
        call.wrote(caller.agent_id, told.position)
    unknown = f"; no memory or lesson: {', '.join(told.unknown)}" if told.unknown else ""
    answer = ConfirmedIds(
        confirmed=told.confirmed, unknown=told.unknown, event_id=told.event_id, position=told.position
    )
    return ToolAnswer(f"confirmed {', '.join(told.confirmed) or 'nothing'}{unknown}", answer)


CONFIRM = Tool(
    name="confirm", title="Confirm",
    description="Say which recalled memories and lessons proved right or helped: they are shown before others.",
    arguments=ConfirmArguments, answer=ConfirmedIds, reads_only=False, needs=READ_WRITE, call=confirm,
)  # fmt: skip


Reason = Annotated[str, Meta(max_length=512, description="Kept; the content is not.")]


class ForgetArguments(Arguments, frozen=True, kw_only=True):
    """What to forget."""

    id: Annotated[Name, Meta(min_length=1, description="Of any document.")]
    reason: Reason = ""
    event_id: EventId = ""


class Forgot(Struct, frozen=True, kw_only=True):
    """What was forgotten: the document, and what was derived from it."""

    documents: Annotated[dict[str, int], Meta(description="How many documents went, by kind.")]
    event_id: Annotated[str, Meta(description="Id of the forgetting in the log.")]
    position: Annotated[str, Meta(description="Place in the log; REST reads take it as `after`.")]


async def forget(call: ToolContext, arguments: ForgetArguments) -> ToolAnswer:
    """Forget the document, if it is there for this agent."""
    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    gone = await call.operations.forgetting.document(
        arguments.id, reader, caller, reason=arguments.reason, event_id=arguments.event_id
    )
    call.wrote(caller.agent_id, gone.position)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(gone.documents.items()))
    answer = Forgot(documents=gone.documents, event_id=gone.event_id, position=gone.position)
    return ToolAnswer(f"forgot {arguments.id} ({told})", answer)


FORGET = Tool(
    name="forget", title="Forget",
    description=(
        "Remove one document for good, with everything derived from it. Use it when the user asks for it, or for what "
        "must not be kept. To correct a memory use `revise`."
    ),
    arguments=ForgetArguments, answer=Forgot, reads_only=False, needs=READ_WRITE, destructive=True, call=forget,
)  # fmt: skip


class SlotsArguments(Arguments, frozen=True, kw_only=True):
    """What to do with which slot."""

    action: Annotated[
        Literal["list", "read", "write", "append", "delete"],
        Meta(description="`write` replaces, `append` adds a line."),
    ] = "list"
    label: Annotated[str, Meta(pattern="^([a-z][a-z0-9_]{0,63})?$", description="E.g. `pending_items`.")] = ""
    content: Annotated[str, Meta(max_length=20_000, description="Text to write.")] = ""
    project: Project = ""
    scope: Annotated[SlotScope, Meta(description="Of this project, or of all.")] = "project"
    event_id: EventId = ""


class SlotAnswer(Struct, frozen=True, kw_only=True):
    """One slot."""

    label: str
    content: str
    scope: SlotScope
    size_limit: Annotated[int, Meta(description="Characters it may have.")]
    pinned: Annotated[bool, Meta(description="Pinned slots open every `context`.")]


class SlotTexts(Struct, frozen=True, kw_only=True):
    """The slots asked for, as they are now."""

    slots: list[SlotAnswer]


async def use_slots(call: ToolContext, arguments: SlotsArguments) -> ToolAnswer:
    """Read or write slots."""
    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    if arguments.action == "list":
        await call.wait_for_own_writes(arguments.agent_id)
        return _answer(await call.queries.slots.of_project(reader, arguments.project))
    if not arguments.label:
        raise CommandRejected("which slot?", "label")
    if arguments.action == "delete":
        remove = DeleteSlot(
            event_id=arguments.event_id, label=arguments.label, project=arguments.project, scope=arguments.scope
        )
        gone = await call.operations.slots.delete(remove, caller)
        call.wrote(caller.agent_id, gone.position)
        return ToolAnswer(f"deleted {arguments.label}", SlotTexts(slots=[]))
    if arguments.action != "read":
        command = SetSlot(
            event_id=arguments.event_id,
            label=arguments.label,
            content=arguments.content,
            project=arguments.project,
            scope=arguments.scope,
            append=arguments.action == "append",
        )
        accepted = await call.operations.slots.set(command, caller)
        call.wrote(caller.agent_id, accepted.position)
    place = "" if arguments.scope == "global" and arguments.action != "read" else arguments.project
    return _answer([await call.operations.slots.get(reader, place, arguments.label)])


def _answer(slots: "Sequence[Slot]") -> ToolAnswer:
    """The slots, as text under their labels."""
    found = [
        SlotAnswer(label=one.label, content=one.content, scope=one.scope, size_limit=one.size_limit, pinned=one.pinned)
        for one in slots
    ]
    text = "\n".join(f"{one.label} ({len(one.content)}/{one.size_limit}): {one.content or '(empty)'}" for one in found)
    return ToolAnswer(text, SlotTexts(slots=found))


SLOTS = Tool(
    name="slots", title="Slots",
    description=(
        "Small named texts that every session of a project sees at its start: what is pending, who the user is, how "
        "to work here. Keep them short and current; for everything else use `remember`."
    ),
    arguments=SlotsArguments, answer=SlotTexts, reads_only=False, needs=READ_WRITE, call=use_slots,
)  # fmt: skip
