"""What benchmarks do with a server over HTTP: write to it, wait until it has caught up, query it from many clients."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

WAIT_S = 3_600.0
LOOK_EVERY_S = 0.2
FULL_S = 0.5  # before a batch is sent again that the server had no room for
FEED_S = 1.0  # how long the last vectors take through the feed


class Refused(Exception):
    """The server answered something other than 2xx."""


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    head: bytes
    body: bytes


class Http:
    """One keep-alive connection. It works far less per request than a client library, so the server is what is
    measured."""

    def __init__(self, url: str, secret: str | None) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._headers = f"Host: {self._host}\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        if secret:
            self._headers += f"Authorization: Bearer {secret}\r\n"

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=1 << 22)

    async def post(self, path: str, body: bytes) -> bytes:
        """Send one request; returns the body of a 2xx answer, raises Refused for anything else."""
        return _accepted(await self.ask("POST", path, body))

    async def get(self, path: str) -> bytes:
        """The same for a GET."""
        return _accepted(await self.ask("GET", path))

    async def ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        """Send one request; `headers` are further lines, each ending in CRLF. Raises OSError or EOFError."""
        length = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._headers}{headers}{length}\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        expected = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return Answer(int(head.split(b" ", 2)[1]), head, await self._reader.readexactly(expected))

    @property
    def closed(self) -> bool:
        """Whether the server has closed the connection (it does so with idle ones)."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def _accepted(answer: Answer) -> bytes:
    if answer.status // 100 != 2:
        raise Refused(f"{answer.head.splitlines()[0]!r}: {answer.body[:200]!r}")
    return answer.body


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which this share of the values lies (0 to 1), one of them; NaN without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


class Load(NamedTuple):
    """What clients got: milliseconds of each answer, how many requests were refused, and the seconds of the whole
    run."""

    times: list[float]
    refused: int
    seconds: float

    @property
    def per_s(self) -> float:
        """Answers per second."""
        return len(self.times) / self.seconds

    def figures(self, name: str) -> dict[str, float]:
        """Rate, p50 and p99, each prefixed with the name."""
        return {
            f"{name}_per_s": round(self.per_s, 1),
            f"{name}_p50_ms": round(percentile(self.times, 0.50), 2),
            f"{name}_p99_ms": round(percentile(self.times, 0.99), 2),
        }


class Pool:
    """Connections, opened as needed, each used by one request at a time."""

    def __init__(self, url: str, secret: str | None = None) -> None:
        self._url, self._secret = url, secret
        self._idle: list[Http] = []

    async def post(self, path: str, body: Any) -> Any:
        """Send one request; returns the decoded answer, raises Refused for anything but 2xx."""
        return await self.send(path, json.dumps(body).encode())

    async def send(self, path: str, body: bytes) -> Any:
        """The same for a body that is already encoded."""
        return json.loads(await self._use(lambda http: http.post(path, body)))

    async def get(self, path: str) -> Any:
        """The same for a GET."""
        return json.loads(await self._use(lambda http: http.get(path)))

    def close(self) -> None:
        """Close all idle connections."""
        for connection in self._idle:
            connection.close()
        self._idle = []

    async def _use(self, request: Callable[[Http], Awaitable[bytes]]) -> bytes:
        for connection in [it for it in self._idle if it.closed]:
            self._idle.remove(connection)
            connection.close()
        if self._idle:
            connection = self._idle.pop()
        else:
            connection = Http(self._url, self._secret)
            await connection.open()
        try:
            return await request(connection)
        finally:
            self._idle.append(connection)


async def partitions(pool: Pool) -> list[dict[str, Any]]:
    """The projection state of each partition."""
    return (await pool.get("/v1/admin/projections"))["partitions"]


async def backlogs(pool: Pool) -> tuple[int, int]:
    """Events that are not projected, and documents without a contextual vector."""
    rows = await partitions(pool)
    return sum(row["lag"] for row in rows), sum(row["to_embed"] for row in rows)


async def until(holds: Callable[[], Awaitable[bool]], every_s: float = LOOK_EVERY_S, within_s: float = WAIT_S) -> None:
    """Return when the condition holds. Raises TimeoutError if it does not within the time."""
    deadline = time.monotonic() + within_s
    while not await holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting for {holds.__qualname__} after {within_s:.0f} s")
        await asyncio.sleep(every_s)


async def settled(pool: Pool, *, embedded: bool = False, every_s: float = LOOK_EVERY_S) -> None:
    """Return when all written events are in the documents and the index, and with `embedded` have their vectors."""

    def searchable(row: dict[str, Any]) -> bool:
        indexed, projected = ([*map(int, row[key].split("-"))] for key in ("searchable", "checkpoint"))
        return indexed >= projected

    async def wait_for_own_writes() -> bool:
        rows = await partitions(pool)
        return not any(row["lag"] or (embedded and row["to_embed"]) for row in rows) and all(map(searchable, rows))

    await until(wait_for_own_writes, every_s)


async def projected(pool: Pool, every_s: float = LOOK_EVERY_S) -> None:
    """Return when nothing waits to be projected; the index may be some milliseconds behind."""

    async def done() -> bool:
        return not (await backlogs(pool))[0]

    await until(done, every_s)


async def fill(pool: Pool, events: Iterable[dict[str, Any]], batch: int = 500, clients: int = 4) -> int:
    """Write events in batches as fast as the server accepts them; returns how many. Batches refused with 429 are
    repeated."""
    waiting = batches_of(events, batch)

    async def work() -> int:
        written = 0
        for chunk in waiting:
            while True:
                try:
                    answer = await pool.post("/v1/events", chunk)
                    break
                except Refused as refused:
                    if " 429 " not in str(refused):
                        raise
                    await asyncio.sleep(FULL_S)
            if answer["rejected"]:
                raise RuntimeError(f"not all accepted: {answer['rejected'][0]}")
            written += len(chunk)
        return written

    return sum(await asyncio.gather(*(work() for _ in range(clients))))


async def fill_in_order(pool: Pool, events: Iterable[dict[str, Any]], *, embedded: bool) -> int:
    """Write events by one client, and wait until all of them can be found; returns how many."""
    written = await fill(pool, events, batch=200, clients=1)
    await settled(pool, embedded=embedded)
    await asyncio.sleep(FEED_S)
    return written


def batches_of(events: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """The events in batches; the last may be smaller."""
    batch: list[dict[str, Any]] = []
    for event in events:
        batch.append(event)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def closed_loop(
    url: str, path: str, bodies: Sequence[bytes], clients: int, secret: str | None = None, seconds: float = WAIT_S
) -> Load:
    """Send every body once. Each client waits for its answer before it sends the next; after `seconds` nothing more
    is sent."""
    times: list[float] = []
    waiting = iter(bodies)
    refused = 0

    async def work() -> None:
        nonlocal refused
        http = Http(url, secret)
        await http.open()
        for body in waiting:
            sent = time.perf_counter()
            if sent - began > seconds:
                break
            try:
                await http.post(path, body)
            except Refused:
                refused += 1
                continue
            times.append((time.perf_counter() - sent) * 1000)
        http.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    return Load(times, refused, time.perf_counter() - began)
