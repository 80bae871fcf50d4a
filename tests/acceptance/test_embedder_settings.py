"""Texts and the embedder's key go only to hosts that the settings name; another embedder is a rebuild away."""

import os
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import pytest
from waiting import wait_until

from tests.acceptance.running import Server, fault, mnemolog, running

KEY = "sk-of-the-embedder-8271"
TEXT = "Plover eggs hatch after a month"
TEXTS = 40
DIMENSIONS = 8


class Listener:
    """An HTTP server that keeps what it is sent, and answers as an embedder, or sends on to another address."""

    def __init__(self, sends_on_to: str = "") -> None:
        listener = self
        self.connections = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                listener.connections += 1
                super().setup()

            def do_POST(self) -> None:
                listener.heads.append(str(self.headers))
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.bodies.append(body)
                count = len(msgspec.json.decode(body)["input"])
                rows = [{"index": at, "embedding": [1.0] + [0.1] * (DIMENSIONS - 1)} for at in range(count)]
                told = msgspec.json.encode({"data": rows})
                self.send_response(307 if sends_on_to else 200)
                if sends_on_to:
                    self.send_header("Location", f"{sends_on_to}{self.path}")
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.http.server_port}"
        self.spec = f"openai:{self.origin}/v1|birds|{DIMENSIONS}"


@contextmanager
def listening(sends_on_to: str = "") -> Generator[Listener]:
    """A listener, until the context ends."""
    listener = Listener(sends_on_to)
    thread = threading.Thread(target=listener.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield listener
    finally:
        listener.http.shutdown()
        thread.join()
        listener.http.server_close()


class DocumentLocation(NamedTuple):
    """A server, an embedder that its settings name, one that sends on to `stranger`, and one that nobody named."""

    server: Server
    named: Listener
    redirecting: Listener
    stranger: Listener


@pytest.fixture(scope="module")
def place(cache_dir: Path) -> Iterator[DocumentLocation]:
    with listening() as stranger, listening(stranger.origin) as redirecting, listening() as named:
        changes = {"embedders": (named.spec, redirecting.spec), "embedder_key": KEY, "snapshot_every": 1}
        with running(cache_dir, partitions=2, embedder="none", **changes) as server:
            yield DocumentLocation(server, named, redirecting, stranger)


def unnamed(place: DocumentLocation, folder: Path) -> dict[str, str]:
    """Embedders that the settings do not name, by how they differ from one that they do."""
    port, named = place.stranger.http.server_port, place.named
    return {
        "another port": place.stranger.spec,
        "user and host": f"openai:http://127.0.0.1:{named.http.server_port}@127.0.0.1:{port}/v1|birds|{DIMENSIONS}",
        "a slash more": named.spec.replace("/v1|", "/v1/|"),
        "another path": named.spec.replace("/v1|", "/v2|"),
        "other letters": named.spec.replace("http:", "HTTP:"),
        "another model": named.spec.replace("birds", "fish"),
        "a blank before": f" {named.spec}",
        "a blank behind": f"{named.spec} ",
        "two at once": f"{named.spec},{place.stranger.spec}",
        "a port where nobody listens": f"openai:http://127.0.0.1:9/v1|birds|{DIMENSIONS}",
        "a folder": f"onnx:{folder}",
        "no folder": f"onnx:{folder}/nothing",
        "a folder of weights": f"sentence-transformers:{folder}",
        "no folder of weights": f"sentence-transformers:{folder}/nothing",
        "built in": "default",
        "unknown": "crystal-ball",
    }


async def test_an_embedder_that_the_settings_do_not_name_is_refused_and_not_looked_at(
    place: DocumentLocation, tmp_path: Path
):
    """The answer is the same whether the port answers and the folder exists, or not."""
    told = dict[str, tuple[int, str]]()
    async with place.server.client() as operator:
        for what, spec in unnamed(place, tmp_path).items():
            answer = await operator.post("/v1/admin/rebuilds", json={"embedder": spec})
            told[what] = (answer.status_code, fault(answer)["detail"])
        assert (await operator.get("/v1/admin/rebuilds")).json()["rebuilds"] == []
    assert len(set(told.values())) == 1, told
    assert next(iter(told.values()))[0] == 422
    assert place.stranger.connections == 0


@pytest.mark.parametrize("grant", [{"projects": ["alpha"]}, {"tenant": "elsewhere"}, {}], ids=str)
async def test_an_admin_cannot_order_a_rebuild_by_any_embedder(place: DocumentLocation, grant: dict[str, object]):
    async with place.server.client() as operator:
        made = await operator.post("/v1/admin/keys", json={"name": "x", "roles": ["read", "write", "admin"], **grant})
    async with place.server.client(secret=made.json()["key"]) as admin:

        async def known() -> bool:
            return (await admin.get("/readyz")).status_code == 200

        await wait_until(known)
        for spec in (place.named.spec, place.stranger.spec):
            answer = await admin.post("/v1/admin/rebuilds", json={"embedder": spec})
            assert answer.status_code == 403
    assert place.stranger.connections == 0


async def test_texts_and_key_reach_the_named_embedder_and_no_host_that_it_sends_on_to(place: DocumentLocation):
    async with place.server.client() as operator:
        batch = [{"type": "remember", "project": "alpha", "content": f"{TEXT} {n}"} for n in range(TEXTS)]
        position = (await operator.post("/v1/events", json=batch)).json()["position"]
        assert (await operator.get("/v1/memories", params={"project": "alpha", "after": position})).status_code == 200
        begun = (await operator.post("/v1/admin/rebuilds", json={"embedder": place.redirecting.spec})).json()

        async def troubled() -> bool:
            return bool((await operator.get(f"/v1/admin/rebuilds/{begun['id']}")).json()["why"])

        await wait_until(troubled, 60)
        assert KEY not in (await operator.get(f"/v1/admin/rebuilds/{begun['id']}")).text
        assert place.redirecting.bodies, "it was asked"
        assert place.stranger.connections == 0, "a redirect was followed"
        await operator.post(f"/v1/admin/rebuilds/{begun['id']}/cancel")

        async def cancelled() -> bool:
            path = f"/v1/admin/rebuilds/{begun['id']}"
            return (await operator.get(path)).json()["state"] in ("cancelled", "failed")

        await wait_until(cancelled, 60)
        order = {"embedder": place.named.spec, "switch": "manual"}
        ordered = await operator.post("/v1/admin/rebuilds", json=order)
        assert ordered.status_code == 202, ordered.text

        async def embedded() -> bool:
            return any(TEXT.encode() in body for body in place.named.bodies)

        await wait_until(embedded, 60)
        assert any(f"Bearer {KEY}" in head for head in place.named.heads)
        await operator.post(f"/v1/admin/rebuilds/{ordered.json()['id']}/cancel")


BACKUPS = "Every night the whole database is copied to tape before the first train leaves"
QUESTION = "when do we save our data"
"""Has no word in common with BACKUPS."""


@pytest.fixture(scope="module")
def server(cache_dir: Path) -> Iterator[Server]:
    """Begun without an embedder; the tests go on where the one before has left it."""
    with running(cache_dir, partitions=4, embedder="none", embedders=("default",)) as server:
        yield server


async def remember(client: httpx.AsyncClient, *contents: str) -> str:
    batch = [{"type": "remember", "project": "atlas", "content": content} for content in contents]
    return (await client.post("/v1/events", json=batch)).json()["position"]


async def recalled(client: httpx.AsyncClient, after: str = "") -> tuple[list[str], list[str]]:
    """What is found by meaning alone, best first; and what is missing in the answer."""
    asked = {"query": QUESTION, "project": "atlas", "mode": "vector", "limit": 3, "after": after}
    answer = await client.post("/v1/recall", json=asked)
    while answer.status_code == 503:
        answer = await client.post("/v1/recall", json=asked)
    return [one["content"] for one in answer.json()["results"]], answer.json()["degraded"]


@pytest.mark.timeout(600)
@pytest.mark.nightly
async def test_a_log_changes_its_embedder_and_changes_it_back(server: Server):
    """One story: each step begins where the one before it ended."""
    await _gets_vectors_though_the_worker_is_killed(server)
    await _what_is_written_later_and_what_starts_later_has_the_new_embedder(server)
    await _is_rolled_back_from_the_command_line(server)
    await _waits_for_the_operator_where_that_is_wanted(server)


async def _gets_vectors_though_the_worker_is_killed(server: Server) -> None:
    async with server.client() as client:
        after = await remember(
            client, BACKUPS, *(f"Bed {k} of the garden has tulips in row {k % 7}" for k in range(1500))
        )
        assert await recalled(client, after) == ([], ["no embedder is configured: words only"])
        begun = await client.post("/v1/admin/rebuilds", json={"embedder": "default"})
        assert (begun.status_code, begun.json()["what"]) == (202, "embeddings")
        path = f"/v1/admin/rebuilds/{begun.json()['id']}"

        async def filling() -> bool:
            return (await client.get(path)).json()["done"] > 0

        await wait_until(filling, 60)
        worker = server.supervisor.worker
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)

        async def switched() -> bool:
            server.supervisor.watch()
            return (await client.get(path)).json()["state"] == "switched"

        await wait_until(switched, 240)
        shown = (await client.get(path)).json()
        assert shown["done"] == shown["total"] > 1000
        assert shown["canaries"]["agree"]
        assert "overlap@10" in shown["canaries"]["said"]

        async def by_meaning() -> bool:
            found, degraded = await recalled(client)
            return found[:1] == [BACKUPS] and not degraded

        await wait_until(by_meaning)
        assert server.supervisor.settings.embedder == "none"
        code, shown = await mnemolog(server, "rebuild", "--embedder", "default")
        assert (code, shown["error"]["code"]) == (2, "invalid")


async def _what_is_written_later_and_what_starts_later_has_the_new_embedder(server: Server) -> None:
    """Though the configuration names the one before, which is said."""
    server.supervisor.api.stop()
    server.supervisor.api.start()
    await wait_until(server.supervisor.ready, 60)
    async with server.client() as client:
        later = "Copies of all records are put in the safe at midnight"
        after = await remember(client, later)

        async def found() -> bool:
            contents, degraded = await recalled(client, after)
            return {later, BACKUPS} <= set(contents) and not degraded

        await wait_until(found)
    assert "which made the live vectors, not none" in server.supervisor.api.log.read_text()


async def _is_rolled_back_from_the_command_line(server: Server) -> None:
    code, shown = await mnemolog(server, "rebuild", "rollback")
    assert (code, shown["state"]) == (0, "rolled_back")
    async with server.client() as client:

        async def by_words() -> bool:
            return await recalled(client) == ([], ["no embedder is configured: words only"])

        await wait_until(by_words)


async def _waits_for_the_operator_where_that_is_wanted(server: Server) -> None:
    code, shown = await mnemolog(server, "rebuild", "--embedder", "default", "--manual")
    assert (code, shown["state"], shown["why"]) == (0, "ready", "waits for the command to switch")
    assert shown["model"].startswith("all-MiniLM-L6-v2:")
    code, shown = await mnemolog(server, "rebuild", "switch")
    assert (code, shown["state"]) == (0, "switched")
