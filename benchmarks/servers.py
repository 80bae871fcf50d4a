"""Servers for benchmarks: `mnemolog up` on a free port, with its data in a temporary folder, and an HTTP server that
does nothing.

Settings from the environment are ignored, so that figures are those of the default settings and of what a benchmark
names.
"""

import asyncio
import multiprocessing
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Self

from benchmarks.driving import Pool
from ingest.platform.connections import Client, connect
from ingest.platform.processes import prepare_child
from ingest.platform.settings import VARIABLES

START_WITHIN_S = 900.0  # a big index is loaded in minutes
LOOK_EVERY_S = 0.01
STOP_WITHIN_S = 60.0
SETTLE_S = 3.0  # after the last change, before memory is read: vectors come through the feed, and heaps are trimmed
FROM_ENVIRONMENT = ("MNEMOLOG_CACHE_DIR",)


class Server:
    """A running server."""

    def __init__(self, url: str, redis_url: str = "", secret: str | None = None) -> None:
        self.url, self.redis_url, self.secret = url, redis_url, secret

    def pool(self) -> Pool:
        """Connections to it."""
        return Pool(self.url, self.secret)


class Stack(Server):
    """Valkey, worker and API on this machine; starts them when entered, and can start them again."""

    command: Sequence[str] = (sys.executable, "-m", "api.cli.main")
    """What `mnemolog` is: this checkout's, unless another is set before the start."""

    def __init__(self, **settings: str) -> None:
        """`settings` without their MNEMOLOG_: `embedder="none"`; settings that this release does not know are ignored.

        `{folder}` in a value is the folder of the stack.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="mnemo-"))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        super().__init__(f"http://127.0.0.1:{port}", f"unix://{self.folder / 'data/valkey/valkey.sock'}")
        own = {"data_dir": str(self.folder / "data"), "port": str(port), "log_level": "warning"}
        self._environment = _environment(own | {key: it.format(folder=self.folder) for key, it in settings.items()})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """For another command on the same data."""
        return {**self._environment, "REDIS_URL": self.redis_url}

    def start(self) -> None:
        """Start it and wait until reads and writes work and there is a worker.

        Call it in the main thread: child processes end with the thread that started them.
        """
        began = time.perf_counter()
        with (self.folder / "up.log").open("ab") as output:
            self._process = subprocess.Popen(
                [*self.command, "up"], env=self._environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, preexec_fn=prepare_child(),
            )  # fmt: skip
        while not self._ready():
            if self._process.poll() is not None or time.perf_counter() - began > START_WITHIN_S:
                last = (self.folder / "up.log").read_text(errors="replace").strip()[-500:]
                self.stop()
                raise RuntimeError(f"the server does not start: {last}")
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        """Stop it as Ctrl-C does."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    @property
    def supervisor(self) -> int:
        """The id of the process that has started the others."""
        assert self._process is not None
        return self._process.pid

    def run(self, *arguments: str) -> None:
        """Run a command of `mnemolog` on its data."""
        subprocess.run([*self.command, *arguments], env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def memory(self, name: str) -> int:
        """Bytes of all processes of a kind (`api`, `worker`) and of their children; shared pages are divided (PSS)."""
        return sum(map(_pss, self._pids(name)))

    def processor(self, name: str) -> float:
        """Seconds of processor time that these have used, including children that have ended."""
        return sum(map(_processor_s, self._pids(name)))

    async def pid(self, name: str) -> int:
        """The process id of `valkey`, of the first `worker`, or of the `api` that has forked those that serve."""
        if name != "valkey":
            return self._processes(name)[0]
        redis = connect(self.redis_url)
        info = await redis.info("server")
        await redis.aclose()
        return info["process_id"]

    def _pids(self, name: str) -> list[int]:
        return list(_with_descendants(self._processes(name)))

    def _processes(self, name: str) -> list[int]:
        """The ids of one kind's processes, oldest first. Raises RuntimeError without any: nothing counts as zero."""
        assert self._process is not None
        pids = [pid for pid in _children(self._process.pid) if _arguments(pid)[-2:-1] == [name]]
        if not pids:
            raise RuntimeError(f"no {name} is running")
        return pids

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


def memory_of(pid: int) -> int:
    """Bytes of a process and its descendants; shared pages are divided (PSS)."""
    return sum(map(_pss, _with_descendants([pid])))


def processor_of(pid: int) -> float:
    """Seconds of processor time of a process and its descendants."""
    return sum(map(_processor_s, _with_descendants([pid])))


def kill(pid: int) -> None:
    """Send SIGKILL to a process and its descendants."""
    for each in list(_with_descendants([pid])):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


async def used_memory(redis: Client) -> int:
    """Bytes that Valkey uses, after MEMORY PURGE."""
    await asyncio.sleep(SETTLE_S)
    async with redis.pipeline(transaction=False) as pipe:
        pipe.execute_command("MEMORY", "PURGE")
        await pipe.execute()
    return (await redis.info("memory"))["used_memory"]


async def valkey_processor_s(redis: Client) -> float:
    """Seconds of processor time that Valkey has used."""
    info = await redis.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def machine() -> dict[str, Any]:
    """What figures are measured on."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = (line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name"))
    return {
        "processor": next(models, platform.machine()), "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def commit() -> str:
    """The measured commit, with a plus if files were changed since."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _with_descendants(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        yield pid
        yield from _with_descendants(_children(pid))


def _arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _processor_s(pid: int) -> float:
    """utime, stime, cutime and cstime of proc(5), counted from the end of the name in parentheses."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {key: it for key, it in os.environ.items() if key not in VARIABLES or key in FROM_ENVIRONMENT}
    named = {key if key in VARIABLES else f"MNEMOLOG_{key.upper()}": it for key, it in settings.items()}
    return {**inherited, **{key: it for key, it in named.items() if key in VARIABLES}}


_BODY = b'{"hello":"' + b"x" * 480 + b'"}'
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())],
}


async def _app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    while (await receive()).get("more_body"):
        pass
    await send(_START)
    await send({"type": "http.response.body", "body": _BODY})


def _serve(listening: socket.socket) -> None:
    import uvicorn

    app: Any = _app
    config = uvicorn.Config(app, http="httptools", loop="uvloop", lifespan="off", log_level="error", access_log=False)
    uvicorn.Server(config).run([listening])


@contextmanager
def hello() -> Generator[str]:
    """The URL of the least that an HTTP server in Python does: uvicorn with uvloop and httptools, a constant answer.

    What the same clients get from it is the raw limit that figures are compared with. It runs in a process of its own.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(listening,), daemon=True)
        process.start()
        try:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            connection = HTTPConnection(address, timeout=60)
            connection.request("GET", "/")  # answered once it has started
            connection.getresponse().read()
            connection.close()
            yield f"http://{address}"
        finally:
            process.terminate()
            process.join()
