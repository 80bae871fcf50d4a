"""Dead letters: events that a generation's documents lack because they could not be applied. They stay in the log.

A partition's letters are in the order of their positions, each with its error. Somebody may ask for one to be tried
again (redrive: the partition's runner does it, and takes the letter away in the transaction that applies its event), or
discard it: then a rebuild passes over it, too. Whatever happens to a letter is counted in the same transaction.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct, msgpack

from ingest.events.envelope import as_json_object
from ingest.log.event_log import Stored
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client, Transaction
from ingest.platform.processes import release

LETTERS_PER_READ = 200
MAX_MESSAGE = 2_000
"""Characters of an error's message that are kept."""

T = TypeVar("T", "DeadLetter", "Discarded")
Outcome = Literal["parked", "redriven", "redrive_failed", "rebuilt", "discarded"]
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

    It is read so that a letter which nobody is to try any more is as it was after the last try.
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


async def live_keys(redis: Client, keys: PartitionKeys) -> GenerationKeys:
    """The generation that readers use."""
    return keys.of_generation(int(await redis.get(keys.generation) or 1))


async def dead_letter(redis: Client, live: GenerationKeys, position: Position) -> DeadLetter | None:
    """The letter of a position; None when there is none."""
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
    if dead:
        return Noted(_decode(dead[0], DeadLetter), None, requested is not None)
    if discarded:
        note = _decode(discarded[0], Discarded)
        return Noted(note.letter, note, requested is not None)
    return None


async def dead_after(redis: Client, keys: PartitionKeys, after: Position, limit: int) -> list[Noted]:
    """The next dead letters of the live generation behind a position, in the order of the log."""
    live = await live_keys(redis, keys)
    # twice, because a letter must not be older than the request; see Noted
    requested = await _requested(redis, keys, await letters_after(redis, live, after, limit))
    return [Noted(one, None, one.position in requested) for one in await letters_after(redis, live, after, limit)]


async def notes_after(redis: Client, keys: PartitionKeys, after: Position, limit: int) -> list[Noted]:
    """The next discarded ones behind a position, in the order of the log."""
    requested = await _requested(redis, keys, await discarded_after(redis, keys, after, limit))
    found = await discarded_after(redis, keys, after, limit)
    return [Noted(one.letter, one, one.position in requested) for one in found]


async def letters_after(redis: Client, live: GenerationKeys, after: Position, limit: int) -> list[DeadLetter]:
    """The next letters behind a position, in the order of the log."""
    stored = await _after(redis, live.dead, after, limit)
    return [_decode(raw, DeadLetter) for raw in stored]


async def discarded_after(redis: Client, keys: PartitionKeys, after: Position, limit: int) -> list[Discarded]:
    """The next discarded ones behind a position, in the order of the log."""
    stored = await _after(redis, keys.discarded, after, limit)
    return [_decode(raw, Discarded) for raw in stored]


async def dead_letters(redis: Client, keys: PartitionKeys) -> AsyncIterator[DeadLetter]:
    """A partition's dead letters, in the order of the log, read some at a time."""
    live, after = await live_keys(redis, keys), START
    while found := await letters_after(redis, live, after, LETTERS_PER_READ):
        for letter in found:
            yield letter
        after = Position.parse(found[-1].position)


async def places_between(redis: Client, key: str, first: Position, last: Position) -> set[Position]:
    """The positions in a set of letters, from one to another, both included."""
    stored: list[bytes] = await redis.zrange(key, _at(first)[0], _at(last)[1], bylex=True)
    return {place_of(raw) for raw in stored}


def place_of(member: bytes) -> Position:
    """The position that a member of a set of letters is about."""
    return Position.parse(member.partition(b"|")[0])


async def discarded_places(redis: Client, keys: PartitionKeys) -> set[Position]:
    """Every discarded position of a partition: what a replay passes over."""
    found: set[Position] = set()
    after = START
    while page := await discarded_after(redis, keys, after, LETTERS_PER_READ):
        after = Position.parse(page[-1].position)
        found.update(Position.parse(one.position) for one in page)
    return found


async def letter_counts(redis: Client, keys: PartitionKeys) -> dict[Outcome, int]:
    """How many letters of a partition were ever parked, and what became of them."""
    stored = await redis.hmget(keys.letters, OUTCOMES)
    return {outcome: int(raw or 0) for outcome, raw in zip(OUTCOMES, stored, strict=True)}


async def _requested(redis: Client, keys: PartitionKeys, found: Sequence[DeadLetter | Discarded]) -> set[str]:
    """The positions, of these, that a worker is to try."""
    if not found:
        return set()
    scores = await redis.zmscore(keys.redrive, [Position.parse(one.position).sort_key for one in found])
    return {one.position for one, score in zip(found, scores, strict=True) if score is not None}


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
