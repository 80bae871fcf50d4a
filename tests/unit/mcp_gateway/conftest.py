"""A door with a real write side over a log in memory, and questions that answer from a script."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from factories import NOW, ManualClock
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from ingest.commands.handler import Accepted, CommandHandler
from ingest.errors import ProjectionBehind
from ingest.ids import DocumentId
from ingest.log.group_commit import GroupCommit
from ingest.nouns.action import ReleaseClaim
from mcp_gateway.tools.tool import Call, LastWrites
from projections.forgetting.forget import Forgotten
from projections.nouns.access import Reader
from projections.nouns.memory import Memory
from projections.nouns.slot import Slot, default_slots
from projections.operations.work import Confirmed
from projections.queries.context import Block, Context, ContextRequest
from projections.queries.documents import Located
from projections.queries.memory import RememberAnswer
from projections.queries.recall import RecallAnswer, RecallRequest, RecallResult
from projections.search.question import certainty
from projections.services import Operations, Queries
from tests.support.memory_log import MemoryLog


def memory(name: str, **fields: Any) -> Memory:
    """A memory; every field has a default."""
    usual: dict[str, Any] = {"content": "Ada drinks tea.", "title": "Tea", "project": "atlas", "agent_id": "ada"}
    usual |= dict.fromkeys(("updated_at", "occurred_at", "recorded_at"), NOW)
    return Memory(id=DocumentId(name), event_id="e", tenant="default", position="1-0", **{**usual, **fields})


class ScriptedContext:
    """Compiles contexts, and counts no recalls."""

    def __init__(self, compile: Callable[[ContextRequest, Reader], Awaitable[Context]]) -> None:
        self._compile = compile

    async def __call__(self, request: ContextRequest, reader: Reader) -> Context:
        return await self._compile(request, reader)

    def count_recall(self, tenant: str, project: str | None) -> None:
        pass


class ScriptedQueries:
    """Answers what it is told to and keeps what it was asked; `behind` makes waiting reads fail."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Reader]] = []
        self.waited: list[str] = []
        self.results: list[RecallResult] = []
        self.confidence: float | None = None
        self.documents: list[Memory] = []
        self.superseded: list[str] | UnsetType = UNSET
        self.similar: list[str] | UnsetType = UNSET
        self.whole: dict[str, str] = {}
        """Whole ids by shortened ones."""
        self.behind = False
        self.fault: Exception | None = None

    async def recall(self, request: RecallRequest, reader: Reader) -> RecallAnswer:
        self._take(request, reader)
        sure = self.confidence
        return RecallAnswer(
            results=self.results, confidence=sure, certainty=certainty(sure), took_ms=1.0, lag={}, degraded=[]
        )

    async def context(self, request: ContextRequest, reader: Reader) -> Context:
        self._take(request, reader)
        block = Block("lessons", "Lessons", "## Lessons\n- (0.50) wash up", 10, ["lsn_1"])
        return Context("<mnemolog-context/>", [block], 10, request.token_budget, ["Session s1"])

    async def found(self, names: Sequence[str], reader: Reader) -> list[Located]:
        self.asked.append((names, reader._replace(now=None)))
        known = {str(document.id): document for document in self.documents}
        return [Located(0, known[name]) for name in names if name in known]

    async def slots(self, reader: Reader, project: str) -> list[Slot]:
        self._take(None, reader)
        return list(default_slots(reader.tenant, project).values())

    async def answer_to(self, accepted: Accepted, reader: Callable[[], Reader]) -> RememberAnswer:
        return RememberAnswer(**asdict(accepted), superseded=self.superseded, similar=self.similar)

    async def wait_for_own_writes(self, after: str) -> None:
        self.waited.append(after)
        if self.behind:
            raise ProjectionBehind(1.0, {0: 3})

    def _take(self, request: RecallRequest | ContextRequest | None, reader: Reader) -> None:
        self.asked.append((request, reader._replace(now=None)))
        if self.fault is not None:
            raise self.fault
        if self.behind and request is not None and request.after:
            raise ProjectionBehind(1.0, {0: 3})

    async def whole_ids(self, names: Sequence[str], reader: Reader) -> list[str]:
        return [self.whole.get(name, name) for name in names]

    def as_queries(self) -> Queries:
        fields: dict[str, Any] = dict.fromkeys(Queries._fields)
        slots, log = (
            SimpleNamespace(of_project=self.slots),
            SimpleNamespace(wait_for_own_writes=self.wait_for_own_writes),
        )
        fields |= {"recall": self.recall, "context": ScriptedContext(self.context), "slots": slots, "log": log}
        fields["lookup"] = SimpleNamespace(documents=self.found, whole_ids=self.whole_ids)
        fields["memories"] = SimpleNamespace(answer_to=self.answer_to)
        return Queries(**fields)


class ScriptedOperations:
    """Carries out what native tools ask for, on documents that are always there."""

    def __init__(self, commands: CommandHandler) -> None:
        self._commands = commands
        self.asked: list[tuple[Any, ...]] = []

    async def document(self, name: str, reader: Reader, caller: Any, **said: Any) -> Forgotten:
        self.asked.append((name, reader, caller, said))
        return Forgotten(event_id=said["event_id"], documents={"memory": 1}, position="1:7-0")

    async def confirm(self, names: Sequence[str], reader: Reader, caller: Any, event_id: str) -> Confirmed:
        self.asked.append((names, reader, caller, event_id))
        return Confirmed(event_id=event_id, confirmed=list(names), unknown=[], position="1:7-0")

    async def change(self, name: str, changes: Any, reader: Reader, caller: Any) -> Any:
        from ingest.commands.decide import Remember

        self.asked.append((name, changes, reader, caller))
        return await self._commands.handle(Remember(content="revised", event_id=changes.event_id), caller)

    async def set(self, command: Any, caller: Any) -> Any:
        self.asked.append((command, caller))
        return await self._commands.handle(command, caller)

    async def delete(self, command: Any, caller: Any) -> Any:
        self.asked.append((command, caller))
        return await self._commands.handle(command, caller)

    async def release(self, name: str, token: str, reader: Reader, caller: Any, event_id: str) -> Any:
        self.asked.append((name, token, reader, caller, event_id))
        return await self._commands.handle(ReleaseClaim(event_id=event_id, action=name, token=token), caller)

    async def get(self, reader: Reader, project: str, label: str) -> Slot:
        return Slot(label=label, content="as it is", project=project)

    def as_operations(self) -> Operations:
        mine = cast("Any", self)
        return Operations(*[mine] * len(Operations._fields))


@pytest.fixture
def queries() -> ScriptedQueries:
    return ScriptedQueries()


@pytest.fixture
async def commands(clock: ManualClock) -> AsyncIterator[CommandHandler]:
    log = GroupCommit(MemoryLog(4, clock.ms))
    yield CommandHandler(log, 4, clock)
    await log.aclose()


@pytest.fixture
def operations(commands: CommandHandler) -> ScriptedOperations:
    return ScriptedOperations(commands)


@pytest.fixture
def call(commands: CommandHandler, queries: ScriptedQueries, operations: ScriptedOperations) -> Call:
    return Call(commands, queries.as_queries(), operations.as_operations(), "default", LastWrites())


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
        given: dict[str, Any] = {**defaults, **fields}
        given.setdefault("snippet", " ".join(given["content"].split()))
        return RecallResult(**given)

    return make
