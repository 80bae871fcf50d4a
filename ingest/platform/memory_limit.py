"""Writes that go through although the server is at its `maxmemory`.

What a write that was accepted needs counts before it is accepted (`projections.health.watch`). So what makes no
use of that room (a new event, a vector) is refused at the limit, while what was accepted is projected and what frees
memory (forgetting) is carried out past it: by a script, because a server refuses commands and MULTI there, and lets a
script that says so write.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from redis.exceptions import (
    ExecAbortError,
    OutOfMemoryError,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType] - not in the stubs
    ResponseError,
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
"""What keys must hold, None for nothing, for a transaction to be carried out."""

SCRIPT = (files("ingest.log") / "lua" / "past_limit.lua").read_text()
MOST_WORDS = 7_000
"""Of one command: Lua hands at most about 8,000 values to a call."""
_REPEATED = {"ZADD": (2, 2), "HSET": (2, 2), "ZREM": (2, 1), "SADD": (2, 1), "SREM": (2, 1), "HDEL": (2, 1),
             "XDEL": (2, 1), "XACK": (3, 1), "DEL": (1, 1), "UNLINK": (1, 1), "MSET": (1, 2)}  # fmt: skip
"""Commands that may be given in portions: the words before what repeats, and how many words repeat."""


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
        """Carry this transaction out also at `maxmemory`; `expected` says of each watched key what it was read to
        hold."""
        self._expected = expected

    async def _execute_transaction(self, connection: Any, commands: Any, raise_on_error: bool) -> list[Any]:
        try:
            return await super()._execute_transaction(connection, commands, raise_on_error)
        except ResponseError as error:
            if self._expected is None or not is_out_of_memory(error):
                raise
        self.watching = False
        return await self._execute_script(connection, commands, self._expected, raise_on_error)

    async def _execute_script(
        self, connection: Any, commands: Any, expected: Expected, raise_on_error: bool
    ) -> list[Any]:
        portions = [portioned(words) for words, _ in commands]
        keys = list(expected) or [commands[0][0][1]]  # a key says which node of a cluster
        looks = ["!" if value is None else b"=" + _encoded(value) for value in expected.values()]
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
    """A command as commands that Lua can carry out: its name's words apart, and no more of them than it can hand on."""
    words = (*str(words[0]).split(), *words[1:])
    if len(words) <= MOST_WORDS or words[0] not in _REPEATED:
        return [words]
    head, step = _REPEATED[words[0]]
    size = (MOST_WORDS - head) // step * step
    return [(*words[:head], *words[at : at + size]) for at in range(head, len(words), size)]


def _whole(answers: list[Any]) -> Any:
    """The answer of a command that was given in portions: counts add up, and any error is the whole's."""
    if error := next((one for one in answers if isinstance(one, Exception)), None):
        return error
    return sum(answers) if isinstance(answers[0], int) else answers[0]


def _encoded(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
