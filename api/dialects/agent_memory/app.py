"""The application of agent-memory and its endpoints."""

from functools import partial

from starlette.applications import Starlette
from starlette.responses import Response

from api.dialects.agent_memory import common, health, lessons, observations, sessions
from api.dialects.agent_memory.answers import (
    Done,
    FoundAnswer,
    LessonAnswer,
    MatchAnswer,
    ObservationAnswer,
    SessionAnswer,
    Triggered,
)
from api.dialects.agent_memory.common import unprocessable
from api.dialects.application import application, usual
from api.dialects.errors import FAULT, detail_answer
from api.http.endpoint import Endpoint, routes
from api.http.openapi import About, documented
from ingest.errors import CommandRejected
from ingest.platform.settings import Settings
from ingest.roles import ANY, OPERATOR, READ, READ_WRITE, WRITE
from mcp_gateway.gateway import Gateway

ABOUT = About(
    "agent-memory",
    "0.1.0",
    "What agents did, decided and learned. mnemolog implements agent-memory's API.",
    FAULT,
    partial(usual, refusal="The request is invalid; `detail` lists the errors."),
    pages=("docs", "redoc"),
)

ENDPOINTS = documented(
    ABOUT,
    [
        Endpoint("GET", "/api/health", ANY, health.health, "Service health.",
            answer=health.HealthAnswer),
        Endpoint("GET", "/api/admin/stats", OPERATOR, health.stats, "Counts of stored documents.", "S",
            answer=health.StatsAnswer),
        Endpoint("POST", "/api/admin/re-embed", OPERATOR, health.start, "Recompute all vectors.", "S",
            query=common.ReEmbedQuery, answer=health.BEGUN),
        Endpoint("GET", "/api/admin/re-embed/status", OPERATOR, health.status, "Progress of the recomputation.", "S",
            answer=health.PROGRESS),
        Endpoint("POST", "/api/admin/re-embed/cancel", OPERATOR, health.cancel, "Cancel the recomputation.", "S",
            answer=Done),
        Endpoint("POST", "/api/queue", WRITE, sessions.queue, "Record the use of a tool.", body=sessions.QueueItem,
            answer=Done),
        Endpoint("POST", "/api/observations/search", READ, observations.search,
            "Search observations and other documents.", "S", body=common.SearchBody, answer=FoundAnswer),
        Endpoint("POST", "/api/observations", READ_WRITE, observations.create, "Create an observation.", "S",
            body=common.NewObservation, answer=ObservationAnswer),
        Endpoint("GET", "/api/observations", READ, observations.listing, "Observations and memories, newest first.",
            query=common.ObservationsQuery, answer=list[ObservationAnswer]),
        Endpoint("GET", "/api/observations/{id}", READ, observations.get, "One observation.", "S",
            answer=ObservationAnswer, faults={404: "No such observation."}),
        Endpoint("POST", "/api/sessions", READ_WRITE, sessions.create, "Start a session.", body=common.NewSession,
            answer=SessionAnswer, faults={409: "The session exists."}),
        Endpoint("GET", "/api/sessions", READ, sessions.listing, "Sessions, newest first.", "S",
            query=common.SessionsQuery, answer=list[SessionAnswer]),
        Endpoint("PATCH", "/api/sessions/{session_id:path}", READ_WRITE, sessions.patch,
            "Update a session.", body=common.SessionChanges, answer=Done,
            faults={400: "No changes.", 404: "No such session."}),
        Endpoint("POST", "/api/lessons", READ_WRITE, lessons.create, "Create a rule.", "S", body=common.NewLesson,
            answer=LessonAnswer, faults={400: "The pattern is invalid."}),
        Endpoint("GET", "/api/lessons", READ, lessons.listing, "Rules, most severe first.",
            query=common.LessonsQuery, answer=list[LessonAnswer]),
        Endpoint("GET", "/api/lessons/match", READ, lessons.match, "Rules that match a tool call.",
            query=common.MatchQuery, answer=list[MatchAnswer]),
        Endpoint("PATCH", "/api/lessons/{id}", READ_WRITE, lessons.patch, "Change a rule.", "S",
            body=common.LessonChanges, answer=LessonAnswer,
            faults={400: "No changes, or the pattern is invalid.", 404: "No such rule."}),
        Endpoint("POST", "/api/lessons/{id}/trigger", READ_WRITE, lessons.trigger, "Record that a rule was shown.",
            answer=Triggered),
    ],
)  # fmt: skip


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The application; its state is given to it by the process."""
    return application("agent_memory", settings, routes(ENDPOINTS), fault_answer, field="detail")


def fault_answer(status: int, message: str, error: Exception) -> Response:
    """The answer to an error; a refusal by one of our rules looks like a value of the wrong type."""
    if status == 422 and isinstance(error, CommandRejected):
        error = unprocessable(error.message, *(error.field.split(".") if error.field else ()))
    return detail_answer(status, message, error)
