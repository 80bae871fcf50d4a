"""arq job: sessions that were silent for long are retired: their observations leave Redis, but not the log.

A session is retired when it has ended and its summary covers all that it has (or there is nothing to summarise). It
goes in events that name up to 500 documents each, with ids made of what they name: two workers, or a crash, retire
nothing twice.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from ingest.commands.decide import Caller, RetireSession
from ingest.errors import MnemologError
from ingest.events.session import MAX_RETIRED
from ingest.ids import DocumentId
from ingest.log.keys import embedding
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.condensing.summaries import fingerprint
from projections.documents.document import searchable_text
from projections.documents.observations import Observation, session_observations
from projections.documents.sessions import RETIRABLE, Session
from projections.documents.tombstones import Ledger, count_of, entries, ledger_id
from projections.embedding.live import models_of
from projections.operations.current import Current
from projections.vectors.embedder import Embedders, cache_key, chunk

logger = logging.getLogger(__name__)

SESSIONS_AT_ONCE = 8
"""So many events, of up to 500 documents, may meet in one batch of a partition's runner: the next ones wait for it."""
PAGE = 200
SLICE_S = 120.0
"""What is left then is retired in the next run."""
SOURCE = "upkeep"


class RetireJob:
    """Retires sessions of every partition that nothing was heard of for `retain`."""

    def __init__(
        self, redis: Client, current: Current, embedders: Embedders, retain: timedelta, clock: Clock = system_clock
    ) -> None:
        """Cached vectors of what is retired are deleted, by any of the `embedders`: so nothing need purge them."""
        self._redis, self._current, self._embedders = redis, current, embedders
        self._retain, self._clock = retain, clock

    async def run(self, slice_s: float = SLICE_S) -> int:
        """Retire every session that is due, until the time is over; returns how many observations were retired."""
        until = asyncio.get_running_loop().time() + slice_s
        high = f"({to_ms(self._clock() - self._retain):014d}|".encode()
        retired = sessions = 0
        async for partition, due in self._due(high):
            counts = await asyncio.gather(*(self._guarded(partition, one) for one in due))
            retired, sessions = retired + sum(counts), sessions + len(due)
            try:
                if due:
                    await self._settled(due[0])
            except MnemologError as error:
                logger.warning("no more sessions are retired in this run: %s", error)
                break
            if asyncio.get_running_loop().time() >= until:
                logger.info("sessions that are left are retired in the next run")
                break
        if sessions:
            logger.info("retired %d observations of %d sessions", retired, sessions)
        return retired

    async def _due(self, high: bytes) -> AsyncIterator[tuple[int, list[Session]]]:
        """Sessions that are to be retired, with their partition, a few at a time."""
        reader = self._current.documents
        for partition in range(reader.partitions):
            low = b"-"
            while members := await reader.range(RETIRABLE, partition, low, high, SESSIONS_AT_ONCE):
                names = [DocumentId(member.rpartition("|")[2]) for member in members]
                found = await reader.get([(partition, name) for name in names])
                yield partition, [one for one in found if isinstance(one, Session)]
                low = b"(" + members[-1].encode()

    async def _guarded(self, partition: int, session: Session) -> int:
        """How many observations were retired. A fault of one session must not hold up the others."""
        try:
            return await self._retire(partition, session)
        except MnemologError as error:
            logger.warning("session %s: not retired: %s", session.id, error)
        except Exception:  # a fault of ours
            logger.exception("session %s: not retired", session.id)
        return 0

    async def _retire(self, partition: int, session: Session) -> int:
        part, room = await self._room(partition, session)
        names: list[str] = []
        retired = 0
        async for some, observations in self._names(partition, session):
            retired += observations
            names += some
            while len(names) > room:
                await self._give(session, names[:room], part)
                await self._settled(session)
                part, room, names = part + 1, MAX_RETIRED, names[room:]
        await self._give(session, names, part, session.seen_ms)
        return retired

    async def _settled(self, session: Session) -> None:
        """Wait until what was given for sessions of a partition is projected."""
        await self._current.settle_session(session.tenant, session.project, session.session_id)

    async def _room(self, partition: int, session: Session) -> tuple[int, int]:
        """The part of the session's ledger that has room, and for how many; a new one when the last is full."""
        reader = self._current.documents
        (first,) = await reader.get([(partition, ledger_id(session.id))])
        if not isinstance(first, Ledger):
            return 0, MAX_RETIRED
        (last,) = await reader.get([(partition, ledger_id(session.id, first.parts - 1))])
        room = MAX_RETIRED - count_of(last) if isinstance(last, Ledger) else 0
        return (first.parts - 1, room) if room > 0 else (first.parts, MAX_RETIRED)

    async def _names(self, partition: int, session: Session) -> AsyncIterator[tuple[list[str], int]]:
        """Ids of observations with their marks, then of the session's own marks; and how many observations these are.

        Vectors of the observations leave the cache as they are met.
        """
        reader = self._current.documents
        cursor: str | None = None
        while True:
            page = await reader.page(
                session_observations(session.id), [partition], cursor=cursor, limit=PAGE, newest_first=False
            )
            seen = [one.document for one in page.documents if isinstance(one.document, Observation)]
            marks = await reader.members_of([entries(one.id) for one in seen], [partition])
            await self._drop_vectors(seen)
            yield [*(one.id for one in seen), *marks], len(seen)
            if (cursor := page.next) is None:
                break
        while True:
            page = await reader.page(entries(session.id), [partition], cursor=cursor, limit=PAGE, newest_first=False)
            yield [one.document.id for one in page.documents], 0
            if (cursor := page.next) is None:
                break

    async def _drop_vectors(self, seen: Sequence[Observation]) -> None:
        texts = {part for one in seen for part in chunk(searchable_text(one))}
        models = await models_of(self._redis, self._embedders.current)
        async with self._redis.pipeline(transaction=False) as pipe:
            for text in texts:
                for model in models:
                    pipe.unlink(embedding(cache_key(model, text)))
            await pipe.execute()

    async def _give(self, session: Session, names: Sequence[str], part: int, idle_since_ms: int = 0) -> None:
        command = RetireSession(
            event_id=f"retire:{fingerprint(session.id, str(part), str(idle_since_ms), *names)}",
            project=session.project,
            session_id=session.session_id,
            documents=list(names),
            part=part,
            idle_since_ms=idle_since_ms,
        )
        await self._current.give(command, Caller(session.tenant, SOURCE))
