"""A child that dies is followed by a spare that has loaded its modules already."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from api.cli import supervisor as supervisor_module
from api.cli.supervisor import Child
from tests.acceptance.running import settings

LOADED = """
import sys, time
from pathlib import Path
from ingest.platform.processes import wait_for_parent
folder = Path(sys.argv[1])
import os
(folder / f"loaded-{os.getpid()}").touch()
wait_for_parent()
(folder / f"served-{os.getpid()}").touch()
time.sleep(60)
"""


@pytest.fixture
def child(tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    """A child that says when it has loaded and when it serves."""
    monkeypatch.setattr(supervisor_module, "SPARE_AFTER_S", 0.0)
    monkeypatch.setattr(supervisor_module, "FIRST_PAUSE_S", 0.0)
    made = Child("api", settings(tmp_path, cache_dir), command=lambda: [sys.executable, "-c", LOADED, str(tmp_path)])
    yield made
    made.stop()


def _those(folder: Path, step: str) -> set[int]:
    return {int(path.name.removeprefix(f"{step}-")) for path in folder.glob(f"{step}-*")}


async def test_a_spare_takes_the_place_of_a_child_that_was_killed(child: Child, tmp_path: Path):
    child.start()
    first = child.pid
    assert first is not None
    await wait_until(lambda: _those(tmp_path, "served") == {first})
    child.keep_spare()
    child.keep_spare()
    await wait_until(lambda: len(_those(tmp_path, "loaded")) == 2)
    (spare,) = _those(tmp_path, "loaded") - {first}
    assert _those(tmp_path, "served") == {first}, "a spare waits"
    os.kill(first, signal.SIGKILL)
    await wait_until(child.restart_if_dead)
    assert child.pid == spare
    await wait_until(lambda: _those(tmp_path, "served") == {first, spare})


async def test_a_spare_that_died_is_passed_over_and_made_again(child: Child, tmp_path: Path):
    child.start()
    child.keep_spare()
    first = child.pid
    assert first is not None
    await wait_until(lambda: len(_those(tmp_path, "loaded")) == 2)
    (spare,) = _those(tmp_path, "loaded") - {first}
    os.kill(spare, signal.SIGKILL)
    os.kill(first, signal.SIGKILL)
    await wait_until(child.died)
    await wait_until(lambda: _ended(spare))
    child.restart_if_dead()
    assert child.pid not in (None, first, spare)
    await wait_until(lambda: child.pid in _those(tmp_path, "served"))


async def test_stopping_ends_the_spare(child: Child, tmp_path: Path):
    child.start()
    child.keep_spare()
    await wait_until(lambda: len(_those(tmp_path, "loaded")) == 2)
    child.stop()
    assert all(map(_ended, _those(tmp_path, "loaded")))


def _ended(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True
