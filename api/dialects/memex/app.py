"""The application of the memex door."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response

from api.dialects import detail
from api.dialects.faults import handlers
from api.dialects.guards import guard
from api.dialects.memex.metrics import Instrument
from api.dialects.memex.routes import ENDPOINTS
from api.http.endpoint import routes
from api.http.http import Json
from api.monitoring.ops import Measure
from ingest.platform.settings import Settings


def create_app(settings: Settings) -> Starlette:
    """The application; its state is given to it by the process."""
    return Starlette(
        routes=routes(ENDPOINTS),
        exception_handlers=handlers(said),
        middleware=[
            Middleware(Measure, "memex"),
            Middleware(Instrument),
            guard(settings, Json({"detail": "unauthorized"}, 401), Json({"detail": "forbidden"}, 403)),
        ],
    )


def said(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault; where another door is unavailable, memex is a gateway to what failed."""
    return detail.said(502 if status == 503 else status, message, error)
