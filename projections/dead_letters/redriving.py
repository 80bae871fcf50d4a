"""Redriving a dead letter: applying its event now, though others that came after it are applied already.

Only a partition's runner does it, under its fence and between two batches, so nobody else writes the documents
meanwhile. What the event changes, the letter's removal, the request's and the count are one transaction; when the event
fails again, its error is noted instead. Either way the request is over, and asking twice does no more than asking once.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec.structs import replace
from redis.exceptions import RedisError

from ingest.errors import LeaseLost, MnemologError, UnreadableEvent
from ingest.events.envelope import decode
from ingest.log.event_log import EventLog, Stored, entry_at
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import Position
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client, Transaction
from projections.dead_letters.records import (
    DeadLetter,
    dead_letter,
    discarded_letter,
    letter_of,
    places_between,
    queue_count,
    queue_letter,
    queue_removal,
)
from projections.folds.fold import Changes
from projections.store.protocol import project
from projections.store.redis_store import RedisStore

logger = logging.getLogger(__name__)

MAX_CRASHES = 2
"""A request that a worker did not survive so often is given up."""
NOTHING = Changes({}, {})


class MissingEntry(MnemologError):
    """The log has nothing at the position any more."""

    code = "missing_entry"


Begin: TypeAlias = Callable[[str], Awaitable[int]]
"""Counts a try at a position before it is made; returns which it is, from 1 up."""


class PartitionDeadLetters:
    """The dead letters of one partition, for the runner that holds its lease."""

    def __init__(self, redis: Client, log: EventLog, keys: PartitionKeys, clock: Clock = system_clock) -> None:
        self._redis, self._log, self._keys, self._clock = redis, log, keys, clock

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
        """Try the letter of one position; returns what that changed.

        A request without a letter (it was applied, or the generation has switched) is only taken away.
        Raises LeaseLost, with nothing changed.
        """
        keys = self._keys
        letter = await _letter(self._redis, keys, store, position)
        if letter is None:
            await self._redis.zrem(keys.redrive, position.sort_key)
            return NOTHING
        tries = await begin(str(position))
        entry = await entry_at(self._log, keys.partition, position)
        error: tuple[str, str]
        try:
            if tries <= MAX_CRASHES:
                return await _apply(keys, store, checkpoint, entry, letter)
            error = "crashed", "the worker died each time it applied this event"
        except (LeaseLost, RedisError, OSError):
            raise
        except (UnreadableEvent, MissingEntry) as fault:
            error = fault.code, str(fault)
        except Exception as fault:  # whatever a fold raises is the letter's new error
            error = type(fault).__name__, str(fault)
        now = letter_of(entry or Stored(position, b""), *error, 1, self._clock())
        await _note(keys, store, checkpoint, letter, now)
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
