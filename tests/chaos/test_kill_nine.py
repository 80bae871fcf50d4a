"""kill -9 of the API, the worker or Valkey at any moment of a write load loses, doubles and invents nothing.

The load lasts 20 seconds; `CHAOS_SECONDS=60 pytest tests/chaos` runs the full minute. The seed is fixed: the same
processes are killed after the same pauses, though not at the same instruction.
"""

import asyncio
import json
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from replay_compare import (
    assert_equals_replay,
    assert_same_index,
    index_of_documents,
    indexed,
    read_log,
    without_vectors,
)
from waiting import wait_until

from api.cli.supervisor import Supervisor
from ingest.connections import Client, connect
from ingest.events.envelope import Recorded
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position, Token
from ingest.log.redis_log import RedisLog
from ingest.settings import Settings
from projections.dead_letters import dead_letters
from projections.index.service import ReplicaService

SECONDS = float(os.environ.get("CHAOS_SECONDS", "20"))
SEED = 9
KILLS = max(9, int(SECONDS / 2.2))
PARTITIONS, DIMENSIONS = 4, 16
VICTIMS = ("api", "worker", "valkey")


class Embeddings(BaseHTTPRequestHandler):
    """The test double of an embedding service: the same text gives the same vector, at once."""

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        rows = [{"index": n, "embedding": _vector(text)} for n, text in enumerate(texts)]
        body = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _vector(text: str) -> list[float]:
    seed = int.from_bytes(sha256(text.encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).tolist()


@contextmanager
def embedding_service() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Embeddings)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Keeper(threading.Thread):
    """Owns the supervisor: starts everything, starts again what dies, stops it.

    One thread for all of it: on Linux a child ends with the thread that started it.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(name="keeper", daemon=True)
        self.supervisor = Supervisor(settings)
        self.up, self.told_to_stop = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.supervisor.start()
            self.up.set()
            while not self.told_to_stop.wait(0.1):
                self.supervisor.watch()
        except Exception as error:
            self.error = error
        finally:
            self.up.set()
            self.supervisor.stop()

    def pid(self, victim: str) -> int | None:
        supervisor = self.supervisor
        process = {"api": supervisor.api, "worker": supervisor.worker, "valkey": supervisor.valkey}[victim]
        return process.pid if process else None


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[Keeper]:
    keeper = Keeper(settings)
    keeper.start()
    try:
        await asyncio.to_thread(keeper.up.wait)
        if keeper.error:
            raise keeper.error
        yield keeper
    finally:
        keeper.told_to_stop.set()
        await asyncio.to_thread(keeper.join, 60)


@dataclass
class Ledger:
    """What was sent, and what was acknowledged."""

    sent: set[str] = field(default_factory=set[str])
    exact: dict[str, tuple[int, Position]] = field(default_factory=dict[str, tuple[int, Position]])
    """Event ids of single writes, with partition and position."""
    covered: dict[str, Token] = field(default_factory=dict[str, Token])
    """Event ids of batches, with a token that covers them."""
    forgotten: dict[str, str] = field(default_factory=dict[str, str])
    """Event ids whose document was forgotten, with the document's id."""
    to_forget: set[str] = field(default_factory=set[str])
    """Documents that somebody tried to forget."""
    repeats: int = 0

    @property
    def acknowledged(self) -> set[str]:
        return self.exact.keys() | self.covered.keys()


class Writer:
    """One agent: writes until told to stop, and sends each thing again with the same event id until acknowledged."""

    def __init__(self, number: int, url: str, ledger: Ledger, stop: asyncio.Event) -> None:
        self._number, self._url, self._ledger, self._stop = number, url, ledger, stop
        self._random = random.Random(f"{SEED}/{number}")
        self._n = 0
        self._session = self._sessions = 0

    async def run(self) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=3.0) as client:
            self._client = client
            await self._open_session()
            while not self._stop.is_set():
                match self._random.choices(("one", "batch", "forget", "session"), (8, 4, 1, 1))[0]:
                    case "batch":
                        await self._batch([self._command() for _ in range(self._random.randrange(2, 25))])
                    case "forget":
                        await self._forget()
                    case "session":
                        await self._track("ended")
                        await self._open_session()
                    case _:
                        await self._one(self._command())
                await asyncio.sleep(0.01)

    def _command(self) -> dict[str, Any]:
        kind = self._random.choices(("observe", "remember", "lesson"), (6, 3, 2))[0]
        common = {"type": kind, "event_id": self._event_id(), "agent_id": f"agent{self._number}"}
        if kind == "observe":
            return common | {"project": "atlas", "session_id": self._session_id, "content": f"run {self._word()}"}
        if kind == "remember":
            return common | self._similar_memory()
        return common | {"project": "atlas", "content": f"lesson number {self._random.randrange(5)}"}

    def _similar_memory(self) -> dict[str, Any]:
        """Memories of a project are so alike that each supersedes the one before."""
        text = f"the port is {self._random.randrange(4)} on all of the test machines today"
        return {"project": f"p{self._random.randrange(3)}", "content": text}

    def _event_id(self) -> str:
        self._n += 1
        return f"w{self._number}-{self._n}"

    def _word(self) -> str:
        return f"unique{self._number}x{self._n}"

    @property
    def _session_id(self) -> str:
        return f"s{self._number}-{self._session}"

    async def _open_session(self) -> None:
        self._sessions += 1
        self._session = self._sessions
        await self._track("started")

    async def _track(self, status: str) -> None:
        await self._one({
            "type": "session", "status": status, "event_id": self._event_id(), "project": "atlas",
            "session_id": self._session_id, "agent_id": f"agent{self._number}",
        })  # fmt: skip

    async def _forget(self) -> None:
        """Write something to forget, then something behind it, then forget the first."""
        collection, command = self._random.choice([
            ("memories", {"type": "remember", **self._similar_memory()}),
            ("memories", {"type": "remember", "project": "secrets", "content": f"{self._word()} secret word"}),
            ("lessons", {"type": "lesson", "project": "secrets", "content": f"never say {self._word()}"}),
            ("observations", {
                "type": "observe", "project": "atlas", "session_id": self._session_id,
                "content": f"a secret {self._word()}",
            }),
        ])  # fmt: skip
        command |= {"event_id": self._event_id(), "agent_id": f"agent{self._number}"}
        answer = await self._one(command)
        if collection == "observations":
            await self._one({**self._command_in_session(), "event_id": self._event_id()})
        await self._delete(f"/v1/{collection}/{answer['id']}", answer["id"])
        self._ledger.forgotten[command["event_id"]] = answer["id"]

    def _command_in_session(self) -> dict[str, Any]:
        return {
            "type": "observe", "project": "atlas", "session_id": self._session_id, "agent_id": f"agent{self._number}",
            "content": f"then {self._word()}",
        }  # fmt: skip

    async def _delete(self, path: str, name: str) -> None:
        """Until acknowledged. Once it was there, "not found" says that an earlier try was heard."""
        self._ledger.to_forget.add(name)
        there = False
        for _ in range(600):
            try:
                answer = await (self._client.delete(path) if there else self._client.get(path))
            except httpx.HTTPError:
                pass
            else:
                if there and answer.status_code in (202, 404):
                    return
                there = there or answer.status_code == 200
            await asyncio.sleep(0.1)
        raise AssertionError(f"{path} cannot be forgotten")

    async def _one(self, command: dict[str, Any]) -> dict[str, Any]:
        body = {name: value for name, value in command.items() if name != "type"}
        paths = {"observe": "observations", "remember": "memories", "lesson": "lessons", "session": "sessions"}
        self._ledger.sent.add(command["event_id"])
        answer = await self._insist(f"/v1/{paths[command['type']]}", body)
        ((partition, position),) = Token.parse(answer["position"]).items()
        self._ledger.exact[command["event_id"]] = partition, position
        return answer

    async def _batch(self, commands: list[dict[str, Any]]) -> None:
        self._ledger.sent |= {command["event_id"] for command in commands}
        answer = await self._insist("/v1/events", commands)
        assert answer["rejected"] == []
        assert answer["accepted"] + answer["duplicates"] == len(commands)
        token = Token.parse(answer["position"])
        self._ledger.covered |= {command["event_id"]: token for command in commands}

    async def _insist(self, path: str, body: Any) -> dict[str, Any]:
        for _ in range(400):
            try:
                answer = await self._client.post(path, json=body)
            except httpx.HTTPError:
                pass
            else:
                if answer.status_code == 202:
                    return answer.json()
                assert answer.status_code in (429, 500, 503), f"{path}: {answer.status_code} {answer.text}"
            self._ledger.repeats += 1
            await asyncio.sleep(0.1)
        raise AssertionError(f"{path} is not acknowledged after 400 tries")


async def kill_some(keeper: Keeper) -> Counter[str]:
    """Kills in a random order that has each kind equally often, evenly over the time, with random pauses."""
    chance = random.Random(SEED)
    order = [victim for _ in range(-(-KILLS // 3)) for victim in chance.sample(VICTIMS, 3)]
    killed: Counter[str] = Counter()
    step = SECONDS / len(order)
    began = time.monotonic()
    for n, victim in enumerate(order):
        await asyncio.sleep(max(0.0, began + (n + chance.uniform(0.2, 1.0)) * step - time.monotonic()))
        for _ in range(50):  # it may still be down from the last time
            if (pid := keeper.pid(victim)) is not None:
                os.kill(pid, signal.SIGKILL)
                killed[victim] += 1
                break
            await asyncio.sleep(0.1)
    return killed


async def all_projected(redis: Client, log: RedisLog) -> bool:
    """Every checkpoint is at its head, nothing is delivered and not acknowledged, nothing waits to be embedded."""
    for partition in range(PARTITIONS):
        keys = PartitionKeys(partition)
        of = keys.of_generation(int(await redis.get(keys.generation) or 1))
        raw = await redis.get(of.checkpoint)
        if (Position.parse(raw) if raw else Position(0, 0)) != await log.head(partition):
            return False
        if await redis.zcard(of.embed_queue):
            return False
        if raw and any(group["pending"] for group in await redis.xinfo_groups(keys.log)):
            return False
    return True


def check_log(ledger: Ledger, events: dict[int, list[Recorded]]) -> None:
    """Every acknowledged event once, where it was said to be; nothing forgotten; nothing that was never sent."""
    places: dict[str, list[tuple[int, Position]]] = {}
    stubs: set[tuple[int, Position]] = set()
    for partition, recorded in events.items():
        for event in recorded:
            match event.data:
                case SubjectForgotten(subject=subject):
                    assert subject in ledger.to_forget, f"nobody forgot {subject}"
                case EventErased(document=document):
                    assert document in ledger.to_forget, f"nobody forgot {document}"
                    stubs.add((partition, event.position))
                case _:
                    places.setdefault(event.envelope.event_id, []).append((partition, event.position))
    invented = places.keys() - ledger.sent
    assert not invented, f"{len(invented)} events that nobody sent: {sorted(invented)[:3]}"
    doubled = {name: found for name, found in places.items() if len(found) > 1}
    assert not doubled, f"{len(doubled)} events are in the log more than once: {list(doubled.items())[:3]}"
    kept = ledger.acknowledged - ledger.forgotten.keys()
    lost = kept - places.keys()
    assert not lost, f"{len(lost)} acknowledged events are not in the log: {sorted(lost)[:5]}"
    left = places.keys() & ledger.forgotten.keys()
    assert not left, f"{len(left)} forgotten events are still in the log: {sorted(left)[:5]}"
    unmarked = {name: ledger.exact[name] for name in ledger.forgotten if ledger.exact[name] not in stubs}
    assert not unmarked, f"no stub stands where these were: {list(unmarked.items())[:3]}"
    moved = {name: places[name][0] for name in kept & ledger.exact.keys() if places[name][0] != ledger.exact[name]}
    assert not moved, f"events are not where they were acknowledged: {list(moved.items())[:3]}"
    for name in kept & ledger.covered.keys():
        partition, position = places[name][0]
        assert position <= ledger.covered[name].get(partition, Position(0, 0)), f"the token does not cover {name}"


@pytest.mark.timeout(240)
async def test_nothing_acknowledged_is_lost_doubled_or_invented(tmp_path: Path):
    """Every acknowledged event is in the log once, and every projection equals a replay from zero."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ledger, stop = Ledger(), asyncio.Event()
    with embedding_service() as embeddings:
        settings = Settings(
            data_dir=tmp_path / "data",
            cache_dir=tmp_path / "cache",
            port=port,
            partitions=PARTITIONS,
            embedder=f"openai:{embeddings}|hash|{DIMENSIONS}",
            snapshot_every=500,
        )
        async with running(settings) as keeper:
            url = f"http://127.0.0.1:{port}"
            writers = [asyncio.create_task(Writer(number, url, ledger, stop).run()) for number in range(6)]
            killing = asyncio.create_task(kill_some(keeper))
            await asyncio.wait([killing, *writers], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            await asyncio.gather(*writers)
            killed = await killing
            assert sum(killed.values()) >= 8, killed
            assert min(killed[victim] for victim in VICTIMS) >= 2, killed
            assert len(ledger.acknowledged) > 100
            assert ledger.forgotten
            await check_everything(keeper, ledger, tmp_path)
        assert keeper.error is None


async def check_everything(keeper: Keeper, ledger: Ledger, tmp_path: Path) -> None:
    settings = keeper.supervisor.settings
    assert settings.redis_url is not None
    await wait_until(lambda: keeper.supervisor.valkey is not None and keeper.supervisor.valkey.pid is not None, 30)
    redis = connect(settings.redis_url)
    log = RedisLog(redis, PARTITIONS)
    try:
        await wait_until(lambda: all_projected(redis, log), 60)
        events = {partition: await read_log(log, partition) for partition in range(PARTITIONS)}
        check_log(ledger, events)
        for partition in range(PARTITIONS):
            assert await dead_letters(redis, PartitionKeys(partition)) == []
        replays = await assert_equals_replay(redis, log, PARTITIONS)
        model = f"openai/hash:{DIMENSIONS}"
        again = index_of_documents(replays, tmp_path / "again", DIMENSIONS, model)
        replica = ReplicaService(redis, PARTITIONS, tmp_path / "live", settings.snapshots, model, DIMENSIONS)
        replica.start()
        await replica.wait_ready(30)
        assert_same_index(await replica.in_index_thread(indexed, replica.index), indexed(again))
        assert await replica.in_index_thread(without_vectors, replica.index) == set()
        await check_answers(settings, ledger, events, len(again))
        closing = asyncio.create_task(replica.aclose())
        while not closing.done():  # a follower may miss one cancellation: test_replica_service says so
            await asyncio.wait([closing], timeout=0.2)
            for task in asyncio.all_tasks():
                if task.get_name().startswith(("feed-", "index-replica", "lag")):
                    task.cancel()
    finally:
        await redis.aclose()
        await redis.connection_pool.disconnect()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def check_answers(settings: Settings, ledger: Ledger, events: dict[int, list[Recorded]], documents: int) -> None:
    """The API itself, through however many restarts: it counts what a replay counts, and finds what was said."""
    chance = random.Random(SEED)
    contents = [
        content
        for recorded in events.values()
        for event in recorded
        if "unique" in (content := getattr(event.data, "content", ""))
    ]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{settings.port}", timeout=5) as client:

        async def ready() -> bool:
            try:
                answer = await client.get("/readyz")
            except httpx.HTTPError:
                return False
            return answer.status_code == 200 and answer.json()["documents"] == documents

        await wait_until(ready, 40)
        for content in chance.sample(contents, min(20, len(contents))):
            answer = await client.post("/v1/recall", json={"query": content, "mode": "lexical"})
            assert content in [hit["content"] for hit in answer.json()["results"]]
        for name in chance.sample(sorted(ledger.forgotten.values()), min(10, len(ledger.forgotten))):
            collection = {"obs": "observations", "mem": "memories", "lsn": "lessons"}[name.partition("_")[0]]
            assert (await client.get(f"/v1/{collection}/{name}")).status_code == 404
