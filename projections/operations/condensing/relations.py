"""The relations that a model reads out of a session's summary."""

from collections.abc import Sequence
from typing import TypeAlias

from ingest.commands.requests import Relate
from ingest.ids import RELATION, DocumentId, relation_id
from ingest.log.partitions import partition_of, project_route, session_route
from projections.condensing.llm.answers import RELATION_CHARS
from projections.condensing.llm.assistant import Assistant, Skipped
from projections.condensing.sessions import Digest
from projections.documents.listings import derived
from projections.documents.relations import Relation
from projections.documents.sessions import Session
from projections.documents.summaries import Summary, summary_id
from projections.operations.condensing.evidence import fingerprint
from projections.operations.current import Current, Writing

Edge: TypeAlias = tuple[str, str, str]
"""Source, relation and target."""

EXTRACTED_CONFIDENCE = 0.6
"""Of a relation that a model read out of a summary."""


class Relations:
    """Has a model name how the things that sessions were about are related."""

    def __init__(self, current: Current, assistant: Assistant) -> None:
        self._current, self._assistant = current, assistant
        self._documents = current.documents

    async def were_extracted(self, session: Session, summary: Summary) -> bool:
        """Whether there are relations that were read out of a summary."""
        await self._current.settle_project(session.tenant, session.project)
        home = partition_of(project_route(session.tenant, session.project), self._documents.partitions)
        known = await self._documents.members_of([derived(summary.id)], [home])
        return any(name.partition("_")[0] == RELATION for name in known)

    async def extract(self, session: Session, made: Digest, writing: Writing) -> str:
        """Have the model read relations out of what a session came to; returns why it did not, if so.

        A relation that a caller stated stays the caller's.
        """
        graph = await self._assistant.extract(session.tenant, [made.title, made.narrative, *made.decisions])
        if isinstance(graph, Skipped):
            return str(graph)
        if not graph.relations:
            return ""
        if not await self._still_told(session):  # the model took its time; what it read must not come back
            return "something of the session was forgotten meanwhile"
        edges = [
            (f"concept:{one.source.lower()}", one.relation[:RELATION_CHARS], f"concept:{one.target.lower()}")
            for one in graph.relations
        ]
        stated = await self._stated(session, edges)
        for edge in edges:
            if edge in stated:
                continue
            source, relation, target = edge
            evidence = session.id, str(session.observation_count), session.forgotten_at
            command = Relate(
                event_id=f"extract:{fingerprint(*evidence, *edge)}",
                project=session.project,
                source=source,
                target=target,
                relation=relation,
                confidence=EXTRACTED_CONFIDENCE,
                derived_from=[summary_id(DocumentId(session.id))],
                metadata={"model": graph.model, "prompt_version": graph.prompt_version},
            )
            await writing.give(command)
        return ""

    async def _still_told(self, session: Session) -> bool:
        """Whether a session is there and nothing of it was forgotten since it was read."""
        route = session_route(session.tenant, session.project, session.session_id)
        now = await self._current.get(route, DocumentId(session.id))
        return isinstance(now, Session) and now.forgotten_at == session.forgotten_at

    async def _stated(self, session: Session, edges: Sequence[Edge]) -> set[Edge]:
        """Those of the relations that are there and were not derived from anything."""
        route = project_route(session.tenant, session.project)
        home = partition_of(route, self._documents.partitions)
        found = await self._documents.get([(home, relation_id(route, *edge)) for edge in edges])
        return {
            edge for edge, known in zip(edges, found, strict=True) if isinstance(known, Relation) and not known.sources
        }
