"""Compile a context for an agent: lessons, past sessions, and what recall finds for its query."""

from typing import Annotated

from msgspec import Meta, Struct

from ingest.commands.requests import Name
from ingest.log.partitions import partition_of, project_route
from ingest.log.position import Token
from projections.context import Block, Context, compile_context, lessons_block, recall_block, session_block
from projections.documents.document import lessons, session_observations, sessions
from projections.documents.lessons import Lesson
from projections.documents.observations import Observation
from projections.documents.sessions import Session
from projections.index.service import ReplicaService
from projections.queries.documents import DocumentReader
from projections.queries.recall import WAIT_S, Recall, RecallRequest

PAST_SESSIONS = 10
OBSERVATIONS_READ = 50
"""Of each past session, its newest."""
LESSONS_READ = 200
"""Of the project, its newest, and as many of those that belong to no project."""
RECALLED = 20


class ContextRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For whom to compile, and how much room there is."""

    project: Name
    session_id: Name = ""
    query: Annotated[str, Meta(max_length=20_000)] = ""
    token_budget: Annotated[int, Meta(ge=1, le=200_000)] = 2000
    agent_id: Name = ""
    after: str = ""


class Compile:
    """Answers context requests."""

    def __init__(self, replica: ReplicaService, documents: DocumentReader, recall: Recall) -> None:
        self._replica, self._documents, self._recall = replica, documents, recall

    async def __call__(self, request: ContextRequest, tenant: str, reader: str = "") -> Context:
        """The context for a request; raises ProjectionBehind when `after` is not projected in time."""
        if request.after:
            await self._replica.wait_for(Token.parse(request.after), WAIT_S)
        blocks = [lessons_block(await self._lessons(tenant, request.project), request.project)]
        blocks += await self._sessions(tenant, request)
        if request.query.strip():
            blocks.append(await self._recalled(tenant, request, reader))
        return compile_context(request.project, blocks, request.token_budget)

    async def _lessons(self, tenant: str, project: str) -> list[Lesson]:
        found: list[Lesson] = []
        for place in dict.fromkeys([project, ""]):
            partition = partition_of(project_route(tenant, place), self._documents.partitions)
            page = await self._documents.page(
                lessons(tenant, place), [partition], cursor=None, limit=LESSONS_READ, newest_first=True
            )
            found += [one.document for one in page.documents if isinstance(one.document, Lesson)]
        return found

    async def _sessions(self, tenant: str, request: ContextRequest) -> list[Block | None]:
        page = await self._documents.page(
            sessions(tenant, request.project),
            range(self._documents.partitions),
            cursor=None,
            limit=PAST_SESSIONS + 1,
            newest_first=True,
        )
        blocks: list[Block | None] = []
        for partition, session in page.documents:
            if isinstance(session, Session) and session.session_id != request.session_id:
                seen = await self._documents.page(
                    session_observations(session.id),
                    [partition],
                    cursor=None,
                    limit=OBSERVATIONS_READ,
                    newest_first=True,
                )
                observations = [one.document for one in seen.documents if isinstance(one.document, Observation)]
                blocks.append(session_block(session.session_id, observations))
        return blocks[:PAST_SESSIONS]

    async def _recalled(self, tenant: str, request: ContextRequest, reader: str) -> Block | None:
        wanted = RecallRequest(query=request.query, project=request.project, limit=RECALLED)
        answer = await self._recall(wanted, tenant, reader or request.agent_id)
        found = [(result.id, result.content) for result in answer.results]
        return recall_block(request.query, found, request.token_budget)
