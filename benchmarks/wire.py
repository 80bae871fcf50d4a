"""A bare HTTP connection for load generators that share the machine with the server they measure."""

import asyncio
from urllib.parse import urlsplit


class Refused(Exception):
    """The server answered something else than 2xx."""


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
        head = f"POST {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n\r\n".encode()
        return await self._exchange(head + body)

    async def get(self, path: str) -> bytes:
        """The same for a GET."""
        return await self._exchange(f"GET {path} HTTP/1.1\r\n{self._headers}\r\n".encode())

    async def _exchange(self, request: bytes) -> bytes:
        self._writer.write(request)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answered.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = await self._reader.readexactly(length)
        if not answered.startswith(b"HTTP/1.1 2"):
            raise Refused(f"{answered.splitlines()[0]!r}: {content[:200]!r}")
        return content

    @property
    def closed(self) -> bool:
        """Whether the server has hung up (it does on connections that were idle for long)."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        """Hang up."""
        self._writer.close()
