"""A running mnemolog as the tests of its doors see it: real processes, a free port, folders that nobody else uses."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import httpx
import msgspec
from commands import run
from ports import free_port, free_ports
from servers import Cluster
from waiting import wait_until

from api.cli.supervisor import Child, Supervisor, local_url
from ingest.embedded.valkey import EmbeddedValkey
from ingest.platform.connections import connect
from ingest.platform.settings import DROP_INS, Settings, to_environment
from workers.queue import JobQueue

T = TypeVar("T")
SECRET = "the-secret-of-these-tests"
KILLED_AFTER_S = 19.0
"""A child that does not end by itself is killed after 20 s."""
PATIENT = httpx.Timeout(60)
PATIENT_READ_S = 10
"""Reads of tests see what was written also on a machine that is busy with others."""


class Server(NamedTuple):
    """One running server and what a test needs to reach it, or to hurt it."""

    supervisor: Supervisor
    url: str
    secret: str
    redis_url: str
    data_dir: Path

    @classmethod
    def of(cls, supervisor: Supervisor) -> "Server":
        """The server that a started supervisor looks after."""
        settings = supervisor.settings
        return cls(supervisor, local_url(settings), settings.secret or "", settings.redis_url or "", settings.data_dir)

    def client(self, agent: str = "", *, secret: str | None = None) -> httpx.AsyncClient:
        """A client with the server's bearer (or another, or none for an empty one), reading as `agent`."""
        given = self.secret if secret is None else secret
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        if agent:
            headers["X-Agent-Id"] = agent
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENT, trust_env=False)

    def stop(self) -> None:
        """Stop it, also when a test left some of it frozen."""
        children = [self.supervisor.api, self.supervisor.worker, self.supervisor.valkey]
        for pid in [child.pid for child in children if child is not None]:
            if pid is not None:
                os.kill(pid, signal.SIGCONT)
        started = time.monotonic()
        self.supervisor.stop()
        words = {child.name: child.reason() for child in (self.supervisor.api, self.supervisor.worker)}
        assert time.monotonic() - started < KILLED_AFTER_S, f"a child had to be killed: {words}"


class Tenant(NamedTuple):
    """A tenant of a server, by the key of its administrator."""

    server: Server
    key: str

    def client(self, agent: str = "") -> httpx.AsyncClient:
        """A client with the key, reading as `agent`."""
        return self.server.client(agent, secret=self.key)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of its commands."""
        return {"MNEMOLOG_URL": self.server.url, "MNEMOLOG_SECRET": self.key}


async def new_tenant(server: Server, name: str) -> Tenant:
    async with server.client() as operator:
        made = await operator.post(
            "/v1/admin/keys", json={"name": "x", "tenant": name, "roles": ["read", "write", "admin"]}
        )
    tenant = Tenant(server, made.json()["key"])
    async with tenant.client() as client:
        await until_ready(client)
    return tenant


async def until_ready(client: httpx.AsyncClient, within_s: float = 30.0) -> None:
    """Return as soon as the server knows the key of this client, and answers."""

    async def ready() -> bool:
        return (await client.get("/readyz")).status_code == 200

    await wait_until(ready, within_s)


@contextmanager
def running(cache_dir: Path, **changes: Any) -> Generator[Server]:
    """A server of its own, in a folder of its own; stopped whatever happens.

    Its worker is as urgent as the tests beside it: there is no load here that requests would have to come before.
    """
    with tempfile.TemporaryDirectory(prefix="mnemo-") as folder:  # short: a unix socket's path has 100 characters
        supervisor = Supervisor(settings(Path(folder), cache_dir, **changes), worker_niceness=0)
        server = Server.of(supervisor)
        try:
            supervisor.start()
            yield server
        finally:
            server.stop()


class Installation(NamedTuple):
    """A whole installation on a Redis Cluster of three primaries, with arq on a server of its own."""

    cluster: Cluster
    jobs: EmbeddedValkey
    server: Server
    settings: Settings
    opened: ExitStack


@contextmanager
def on_cluster(
    folder: Path, cache_dir: Path, *, replicas: bool = False, workers: int = 1, **changes: Any
) -> Generator[Installation]:
    """An API and `workers` workers on a new cluster; every process of it is ended."""
    cluster, jobs = Cluster(folder / "cluster", replicas=replicas), EmbeddedValkey(folder / "jobs")
    with ExitStack() as opened:
        for store in (cluster, jobs):
            opened.callback(store.stop)
            store.start()
        urls = {"redis_url": cluster.url, "jobs_redis_url": jobs.url}
        chosen = settings(folder / "data", cache_dir, **urls, embedder="none", **changes)
        server = Server.of(Supervisor(chosen, worker_niceness=0))
        opened.callback(server.stop)
        server.supervisor.start()
        for _ in range(workers - 1):
            another = Child("worker", chosen)
            opened.callback(another.stop)
            another.start()
        yield Installation(cluster, jobs, server, chosen, opened)


class Doors(NamedTuple):
    """A server with a port for every dialect, and its URLs, without a slash at the end."""

    server: Server
    agentmemory: str
    agentd: str
    agent_memory: str
    memex: str
    memex_mcp: str

    @property
    def agent_memory_spool(self) -> Path:
        """The folder that agent-memory's hooks and the server share."""
        return self.server.supervisor.settings.agent_memory_spool


@contextmanager
def every_dialect(cache_dir: Path, **changes: Any) -> Generator[Doors]:
    """A server with a port for every dialect; stopped whatever happens."""
    names = ("agentd", "agent_memory", "memex", "memex_mcp")
    ports = free_ports(len(names))
    listening: dict[str, Any] = {f"{name}_ports": (port,) for name, port in zip(names, ports, strict=True)}
    with running(cache_dir, drop_in=DROP_INS, **listening, **changes) as server:
        server.supervisor.settings.agent_memory_spool.mkdir(mode=0o700, exist_ok=True)
        yield Doors(server, server.url, *(f"http://127.0.0.1:{port}" for port in ports))


@asynccontextmanager
async def redis_of(server: Server) -> AsyncGenerator[Any]:
    """A client of the server's Valkey with all of redis-py's commands."""
    redis = cast(Any, connect(server.redis_url, connections=4))
    try:
        yield redis
    finally:
        await redis.aclose()
        await redis.connection_pool.disconnect()


async def mnemolog(server: Server, *arguments: str) -> tuple[int, Any]:
    """Exit code and JSON of a command that talks to the server."""
    done = await asyncio.to_thread(run, to_environment(server.supervisor.settings), *arguments, "--json")
    return done.returncode, msgspec.json.decode(done.stdout)


async def run_job(server: Server, name: str) -> None:
    """Have the worker do, now and to its end, what it does once a minute."""
    queue = await JobQueue.connect(server.redis_url)

    async def queued() -> bool:
        return await queue.enqueue(name, job_id=name)

    try:
        await wait_until(queued)
        async with redis_of(server) as redis:

            async def done() -> bool:
                return not await redis.exists(f"arq:job:{name}")  # arq keeps it while the job waits or runs

            await wait_until(done)
    finally:
        await queue.aclose()


@contextmanager
def frozen(pid: int | None) -> Generator[None]:
    """The process stands still meanwhile."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def settings(folder: Path, cache_dir: Path, **changes: Any) -> Settings:
    """Settings of a server whose data is in `folder`, on a free port."""
    port = free_port()
    chosen: dict[str, Any] = {
        "data_dir": folder,
        "cache_dir": cache_dir,
        "port": port,
        "secret": SECRET,
        "url": f"http://127.0.0.1:{port}",
        "read_wait": PATIENT_READ_S,
        "spool": folder / "spool",
        "agent_memory_spool": folder / "agent-memory-spool",
        "import_folders": (Path(tempfile.gettempdir()),),
        **changes,
    }
    return Settings(**chosen)


def fault(answer: httpx.Response) -> dict[str, Any]:
    """The problem that a refusal tells of (RFC 9457)."""
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert (told["type"], told["status"]) == (f"urn:mnemolog:error:{told['code']}", answer.status_code)
    return told


def ids(page: dict[str, Any]) -> list[str]:
    """The ids of a page of documents, or of what was recalled."""
    found: Sequence[dict[str, Any]] = page["items"] if "items" in page else page["results"]
    return [one["id"] for one in found]
