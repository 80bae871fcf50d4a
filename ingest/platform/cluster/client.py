"""A client of a Redis Cluster with the commands of `ingest.platform.connections.Client`.

The redis-py version that arq needs has a cluster client without transactions. Our transactions stay within one hash
tag, so each runs on one node: this client finds the node and uses redis-py's client for it.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.connection import DefaultParser, parse_url  # pyright: ignore[reportAttributeAccessIssue]
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    ClusterCrossSlotError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    RedisError,
    TryAgainError,
)
from redis.retry import Retry

from ingest.errors import InvalidSetting, reason_of
from ingest.platform.cluster.routing import (
    BROKEN,
    MERGED,
    REDIRECTED,
    KeysInDifferentSlots,
    QueuedCommand,
    Router,
    first,
    keys_of,
    slot_of,
    slot_of_all,
)
from ingest.platform.cluster.topology import Address, ClusterChanged, NodeClient, NodePlace, Topology, down_nodes
from ingest.platform.redis_client import PROTOCOL, Expected, RedisServer, packed_by_hiredis

if TYPE_CHECKING:  # redis-py's commands as methods that call execute_command; the stubs are of another version

    class AsyncCoreCommands: ...

else:
    from redis.commands import AsyncCoreCommands


TRIES = 3
"""How often a transaction is tried if its slot moves each time."""


class SpreadPipeline(AsyncCoreCommands):
    """Commands that are sent at once to the nodes of their keys; the answers come in the order of the commands.
    Commands of one node go through one connection, in their order. There is no transaction, and none across nodes: when
    one node is away its commands fail and the others do not."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._queued: list[QueuedCommand] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._queued = []

    def execute_command(self, *args: Any, **options: Any) -> Self:
        """Queue a command; raises KeysInDifferentSlots for keys of several slots."""
        self._queued.append(QueuedCommand(slot_of_all(args), args, options))
        return self

    def on_each_node(self, *args: Any, **options: Any) -> Self:
        """Queue a command without a key (`WAITAOF`) after the commands so far, on each node that carries them out. Its
        answer is a list of the nodes' answers, in no particular order."""
        self._queued.append(QueuedCommand(None, args, options))
        return self

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """The answers, in order; without `raise_on_error`, errors in their place, also those of a node that is away."""
        queued, self._queued = self._queued, []
        answers = await self._router.run_all(queued)
        if raise_on_error and (error := next((answer for answer in answers if isinstance(answer, Exception)), None)):
            raise error
        return answers


class SlotTransaction(AsyncCoreCommands):
    """MULTI, also with WATCH, on the node of its first key; every key must be of that key's slot.

    The caller repeats a transaction that watches: it raises ConnectionError, or ClusterChanged when its slot has moved.
    Only the first WATCH, before anything was read, follows the slot. A transaction without WATCH is sent again when the
    slot is elsewhere, because nothing of it was carried out.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._queued: list[QueuedCommand] = []
        self._slot: int | None = None
        self._place: NodePlace | None = None
        self._pipe: Any = None
        self._expected: Expected | None = None

    async def __aenter__(self) -> Self:
        await self._router.topology.ready()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.reset()

    async def reset(self) -> None:
        """Forget what is queued and give the connection back."""
        pipe, self._pipe, self._slot, self._queued = self._pipe, None, None, []
        if pipe is not None:
            await pipe.reset()

    def multi(self) -> None:
        """Queue what follows, after WATCH."""
        self._bound().multi()

    def exceed_memory_limit(self, expected: Expected) -> None:
        """See ServerPipeline."""
        self._expected = expected
        if self._pipe is not None:
            self._pipe.exceed_memory_limit(expected)

    async def watch(self, *names: str) -> Any:
        """WATCH, on the node of the keys."""
        return await self.execute_command("WATCH", *names)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue a command, or run it at once between WATCH and `multi`; raises KeysInDifferentSlots."""
        slot = slot_of_all(args)
        if self._slot is None:
            self._slot = slot
            self._bind()
        elif slot != self._slot:
            raise KeysInDifferentSlots(
                f"{args[0]} {args[1]!r} is not in the slot of this transaction; give its keys one hash tag"
            )
        pipe = self._bound()
        if args[0] == "WATCH" and not pipe.watching and not pipe.command_stack:
            return self._first_watch(args)
        answer = pipe.execute_command(*args, **options)
        if asyncio.iscoroutine(answer):
            return self._at_once(answer)
        self._queued.append(QueuedCommand(slot, args, options))
        return answer

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Carry out what is queued; raises WatchError when a watched key has changed."""
        if self._pipe is None:
            return []
        if self._pipe.watching:
            return await self._at_once(self._pipe.execute(raise_on_error))
        queued, self._queued = self._queued, []
        may_repeat = self._router.repeat
        for _ in range(TRIES):
            try:
                return await self._at_once(self._bound().execute(raise_on_error))
            except _Moved:
                pass
            except ClusterChanged:
                raise
            except BROKEN as error:
                assert self._place is not None
                assert self._slot is not None
                if not await self._router.goes_on(error, self._place, self._slot, may_repeat):
                    raise
                may_repeat = False
            self._bind()
            for item in queued:
                self._pipe.execute_command(*item.args, **item.options)
        raise ClusterChanged("a transaction was not executed: its slot keeps moving")

    async def _first_watch(self, args: tuple[Any, ...]) -> Any:
        for _ in range(TRIES):
            try:
                return await self._at_once(self._bound().execute_command(*args))
            except _Moved:
                await self._pipe.reset()
                self._bind()
        raise ClusterChanged("a transaction was not started: its slot keeps moving")

    async def _at_once(self, answer: Coroutine[Any, Any, Any]) -> Any:
        """An answer of the node; the topology learns from a redirection, which is raised as a ConnectionError."""
        node = self._place
        assert node is not None
        try:
            return await self._router.answer(node, answer)
        except REDIRECTED as error:
            await self._router.heed(error, node)
            if isinstance(error, MovedError):
                raise _Moved(str(error)) from error
            raise ClusterChanged(f"a transaction was not executed: {reason_of(error)}") from error
        except BROKEN:
            await self._router.look_again(node)
            raise

    def _bind(self) -> None:
        assert self._slot is not None
        self._place = self._router.topology.place_of(self._slot)
        self._pipe = self._place.client.pipeline(transaction=True)
        if self._expected is not None:
            self._pipe.exceed_memory_limit(self._expected)

    def _bound(self) -> Any:
        if self._pipe is None:
            raise KeysInDifferentSlots("a transaction must begin with a command that names a key")
        return self._pipe


class _Moved(ClusterChanged):
    """The slot is on another node, and nothing was carried out."""


_ERRORS = {
    **cast(Any, DefaultParser).EXCEPTION_CLASSES,  # before redis-py 6 without those of a cluster
    "ASK": AskError, "CLUSTERDOWN": ClusterDownError, "CROSSSLOT": ClusterCrossSlotError,
    "MASTERDOWN": MasterDownError, "MOVED": MovedError, "TRYAGAIN": TryAgainError,
}  # fmt: skip
_PARSER: Any = type("_Parser", (DefaultParser,), {"EXCEPTION_CLASSES": _ERRORS})
"""The fast parser, extended with a cluster's errors."""

SPLIT = {"MGET", "UNLINK", "DEL"}
"""Commands with the same effect whether they are sent with all keys or key by key."""


class ClusterClient(AsyncCoreCommands):
    """Sends each command to the primary of its keys' slot; reads go to primaries, which have every write. A command
    without a key goes to every primary; see `MERGED` for the answers. MGET, UNLINK and DEL may name keys of several
    slots; everything else raises KeysInDifferentSlots then."""

    is_cluster = True
    """By this `connections` knows it."""

    def __init__(self, url: str, *, connections: int, read_timeout_s: float, repeat: bool) -> None:
        """`connections` bounds the pool of each primary. See `connect` for the rest; raises InvalidSetting."""
        seeds, options = parse_cluster_url(url)

        def open_client(address: Address) -> NodeClient:
            settings = {
                "max_connections": connections,
                "timeout": read_timeout_s,
                "socket_timeout": read_timeout_s,
                "socket_keepalive": True,
                "socket_connect_timeout": 2.0,
                "health_check_interval": 15,
                "retry": Retry(NoBackoff(), 0),  # the router repeats, perhaps elsewhere
                "parser_class": _PARSER,
                **options,
                "protocol": PROTOCOL,
            }
            pool = cast(Any, BlockingConnectionPool)(host=address.host, port=address.port, **settings)
            pool.connection_class = packed_by_hiredis(pool.connection_class)
            return cast(Any, RedisServer).from_pool(pool)

        self._router = Router(Topology(seeds, open_client), repeat=repeat)

    @property
    def is_known(self) -> bool:
        """Whether any node of the cluster has answered yet."""
        return self._router.topology.is_known

    @property
    def pools(self) -> list[Any]:
        """The pool of each node that was connected to."""
        return [client.connection_pool for client in self._router.topology.clients]

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run one command where it belongs."""
        keys = keys_of(args)
        if not keys:
            return MERGED.get(args[0], first)(await self._router.run_everywhere(args, options))
        slots = [slot_of(key) for key in keys]
        if args[0] in SPLIT and len(set(slots)) > 1:
            return await self._split(args, slots)
        await self._router.topology.ready()
        return await self._router.run(slot_of_all(args), args, options)

    def server_of(self, key: str) -> str:
        """Where the primary of a key's slot listens, as far as is known; empty before the cluster was asked."""
        address = self._router.topology.address_of(slot_of(key))
        return "" if address is None else str(address)

    async def info_of_nodes(self, *sections: str, of_any: bool = False) -> list[dict[str, Any]]:
        """These sections of INFO, of each primary, with `of_any` of those that answer; raises the first error."""
        return await self._router.run_everywhere(("INFO", *sections), {}, of_any=of_any)

    async def down_nodes(self) -> str:
        """Return which nodes are down, as the answering node knows it that misses most; empty if none is down. Raises
        ResponseError if a node refuses to say."""
        answers = await self._router.run_everywhere(("CLUSTER", "NODES"), {}, of_any=True)
        views = [down_nodes(answer.decode()) for answer in answers if isinstance(answer, bytes)]
        return max(views, key=len, default="")

    def pipeline(self, transaction: bool = True) -> SlotTransaction | SpreadPipeline:
        """A transaction in one slot, or commands spread over the nodes."""
        return SlotTransaction(self._router) if transaction else SpreadPipeline(self._router)

    async def scan_iter(self, match: str | None = None, count: int | None = None) -> AsyncIterator[bytes]:
        """The keys of one primary after the other. Those of a slot that moves in between come twice, or never."""
        await self._router.topology.ready()
        for node in self._router.topology.primaries():
            async for key in node.client.scan_iter(match=match, count=count):
                yield key

    async def aclose(self) -> None:
        """Close every connection."""
        await self._router.topology.aclose()

    async def _split(self, args: tuple[Any, ...], slots: list[int]) -> Any:
        answers = await self._router.run_all(
            [QueuedCommand(slot, (args[0], key), {}) for slot, key in zip(slots, args[1:], strict=True)]
        )
        for answer in answers:
            if isinstance(answer, (RedisError, OSError)):
                raise answer
        return [value for answer in answers for value in answer] if args[0] == "MGET" else sum(answers)


def parse_cluster_url(url: str) -> tuple[list[Address], dict[str, Any]]:
    """The nodes that `redis+cluster://[user:password@]host:port,host:port/?…` names, and redis-py's connection options.
    `rediss+cluster` is over TLS. Raises InvalidSetting."""
    parts = urlsplit(url)
    scheme = parts.scheme.removesuffix("+cluster")
    login, at, hosts = parts.netloc.rpartition("@")
    query = f"?{parts.query}" if parts.query else ""
    addresses: list[Address] = []
    options: dict[str, Any] = {}
    for host in filter(None, hosts.split(",")):
        try:
            options = cast(Any, parse_url)(f"{scheme}://{login}{at}{host}{parts.path}{query}")
        except ValueError as error:
            raise InvalidSetting(f"REDIS_URL: {host!r}: {error}") from None
        if options.pop("db", 0):
            raise InvalidSetting("REDIS_URL: a cluster has no database numbers; leave it out")
        addresses.append(Address(options.pop("host", "localhost"), int(options.pop("port", 6379))))
    if not addresses:
        raise InvalidSetting(
            "REDIS_URL: write redis+cluster://HOST:PORT, with some nodes of the cluster separated by commas"
        )
    return addresses, options
