"""The application of agentd-memory."""

import re

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from api.access.gate import Gate
from api.dialects.agentd.routes import ENDPOINTS
from api.dialects.faults import handlers
from api.http.endpoint import routes
from api.http.http import Json
from api.monitoring.ops import Measure
from ingest.errors import AccessDenied, CommandRejected, Forbidden, LogFull, Overloaded
from ingest.platform.settings import Settings
from mcp_gateway.server import Gateway

_PREFIXES = {400: "invalid input: ", 409: "conflict: ", 503: "service unavailable: "}


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The application; its state is given to it by the process."""
    origins = [origin.strip().rstrip("/") for origin in settings.agentd_origins.split(",") if origin.strip()]
    return Starlette(
        routes=routes(ENDPOINTS),
        exception_handlers=handlers(fault_answer),
        middleware=[
            Middleware(Measure, "agentd"),
            Middleware(
                CORSMiddleware,
                allow_origins=origins,
                allow_methods=["GET", "POST", "PUT", "DELETE", "OPTIONS"],
                allow_headers=["Content-Type", "Authorization"],
            ),
            Middleware(
                Gate,
                settings,
                Json({"error": "unauthorized"}, 401),
                Json({"error": "forbidden: this page may not use a server without a secret"}, 403),
                origins=re.compile(".*" if "*" in origins else "|".join(map(re.escape, origins))),
            ),
        ],
    )


def fault_answer(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault. What may not be is bad input here, and a full queue a service that is away for a moment:
    these clients try again after a 5xx alone."""
    match error:
        case AccessDenied():
            message = f"forbidden: {message}"
        case CommandRejected() | Forbidden():
            status = 400
        case Overloaded() | LogFull():
            status = 503
        case _:
            pass
    return Json({"error": "not found" if status == 404 else f"{_PREFIXES.get(status, '')}{message}"}, status)
