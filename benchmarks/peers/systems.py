"""The systems that `peers` compares, behind one class: libraries in processes of their own, and mnemolog's server."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import uvloop

from benchmarks.driving import FEED_S, Http, Load, Refused, settled
from benchmarks.plan import ROOT
from benchmarks.servers import STOP_WITHIN_S, Stack, kill, size_of
from ingest.platform.processes import prepare_child

HOST = Path(__file__).with_name("host.py")
MODEL = ("mnemolog-minilm", "onnxruntime==1.31.1", "tokenizers==0.23.3", "numpy==2.4.6")
LIBRARY = "a library; clients are threads of its process"
SAME_MODEL = "vectors of all-MiniLM-L6-v2 from mnemolog's package"


class Peer(NamedTuple):
    """A system: its packages as they are installed, what it is, and how it was set up."""

    packages: tuple[str, ...]
    kind: str
    setup: str


PEERS = {
    "mnemolog": Peer(("mnemolog",), "an HTTP server; clients are connections", "default settings"),
    "chroma": Peer(("chromadb==1.5.9", *MODEL), LIBRARY, f"a persistent collection; {SAME_MODEL}, because its own copy "
                   "is downloaded at first use"),
    "mem0": Peer(("mem0ai==2.2.1", *MODEL), LIBRARY, f"`infer=False`; embedded qdrant; {SAME_MODEL}; calls take turns, "
                 "because threads break the embedded store"),
    "rank-bm25": Peer(("rank-bm25==0.2.2", "numpy==2.4.6"), LIBRARY, "words only; all notes are pickled to disk after "
                      "each write and indexed at the next search"),
    "sqlite": Peer(("apsw==3.54.1.0", "sqlite-vec==0.1.9", *MODEL), LIBRARY, f"FTS5 and sqlite-vec in one file, joined "
                   f"by reciprocal ranks, `synchronous = full`; {SAME_MODEL}; calls take turns"),
    "lancedb": Peer(("lancedb==0.40.0", *MODEL), LIBRARY, f"one table, no index; {SAME_MODEL}"),
    "qdrant": Peer(("qdrant-client==1.20.0", *MODEL), LIBRARY, "a folder instead of a server; "
                   f"{SAME_MODEL}; calls take turns"),
    "langgraph": Peer(("langgraph-checkpoint==4.3.2", *MODEL), LIBRARY, f"InMemoryStore: nothing is on disk; "
                      f"{SAME_MODEL}"),
}  # fmt: skip
NOT_MEASURED = {
    "Redis agent-memory-server": "its release 0.15.2 requires Python 3.12, which the machine does not have",
    "agentmemory": "its package 0.9.29 needs an engine, which it downloads from outside the package registries",
    "agentd-memory": "not published as a package (`agentd` is another program)",
    "agent-memory": "not published as a package; its installer clones a repository and starts PostgreSQL in Docker",
    "memex": "not published as a package (`memex` is another program); it starts PostgreSQL in Docker",
    "Zep, Graphiti, Letta, claude-mem": "storing needs a language model",
}


class Note(NamedTuple):
    """A text of a project. `event` is the observation that mnemolog gets."""

    name: str
    project: str
    text: str
    event: Mapping[str, Any]


def note_of(event: Mapping[str, Any]) -> Note:
    """The note of an observation with text content."""
    name, rest = event["event_id"], {key: value for key, value in event.items() if key != "type"}
    return Note(name, event["project"], event["content"], {**rest, "metadata": {"note": name}})


class Calls(NamedTuple):
    """What calls returned, by their numbers, how long they took, and the text of an error if some failed."""

    answers: dict[int, Any]
    load: Load
    error: str


class System(ABC):
    """One system with its data in a folder, which is deleted in the end."""

    name: str
    folder: Path
    killed = False

    @property
    @abstractmethod
    def pid(self) -> int:
        """The id of its process, or of the first."""

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it takes calls, with the data that are there. Raises RuntimeError."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it gracefully."""

    def kill(self) -> None:
        """Send SIGKILL to all its processes. Calls that wait for an answer end without one."""
        self.killed = True
        kill(self.pid)

    @abstractmethod
    def call(self, do: str, items: Sequence[Any], clients: int, on_first: Callable[[], object] = int) -> Calls:
        """Make a call for each item, with so many clients at a time. Raises RuntimeError if it ends without a kill.

        `write` takes notes and returns ids, which `delete` and `has` take. `search` takes `(project, query, limit)`
        and returns names of notes. `on_first` is called when the first answer is there.
        """

    @abstractmethod
    def settle(self, *, vectors: bool = False) -> None:
        """Wait until every write can be found, with `vectors` also by the vectors of the model."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class Library(System):
    """A library, driven by `host.py` with the Python that has it."""

    def __init__(self, name: str, python: Path) -> None:
        self.name, self._python, self.folder = name, python, Path(tempfile.mkdtemp(prefix="mnemo-peer-"))
        self._log = self.folder / "host.log"
        self._process: Any  # with pipes
        (self.folder / "data").mkdir()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        self.killed = False
        environment = {**os.environ, "HOME": str(self.folder / "data"), "ORT_DISABLE_TELEMETRY": "1"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._python, "-P", HOST, self.name, self.folder / "data"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=self.folder,
                preexec_fn=prepare_child(),
            )  # fmt: skip
        self._lines([], int)

    def stop(self) -> None:
        self._process.communicate(timeout=STOP_WITHIN_S)

    def call(self, do: str, items: Sequence[Any], clients: int, on_first: Callable[[], object] = int) -> Calls:
        lines, began = list[dict[str, Any]](), time.perf_counter()
        request = {"do": do, "items": [item[:3] for item in items], "clients": clients}
        with suppress(BrokenPipeError):  # after a kill
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        seconds = self._lines(lines, on_first) or time.perf_counter() - began
        errors = [line["error"] for line in lines if line["error"]]
        done = [line for line in lines if not line["error"]]
        load = Load([line["ms"] for line in done], len(errors), seconds)
        return Calls({line["number"]: line["answer"] for line in done}, load, "".join(errors[:1]))

    def settle(self, *, vectors: bool = False) -> None:
        """Return at once: a library's write is findable when it returns."""

    def _lines(self, lines: list[dict[str, Any]], on_first: Callable[[], object]) -> float:
        """Read answers up to the end of a request; the seconds that it took, 0 if the process was killed."""
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break
            if "seconds" in (answer := json.loads(line)):
                return answer["seconds"]
            lines.append(answer)
            if len(lines) == 1:
                on_first()
        self.stop()
        if not self.killed:
            log = self._log.read_text(errors="replace").strip()
            shutil.rmtree(self.folder)
            raise RuntimeError(f"{self.name} ended: {log[-300:]}")
        return 0.0


class Mnemolog(System):
    """mnemolog as `mnemolog up` starts it: an API process, a worker and Valkey."""

    name = "mnemolog"

    def __init__(self, command: Sequence[str] = ()) -> None:
        self._stack = Stack()
        self._stack.command = command or self._stack.command
        self.folder = self._stack.folder

    @property
    def pid(self) -> int:
        return self._stack.supervisor

    def start(self) -> None:
        self.killed = False
        self._stack.stop()  # waits for what was killed
        self._stack.start()

    def stop(self) -> None:
        self._stack.stop()

    def call(self, do: str, items: Sequence[Any], clients: int, on_first: Callable[[], object] = int) -> Calls:
        return uvloop.run(self._call(do, items, clients, on_first))

    def settle(self, *, vectors: bool = False) -> None:
        async def wait() -> None:
            pool = self._stack.pool()
            await settled(pool, embedded=vectors, every_s=0.02)
            pool.close()
            await asyncio.sleep(FEED_S if vectors else 0)

        uvloop.run(wait())

    async def _call(self, do: str, items: Sequence[Any], clients: int, on_first: Callable[[], object]) -> Calls:
        waiting, answers = iter(enumerate(items)), dict[int, Any]()
        times, errors, lost = list[float](), list[str](), list[Exception]()

        async def client() -> None:
            http = Http(self._stack.url, None)
            try:
                await http.open()
                with closing(http):
                    for number, item in waiting:
                        began = time.perf_counter()
                        try:
                            answers[number] = await _request(http, do, item)
                        except Refused as refused:
                            errors.append(str(refused))
                            continue
                        times.append((time.perf_counter() - began) * 1000)
                        if len(times) == 1:
                            on_first()
            except (OSError, EOFError) as error:
                lost.append(error)

        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        if lost and not self.killed:
            raise RuntimeError(f"mnemolog closed a connection: {lost[0]!r}")
        return Calls(answers, Load(times, len(errors), time.perf_counter() - began), "".join(errors[:1]))


async def _request(http: Http, do: str, item: Any) -> Any:
    match do:
        case "write":
            return json.loads(await http.post("/v1/observations", json.dumps(item.event).encode()))["id"]
        case "search":
            project, query, limit = item
            body = {"project": project, "query": query, "limit": limit, "kinds": ["observation"]}
            answer = json.loads(await http.post("/v1/recall", json.dumps(body).encode()))
            return [result["metadata"]["note"] for result in answer["results"]]
        case _:
            answer = await http.ask({"delete": "DELETE", "has": "GET"}[do], f"/v1/observations/{item[0]}")
            if answer.status not in (200, 202, 404):
                raise Refused(f"{answer.status}: {answer.body[:200]!r}")
            return answer.status != 404


class Installed(NamedTuple):
    """A system's environment: its Python, for mnemolog its command, and what the installation took."""

    name: str
    python: Path
    command: tuple[str, ...] = ()
    figures: Mapping[str, float] = {}

    def new(self) -> System:
        """The system with an empty folder."""
        return Mnemolog(self.command) if self.name == "mnemolog" else Library(self.name, self.python)


def install(name: str, cache: Path, wheels: Path) -> Installed:
    """The system in a new environment in `cache`, by uv, whose own cache keeps wheels. Raises RuntimeError.

    mnemolog is this checkout. `wheels` has those of its packages that no index has, apart from itself.
    """
    uv, built, folder = Path(sys.executable).with_name("uv"), cache / "wheels", cache / name
    if name == "mnemolog":
        shutil.rmtree(built, ignore_errors=True)
        _run(sys.executable, ROOT / "tools/wheels.py", built, "client", name)
    python, program, seconds = folder / "bin/python", folder / "bin/mnemolog", 0.0
    for _ in range(2):  # the first fills the cache
        began = time.perf_counter()
        _run(uv, "venv", "--quiet", "--clear", "--python", Path(sys.executable).resolve(), folder)
        packages = built.glob("*.whl") if name == "mnemolog" else PEERS[name].packages
        _run(uv, "pip", "install", "--quiet", "--python", python, "--find-links", wheels, *packages)
        seconds = time.perf_counter() - began
    figures = {"install_s": round(seconds, 1), "environment_mb": round(size_of(folder) / 1e6)}
    return Installed(name, python, (str(program),) if name == "mnemolog" else (), figures)


def _run(*command: str | Path) -> None:
    # uv reads no certificates of the system by default, as pip does
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "UV_SYSTEM_CERTS": "1"})
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command[1:3]))}: {done.stderr.strip()[-500:]}")
