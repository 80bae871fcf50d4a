"""Which roles the endpoints of the dialects' doors need, by one rule and its exceptions.

The rule: a GET needs `read`, everything else `read` and `write`, since these systems' writes answer with what is there.
The exceptions: POSTs that only ask, writes that only acknowledge, what is about the server as a whole, and what tells
nothing of anybody.
"""

from collections.abc import Callable, Mapping

from api.access.principal import ADMIN, ANY, READ, READ_WRITE, WRITE, Needs

_DESCRIBED = dict.fromkeys(("GET /openapi.json", "GET /docs", "GET /redoc"), ANY)

_AGENTMEMORY: dict[str, Needs] = {
    **dict.fromkeys(
        (
            "GET /agentmemory/livez", "GET /agentmemory/health", "GET /agentmemory/config/flags", "GET /",
            "GET /viewer", "GET /agentmemory/viewer", "GET /favicon.svg", "GET /agent.md", "GET /auth.md",
            "GET /agentmemory/mcp/tools", "GET /agentmemory/openapi.json", "GET /agentmemory/docs",
            "POST /agentmemory/claude-bridge/sync",
            "POST /agentmemory/mcp/tools", "POST /agentmemory/mcp/call",  # the tool that is called says what it needs
        ),
        ANY,
    ),
    **dict.fromkeys(
        (
            "POST /agentmemory/context", "POST /agentmemory/enrich", "POST /agentmemory/search",
            "POST /agentmemory/smart-search", "POST /agentmemory/lessons/search", "POST /agentmemory/graph/query",
            "POST /agentmemory/graph/build", "POST /agentmemory/insights/search", "POST /agentmemory/timeline",
        ),
        READ,
    ),
    "POST /agentmemory/observe": WRITE,
    "POST /agentmemory/agent/observe": WRITE,
    "POST /agentmemory/session/end": WRITE,
    **dict.fromkeys(
        (
            "GET /agentmemory/export", "POST /agentmemory/import", "POST /agentmemory/replay/import-jsonl",
            "POST /agentmemory/antigravity/sync", "POST /agentmemory/diagnostics", "POST /agentmemory/diagnostics/heal",
            "GET /agentmemory/diagnostics/followup",
        ),
        ADMIN,
    ),
}  # fmt: skip
DOORS: Mapping[str, Mapping[str, Needs]] = {
    "agentmemory": _AGENTMEMORY,
    "agentd": {**_DESCRIBED, "GET /health": ANY, "GET /metrics": ADMIN, "POST /memories/search": READ},
    "agent_memory": {
        **_DESCRIBED,
        "GET /api/health": ANY,
        "GET /api/admin/stats": ADMIN,
        "POST /api/admin/re-embed": ADMIN,
        "GET /api/admin/re-embed/status": ADMIN,
        "POST /api/admin/re-embed/cancel": ADMIN,
        "POST /api/queue": WRITE,
        "POST /api/observations/search": READ,
    },
    "memex": {
        **_DESCRIBED,
        "GET /health": ANY,
        "GET /": ANY,
        "GET /metrics": ADMIN,
        "POST /v1/memories": WRITE,
        "POST /v1/memories/search": READ,
    },
    "memex_mcp": dict.fromkeys(("GET /mcp", "POST /mcp", "DELETE /mcp"), ANY),
}


def needs_at(door: str) -> Callable[[str, str], Needs]:
    """What the endpoints of a door need, by method and path."""
    exceptions = DOORS[door]
    return lambda method, path: exceptions.get(f"{method} {path}", READ if method == "GET" else READ_WRITE)
