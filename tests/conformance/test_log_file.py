"""The embedded server's file, damaged: what is set aside, what is told to be lost, and when it does not start."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from ingest.connections import connect
from ingest.errors import DamagedLogFile, InUse
from ingest.log.acknowledged import FILE, Acknowledged
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.position import START, Position
from ingest.log.redis_log import RedisLog
from ingest.log_file import Incident, Lost, find_fault, load_incidents, take_note, trouble
from ingest.valkey import EmbeddedValkey

PARTITIONS = 2


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder whose path leaves room for a unix socket's name."""
    made = Path(tempfile.mkdtemp(prefix="mnemo-"))
    yield made
    shutil.rmtree(made)


async def write(folder: Path, count: int, first: int = 0, *, kept: bool = True) -> list[tuple[int, Position]]:
    """Partitions and positions of so many events, each acknowledged before the next is written."""
    valkey = EmbeddedValkey(folder)
    valkey.start()
    acknowledged = Acknowledged(folder)
    redis = connect(valkey.url)
    try:
        log = RedisLog(redis, PARTITIONS)
        await log.create_or_check()
        commit = GroupCommit(log, acknowledged.note if kept else lambda rows: None)
        found: list[tuple[int, Position]] = []
        for n in range(first, first + count):
            (told,) = await commit.append([(n % PARTITIONS, Entry(f"id-{n}", b"event %d" % n))])
            found.append((n % PARTITIONS, told.position))
        return found
    finally:
        await redis.aclose()
        acknowledged.close()
        valkey.stop()


def newest_file(folder: Path) -> Path:
    """The file that is written to."""
    return next((folder / "appendonlydir").glob("*.incr.aof"))


def transactions(file: Path) -> list[int]:
    """Where each transaction begins."""
    return [found.start() for found in re.finditer(rb"\*1\r\n\$5\r\nMULTI\r\n", file.read_bytes())]


def cut(file: Path, at: int) -> bytes:
    """What was cut off."""
    data = file.read_bytes()
    file.write_bytes(data[:at])
    return data[at:]


def start(folder: Path) -> tuple[Incident | None, list[bytes]]:
    """What a start finds wrong, and the events that are there then."""
    valkey = EmbeddedValkey(folder)
    valkey.start()
    try:
        with Redis(unix_socket_path=str(valkey.socket)) as redis:
            found = [
                fields[b"e"] for one in range(PARTITIONS) for _, fields in redis.xrange(f"mnemolog:{{p{one:02d}}}:log")
            ]  # pyright: ignore
        return valkey.incident, sorted(found)
    finally:
        valkey.stop()


@pytest.mark.parametrize("inside", [True, False], ids=["in a record", "between records"])
async def test_acknowledged_events_that_are_gone_are_told_with_their_positions(folder: Path, inside: bool):
    """Wherever the file was cut; the server starts without them, once, and health tells until somebody takes note."""
    (_, _), (_, before), (partition, lost) = (await write(folder, 3))[0:1] + (await write(folder, 2, 1))
    file = newest_file(folder)
    begin = transactions(file)[-1]
    cut(file, begin + 120 if inside else begin)
    incident, there = start(folder)
    assert there == [b"event 0", b"event 1"]
    assert incident is not None
    assert incident.lost == [Lost(partition=partition, after=str(START), until=str(lost))]
    assert incident.open
    assert f"partition {partition} up to {lost}" in trouble(folder)
    assert str(folder) not in trouble(folder), "health is for people who have no business with the server's files"
    assert start(folder) == (None, there)
    assert load_incidents(folder) == [incident]
    assert before
    take_note(folder)
    assert trouble(folder) == ""
    assert start(folder) == (None, there)
