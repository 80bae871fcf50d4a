"""Everything there is, as one JSON object."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.asking import Arguments, door_of, endpoint, failed, reply
from api.dialects.agentmemory.mcp.export import export as export_tool
from api.dialects.agentmemory.shapes import (
    FAILED,
    MEMORY,
    NUMBER,
    OBJECT,
    SESSION,
    SUMMARY,
    TEXT,
    fields,
    listed,
    otherwise,
    record,
)
from ingest.errors import ProjectionBehind, ReaderUnknown
from ingest.roles import ADMIN
from mcp_gateway.lenient import BadArgument

EXPORT_FIELDS = {"maxSessions": NUMBER, "offset": otherwise(NUMBER, 0)}


async def export(request: Request, arguments: Arguments) -> Response:
    """The export; `maxSessions` and `offset` page the sessions."""
    if arguments["maxSessions"] is not None and arguments["maxSessions"] < 1:
        raise BadArgument("maxSessions must be at least 1", "maxSessions")
    if arguments["offset"] < 0:
        raise BadArgument("offset must be at least 0", "offset")
    try:
        return reply(await export_tool(door_of(request), arguments))
    except (ProjectionBehind, ReaderUnknown) as why:  # an empty export would be taken for all there is
        return failed(f"nothing can be exported: {why}")


ENDPOINTS = [
    endpoint(
        "GET", "/agentmemory/export", ADMIN, export, "Everything there is, as one JSON object.",
        query=fields(EXPORT_FIELDS),
        answer={"anyOf": [record({"version": TEXT, "exportedAt": TEXT, "sessions": listed(SESSION),
            "memories": listed(MEMORY), "observations": OBJECT, "summaries": listed(SUMMARY)}), FAILED]},
    ),
]  # fmt: skip
