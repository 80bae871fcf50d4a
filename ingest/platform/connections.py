"""Redis connections: one way to create a client, so that timeouts and retries are the same everywhere.

`Client` and `Transaction` list the commands that the project uses, and so what a server must support; no module is
needed. (The published type stubs describe another major version of redis-py.)
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar, cast

from redis.asyncio import BlockingConnectionPool
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import ConnectionError, ResponseError, TimeoutError
from redis.retry import Retry

from ingest.errors import InvalidSetting, LogUnavailable
from ingest.platform.addresses import FORMS, is_cluster
from ingest.platform.redis_client import PROTOCOL, Command, Expected, SharedConnectionClient, packed_by_hiredis

if TYPE_CHECKING:
    from ingest.platform.cluster import ClusterClient

logger = logging.getLogger(__name__)
T = TypeVar("T")

AGAIN_AFTER_S = 1.0
"""Between attempts to start while a cluster node is unreachable."""


class Commands(Protocol):
    """Commands by redis-py's names. A Client answers an awaitable of the reply, a Transaction queues."""

    def get(self, name: str, /) -> Any: ...
    def set(self, name: str, value: str | bytes, /, *, ex: Any = None, nx: bool = False) -> Any: ...
    def mget(self, *names: str) -> Any: ...
    def mset(self, mapping: Mapping[str, bytes], /) -> Any: ...
    def delete(self, *names: str) -> Any: ...
    def unlink(self, *names: str | bytes) -> Any: ...
    def expire(self, name: str, time: int, /) -> Any: ...
    def rename(self, name: str, new: str, /) -> Any: ...
    def exists(self, *names: str) -> Any: ...
    def incr(self, name: str, /) -> Any: ...

    def hget(self, name: str, key: str, /) -> Any: ...
    def hgetall(self, name: str, /) -> Any: ...
    def hmget(self, name: str, keys: Sequence[str], /) -> Any: ...
    def hset(self, name: str, key: Any = None, value: Any = None, mapping: Mapping[str, Any] | None = None) -> Any: ...
    def hsetnx(self, name: str, key: str, value: str, /) -> Any: ...
    def hincrby(self, name: str, key: str, amount: int, /) -> Any: ...
    def hdel(self, name: str, /, *keys: str) -> Any: ...
    def hlen(self, name: str, /) -> Any: ...

    def sadd(self, name: str, /, *members: str | bytes) -> Any: ...
    def srem(self, name: str, /, *members: str | bytes) -> Any: ...
    def smembers(self, name: str, /) -> Any: ...
    def sunionstore(self, dest: str, /, *names: str) -> Any: ...
    def sismember(self, name: str, value: str | bytes, /) -> Any: ...
    def scard(self, name: str, /) -> Any: ...

    def zadd(self, name: str, mapping: Mapping[Any, float], /, *, nx: bool = False) -> Any: ...
    def zrem(self, name: str, /, *members: str | bytes) -> Any: ...
    def zrange(self, name: str, start: int | bytes, end: int | bytes, /, **options: Any) -> Any: ...
    def zmscore(self, name: str, members: Sequence[str], /) -> Any: ...
    def zcard(self, name: str, /) -> Any: ...
    def zcount(self, name: str, low: float | str, high: float | str, /) -> Any: ...
    def zremrangebylex(self, name: str, low: bytes, high: bytes, /) -> Any: ...

    def xadd(
        self, name: str, fields: Mapping[str, bytes], /, *, maxlen: int | None = None, approximate: bool = True
    ) -> Any: ...
    def xdel(self, name: str, /, *ids: str) -> Any: ...
    def xlen(self, name: str, /) -> Any: ...
    def xrange(self, name: str, /, *, min: str = "-", max: str = "+", count: int | None = None) -> Any: ...
    def xrevrange(self, name: str, /, *, max: str = "+", min: str = "-", count: int | None = None) -> Any: ...
    def xtrim(self, name: str, /, *, minid: str, approximate: bool) -> Any: ...
    def xread(self, streams: Mapping[str, str], /, *, count: int, block: int | None) -> Any: ...
    def xreadgroup(
        self, group: str, consumer: str, streams: Mapping[str, str], /, *, count: int, block: int | None
    ) -> Any: ...
    def xgroup_create(self, name: str, group: str, /, *, id: str, mkstream: bool) -> Any: ...
    def xpending_range(self, name: str, group: str, /, *, min: str, max: str, count: int) -> Any: ...
    def xack(self, name: str, group: str, /, *ids: str) -> Any: ...
    def xinfo_groups(self, name: str, /) -> Any: ...
    def xinfo_stream(self, name: str, /) -> Any: ...

    def script_load(self, script: str, /) -> Any: ...


class Transaction(Commands, Protocol):
    """A pipeline. Commands between `watch` and `multi` run at once; the others when it is executed."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exception: object) -> None: ...
    async def watch(self, *names: str) -> Any: ...
    def multi(self) -> None: ...
    def exceed_memory_limit(self, expected: Expected) -> None: ...
    def execute_command(self, *words: str | bytes | int) -> Any: ...
    async def execute(self, raise_on_error: bool = True) -> list[Any]: ...


class Client(Commands, Protocol):
    """An asynchronous client with a bounded pool; replies are bytes."""

    def pipeline(self, transaction: bool = True) -> Transaction: ...
    def scan_iter(self, *, match: str, count: int) -> AsyncIterator[bytes]: ...
    def hscan_iter(self, name: str, /, *, count: int) -> AsyncIterator[tuple[bytes, bytes]]: ...
    def config_get(self, pattern: str, /) -> Any: ...
    def memory_usage(self, key: str, /, *, samples: int) -> Any: ...
    def ping(self) -> Any: ...
    def info(self, section: str, /, *sections: str) -> Any: ...
    def bgrewriteaof(self) -> Any: ...
    def flushall(self) -> Any: ...
    async def aclose(self) -> None: ...


def connect(url: str, *, connections: int = 64, read_timeout_s: float = 5.0, repeat: bool = True) -> Client:
    """A client with its own pool; replies are bytes.

    `connections` bounds the pool (on a cluster that of each node): a caller past it waits. `read_timeout_s` must exceed
    the longest blocking command the client is used for. With `repeat` a command whose connection broke is sent once
    more; without, the caller decides (a repeated read of a consumer group would skip what the first one was given).
    Raises InvalidSetting for an invalid URL.
    """
    tcp: dict[str, Any] = {} if url.startswith("unix") else {"socket_keepalive": True, "socket_connect_timeout": 2.0}
    try:
        if is_cluster(url):
            from ingest.platform.cluster import ClusterClient  # only with a cluster's URL

            cluster = ClusterClient(url, connections=connections, read_timeout_s=read_timeout_s, repeat=repeat)
            return cast(Client, cluster)
        pool = cast(Any, BlockingConnectionPool).from_url(
            url,
            max_connections=connections,
            timeout=read_timeout_s,
            socket_timeout=read_timeout_s,
            health_check_interval=15,  # seconds idle, after which a connection is checked with a PING
            retry=Retry(ExponentialBackoff(cap=0.2, base=0.02), 1) if repeat else Retry(NoBackoff(), 0),
            **tcp,
        )
        pool.connection_kwargs["protocol"] = PROTOCOL
        pool.connection_class = packed_by_hiredis(pool.connection_class)
        pool.make_connection()  # does not connect, and raises for invalid options of the URL
    except (ValueError, TypeError) as error:
        raise InvalidSetting(f"REDIS_URL, or MNEMOLOG_JOBS_REDIS_URL: {error}; write {FORMS}") from None
    client = cast(Any, SharedConnectionClient).from_pool(pool)
    client.repeat = repeat
    return cast(Client, client)


def past_memory_limit(client: Client) -> Transaction:
    """A transaction without WATCH that is carried out even at the server's `maxmemory`: for small writes that must
    succeed, not for vectors, documents of a rebuild or new events."""
    pipe = client.pipeline(transaction=True)
    pipe.exceed_memory_limit({})
    return pipe


def on_each_node(pipe: Transaction, *command: str | int) -> Callable[[Any], list[Any]]:
    """Queue a command without a key (`WAITAOF`) after what a pipeline without transaction has so far, on a cluster on
    each node that carries out those commands. Returns a function from its answer to the list of the nodes' answers."""
    queue = cast(Any, pipe)
    if hasattr(pipe, "on_each_node"):  # a cluster's
        queue.on_each_node(*command)
        return list
    queue.execute_command(*command)
    return lambda answer: [answer]


async def ask(client: Client, commands: Sequence[Command], *, at_once: bool = False) -> list[Any]:
    """The raw answers to several commands, in one round trip, with errors in their place; `at_once` as a transaction.
    On one server all callers share connections, so no command may block. Raises ConnectionError or TimeoutError if the
    server does not answer."""
    if isinstance(client, SharedConnectionClient):
        if not at_once:
            return await client.ask(commands)
        answers = (await client.ask([("MULTI",), *commands, ("EXEC",)]))[-1]
        if isinstance(answers, Exception):
            raise answers
        return answers
    async with client.pipeline(transaction=at_once) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        return await pipe.execute(raise_on_error=False)


async def ask_apart(client: Client, groups: Sequence[Sequence[Command]]) -> list[Any]:
    """Like `ask` for the commands of all groups, which may go over several connections; each group keeps its order."""
    if isinstance(client, SharedConnectionClient):
        return await client.ask_apart(groups)
    return await ask(client, [command for group in groups for command in group])


def _cluster(client: Client) -> "ClusterClient | None":
    """Return the client if it is one of a cluster, which only its class says: without a cluster it is not imported."""
    return cast("ClusterClient", client) if getattr(client, "is_cluster", False) else None


def keys_may_be_apart(client: Client) -> bool:
    """Whether one command may name keys of several slots: on one server it may."""
    return _cluster(client) is None


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Client]:
    """A client, closed afterward."""
    redis = connect(url)
    try:
        yield redis
    finally:
        await redis.aclose()


async def retry_until_connected(client: Client, what: str, step: Callable[[], Awaitable[T]]) -> T:
    """What a step of starting returns; it is repeated while a node of the cluster that it needs is away. Raises what
    the step raises without a cluster, or if none of its nodes answers."""
    while True:
        try:
            return await step()
        except (ConnectionError, TimeoutError, LogUnavailable, OSError) as error:
            cluster = _cluster(client)
            if cluster is None or not cluster.is_known:
                raise
            logger.warning("a cluster node is unreachable; waiting for it %s: %s", what, error)
            await asyncio.sleep(AGAIN_AFTER_S)


class PoolSize(NamedTuple):
    """How many connections a client has, and how many of them are idle."""

    size: int
    idle: int


def pool_size(client: Client) -> PoolSize:
    """The client's pools as they are now: one, or one for each node of a cluster."""
    cluster = _cluster(client)
    pools: list[Any] = [cast(Any, client).connection_pool] if cluster is None else cluster.pools
    idle = sum(len(pool._available_connections) for pool in pools)
    return PoolSize(idle + sum(len(pool._in_use_connections) for pool in pools), idle)


def server_of(client: Client, key: str) -> str:
    """The node of a cluster that has a key, as far as is known; empty without a cluster."""
    cluster = _cluster(client)
    return "" if cluster is None else cluster.server_of(key)


async def down_nodes(client: Client) -> str:
    """Return which nodes of a cluster are down, and how many primaries have no replica; empty for a single server, and
    if the server refuses to say (managed services may)."""
    cluster = _cluster(client)
    with suppress(ResponseError):
        return "" if cluster is None else await cluster.down_nodes()
    return ""


async def info_of_nodes(client: Client, *sections: str, of_any: bool = False) -> list[dict[str, Any]]:
    """These sections of INFO from the server, or from every primary of a cluster, with `of_any` only from those that
    answer. Raises ResponseError if the server refuses (managed services may)."""
    cluster = _cluster(client)
    if cluster is not None:
        return await cluster.info_of_nodes(*sections, of_any=of_any)
    return [await client.info(*sections)]
