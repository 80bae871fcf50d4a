"""Connections whose commands are packed by hiredis. The one file that imports hiredis.

redis-py does so on synchronous connections only; on asynchronous ones it packs in Python, which took a fifth of a
projecting worker's time: 52 microseconds for a command of 42 words, and 4 by hiredis. The bytes are the same.

It also starts a timer for each answer of a pipeline, 15 microseconds; here only for one that has not come yet.
"""

from collections.abc import Iterable
from typing import Any, cast

import hiredis
from redis._parsers import hiredis as parsers
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError, DataError, ResponseError

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
            answer = parser._reader.gets(False) if disable_decoding else parser._reader.gets()
            if isinstance(first := _first(answer), ConnectionError):
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


def _first(answer: Any) -> Any:
    """The answer, or the first of several."""
    several: list[Any] = cast(Any, answer) if isinstance(answer, list) else []
    return several[0] if several else cast(Any, answer)


def _packed(words: tuple[Word, ...]) -> bytes:
    # redis-py names some commands by two words ("CONFIG GET"), and the server wants them apart
    name = str(words[0]) if isinstance(words[0], str) else ""
    if " " in name:
        words = (*name.split(), *words[1:])
    try:
        return bytes(cast(Any, hiredis).pack_command(words))  # its stub wants a tuple of one
    except TypeError as error:
        raise DataError(f"{name}: {error}") from error


class _PackingConnection(_Packing, Connection):
    pass


class _PackingSSLConnection(_Packing, SSLConnection):
    pass


class _PackingUnixConnection(_Packing, UnixDomainSocketConnection):
    pass


_PACKING: dict[type[Any], type[Any]] = {
    Connection: _PackingConnection,
    SSLConnection: _PackingSSLConnection,
    UnixDomainSocketConnection: _PackingUnixConnection,
}


def packed_by_hiredis(connection: type[Any]) -> type[Any]:
    """The kind of connection that packs by hiredis and is else as one of redis-py's."""
    return _PACKING[connection]
