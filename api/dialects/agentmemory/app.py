"""The application of the agentmemory API: below /agentmemory, and the few paths beside it."""

import re

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from api.access.gate import Gate
from api.dialects.agentmemory import pages
from api.dialects.agentmemory.answers import argument
from api.dialects.agentmemory.endpoints import failure
from api.dialects.agentmemory.health import Meter
from api.dialects.agentmemory.routes import ENDPOINTS
from api.dialects.agentmemory.searching import Followups
from api.dialects.faults import at_the_gate, handlers
from api.http.endpoint import open_paths, routes
from api.http.http import Json
from api.monitoring.ops import Measure
from ingest.errors import AccessDenied, CommandRejected, Forbidden, SessionFull, SlotFull
from ingest.platform.settings import Settings
from mcp_gateway.server import Gateway

ORIGINS = r"null|https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?|vscode-webview://.*|chrome-extension://.*"


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The application; its state is given to it by the process."""
    return Starlette(
        routes=[*routes(ENDPOINTS), *pages.routes()],
        exception_handlers=handlers(fault_response),
        middleware=[
            Middleware(Measure, "agentmemory"),
            Middleware(
                CORSMiddleware,
                allow_origin_regex=ORIGINS,
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
                allow_headers=["Content-Type", "Authorization"],
                allow_credentials=True,
            ),
            Middleware(
                Gate,
                settings,
                Json({"error": "unauthorized"}, 401),
                Json({"error": "forbidden: this page may not use a server without a secret"}, 403),
                refusal=at_the_gate,
                origins=re.compile(ORIGINS),
                open_paths=open_paths(ENDPOINTS),
            ),
        ],
    )


def fault_response(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault; what a function refuses to do is its answer, and no fault of the transport."""
    match error:
        case AccessDenied():
            return Json({"error": f"forbidden: {message}"}, 403)
        case SessionFull() | Forbidden():
            return failure(message)
        case SlotFull(size=size, limit=limit):
            return Json({"error": message, "currentSize": size, "sizeLimit": limit}, status)
        case CommandRejected(field=field) if status == 422:
            name = argument(field)
            return Json({"error": message if not name or name in message else f"{name}: {message}"}, 400)
        case _:
            return Json({"error": message}, status)


class AgentmemoryState:
    """The settings, what is counted and measured."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.followups = Followups()
        self.meter = Meter()
