"""Both emitters against a stub: when a batch is sent, what happens to it, and what becomes of what is left."""

import asyncio
import logging
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import wait_until

from mnemolog_client import (
    AsyncMnemolog,
    Emitter,
    EmitterClosed,
    EmitterFull,
    Mnemolog,
    NotDelivered,
    SpoolInUse,
    TooLarge,
    Unauthorized,
)
from mnemolog_client.answers import Rejection
from mnemolog_client.outbox import open_outbox
from tests.clients.python.stub import CUT, Answer, Received, Reply, Stub, batch_answer, refused

NEVER_S = 3600.0


@pytest.fixture
def client(stub: Stub) -> Iterator[Mnemolog]:
    """A client of the stub, which accepts all."""
    stub.otherwise = batch_answer
    with Mnemolog(stub.url, agent="ada") as made:
        yield made


def contents(stub: Stub) -> list[list[str]]:
    """What each batch said."""
    return [[command["content"] for command in one.commands] for one in stub.received]


def spooled(folder: Path) -> int:
    """How many commands are in the files of a spool."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.ndjson"))


@contextmanager
def held(stub: Stub) -> Generator[threading.Event]:
    """The stub answers nothing until the event is set."""
    release = threading.Event()

    def answer(received: Received) -> Reply | str:
        release.wait(30)
        return batch_answer(received)

    stub.otherwise = answer
    try:
        yield release
    finally:
        release.set()


async def test_a_full_batch_is_sent_at_once(client: Mnemolog, stub: Stub):
    with client.emitter(batch_events=2, flush_every_s=NEVER_S) as emitter:
        for n in range(5):
            emitter.observe("s1", str(n))
        await wait_until(lambda: emitter.stats.accepted == 4)
        assert emitter.stats.waiting == 1
    assert [one for batch in contents(stub) for one in batch] == ["0", "1", "2", "3", "4"]


async def test_what_waits_is_sent_when_its_time_has_come(client: Mnemolog, stub: Stub):
    with client.emitter(flush_every_s=0.01) as emitter:
        emitter.observe("s1", "tea")
        await wait_until(lambda: emitter.stats.accepted == 1)


def test_a_flush_sends_at_once_and_returns_when_all_is_settled(client: Mnemolog, stub: Stub):
    stub.otherwise = lambda received: batch_answer(received, {"bad": "invalid"}, "3:7-0")
    with client.emitter(flush_every_s=NEVER_S) as emitter:
        ids = [emitter.observe("s1", one, project="shop") for one in ("good", "bad", "good too")]
        emitter.flush()
        assert emitter.stats == (0, 2, 0, 1, None)
    sent = stub.received[0]
    assert sent.headers["content-type"] == "application/x-ndjson"
    assert [command["event_id"] for command in sent.commands] == ids
    assert {command["agent_id"] for command in sent.commands} == {"ada"}
    assert all(command["occurred_at"] for command in sent.commands)
    assert client.position == "3:7-0"


@pytest.mark.parametrize(
    "fault",
    [CUT, refused(429, "overloaded", "0"), refused(503, "log_unavailable", "0"), Reply(b"?", 502), Reply(b"?", 202),
     refused(500, "internal"), refused(401, "unauthorized"), refused(422, "durability_unavailable")],
    ids=["cut", "429", "503", "502", "unreadable", "500", "401", "422"],
)  # fmt: skip
def test_a_batch_that_was_not_taken_is_sent_again_unchanged(client: Mnemolog, stub: Stub, fault: Answer):
    stub.answers.extend([fault, fault])
    with client.emitter(batch_events=3, flush_every_s=NEVER_S) as emitter:
        for n in range(3):
            emitter.observe("s1", str(n))
        emitter.flush()
        assert emitter.stats == (0, 3, 0, 0, None)
    assert len({one.content for one in stub.received}) == 1
    assert len(stub.received) == 3


async def test_trouble_is_told_while_it_lasts(client: Mnemolog, stub: Stub, caplog: pytest.LogCaptureFixture):
    stub.otherwise = refused(401, "unauthorized")
    emitter = client.emitter(flush_every_s=NEVER_S)
    emitter.observe("s1", "tea")
    with pytest.raises(NotDelivered):
        emitter.flush(timeout_s=0.0)
    with caplog.at_level(logging.WARNING):
        await wait_until(lambda: emitter.stats.trouble is not None)
    with pytest.raises(NotDelivered) as raised:
        emitter.flush(timeout_s=0.0)
    assert raised.value.left == 1
    assert isinstance(raised.value.trouble, Unauthorized)
    assert isinstance(emitter.stats.trouble, Unauthorized)
    assert [record.message for record in caplog.records].count(
        "1 commands wait: unauthorized: because of unauthorized"
    ) == 1
    with pytest.raises(NotDelivered):
        emitter.close(timeout_s=0.0)


def test_a_full_emitter_refuses_and_has_not_taken_it(client: Mnemolog, stub: Stub):
    with held(stub) as release, client.emitter(max_events=2, batch_events=1) as emitter:
        emitter.observe("s1", "0")
        emitter.observe("s1", "1")
        with pytest.raises(EmitterFull):
            emitter.observe("s1", "2")
        release.set()
        emitter.flush()
        emitter.observe("s1", "3")
    assert [one for batch in contents(stub) for one in batch] == ["0", "1", "3"]


def test_a_full_emitter_that_blocks_goes_on_when_there_is_room(client: Mnemolog, stub: Stub):
    with client.emitter(max_events=2, flush_every_s=NEVER_S, when_full="block") as emitter:
        for n in range(20):
            emitter.observe("s1", str(n))
    assert [one for batch in contents(stub) for one in batch] == [str(n) for n in range(20)]


def test_what_could_never_fit_is_refused_also_by_an_emitter_that_blocks(client: Mnemolog):
    with client.emitter(max_bytes=100, when_full="block") as emitter, pytest.raises(EmitterFull):
        emitter.observe("s1", "x" * 200)


def test_an_event_that_is_too_large_for_any_batch_is_refused(client: Mnemolog):
    with client.emitter() as emitter, pytest.raises(TooLarge):
        emitter.observe("s1", "x" * (9 << 20))


@pytest.mark.parametrize("code", ["too_large", "malformed"])
def test_a_batch_that_one_command_spoils_is_split_until_that_one_is_alone(
    client: Mnemolog, stub: Stub, tmp_path: Path, code: str
):
    def answer(received: Received) -> Reply | str:
        spoilt = any(command["content"] == "5" for command in received.commands)
        return refused(413 if code == "too_large" else 400, code) if spoilt else batch_answer(received)

    stub.otherwise = answer
    told: list[tuple[str, str]] = []

    def refusal(command: dict[str, Any], rejection: Rejection) -> None:
        told.append((command["content"], rejection.code))

    with client.emitter(tmp_path, flush_every_s=NEVER_S, on_rejected=refusal) as emitter:
        for n in range(9):
            emitter.observe("s1", str(n))
        emitter.flush()
        assert (emitter.stats.accepted, emitter.stats.rejected) == (8, 1)
    assert told == [("5", code)]
    (kept,) = [msgspec.json.decode(line) for line in (tmp_path / "rejected").read_bytes().splitlines()]
    assert (kept["rejection"]["code"], kept["command"]["content"]) == (code, "5")


def test_a_callback_that_fails_stops_nothing(client: Mnemolog, stub: Stub):
    stub.otherwise = lambda received: batch_answer(received, {"bad": "invalid"})

    def refusal(command: dict[str, Any], rejection: Rejection) -> None:
        raise RuntimeError("of the callback")

    with client.emitter(on_rejected=refusal) as emitter:
        emitter.observe("s1", "bad")
        emitter.flush()
        emitter.observe("s1", "good")
        emitter.flush()
        assert (emitter.stats.accepted, emitter.stats.rejected) == (1, 1)


def test_what_is_left_stays_in_the_spool_and_is_sent_first_by_the_next(client: Mnemolog, stub: Stub, tmp_path: Path):
    stub.otherwise = CUT
    first = client.emitter(tmp_path, batch_events=2)
    ids = [first.observe("s1", str(n)) for n in range(5)]
    first.close(timeout_s=0.2)
    with pytest.raises(EmitterClosed):
        first.observe("s1", "late")
    stub.received.clear()
    stub.otherwise = batch_answer
    with client.emitter(tmp_path, flush_every_s=NEVER_S) as second:
        second.observe("s1", "5")
        second.flush()
    assert [one for batch in contents(stub) for one in batch] == ["0", "1", "2", "3", "4", "5"]
    assert [command["event_id"] for one in stub.received for command in one.commands][:5] == ids


async def test_what_an_earlier_process_left_goes_without_being_asked_for(client: Mnemolog, stub: Stub, tmp_path: Path):
    stub.otherwise = CUT
    first = client.emitter(tmp_path)
    first.observe("s1", "left")
    first.close(timeout_s=0.0)
    stub.otherwise = batch_answer
    with client.emitter(tmp_path, flush_every_s=NEVER_S) as second:
        await wait_until(lambda: second.stats.accepted == 1)


def test_a_folder_belongs_to_one_emitter(client: Mnemolog, tmp_path: Path):
    with client.emitter(tmp_path), pytest.raises(SpoolInUse):
        client.emitter(tmp_path)


def test_without_a_spool_what_is_left_is_told(client: Mnemolog, stub: Stub):
    stub.otherwise = CUT
    emitter = client.emitter()
    emitter.observe("s1", "tea")
    with pytest.raises(NotDelivered) as raised:
        emitter.close(timeout_s=0.1)
    assert raised.value.left == 1


async def test_a_client_that_is_closed_first_loses_nothing(stub: Stub, tmp_path: Path):
    with Mnemolog(stub.url) as client:
        emitter = client.emitter(tmp_path, flush_every_s=NEVER_S)
        emitter.observe("s1", "tea")
    with pytest.raises(NotDelivered):
        emitter.flush(timeout_s=0.0)
    await wait_until(lambda: "closed" in str(emitter.stats.trouble))
    emitter.close(timeout_s=0.0)
    assert spooled(tmp_path) == 1


async def test_a_batch_that_is_answered_after_the_emitter_gave_up_touches_nothing(
    client: Mnemolog, stub: Stub, tmp_path: Path
):
    """The folder may belong to another emitter by then, which sends it again."""
    with held(stub) as release:
        first = client.emitter(tmp_path, batch_events=1)
        first.observe("s1", "0")
        await wait_until(lambda: len(stub.received) == 1)
        first.close(timeout_s=0.0)
        release.set()
        await wait_until(lambda: "mnemolog-emitter" not in {thread.name for thread in threading.enumerate()})
    assert spooled(tmp_path) == 1
    with client.emitter(tmp_path) as second:
        second.flush()
    assert stub.received[0].content == stub.received[1].content
    assert spooled(tmp_path) == 0


KILLED = """
import sys
from mnemolog_client import Mnemolog

emitter = Mnemolog("http://127.0.0.1:1").emitter(sys.argv[1], flush_every_s=0.001)
for n in range(1_000_000):
    print(emitter.observe("s1", str(n)), flush=True)
"""


def test_all_that_was_emitted_survives_the_process(client: Mnemolog, stub: Stub, tmp_path: Path):
    """SIGKILL in the middle of emitting: what `observe` returned is sent, once, in order."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        emitted = [process.stdout.readline().decode().strip() for _ in range(2_000)]
        process.send_signal(signal.SIGKILL)
        emitted += process.stdout.read().decode().split()
    with client.emitter(tmp_path) as emitter:
        emitter.flush()
    sent = [command for one in stub.received for command in one.commands]
    ids = [one["event_id"] for one in sent]
    assert ids[: len(emitted)] == emitted
    assert len(ids) - len(emitted) in (0, 1)  # one may have been written, and its id not printed
    assert [one["content"] for one in sent] == [str(n) for n in range(len(sent))]


UNCLOSED = """
import sys
from mnemolog_client import Mnemolog

Mnemolog(sys.argv[1]).emitter(flush_every_s=3600.0).observe("s1", "tea")
"""


def test_an_emitter_that_nobody_closed_is_closed_when_the_process_ends(stub: Stub):
    stub.otherwise = batch_answer
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", UNCLOSED, stub.url], env=environment, check=True, timeout=60)
    assert contents(stub) == [["tea"]]


def test_threads_share_an_emitter_and_each_keeps_its_order(client: Mnemolog, stub: Stub, tmp_path: Path):
    with client.emitter(tmp_path, batch_events=7) as emitter:

        def emit(session: str, emitter: Emitter = emitter) -> None:
            for n in range(100):
                emitter.observe(session, str(n))

        threads = [threading.Thread(target=emit, args=(f"s{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sent = [command for one in stub.received for command in one.commands]
    for n in range(4):
        assert [one["content"] for one in sent if one["session_id"] == f"s{n}"] == [str(m) for m in range(100)]


# the asyncio emitter


@pytest.fixture(params=["memory", "spool"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the asyncio emitter's commands wait."""
    return tmp_path if request.param == "spool" else None


async def test_the_asyncio_emitter_sends_in_order_and_again_after_faults(stub: Stub, folder: Path | None):
    stub.answers.extend([CUT, refused(429, "overloaded", "0"), refused(503, "log_unavailable", "0")])
    stub.otherwise = batch_answer
    async with (
        AsyncMnemolog(stub.url, agent="ada") as client,
        await client.emitter(folder, batch_events=3, flush_every_s=0.01) as emitter,
    ):
        for n in range(20):
            await emitter.observe("s1", str(n))
        await emitter.flush()
        assert emitter.stats == (0, 20, 0, 0, None)
    assert [one for batch in contents(stub)[3:] for one in batch] == [str(n) for n in range(20)]


async def test_a_full_asyncio_emitter_refuses_or_waits(stub: Stub, folder: Path | None):
    with held(stub) as release:
        async with AsyncMnemolog(stub.url) as client:
            async with await client.emitter(folder, max_events=1, flush_every_s=0.0) as emitter:
                await emitter.observe("s1", "0")
                with pytest.raises(EmitterFull):
                    await emitter.observe("s1", "1")
                release.set()
            async with await client.emitter(folder, max_events=1, flush_every_s=NEVER_S, when_full="block") as emitter:
                for n in range(5):
                    await emitter.observe("s1", str(n))
    assert [one for batch in contents(stub) for one in batch] == ["0", "0", "1", "2", "3", "4"]


async def test_an_asyncio_emitter_tells_what_is_left(stub: Stub, folder: Path | None):
    stub.otherwise = CUT
    async with AsyncMnemolog(stub.url) as client:
        emitter = await client.emitter(folder)
        await emitter.observe("s1", "tea")
        with pytest.raises(NotDelivered):
            await emitter.flush(timeout_s=0.1)
        if folder is None:
            with pytest.raises(NotDelivered):
                await emitter.close(timeout_s=0.1)
        else:
            await emitter.close(timeout_s=0.1)
        with pytest.raises(EmitterClosed):
            await emitter.observe("s1", "late")
        stub.otherwise = batch_answer
        async with await client.emitter(folder) as another:
            await another.flush()
            assert another.stats.accepted == (folder is not None)


async def test_an_emit_that_is_cancelled_leaves_the_asyncio_emitter_whole(stub: Stub, tmp_path: Path):
    stub.otherwise = batch_answer
    async with AsyncMnemolog(stub.url) as client, await client.emitter(tmp_path, flush_every_s=NEVER_S) as emitter:
        tasks = [asyncio.create_task(emitter.observe("s1", str(n))) for n in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await emitter.flush()
        accepted = emitter.stats.accepted
    sent = [int(one) for batch in contents(stub) for one in batch]
    assert len(sent) == accepted
    assert sent == sorted(sent)
    assert set(range(1, 50, 2)) <= set(sent)


async def test_an_emit_that_is_cancelled_while_it_is_written_is_sent_in_time(stub: Stub, tmp_path: Path):
    stub.otherwise = batch_answer
    async with AsyncMnemolog(stub.url) as client, await client.emitter(tmp_path, flush_every_s=0.01) as emitter:
        task = asyncio.create_task(emitter.observe("s1", "tea"))
        await asyncio.sleep(0)  # the task has begun, and waits for the thread that writes
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait_until(lambda: emitter.stats.accepted == 1)


async def test_a_closed_asyncio_emitter_can_be_closed_again(stub: Stub, folder: Path | None):
    stub.otherwise = batch_answer
    async with AsyncMnemolog(stub.url) as client:
        emitter = await client.emitter(folder)
        await emitter.observe("s1", "tea")
        await emitter.close()
        await emitter.close()
    assert contents(stub) == [["tea"]]


def test_an_outbox_says_when_a_batch_is_due(tmp_path: Path):
    outbox = open_outbox("ada", tmp_path, {"flush_every_s": NEVER_S, "batch_events": 2})
    assert outbox.due_in_s() == math.inf
    outbox.put(b"{}")
    assert 0 < outbox.due_in_s() <= NEVER_S
    outbox.put(b"{}")
    assert outbox.due_in_s() == 0.0
    outbox.close()
