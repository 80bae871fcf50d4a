"""Reading agentmemory's resources."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.mcp.sessions import told
from ingest.errors import NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.catalog import server_version
from mcp_gateway.tools.tool import Door

SCHEME = "agentmemory://"
LATEST, RECENT = 20, 10
MANY = 500


async def read(door: Door, uri: str) -> str:
    """The JSON text of a resource; raises NotFound for an unknown one, BadArgument for a name that is no text."""
    await door.caught_up()
    if uri in _FIXED:
        return _json(await _FIXED[uri](door))
    for tail, answer in _OF_PROJECT.items():
        lead = f"{SCHEME}project/"
        if uri.startswith(lead) and uri.endswith(tail) and (name := uri[len(lead) : -len(tail)]):
            return _json(await answer(door, _decoded(name)))
    raise NotFound(f"there is no resource {uri}")


async def _status(door: Door) -> Any:
    reader = door.reader()
    page = await door.queries.browse.sessions(reader, None, None, MANY)
    totals = await door.queries.graph.stats(reader, None)
    return {
        "status": "ok",
        "service": "agentmemory",
        "version": server_version() or "0.0.0",
        "sessionCount": len(page.items),
        "sessionCountIsMore": page.next is not None,
        "memoryCount": totals.nodes.get("memory", 0),
    }


async def _latest(door: Door) -> Any:
    reader = door.reader()
    found: list[dict[str, Any]] = []
    for project in await door.queries.browse.projects(reader):
        page = await door.queries.browse.memories(reader, project, None, MANY, latest=True)
        found += page.items[:LATEST]
    newest = sorted(found, key=lambda one: one["recorded_at"], reverse=True)[:LATEST]
    return {"memories": [dialect.memory(one) for one in newest]}


async def _graph(door: Door) -> Any:
    totals = await door.queries.graph.stats(door.reader(), None)
    nodes, edges = sum(totals.nodes.values()), sum(totals.edges.values())
    return {"totalNodes": nodes, "totalEdges": edges, "nodesByType": totals.nodes, "edgesByType": totals.edges}


async def _profile(door: Door, project: str) -> Any:
    known, cached = await door.queries.profiles.of(door.reader(), project)
    if known is None:
        return {"profile": None, "reason": "no_sessions"}
    return {"profile": dialect.profile(known), "cached": cached}


async def _recent(door: Door, project: str) -> Any:
    reader = door.reader()
    page = await door.queries.browse.sessions(reader, project, None, RECENT)
    return {"project": project, "sessions": await told(door, reader, page.items)}


_FIXED: dict[str, Callable[[Door], Awaitable[Any]]] = {
    f"{SCHEME}status": _status,
    f"{SCHEME}memories/latest": _latest,
    f"{SCHEME}graph/stats": _graph,
}
_OF_PROJECT: dict[str, Callable[[Door, str], Awaitable[Any]]] = {"/profile": _profile, "/recent": _recent}


def _decoded(name: str) -> str:
    """A project's name, percent-encoded as it is in an address."""
    for part in name.split("%")[1:]:
        if len(part) < 2 or not all(digit in "0123456789abcdefABCDEF" for digit in part[:2]):
            raise BadArgument(f"{name!r} is not percent-encoded", "uri")
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        raise BadArgument(f"{name!r} is not percent-encoded UTF-8", "uri") from None


def _json(record: Any) -> str:
    return msgspec.json.encode(record).decode()
