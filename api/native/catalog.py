"""Every endpoint of the native API, and what its OpenAPI document says beside their shapes. A new module of routes is a
name in MODULES.

A parameter is described by its name, unless an endpoint means something else by it. Examples are in `examples.json`,
by the name of the shape that is sent or answered, or by the path; a test checks each against its schema.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args, get_origin

from starlette.routing import Route

from api.http.endpoint import Endpoint, RequestHeader, Shape, is_function
from api.http.http import PROBLEM_JSON, Problem
from api.http.openapi import ANYTHING, About, Details, Parameter, documented
from api.monitoring import ops
from api.native import admin, common, documents, forgetting, keys, log, memories, sessions, work, writes
from api.viewer import room as viewer
from ingest.durability import LEVELS
from ingest.roles import ANY, WRITE
from mcp_gateway.profiles import server_version
from projections.queries.views import Items

MODULES = (writes, memories, work, sessions, documents, log, forgetting, admin, keys, ops, viewer)
_EXAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
SENT: dict[str, Any] = _EXAMPLES["sent"]
ANSWERED: dict[str, Any] = _EXAMPLES["answered"]
TAGS = {
    "recall": "What is known about a question, a project, a moment or some files.",
    "observations": "What agents saw or did, by session or by time.",
    "memories": "What is kept for a long time: versions, and who may read them.",
    "lessons": "What was learned; confidence grows with each confirmation, and fades.",
    "sessions": "Runs of work with their observations, summaries and commits.",
    "slots": "Small named texts that are in every agent's context.",
    "actions": "Work items that agents share, and what can be done now.",
    "relations": "How documents are related, and the graph that they make.",
    "commits": "Version-control commits and the sessions they were made in.",
    "condensing": "Few documents made of many.",
    "forgetting": "Deletion requests and their receipts.",
    "names": "The projects and agents that there are.",
    "events": "The log: batches of writes, what was written by whom, and events as they come.",
    "transfer": "Export and import of the log.",
    "rebuilds": "Documents and vectors made again from the log.",
    "operations": "How far projections are, what could not be applied, and what is put right.",
    "keys": "API keys.",
    "health": "Whether the server works, and its figures.",
    "mcp": "The MCP endpoint.",
    "viewer": "The viewer's page and its files.",
    "description": "This document.",
}
_TAG_OF = {
    "recall": "recall", "context": "recall", "confirm": "recall", "profile": "recall", "enrich": "recall",
    "observations": "observations", "timeline": "observations", "around": "observations",
    "frontier": "actions", "related": "relations", "graph": "relations", "summaries": "sessions",
    "crystals": "condensing", "consolidate": "condensing", "reflect": "condensing",
    "forget": "forgetting", "purge": "forgetting", "quarantine": "forgetting", "projects": "names", "agents": "names",
    "audit": "events", "live": "events", "export": "transfer", "import": "transfer",
    "projections": "operations", "snapshots": "operations", "dead-letters": "operations", "reconcile": "operations",
    "livez": "health", "readyz": "health", "metrics": "health", "diagnose": "health",
    "openapi.json": "description", "docs": "description",
}  # fmt: skip
"""Of the first part of a path behind `/v1` and `/admin`; one that is not here is its own."""
PARAMETERS: Mapping[str, Parameter] = {
    "after": Parameter("The `position` of a write: waits, a second at most, until that write can be seen."),
    "agent_id": Parameter("Only what this agent wrote."),
    "anchor": Parameter("A date or time, the id of an observation, or words that one says.", "checkout"),
    "before": Parameter("How many observations before the moment."),
    "behind": Parameter("How many observations behind the moment."),
    "categories": Parameter("Which checks to make, separated by commas; all without any."),
    "code": Parameter("Only those with this error code."),
    "cursor": Parameter("The `next` of the page before."),
    "depth": Parameter("How many steps to walk from `start`."),
    "event_id": Parameter("A name of your own for the write: sending it again changes nothing."),
    "label": Parameter("The name of the slot.", "project_context"),
    "latest": Parameter("Only the current version of each memory."),
    "limit": Parameter("At most so many."),
    "max_hops": Parameter("How many relations to walk."),
    "min_confidence": Parameter("Only what is at least so sure."),
    "name": Parameter("The name of the file.", "main.js"),
    "open": Parameter("Only those that are still to be done."),
    "operation": Parameter("Only events of this type; `*` is all of them, observations too."),
    "origin": Parameter("Only lessons that this drew: `manual`, `crystal`, `reflection`, `suggestion`."),
    "partition": Parameter("Only of this partition of the log."),
    "position": Parameter("A place in the log: `<partition>:<ms>-<seq>`.", "3:1769860800000-0"),
    "preview": Parameter("The beginning of what the tool is given."),
    "profile": Parameter("Which tools are offered."),
    "project": Parameter("Only of this project; empty is what is of no project.", "shop"),
    "reason": Parameter("Why it is forgotten."),
    "recorded_since": Parameter("Only what was recorded then or later."),
    "recorded_until": Parameter("Only what was recorded before that."),
    "refresh": Parameter("Compute it again."),
    "retired": Parameter("Also lessons that have faded."),
    "scope": Parameter("Whether it is a slot of the project or a global one."),
    "session_id": Parameter("Only of this session."),
    "since": Parameter("Only what happened then or later."),
    "start": Parameter("The node to begin at, such as `concept:deploy`; without one, the newest memories."),
    "state": Parameter("Those that wait, or those that were discarded."),
    "tool_name": Parameter("The tool that is about to be used.", "Bash"),
    "type": Parameter("Only events of this type."),
    "until": Parameter("Only what happened before that."),
    "user_id": Parameter("Whose preferences to tell."),
    "/v1/events after": Parameter("Read on behind this position; it is not waited for."),
    "/v1/live after": Parameter("Begin behind this position instead of now."),
    "/v1/live limit": Parameter("End the stream after so many events; 0 never does."),
    "/v1/graph limit": Parameter("At most so many nodes."),
    "/v1/frontier agent_id": Parameter("Leave out what other agents than this one work on."),
    "/v1/forget cursor": Parameter("The id of a receipt: what is older follows."),
}
"""By name, and by path and name where an endpoint means something else."""


_STRANGER = "Or a web page of another origin asks, or the server is called by a name that it does not know."
_AGENT = RequestHeader("The reading agent, and the writing agent if the body has no `agent_id`.")
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


def faults(endpoint: Endpoint) -> Mapping[int, str]:
    """What can go wrong with a request to an endpoint, told from what it is asked and from the roles that it needs."""
    texts = {403: _STRANGER}
    if endpoint.open:
        return texts
    texts |= {401: "No key, or one that does not hold."}
    if endpoint.needs:
        roles = " and ".join(f"`{role}`" for role in sorted(endpoint.needs))
        denied = f"The key has not {roles}, or is not for that project, agent or tenant. {_STRANGER}"
        texts |= {403: denied, 429: "The key asked more often than it may; nothing was done."}
    texts |= {503: "The log does not answer, or `after` is not projected yet. Ask again."}
    if endpoint.body is not None:
        texts |= {400: "The body is not what its content type says.", 413: "The body is too large."}
    if endpoint.body is not None or endpoint.query is not None or _is_write(endpoint):
        texts |= {422: "A value does not fit; `field` names it."}
    if "{" in endpoint.path:
        texts |= {404: "It is not there, or not for this reader."}
    if endpoint.status == 202:
        texts |= {429: "Too much waits to be done (`reason` says what), or the key asked too often; nothing was done."}
    return texts


def headers(endpoint: Endpoint) -> Mapping[str, RequestHeader]:
    """The request headers that count for an endpoint; who is asked for no key asks nothing of anybody."""
    if endpoint.open:
        return {}
    return {"X-Agent-Id": _AGENT} | ({"X-Durability": _DURABILITY} if _is_write(endpoint) else {})


def _is_write(endpoint: Endpoint) -> bool:
    return endpoint.needs >= WRITE


def endpoints(mcp: Route, further: Sequence[Endpoint] = ()) -> list[Endpoint]:
    """The endpoints of the native API with those that describe it; `mcp` is the route of the MCP API, `further` are
    those that the settings ask for."""
    described = [*(endpoint for module in MODULES for endpoint in module.ENDPOINTS), *further]
    return documented(ABOUT, [*described, _mcp(mcp)])


def _mcp(route: Route) -> Endpoint:
    return Endpoint(
        "POST", route.path, ANY, route.endpoint, "The MCP endpoint, streamable HTTP: one JSON-RPC message.",
        body=_MESSAGE, query={"properties": {"profile": {"type": "string"}}}, answer=ANYTHING,
        answers={202: None, 400: ANYTHING, 403: None, 406: ANYTHING, 413: ANYTHING, 415: ANYTHING, 421: None},
        faults={
            202: "A notification was taken.",
            400: "It is no JSON-RPC message, or the profile is unknown.",
            406: "The client does not accept JSON.",
            413: "The message is too large.",
            415: "The content type is not JSON.",
            421: "The host name is not one of the server's.",
        },
    )  # fmt: skip


def details(endpoint: Endpoint) -> Details:
    """What the OpenAPI document says about an endpoint of the native API.

    Its description is what the docstrings of its handler, query and body say beyond its summary. The shapes of `common`
    are shared by several endpoints, so they add nothing.
    """
    handler = _docstring(endpoint.handler) if is_function(endpoint.handler) else endpoint.description
    texts = [handler, _docstring(endpoint.query), _docstring(endpoint.body)]
    group = endpoint.path.removeprefix("/v1").removeprefix("/admin").split("/")[1]
    own = {name.split()[1]: about for name, about in PARAMETERS.items() if name.startswith(f"{endpoint.path} ")}
    return Details(
        _TAG_OF.get(group, group),
        "\n\n".join(dict.fromkeys(text for text in texts if text not in ("", endpoint.summary))),
        {**PARAMETERS, "id": Parameter("Its id.", _EXAMPLES["ids"].get(group)), **own},
        _EXAMPLES["sent_at"].get(endpoint.path) or SENT.get(_name(endpoint.body)),
        _EXAMPLES["answered_at"].get(endpoint.path) or _example_of(endpoint.answer),
    )


def _docstring(thing: Any) -> str:
    if isinstance(thing, Mapping):
        return cast("Mapping[str, str]", thing).get("description", "")
    has_own = inspect.isroutine(thing) or (isinstance(thing, type) and thing.__module__ != common.__name__)
    return " ".join((inspect.getdoc(thing) or "").split()) if has_own else ""


def _example_of(answer: Shape | None) -> Any:
    items = get_args(answer)
    if not items:
        return ANSWERED.get(_name(answer))
    listed = {"items": [ANSWERED[_name(items[0])]]}
    return listed if get_origin(answer) is Items else {**listed, "next": None}


def _name(shape: Shape | None) -> str:
    return getattr(shape, "__name__", "")


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
