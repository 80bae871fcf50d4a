"""A lock that says whose it is, and that children hold, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.errors import InUse, ServerStartFailed
from ingest.platform.locking import Lock


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
