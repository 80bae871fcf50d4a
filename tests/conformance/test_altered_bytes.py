"""Bytes of the log's entries that are flipped in the files of the embedded server: every one is noticed.

The log has observations, a memory that was forgotten and its stub, in a base file and in an incremental one. Left open:
bytes of other keys, which are made from the log.
"""

import asyncio
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from redis import Redis
from waiting import wait_until
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller
from ingest.embedded.log_file import LogCheck, files_of, find_fault, save_acknowledged
from ingest.embedded.valkey import EmbeddedValkey, newest_positions
from ingest.errors import ServerStartFailed
from ingest.platform.connections import connect
from projections.documents.access import Reader
from projections.forgetting.forget import Forgetting

SEED = 1127
_COMMAND = re.compile(
    rb"\*[57]\r\n\$4\r\nXADD\r\n\$\d+\r\nmnemolog:\{p\d\d\}:log\r\n|\*4\r\n\$4\r\nZADD\r\n\$\d+\r\nmnemolog:\{p\d\d\}:erased\r\n"
)


class Entries(NamedTuple):
    """Where the commands that write the log's entries and stubs are in a file."""

    file: Path
    places: list[range]


async def _write(folder: Path) -> None:
    valkey = EmbeddedValkey(folder)
    valkey.start()
    redis = connect(valkey.url)
    try:
        shop = Workshop(redis, folder / "work")
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
                    return any(file.name == "appendonly.aof.2.base.aof" for file in files_of(folder))

                await wait_until(rewritten)
    finally:
        await redis.aclose()
    with Redis(unix_socket_path=str(valkey.socket)) as plain:
        save_acknowledged(folder, newest_positions(plain))
    valkey.stop()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A stopped server's folder."""
    made = Path(tempfile.mkdtemp(prefix="mnemo-"))
    asyncio.run(_write(made))
    yield made
    shutil.rmtree(made)


def entries_of(file: Path) -> Entries:
    """Found without the parser under test: a command ends where the next one begins."""
    data = file.read_bytes()
    return Entries(
        file, [range(item.start(), (data.index(b"\r\n*", item.end()) + 2)) for item in _COMMAND.finditer(data)]
    )


def noticed(folder: Path) -> str:
    """What `mnemolog log-file check` finds wrong; empty for nothing."""
    fault = find_fault(folder)
    return str(fault) if fault is not None else "; ".join(LogCheck(folder).faults)


def test_a_whole_log_has_no_fault_and_each_entry_a_checksum(folder: Path):
    check = LogCheck(folder)
    assert (check.unchecked, check.faults) == (0, [])
    assert check.entries == sum(len(entries_of(file).places) for file in files_of(folder)) > 2 * 14
    assert noticed(folder) == ""


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.nightly)])
def test_every_flipped_byte_of_an_entry_is_noticed(folder: Path, count: int):
    chance = random.Random(SEED)
    base, increment = (entries_of(file) for file in files_of(folder))
    assert min(len(base.places), len(increment.places)) > 12
    passed: list[str] = []
    for n in range(count):
        chosen = (base, increment)[n % 2]
        at, bits = chance.choice(chance.choice(chosen.places)), chance.randint(1, 255)
        whole = chosen.file.read_bytes()
        altered = bytearray(whole)
        altered[at] ^= bits
        chosen.file.write_bytes(altered)
        if not noticed(folder):
            passed.append(f"{chosen.file.name} at byte {at}: {whole[at - 20 : at + 20]!r} ^ {bits}")
        chosen.file.write_bytes(whole)
    assert passed == []


@pytest.mark.nightly
def test_every_bit_of_an_entry_and_of_a_stub_is_noticed(folder: Path):
    """The ordinary run takes a sample of these places; here each bit of two commands is flipped in turn."""
    increment = entries_of(files_of(folder)[-1])
    whole = increment.file.read_bytes()
    stub = next(place for place in increment.places if b"ZADD" in whole[place.start : place.stop])
    for place in (increment.places[0], stub):
        for at in place:
            for bit in range(8):
                altered = bytearray(whole)
                altered[at] ^= 1 << bit
                increment.file.write_bytes(altered)
                assert LogCheck(folder).faults, (at, bit, whole[at - 20 : at + 20])
    increment.file.write_bytes(whole)


def test_damage_that_the_server_cannot_load_is_named_with_the_way_out(folder: Path):
    """A command whose name was altered is well formed: the server's own check of the file passes it over."""
    file = files_of(folder)[-1]
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"XADD\r\n$18\r\nmnemolog:{p01}:log", b"XADE\r\n$18\r\nmnemolog:{p01}:log", 1))
    try:
        assert find_fault(folder) is None
        with pytest.raises(ServerStartFailed, match=r"unknown command 'XADE'.*nothing was changed.*mnemolog restore"):
            EmbeddedValkey(folder).start()
        assert "XADE is no command for mnemolog:{p01}:log" in noticed(folder)
    finally:
        file.write_bytes(whole)
