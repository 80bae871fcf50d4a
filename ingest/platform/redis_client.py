"""redis-py's client of one server, plus packing by hiredis, writes past the memory limit, and shared connections.

*Packing.* redis-py packs commands with hiredis on synchronous connections only. On asynchronous ones it packs in
Python, which took a fifth of a projecting worker's time: 52 microseconds for a command of 42 words, 4 with hiredis. The
bytes are the same. It also starts a timer for each answer of a pipeline (15 microseconds); here only for an answer that
is not there yet.

*Past the memory limit.* What an accepted write needs is counted before it is accepted (`projections.health.watch`).
So what has no claim to that room (a new event, a vector) is refused at `maxmemory`, while projecting what was accepted
and freeing memory (forgetting) continue: by a script, because a server refuses commands and MULTI there, and lets a
script that says so write.

*Shared connections.* A redis-py pipeline takes a connection from a pool, checks whether it is idle, and reads each
answer with its own time-out: for one or two commands that costs the event loop far more than the round trip. On a
shared connection commands are written at once, and answers come in order. Nothing that blocks or watches may be sent
there: everyone would wait for it.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import hiredis
from redis._parsers import hiredis as parsers
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import (
    ConnectionError,
    DataError,
    ExecAbortError,
    OutOfMemoryError,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType] - not in the stubs
    RedisError,
    ResponseError,
    TimeoutError,
    WatchError,
)

if TYPE_CHECKING:  # the stubs are of another major version

    class Pipeline:
        def __init__(self, *args: Any) -> None: ...
        async def _execute_transaction(self, connection: Any, commands: Any, raise_on_error: bool) -> list[Any]: ...
        async def watch(self, *names: str) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...

    class Redis:
        def __init__(self, *args: Any, **options: Any) -> None: ...
        async def aclose(self, close_connection_pool: bool | None = None) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

else:
    from redis.asyncio.client import Pipeline, Redis

Words: TypeAlias = Sequence[Any]
Expected: TypeAlias = Mapping[str, str | bytes | None]
"""The values that keys must have (None: missing) for a transaction to be executed."""

PROTOCOL = 2
"""Of every connection, whatever its URL says: answers of version 3, the default since redis-py 8, have other shapes."""
SCRIPT = (files("ingest.log") / "lua" / "past_limit.lua").read_text()
MOST_WORDS = 7_000
"""The most values of one command: Lua passes at most about 8,000 values to a call."""
_REPEATED = {"ZADD": (2, 2), "HSET": (2, 2), "ZREM": (2, 1), "SADD": (2, 1), "SREM": (2, 1), "HDEL": (2, 1),
             "XDEL": (2, 1), "XACK": (3, 1), "DEL": (1, 1), "UNLINK": (1, 1), "MSET": (1, 2)}  # fmt: skip
"""Commands that can be split: the words before the repeating part, and how many words repeat."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a server refused because it is at its `maxmemory`; of a transaction it may say so in words."""
    return isinstance(error, OutOfMemoryError) or (isinstance(error, ExecAbortError) and "OOM" in str(error))


class RedisServer(Redis):
    """redis-py's client of one server, with transactions that may go past the memory limit."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> "ServerPipeline":
        return ServerPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class ServerPipeline(Pipeline):
    """A pipeline, or a transaction that may be carried out past the memory limit."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._expected: Expected | None = None

    def exceed_memory_limit(self, expected: Expected) -> None:
        """Carry this transaction out even at `maxmemory`; `expected` has the value read of each watched key."""
        self._expected = expected

    async def _execute_transaction(self, connection: Any, commands: Any, raise_on_error: bool) -> list[Any]:
        try:
            return await super()._execute_transaction(connection, commands, raise_on_error)
        except ResponseError as error:
            if self._expected is None or not is_out_of_memory(error):
                raise
        self.watching = False  # the script compares the watched keys itself
        return await self._execute_script(connection, commands, self._expected, raise_on_error)

    async def _execute_script(
        self, connection: Any, commands: Any, expected: Expected, raise_on_error: bool
    ) -> list[Any]:
        portions = [portioned(words) for words, _ in commands]
        keys = list(expected) or [commands[0][0][1]]  # a key says which node of a cluster
        values = [value.encode() if isinstance(value, str) else value for value in expected.values()]
        looks = ["!" if value is None else b"=" + value for value in values]
        words = [word for part in chain.from_iterable(portions) for word in (len(part), *part)]
        await connection.send_command("EVAL", SCRIPT, len(keys), *keys, len(expected), *looks, *words)
        answered: list[Any] = await self.parse_response(connection, "EVAL")
        if not answered:
            raise WatchError("a watched key has changed")
        rest = iter(answered[1:])
        answers = [_whole([next(rest) for _ in parts]) for parts in portions]
        if raise_on_error:
            self.raise_first_error(commands, answers)
        return [self._converted(command, answer) for command, answer in zip(commands, answers, strict=True)]

    def _converted(self, command: Any, answer: Any) -> Any:
        """An answer as redis-py hands it out."""
        words, options = command
        options.pop("keys", None)
        convert = self.response_callbacks.get(words[0])
        return answer if convert is None or isinstance(answer, Exception) else convert(answer, **options)


def portioned(words: Words) -> list[Words]:
    """A command as commands that Lua can carry out: the words of its name separate, and not too many words in one."""
    words = (*str(words[0]).split(), *words[1:])
    if len(words) <= MOST_WORDS or words[0] not in _REPEATED:
        return [words]
    head, step = _REPEATED[words[0]]
    size = (MOST_WORDS - head) // step * step
    return [(*words[:head], *words[at : at + size]) for at in range(head, len(words), size)]


def _whole(answers: list[Any]) -> Any:
    """The answer of a command that was sent in portions: the first error, or the sum of counts."""
    if error := next((answer for answer in answers if isinstance(answer, Exception)), None):
        return error
    return sum(answers) if isinstance(answers[0], int) else answers[0]


Word = str | bytes | memoryview | int | float


class _Packing(AbstractConnection):
    def pack_command(self, *args: Word) -> list[bytes]:
        """The command as the protocol wants it. Raises DataError for a word of another type."""
        return [_packed(args)]

    def pack_commands(self, commands: Iterable[Iterable[Word]]) -> list[bytes]:
        """All commands, one behind the other."""
        return [b"".join(_packed(tuple(command)) for command in commands)]

    async def read_response(self, disable_decoding: bool = False, timeout: float | None = None, **options: Any) -> Any:
        """The next answer; raises an error that it is. With `timeout`, None when it does not come in time."""
        parser = cast(Any, self)._parser
        if not parser._connected:  # redis-py says so
            return await super().read_response(disable_decoding, timeout, **options)
        try:
            answer: Any = parser._reader.gets(False) if disable_decoding else parser._reader.gets()
            first = answer[0] if answer.__class__ is list and answer else answer
            if isinstance(first, ConnectionError):
                raise first  # the server is loading its data
        except BaseException:  # or what came is no answer: nothing behind it can be read
            if options.get("disconnect_on_error", True):
                await self.disconnect(nowait=True)
            raise
        if answer is _NOT_COME:
            return await super().read_response(disable_decoding, timeout, **options)
        if isinstance(answer, ResponseError):
            raise answer from None
        return answer


_NOT_COME: Any = cast(Any, parsers).NOT_ENOUGH_DATA


def _packed(words: tuple[Word, ...]) -> bytes:
    # redis-py names some commands by two words ("CONFIG GET"), and the server wants them apart
    name = str(words[0]) if isinstance(words[0], str) else ""
    if " " in name:
        words = (*name.split(), *words[1:])
    try:
        return bytes(cast(Any, hiredis).pack_command(words))  # its stub wants a tuple of one
    except TypeError as error:
        raise DataError(f"{name}: {error}") from error


_PACKING: dict[type[Any], type[Any]] = {
    kind: type(f"_Packing{kind.__name__}", (_Packing, kind), {})
    for kind in (Connection, SSLConnection, UnixDomainSocketConnection)
}


def packed_by_hiredis(connection: type[Any]) -> type[Any]:
    """The class that packs by hiredis and is otherwise like one of redis-py's connections."""
    return _PACKING[connection]


Command: TypeAlias = Sequence[str | bytes | int]
MAX_WAITING = 10_000
"""The most callers that wait for a response; further ones are refused."""
CONNECTIONS = 8
READ_AT_ONCE_BYTES = 16 << 10
"""Valkey reads this much from a connection before it turns to the next, and syncs its file after each round. So a large
batch needs fewer syncs if it is spread over more connections."""
ASK_AGAIN_AFTER_S = 0.02
"""The pause after a lost connection, as in redis-py."""


class SharedConnectionClient(RedisServer):
    """redis-py's client of one server, with a few connections that all callers of `ask` share."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._shared = [SharedConnection(self.connection_pool) for _ in range(CONNECTIONS)]
        self.repeat = True
        """Whether commands on a lost connection are sent again."""

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
        """See `connections.ask_apart`."""
        parts = _parts(groups)
        if len(parts) == 1:
            return await self.ask(parts[0])
        return [answer for answers in await asyncio.gather(*map(self.ask, parts)) for answer in answers]

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        for connection in self._shared:
            await connection.aclose()
        await super().aclose(close_connection_pool)

    def _least_busy(self) -> "SharedConnection":
        return min(self._shared, key=lambda connection: connection.waiting)


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
    commands: int
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
        """The raw answer to each command, in one round trip; an error reply stands in the place of its answer. Raises
        ConnectionError or TimeoutError, after which it is not known what was carried out."""
        if not commands:
            return []
        answers = self._answers
        if answers is None or answers.lost:
            if self._opening is None or self._opening.done():
                # a task of its own: a canceled caller must not cancel it for the others
                self._opening = asyncio.create_task(self._open(), name="shared connection")
            answers = await asyncio.shield(self._opening)
        return await answers.ask(commands)

    async def aclose(self) -> None:
        """Close it; callers that wait get ConnectionError."""
        if self._opening is not None:
            self._opening.cancel()
        if self._answers is not None:
            self._answers.abort(ConnectionError("the connection was closed"))
            await self._answers.closed.wait()

    async def _open(self) -> "_Answers":
        connection = self._pool.make_connection()
        await connection.connect()
        self._answers = _Answers(connection)
        return self._answers


class _Answers(asyncio.Protocol):
    """Takes a connection that redis-py has opened, with its password and database, away from redis-py's streams.
    Private names: redis-py has no public way from a connection to its transport and its parser. A test asks for
    them."""

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
            raise ConnectionError(f"{MAX_WAITING:,} requests are waiting for a response")
        question = _Question(self._loop.create_future(), len(commands), self._loop.time(), [])
        packed = self._connection.pack_commands(commands)  # may raise: before anything waits
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
            while (answer := self._parser.gets()) is not _NOT_COME:
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
        """Give up the connection; callers that wait get the error."""
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
            self.abort(ConnectionError(f"unexpected response: {answer!r:.100}"))
            return
        question = self._waiting[0]
        question.answers.append(answer)
        if len(question.answers) == question.commands:
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
            self.abort(TimeoutError("no response in time"))
        else:
            self._watch = self._loop.call_later(left_s, self._check)
