"""arq jobs: what time alone brings about (silent sessions end, lessons fade, memories run out), and summaries.

Each finds what is due through a listing that is sorted by when it is due, and appends an event whose id comes from what
it was due for: two workers at once, or a crash, do nothing twice.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from typing import NamedTuple, TypeVar

from redis.exceptions import RedisError

from ingest.commands.decide import Caller, EndIdleSession, ExpireClaim, RetireLesson
from ingest.errors import MnemologError
from ingest.ids import DocumentId
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.condensing.consolidation import BATCH, THRESHOLD
from projections.condensing.operations import Condensing
from projections.forgetting.forget import Forgetting
from projections.nouns.access import Reader
from projections.nouns.action import CLAIMED, Action
from projections.nouns.lesson import FADING, Lesson, is_retired
from projections.nouns.memory import EPISODIC, EXPIRING, Memory
from projections.nouns.session import OPEN_SESSIONS, UNSUMMARISED, Session
from projections.operations.current import Current

logger = logging.getLogger(__name__)
D = TypeVar("D")

PAGE = 100
SUMMARISE_SLICE_S = 120.0
"""Time for summaries, which can take a model long; the next run continues."""
SOURCE = "upkeep"


class Condense(NamedTuple):
    """When episodic memories about one agent and user are condensed: above `threshold`, `batch` at a time."""

    threshold: int = THRESHOLD
    batch: int = BATCH


class Upkeep:
    """Looks after some partitions."""

    def __init__(
        self,
        current: Current,
        forgetting: Forgetting,
        condensing: Condensing,
        *,
        idle_after: timedelta,
        condense: Condense | None = Condense(),
        clock: Clock = system_clock,
    ) -> None:
        self._current, self._forgetting, self._condensing = current, forgetting, condensing
        self._idle_after, self._condense, self._clock = idle_after, condense, clock

    async def run(self) -> dict[str, int]:
        """Do all that is due but summaries; returns how much of each."""
        done = {
            "sessions_ended": await _guarded("silent sessions", "ended", self.end_idle_sessions()),
            "lessons_retired": await _guarded("lessons", "retired", self.retire_lessons()),
            "memories_expired": await _guarded("expired memories", "forgotten", self.forget_expired()),
        }
        if any(done.values()):
            logger.info("upkeep: %s", ", ".join(f"{name} {count}" for name, count in done.items() if count))
        return done

    async def end_idle_sessions(self) -> int:
        """End the open sessions that were silent for the idle time."""
        until = to_ms(self._clock() - self._idle_after)
        ended = 0
        async for session in self._due(Session, OPEN_SESSIONS, f"{until:014d}|"):
            command = EndIdleSession(
                event_id=f"idle:{session.id}:{session.seen_ms}",
                project=session.project,
                session_id=session.session_id,
                idle_since_ms=session.seen_ms,
            )
            caller = Caller(session.tenant, SOURCE, session.agent_id)
            ended += await _guarded(f"session {session.id}", "ended", self._give(command, caller))
        return ended

    async def retire_lessons(self) -> int:
        """Retire the lessons that have faded without a confirmation."""
        now = self._clock()
        retired = 0
        async for lesson in self._due(Lesson, FADING, f"{to_ms(now) + 1:014d}|"):
            if is_retired(lesson.confidence_at(now), lesson.reinforcements):
                command = RetireLesson(
                    event_id=f"retire:{lesson.id}:{lesson.reinforced_ms}",
                    project=lesson.project,
                    lesson=lesson.id,
                    confidence=lesson.confidence_at(now),
                )
                caller = Caller(lesson.tenant, SOURCE)
                retired += await _guarded(f"lesson {lesson.id}", "retired", self._give(command, caller))
        return retired

    async def forget_expired(self) -> int:
        """Forget the memories whose time has run out."""
        forgotten = 0
        async for memory in self._due(Memory, EXPIRING, f"{to_ms(self._clock()) + 1:014d}|"):
            forgotten += await _guarded(f"memory {memory.id}", "forgotten", self._forget(memory))
        return forgotten

    async def expire_claims(self) -> int:
        """Record the claims of actions whose lease has ended, so that the actions are free again."""
        expired = 0
        async for action in self._due(Action, CLAIMED, f"{to_ms(self._clock()) + 1:014d}|"):
            command = ExpireClaim(
                event_id=f"expire:{action.id}:{action.token}:{action.expires_ms}",
                project=action.project,
                action=action.id,
                token=action.token,
                holder=action.holder,
            )
            caller = Caller(action.tenant, SOURCE)
            expired += await _guarded(f"claim of {action.id}", "expired", self._give(command, caller))
        return expired

    async def _give(self, command: EndIdleSession | RetireLesson | ExpireClaim, caller: Caller) -> int:
        await self._current.give(command, caller)
        return 1

    async def _forget(self, memory: Memory) -> int:
        operator, caller = Reader(memory.tenant, operator=True), Caller(memory.tenant, SOURCE)
        return (await self._forgetting.documents([memory.id], operator, caller, reason="expired")).total

    async def summarise(self) -> int:
        """Summarise ended sessions that have observations no summary covers, until its slice of time is over."""
        until = asyncio.get_running_loop().time() + SUMMARISE_SLICE_S
        made = 0
        async for sessions in _together(self._due(Session, UNSUMMARISED, None), self._condensing.at_once):
            steps = (_guarded(f"session {it.id}", "summarised", self._summarise(it)) for it in sessions)
            made += sum(await asyncio.gather(*steps))
            if asyncio.get_running_loop().time() >= until:
                logger.info("upkeep: the remaining sessions are summarized in the next run")
                break
        return made

    async def _summarise(self, session: Session) -> int:
        outcome = await self._condensing.summarise(session, Caller(session.tenant, SOURCE))
        if outcome.fell_back:
            logger.info("session %s: summarized by rule: %s", session.session_id, outcome.fell_back)
        return 1

    async def condense(self) -> int:
        """Condense, once, the episodic memories of every agent and user that have too many."""
        if self._condense is None:
            return 0
        condensed = 0
        for partition in range(self._current.documents.partitions):
            async for tenant, agent, user in self._pairs(partition):
                condensing = self._condensing.condense_pair(
                    partition, tenant, agent, user, threshold=self._condense.threshold, batch=self._condense.batch
                )
                condensed += await _guarded(f"memories of agent {agent!r}, user {user!r}", "condensed", condensing)
        return condensed

    async def _pairs(self, partition: int) -> AsyncIterator[tuple[str, str, str]]:
        """The agents and users that a partition has episodic memories about: one step each, however many they have."""
        low = b"-"
        while members := await self._current.documents.range(EPISODIC, partition, low, b"+", 1):
            tenant, agent, user, _ = members[0].split("\0", 3)
            yield tenant, agent, user
            low = b"(" + "\0".join((tenant, agent, user)).encode() + b"\0\xff"

    async def _due(self, kind: type[D], listing: str, before: str | None) -> AsyncIterator[D]:
        """The documents of a kind in a listing of every partition, up to a member."""
        high = b"+" if before is None else b"(" + before.encode()
        reader = self._current.documents
        for partition in range(reader.partitions):
            low = b"-"
            while members := await reader.range(listing, partition, low, high, PAGE):
                names = [DocumentId(member.rpartition("|")[2]) for member in members]
                for document in await reader.get([(partition, name) for name in names]):
                    if isinstance(document, kind):
                        yield document
                low = b"(" + members[-1].encode()


async def _together(documents: AsyncIterator[D], size: int) -> AsyncIterator[list[D]]:
    together: list[D] = []
    async for document in documents:
        together.append(document)
        if len(together) == size:
            yield together
            together = []
    yield together


async def _guarded(what: str, done: str, step: Awaitable[int]) -> int:
    """How much a step did. An error of one, even a bug, must not hold up the others."""
    try:
        return await step
    except (MnemologError, RedisError) as error:
        logger.warning("%s: not %s: %s", what, done, error)
    except Exception:  # a bug in one kind of upkeep must not hold up another
        logger.exception("%s: not %s", what, done)
    return 0
