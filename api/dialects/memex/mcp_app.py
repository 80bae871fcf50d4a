"""memex's MCP server at /mcp and /mcp/: its profile, with the sessions and streamed answers that its clients know."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import Scope

from api.access.admission import guarded
from api.access.principal import principal_of
from api.dialects.detail import said
from api.dialects.faults import handlers
from api.dialects.guards import guard
from api.http.http import Json
from api.monitoring.ops import Measure
from ingest.platform.settings import Settings
from ingest.roles import ANY
from mcp_gateway.server import Gateway


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The application; its state is given to it by the process."""
    return Starlette(
        routes=[guarded(gateway.with_sessions("memex", settings.host, settings.memex_mcp_hosts, _owner), ANY)],
        exception_handlers=handlers(said),
        middleware=[
            Middleware(Measure, "memex_mcp"),
            guard(
                settings,
                Json({"detail": "unauthorized"}, 401),
                Json({"detail": "forbidden"}, 403),
                any_host=True,  # the gateway answers 421 to those it does not know
            ),
        ],
    )


def _owner(scope: Scope) -> str:
    """Whose a session is: of whoever has the key that it was opened with."""
    return principal_of(scope).key_id
