"""Which roles the native routes and the MCP tools need. A route that is not here is for admins; a test asks for a line.

`read` is for what only asks, `write` for what only acknowledges, `admin` for the server as a whole. None of the first
two contains the other: a hook that reports needs `write` alone.
"""

from api.access.principal import ADMIN, ANY, READ, READ_WRITE, WRITE, Needs

ADMIN_LEAD = "/v1/admin/"
_ASKED_BY_POST = ("/v1/recall", "/v1/context", "/v1/lessons/search", "/v1/enrich")
_READS = (
    "/v1/events", "/v1/live", "/v1/memories", "/v1/memories/{id}", "/v1/memories/{id}/history", "/v1/lessons",
    "/v1/lessons/{id}", "/v1/lessons/match", "/v1/lessons/surest", "/v1/observations/{id}", "/v1/actions",
    "/v1/actions/{id}", "/v1/frontier", "/v1/relations", "/v1/relations/{id}", "/v1/related/{id}", "/v1/commits",
    "/v1/commits/{id}", "/v1/summaries", "/v1/summaries/{id}", "/v1/sessions", "/v1/sessions/{id:path}",
    "/v1/sessions/{id:path}/observations", "/v1/sessions/{id:path}/summary", "/v1/sessions/{id:path}/commits",
    "/v1/slots", "/v1/slots/{label}", "/v1/timeline", "/v1/around", "/v1/graph", "/v1/graph/stats", "/v1/profile",
    "/v1/audit",
)  # fmt: skip
_WRITES = (
    "POST /v1/events", "POST /v1/observations", "POST /v1/memories", "PATCH /v1/memories/{id}",
    "DELETE /v1/memories/{id}", "POST /v1/lessons", "PATCH /v1/lessons/{id}", "DELETE /v1/lessons/{id}",
    "POST /v1/lessons/{id}/reinforce", "POST /v1/lessons/{id}/trigger", "DELETE /v1/observations/{id}",
    "POST /v1/actions", "PATCH /v1/actions/{id}", "DELETE /v1/actions/{id}", "POST /v1/relations",
    "DELETE /v1/relations/{id}", "POST /v1/commits", "DELETE /v1/commits/{id}", "POST /v1/sessions",
    "DELETE /v1/sessions/{id:path}", "POST /v1/slots", "DELETE /v1/slots/{label}",
    "POST /v1/sessions/{id:path}/reflect", "POST /v1/consolidate", "POST /v1/reflect",
)  # fmt: skip
NATIVE: dict[str, Needs] = {
    **{f"GET {path}": READ for path in _READS},
    **{f"POST {path}": READ for path in _ASKED_BY_POST},
    **dict.fromkeys(_WRITES, WRITE),
    # what is made of documents, and shown
    "POST /v1/sessions/{id:path}/summary": READ_WRITE,
    "POST /v1/crystals": READ_WRITE,
    # the server, and whole parts of it
    "GET /v1/diagnose": ADMIN,
    "GET /v1/export": ADMIN,
    "POST /v1/forget": ADMIN,
    "GET /v1/forget": ADMIN,
    "GET /v1/forget/{id}": ADMIN,
    "GET /metrics": ADMIN,
    # tells nothing of anybody
    "GET /openapi.json": ANY,
    "GET /docs": ANY,
    "GET /livez": ANY,
    "GET /readyz": ANY,
    # each of its calls is asked for
    "POST /mcp": ANY,
}

_ADMIN_TOOLS = frozenset({"memory_export", "memory_diagnose", "memory_antigravity_sync", "memory_antigravity_sync_all"})
"""Tools that show everything, or read files of the server's machine."""
_ONLY_ACKNOWLEDGE = frozenset({"remember", "observe", "lesson", "agent_observe", "store_memory", "save_memory"})
"""Tools that write and answer with nothing that others wrote."""


def is_listed(method: str, path: str) -> bool:
    """Whether somebody has thought of what a native route needs."""
    return path.startswith(ADMIN_LEAD) or f"{method} {path}" in NATIVE


def needs_of_route(method: str, path: str) -> Needs:
    """What a native route needs."""
    return ADMIN if path.startswith(ADMIN_LEAD) else NATIVE.get(f"{method} {path}", ADMIN)


def needs_of_tool(name: str, *, reads_only: bool) -> Needs:
    """What a call of an MCP tool needs, at whichever door: a tool that is declared to read only needs `read`."""
    if name in _ADMIN_TOOLS:
        return ADMIN
    if reads_only:
        return READ
    return WRITE if name in _ONLY_ACKNOWLEDGE else READ_WRITE
