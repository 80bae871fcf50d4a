"""A small server that answers like the real one, for what the command line says and how it exits."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from projections.search.question import certainty

EVENT = {
    "position": "0:5-0", "recorded_at": "2026-03-14T09:26:53.000000Z", "type": "observation.recorded",
    "project": "shop", "agent_id": "ada", "data": {"content": "tests are\nred \x1b[31magain"},
}  # fmt: skip
RESULT: dict[str, Any] = {
    "id": "obs_1", "kind": "observation", "score": 0.5, "title": "tests are red", "snippet": "tests [bold]are[/] red",
    "content": "tests [bold]are[/] red, as they were yesterday", "repeats": ["obs_2", "sum_3"], "agent_id": "ada",
    "occurred_at": "2026-03-14T09:26:53Z", "metadata": {}, "explain": {"lexical": 1.5}, "confidence": 0.996,
    "session_id": "s1", "project": "shop", "confirmed": 2,
}  # fmt: skip
PARTITION = {
    "partition": 0, "head": "5-0", "searchable": "4-10", "lag": 3, "to_embed": 2, "dead_letters": 1, "worker": "w1",
}  # fmt: skip


class FakeServer:
    """Remembers requests; answers `(status, body)` by method and path."""

    def __init__(self) -> None:
        self.url = ""
        self.everything: tuple[int, Any] | None = None
        """The answer to whatever has none in `answers`."""
        self.raw = b""
        """In the place of every body."""
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        accepted = {"id": "obs_1", "event_id": "e1", "position": "0:5-0", "duplicate": False}
        self.recalled: list[dict[str, Any]] = [RESULT]
        self.confidence: float | None = 0.996
        self.answers: dict[str, tuple[int, Any]] = {
            "POST /v1/observations": (202, accepted),
            "POST /v1/memories": (202, {**accepted, "duplicate": True}),
            "POST /v1/lessons": (202, accepted),
            "GET /v1/admin/projections": (200, {"partitions": [PARTITION]}),
        }

    def answer(self, method: str, path: str, query: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        self.requests.append((f"{method} {path}", body, headers))
        if self.everything is not None:
            return self.answers.get(f"{method} {path}", self.everything) if method == "GET" else self.everything
        match path:
            case "/v1/recall":
                sure = {"confidence": self.confidence, "certainty": certainty(self.confidence)}
                return 200, {"results": self.recalled, **sure, "took_ms": 1.5, "lag": {}, "degraded": []}
            case "/v1/events" if method == "GET":
                request = parse_qs(query)
                if request.get("partition", ["0"]) != ["0"]:
                    return 422, {"code": "invalid", "detail": "there is one", "field": "partition"}
                return 200, {"events": [] if "after" in request else [EVENT], "next": "0:5-0"}
            case _:
                missing = {"code": "not_found", "detail": "no such route"}
                return self.answers.get(f"{method} {path}", (404, missing))


@contextmanager
def listening(fake: FakeServer) -> Generator[str]:
    """The URL where it answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def do_PATCH(self) -> None:
            self._answer("PATCH")

        def do_DELETE(self) -> None:
            self._answer("DELETE")

        def _answer(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            status, answer = fake.answer(method, path, query, json.loads(body or b"null"), dict(self.headers))
            content = fake.raw or json.dumps(answer).encode()
            self.send_response(status)
            if status == 503:
                self.send_header("Retry-After", "3600")  # nobody waits so long
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()
