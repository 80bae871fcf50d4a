"""A bare HTTP connection for load generators that share the machine with the server they measure."""

import asyncio
from typing import NamedTuple
from urllib.parse import urlsplit


class Refused(Exception):
    """The server answered something else than 2xx."""


class Answer(NamedTuple):
    """What a request was answered."""

    status: int
    head: bytes
    body: bytes


class Http:
    """One keep-alive connection; far less work per request than a client library, so the server is what is measured."""

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
        """Send one request; `headers` are further lines, each with its end. Raises OSError or EOFError."""
        length = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._headers}{headers}{length}\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        expected = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return Answer(int(head.split(b" ", 2)[1]), head, await self._reader.readexactly(expected))

    @property
    def closed(self) -> bool:
        """Whether the server has hung up (it does on connections that were idle for long)."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def _accepted(answer: Answer) -> bytes:
    if answer.status // 100 != 2:
        raise Refused(f"{answer.head.splitlines()[0]!r}: {answer.body[:200]!r}")
    return answer.body
