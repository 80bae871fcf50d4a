"""A server of a benchmark's own: `mnemolog up` on a free port, with its data in a folder that is deleted afterwards.

Settings of the environment do not count, so that figures are those of the default settings and of what is named here.
The exported model is that of the user's cache, where there is one.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from ingest.platform.processes import prepare_child
from ingest.platform.settings import VARIABLES

START_WITHIN_S = 900.0
"""The first start of a user exports the model; a big index is loaded in minutes."""
LOOK_EVERY_S = 0.01
STOP_WITHIN_S = 60.0
KEPT = ("MNEMOLOG_CACHE_DIR",)


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on now."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Stack:
    """Valkey, worker and API of one machine; starts them when entered, and can start them again."""

    def __init__(self, **settings: str) -> None:
        """`settings` without their MNEMOLOG_: `embedder="none"`; those that this release does not know are left out.

        `{folder}` in a value is the folder of the stack.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="mnemo-"))
        port, memex, memex_mcp = free_ports(3)
        self.url, self.memex_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{memex}"
        self.redis_url = f"unix://{self.folder / 'data/valkey/valkey.sock'}"
        own = {"data_dir": str(self.folder / "data"), "port": str(port), "log_level": "warning"}
        own |= {"memex_port": str(memex), "memex_mcp_port": str(memex_mcp)}
        named = {name: value.format(folder=self.folder) for name, value in settings.items()}
        self._environment = _environment(own | named)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop it, and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """For another command on the same data."""
        return {**self._environment, "REDIS_URL": self.redis_url}

    def start(self) -> float:
        """Start it and wait until reads and writes work and there is a worker; returns the seconds that took.

        Called in the main thread: what it starts ends with the thread that started it.
        """
        began = time.perf_counter()
        with (self.folder / "up.log").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "api.cli.main", "up"], env=self._environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, preexec_fn=prepare_child(),
            )  # fmt: skip
        while not self._ready():
            if self._process.poll() is not None or time.perf_counter() - began > START_WITHIN_S:
                last = (self.folder / "up.log").read_text(errors="replace").strip()[-500:]
                self.stop()
                raise RuntimeError(f"the server does not start: {last}")
            time.sleep(LOOK_EVERY_S)
        return time.perf_counter() - began

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def memory(self, name: str) -> int:
        """Bytes of all processes of a kind (`api`, `worker`, `valkey`) and of what they started.

        What they share with others is divided among these (PSS).
        """
        return sum(map(_pss, self.pids(name)))

    def processor(self, name: str) -> float:
        """Seconds of processor time that these have taken, with those of them that have ended."""
        return sum(map(_processor_s, self.pids(name)))

    def pids(self, name: str) -> list[int]:
        """The processes of a kind, and what they started."""
        assert self._process is not None
        return list(_with_descendants(pid for pid in _children(self._process.pid) if _is_of(_arguments(pid), name)))

    def _ready(self) -> bool:
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=5)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return answer.status == 200 and b'"no_worker"' not in answer.read()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _with_descendants(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        yield pid
        yield from _with_descendants(_children(pid))


def _is_of(arguments: list[str], name: str) -> bool:
    return arguments[3:4] == [name] or (name == "valkey" and "valkey-server" in arguments[0])


def _arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _processor_s(pid: int) -> float:
    """utime, stime, cutime and cstime of proc(5), which begin behind the name in brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES or name in KEPT}
    named = {name if name in VARIABLES else f"MNEMOLOG_{name.upper()}": value for name, value in settings.items()}
    return {**kept, **{name: value for name, value in named.items() if name in VARIABLES}}
