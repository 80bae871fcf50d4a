"""Dead letters: events a projection could not apply, parked with their error. The events themselves stay in the log."""

from msgspec import Struct, msgpack

from ingest.connections import Client, Transaction
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position


class DeadLetter(Struct, frozen=True, kw_only=True):
    """Where the event is, why it could not be applied, how often that was tried."""

    position: str
    code: str
    message: str
    attempts: int


def queue_park(pipe: Transaction, keys: PartitionKeys, letter: DeadLetter) -> None:
    """Queue the parking of a dead letter on a transaction."""
    pipe.hset(keys.dead, letter.position, msgpack.encode(letter))


async def dead_letters(redis: Client, keys: PartitionKeys) -> list[DeadLetter]:
    """A partition's dead letters, oldest first."""
    stored: dict[bytes, bytes] = await redis.hgetall(keys.dead)
    letters = [msgpack.decode(raw, type=DeadLetter) for raw in stored.values()]
    return sorted(letters, key=lambda letter: Position.parse(letter.position))
