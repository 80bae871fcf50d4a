"""A proxy in front of a real server: it fails as a test asks, and records the commands and answers that pass.

Every client connects to it as to the server, so what is tested is the client that runs in production. A fault is for a
command by its name, for a key, for the n-th such call; of a transaction, a refused command aborts it as the server
would.
"""

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import hiredis

REFUSED = "refused"
"""The connection closes, and the server has not received the command."""
LOST = "lost"
"""The server executes the command, then the connection closes without the answer."""
SILENT = "silent"
"""The server executes the command, and the answer never comes."""
SLOW = "slow"
"""The answer comes after `SLOW_S`."""
SLOW_S = 0.3
MOVED = "MOVED 1 127.0.0.1:1"
READONLY = "READONLY You can't write against a read only replica."
OOM = "OOM command not allowed when used memory > 'maxmemory'."
ABORTED = "EXECABORT Transaction discarded because of previous errors."
TRANSPORT = (REFUSED, LOST, SILENT, SLOW)
"""Any other fault is the error that the server answers instead of executing the command."""


@dataclass(eq=False)
class Call:
    """A command that arrived, and the server's answer; of one in a transaction, its part of the answer to EXEC."""

    words: list[bytes]
    answer: Any = None

    @property
    def name(self) -> str:
        return self.words[0].decode().upper()


@dataclass
class Fault:
    """`left` calls of `command` with a word that contains `key` fail, after `passing` that don't."""

    how: str
    command: str
    key: bytes
    passing: int
    left: int
    met: int = 0

    def meets(self, call: Call) -> bool:
        if self.left <= 0 or self.command not in ("", call.name) or not any(self.key in word for word in call.words):
            return False
        self.passing -= 1
        self.left -= self.passing < 0
        self.met += self.passing < 0
        return self.passing < 0


Awaited: TypeAlias = "asyncio.Queue[tuple[Call, str, bool]]"


@dataclass
class FaultyServer:
    """The proxy of a server on a Unix socket; `url` is its own."""

    upstream: str
    socket: Path
    calls: list[Call] = field(default_factory=list[Call], repr=False)
    faults: list[Fault] = field(default_factory=list[Fault])
    _open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])
    _listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def fail(self, how: str, command: str = "", key: str = "", *, passing: int = 0, times: int = 1) -> Fault:
        """Have calls fail from now on."""
        self.faults.append(Fault(how, command, key.encode(), passing, times))
        return self.faults[-1]

    def answers(self, command: str, key: str = "") -> list[Any]:
        """The server's answers to a command so far, in order."""
        return [call.answer for call in self.calls if call.name == command and key.encode() in b" ".join(call.words)]

    async def up(self) -> None:
        """Accept connections."""
        self._listener = await asyncio.start_unix_server(self._serve, self.socket)

    async def down(self) -> None:
        """Refuse connections and close those that are open, as when the server ends."""
        assert self._listener is not None
        self._listener.close()
        self.socket.unlink(missing_ok=True)
        await asyncio.sleep(0)  # until what was just accepted is served
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close in the next turn

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(answers)
        server, commands = await asyncio.open_unix_connection(self.upstream.removeprefix("unix://"))
        awaited: Awaited = asyncio.Queue()
        ways = {
            asyncio.create_task(self._forward(client, commands, awaited)),
            asyncio.create_task(self._answer(server, answers, awaited)),
        }
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for writer in (answers, commands):
            writer.transport.abort()
            self._open.discard(writer)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        self._tasks.discard(task)

    async def _forward(self, client: asyncio.StreamReader, server: asyncio.StreamWriter, awaited: Awaited) -> None:
        parser, is_aborted = hiredis.Reader(), False
        while chunk := await client.read(1 << 16):
            parser.feed(chunk)
            while (words := parser.gets()) is not False:
                call = Call(words)
                self.calls.append(call)
                how = next((fault.how for fault in self.faults if fault.meets(call)), "")
                if how == REFUSED:
                    return
                is_refused = how not in ("", *TRANSPORT)
                if call.name == "EXEC" and (is_refused or is_aborted):
                    how, words, is_refused = how or ABORTED, [b"DISCARD"], False
                is_aborted = is_refused or (is_aborted and call.name not in ("MULTI", "EXEC"))
                if not is_refused:
                    server.write(cast(Any, hiredis).pack_command(tuple(words)))
                awaited.put_nowait((call, how, not is_refused))
            await server.drain()

    @staticmethod
    async def _answer(server: asyncio.StreamReader, client: asyncio.StreamWriter, awaited: Awaited) -> None:
        queued: list[Call] = []
        while True:
            call, how, is_executed = await awaited.get()
            answer = await _reply(server) if is_executed else b""
            if how == LOST:
                return
            if how == SILENT:
                await asyncio.Event().wait()
            if how == SLOW:
                await asyncio.sleep(SLOW_S)
            parser = hiredis.Reader()
            parser.feed(answer)
            call.answer = parser.gets()
            if call.name == "EXEC" and type(call.answer) is list:
                for one, part in zip(queued, cast(list[Any], call.answer), strict=True):
                    one.answer = part
            queued = [*queued, call] if answer == b"+QUEUED\r\n" else []
            client.write(answer if how in ("", SLOW) else f"-{how}\r\n".encode())
            await client.drain()


async def _reply(server: asyncio.StreamReader) -> bytes:
    """The bytes of the server's next answer."""
    found = io.BytesIO()
    left = 1
    while left:
        line = await server.readuntil(b"\n")
        found.write(line)
        left -= 1
        if line[:1] == b"*":
            left += max(0, int(line[1:]))
        elif line[:1] == b"$" and (size := int(line[1:])) >= 0:
            found.write(await server.readexactly(size + 2))
    return found.getvalue()


@asynccontextmanager
async def faulty(url: str, folder: Path) -> AsyncGenerator[FaultyServer]:
    """A proxy of the server at `url`, whose socket is in `folder`."""
    server = FaultyServer(url, folder / "faulty")
    await server.up()
    try:
        yield server
    finally:
        with suppress(OSError):
            await server.down()
