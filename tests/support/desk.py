"""A log, its documents and an index on a real server, and everything that may be asked of them.

Commands are appended by the command handler and folded when the test says `settle`, after which all of it can be found.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from factories import AGENT, PROJECT, TENANT
from fixed_embedder import FixedEmbedder

from ingest.commands.decide import AnyCommand, Caller, ForgetSubject, Observe, RecordLesson, Remember
from ingest.commands.handler import CommandHandler
from ingest.ids import new_event_id
from ingest.kinds import SubjectKind
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import Token
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.nouns.registry import decode
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client, connect
from projections.index.service import ReplicaService
from projections.nouns.access import Reader
from projections.queries.documents import DocumentReader
from projections.queries.lookup import Lookup
from projections.queries.recall import Recall
from projections.store.protocol import project
from projections.store.redis_store import RedisStore
from projections.vectors.embedder import NoEmbedder

PARTITIONS = 3
ADA, BOB, NOBODY = Reader(TENANT, AGENT), Reader(TENANT, "bob"), Reader(TENANT)
ALONE = Reader(TENANT, "bob", "isolated")
STRANGER = Reader("elsewhere", AGENT)
"""Of another tenant."""


class Desk:
    """Writes as ada, in project atlas, unless told otherwise. There is no embedder: words only."""

    def __init__(self, redis: Client, replica: ReplicaService) -> None:
        self.redis, self.replica = redis, replica
        self.log = RedisLog(redis, PARTITIONS)
        self.documents = DocumentReader(redis, PARTITIONS)
        self.lookup = Lookup(replica, self.documents)
        self.recall = Recall(replica, self.documents)
        self._handler = CommandHandler(GroupCommit(self.log), PARTITIONS)
        self._fences: dict[int, int] = {}

    async def say(self, command: AnyCommand, tenant: str = TENANT) -> str:
        """Append what a command becomes, a millisecond after the one before; returns its document's id."""
        await asyncio.sleep(0.002)
        return (await self._handler.handle(command, Caller(tenant))).id

    async def remember(self, content: str, *, tenant: str = TENANT, agent_id: str = AGENT, **text: Any) -> str:
        """Keep a memory."""
        fields: dict[str, Any] = {"project": PROJECT, "keep_duplicates": True, **text}
        return await self.say(Remember(content=content, agent_id=agent_id, **fields), tenant)

    async def observe(self, content: str, when: datetime | None = None, *, tenant: str = TENANT, **text: Any) -> str:
        """Report an observation; it happened now unless said when."""
        fields: dict[str, Any] = {"project": PROJECT, "session_id": "s1", "agent_id": AGENT, **text}
        command = Observe(content=content, occurred_at=when or system_clock(), **fields)
        return await self.say(command, tenant)

    async def edit(self, path: str, output: str = "", **text: Any) -> str:
        """Report that a tool edited a file."""
        data = {"tool_name": "Edit", "tool_input": {"file_path": path}, "tool_output": output}
        return await self.observe("", data=data, **text)

    async def learn(self, content: str, *, tenant: str = TENANT, **text: Any) -> str:
        """State a lesson."""
        fields: dict[str, Any] = {"project": PROJECT, "agent_id": AGENT, **text}
        return await self.say(RecordLesson(content=content, **fields), tenant)

    async def forget(self, kind: SubjectKind, subject: str, **text: Any) -> None:
        """Forget a document and wait until it is gone."""
        await self.say(ForgetSubject(kind=kind, subject=subject, project=PROJECT, event_id=new_event_id(), **text))
        await self.settle()

    async def settle(self) -> None:
        """Fold all that was said; it can be found then."""
        token = Token()
        for partition in range(PARTITIONS):
            keys = PartitionKeys(partition)
            if partition not in self._fences:
                self._fences[partition] = await acquire_lease(self.redis, keys, "desk", 600_000)
            store = RedisStore(self.redis, keys, 1, self._fences[partition])
            while rows := await self.log.read(partition, await store.checkpoint(), 100):
                changes = await project(store, [decode(row.payload, row.position) for row in rows])
                await store.save(changes, rows[-1].position)
            token.include(partition, await self.log.head(partition))
        await self.replica.wait_for(token, 30)


@asynccontextmanager
async def opened_desk(redis: Client, url: str, folder: Path) -> AsyncGenerator[Desk]:
    """A desk with an index of its own."""
    feeds = connect(url, connections=PARTITIONS + 4)
    replica = ReplicaService(feeds, PARTITIONS, folder / "snapshots", FixedEmbedder(NoEmbedder()), "desk")
    replica.start()
    desk = Desk(redis, replica)
    try:
        await desk.log.create_or_check()
        await replica.wait_ready(30)
        yield desk
    finally:
        desk.recall.close()
        await replica.aclose()
        await feeds.aclose()
