"""Every endpoint of the native API, and the descriptions in its OpenAPI document. A new module of routes needs an entry
in MODULES.

A parameter's description is looked up by its name, unless an endpoint overrides it. Examples are in `examples.json`, by
the name of the request or response type, or by the path; a test validates each against its schema.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args, get_origin

from starlette.routing import Route

from api.http.endpoint import Endpoint, RequestHeader, Shape, is_function
from api.http.http import PROBLEM_JSON, Problem
from api.http.openapi import ANYTHING, TEXT, About, Details, Parameter, documented, object_schema
from api.monitoring import ops
from api.native import (
    action,
    admin,
    common,
    documents,
    forgetting,
    inbox,
    keys,
    lesson,
    log,
    memory,
    otlp,
    relation,
    session,
    slot,
    webhooks,
    writes,
)
from api.viewer import room as viewer
from ingest.durability import LEVELS
from ingest.platform.files import toml_beside
from ingest.roles import ANY, WRITE
from mcp_gateway.profiles import server_version
from projections.queries.views import Items

MODULES = (
    writes, otlp, memory, lesson, slot, action, session, relation, documents, log, webhooks, forgetting, inbox, admin,
    keys, ops, viewer,
)  # fmt: skip
_EXAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
SENT: dict[str, Any] = _EXAMPLES["sent"]
ANSWERED: dict[str, Any] = _EXAMPLES["answered"]
_TEXTS: dict[str, Any] = toml_beside(__file__, "descriptions.toml")
TAGS: dict[str, str] = _TEXTS["tags"]
_TAG_OF: dict[str, str] = _TEXTS["tag_of"]
PARAMETERS = {name: Parameter(*texts) for name, texts in _TEXTS["parameters"].items()}
"""By name, or by path and name if an endpoint overrides it."""


_STRANGER = "Or the request comes from a web page of another origin, or uses an unknown host name."
_AGENT = RequestHeader("The agent that reads, and that writes if the body has no `agent_id`.")
_DURABILITY = RequestHeader("The durability that a write must reach before it is acknowledged.", {"enum": list(LEVELS)})
_MESSAGE = {
    "description": "A Model Context Protocol message; returns the result of its JSON-RPC method.",
    **object_schema(
        {
            "jsonrpc": {"const": "2.0"},
            "method": TEXT,
            "id": {"type": ["string", "integer"]},
            "params": {"type": "object"},
        },
        "jsonrpc",
        "method",
    ),
}


def faults(endpoint: Endpoint) -> Mapping[int, str]:
    """The errors of an endpoint, derived from its request types and required roles."""
    texts = {403: _STRANGER}
    if endpoint.open:
        return texts
    texts |= {401: "The key is missing or invalid."}
    if endpoint.needs:
        roles = " and ".join(f"`{role}`" for role in sorted(endpoint.needs))
        denied = f"The key does not have {roles}, or does not cover that project, agent or tenant. {_STRANGER}"
        texts |= {403: denied, 429: "The key exceeded its rate limit; nothing was done."}
    texts |= {503: "Redis is not responding, or `after` is not projected yet. Retry."}
    if endpoint.body is not None:
        texts |= {400: "The body does not match its content type.", 413: "The body is too large."}
    if endpoint.body is not None or endpoint.query is not None or _is_write(endpoint):
        texts |= {422: "A value is invalid; `field` names it."}
    if "{" in endpoint.path:
        texts |= {404: "Not found, or the reader has no access."}
    if endpoint.status == 202:
        texts |= {429: "The server is overloaded (see `reason`), or the key exceeded its rate limit; nothing was done."}
    return texts


def headers(endpoint: Endpoint) -> Mapping[str, RequestHeader]:
    """The request headers of an endpoint; none for an endpoint that needs no key."""
    if endpoint.open:
        return {}
    return {"X-Agent-Id": _AGENT} | ({"X-Durability": _DURABILITY} if _is_write(endpoint) else {})


def _is_write(endpoint: Endpoint) -> bool:
    return endpoint.needs >= WRITE


def endpoints(mcp: Route, further: Sequence[Endpoint] = ()) -> list[Endpoint]:
    """The endpoints of the native API with those that describe it; `mcp` is the MCP route, `further` are optional
    endpoints that the settings enable."""
    described = [*(endpoint for module in MODULES for endpoint in module.ENDPOINTS), *further]
    return documented(ABOUT, [*described, _mcp(mcp)])


def _mcp(route: Route) -> Endpoint:
    return Endpoint(
        "POST", route.path, ANY, route.endpoint, "The MCP endpoint, streamable HTTP: one JSON-RPC message.",
        body=_MESSAGE, query={"properties": {"profile": TEXT}}, answer=ANYTHING,
        answers={202: None, 400: ANYTHING, 403: None, 406: ANYTHING, 413: ANYTHING, 415: ANYTHING, 421: None},
        faults={
            202: "A notification was accepted.",
            400: "Not a JSON-RPC message, or an unknown profile.",
            406: "The client does not accept JSON.",
            413: "The message is too large.",
            415: "The content type is not JSON.",
            421: "Unknown host name.",
        },
    )  # fmt: skip


def details(endpoint: Endpoint) -> Details:
    """The OpenAPI details of an endpoint of the native API.

    The description combines the docstrings of its handler, query and body, without the summary. The types in `common`
    are shared by several endpoints, so they add nothing.
    """
    handler = _docstring(endpoint.handler) if is_function(endpoint.handler) else endpoint.description
    texts = [handler, _docstring(endpoint.query), _docstring(endpoint.body)]
    group = endpoint.path.removeprefix("/v1").removeprefix("/admin").split("/")[1]
    own = {name.split()[1]: about for name, about in PARAMETERS.items() if name.startswith(f"{endpoint.path} ")}
    return Details(
        _TAG_OF.get(group, group),
        "\n\n".join(dict.fromkeys(text for text in texts if text not in ("", endpoint.summary))),
        {**PARAMETERS, "id": Parameter("The document's id.", _EXAMPLES["ids"].get(group)), **own},
        _EXAMPLES["sent_at"].get(endpoint.path) or SENT.get(_name(endpoint.body)),
        _EXAMPLES["answered_at"].get(endpoint.path) or _example_of(endpoint.answer),
        {status: _example_of(shape) for status, shape in endpoint.answers.items()},
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
    "Shared memory for fleets of AI agents. Writes return 202 with a `position`; a read with that "
    "position as `after` waits until the write is visible. Listings return `next`, the `cursor` of the next page.",
    Problem,
    faults,
    headers,
    details,
    TAGS,
    PROBLEM_JSON,
)
