"""What the routes work with, put on the application by its composition root."""

from typing import NamedTuple

from starlette.requests import Request

from ingest.commands.decide import Caller
from ingest.commands.handler import CommandHandler
from projections.index.service import ReplicaService
from projections.queries import Queries

READER_HEADER = "x-agent-id"


class Services(NamedTuple):
    """The write side, the questions, and who the callers are."""

    commands: CommandHandler
    queries: Queries
    replica: ReplicaService
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
