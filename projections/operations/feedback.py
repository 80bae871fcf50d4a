"""Feedback of agents on the memories and lessons that they were given."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from ingest.commands.decide import Caller, GiveFeedback
from ingest.errors import CommandRejected
from ingest.ids import new_event_id, part_id
from ingest.nouns.command import EventName, Name
from ingest.nouns.feedback import Verdict
from projections.nouns.access import Reader
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.operations.current import Current
from projections.store.read_ledger import EVERY_S, ReadLedger


class FeedbackRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verdict on documents by id; without ids, on all memories and lessons that the answer `recall_id` gave.

    `project` is that of the answer's documents, where no ids are named.
    """

    verdict: Verdict
    ids: Annotated[list[Name], Meta(max_length=100)] = []
    recall_id: Name = ""
    project: Name = ""
    note: Annotated[str, Meta(max_length=2000)] = ""
    agent_id: Name = ""
    event_id: EventName = ""


class Feedback(Struct, frozen=True, kw_only=True):
    """The judged documents; those that are no memory or lesson, or were not given to this agent; and the position.

    `position` is empty if nothing was judged.
    """

    event_id: str
    judged: list[str]
    unknown: list[str]
    position: str


@dataclass
class GivingFeedback:
    """Records verdicts of agents."""

    _current: Current
    _reads: ReadLedger

    async def __call__(self, request: FeedbackRequest, reader: Reader, caller: Caller) -> Feedback:
        """Record a verdict on each document; repeated with its event id, it changes nothing.

        Only what an answer gave to this agent can be judged by it. Raises CommandRejected without ids and recall id,
        or without an agent and a key.
        """
        if not reader.agent_id and not caller.key_scope.key:
            raise CommandRejected("feedback counts by writer: name the agent, or send an API key", "agent_id")
        if not request.ids and not request.recall_id:
            raise CommandRejected("name the documents (ids) or the answer (recall_id)", "ids")
        names = list(dict.fromkeys(request.ids))
        if not names:
            names = sorted(await self._given(request, reader, {request.project}, set()))
        documents = await self._current.find_all(names, reader)
        projects = {getattr(document, "project", "") for document in documents}
        given = await self._given(request, reader, projects, {document.id for document in documents})
        event_id = request.event_id or new_event_id()
        commands: list[GiveFeedback] = []
        for document in documents:
            if isinstance(document, Memory | Lesson) and document.id in given:
                commands.append(
                    GiveFeedback(
                        event_id=part_id("feedback", event_id, document.id),
                        project=document.project,
                        agent_id=reader.agent_id,
                        document=document.id,
                        verdict=request.verdict,
                        note=request.note,
                        recall_id=request.recall_id,
                    )
                )
        position = str(await self._current.append_batch(commands, caller)) if commands else ""
        judged = [command.document for command in commands]
        unknown = [name for name in names if name not in judged]
        return Feedback(event_id=event_id, judged=judged, unknown=unknown, position=position)

    async def _given(
        self, request: FeedbackRequest, reader: Reader, projects: Collection[str], names: set[str]
    ) -> set[str]:
        """What this agent was given of some projects. Looks twice: another process may still have to write it down."""
        given: set[str] = set()
        for pause_s in (0.0, 2 * EVERY_S):
            await asyncio.sleep(pause_s)
            for project in projects:
                given |= await self._reads.given_to(reader.tenant, project, reader.agent_id, request.recall_id)
            if given and names <= given:
                break
        return given
