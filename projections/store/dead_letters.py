"""Dead letters: events that could not be applied to a generation's documents. They stay in the log.

A partition's dead letters are ordered by position, each with its error. An operator can retry one (redrive: the
partition's runner removes the letter in the transaction that applies its event), or discard it: then a rebuild also
skips it. Each outcome is counted in the same transaction.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, msgpack
from msgspec.structs import replace
from redis.exceptions import RedisError

from ingest.errors import LeaseLost, MnemologError, UnreadableEvent
from ingest.events.envelope import as_json_object
from ingest.log.event_log import EventLog, Stored, entry_at
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.nouns.registry import decode
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client, Transaction
from ingest.platform.processes import release
from projections.nouns.fold import Changes
from projections.store.protocol import project
from projections.store.redis_store import RedisStore

logger = logging.getLogger(__name__)

LETTERS_PER_READ = 200
MAX_MESSAGE = 2_000
"""Characters of an error's message that are kept."""

MAX_CRASHES = 2
"""After a retry has killed workers this many times, it is abandoned."""
NOTHING = Changes({}, {})

T = TypeVar("T", "DeadLetter", "Discarded")
Outcome = Literal["parked", "redriven", "redrive_failed", "rebuilt", "discarded"]
State = Literal["parked", "discarded"]
OUTCOMES: tuple[Outcome, ...] = ("parked", "redriven", "redrive_failed", "rebuilt", "discarded")


class DeadLetter(Struct, frozen=True, kw_only=True):
    """Where the event is, why it could not be applied, how often that was tried, when, and by which release.

    `type` is the event's, empty when its bytes do not say. The error, `tried_at` and `release` are of the last try.
    `applied`: the documents have the event, and its entry was altered since.
    """

    position: str
    code: str
    message: str
    attempts: int
    type: str = ""
    parked_at: datetime | None = None
    tried_at: datetime | None = None
    release: str = ""
    applied: bool = False


class Discarded(Struct, frozen=True, kw_only=True):
    """A dead letter that is not to be applied, why, and who said so. `erased`: its event went from the log, too."""

    letter: DeadLetter
    reason: str
    agent_id: str
    discarded_at: datetime
    erased: bool = False

    @property
    def position(self) -> str:
        """Where the event is, or its stub."""
        return self.letter.position


class Noted(NamedTuple):
    """What is noted of a position: its letter, how it was discarded if it was, and whether a worker is to try it.

    It is read so that a letter without a request is as it was after the last try.
    """

    letter: DeadLetter
    discarded: Discarded | None
    requested: bool


def letter_of(entry: Stored, code: str, message: str, attempts: int, now: datetime) -> DeadLetter:
    """The letter of an event that could not be applied."""
    return DeadLetter(
        position=str(entry.position),
        code=code,
        message=message[:MAX_MESSAGE],
        attempts=attempts,
        type=str(as_json_object(entry.payload, entry.position).get("type", "")),
        parked_at=now,
        tried_at=now,
        release=release(),
    )


def queue_letter(pipe: Transaction, live: GenerationKeys, letter: DeadLetter) -> None:
    """Queue a letter on a transaction, in the place of the one that its position may have."""
    queue_removal(pipe, live.dead, Position.parse(letter.position))
    pipe.zadd(live.dead, {_member(letter): 0})


def queue_discarded(pipe: Transaction, keys: PartitionKeys, discarded: Discarded) -> None:
    """Queue the note that an event is not to be applied."""
    queue_removal(pipe, keys.discarded, Position.parse(discarded.position))
    pipe.zadd(keys.discarded, {_member(discarded): 0})


def queue_removal(pipe: Transaction, key: str, position: Position) -> None:
    """Queue that a position has no letter (`live.dead`), or is not discarded (`keys.discarded`)."""
    pipe.zremrangebylex(key, *_at(position))


def queue_count(pipe: Transaction, keys: PartitionKeys, outcome: Outcome, by: int = 1) -> None:
    """Queue that something became of so many letters."""
    pipe.hincrby(keys.letters, outcome, by)


async def live_keys(redis: Client | Transaction, keys: PartitionKeys) -> GenerationKeys:
    """The generation that readers use."""
    return keys.of_generation(int(await redis.get(keys.generation) or 1))


async def dead_letter(redis: Client, live: GenerationKeys, position: Position) -> DeadLetter | None:
    """The letter of a position, if it has one."""
    stored: list[bytes] = await redis.zrange(live.dead, *_at(position), bylex=True)
    return _decode(stored[0], DeadLetter) if stored else None


async def discarded_letter(redis: Client, keys: PartitionKeys, position: Position) -> Discarded | None:
    """What is noted of a discarded event; None when it is not discarded."""
    stored: list[bytes] = await redis.zrange(keys.discarded, *_at(position), bylex=True)
    return _decode(stored[0], Discarded) if stored else None


async def noted(redis: Client, keys: PartitionKeys, position: Position) -> Noted | None:
    """What is noted of a position at one moment; None when its event is neither dead nor discarded."""
    live = await live_keys(redis, keys)
    async with redis.pipeline(transaction=True) as pipe:
        pipe.zrange(live.dead, *_at(position), bylex=True)
        pipe.zrange(keys.discarded, *_at(position), bylex=True)
        pipe.zmscore(keys.redrive, [position.sort_key])
        dead, discarded, (requested,) = await pipe.execute()
    state: State = "parked" if dead else "discarded"
    members = dead or discarded
    return _noted(members[0], state, requested=requested is not None) if members else None


async def noted_after(redis: Client, keys: PartitionKeys, state: State, after: Position, limit: int) -> list[Noted]:
    """What is noted of the next dead letters (of the live generation) or discarded events, in log order."""
    key = keys.discarded if state == "discarded" else (await live_keys(redis, keys)).dead
    # requests are looked up between two reads, so that no letter is older than its request; see Noted
    positions = [place_of(member) for member in await _after(redis, key, after, limit)]
    if not positions:
        return []
    scores = await redis.zmscore(keys.redrive, [position.sort_key for position in positions])
    requested = {position for position, score in zip(positions, scores, strict=True) if score is not None}
    members = await _after(redis, key, after, limit)
    return [_noted(member, state, requested=place_of(member) in requested) for member in members]


def _noted(member: bytes, state: State, *, requested: bool) -> Noted:
    if state == "parked":
        return Noted(_decode(member, DeadLetter), None, requested)
    discarded = _decode(member, Discarded)
    return Noted(discarded.letter, discarded, requested)


async def dead_letters(redis: Client, keys: PartitionKeys) -> AsyncIterator[DeadLetter]:
    """A partition's dead letters, in log order, read some at a time."""
    async for member in _members(redis, (await live_keys(redis, keys)).dead):
        yield _decode(member, DeadLetter)


async def discarded_places(redis: Client, keys: PartitionKeys) -> set[Position]:
    """Every discarded position of a partition: what a replay skips."""
    return {place_of(member) async for member in _members(redis, keys.discarded)}


async def places_between(redis: Client, key: str, first: Position, last: Position) -> set[Position]:
    """The positions in a set of letters, from one to another, both included."""
    members: list[bytes] = await redis.zrange(key, _at(first)[0], _at(last)[1], bylex=True)
    return {place_of(member) for member in members}


def place_of(member: bytes) -> Position:
    """The position that a member of a set of letters is about."""
    return Position.parse(member.partition(b"|")[0])


async def letter_counts(redis: Client, keys: PartitionKeys) -> dict[Outcome, int]:
    """How many letters of a partition were ever parked, and what became of them."""
    stored = await redis.hmget(keys.letters, OUTCOMES)
    return {outcome: int(raw or 0) for outcome, raw in zip(OUTCOMES, stored, strict=True)}


async def _members(redis: Client, key: str) -> AsyncIterator[bytes]:
    after = START
    while members := await _after(redis, key, after, LETTERS_PER_READ):
        for member in members:
            yield member
        after = place_of(members[-1])


async def _after(redis: Client, key: str, after: Position, limit: int) -> list[bytes]:
    low = f"[{after.sort_key}~".encode()  # behind the member of `after`: ~ sorts after the separator
    return await redis.zrange(key, low, b"+", bylex=True, offset=0, num=limit)


def _at(position: Position) -> tuple[bytes, bytes]:
    """Bounds of the members of one position."""
    return f"[{position.sort_key}|".encode(), f"({position.sort_key}~".encode()


def _member(value: DeadLetter | Discarded) -> bytes:
    """A letter as a member of a sorted set: it sorts by its position."""
    return Position.parse(value.position).sort_key.encode() + b"|" + msgpack.encode(value)


def _decode(member: bytes, cls: type[T]) -> T:
    return msgpack.decode(member.partition(b"|")[2], type=cls)


class MissingEntry(MnemologError):
    """The log has nothing at the position any more."""

    code = "missing_entry"


Begin: TypeAlias = Callable[[str], Awaitable[int]]
"""Counts a try at a position before it is made; returns which it is, from 1 up."""


@dataclass
class PartitionDeadLetters:
    """The dead letters of one partition, for the runner that holds its lease."""

    _redis: Client
    _log: EventLog
    _keys: PartitionKeys
    _clock: Clock = system_clock

    async def discarded_after(self, checkpoint: Position) -> set[Position]:
        """The discarded events after a checkpoint: they are not to be applied."""
        end = Position(10**14 - 1, 0)
        return await places_between(self._redis, self._keys.discarded, checkpoint, end)

    def queue_parked(
        self, pipe: Transaction, live: GenerationKeys, entry: Stored, code: str, message: str, attempts: int
    ) -> None:
        """Queue the dead letter of an event that could not be applied, on the transaction that moves the checkpoint."""
        queue_letter(pipe, live, letter_of(entry, code, message, attempts, self._clock()))
        queue_count(pipe, self._keys, "parked")

    async def redrive(self, store: RedisStore, checkpoint: Position, position: Position, begin: Begin) -> Changes:
        """Retry the dead letter of one position, between two batches and under the runner's fence.

        Returns what that changed. A request without a letter (it was applied, or the generation has switched) is only
        taken away. If the event fails again its error is noted; either way the request is over. Raises LeaseLost, with
        nothing changed.
        """
        keys = self._keys
        letter = await dead_letter(self._redis, store.keys, position)
        if letter is None and (discarded := await discarded_letter(self._redis, keys, position)) is not None:
            letter = None if discarded.erased else discarded.letter
        if letter is None:
            await self._redis.zrem(keys.redrive, position.sort_key)
            return NOTHING
        # counted before the event is touched: a worker that ends by it leaves the count
        tries = await begin(str(position))
        entry = await entry_at(self._log, keys.partition, position)
        error: tuple[str, str]
        try:
            if tries <= MAX_CRASHES:
                if entry is None:
                    raise MissingEntry(f"the log has no entry at {position}")
                event = decode(entry.payload, position)
                # an entry that was altered after it was applied, and restored since, must not be applied twice
                changes = await project(store, [] if letter.applied else [event])
                await self._finish(store, checkpoint, position, changes, "redriven")
                logger.info("partition %d: applied the dead letter %s", keys.partition, position)
                return changes
            error = "crashed", "the worker died each time it applied this event"
        except (LeaseLost, RedisError, OSError):  # says nothing about the event: this try is not over
            raise
        except (UnreadableEvent, MissingEntry) as failure:
            error = failure.code, str(failure)
        except Exception as failure:  # whatever a fold raises is the letter's new error
            error = type(failure).__name__, str(failure)
        now = letter_of(entry or Stored(position, b""), *error, letter.attempts + 1, self._clock())
        tried = replace(
            now, parked_at=letter.parked_at or now.parked_at, type=now.type or letter.type, applied=letter.applied
        )
        await self._finish(store, checkpoint, position, NOTHING, "redrive_failed", tried)
        logger.error("partition %d: the dead letter %s failed again: %s: %s", keys.partition, position, *error)
        return NOTHING

    async def _finish(
        self,
        store: RedisStore,
        checkpoint: Position,
        position: Position,
        changes: Changes,
        outcome: Outcome,
        letter: DeadLetter | None = None,
    ) -> None:
        """In one transaction: what a try changed, its new letter if any, the count, and the end of the request."""

        def also(pipe: Transaction) -> None:
            queue_removal(pipe, self._keys.discarded, position)
            queue_removal(pipe, store.keys.dead, position)
            if letter is not None:
                queue_letter(pipe, store.keys, letter)
            queue_count(pipe, self._keys, outcome)
            pipe.zrem(self._keys.redrive, position.sort_key)
            pipe.hdel(self._keys.attempts, str(position))

        await store.save_and(changes, checkpoint, also)
