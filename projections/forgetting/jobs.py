"""The arq jobs of forgetting: requests to forget are carried out, silent sessions are retired."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from msgspec.structs import replace

from ingest.commands.decide import Caller, RetireSession
from ingest.errors import MnemologError
from ingest.ids import DocumentId, new_event_id
from ingest.log.archived import count_erased
from ingest.log.keys import FORGET_LEASE, embedding, reads_key
from ingest.log.lease import lease
from ingest.log.position import Token
from ingest.nouns.session import MAX_RETIRED
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.condensing.summaries import fingerprint
from projections.embedding.live import models_of
from projections.forgetting.forget import Forgetting, Forgotten, Samples
from projections.forgetting.purge import Purge
from projections.nouns.document import searchable_text
from projections.nouns.observation import Observation, session_observations
from projections.nouns.session import RETIRABLE, Session
from projections.nouns.tombstone import Ledger, count_of, entries, ledger_id
from projections.operations.current import Current
from projections.queries.session import find_session
from projections.store.receipts import Receipt, all_receipts, load_receipt, save_receipt
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


@dataclass
class ForgetJob:
    """Carries out the pending receipts; one worker at a time."""

    _redis: Client
    _current: Current
    _purge: Purge
    _wait: Callable[[Token], Awaitable[None]]
    _erase_dead_letters: EraseDeadLetters
    _clock: Clock = system_clock

    def __post_init__(self) -> None:
        self._id = str(new_event_id())

    async def run(self) -> int:
        """Carry out every request that is not done, once; returns how many were.

        0 while another worker does it, which also takes the requests that are made in that time.
        """
        done, tried = 0, set[str]()
        while await self._waiting(tried):  # also what was requested while the lease was being given up
            # one worker at a time, or both would count what went; `_save` covers a lease that ran out
            async with lease(self._redis, FORGET_LEASE, self._id) as mine:
                if not mine:
                    break
                for receipt in await self._waiting(tried):
                    tried.add(receipt.id)
                    try:
                        await self._carry_out(receipt)
                        done += 1
                    except Exception as error:  # the receipt says why; the job is run again
                        logger.exception("deleting %s %s failed", receipt.kind, receipt.subject)
                        so_far = await load_receipt(self._redis, receipt.id) or receipt
                        await self._save(replace(so_far, status="pending", error=repr(error)[:500]))
        return done

    async def _waiting(self, tried: Collection[str]) -> list[Receipt]:
        receipts = await all_receipts(self._redis)
        return [receipt for receipt in receipts if receipt.status != "done" and receipt.id not in tried]

    async def _save(self, receipt: Receipt) -> None:
        """Write a receipt, but never over one that is done: by another worker, to whom this one lost its lease."""
        stored = await load_receipt(self._redis, receipt.id)
        if stored is None or stored.status != "done":
            await save_receipt(self._redis, receipt)

    async def _carry_out(self, receipt: Receipt) -> None:
        receipt = replace(receipt, status="running", attempts=receipt.attempts + 1, error="")
        await self._save(receipt)
        # stored in the receipt before anything is appended: a repeat must not take what was recorded since
        if not receipt.until:
            receipt = replace(receipt, until=str(await self._current.settle()))
            await self._save(receipt)
        if not receipt.name and not (receipt.kind == "project" and receipt.nameless):
            raise Unnamed(f"the receipt does not name the {receipt.kind}")
        samples, partitions = Samples(), self._current.documents.partitions
        erased = await count_erased(self._redis, partitions)
        async for forgotten in self._forget(receipt, samples):
            if forgotten.position:
                await self._wait(forgotten.token)
            documents = Counter(receipt.removed.documents)
            documents.update(forgotten.documents)
            before, erased = erased, await count_erased(self._redis, partitions)
            entries = receipt.removed.log_entries + erased - before
            receipt = replace(receipt, removed=replace(receipt.removed, documents=dict(documents), log_entries=entries))
            await self._save(receipt)
        # only when all tombstones are projected: the purge deletes what the folds have noted
        removed = await self._purge.run()
        if not removed.snapshot:
            raise NotPurged("no snapshot could be written, so the old ones still exist")
        probe = await self._purge.index.probe(receipt.tenant, list(samples.names), samples.texts)
        if probe.found:
            raise NotPurged(f"a search still returns {probe.found} documents")
        removed = replace(removed, documents=receipt.removed.documents, log_entries=receipt.removed.log_entries)
        if receipt.kind == "project":
            ledger = reads_key(receipt.tenant, receipt.name)
            removed = replace(removed, read_ledger=await self._redis.xlen(ledger))
            await self._redis.delete(ledger)
        await self._save(
            replace(receipt, status="done", name="", finished_at=self._clock(), removed=removed, probe=probe)
        )
        logger.info("forgot %s %s: %s", receipt.kind, receipt.subject, removed.documents)

    async def _forget(self, receipt: Receipt, samples: Samples) -> AsyncIterator[Forgotten]:
        """Forget the subject until nothing of it is left, then what was made of it, then its dead letters."""
        caller = Caller(receipt.tenant, "forget", receipt.agent_id)
        until = Token.parse(receipt.until) if receipt.until else Token()
        forgetting = Forgetting(self._current, samples)
        for _ in range(PASSES):
            if receipt.kind == "session":
                session = await find_session(self._current.documents, receipt.tenant, receipt.name, receipt.project)
                if session is None:
                    break
                forgotten = await forgetting.session(
                    session, caller, reason=receipt.reason, event_id=receipt.id, until=until
                )
            else:
                forgotten = await forgetting.user_or_project(receipt, caller, until)
            yield forgotten
            if not forgotten.total:
                break
        yield await forgetting.made_of_it(receipt, caller)

        def is_of_subject(event: Mapping[str, Any]) -> bool:
            match receipt.kind:
                case "user":
                    return event.get("user_id") == receipt.name
                case "session":
                    return (event.get("session_id"), event.get("project")) == (receipt.name, receipt.project)
                case _:
                    return "type" in event and event.get("project") == receipt.name

        # an unreadable event does not say whose it is: it stays until someone discards it
        count = await self._erase_dead_letters(
            is_of_subject, until, receipt.tenant, reason="forgotten", agent_id=receipt.agent_id
        )
        yield Forgotten(event_id=receipt.id, documents={"dead_letter": count} if count else {}, position="")


SESSIONS_AT_ONCE = 8
"""Events of up to 500 documents each that may meet in one batch of a partition's runner: the next ones wait for it."""
PAGE = 200
SLICE_S = 120.0
"""What is left then is retired in the next run."""
SOURCE = "upkeep"


@dataclass
class RetireJob:
    """Retires sessions of every partition that nothing was heard of for `retain`.

    Cached vectors of what is retired are deleted, by any of the `embedders`: so nothing need purge them.
    """

    _redis: Client
    _current: Current
    _embedders: Embedders
    _retain: timedelta
    _clock: Clock = system_clock

    async def run(self, slice_s: float = SLICE_S) -> int:
        """Retire every session that is due, until the time is over; returns how many observations were retired."""
        until = asyncio.get_running_loop().time() + slice_s
        high = f"({to_ms(self._clock() - self._retain):014d}|".encode()
        retired = sessions = 0
        async for partition, due in self._due(high):
            counts = await asyncio.gather(*(self._retire(partition, session) for session in due))
            retired, sessions = retired + sum(counts), sessions + len(due)
            try:
                if due:
                    await self._settle(due[0])
            except MnemologError as error:
                logger.warning("stopped retiring sessions in this run: %s", error)
                break
            if asyncio.get_running_loop().time() >= until:
                logger.info("the remaining sessions are retired in the next run")
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
                documents = await reader.get([(partition, name) for name in names])
                yield partition, [document for document in documents if isinstance(document, Session)]
                low = b"(" + members[-1].encode()

    async def _retire(self, partition: int, session: Session) -> int:
        """How many observations were retired. An error of one session must not hold up the others."""
        reader, retired = self._current.documents, 0
        try:
            # the part of the session's ledger that has room, and for how many; a new one when the last is full
            part, room = 0, MAX_RETIRED
            (first,) = await reader.get([(partition, ledger_id(session.id))])
            if isinstance(first, Ledger):
                (last,) = await reader.get([(partition, ledger_id(session.id, first.parts - 1))])
                free = MAX_RETIRED - count_of(last) if isinstance(last, Ledger) else 0
                part, room = (first.parts - 1, free) if free > 0 else (first.parts, MAX_RETIRED)
            names: list[str] = []
            async for some, observations in self._names(partition, session):
                retired += observations
                names += some
                while len(names) > room:
                    await self._give(session, names[:room], part)
                    await self._settle(session)
                    part, room, names = part + 1, MAX_RETIRED, names[room:]
            await self._give(session, names, part, session.seen_ms)
            return retired
        except MnemologError as error:
            logger.warning("session %s could not be retired: %s", session.id, error)
        except Exception:  # a bug
            logger.exception("session %s: not retired", session.id)
        return 0

    async def _settle(self, session: Session) -> None:
        """Wait until what was appended for sessions of a partition is projected."""
        await self._current.settle_session(session.tenant, session.project, session.session_id)

    async def _names(self, partition: int, session: Session) -> AsyncIterator[tuple[list[str], int]]:
        """Ids of observations with their marks, then of the session's own marks; and how many observations these are.

        Vectors of the observations leave the cache on the way.
        """
        reader = self._current.documents
        async for page in reader.pages(session_observations(session.id), [partition], PAGE):
            observations = [document for document in page if isinstance(document, Observation)]
            marks = await reader.members_of([entries(document.id) for document in observations], [partition])
            texts = {part for document in observations for part in chunk(searchable_text(document))}
            models = await models_of(self._redis, self._embedders.current)
            async with self._redis.pipeline(transaction=False) as pipe:
                for text in texts:
                    for model in models:
                        pipe.unlink(embedding(cache_key(model, text)))
                await pipe.execute()
            yield [*(document.id for document in observations), *marks], len(observations)
        async for page in reader.pages(entries(session.id), [partition], PAGE):
            yield [document.id for document in page], 0

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
