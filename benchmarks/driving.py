"""What benchmarks do with a server: load it, wait until it has caught up, ask it from many clients, sum up."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.wire import Http, Refused

WAIT_S = 3_600.0
LOOK_EVERY_S = 0.2
FULL_S = 0.5
"""Before a batch is sent again that the server had no room for."""


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which this share of the values lies (0 to 1), one of them; NaN without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


class Load(NamedTuple):
    """What clients got: milliseconds of each answer, how many requests were refused, and how long it all took."""

    times: list[float]
    refused: int
    seconds: float

    @property
    def per_s(self) -> float:
        """Answers a second."""
        return len(self.times) / self.seconds

    def figures(self, name: str) -> dict[str, float]:
        """Rate, p50 and p99, each named after what was asked."""
        return {
            f"{name}_per_s": round(self.per_s, 1),
            f"{name}_p50_ms": round(percentile(self.times, 0.50), 2),
            f"{name}_p99_ms": round(percentile(self.times, 0.99), 2),
        }


class Pool:
    """Connections, opened as they are needed, each used by one request at a time."""

    def __init__(self, url: str, secret: str | None = None) -> None:
        self._url, self._secret = url, secret
        self._idle: list[Http] = []

    async def post(self, path: str, body: Any) -> Any:
        """Send one request; returns the decoded answer, raises Refused for anything but 2xx."""
        return await self.send(path, json.dumps(body).encode())

    async def send(self, path: str, body: bytes) -> Any:
        """The same for a body that is encoded already."""
        return json.loads(await self._use(lambda http: http.post(path, body)))

    async def get(self, path: str) -> Any:
        """The same for a GET."""
        return json.loads(await self._use(lambda http: http.get(path)))

    def close(self) -> None:
        """Hang up."""
        for connection in self._idle:
            connection.close()
        self._idle = []

    async def _use(self, ask: Callable[[Http], Awaitable[bytes]]) -> bytes:
        for connection in [one for one in self._idle if one.closed]:
            self._idle.remove(connection)
            connection.close()
        connection = self._idle.pop() if self._idle else await self._opened()
        try:
            return await ask(connection)
        finally:
            self._idle.append(connection)

    async def _opened(self) -> Http:
        connection = Http(self._url, self._secret)
        await connection.open()
        return connection


async def partitions(pool: Pool) -> list[dict[str, Any]]:
    """How far every partition is."""
    return (await pool.get("/v1/admin/projections"))["partitions"]


async def behind(pool: Pool) -> tuple[int, int]:
    """Events that are not projected, and documents that have no vector of the contextual model."""
    rows = await partitions(pool)
    return sum(row["lag"] for row in rows), sum(row["to_embed"] for row in rows)


async def until(holds: Callable[[], Awaitable[bool]], every_s: float = LOOK_EVERY_S, within_s: float = WAIT_S) -> None:
    """Return when it holds. Raises TimeoutError when it does not within the time."""
    deadline = time.monotonic() + within_s
    while not await holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting for {holds.__qualname__} after {within_s:.0f} s")
        await asyncio.sleep(every_s)


async def settled(pool: Pool, *, embedded: bool = False, every_s: float = LOOK_EVERY_S) -> None:
    """Return when all that was written is in the documents and the index, and with `embedded` has its vectors."""

    async def wait_for_own_writes() -> bool:
        rows = await partitions(pool)
        waits = any(row["lag"] or (embedded and row["to_embed"]) for row in rows)
        return not waits and all(map(_searchable, rows))

    await until(wait_for_own_writes, every_s)


async def projected(pool: Pool, every_s: float = LOOK_EVERY_S) -> None:
    """Return when nothing waits to be projected; the index may be some milliseconds behind."""

    async def done() -> bool:
        return not (await behind(pool))[0]

    await until(done, every_s)


def _searchable(row: dict[str, Any]) -> bool:
    return _place(row["searchable"]) >= _place(row["checkpoint"])


def _place(position: str) -> tuple[int, ...]:
    return tuple(map(int, position.split("-")))


async def fill(pool: Pool, events: Iterable[dict[str, Any]], batch: int = 500, clients: int = 4) -> int:
    """Write events in batches as fast as the server takes them; how many. What it has no room for is sent again."""
    waiting = batches_of(events, batch)

    async def work() -> int:
        written = 0
        for some in waiting:
            while True:
                try:
                    answer = await pool.post("/v1/events", some)
                    break
                except Refused as refused:
                    if " 429 " not in str(refused):
                        raise
                    await asyncio.sleep(FULL_S)
            if answer["rejected"]:
                raise RuntimeError(f"not all accepted: {answer['rejected'][0]}")
            written += len(some)
        return written

    return sum(await asyncio.gather(*(work() for _ in range(clients))))


def batches_of(events: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """The events, so many at a time."""
    some: list[dict[str, Any]] = []
    for one in events:
        some.append(one)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


async def closed_loop(
    url: str, path: str, bodies: Sequence[bytes], clients: int, secret: str | None = None, seconds: float = WAIT_S
) -> Load:
    """Send every body once, from so many connections, each of which waits for its answer before it sends the next.

    What was not sent within `seconds` is not sent.
    """
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
