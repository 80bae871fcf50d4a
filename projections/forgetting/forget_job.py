"""arq job: carry out requests to forget a user, a project or a session, and write their receipts.

A receipt is written as pending before anything else happens, so a request that was acknowledged is carried out,
whatever crashes: the job is run again until the receipt says done. Running it again is harmless.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ingest.commands.decide import Caller
from ingest.errors import MnemologError
from ingest.ids import new_event_id
from ingest.log.archive.archive import count_erased
from ingest.log.keys import FORGET_LEASE, JOB_LEASE_TTL
from ingest.log.lease import lease
from ingest.log.position import Token
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from projections.dead_letters.room import DeadLetters
from projections.documents.access import Reader
from projections.documents.document import Document, Searched, searchable_text
from projections.forgetting.forget import Forgetting, Forgotten
from projections.forgetting.purge import Purge
from projections.forgetting.receipts import Receipt, all_receipts, load_receipt, save_receipt
from projections.operations.current import Current
from projections.queries.sessions import find_session

logger = logging.getLogger(__name__)

SAMPLES = 20
"""Texts of forgotten documents that the probe searches for; kept in memory only."""
PASSES = 3
"""What was moved about in a listing while it was read is found by looking again."""


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
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self._current = redis, current
        self._letters = DeadLetters(redis, current.log, current.documents, clock)
        self._purge, self._wait, self._clock = purge, wait, clock
        self._id = str(new_event_id())

    async def run(self) -> int:
        """Carry out every request that is not done, once; returns how many were.

        None while another worker is at it, who also takes those that are made meanwhile.
        """
        done = 0
        tried: set[str] = set()
        while await self._waiting(tried):  # also what was asked for while the lease was being given up
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
        names: dict[str, None] = {}
        texts: list[str] = []
        for _ in range(PASSES):
            receipt, found = await self._counted(receipt, self._pass(receipt, names, texts))
            if not found:
                break
        receipt, _ = await self._counted(receipt, self._made_of(receipt, names, texts))
        receipt, _ = await self._counted(receipt, self._parked(receipt))
        removed = await self._purge.run()
        if not removed.snapshot:
            raise NotPurged("no snapshot could be written, so the old ones are still there")
        probe = await self._purge.probe(receipt.tenant, list(names), texts)
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

    async def _pass(self, receipt: Receipt, names: dict[str, None], texts: list[str]) -> Forgotten:
        caller = Caller(receipt.tenant, "forget", receipt.agent_id)
        until = Token.parse(receipt.until) if receipt.until else Token()
        forgetting = Forgetting(self._current, lambda found: self._sample(found, names, texts), names)
        match receipt.kind:
            case "user":
                return await forgetting.user(
                    receipt.name, caller, reason=receipt.reason, event_id=receipt.id, until=until
                )
            case "project":
                return await forgetting.project(
                    receipt.name, caller, reason=receipt.reason, event_id=receipt.id, until=until
                )
            case "session":
                session = await find_session(self._current.documents, receipt.tenant, receipt.name, receipt.project)
                if session is None:
                    return Forgotten(event_id=receipt.id, documents={}, position="")
                return await forgetting.session(
                    session, caller, reason=receipt.reason, event_id=receipt.id, until=until
                )
            case _:
                operator = Reader(receipt.tenant, operator=True)
                return await forgetting.documents([receipt.name], operator, caller, reason=receipt.reason)

    async def _made_of(self, receipt: Receipt, names: dict[str, None], texts: list[str]) -> Forgotten:
        caller = Caller(receipt.tenant, "forget", receipt.agent_id)
        forgetting = Forgetting(self._current, lambda found: self._sample(found, names, texts))
        return await forgetting.made_of(
            list(names), receipt.kind, receipt.subject, caller, reason=receipt.reason, event_id=receipt.id
        )

    async def _parked(self, receipt: Receipt) -> Forgotten:
        """Discard and erase the dead letters whose events say that they are of the subject.

        What an unreadable one is about nobody can tell: it stays, until somebody discards it.
        """
        until = Token.parse(receipt.until) if receipt.until else Token()
        count = await self._letters.erase_all(
            lambda event: _is_of(event, receipt), until, receipt.tenant, reason="forgotten", agent_id=receipt.agent_id
        )
        return Forgotten(event_id=receipt.id, documents={"dead_letter": count} if count else {}, position="")

    @staticmethod
    def _sample(found: Iterable[Document], names: dict[str, None], texts: list[str]) -> None:
        for document in found:
            names[document.id] = None
            if isinstance(document, Searched) and len(texts) < SAMPLES:
                texts.append(searchable_text(document))


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
