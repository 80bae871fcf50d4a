"""Load on a cluster that measures: clients that each ask one thing again and again, and note when they were answered.

A probe asks one kind of thing, of one API process, about what is in one partition (or in all). It waits for its answer,
as a client does, and sends a write that was not acknowledged again with the same event id.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from benchmarks.driving import Answer, Http
from ingest.log.position import partition_of, project_route, session_route

WRITE_PAUSE_S, READ_PAUSE_S = 0.3, 0.6
"""Some sixty probes share two cores with all that they ask."""
GIVE_UP_AFTER_S = 20.0
"""A client that has waited for so long hangs up."""
TENANT = "default"
REPLICATED = "X-Durability: replicated\r\n"
WRITES = ("observe", "observe, replicated", "remember")
READ_BACK = "read what was written"
BY_PARTITION = (*WRITES, READ_BACK, "memory", "memories")
"""Kinds of requests that one partition answers."""


class Asked(NamedTuple):
    """A request, and what became of it. `status` is 0 where the connection broke or nothing came."""

    began: float
    ended: float
    status: int
    partial: bool = False

    @property
    def good(self) -> bool:
        """Whether it got what it asked for."""
        return self.status // 100 == 2


class Window(NamedTuple):
    """A stretch of time, in the loop's seconds."""

    began: float
    ended: float


@dataclass
class Ledger:
    """What was acknowledged: event ids with the time and the durability."""

    acknowledged: dict[str, tuple[float, str]] = field(default_factory=dict[str, tuple[float, str]])


class Probe:
    """One client."""

    def __init__(self, kind: str, api: int, partition: int | None, url: str, ledger: Ledger, partitions: int) -> None:
        self.kind, self.api, self.partition = kind, api, partition
        self.asked: list[Asked] = []
        self._url, self._ledger, self._partitions = url, ledger, partitions
        self._http: Http | None = None
        self._name = f"{kind}/{api}/{partition}"
        self._numbers = count()
        self._session = self._project = self._document = ""

    def __repr__(self) -> str:
        return self._name

    async def run(self, stop: asyncio.Event) -> None:
        """Ask until stopped."""
        if self.partition is not None:
            self._project = routed(self.partition, self._partitions, lambda name: project_route(TENANT, name))
            self._session = routed(self.partition, self._partitions, lambda name: session_route(TENANT, "load", name))
        step = self._steps()
        while not stop.is_set():
            await step()
            await asyncio.sleep(WRITE_PAUSE_S if self.kind in WRITES else READ_PAUSE_S)
        self._hang_up()

    def _hang_up(self) -> None:
        if self._http is not None:
            self._http.close()
        self._http = None

    def _steps(self) -> "Callable[[], Any]":
        """What the probe does each time."""
        match self.kind:
            case "observe":
                return lambda: self._write("/v1/observations", self._observation())
            case "observe, replicated":
                return lambda: self._write("/v1/observations", self._observation(), REPLICATED)
            case "remember":
                return lambda: self._write("/v1/memories", self._memory())
            case "read what was written":
                return self._read_back
            case "memory":
                return self._read_memory
            case "memories":
                return lambda: self._ask("GET", f"/v1/memories?project={self._project}")
            case "recall":
                return lambda: self._ask("POST", "/v1/recall", {"query": "what did the pump say of its pressure?"})
            case "recall, project":
                return lambda: self._ask("POST", "/v1/recall", {"query": "the pressure of pump 7", "project": "load"})
            case "context":
                return lambda: self._ask("POST", "/v1/context", {"project": "load", "query": "pumps"})
            case path:
                return lambda: self._ask("GET", path)

    def _observation(self) -> dict[str, Any]:
        content = f"pump {next(self._numbers)} says its pressure is {self._name}"
        return {"session_id": self._session, "project": "load", "content": content, "agent_id": "load"}

    def _memory(self) -> dict[str, Any]:
        content = f"{self._name}: valve {next(self._numbers)} opens at noon"
        return {"project": self._project, "content": content, "keep_duplicates": True}

    async def _read_memory(self) -> None:
        if not self._document:
            written = await self._write("/v1/memories", self._memory(), noted=False)
            self._document = f"/v1/memories/{written['id']}"
            await self._until_read(f"{self._document}?after={written['position']}", noted=False)
        await self._ask("GET", self._document)

    async def _read_back(self) -> None:
        written = await self._write("/v1/observations", self._observation(), noted=False)
        await self._until_read(f"/v1/observations/{written['id']}?after={written['position']}", noted=True)

    async def _until_read(self, path: str, *, noted: bool) -> None:
        while True:
            asked, _ = await self._send("GET", path)
            if noted:
                self.asked.append(asked)
            if asked.good:
                return
            await asyncio.sleep(WRITE_PAUSE_S)

    async def _write(
        self, path: str, command: dict[str, Any], headers: str = "", *, noted: bool = True
    ) -> dict[str, Any]:
        """The acknowledgement, however often it has to be sent. `noted`: its times are this probe's."""
        command["event_id"] = f"{self._name}/{next(self._numbers)}"
        while True:
            asked, answer = await self._send("POST", path, json.dumps(command).encode(), headers)
            if noted:
                self.asked.append(asked)
            if asked.good and answer is not None:
                told = json.loads(answer.body)
                self._ledger.acknowledged[command["event_id"]] = asked.ended, told["durability"]
                return told
            await asyncio.sleep(WRITE_PAUSE_S)

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Asked:
        asked, _ = await self._send(method, path, b"" if body is None else json.dumps(body).encode())
        self.asked.append(asked)
        return asked

    async def _send(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[Asked, Answer | None]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(GIVE_UP_AFTER_S):
                answer = await (await self._connected()).ask(method, path, body, headers)
        except (OSError, EOFError, TimeoutError):
            self._hang_up()
            return Asked(began, loop.time(), 0), None
        partial = b"mnemolog-degraded" in answer.head.lower()
        return Asked(began, loop.time(), answer.status, partial), answer

    async def _connected(self) -> Http:
        if self._http is not None and self._http.closed:
            self._hang_up()
        if self._http is None:
            http = Http(self._url, None)
            await http.open()
            self._http = http
        return self._http


def routed(partition: int, partitions: int, route: Callable[[str], str]) -> str:
    """The first of the names `n0`, `n1`, ... that is in a partition."""
    return next(name for name in map("n{}".format, count()) if partition_of(route(name), partitions) == partition)


OF_ALL = ("/v1/sessions", "recall", "recall, project", "context", "/readyz", "/metrics", "/v1/diagnose")


def probes(urls: Sequence[str], places: Iterable[int], ledger: Ledger, partitions: int) -> list[Probe]:
    """One of each kind for each API process, and, of those of one partition, for each of `places`."""
    found = [
        Probe(kind, api, place, url, ledger, partitions)
        for api, url in enumerate(urls)
        for place in places
        for kind in BY_PARTITION
    ]
    return found + [Probe(kind, api, None, url, ledger, partitions) for api, url in enumerate(urls) for kind in OF_ALL]


@asynccontextmanager
async def asking(all_probes: Sequence[Probe]) -> AsyncGenerator[None]:
    """All of them ask meanwhile; each ends with what it is at."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(probe.run(stop), name=str(probe)) for probe in all_probes]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def within(asked: Iterable[Asked], window: Window) -> list[Asked]:
    """Those that were under way in a window."""
    return [one for one in asked if one.ended >= window.began and one.began <= window.ended]


def longest_wait(asked: Iterable[Asked], window: Window) -> float:
    """The longest time from asking for something until a good answer: refusals, and what was asked again, included."""
    longest, since = 0.0, None
    for one in within(asked, window):
        since = max(one.began, window.began) if since is None else since
        if one.good:
            longest, since = max(longest, one.ended - since), None
    return longest if since is None else max(longest, window.ended - since)
