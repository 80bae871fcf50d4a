"""The read ledger: which documents each answer gave to which agent, when, and what for.

It answers who was told something that turned out to be wrong, and decides whose judgment of a document counts. It is
not in the log: a bounded stream per project, without queries. Entries are written a moment later, many at once, and a
failure to write them fails no read.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from redis.exceptions import RedisError

from ingest.ids import new_event_id
from ingest.log.keys import reads_key
from ingest.log.position import Position
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from ingest.secrets.clean import clean_agent
from projections.nouns.access import Reader

logger = logging.getLogger(__name__)

Purpose = Literal["recall", "prompt", "context", "tool"]
EVERY_S = 0.2
"""How late an entry is written."""
MOST_WAITING = 10_000
"""Entries that wait to be written; further ones are lost, and counted."""
PAGE = 1_000
LOOKED_AT = 20_000
"""The newest entries in which a judged document is looked for."""


class Read(Struct, frozen=True, array_like=True):
    """One answer: its id, the agent that got it, what for, and the documents of this project in it."""

    recall_id: str
    agent_id: str
    purpose: Purpose
    documents: list[str]


class SeenRead(Struct, frozen=True):
    """An answer that gave a document to an agent."""

    recall_id: str
    agent_id: str
    purpose: Purpose
    at: datetime


NoteRead: TypeAlias = Callable[[Reader, Purpose, Iterable[tuple[str, str]]], str]


def unnoted(reader: Reader, purpose: Purpose, documents: Iterable[tuple[str, str]]) -> str:
    """Note nothing: for answers that no agent gets."""
    return ""


class ReadLedger:
    """Notes what answers gave to agents, and looks it up."""

    def __init__(self, redis: Client, most: int) -> None:
        """`most` is the number of entries of a project; 0 notes nothing."""
        self._redis, self._most = redis, most
        self._waiting: list[tuple[str, bytes]] = []
        self._task: asyncio.Task[None] | None = None
        self.lost = 0
        """Entries that could not be written."""

    def note(self, reader: Reader, purpose: Purpose, documents: Iterable[tuple[str, str]]) -> str:
        """Note the documents of an answer, each with its project; returns the id of the answer."""
        recall_id = str(new_event_id())
        by_project: dict[str, list[str]] = {}
        for project, name in documents:
            by_project.setdefault(project, []).append(name)
        for project, names in by_project.items() if self._most else ():
            if len(self._waiting) >= MOST_WAITING:
                self.lost += 1
                continue
            agent_id = clean_agent(reader.agent_id, "replace")
            entry = msgspec.msgpack.encode(Read(recall_id, agent_id, purpose, names))
            self._waiting.append((reads_key(reader.tenant, project), entry))
        if self._waiting and self._task is None:
            self._task = asyncio.create_task(self._write_later(), name="read-ledger")
        return recall_id

    async def aclose(self) -> None:
        """Write what waits."""
        await end(self._task)
        await self._write()

    async def given_to(self, tenant: str, project: str, agent_id: str, recall_id: str = "") -> set[str]:
        """The documents of a project that an agent was given: by one answer, or by any of the newest LOOKED_AT."""
        await self._write()
        agent_id, documents = clean_agent(agent_id, "replace"), set[str]()
        before, looked_at = "+", 0
        while looked_at < LOOKED_AT and (page := await self._page(tenant, project, before)):
            for read in page.values():
                if read.agent_id == agent_id and recall_id in ("", read.recall_id):
                    documents.update(read.documents)
            if documents and recall_id:
                break
            before, looked_at = f"({list(page)[-1]}", looked_at + len(page)
        return documents

    async def of_document(
        self, tenant: str, project: str, name: str, cursor: str | None, limit: int
    ) -> tuple[list[SeenRead], str | None]:
        """The answers that gave a document to an agent, newest first; and the cursor of older ones, None at the end."""
        await self._write()
        seen: list[SeenRead] = []
        before = f"({Position.parse(cursor)}" if cursor else "+"
        while page := await self._page(tenant, project, before):
            for position, read in page.items():
                if name in read.documents:
                    at = Position.parse(position).recorded_at
                    seen.append(SeenRead(read.recall_id, read.agent_id, read.purpose, at))
                if len(seen) == limit:
                    return seen, position
            before = f"({list(page)[-1]}"
        return seen, None

    async def _page(self, tenant: str, project: str, before: str) -> dict[str, Read]:
        """The entries before a position, newest first, by position."""
        rows = await self._redis.xrevrange(reads_key(tenant, project), max=before, count=PAGE)
        return {position.decode(): msgspec.msgpack.decode(fields[b"r"], type=Read) for position, fields in rows}

    async def _write_later(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(EVERY_S)
                await self._write()
        finally:
            self._task = None

    async def _write(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []  # answers that are given meanwhile wait for the next turn
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key, entry in waiting:
                    pipe.xadd(key, {"r": entry}, maxlen=self._most, approximate=True)
                await pipe.execute()
        except (RedisError, OSError) as error:
            self.lost += len(waiting)
            logger.warning("%d entries of the read ledger are lost: %s", len(waiting), error)
