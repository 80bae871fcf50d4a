"""The embedded server's file, damaged: what is set aside, what is told to be lost, and when it does not start.

Bytes of the log's entries that are flipped in the files of the embedded server: every one is noticed.

The log has observations, a memory that was forgotten and its stub, in a base file and in an incremental one. Left open:
bytes of other keys, which are made from the log.
"""

import asyncio
import random
import re
import shutil
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from redis import Redis
from waiting import wait_until
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller
from ingest.embedded.log_file import (
    FILE,
    Acknowledged,
    Damage,
    LogCheck,
    Lost,
    cut_off,
    files_of,
    find_fault,
    forget_damage,
    load_damage,
    save_acknowledged,
    save_damage,
    trouble,
)
from ingest.embedded.valkey import EmbeddedValkey, newest_positions
from ingest.errors import DamagedLogFile, InUse, ServerStartFailed
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import connect
from projections.forgetting.forget import Forgetting
from projections.nouns.access import Reader

PARTITIONS = 2
WHOLE = b"file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
"""The manifest of a new folder."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder whose path leaves room for a unix socket's name."""
    made = Path(tempfile.mkdtemp(prefix="mnemo-"))
    yield made
    shutil.rmtree(made)


def write(folder: Path, count: int, first: int = 0, *, kept: bool = True) -> list[tuple[int, Position]]:
    """Partitions and positions of so many events, each acknowledged before the next is written."""
    return asyncio.run(_write(folder, count, first, kept=kept))


async def _write(folder: Path, count: int, first: int, *, kept: bool) -> list[tuple[int, Position]]:
    valkey = EmbeddedValkey(folder)
    valkey.start()
    acknowledged = Acknowledged(folder)
    redis = connect(valkey.url)
    try:
        log = RedisLog(redis, PARTITIONS)
        await log.create_or_check()
        commit = GroupCommit(log, acknowledged.note if kept else lambda rows: None)
        results: list[tuple[int, Position]] = []
        for n in range(first, first + count):
            (result,) = await commit.append([(n % PARTITIONS, Entry(f"id-{n}", b"event %d" % n))])
            results.append((n % PARTITIONS, result.position))
        return results
    finally:
        await redis.aclose()
        acknowledged.close()
        valkey.stop()


def newest_file(folder: Path) -> Path:
    """The file that is written to."""
    return next((folder / "appendonlydir").glob("*.incr.aof"))


def transactions(file: Path) -> list[int]:
    """Where each transaction begins."""
    return [result.start() for result in re.finditer(rb"\*1\r\n\$5\r\nMULTI\r\n", file.read_bytes())]


def cut(file: Path, at: int) -> bytes:
    """What was cut off."""
    data = file.read_bytes()
    file.write_bytes(data[:at])
    return data[at:]


def start(folder: Path) -> tuple[Damage | None, list[bytes]]:
    """What a start finds wrong, and the events that are there then."""
    valkey = EmbeddedValkey(folder)
    valkey.start()
    try:
        with Redis(unix_socket_path=str(valkey.socket)) as redis:
            rows: list[Any] = [
                row for partition in range(PARTITIONS) for row in cast(Any, redis).xrange(PartitionKeys(partition).log)
            ]
        return valkey.damage, sorted(fields[b"e"] for _, fields in rows)
    finally:
        valkey.stop()


@pytest.mark.parametrize("inside", [True, False], ids=["in a record", "between records"])
def test_acknowledged_events_that_are_gone_are_told_with_their_positions(folder: Path, inside: bool):
    """Wherever the file was cut; the server starts without them, once, and health tells until somebody takes note."""
    *_, (partition, lost) = write(folder, 3)
    file = newest_file(folder)
    begin = transactions(file)[-1]
    cut_bytes = cut(file, begin + 120 if inside else begin)
    damage, there = start(folder)
    assert cut_bytes
    assert there == [b"event 0", b"event 1"]
    assert damage is not None
    assert [loss.until for loss in damage.lost] == [str(lost)]
    assert [loss.partition for loss in damage.lost] == [partition]
    assert damage.open
    assert f"partition {partition} " in trouble(folder)
    assert str(lost) in trouble(folder)
    assert str(folder) not in trouble(folder), "health is for people who have no business with the server's files"
    assert start(folder) == (None, there)
    assert load_damage(folder) == damage
    assert [len(part) for part in set_aside(folder)] == ([damage.cut_bytes] if inside else [])
    forget_damage(folder)
    assert trouble(folder) == ""
    assert set_aside(folder) == []


def set_aside(folder: Path) -> list[bytes]:
    """Return the bytes that were cut off."""
    return [path.read_bytes() for path in (folder / "set-aside").glob("*")]


def test_damage_of_several_starts_is_one_record_until_it_is_acknowledged(folder: Path):
    """The losses of each start are in it, and the bytes are added."""
    lost: list[str] = []
    sizes: list[int] = []
    for first in (0, 10):
        *_, (partition, position) = write(folder, 3, first)
        lost.append(f"{partition}:{position}")
        file = newest_file(folder)
        cut(file, transactions(file)[-1] + 120)
        damage, _ = start(folder)
        assert damage is not None
        sizes.append(damage.cut_bytes)
    assert damage == load_damage(folder)
    assert [f"{loss.partition}:{loss.until}" for loss in damage.lost] == lost
    assert all(position.partition(":")[2] in trouble(folder) for position in lost)
    assert sizes[1] == sum(map(len, set_aside(folder))) == 2 * sizes[0]
    assert start(folder)[0] is None
    assert load_damage(folder) == damage


def test_incidents_that_an_earlier_release_recorded_are_one_record(folder: Path):
    first = Damage(at=datetime(2026, 1, 1, tzinfo=UTC), cut_bytes=5, entries={1: ["1-0", "3-0"]}, compared=True)
    loss = Lost(partition=0, after="1-0", until="2-0")
    second = Damage(at=datetime(2026, 1, 2, tzinfo=UTC), cut_bytes=7, entries={1: ["4-0"], 0: ["2-0"]}, lost=[loss])
    save_damage(folder, first)
    rows = [msgspec.to_builtins(one) | {"file": "x", "cut_at": 1, "kept": "y"} for one in (first, second)]
    (folder / "incidents.json").write_bytes(msgspec.json.encode(rows))
    entries = {0: ["2-0", "2-0"], 1: ["1-0", "4-0"]}
    assert load_damage(folder) == Damage(at=second.at, cut_bytes=12, entries=entries, lost=[loss])
    (folder / "incidents.json").write_bytes(b"[]")
    assert load_damage(folder) is None


def test_a_torn_end_that_nobody_was_told_of_is_set_aside_and_needs_nobody(folder: Path):
    """A crash in the middle of a write: what was not acknowledged may be gone, and health says nothing."""
    write(folder, 2)
    file = newest_file(folder)
    whole = file.read_bytes()
    torn = b"*1\r\n$5\r\nMULTI\r\n*5\r\n$4\r\nXADD\r\n$18\r\nmnemolog:{p01}:log\r\n$15\r\n9999999999999-0\r\n$1\r\ne"
    file.write_bytes(whole + torn)
    damage, there = start(folder)
    assert there == [b"event 0", b"event 1"]
    assert damage is not None
    assert (damage.cut_bytes, damage.entries, damage.lost) == (len(torn), {1: ["9999999999999-0"] * 2}, [])
    assert set_aside(folder) == [torn]
    assert trouble(folder) == ""
    assert start(folder) == (None, there)
    assert set_aside(folder) == [], "it may say what is forgotten one day"


def test_zeros_behind_the_last_record_are_set_aside(folder: Path):
    """What a power cut leaves on some file systems."""
    write(folder, 2)
    with newest_file(folder).open("ab") as file:
        file.write(bytes(4096))
    damage, there = start(folder)
    assert there == [b"event 0", b"event 1"]
    assert damage is not None
    assert (damage.cut_bytes, trouble(folder)) == (4096, "")


def test_a_torn_end_of_a_log_that_kept_no_record_is_told_to_be_unknown(folder: Path):
    """As the first start of this release on the data of one that kept none."""
    write(folder, 2, kept=False)
    *_, (partition, last) = write(folder, 1, 2, kept=False)
    (folder / FILE).unlink()
    file = newest_file(folder)
    cut(file, file.stat().st_size - 5)
    damage, _ = start(folder)
    assert damage is not None
    assert damage.open
    assert damage.entries == {partition: [str(last)] * 2}
    assert "may have contained" in trouble(folder)


@pytest.mark.parametrize("damage", [b"!", b"$99999999\r\n"], ids=["no command", "a length that passes the end"])
def test_damage_in_the_middle_stops_the_start_and_changes_nothing(folder: Path, damage: bytes):
    """The second kind would cut off all that is behind it, if the server were left to itself."""
    written = write(folder, 4)
    file = newest_file(folder)
    data = bytearray(file.read_bytes())
    begin = max(transaction for transaction in transactions(file) if transaction < data.index(b"event 1"))
    at = data.index(b"$", begin + 30)
    data[at : at + len(damage)] = damage
    file.write_bytes(data)
    with pytest.raises(DamagedLogFile, match="mnemolog admin log-file repair") as stopped:
        start(folder)
    assert str(file) in str(stopped.value)
    assert file.read_bytes() == bytes(data)
    assert "check-aof" not in str(stopped.value), "that program is not installed"
    fault = find_fault(folder)
    assert fault is not None
    cut_off(fault, folder)
    found, there = start(folder)
    assert there == [b"event 0"]
    assert found is not None
    assert {(loss.partition, loss.until) for loss in found.lost} == {(loss, str(at)) for loss, at in written[2:]} | (
        {(1, str(written[3][1]))}
    )
    assert load_damage(folder) == found


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"", None, "is missing"),
        (WHOLE, b"", "is missing or empty"),
        (WHOLE, b"garbage\n", "cannot be read"),
        (b"type i", b"type h", "cannot be read"),
        (b"seq 1 type b", b"seq 0 type b", "cannot be read"),
        (b"incr", b"inkr", "names appendonly.aof.1.inkr.aof, which is missing"),
    ],
    ids=["missing", "empty", "garbage", "a file to be deleted", "no number", "another file"],
)
def test_a_manifest_that_is_missing_or_damaged_stops_the_start_and_nothing_is_changed(
    folder: Path, old: bytes, new: bytes | None, expected: str
):
    """The server itself would begin an empty log over the files, or delete the one of type `h`."""
    write(folder, 2)
    manifest = folder / "appendonlydir" / "appendonly.aof.manifest"
    whole = manifest.read_bytes()
    before = {file.name: file.read_bytes() for file in manifest.parent.glob("*.aof")}
    assert whole == WHOLE
    if new is None:
        manifest.unlink()
    else:
        manifest.write_bytes(whole.replace(old, new))
    with pytest.raises(DamagedLogFile, match="mnemolog admin restore") as stopped:
        start(folder)
    assert f"{manifest} {expected}" in str(stopped.value)
    assert {file.name: file.read_bytes() for file in manifest.parent.glob("*.aof")} == before
    lines = re.findall(r"`(file [^`]+)`", str(stopped.value))
    assert lines == whole.decode().splitlines(), "the message has what the manifest said"
    manifest.write_text("\n".join(lines) + "\n")
    assert start(folder) == (None, [b"event 0", b"event 1"])


def test_a_file_of_a_newer_server_is_named_with_the_reason_and_the_way_out(folder: Path):
    write(folder, 2)
    base = next((folder / "appendonlydir").glob("*.base.aof"))
    base.write_bytes(b"REDIS0099\xff" + bytes(8))
    with pytest.raises(DamagedLogFile) as stopped:
        start(folder)
    text = str(stopped.value)
    assert "Can't handle RDB format version 99" in text
    assert base.name in text
    assert "mnemolog admin log-file check" in text
    assert "mnemolog admin restore" in text


def test_a_whole_file_has_no_fault(folder: Path):
    write(folder, 2)
    assert find_fault(folder) is None
    assert start(folder) == (None, [b"event 0", b"event 1"])


def test_a_second_server_on_the_folder_is_refused_and_takes_nothing_away(folder: Path):
    first, second = EmbeddedValkey(folder, "mnemolog up", lasting=True), EmbeddedValkey(folder)
    first.start()
    try:
        with pytest.raises(InUse, match="in use by `mnemolog up`"):
            second.start()
        second.stop()
        assert first.serving
    finally:
        first.stop()
    second.start()
    second.stop()


SEED = 1127
_COMMAND = re.compile(
    rb"\*[57]\r\n\$4\r\nXADD\r\n\$\d+\r\nmnemolog:\{p\d\d\}:log\r\n|\*4\r\n\$4\r\nZADD\r\n\$\d+\r\nmnemolog:\{p\d\d\}:erased\r\n"
)


class Entries(NamedTuple):
    """Where the commands that write the log's entries and stubs are in a file."""

    file: Path
    places: list[range]


async def _write_history(stopped: Path) -> None:
    valkey = EmbeddedValkey(stopped)
    valkey.start()
    redis = connect(valkey.url)
    try:
        shop = Workshop(redis, stopped / "work")
        await shop.log.create_or_check()
        for half in ("first", "second"):
            for n in range(12):
                await shop.observe(f"the {half} build failed {n} times", session=f"s{n}")
            secret = await shop.remember(f"a secret of the {half} half")
            await shop.project()
            await Forgetting(shop.current).document(secret.id, Reader(TENANT, operator=True), Caller(TENANT))
            await shop.project()
            if half == "first":
                await cast(Any, redis).bgrewriteaof()

                async def rewritten() -> bool:
                    return any(file.name == "appendonly.aof.2.base.aof" for file in files_of(stopped))

                await wait_until(rewritten)
    finally:
        await redis.aclose()
    with Redis(unix_socket_path=str(valkey.socket)) as plain:
        save_acknowledged(stopped, newest_positions(plain))
    valkey.stop()


@pytest.fixture(scope="module")
def stopped() -> Iterator[Path]:
    """A stopped server's folder."""
    made = Path(tempfile.mkdtemp(prefix="mnemo-"))
    asyncio.run(_write_history(made))
    yield made
    shutil.rmtree(made)


def entries_of(file: Path) -> Entries:
    """Found without the parser under test: a command ends where the next one begins, or where the file ends.

    A rewritten file has its keys in the order of the server's hash table, so a log may be the last of them.
    """
    data = file.read_bytes()
    starts = [*(found.start() + 2 for found in re.finditer(rb"\r\n\*", data)), len(data)]
    return Entries(
        file, [range(item.start(), starts[bisect_right(starts, item.start())]) for item in _COMMAND.finditer(data)]
    )


def noticed(stopped: Path) -> str:
    """What `mnemolog admin log-file check` finds wrong; empty for nothing."""
    fault = find_fault(stopped)
    return str(fault) if fault is not None else "; ".join(LogCheck(stopped).faults)


def test_a_whole_log_has_no_fault_and_each_entry_a_checksum(stopped: Path):
    check = LogCheck(stopped)
    assert (check.unchecked, check.faults) == (0, [])
    assert check.entries == sum(len(entries_of(file).places) for file in files_of(stopped)) > 2 * 14
    assert noticed(stopped) == ""


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.nightly)])
def test_every_flipped_byte_of_an_entry_is_noticed(stopped: Path, count: int):
    chance = random.Random(SEED)
    base, increment = (entries_of(file) for file in files_of(stopped))
    assert min(len(base.places), len(increment.places)) > 12
    passed: list[str] = []
    for n in range(count):
        chosen = (base, increment)[n % 2]
        at, bits = chance.choice(chance.choice(chosen.places)), chance.randint(1, 255)
        whole = chosen.file.read_bytes()
        altered = bytearray(whole)
        altered[at] ^= bits
        chosen.file.write_bytes(altered)
        if not noticed(stopped):
            passed.append(f"{chosen.file.name} at byte {at}: {whole[at - 20 : at + 20]!r} ^ {bits}")
        chosen.file.write_bytes(whole)
    assert passed == []


@pytest.mark.nightly
def test_every_bit_of_an_entry_and_of_a_stub_is_noticed(stopped: Path):
    """The ordinary run takes a sample of these places; here each bit of two commands is flipped in turn."""
    increment = entries_of(files_of(stopped)[-1])
    whole = increment.file.read_bytes()
    stub = next(place for place in increment.places if b"ZADD" in whole[place.start : place.stop])
    for place in (increment.places[0], stub):
        for at in place:
            for bit in range(8):
                altered = bytearray(whole)
                altered[at] ^= 1 << bit
                increment.file.write_bytes(altered)
                assert LogCheck(stopped).faults, (at, bit, whole[at - 20 : at + 20])
    increment.file.write_bytes(whole)


def test_damage_that_the_server_cannot_load_is_named_with_the_way_out(stopped: Path):
    """A command whose name was altered is well formed: the server's own check of the file passes it over."""
    file = files_of(stopped)[-1]
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"XADD\r\n$18\r\nmnemolog:{p01}:log", b"XADE\r\n$18\r\nmnemolog:{p01}:log", 1))
    try:
        assert find_fault(stopped) is None
        with pytest.raises(
            ServerStartFailed, match=r"unknown command 'XADE'.*nothing was changed.*mnemolog admin restore"
        ):
            EmbeddedValkey(stopped).start()
        assert "XADE is not a valid command for mnemolog:{p01}:log" in noticed(stopped)
    finally:
        file.write_bytes(whole)
