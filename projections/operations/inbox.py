"""The inbox: what the server suggests to remember, and memories that contradict, until somebody decides on them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeGuard

from msgspec import Struct

from ingest.commands.decide import Caller, ConfirmMemory, Quarantine, ReinforceLesson, ReviseLesson
from ingest.commands.handler import Accepted
from ingest.errors import Forbidden, NotFound
from ingest.ids import DocumentId
from ingest.nouns.command import Name
from ingest.platform.clock import from_ms, system_clock
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Document, Searched, searchable_text
from projections.nouns.lesson import REFLECTION, SUGGESTION, Lesson, lessons
from projections.nouns.memory import MADE_TAGS, Memory, memories, rules
from projections.nouns.observation import Observation
from projections.operations.current import Current
from projections.operations.memory import MemoryChanges, MemoryOperations
from projections.text.accounts import headline
from projections.text.claims import contradictions
from projections.text.sentences import shortened

LOOKED_AT = 200
"""The newest rules, lessons and memories of a project that are looked at."""
EVIDENCE, EVIDENCE_CHARS = 3, 160
Kind = Literal["rule", "lesson", "memory", "contradiction"]


class Evidence(Struct, frozen=True):
    """A document that a suggestion was made of, and the beginning of its text."""

    id: str
    text: str


class Suggestion(Struct, frozen=True, kw_only=True):
    """A rule, lesson or memory that the server made, and up to three documents that it was made of.

    Or a contradiction: a memory, and older ones that state something else. Approved, it hides these.
    `disputed_by` is how many writers called it wrong, if these are the reason why it is here.
    """

    id: str
    kind: Kind
    text: str
    occurred_at: datetime
    evidence: list[Evidence]
    disputed_by: int = 0


class Decision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a suggestion. `content` replaces its text when it is approved."""

    decision: Literal["approve", "reject"]
    content: str = ""
    agent_id: Name = ""


class Inbox:
    """Lists suggestions, and decides on them."""

    def __init__(self, current: Current) -> None:
        self._current, self._changes = current, MemoryOperations(current)

    async def suggestions(self, reader: Reader, project: str, limit: int) -> list[Suggestion]:
        """Return a project's suggestions: rules, then lessons, then memories, each newest first."""
        waiting: dict[str, Memory | Lesson] = {}
        for listing in (rules, lessons, memories):
            page = await self._current.documents.newest(
                listing(reader.tenant, project), reader, project, None, LOOKED_AT, at_home=True
            )
            for located in page.documents:
                if is_suggestion(located.document) and len(waiting) < limit:
                    waiting.setdefault(located.document.id, located.document)
        suggestions = [await self._suggestion(document, reader) for document in waiting.values()]
        for newer, older in (await self._contradictions(project, reader)).values():
            if newer.id not in waiting:
                suggestions.append(_row(newer, "contradiction", older))
        return suggestions[:limit]

    async def decide(self, name: str, decision: Decision, reader: Reader, caller: Caller) -> Accepted:
        """Approve a suggestion, with another text if one is given, or reject it: it is hidden, and not made again.

        Raises NotFound for what is not, or no longer, a suggestion, and Forbidden for a contradiction without admin
        rights: one agent could hide what others remember.
        """
        document = next(iter(await self._current.find_all([name], reader)), None)
        contradicted: Sequence[Memory] = ()
        if not is_suggestion(document):
            if isinstance(document, Memory):
                _, contradicted = (await self._contradictions(document.project, reader)).get(name, (document, ()))
            if not isinstance(document, Memory) or not contradicted:
                raise NotFound(f"there is no suggestion {name!r}")
            if not caller.key_scope.is_admin:
                raise Forbidden("deciding between memories needs a key with the role admin")
        if decision.decision == "reject":
            return await self._hide(document, reader, caller)
        for older in contradicted:
            await self._hide(older, reader, caller)
        by: dict[str, Any] = {"project": document.project, "agent_id": reader.agent_id}
        if isinstance(document, Lesson):
            if decision.content:
                revision = ReviseLesson(lesson=document.id, content=decision.content, **by)
                await self._current.give(revision, caller)
            return await self._current.give(ReinforceLesson(lesson=document.id, **by), caller)
        if decision.content:
            changes = MemoryChanges(content=decision.content, agent_id=reader.agent_id)
            name = (await self._changes.change(document.id, changes, reader, caller)).id
        return await self._current.give(ConfirmMemory(memory=name, **by), caller)

    async def _hide(self, document: Document, reader: Reader, caller: Caller) -> Accepted:
        order = Quarantine(document=document.id, reason="rejected", agent_id=reader.agent_id)
        return await self._changes.quarantine(order, reader, caller)

    async def _contradictions(self, project: str, reader: Reader) -> dict[str, tuple[Memory, list[Memory]]]:
        """The newest memories of a project that contradict older ones, with these, by id."""
        page = await self._current.documents.newest(
            memories(reader.tenant, project), reader, project, None, LOOKED_AT, at_home=True
        )
        stated: list[Memory] = []
        for located in reversed(page.documents):
            document = located.document
            if isinstance(document, Memory) and _is_comparable(document):
                stated.append(document)
        pairs = await asyncio.to_thread(contradictions, [memory.content for memory in stated])
        by_newer: dict[str, tuple[Memory, list[Memory]]] = {}
        for number, newer_number in pairs:
            older, newer = stated[number], stated[newer_number]
            if (older.user_id, older.audience) == (newer.user_id, newer.audience):
                contradicted = by_newer.setdefault(newer.id, (newer, []))[1]
                if len(contradicted) < EVIDENCE:  # no more are hidden at once than are shown
                    contradicted.append(older)
        return by_newer

    async def _suggestion(self, document: Memory | Lesson, reader: Reader) -> Suggestion:
        names = document.sources if isinstance(document, Lesson) else document.derived_from
        sources = await self._current.documents.find_all([DocumentId(name) for name in names[:EVIDENCE]])
        readable = [source.document for source in sources if may_read(source.document, reader)]
        return _row(document, _kind(document), readable)


def _row(document: Memory | Lesson, kind: Kind, evidence: Sequence[Document]) -> Suggestion:
    return Suggestion(
        id=document.id,
        kind=kind,
        text=document.content,
        occurred_at=from_ms(document.occurred_ms) if isinstance(document, Lesson) else document.occurred_at,
        disputed_by=document.disputed_by if isinstance(document, Memory) else 0,
        evidence=[
            Evidence(source.id, shortened(_line_of(source), EVIDENCE_CHARS))
            for source in evidence
            if isinstance(source, Searched)
        ],
    )


def _is_comparable(memory: Memory) -> bool:
    """Whether a memory states what holds now, and not what happened."""
    is_current = memory.is_latest and not memory.has_ended(system_clock())
    return is_current and memory.memory_type != "episodic" and not memory.derived_from


def _line_of(source: Searched) -> str:
    return headline(source) if isinstance(source, Observation) else searchable_text(source)


def _kind(document: Memory | Lesson) -> Kind:
    if isinstance(document, Lesson):
        return "lesson"
    return "rule" if document.memory_type == "rule" else "memory"


def is_suggestion(document: object) -> TypeGuard[Memory | Lesson]:
    """Return whether a document is disputed, or made by the server and not confirmed, edited or retired since."""
    if isinstance(document, Lesson):
        made = document.origin in (SUGGESTION, REFLECTION)
        return made and document.active and not (document.reinforcements or document.retired_ms)
    if not isinstance(document, Memory) or not document.is_latest:
        return False
    if document.is_disputed:
        return True
    if document.confirmations:
        return False
    return document.is_suggested or not MADE_TAGS.isdisjoint(document.tags)
