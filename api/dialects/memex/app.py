"""The applications of memex: its REST API, and its MCP server at /mcp and /mcp/."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import Scope

from api.access.admission import guarded
from api.access.gate import Gate
from api.access.principal import principal_of
from api.dialects import detail
from api.dialects.faults import handlers
from api.dialects.memex.metrics import Instrument
from api.dialects.memex.routes import ENDPOINTS
from api.http.endpoint import routes
from api.http.http import Json
from api.monitoring.ops import Measure
from ingest.platform.settings import Settings
from ingest.roles import ANY
from mcp_gateway.server import Gateway

_UNAUTHORIZED = Json({"detail": "unauthorized"}, 401)
_FORBIDDEN = Json({"detail": "forbidden"}, 403)


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The REST API; its state is given to it by the process."""
    return Starlette(
        routes=routes(ENDPOINTS),
        exception_handlers=handlers(fault_answer),
        middleware=[
            Middleware(Measure, "memex"),
            Middleware(Instrument),
            Middleware(Gate, settings, _UNAUTHORIZED, _FORBIDDEN),
        ],
    )


def create_mcp_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The MCP server: memex's profile, with the sessions and streamed answers that its clients know."""
    return Starlette(
        routes=[guarded(gateway.with_sessions("memex", settings.host, settings.memex_mcp_hosts, _session_owner), ANY)],
        exception_handlers=handlers(detail.fault_answer),
        middleware=[
            Middleware(Measure, "memex_mcp"),
            # any host: the gateway answers 421 to names that it does not know
            Middleware(Gate, settings, _UNAUTHORIZED, _FORBIDDEN, any_host=True),
        ],
    )


def fault_answer(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault; where another API is unavailable, memex is a gateway to what failed."""
    return detail.fault_answer(502 if status == 503 else status, message, error)


def _session_owner(scope: Scope) -> str:
    """The key that a session was opened with."""
    return principal_of(scope).key_id
