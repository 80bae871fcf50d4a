"""`make cluster`: it plays the demo over two API processes and three workers, and Ctrl-C leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from ports import free_ports
from waiting import wait_until

from tools.cluster import NODES

ROOT = Path(__file__).parents[3]
UP_WITHIN_S = 150.0
SERVERS = 1 + NODES
"""Of Valkey."""


class Started:
    """The program, with its temporary files in a folder, and what it writes."""

    def __init__(self, folder: Path, cache_dir: Path, *arguments: str) -> None:
        self.folder, self._output = folder / "temporary", folder / "output"
        self.folder.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MNEMOLOG_")}
        environment = {**kept, "TMPDIR": str(self.folder), "MNEMOLOG_CACHE_DIR": str(cache_dir)}
        with self._output.open("wb") as output:
            command = [sys.executable, "-m", "tools.cluster", *arguments]
            self.process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=output)

    @property
    def written(self) -> str:
        return self._output.read_text()

    def is_up_or_gone(self) -> bool:
        return "Ctrl-C ends" in self.written or self.process.poll() is not None

    def valkeys(self) -> int:
        """How many servers have their data in the folder (Linux)."""
        found = 0
        for process in Path("/proc").glob("[0-9]*"):
            try:
                found += str((process / "cwd").readlink()).startswith(str(self.folder / "mnemolog-cluster-"))
            except OSError:  # it has ended since, or is another user's
                continue
        return found


def in_a_row(count: int) -> int:
    """The first of so many free ports."""
    while True:
        ports = free_ports(count)
        if all(later == port + 1 for port, later in pairwise(ports)):
            return ports[0]


@pytest.mark.nightly
async def test_a_local_cluster_plays_the_demo_and_ends_with_all_its_processes(tmp_path: Path, cache_dir: Path):
    ports = ("--port", str(in_a_row(2)), "--valkey-port", str(in_a_row(1 + 2 * NODES)))
    started = Started(tmp_path, cache_dir, *ports)
    try:
        await wait_until(started.is_up_or_gone, UP_WITHIN_S)
        assert "12 of 12 questions found their answer" in started.written
        assert started.valkeys() == SERVERS
    finally:
        started.process.send_signal(signal.SIGINT)
        assert started.process.wait(60) == 0, started.written
    assert started.valkeys() == 0
    assert list(started.folder.glob("mnemolog-cluster-*")) == []


async def test_a_local_cluster_names_the_port_that_another_program_has(tmp_path: Path, cache_dir: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        started = Started(tmp_path, cache_dir, "--port", str(in_a_row(2)), "--valkey-port", str(port))
        await wait_until(started.is_up_or_gone)
    assert started.process.returncode == 1
    assert str(port) in started.written
    assert "Traceback" not in started.written
    assert started.valkeys() == 0
