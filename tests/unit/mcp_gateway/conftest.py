"""A door with a real write side over a log in memory, and questions that answer from a script."""

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from factories import NOW, ManualClock

from ingest.commands.handler import CommandHandler
from ingest.errors import ProjectionBehind
from ingest.log.group_commit import GroupCommit
from ingest.log.memory_log import MemoryLog
from mcp_gateway.last_writes import LastWrites
from mcp_gateway.tools.tool import Door
from projections.context import Block, Context
from projections.queries import ContextRequest, Queries, RecallAnswer, RecallRequest, RecallResult


class ScriptedQueries:
    """Answers what it is told to and keeps what it was asked; `behind` makes waiting reads fail."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str, str]] = []
        self.results: list[RecallResult] = []
        self.behind = False
        self.fault: Exception | None = None

    async def recall(self, request: RecallRequest, tenant: str, reader: str = "") -> RecallAnswer:
        self._take(request, tenant, reader)
        return RecallAnswer(results=self.results, took_ms=1.0, lag={}, degraded=[])

    async def context(self, request: ContextRequest, tenant: str, reader: str = "") -> Context:
        self._take(request, tenant, reader)
        block = Block("lessons", "Lessons", "## Lessons\n- (0.50) wash up", 10, ["lsn_1"])
        return Context("<mnemolog-context/>", [block], 10, request.token_budget, ["Session s1"])

    def _take(self, request: RecallRequest | ContextRequest, tenant: str, reader: str) -> None:
        self.asked.append((request, tenant, reader))
        if self.fault is not None:
            raise self.fault
        if self.behind and request.after:
            raise ProjectionBehind(1.0, {0: 3})

    def as_queries(self) -> Queries:
        return Queries(cast("Any", self.recall), cast("Any", self.context), cast("Any", None))


@pytest.fixture
def queries() -> ScriptedQueries:
    return ScriptedQueries()


@pytest.fixture
async def commands(clock: ManualClock) -> AsyncIterator[CommandHandler]:
    log = GroupCommit(MemoryLog(4, clock.ms))
    yield CommandHandler(log, 4, clock)
    await log.aclose()


@pytest.fixture
def door(commands: CommandHandler, queries: ScriptedQueries) -> Door:
    return Door(commands, queries.as_queries(), "default", LastWrites())


@pytest.fixture
def result() -> Callable[..., RecallResult]:
    """A recalled document; every field has a default."""

    def make(**fields: Any) -> RecallResult:
        defaults: dict[str, Any] = {
            "id": "mem_1",
            "kind": "memory",
            "score": 0.9,
            "title": "Tea",
            "content": "Ada drinks tea.",
            "session_id": None,
            "agent_id": None,
            "project": "atlas",
            "occurred_at": NOW,
            "metadata": {},
        }
        return RecallResult(**{**defaults, **fields})

    return make
