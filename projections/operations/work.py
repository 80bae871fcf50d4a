"""Changing actions, relations, lessons, slots and sessions that exist.

Two that add a line to a slot at the same moment may exceed its limit by one of them; neither is dropped. A write of the
whole text (a replacement, reflection, the rewriting after a forgetting) that races with an added line overwrites it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import fields, replace

from ingest.commands.decide import (
    Caller,
    ConfirmMemory,
    DeleteSlot,
    LinkCommit,
    ReinforceLesson,
    Relate,
    ReviseLesson,
    SetSlot,
    TriggerLesson,
    WriteAction,
)
from ingest.commands.handler import Accepted
from ingest.errors import AlreadyThere, CommandRejected, NotFound, SlotFull
from ingest.ids import DocumentId, new_event_id, part_id
from ingest.log.position import project_route
from ingest.nouns.action import ActionUpdated
from ingest.nouns.lesson import LessonRevised
from ingest.nouns.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.platform.clock import from_ms, system_clock
from projections.nouns.access import Reader
from projections.nouns.action import Action
from projections.nouns.action import work_item as work_item
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.relation import confidence
from projections.nouns.session import Session, session_name
from projections.nouns.slot import SIZE_LIMIT, Slot, appended, default_slots, slot_id
from projections.operations.current import Current

SlotCommand = TypeVar("SlotCommand", SetSlot, DeleteSlot)
MAX_NAMED = 100
"""Sessions of one id, each of a project of its own, that are looked at."""
_CONDITIONS = ("occurred_at", "expected_version")
_EDITABLE = [field.name for field in fields(ReviseLesson) if field.default is None and field.name not in _CONDITIONS]
"""The fields of a lesson that can change: those that may be left out of a revision."""


@dataclass
class WorkOperations:
    """Commands about documents that must be there."""

    _current: Current

    async def write_action(self, command: WriteAction, reader: Reader, caller: Caller) -> Accepted:
        """Create an action, or change the one it names; raises NotFound for one that is not there."""
        if command.action:
            _, action = await self._current.find(command.action, Action, reader)
            command = replace(command, project=action.project)
        return await self._current.change(command, ActionUpdated, caller)

    async def relate(self, command: Relate, reader: Reader, caller: Caller) -> Accepted:
        """Relate two documents; without a confidence given, what they share says how confident that is.

        Ends of the form `concept:…` or `file:…` need not exist. Raises NotFound for an end that should and does not.
        """
        ends = [name for name in (command.source, command.target) if ":" not in name]
        documents = await self._current.find_all(ends, reader)
        existing = {document.id: document for document in documents}
        missing = [name for name in ends if name not in existing]
        if missing and not command.remove:
            raise NotFound(f"there is no document {missing[0]!r}")
        if command.confidence is None and not command.remove:
            pair = [memory for memory in existing.values() if isinstance(memory, Memory)]
            shared, ages = False, (30.0, 30.0)
            if len(pair) == 2:
                shared = pair[0].session_id != "" and pair[0].session_id == pair[1].session_id
                older, newer = [(system_clock() - memory.recorded_at).total_seconds() / 86_400 for memory in pair]
                ages = older, newer
            command = replace(command, confidence=confidence(None, command.relation, int(shared), ages))
        if not command.project and existing:
            command = replace(command, project=getattr(existing.get(command.source), "project", ""))
        return await self._current.give(command, caller)

    async def reinforce(self, name: str, reader: Reader, caller: Caller, event_id: str = "") -> Accepted:
        """Strengthen a lesson; raises NotFound."""
        return await self._about_lesson(ReinforceLesson, name, reader, caller, event_id)

    async def revise_lesson(self, command: ReviseLesson, reader: Reader, caller: Caller) -> Accepted:
        """Edit a lesson; raises NotFound, CommandRejected when nothing is to change."""
        if all(getattr(command, name) is None for name in _EDITABLE):
            raise CommandRejected("no changes requested", None)
        existing = await self._lesson(command.lesson, reader)
        return await self._current.change(replace(command, project=existing.project), LessonRevised, caller)

    async def trigger(self, name: str, reader: Reader, caller: Caller, event_id: str = "") -> Accepted:
        """Count that a lesson was shown; raises NotFound."""
        return await self._about_lesson(TriggerLesson, name, reader, caller, event_id)

    async def link_commit(self, command: LinkCommit, caller: Caller) -> Accepted:
        """Link a commit; without a project, to that of the session it names, if there is one."""
        if command.session_id and not command.project:
            await self._current.settle()
            reader, listing = self._current.documents, session_name(caller.tenant, command.session_id)
            named = await reader.members(listing, range(reader.partitions), MAX_NAMED)
            documents = await reader.get([(partition, DocumentId(name)) for partition, name in named])
            projects = [document.project for document in documents if isinstance(document, Session)]
            command = replace(command, project=next(filter(caller.key_scope.allows, projects), ""))
        return await self._current.give(command, caller)

    async def _about_lesson(
        self, kind: type[ReinforceLesson | TriggerLesson], name: str, reader: Reader, caller: Caller, event_id: str
    ) -> Accepted:
        lesson = await self._lesson(name, reader)
        command = kind(event_id=event_id, project=lesson.project, agent_id=reader.agent_id, lesson=lesson.id)
        return await self._current.give(command, caller)

    async def _lesson(self, name: str, reader: Reader) -> Lesson:
        _, lesson = await self._current.find(name, Lesson, reader)
        if lesson.retired_ms:
            raise NotFound(f"lesson {name!r} was retired on {from_ms(lesson.retired_ms):%Y-%m-%d}; record it again")
        return lesson


@dataclass
class SlotOperations:
    """Commands about slots, after a look at the slot."""

    _current: Current

    async def set(self, command: SetSlot, caller: Caller, *, overwrite: bool = True) -> Accepted:
        """Create a slot, replace its text, or (`command.append`) add a line.

        Raises SlotFull when the text would exceed the limit, AlreadyThere for one that is there and not to be
        overwritten, CommandRejected for a read-only one.
        """
        existing = await self._existing(caller.tenant, command)
        if existing is not None:
            _check_writable(existing)
            if existing.created_ms and not overwrite and not command.append:
                raise AlreadyThere(f"slot {command.label!r} already exists", "label")
        content = appended(existing.content if existing else "", command.content) if command.append else command.content
        limit = existing.size_limit if existing else SIZE_LIMIT
        if command.size_limit is not None and not command.append:
            limit = command.size_limit
        if len(content) > limit:
            raise SlotFull(command.label, len(existing.content) if existing else 0, limit)
        return await self._current.change(_at_home(command), SlotAppended if command.append else SlotSet, caller)

    async def delete(self, command: DeleteSlot, caller: Caller) -> Accepted:
        """Remove a slot; raises NotFound when it is not there, CommandRejected when it is read-only."""
        existing = await self._existing(caller.tenant, command)
        if existing is None or not existing.created_ms:
            raise NotFound(f"there is no slot {command.label!r}")
        _check_writable(existing)
        return await self._current.change(_at_home(command), SlotDeleted, caller)

    async def get(self, reader: Reader, project: str, label: str) -> Slot:
        """The slot of a project, else the nameless project's of that label; raises NotFound.

        One that somebody wrote comes before one that is there from the start.
        """
        projects = list(dict.fromkeys([project, ""]))
        for name in filter(reader.key_scope.allows, projects):
            if (stored := await self._stored(reader.tenant, name, label)) is not None:
                return stored
        for name in projects:
            if (default := default_slots(reader.tenant, name).get(label)) is not None:
                return default
        raise NotFound(f"there is no slot {label!r}")

    async def _existing(self, tenant: str, command: SetSlot | DeleteSlot) -> Slot | None:
        project = "" if command.scope == "global" else command.project
        stored = await self._stored(tenant, project, command.label)
        return stored or default_slots(tenant, project).get(command.label)

    async def _stored(self, tenant: str, project: str, label: str) -> Slot | None:
        slot = await self._current.get(project_route(tenant, project), slot_id(tenant, project, label))
        return slot if isinstance(slot, Slot) else None


def _at_home(command: SlotCommand) -> SlotCommand:
    """The command with the project whose stream it belongs to: a global slot is in the nameless one."""
    return replace(command, project="") if command.scope == "global" else command


def _check_writable(slot: Slot) -> None:
    if slot.read_only:
        raise CommandRejected(f"slot {slot.label!r} is read-only", "label")


class Confirmed(Struct, frozen=True, kw_only=True):
    """The memories and lessons that count for more now, those that are not there, and the position after all of it.

    `position` is empty where nothing was confirmed.
    """

    event_id: str
    confirmed: list[str]
    unknown: list[str]
    position: str


@dataclass
class Confirming:
    """Counts what proved right."""

    _current: Current

    async def confirm(self, names: Sequence[str], reader: Reader, caller: Caller, event_id: str = "") -> Confirmed:
        """Confirm memories and lessons, each once; sent again with its event id, it changes nothing.

        Whatever else is named, was superseded or retired, or the reader can't see, is unknown.
        """
        event_id = event_id or new_event_id()
        commands: dict[str, ConfirmMemory | ReinforceLesson] = {}
        for document in await self._current.find_all(list(dict.fromkeys(names)), reader):
            own_id = part_id("confirm", event_id, document.id)
            if isinstance(document, Memory) and document.is_latest:
                commands[document.id] = ConfirmMemory(
                    event_id=own_id, project=document.project, agent_id=reader.agent_id, memory=document.id
                )
            elif isinstance(document, Lesson) and not document.retired_ms:
                commands[document.id] = ReinforceLesson(
                    event_id=own_id, project=document.project, agent_id=reader.agent_id, lesson=document.id
                )
        position = str(await self._current.append_batch(list(commands.values()), caller)) if commands else ""
        return Confirmed(
            event_id=event_id,
            confirmed=list(commands),
            unknown=[name for name in dict.fromkeys(names) if name not in commands],
            position=position,
        )
