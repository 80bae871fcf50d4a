"""What the routes work with, put on the application by its composition root."""

from typing import Any, NamedTuple, Protocol

from starlette.requests import Request

from ingest.commands.decide import Caller
from ingest.commands.handler import CommandHandler
from projections.index.service import ReplicaService
from projections.queries import Queries

READER_HEADER = "x-agent-id"


class Jobs(Protocol):
    """Orders to the workers."""

    async def enqueue(self, name: str, *args: Any, job_id: str) -> bool:
        """Queue a job; false when one with this id is waiting or running."""
        ...


class Services(NamedTuple):
    """The write side, the questions, the workers' queue, and who the callers are."""

    commands: CommandHandler
    queries: Queries
    replica: ReplicaService
    jobs: Jobs
    tenant: str


def services(request: Request) -> Services:
    """The services of the running application."""
    return request.app.state.services


def caller(request: Request, source: str = "native") -> Caller:
    """On whose behalf a request acts; `X-Agent-Id` names the agent where the body does not."""
    return Caller(services(request).tenant, source, reader(request))


def reader(request: Request) -> str:
    """Who reads: the `X-Agent-Id` header, or nobody in particular."""
    return request.headers.get(READER_HEADER, "")
