"""Redriving a dead letter: applying its event now, though others that came after it are applied already.

Only a partition's runner does it, under its fence and between two batches, so nobody else writes the documents
meanwhile. What the event changes, the letter's removal, the request's and the count are one transaction; when the event
fails again, its error is noted instead. Either way the request is over, and asking twice does no more than asking once.
"""

import logging

from msgspec.structs import replace
from redis.exceptions import RedisError

from ingest.errors import LeaseLost, MnemologError, UnreadableEvent
from ingest.events.envelope import decode
from ingest.log.event_log import EventLog, Stored, entry_at
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client, Transaction, past_memory_limit
from projections.dead_letters.records import (
    DeadLetter,
    dead_letter,
    discarded_letter,
    letter_of,
    queue_count,
    queue_letter,
    queue_removal,
)
from projections.folds.fold import Changes
from projections.store.protocol import project
from projections.store.redis_store import RedisStore

logger = logging.getLogger(__name__)

REDRIVES = 16
"""Letters tried between two batches: those that wait for their events go on meanwhile."""
MAX_CRASHES = 2
"""A request that a worker did not survive so often is given up."""
NOTHING = Changes({}, {})


class MissingEntry(MnemologError):
    """The log has nothing at the position any more."""

    code = "missing_entry"


class Attempts:
    """How often the events of one partition were tried; by one worker.

    A try is counted across crashes and before it begins, because it may end the worker. One that was broken off because
    the log's server was away or had no memory says nothing about the event: it goes on when the server answers again,
    and is not counted a second time.
    """

    def __init__(self, redis: Client, keys: PartitionKeys) -> None:
        self._redis, self._key = redis, keys.attempts
        self._begun: dict[str, int] = {}

    async def begin(self, position: str) -> int:
        """Begin a try, or go on with one that was broken off; returns which it is, from 1 up."""
        if position not in self._begun:
            async with past_memory_limit(self._redis) as pipe:
                pipe.hincrby(self._key, position, 1)
                (self._begun[position],) = await pipe.execute()
        return self._begun[position]

    async def are_none(self) -> bool:
        """Whether no try is counted: nothing has failed, or ended a worker, and is still to be applied."""
        return not await self._redis.hlen(self._key)

    def end(self, position: str) -> None:
        """The try is over, however it ended."""
        self._begun.pop(position, None)


async def redrive(
    redis: Client,
    attempts: Attempts,
    log: EventLog,
    keys: PartitionKeys,
    store: RedisStore,
    checkpoint: Position,
    position: Position,
    clock: Clock = system_clock,
) -> Changes:
    """Try the letter of one position; returns what that changed.

    A request without a letter (it was applied, or the generation has switched) is only taken away. Raises LeaseLost,
    with nothing changed.
    """
    letter = await _letter(redis, keys, store, position)
    if letter is None:
        await redis.zrem(keys.redrive, position.sort_key)
        return NOTHING
    tries = await attempts.begin(str(position))
    entry = await entry_at(log, keys.partition, position)
    error: tuple[str, str]
    try:
        if tries <= MAX_CRASHES:
            changes = await _apply(keys, store, checkpoint, entry, letter)
            attempts.end(str(position))
            return changes
        error = "crashed", "the worker died each time it applied this event"
    except (LeaseLost, RedisError, OSError):
        raise
    except (UnreadableEvent, MissingEntry) as fault:
        error = fault.code, str(fault)
    except Exception as fault:  # whatever a fold raises is the letter's new error
        error = type(fault).__name__, str(fault)
    attempts.end(str(position))
    await _note(keys, store, checkpoint, letter, letter_of(entry or Stored(position, b""), *error, 1, clock()))
    return NOTHING


async def _apply(
    keys: PartitionKeys, store: RedisStore, checkpoint: Position, entry: Stored | None, letter: DeadLetter
) -> Changes:
    position = Position.parse(letter.position)
    if entry is None:
        raise MissingEntry(f"the log has no entry at {position}")
    event = decode(entry.payload, position)
    # an entry that was altered behind its applying, and put right since, must not be applied twice
    changes = await project(store, [] if letter.applied else [event])

    def also(pipe: Transaction) -> None:
        queue_removal(pipe, store.keys.dead, position)
        queue_removal(pipe, keys.discarded, position)
        queue_count(pipe, keys, "redriven")
        _over(pipe, keys, position)

    await store.save_and(changes, checkpoint, also)
    logger.info("partition %d: applied the dead letter %s", keys.partition, position)
    return changes


async def _letter(redis: Client, keys: PartitionKeys, store: RedisStore, position: Position) -> DeadLetter | None:
    """The letter to be tried: a dead one, or one that was discarded and whose event is still there."""
    found = await dead_letter(redis, store.keys, position)
    if found is not None:
        return found
    discarded = await discarded_letter(redis, keys, position)
    return discarded.letter if discarded is not None and not discarded.erased else None


async def _note(
    keys: PartitionKeys, store: RedisStore, checkpoint: Position, letter: DeadLetter, now: DeadLetter
) -> None:
    """Note the new error; a discarded letter is a dead one again."""
    position = Position.parse(letter.position)
    tried = replace(
        now,
        attempts=letter.attempts + 1,
        parked_at=letter.parked_at or now.parked_at,
        type=now.type or letter.type,
        applied=letter.applied,
    )

    def also(pipe: Transaction) -> None:
        queue_letter(pipe, store.keys, tried)
        queue_removal(pipe, keys.discarded, position)
        queue_count(pipe, keys, "redrive_failed")
        _over(pipe, keys, position)

    await store.save_and(NOTHING, checkpoint, also)
    logger.error(
        "partition %d: the dead letter %s failed again: %s: %s", keys.partition, position, now.code, now.message
    )


def _over(pipe: Transaction, keys: PartitionKeys, position: Position) -> None:
    pipe.zrem(keys.redrive, position.sort_key)
    pipe.hdel(keys.attempts, str(position))
