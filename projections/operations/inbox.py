"""The inbox: what the server suggests to remember, until somebody approves or rejects it."""

from datetime import datetime
from typing import Any, Literal, TypeGuard

from msgspec import Struct

from ingest.commands.decide import Caller, ConfirmMemory, Quarantine, ReinforceLesson, ReviseLesson
from ingest.commands.handler import Accepted
from ingest.errors import NotFound
from ingest.ids import DocumentId
from ingest.nouns.command import Name
from ingest.platform.clock import from_ms
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Searched, searchable_text
from projections.nouns.lesson import REFLECTION, SUGGESTION, Lesson, lessons
from projections.nouns.memory import MADE_TAGS, Memory, memories, rules
from projections.nouns.observation import Observation
from projections.operations.current import Current
from projections.operations.memory import MemoryChanges, MemoryOperations
from projections.text.accounts import headline
from projections.text.sentences import shortened

LOOKED_AT = 200
"""The newest rules, lessons and memories of a project that are looked at."""
EVIDENCE, EVIDENCE_CHARS = 3, 160
Kind = Literal["rule", "lesson", "memory"]


class Evidence(Struct, frozen=True):
    """A document that a suggestion was made of, and the beginning of its text."""

    id: str
    text: str


class Suggestion(Struct, frozen=True, kw_only=True):
    """A rule, lesson or memory that the server made, and up to three documents that it was made of.

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
        return [await self._suggestion(document, reader) for document in waiting.values()]

    async def decide(self, name: str, decision: Decision, reader: Reader, caller: Caller) -> Accepted:
        """Approve a suggestion, with another text if one is given, or reject it: it is hidden, and not made again.

        Raises NotFound for what is not, or no longer, a suggestion.
        """
        document = next(iter(await self._current.find_all([name], reader)), None)
        if document is None or not is_suggestion(document):
            raise NotFound(f"there is no suggestion {name!r}")
        if decision.decision == "reject":
            order = Quarantine(document=document.id, reason="rejected", agent_id=reader.agent_id)
            return await self._changes.quarantine(order, reader, caller)
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

    async def _suggestion(self, document: Memory | Lesson, reader: Reader) -> Suggestion:
        names = document.sources if isinstance(document, Lesson) else document.derived_from
        sources = await self._current.documents.find_all([DocumentId(name) for name in names[:EVIDENCE]])
        readable = [source.document for source in sources if may_read(source.document, reader)]
        return Suggestion(
            id=document.id,
            kind=_kind(document),
            text=document.content,
            occurred_at=from_ms(document.occurred_ms) if isinstance(document, Lesson) else document.occurred_at,
            disputed_by=document.disputed_by if isinstance(document, Memory) else 0,
            evidence=[
                Evidence(source.id, shortened(_line_of(source), EVIDENCE_CHARS))
                for source in readable
                if isinstance(source, Searched)
            ],
        )


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
