"""The application of agent-memory."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response

from api.access.gate import Gate
from api.dialects import detail
from api.dialects.agent_memory.common import unprocessable
from api.dialects.agent_memory.routes import ENDPOINTS
from api.dialects.faults import handlers
from api.http.endpoint import routes
from api.http.http import Json
from api.monitoring.ops import Measure
from ingest.errors import CommandRejected
from ingest.platform.settings import Settings
from mcp_gateway.server import Gateway


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The application; its state is given to it by the process."""
    return Starlette(
        routes=routes(ENDPOINTS),
        exception_handlers=handlers(fault_answer),
        middleware=[
            Middleware(Measure, "agent_memory"),
            Middleware(Gate, settings, Json({"detail": "unauthorized"}, 401), Json({"detail": "forbidden"}, 403)),
        ],
    )


def fault_answer(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault; what a rule of ours refuses is told like a value of the wrong type."""
    if status == 422 and isinstance(error, CommandRejected):
        error = unprocessable(error.message, *(error.field.split(".") if error.field else ()))
    return detail.fault_answer(status, message, error)
