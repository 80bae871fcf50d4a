"""The arq jobs of forgetting: requests to forget are carried out, silent sessions are retired."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from msgspec.structs import replace

from ingest.commands.decide import Caller, RetireSession
from ingest.errors import MnemologError
from ingest.events.session import MAX_RETIRED
from ingest.ids import DocumentId, new_event_id
from ingest.log.archive.archive import count_erased
from ingest.log.keys import FORGET_LEASE, JOB_LEASE_TTL, embedding
from ingest.log.lease import lease
from ingest.log.position import Token
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.condensing.summaries import fingerprint
from projections.documents.access import Reader
from projections.documents.document import searchable_text
from projections.documents.observations import Observation, session_observations
from projections.documents.sessions import RETIRABLE, Session
from projections.documents.tombstones import Ledger, count_of, entries, ledger_id
from projections.embedding.live import models_of
from projections.forgetting.forget import Forgetting, Forgotten, Samples
from projections.forgetting.purge import Purge
from projections.forgetting.receipts import Receipt, all_receipts, load_receipt, save_receipt
from projections.operations.current import Current
from projections.queries.sessions import find_session
from projections.vectors.embedder import Embedders, cache_key, chunk

logger = logging.getLogger(__name__)

PASSES = 3
"""What was moved about in a listing while it was read is found by looking again."""


class EraseDeadLetters(Protocol):
    """Erases the dead letters up to `until` whose event is of a subject; returns how many."""

    async def __call__(
        self, is_subject: Callable[[Mapping[str, Any]], bool], until: Token, tenant: str, *, reason: str, agent_id: str
    ) -> int: ...


class NotPurged(MnemologError):
    """What was made of forgotten texts could not be deleted yet."""

    code = "not_purged"


class Unnamed(MnemologError):
    """The receipt does not say what to forget."""

    code = "unnamed"


class ForgetJob:
    """Carries out the pending receipts; one worker at a time."""

    def __init__(
        self,
        redis: Client,
        current: Current,
        purge: Purge,
        wait: Callable[[Token], Awaitable[None]],
        erase_dead_letters: EraseDeadLetters,
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self._current = redis, current
        self._purge, self._wait, self._erase_dead_letters, self._clock = purge, wait, erase_dead_letters, clock
        self._id = str(new_event_id())

    async def run(self) -> int:
        """Carry out every request that is not done, once; returns how many were.

        None while another worker is at it, who also takes those that are made meanwhile.
        """
        done = 0
        tried: set[str] = set()
        while await self._waiting(tried):  # also what was asked for while the lease was being given up
            # one worker at a time, or both would count what went; `_save` covers a lease that ran out
            async with lease(self._redis, FORGET_LEASE, self._id, JOB_LEASE_TTL) as mine:
                if not mine:
                    break
                while waiting := await self._waiting(tried):
                    for receipt in waiting:
                        tried.add(receipt.id)
                        done += await self._carry_out(receipt)
        return done

    async def _waiting(self, tried: Collection[str]) -> list[Receipt]:
        receipts = await all_receipts(self._redis)
        return [receipt for receipt in receipts if receipt.status != "done" and receipt.id not in tried]

    async def _carry_out(self, receipt: Receipt) -> bool:
        receipt = replace(receipt, status="running", attempts=receipt.attempts + 1, error="")
        await self._save(receipt)
        try:
            # kept in the receipt before anything is appended: a repeat must not take what was recorded since
            if not receipt.until:
                receipt = replace(receipt, until=str(await self._current.settle()))
                await self._save(receipt)
            finished = await self._forget(receipt)
        except Exception as error:  # the receipt says why; the job is run again
            logger.exception("forgetting %s %s failed", receipt.kind, receipt.subject)
            so_far = await load_receipt(self._redis, receipt.id) or receipt
            await self._save(replace(so_far, status="pending", error=repr(error)[:500]))
            return False
        await self._save(finished)
        logger.info("forgot %s %s: %s", receipt.kind, receipt.subject, finished.removed.documents)
        return True

    async def _save(self, receipt: Receipt) -> None:
        """Write a receipt, but never over one that is done: by another worker, to whom this one lost its lease."""
        stored = await load_receipt(self._redis, receipt.id)
        if stored is None or stored.status != "done":
            await save_receipt(self._redis, receipt)

    async def _forget(self, receipt: Receipt) -> Receipt:
        if not receipt.name and not (receipt.kind == "project" and receipt.nameless):
            raise Unnamed(f"the receipt does not name the {receipt.kind}")
        caller = Caller(receipt.tenant, "forget", receipt.agent_id)
        until = Token.parse(receipt.until) if receipt.until else Token()
        samples = Samples()
        forgetting = Forgetting(self._current, samples)
        options = {"reason": receipt.reason, "event_id": receipt.id}
        for _ in range(PASSES):
            match receipt.kind:
                case "user":
                    step = forgetting.user(receipt.name, caller, until=until, **options)
                case "project":
                    step = forgetting.project(receipt.name, caller, until=until, **options)
                case "session":
                    session = await find_session(self._current.documents, receipt.tenant, receipt.name, receipt.project)
                    if session is None:
                        break
                    step = forgetting.session(session, caller, until=until, **options)
                case _:
                    operator = Reader(receipt.tenant, operator=True)
                    step = forgetting.documents([receipt.name], operator, caller, reason=receipt.reason)
            receipt, count = await self._counted(receipt, step)
            if not count:
                break
        step = forgetting.made_of(list(samples.names), receipt.kind, receipt.subject, caller, **options)
        receipt, _ = await self._counted(receipt, step)
        receipt, _ = await self._counted(receipt, self._parked(receipt, until))
        # only when all tombstones are projected: the purge deletes what the folds have noted
        removed = await self._purge.run()
        if not removed.snapshot:
            raise NotPurged("no snapshot could be written, so the old ones are still there")
        probe = await self._purge.probe(receipt.tenant, list(samples.names), samples.texts)
        if probe.found:
            raise NotPurged(f"{probe.found} documents are still found")
        so_far = receipt.removed
        return replace(
            receipt,
            status="done",
            name="",
            finished_at=self._clock(),
            removed=replace(removed, documents=so_far.documents, log_entries=so_far.log_entries),
            probe=probe,
        )

    async def _counted(self, receipt: Receipt, step: Awaitable[Forgotten]) -> tuple[Receipt, int]:
        """The receipt with what a step forgot, which is saved once that is projected; and how much it was."""
        partitions = self._current.documents.partitions
        before = await count_erased(self._redis, partitions)
        forgotten = await step
        if forgotten.position:
            await self._wait(Token.parse(forgotten.position))
        documents = Counter(receipt.removed.documents)
        documents.update(forgotten.documents)
        entries = receipt.removed.log_entries + await count_erased(self._redis, partitions) - before
        removed = replace(receipt.removed, documents=dict(documents), log_entries=entries)
        receipt = replace(receipt, removed=removed)
        await self._save(receipt)
        return receipt, forgotten.total

    async def _parked(self, receipt: Receipt, until: Token) -> Forgotten:
        """Discard and erase the dead letters whose events say that they are of the subject.

        An unreadable event does not say whose it is: it stays until someone discards it.
        """
        count = await self._erase_dead_letters(
            lambda event: _is_of(event, receipt), until, receipt.tenant, reason="forgotten", agent_id=receipt.agent_id
        )
        return Forgotten(event_id=receipt.id, documents={"dead_letter": count} if count else {}, position="")


def _is_of(event: Mapping[str, Any], receipt: Receipt) -> bool:
    """Whether an event, as far as it can be read, is of the subject of a receipt."""
    match receipt.kind:
        case "user":
            return event.get("user_id") == receipt.name
        case "session":
            return (event.get("session_id"), event.get("project")) == (receipt.name, receipt.project)
        case "project":
            return "type" in event and event.get("project") == receipt.name
        case _:
            return False


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
            seen = [document.document for document in page.documents if isinstance(document.document, Observation)]
            marks = await reader.members_of([entries(one.id) for one in seen], [partition])
            await self._drop_vectors(seen)
            yield [*(one.id for one in seen), *marks], len(seen)
            if (cursor := page.next) is None:
                break
        while True:
            page = await reader.page(entries(session.id), [partition], cursor=cursor, limit=PAGE, newest_first=False)
            yield [document.document.id for document in page.documents], 0
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
