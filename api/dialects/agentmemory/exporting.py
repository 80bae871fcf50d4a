"""Everything there is, as one JSON object."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.asking import NUMBER, Properties, asked_in_query, door, failed, otherwise, reply
from api.dialects.agentmemory.mcp.export import export as export_tool
from api.dialects.agentmemory.shapes import FAILED, MEMORY, OBJECT, SESSION, SUMMARY, TEXT, fields, listed, record
from api.http.endpoint import Endpoint
from ingest.errors import ProjectionBehind, ReaderUnknown
from ingest.roles import ADMIN
from mcp_gateway.lenient import BadArgument

EXPORT_FIELDS: Properties = {"maxSessions": NUMBER, "offset": otherwise(NUMBER, 0)}


async def export(request: Request) -> Response:
    """The export; `maxSessions` and `offset` page the sessions."""
    said = asked_in_query(request, EXPORT_FIELDS)
    if said["maxSessions"] is not None and said["maxSessions"] < 1:
        raise BadArgument("maxSessions must be at least 1", "maxSessions")
    if said["offset"] < 0:
        raise BadArgument("offset must be at least 0", "offset")
    try:
        return reply(await export_tool(door(request), said))
    except (ProjectionBehind, ReaderUnknown) as why:  # an empty export would be taken for all there is
        return failed(f"nothing can be exported: {why}")


ENDPOINTS = [
    Endpoint(
        "GET",
        "/agentmemory/export",
        ADMIN,
        export,
        "Everything there is, as one JSON object.",
        query=fields(EXPORT_FIELDS),
        answer={
            "anyOf": [
                record(
                    {
                        "version": TEXT,
                        "exportedAt": TEXT,
                        "sessions": listed(SESSION),
                        "memories": listed(MEMORY),
                        "observations": OBJECT,
                        "summaries": listed(SUMMARY),
                    }
                ),
                FAILED,
            ]
        },
    )
]
