"""Processes and threads of this machine: priority, locks on folders, clocks and zones."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from ingest.errors import InUse, ServerStartFailed
from ingest.platform.clock import machine_zone, time_zone
from ingest.platform.locking import Lock
from ingest.platform.processes import LOWEST_NICENESS, give_way


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_the_thread_that_gives_way_has_the_lowest_priority():
    before = niceness()
    with ThreadPoolExecutor(1, initializer=give_way) as pool:
        assert pool.submit(niceness).result() == LOWEST_NICENESS
    assert niceness() == before


def lock(folder: Path) -> Lock:
    """Another process's view of the lock: a file opened again is another holder."""
    return Lock(folder / "data" / "lock", "the data folder", "choose another")


def test_a_lasting_holder_is_named_and_not_waited_for(tmp_path: Path):
    first, second = lock(tmp_path), lock(tmp_path)
    first.take("mnemolog up", lasting=True)
    with pytest.raises(InUse) as refused:
        second.take("mnemolog up", wait_s=60)
    assert str(refused.value) == (
        f"the data folder is in use by `mnemolog up` (process {os.getpid()}): stop that first, or choose another"
    )
    first.take("mnemolog up")  # what is held stays held
    first.release()
    second.take("mnemolog keys")
    assert second.holder() is not None
    second.release()


def test_a_short_holder_is_waited_for_and_then_named(tmp_path: Path):
    first, second = lock(tmp_path), lock(tmp_path)
    first.take("mnemolog keys")
    waited: list[str] = []
    with pytest.raises(InUse, match="`mnemolog keys`"):
        second.take("mnemolog up", wait_s=0.1, on_wait=waited.append)
    assert waited[0] == f"waiting for `mnemolog keys` (process {os.getpid()})"


def test_a_child_that_was_given_the_lock_holds_it_when_its_parent_has_gone(tmp_path: Path):
    held, other = lock(tmp_path), lock(tmp_path)
    held.take("mnemolog up", lasting=True)
    assert held.fd is not None
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, pass_fds=[held.fd]) as child:
        held.release()
        with pytest.raises(InUse):
            other.take("mnemolog up", wait_s=0)
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    other.take("mnemolog up", wait_s=0)
    other.release()


def test_children_of_a_killed_holder_are_waited_for(tmp_path: Path):
    other = lock(tmp_path)
    code = (
        "import subprocess, sys; from pathlib import Path; from ingest.platform.locking import Lock\n"
        "held = Lock(Path(sys.argv[1]), 'x'); held.take('mnemolog up', lasting=True)\n"
        "child = subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL, pass_fds=[held.fd]); print(child.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(other.path)], stdout=subprocess.PIPE, text=True, check=True)
    waited: list[str] = []
    try:
        with pytest.raises(InUse, match="left behind"):
            other.take("mnemolog up", wait_s=0.1, on_wait=waited.append)
        assert waited
    finally:
        os.kill(int(done.stdout), 9)
    other.take("mnemolog up", wait_s=30)
    other.release()


@pytest.mark.parametrize("below", ["file", "file/deeper"])
def test_a_folder_that_is_a_file_is_told(tmp_path: Path, below: str):
    (tmp_path / "file").touch()
    with pytest.raises(ServerStartFailed, match=r"cannot be written: .*; choose another"):
        Lock(tmp_path / below / "lock", "the data folder", "choose another").take("mnemolog up")


def test_a_zone_is_named_by_iana_and_utc_without_a_name():
    assert time_zone("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    assert time_zone("") is UTC


@pytest.mark.parametrize(
    "name", ["Nowhere/City", "../../etc/passwd", "/etc/passwd", "Europe", "+02:00", "\0", "\ud800"]
)
def test_what_names_no_zone_is_refused(name: str):
    with pytest.raises(ValueError, match="is not a time zone"):
        time_zone(name)


@pytest.mark.parametrize(
    ("variable", "zone"),
    [("Asia/Tokyo", "Asia/Tokyo"), (":Asia/Tokyo", "Asia/Tokyo"), ("CET-1CEST", ""), ("Nowhere/City", "")],
)
def test_the_zone_of_the_machine_is_the_one_that_its_environment_names(
    variable: str, zone: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TZ", variable)
    assert machine_zone() == zone


def test_the_zone_of_the_machine_is_known_to_servers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TZ", raising=False)
    assert time_zone(machine_zone())
