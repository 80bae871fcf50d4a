"""Every endpoint of the native API, and what holds for all of them. A new module of routes is a name in MODULES."""

from collections.abc import Mapping, Sequence

from starlette.routing import Route

from api.http.endpoint import Endpoint, RequestHeader
from api.http.http import PROBLEM_JSON, Problem
from api.http.openapi import ANYTHING, About, documented
from api.monitoring import ops
from api.native import (
    actions,
    admin,
    documents,
    forgetting,
    keys,
    lessons,
    log,
    memories,
    names,
    rebuilds,
    sessions,
    transfer,
    writes,
)
from api.native.described import TAGS, details
from api.viewer import room as viewer
from ingest.durability import LEVELS
from ingest.roles import ANY, WRITE, Needs
from mcp_gateway.profiles import server_version

MODULES = (
    writes, memories, lessons, sessions, actions, documents, names, log, forgetting, transfer, rebuilds, admin, keys,
    ops, viewer,
)  # fmt: skip
_STRANGER = "Or a web page of another origin asks, or the server is called by a name that it does not know."
_AGENT = RequestHeader("Who reads, and who writes where the body has no `agent_id`.")
_DURABILITY = RequestHeader("What a write must survive before it is acknowledged.", {"enum": list(LEVELS)})
_MESSAGE = {
    "description": "A message of the Model Context Protocol; answers what the JSON-RPC method of that answers.",
    "type": "object",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "method": {"type": "string"},
        "id": {"type": ["string", "integer"]},
        "params": {"type": "object"},
    },
    "required": ["jsonrpc", "method"],
}


def faults(one: Endpoint) -> Mapping[int, str]:
    """What can go wrong with a request to an endpoint, told from what it is asked and from the roles that it needs."""
    found = {403: _STRANGER}
    if one.open:
        return found
    found |= {401: "No key, or one that does not hold."}
    if one.needs:
        found |= {403: _denied(one.needs), 429: "The key asked more often than it may; nothing was done."}
    found |= {503: "The log does not answer, or `after` is not projected yet. Ask again."}
    if one.body is not None:
        found |= {400: "The body is not what its content type says.", 413: "The body is too large."}
    if one.body is not None or one.query is not None or _is_write(one):
        found |= {422: "A value does not fit; `field` names it."}
    if "{" in one.path:
        found |= {404: "It is not there, or not for this reader."}
    if one.status == 202:
        found |= {429: "Too much waits to be done (`reason` says what), or the key asked too often; nothing was done."}
    return found


def headers(one: Endpoint) -> Mapping[str, RequestHeader]:
    """The request headers that count for an endpoint; who is asked for no key asks nothing of anybody."""
    if one.open:
        return {}
    return {"X-Agent-Id": _AGENT} | ({"X-Durability": _DURABILITY} if _is_write(one) else {})


def _is_write(one: Endpoint) -> bool:
    return one.needs >= WRITE


def _denied(needs: Needs) -> str:
    roles = " and ".join(f"`{role}`" for role in sorted(needs))
    return f"The key has not {roles}, or is not for that project, agent or tenant. {_STRANGER}"


ABOUT = About(
    "mnemolog",
    server_version() or "0.0.0",
    "Shared memory for fleets of AI agents. Writes answer 202 with a `position`; a read that is given it as `after` "
    "waits until that write can be seen. Listings answer `next`, which is the `cursor` of what follows.",
    Problem,
    faults,
    headers,
    details,
    TAGS,
    PROBLEM_JSON,
)


def endpoints(mcp: Route, further: Sequence[Endpoint] = ()) -> list[Endpoint]:
    """The endpoints of the native API with those that describe it; `mcp` is the route of the MCP door, `further` are
    those that the settings ask for."""
    described = [*(one for module in MODULES for one in module.ENDPOINTS), *further]
    return documented(ABOUT, [*described, _mcp(mcp)])


def _mcp(route: Route) -> Endpoint:
    return Endpoint(
        "POST", route.path, ANY, route.endpoint, "The MCP door, streamable HTTP: one JSON-RPC message.",
        body=_MESSAGE, query={"properties": {"profile": {"type": "string"}}}, answer=ANYTHING,
        answers={202: None, 400: ANYTHING, 403: None, 406: ANYTHING, 413: ANYTHING, 415: ANYTHING, 421: None},
        faults={
            202: "A notification was taken.",
            400: "It is no JSON-RPC message, or the profile is unknown.",
            406: "The client does not accept JSON.",
            413: "The message is too large.",
            415: "The content type is not JSON.",
            421: "The server does not go by this name.",
        },
    )  # fmt: skip
