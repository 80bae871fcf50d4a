"""Session summaries, by the model if there is one that answers, else by the rules; and the relations it reads out."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ingest.commands.decide import Caller, Relate, SummariseSession
from ingest.errors import NotFound
from ingest.ids import RELATION, DocumentId, relation_id
from ingest.log.position import Position, Token, partition_of, project_route, session_route
from projections.condensing.evidence import digest_of, fingerprint, observations_of, readable
from projections.condensing.llm.answers import RELATION_CHARS
from projections.condensing.llm.assistant import Assistant, Skipped
from projections.condensing.sessions import Digest, continued, digest
from projections.documents.access import Reader
from projections.documents.observations import Observation
from projections.documents.relations import Relation
from projections.documents.rows import derived
from projections.documents.sessions import Session, Summary, summary_id
from projections.operations.current import Current, Writing

Edge: TypeAlias = tuple[str, str, str]
"""Source, relation and target."""

EXTRACTED_CONFIDENCE = 0.6
"""Of a relation that a model read out of a summary."""


class RelationExtraction:
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


class Summarised(NamedTuple):
    """A session's digest and who made it (`model` empty: the rules).

    `fell_back`: why the model that was asked did not make it, or read no relations out of it; empty when it did.
    """

    digest: Digest
    model: str
    fell_back: str
    position: str


class SessionSummaries:
    """Makes a session's summary, and has the model read relations out of its own."""

    def __init__(self, current: Current, assistant: Assistant | None) -> None:
        self._current, self._assistant = current, assistant
        self._relations = RelationExtraction(current, assistant) if assistant is not None else None

    async def summarise(self, session: Session, caller: Caller, reader: Reader | None = None) -> Summarised:
        """Summarise a session, by the model if there is one that answers; raises NotFound without observations.

        While nothing new was observed, a model's summary stands: the model is not asked for it again, nor do the rules
        take its place. A reader's summary is made of what it may see; one made of several agents' observations is
        nobody's, so that in isolated scope nobody is shown it. Of retired observations it says what the summary said
        that there was, and goes on from there.
        """
        everything = await observations_of(self._current.documents, session)
        seen = readable(everything, reader)
        partial = len(seen) < len(everything)
        earlier = await self._earlier(session) if session.retired and not partial else None
        if earlier is not None and earlier.observation_count >= session.observation_count:
            return self._kept(session, earlier)
        if not seen:
            raise NotFound(f"session {session.session_id!r} has no observations to summarise")
        agents = {one.agent_id for one in seen}
        if len(agents) > 1:
            caller = caller._replace(agent_id="")
        covered = session.summarised == session.observation_count and not partial
        standing = await self._by_a_model(session) if covered else None
        if standing is not None and (self._assistant is None or self._assistant.model == standing.model):
            return await self._resumed(session, standing, caller)
        if earlier is not None:  # what it does not cover is the newest
            seen = seen[-(session.observation_count - earlier.observation_count) :]
        made, model, prompt_version, fell_back = await self._made_of(session, seen)
        if earlier is not None:
            made = continued(digest_of(earlier), made, session.observation_count)
        if standing is not None and not model:
            return self._kept(session, standing, fell_back)
        command = SummariseSession(
            event_id=f"summary:{session.id}:{session.observation_count}:{session.forgotten_at}:{model}"
            + (f":{fingerprint(*sorted(agents))}" if partial else ""),
            project=session.project,
            session_id=session.session_id,
            agent_id="" if len(agents) > 1 else caller.agent_id or session.agent_id,
            title=made.title,
            narrative=made.narrative,
            decisions=made.decisions,
            remaining=made.remaining,
            files=made.files,
            concepts=made.concepts,
            model=model,
            prompt_version=prompt_version,
            observation_count=session.observation_count,
            forgotten_at=session.told_from,
        )
        writing = Writing(self._current, caller)
        accepted = await writing.give(command)
        if model and accepted.duplicate and not partial and (first := await self._by_a_model(session)) is not None:
            return await self._resumed(session, first, caller)  # somebody asked for it at the same time
        if model and self._relations is not None:
            fell_back = await self._relations.extract(session, made, writing)
        return Summarised(made, model, fell_back, writing.position)

    async def _made_of(self, session: Session, seen: Sequence[Observation]) -> tuple[Digest, str, str, str]:
        """The digest, its model and prompt version, and why the rules made it though there is a model."""
        fell_back = ""
        if self._assistant is not None:
            answer = await self._assistant.summarise(session.tenant, seen)
            if not isinstance(answer, Skipped):
                made = Digest(
                    title=answer.title,
                    narrative=answer.narrative,
                    decisions=list(answer.decisions),
                    files=list(answer.files),
                    concepts=list(answer.concepts),
                    observation_count=len(seen),
                )
                return made, answer.model, answer.prompt_version, ""
            fell_back = str(answer)
        made = await asyncio.to_thread(digest, seen, session.title)
        assert made is not None  # there are observations
        return made, "", "", fell_back

    async def _by_a_model(self, session: Session) -> Summary | None:
        """The summary of all that a session has observed, if there is one and a model made it."""
        route = session_route(session.tenant, session.project, session.session_id)
        known = await self._current.get(route, summary_id(DocumentId(session.id)))
        if not isinstance(known, Summary) or not known.model or known.observation_count != session.observation_count:
            return None
        return known

    async def _earlier(self, session: Session) -> Summary | None:
        """The summary there is, of a session some of whose observations are retired: nothing else tells of them."""
        route = session_route(session.tenant, session.project, session.session_id)
        known = await self._current.get(route, summary_id(DocumentId(session.id)))
        return known if isinstance(known, Summary) else None

    def _kept(self, session: Session, standing: Summary, fell_back: str = "") -> Summarised:
        """A summary that is there already, as if it had been made now."""
        route = session_route(session.tenant, session.project, session.session_id)
        home = partition_of(route, self._current.documents.partitions)
        token = Token.of([(home, Position.parse(standing.position))])
        return Summarised(digest_of(standing), standing.model, fell_back, str(token))

    async def _resumed(self, session: Session, standing: Summary, caller: Caller) -> Summarised:
        """A summary that is there already; relations are read out of it if none were, as after an outage."""
        kept = self._kept(session, standing)
        if self._relations is None or await self._relations.were_extracted(session, standing):
            return kept
        writing = Writing(self._current, caller, kept.position)
        fell_back = await self._relations.extract(session, kept.digest, writing)
        return kept._replace(fell_back=fell_back, position=writing.position)
