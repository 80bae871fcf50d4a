"""The language model of an API process and of a worker: settings are checked at the start, connections come later."""

import json
import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

from api.agents import recording
from api.agents import room as spooled
from api.app import create_listeners
from api.spooling import Spooling
from ingest.commands.decide import Caller
from ingest.commands.handler import CommandHandler
from ingest.commands.spool import Spool
from ingest.errors import InvalidSetting, LogUnavailable
from ingest.log.event_log import Appended, Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.position import START
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import decode
from ingest.platform.settings import Settings, from_environment
from tests.support.memory_log import MemoryLog
from tests.unit.api.agents.payloads import payload
from workers.main import WorkerProcess

BUILDS = pytest.mark.parametrize("build", [create_listeners, WorkerProcess])
Build = Callable[[Settings], object]


def settings(home: Path, **variables: str) -> Settings:
    return from_environment({"HOME": str(home), "REDIS_URL": "redis://127.0.0.1:1/0", **variables})


@BUILDS
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MNEMOLOG_LLM", "llama3.2"),
        ("MNEMOLOG_LLM", "http://me:s3cret@127.0.0.1/v1|llama3.2"),
        ("MNEMOLOG_LLM_KEY", "s3crét"),
        ("MNEMOLOG_LLM_DAILY_TOKENS", "a lot"),
    ],
)
def test_an_invalid_language_model_is_refused_before_anything_is_opened(
    tmp_path: Path, build: Build, name: str, value: str
):
    with pytest.raises(InvalidSetting, match=rf"^{name}\b") as raised:
        build(settings(tmp_path, **{"MNEMOLOG_LLM": "http://127.0.0.1:1/v1|m", name: value}))
    assert "s3cr" not in str(raised.value)


@BUILDS
def test_building_a_process_does_not_connect_to_the_language_model(tmp_path: Path, build: Build):
    with socket.create_server(("127.0.0.1", 0)) as model:
        model.setblocking(False)
        build(settings(tmp_path, MNEMOLOG_LLM=f"http://127.0.0.1:{model.getsockname()[1]}/v1|m"))
        with pytest.raises(BlockingIOError):
            model.accept()


FACTS = {"project": "shop", "occurred_at": "2026-01-31T12:00:00.000Z", "event_id": "e-big", "agent_id": ""}


class SometimesAway(MemoryLog):
    """A log that refuses while `away`, or takes a batch and loses the answer while `mute`."""

    away = mute = False

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        if self.away:
            raise LogUnavailable("away")
        appended = await super().append(batches)
        if self.mute:
            raise LogUnavailable("the answer was lost")
        return appended


@pytest.fixture
def log() -> SometimesAway:
    return SometimesAway(1, lambda: 1_800_000_000_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
async def commands(log: SometimesAway, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[CommandHandler]:
    monkeypatch.setattr("ingest.log.group_commit.GIVE_UP_AFTER_S", 0.01)
    commit = GroupCommit(log)
    yield CommandHandler(commit, 1)
    await commit.aclose()


@pytest.fixture
def spooling(commands: CommandHandler, folder: Path) -> Spooling:
    return Spooling([Spool(folder, spooled.parse)], commands, Caller(agent_id="ada"), every_s=0.01)


def leave(folder: Path, text: str, **fields: Any) -> None:
    command = {"type": "observe", "session_id": "s", "event_id": text, "content": text, **fields}
    recording.keep(str(folder), json.dumps(command).encode())


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


async def stored(log: MemoryLog) -> list[str]:
    events = [decode(one.payload, one.position) for one in await log.read(0, START, 10_000)]
    return [event.data.content for event in events if isinstance(event.data, ObservationRecorded)]


async def test_what_is_left_is_stored_in_its_order_and_then_gone(spooling: Spooling, log: MemoryLog, folder: Path):
    for place in range(450):
        leave(folder, f"text {place}")
    expected = [json.loads(path.read_bytes())["content"] for path in files(folder)]
    assert await spooling.drain() == 450
    assert await stored(log) == expected
    assert files(folder) == []
    assert await spooling.drain() == 0


async def test_what_was_stored_before_is_stored_once(spooling: Spooling, log: MemoryLog, folder: Path):
    leave(folder, "once")
    await spooling.drain()
    leave(folder, "once")
    await spooling.drain()
    assert await stored(log) == ["once"]
    assert files(folder) == []


async def test_files_wait_while_the_log_is_away(spooling: Spooling, log: SometimesAway, folder: Path):
    log.away = True
    leave(folder, "patience")
    async with spooling:
        with pytest.raises(LogUnavailable):
            await spooling.drain()
        assert len(files(folder)) == 1
        log.away = False
        await wait_until(lambda: not files(folder))
    assert await stored(log) == ["patience"]


async def test_an_answer_that_was_lost_doubles_nothing(spooling: Spooling, log: SometimesAway, folder: Path):
    log.mute = True
    leave(folder, "stored already")
    with pytest.raises(LogUnavailable):
        await spooling.drain()
    log.mute = False
    await spooling.drain()
    assert await stored(log) == ["stored already"]


async def test_a_command_that_is_refused_is_kept_with_the_reason(spooling: Spooling, log: MemoryLog, folder: Path):
    leave(folder, "nobody's", session_id="")
    leave(folder, "good")
    await spooling.drain()
    assert await stored(log) == ["good"]
    (reason,) = (folder / "rejected").glob("*.reason")
    assert reason.read_text() == "invalid: an observation belongs to a session\n"


async def test_a_spool_that_cannot_be_read_holds_up_no_other(commands: CommandHandler, log: MemoryLog, tmp_path: Path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/rejected").write_text("a file in the place of the folder")
    (tmp_path / "broken/1.json").write_text("no json")
    os.utime(tmp_path / "broken/1.json", (0, 0))
    leave(tmp_path / "good", "y")
    spools = [Spool(tmp_path / name, spooled.parse) for name in ("broken", "good")]
    async with Spooling(spools, commands, Caller(), every_s=0.01):
        await wait_until(lambda: not files(tmp_path / "good"))
    assert await stored(log) == ["y"]
    assert (tmp_path / "broken/1.json") in files(tmp_path / "broken")


async def test_a_command_that_no_log_can_hold_holds_up_no_other(spooling: Spooling, log: MemoryLog, folder: Path):
    leave(folder, "one")
    leave(folder, "too big a number", data={"n": 2**70})
    leave(folder, "two")
    await spooling.drain()
    assert sorted(await stored(log)) == ["one", "two"]
    assert len(files(folder / "rejected")) == 2


def test_a_payload_that_no_hook_had_time_to_read_is_read_here():
    event = payload("PostToolUse", tool_name="Bash", tool_input={"command": "x" * 100_000}, tool_use_id="t1")
    (command,) = spooled.parse(
        b'{"hook":%s,"payload":%s}' % (recording.dumps(FACTS), json.dumps(event).encode()), "1.json"
    )
    assert (command.event_id, command.project, command.session_id) == ("s-1:t1", "shop", "s-1")


def test_a_payload_that_says_nothing_is_no_command():
    content = b'{"hook":%s,"payload":%s}' % (recording.dumps(FACTS), json.dumps(payload("Stop")).encode())
    assert spooled.parse(content, "1.json") == []
