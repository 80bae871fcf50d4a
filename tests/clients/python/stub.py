"""A real HTTP server on loopback that answers what a test says, and remembers what it was sent."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

CUT = "cut"
"""In the place of an answer: the connection is closed."""


class Received(NamedTuple):
    """One request as it came; header names are lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        """The JSON of the body."""
        return msgspec.json.decode(self.content)

    @property
    def commands(self) -> list[dict[str, Any]]:
        """The commands of a batch."""
        return [msgspec.json.decode(line) for line in self.content.splitlines()]


class Reply(NamedTuple):
    """What is answered once."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}


Answer = Reply | str | Callable[[Received], "Reply | str"]


def accepted(position: str = "0:1-0", **said: Any) -> Reply:
    """The acknowledgement of a write."""
    told = {"id": "mem_1", "event_id": "e", "position": position, "duplicate": False, "durability": "fsync", **said}
    return Reply(told, 202)


def refused(status: int, code: str, retry_after: str = "", **said: Any) -> Reply:
    """An error as the server tells it."""
    headers = {"Retry-After": retry_after} if retry_after else {}
    return Reply({"code": code, "detail": f"because of {code}", "status": status, **said}, status, headers)


class Stub:
    """Runs as a context manager. It gives each of `answers` once, in order, and then always `otherwise`."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: deque[Answer] = deque()
        self.otherwise: Answer = refused(500, "not_scripted")
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, received: Received) -> Reply | str:
        """What this request gets."""
        with self._lock:
            self.received.append(received)
            answer = self.answers.popleft() if self.answers else self.otherwise
        return answer(received) if callable(answer) else answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except ConnectionError:  # the client was closed meanwhile
                    self.close_connection = True

            def _take(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = stub.answer(Received(self.command, parts.path, dict(parse_qsl(parts.query)), headers, content))
                if isinstance(reply, str):
                    self.close_connection = True
                    return
                body = reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_DELETE = _take

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        return Handler


def batch_answer(received: Received, rejected: Mapping[str, str] = {}, position: str = "0:1-0") -> Reply:
    """A batch of which all is accepted but the contents in `rejected`, for the codes there."""
    refusals = [
        {"index": index, "code": rejected[command["content"]], "message": "no"}
        for index, command in enumerate(received.commands)
        if command["content"] in rejected
    ]
    count = len(received.commands) - len(refusals)
    told = {"accepted": count, "duplicates": 0, "rejected": refusals, "position": position, "durability": "fsync"}
    return Reply(told, 202)
