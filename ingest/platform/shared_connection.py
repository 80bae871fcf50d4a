"""Connections for all callers: what they ask is written at once, and answers come in the order of the questions.

A pipeline of redis-py takes a connection from a pool, looks whether it is idle, and reads each answer under a time-out
of its own: for a command or two that costs the event loop far more than the round trip. Nothing that blocks, and
nothing that watches, may be asked here: everybody would wait behind it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from ingest.platform.memory_limit import RedisServer

logger = logging.getLogger(__name__)

Command: TypeAlias = Sequence[str | bytes | int]
MAX_WAITING = 10_000
"""Askers that wait for an answer; one more is refused."""
CONNECTIONS = 8
READ_AT_ONCE_BYTES = 16 << 10
"""Valkey reads so much of a connection before it turns to the next, and syncs its file when it was at all of them. So
the less of a big batch is on each connection, the less often it should be synced."""
ASK_AGAIN_AFTER_S = 0.02
"""After a connection was lost, as redis-py does."""


class SharedConnectionClient(RedisServer):
    """redis-py's client of one server, with a few connections that all callers of `ask` share."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._shared = [SharedConnection(self.connection_pool) for _ in range(CONNECTIONS)]
        self.repeat = True
        """Whether what was asked on a connection that was lost is asked once more."""

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """See SharedConnection.ask; on the connection on which the fewest wait."""
        try:
            return await self._least_busy().ask(commands)
        except ConnectionError:
            if not self.repeat:
                raise
        await asyncio.sleep(ASK_AGAIN_AFTER_S)
        return await self._least_busy().ask(commands)

    async def ask_apart(self, groups: Sequence[Sequence[Command]]) -> list[Any]:
        """The same of all groups, in turn, which may go over several connections; each keeps its order."""
        parts = _parts(groups)
        if len(parts) == 1:
            return await self.ask(parts[0])
        return [answer for answers in await asyncio.gather(*map(self.ask, parts)) for answer in answers]

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        for one in self._shared:
            await one.aclose()
        await super().aclose(close_connection_pool)

    def _least_busy(self) -> "SharedConnection":
        return min(self._shared, key=lambda one: one.waiting)


def _parts(groups: Sequence[Sequence[Command]]) -> list[list[Command]]:
    """The groups in turn, in CONNECTIONS parts at most, each of READ_AT_ONCE_BYTES at least but for the last."""
    sizes = [sum(len(word) for command in group for word in command if not isinstance(word, int)) for group in groups]
    enough = max(READ_AT_ONCE_BYTES, -(-sum(sizes) // CONNECTIONS))
    parts: list[list[Command]] = [[]]
    held = 0
    for group, size in zip(groups, sizes, strict=True):
        if held >= enough:
            parts.append([])
            held = 0
        parts[-1] += group
        held += size
    return parts


class _Question(NamedTuple):
    done: "asyncio.Future[list[Any]]"
    wanted: int
    asked_at: float
    answers: list[Any]


class SharedConnection:
    """Opens when it is first asked, and again after it was lost. One per client, for one event loop."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._answers: _Answers | None = None
        self._opening: asyncio.Task[_Answers] | None = None

    @property
    def waiting(self) -> int:
        """How many wait for an answer."""
        return 0 if self._answers is None else self._answers.waiting

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The raw answer to each command, in one round trip; an error reply stands in the place of its answer.

        Raises ConnectionError or TimeoutError, after which it is not known what was carried out.
        """
        if not commands:
            return []
        answers = self._answers
        if answers is None or answers.lost:
            answers = await self._opened()
        return await answers.ask(commands)

    async def aclose(self) -> None:
        """Close it; whoever waits gets ConnectionError."""
        if self._opening is not None:
            self._opening.cancel()
        if self._answers is not None:
            self._answers.abort(ConnectionError("the connection was closed"))
            await self._answers.closed.wait()

    async def _opened(self) -> "_Answers":
        """Have one connection opened, however many ask for it."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open(), name="shared connection")
        return await asyncio.shield(self._opening)

    async def _open(self) -> "_Answers":
        connection = self._pool.make_connection()
        await connection.connect()
        self._answers = _Answers(connection)
        return self._answers


class _Answers(asyncio.Protocol):
    """Takes a connection that redis-py has opened, with its password and database, away from redis-py's streams.

    Private names: redis-py has no public way from a connection to its transport and its parser. A test asks for them.
    """

    def __init__(self, connection: Any) -> None:
        self._connection, self._timeout_s = connection, connection.socket_timeout
        self._parser = connection._parser._reader
        self._transport: Any = connection._writer.transport
        self._before = self._transport.get_protocol()
        self._waiting: deque[_Question] = deque()
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.TimerHandle | None = None
        self.lost = False
        self.closed = asyncio.Event()
        self._transport.set_protocol(self)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        if len(self._waiting) >= MAX_WAITING:
            raise ConnectionError(f"{MAX_WAITING:,} questions wait for an answer")
        question = _Question(self._loop.create_future(), len(commands), self._loop.time(), [])
        packed = self._connection.pack_commands(commands)
        if self.lost:
            raise ConnectionError("the connection was lost")
        self._waiting.append(question)
        self._transport.write(b"".join(packed) if len(packed) > 1 else packed[0])
        if self._watch is None and self._timeout_s:
            self._watch = self._loop.call_later(self._timeout_s, self._check)
        return await question.done

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
            while (answer := self._parser.gets()) is not NOT_ENOUGH_DATA:
                self._answer(answer)
        except RedisError as error:  # not what the protocol allows
            self.abort(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort(ConnectionError(f"the connection was lost: {exc or 'the server closed it'}"))
        self._before.connection_lost(exc)
        self._connection._writer = self._connection._reader = None
        self.closed.set()

    def eof_received(self) -> bool:
        return False

    def abort(self, error: Exception) -> None:
        """Give up the connection; whoever waits gets the error."""
        self.lost = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        while self._waiting:
            done = self._waiting.popleft().done
            if not done.done():
                done.set_exception(error)
        self._transport.abort()

    def _answer(self, answer: Any) -> None:
        if not self._waiting:
            self.abort(ConnectionError(f"an answer that nobody asked for: {answer!r:.100}"))
            return
        question = self._waiting[0]
        question.answers.append(answer)
        if len(question.answers) == question.wanted:
            self._waiting.popleft()
            if not question.done.done():  # the asker may have gone away
                question.done.set_result(question.answers)

    def _check(self) -> None:
        """Give up when the oldest question has waited for too long; else look again when it will have."""
        self._watch = None
        if not self._waiting:
            return
        left_s = self._waiting[0].asked_at + self._timeout_s - self._loop.time()
        if left_s <= 0:
            self.abort(TimeoutError("no answer in time"))
        else:
            self._watch = self._loop.call_later(left_s, self._check)
