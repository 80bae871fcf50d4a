"""Events that wait in a spool folder, and the server that a hook starts for them."""

import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from api.agents import recording, spools
from tests.unit.api.agents.payloads import payload

ENVIRON = {"PATH": "/bin", "REDIS_URL": "redis://of-the-project", "MNEMOLOG_PORT": "3111"}


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The processes that are started, which run no program."""
    started: list[dict[str, Any]] = []

    def popen(command: list[str], **options: Any) -> SimpleNamespace:
        started.append({"command": command, **options})
        return SimpleNamespace(pid=4711)

    monkeypatch.setattr(subprocess, "Popen", popen)
    return started


def spool_event(folder: Path, age_s: float = 0) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{(time.time() - age_s) * 1000:013.0f}-1-abc-2.json").write_text("{}")


def test_waiting_events_are_counted_since_the_oldest(tmp_path: Path):
    assert spools.waiting(str(tmp_path / "none")) == ("", False)
    (tmp_path / "1767225600000-1-abc-2.json").write_text("{}")
    text, is_stuck = spools.waiting(str(tmp_path))
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(1_767_225_600))
    assert (text, is_stuck) == (f"1 event waits in the spool {tmp_path} since {since}", True)
    spool_event(tmp_path)
    assert spools.waiting(str(tmp_path))[0] == f"2 events wait in the spool {tmp_path} since {since}"


def test_event_that_was_just_spooled_is_not_stuck(tmp_path: Path):
    spool_event(tmp_path)
    assert spools.waiting(str(tmp_path))[1] is False


def test_server_is_started_detached_on_the_port_of_the_hook(tmp_path: Path, starts: list[dict[str, Any]]):
    output = spools.start_server("127.0.0.1", 4000, str(tmp_path / "spool"), ENVIRON)
    (started,) = starts
    assert started["command"][1:] == ["-P", "-m", "mnemolog", "up"]
    assert started["start_new_session"] is True
    assert (started["env"]["MNEMOLOG_PORT"], started["env"]["REDIS_URL"]) == ("4000", "")
    assert Path(output).read_text() == "started by a hook as process 4711\n"
    assert Path(output).stat().st_mode & 0o777 == 0o600


def test_server_is_started_once_by_hooks_within_seconds(tmp_path: Path, starts: list[dict[str, Any]]):
    output, *_ = (spools.start_server("127.0.0.1", 4000, str(tmp_path), ENVIRON) for _ in range(3))
    assert len(starts) == 1
    long_ago = time.time() - spools.START_EVERY_S - 1
    os.utime(output, (long_ago, long_ago))
    spools.start_server("127.0.0.1", 4000, str(tmp_path), ENVIRON)
    assert len(starts) == 2


def test_server_that_still_starts_is_not_started_again(tmp_path: Path, starts: list[dict[str, Any]]):
    """Its process has the output, and with it the lock."""
    (tmp_path / spools.OUTPUT).write_text("starting\n")
    os.utime(tmp_path / spools.OUTPUT, (0, 0))
    lock = spools.locked(str(tmp_path), spools.OUTPUT)
    spools.start_server("127.0.0.1", 4000, str(tmp_path), ENVIRON)
    assert starts == []
    assert lock is not None
    os.close(lock)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://localhost:3111", ("127.0.0.1", 3111)),
        ("http://[::1]:4000/", ("::1", 4000)),
        ("http://192.168.1.5:3111", None),
        ("http://127.0.0.1:8080/memory", None),
        ("https://127.0.0.1", None),
        ("http://memory.example", None),
    ],
)
def test_only_a_server_on_this_machine_can_be_started(url: str, address: tuple[str, int] | None):
    assert recording.local_address(url) == address


def silence(folder: Path, url: str = "http://127.0.0.1:4000", *, down: bool = True, start: bool = False) -> str:
    server = recording.HookServer(url)
    server.is_down = down
    event = payload("SessionStart", source="startup", session_id=str(time.monotonic_ns()))
    return recording.silence(event, server, str(folder), str(folder / "lessons"), start=start)


def test_user_reads_that_the_server_was_started(tmp_path: Path, starts: list[dict[str, Any]]):
    spool_event(tmp_path)
    assert "`mnemolog up` starts it" in silence(tmp_path)
    assert starts == []
    assert f"A hook started it (output: {tmp_path / spools.OUTPUT})" in silence(tmp_path, start=True)
    assert len(starts) == 1


def test_server_on_another_machine_is_never_started(tmp_path: Path, starts: list[dict[str, Any]]):
    spool_event(tmp_path)
    assert "started it" not in silence(tmp_path, "http://192.168.1.5:3111", start=True)
    assert starts == []


def test_session_start_reports_events_that_a_running_server_did_not_fetch(tmp_path: Path):
    spool_event(tmp_path)
    assert silence(tmp_path, down=False) == ""
    spool_event(tmp_path, age_s=2 * spools.STUCK_S)
    assert "2 events wait" in (message := silence(tmp_path, down=False))
    assert "has not fetched them. Run `mnemolog doctor`." in message
