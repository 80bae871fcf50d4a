"""A client of a Redis Cluster with the commands of `ingest.platform.connections.Client`.

redis-py of the version that arq needs has a cluster client without transactions. Ours all stay within one hash tag, so
each runs on one node: this client finds the node and leaves the rest to redis-py's client of it.
"""

from collections.abc import AsyncIterator
from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.cluster import ClusterParser
from redis.asyncio.connection import DefaultParser, parse_url  # pyright: ignore[reportAttributeAccessIssue]
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from ingest.errors import InvalidSetting
from ingest.platform.cluster.pipelines import AsyncCoreCommands, SlotTransaction, SpreadPipeline
from ingest.platform.cluster.routing import MERGED, QueuedCommand, Router, first
from ingest.platform.cluster.slots import keys_of, slot_of, slot_of_all
from ingest.platform.cluster.topology import Address, NodeClient, Topology
from ingest.platform.memory_limit import RedisServer
from ingest.platform.packing import packed_by_hiredis

_PARSER: Any = type("_Parser", (DefaultParser,), {"EXCEPTION_CLASSES": cast(Any, ClusterParser).EXCEPTION_CLASSES})
"""The fast parser, which also knows a cluster's errors."""

SPLIT = {"MGET", "UNLINK", "DEL"}
"""Commands that are the same whether they are sent with all their keys or key by key."""


class ClusterClient(AsyncCoreCommands):
    """Sends each command to the primary of its keys' slot. Reads go to primaries, too: they see what was written.

    What names no key is asked of every primary; see `MERGED` for what is made of the answers. MGET, UNLINK and DEL may
    name keys of several slots; everything else raises KeysApart then.
    """

    def __init__(self, url: str, *, connections: int, read_timeout_s: float, repeat: bool) -> None:
        """`connections` bounds the pool of each primary. See `connect` for the rest; raises InvalidSetting."""
        seeds, options = parse_cluster_url(url)

        def open_client(address: Address) -> NodeClient:
            pool = cast(Any, BlockingConnectionPool)(
                host=address.host,
                port=address.port,
                max_connections=connections,
                timeout=read_timeout_s,
                socket_timeout=read_timeout_s,
                socket_keepalive=True,
                socket_connect_timeout=2.0,
                health_check_interval=15,
                retry=Retry(NoBackoff(), 0),  # the router repeats, perhaps elsewhere
                parser_class=_PARSER,
                **options,
            )
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
        answers = await self._router.run_everywhere(("INFO", *sections), {}, of_any=of_any)
        for answer in answers:
            if isinstance(answer, (RedisError, OSError)):
                raise answer
        return list(answers)

    def pipeline(self, transaction: bool = True) -> SlotTransaction | SpreadPipeline:
        """A transaction in one slot, or commands spread over the nodes."""
        return SlotTransaction(self._router) if transaction else SpreadPipeline(self._router)

    async def scan_iter(self, match: str | None = None, count: int | None = None) -> AsyncIterator[bytes]:
        """The keys of one primary after the other. Those of a slot that moves meanwhile come twice, or not at all."""
        await self._router.topology.ready()
        for place in self._router.topology.primaries():
            async for key in place.client.scan_iter(match=match, count=count):
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

    `rediss+cluster` is over TLS. Raises InvalidSetting.
    """
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
            raise InvalidSetting("REDIS_URL: a cluster has no databases by number; leave it out")
        addresses.append(Address(options.pop("host", "localhost"), int(options.pop("port", 6379))))
    if not addresses:
        raise InvalidSetting("REDIS_URL: write redis+cluster://HOST:PORT, some nodes of the cluster by comma")
    return addresses, options
