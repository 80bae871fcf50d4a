"""Does recall go on through a rebuild? The longest time in which a client that asks on and on gets no right answer.

    python -m benchmarks.rebuild [--documents 50000] [--apis 2] [--clients 3]

Starts servers of its own, as `mnemolog up` does, with one API process or more, in a folder that is deleted afterwards.
Loads observations; each gets a vector of 384 dimensions from an embedder that this script serves on loopback, so that
the indexes have real work, and the model next to none. Then clients ask each API process for documents that they know,
without a pause, one writes and reads its own writes, and a rebuild of all documents runs, switches, and has its vectors
embedded again.

A pause is the time from the last right answer to the next: of a client, whatever comes between them. Printed beside the
longest ones: how many answers were errors, had not the document that was asked for, or named a shortcoming.
"""

import argparse
import asyncio
import hashlib
import http.server
import json
import multiprocessing
import re
import shutil
import socket
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
from msgspec.structs import replace

from benchmarks.corpus import PARTS
from benchmarks.wire import Http, Refused

DIMENSIONS = 384
SECRET = "benchmark"
BATCH = 250
KNOWN = 400
"""Documents that are asked for: few enough that the vectors of the questions stay cached."""
TIMEOUT_S = 30.0
ASK_EVERY_S = 0.02
WRITE_EVERY_S = 0.25
QUIET_S = 10.0
"""Measured before the rebuild and after the last vector of it."""


def text_of(number: int) -> str:
    """The text of a document: 20 words, one of them its own."""
    dice = np.random.default_rng(number)
    places: list[int] = dice.integers(0, len(PARTS), 19).tolist()
    words = [PARTS[place] for place in places]
    return " ".join([*words, f"nr{number}x"])


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A unit vector that only this text has."""
    dice = np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]))
    row = dice.standard_normal(dimensions)
    return [round(value, 4) for value in (row / np.linalg.norm(row)).tolist()]


class _Embeddings(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    dimensions = DIMENSIONS
    count: Any = None

    def do_POST(self) -> None:
        texts: list[str] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        if self.count is not None:
            with self.count.get_lock():
                self.count.value += len(texts)
        rows = [{"index": n, "embedding": vector_of(text, self.dimensions)} for n, text in enumerate(texts)]
        body = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve_embeddings(port: int, dimensions: int = DIMENSIONS, count: Any = None) -> None:
    """Serve `POST /v1/embeddings` on loopback, for ever; `count`, a shared number, grows by the texts."""
    _Embeddings.dimensions, _Embeddings.count = dimensions, count
    http.server.ThreadingHTTPServer(("127.0.0.1", port), _Embeddings).serve_forever()


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@dataclass
class Asked:
    """What one client was answered."""

    phase: str = "before"
    last_right: float = 0.0
    pauses: dict[str, float] = field(default_factory=dict[str, float])
    answers: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])

    def right(self) -> None:
        """The answer was what it should be."""
        now = time.monotonic()
        if self.last_right:
            self.pauses[self.phase] = max(self.pauses.get(self.phase, 0.0), now - self.last_right)
        self.last_right = now
        self.count("right")

    def count(self, what: str) -> None:
        """Count an answer."""
        self.answers.setdefault(self.phase, Counter())[what] += 1


class Client:
    """One connection, opened again when it breaks."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http: Http | None = None

    async def post(self, path: str, body: Any) -> Any:
        """The decoded answer. Raises Refused, TimeoutError or OSError."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if self._http is None or self._http.closed:
                    self._http = Http(self._url, SECRET)
                    await self._http.open()
                return json.loads(await self._http.post(path, json.dumps(body).encode()))
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            if self._http is not None:
                self._http.close()
            self._http = None
            raise


def kind(error: Exception) -> str:
    """One word or two for an answer that is none: status and code of a refusal."""
    found = re.search(r"HTTP/1.1 (\d+).*?\"code\":\"(\w+)", str(error))
    return " ".join(found.groups()) if found else type(error).__name__


async def ask_on(client: Client, asked: Asked, seed: int, known: list[int], stop: asyncio.Event) -> None:
    """Ask for known documents until told to stop."""
    dice = np.random.default_rng(seed)
    while not stop.is_set():
        number = known[int(dice.integers(len(known)))]
        try:
            answer = await client.post("/v1/recall", {"query": text_of(number), "project": "bench", "limit": 3})
        except Refused as refused:
            asked.count(kind(refused))
            await asyncio.sleep(ASK_EVERY_S)
            continue
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            asked.count(kind(error))
            continue
        if answer["degraded"]:
            asked.count("degraded: " + answer["degraded"][0][:60])
        if any(f"nr{number}x" in one["content"] for one in answer["results"]):
            asked.right()
        else:
            asked.count("not found" if answer["results"] else "empty")
        await asyncio.sleep(ASK_EVERY_S)


async def write_on(client: Client, asked: Asked, stop: asyncio.Event) -> None:
    """Write and read what was written, until told to stop; each must be found at once."""
    number = 0
    while not stop.is_set():
        number += 1
        word = f"own{number}y"
        said = {"session_id": f"own{number % 5}", "project": "bench", "content": f"{word} was written meanwhile"}
        try:
            after = (await client.post("/v1/observations", said))["position"]
            body = {"query": word, "project": "bench", "limit": 1, "mode": "lexical", "after": after}
            answer = await client.post("/v1/recall", body)
        except (Refused, TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            asked.count(kind(error))
            continue
        if answer["results"] and word in answer["results"][0]["content"]:
            asked.right()
        else:
            asked.count("not found")
        await asyncio.sleep(WRITE_EVERY_S)


async def get(url: str, path: str) -> tuple[int, Any]:
    """Status and decoded body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]), limit=1 << 22)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    answered = await reader.read()
    writer.close()
    beginning, _, body = answered.partition(b"\r\n\r\n")
    return int(beginning.split()[1]), json.loads(body)


async def settled(url: str) -> None:
    """Return once everything is projected and has its vectors."""
    while True:
        try:
            status, told = await get(url, "/readyz")
        except OSError:  # it is being started
            status, told = 0, {}
        if status == 200 and not told["lag"] and not told["vitals"]["to_embed"]:
            return
        await asyncio.sleep(0.5)


async def load(url: str, documents: int) -> None:
    """Write the documents."""
    client = Client(url)
    for start in range(0, documents, BATCH):
        batch = [
            {"type": "observe", "project": "bench", "session_id": f"s{n % 499}", "content": text_of(n)}
            for n in range(start, min(documents, start + BATCH))
        ]
        while True:
            try:
                await client.post("/v1/events", batch)
                break
            except Refused as refused:
                if " 429 " not in str(refused):
                    raise
                await asyncio.sleep(1.0)


async def run(urls: list[str], documents: int, clients: int) -> dict[str, Any]:
    """Load, ask, rebuild; what was answered."""
    started = time.monotonic()
    await load(urls[0], documents)
    for url in urls:
        await settled(url)
    print(f"{documents:,} documents with vectors after {time.monotonic() - started:.0f} s", flush=True)
    known = np.random.default_rng(7).integers(0, documents, KNOWN).tolist()
    for url in urls:  # their vectors are cached from here on
        client = Client(url)
        for number in known:
            await client.post("/v1/recall", {"query": text_of(number), "project": "bench", "limit": 1})
    stop = asyncio.Event()
    readers = [Asked() for _ in range(len(urls) * clients)]
    writers = [Asked() for _ in urls]
    tasks = [
        asyncio.create_task(ask_on(Client(urls[n % len(urls)]), asked, n, known, stop))
        for n, asked in enumerate(readers)
    ]
    tasks += [asyncio.create_task(write_on(Client(url), asked, stop)) for url, asked in zip(urls, writers, strict=True)]
    unready = Counter[str]()
    tasks.append(asyncio.create_task(_watch(urls, unready, stop)))
    try:
        await asyncio.sleep(QUIET_S)
        _phase("rebuild", readers, writers)
        began = time.monotonic()
        order = await Client(urls[0]).post("/v1/admin/rebuilds", {})
        while (state := (await get(urls[0], f"/v1/admin/rebuilds/{order['id']}"))[1]["state"]) != "switched":
            if state in ("failed", "cancelled", "ready"):
                raise SystemExit(f"the rebuild is {state}")
            await asyncio.sleep(0.5)
        print(f"switched after {time.monotonic() - began:.0f} s", flush=True)
        _phase("switched", readers, writers)
        await asyncio.sleep(1.0)
        await settled(urls[0])
        print(f"all vectors there after {time.monotonic() - began:.0f} s", flush=True)
        await asyncio.sleep(QUIET_S)
        _phase("after", readers, writers)
    finally:
        stop.set()
        await asyncio.gather(*tasks)
    return {"readers": readers, "writers": writers, "unready": unready}


def _phase(name: str, *groups: list[Asked]) -> None:
    for group in groups:
        for asked in group:
            asked.phase = name


async def _watch(urls: list[str], unready: Counter[str], stop: asyncio.Event) -> None:
    while not stop.is_set():
        for url in urls:
            status, told = await get(url, "/readyz")
            named = [one["code"] for one in told.get("degraded", [])] if status == 200 else [told["reason"]]
            unready.update(f"{status} {name}" for name in named)
        await asyncio.sleep(0.25)


def report(found: dict[str, Any]) -> None:
    """Print what was measured."""
    for group in ("readers", "writers"):
        for phase in ("before", "rebuild", "switched"):
            pauses = [asked.pauses.get(phase, 0.0) for asked in found[group]]
            answers = sum((asked.answers.get(phase, Counter()) for asked in found[group]), Counter[str]())
            print(f"{group:8} {phase:9} longest pause {max(pauses):6.3f} s   answers {dict(answers)}")
    print(f"/readyz told of {dict(found['unready'])}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--apis", type=int, default=2, help="API processes")
    parser.add_argument("--clients", type=int, default=3, help="readers of each API process; one writer comes to them")
    options = parser.parse_args()
    from api.cli.supervisor import Child, Supervisor, local_url  # takes a second, and --help need not wait for it
    from ingest.platform.settings import Settings

    folder = Path(tempfile.mkdtemp(prefix="mnemo-"))
    embeddings = free_port()
    endpoint = multiprocessing.get_context("spawn").Process(target=serve_embeddings, args=(embeddings,), daemon=True)
    endpoint.start()
    settings = Settings(
        data_dir=folder, cache_dir=folder / "cache", port=free_port(), secret=SECRET,
        embedder=f"openai:http://127.0.0.1:{embeddings}/v1|bench|{DIMENSIONS}",
    )  # fmt: skip
    supervisor = Supervisor(settings)
    others: list[Child] = []
    try:
        supervisor.start()
        urls = [local_url(supervisor.settings)]
        for _ in range(1, options.apis):
            chosen = replace(supervisor.settings, port=free_port())
            others.append(Child("api", chosen))
            others[-1].start()
            urls.append(local_url(chosen))
        report(uvloop.run(run(urls, options.documents, options.clients)))
    finally:
        for child in others:
            child.stop()
        supervisor.stop()
        endpoint.terminate()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
