"""The endpoints of agent-memory."""

from api.dialects.agent_memory import bodies, health, lessons, observations, queued, reembedding, sessions
from api.dialects.agent_memory.answers import (
    Done,
    FoundAnswer,
    LessonAnswer,
    MatchAnswer,
    ObservationAnswer,
    SessionAnswer,
    Triggered,
)
from api.dialects.detail import FAULT
from api.dialects.faults import usual
from api.http.endpoint import Endpoint
from api.http.openapi import About, documented
from ingest.roles import ANY, OPERATOR, READ, READ_WRITE, WRITE

ABOUT = About(
    "agent-memory",
    "0.1.0",
    "What agents did, decided and learned. mnemolog answers as agent-memory's API does.",
    FAULT,
    usual,
    pages=("docs", "redoc"),
)
_INVALID = {422: "The request does not fit; `detail` lists what is wrong."}

ENDPOINTS = documented(
    ABOUT,
    [
        Endpoint("GET", "/api/health", ANY, health.health, "Whether the service can be used.",
            answer=health.HealthAnswer),
        Endpoint("GET", "/api/admin/stats", OPERATOR, health.stats, "How much there is.", "S",
            answer=health.StatsAnswer),
        Endpoint("POST", "/api/admin/re-embed", OPERATOR, reembedding.start, "Make vectors again.", "S",
            query=bodies.ReEmbedQuery, answer=reembedding.BEGUN, faults=_INVALID),
        Endpoint("GET", "/api/admin/re-embed/status", OPERATOR, reembedding.status, "How far that is.", "S",
            answer=reembedding.PROGRESS),
        Endpoint("POST", "/api/admin/re-embed/cancel", OPERATOR, reembedding.cancel, "Stop that.", "S", answer=Done),
        Endpoint("POST", "/api/queue", WRITE, queued.queue, "Record the use of a tool.", body=queued.QueueItem,
            answer=Done, faults=_INVALID),
        Endpoint("POST", "/api/observations/search", READ, observations.search,
            "Search observations, and what else is remembered.", "S", body=bodies.SearchBody, answer=FoundAnswer,
            faults=_INVALID),
        Endpoint("POST", "/api/observations", READ_WRITE, observations.create, "Make an observation.", "S",
            body=bodies.NewObservation, answer=ObservationAnswer, faults=_INVALID),
        Endpoint("GET", "/api/observations", READ, observations.listing, "Observations and memories, newest first.",
            query=bodies.ObservationsQuery, answer=list[ObservationAnswer], faults=_INVALID),
        Endpoint("GET", "/api/observations/{id}", READ, observations.get, "One observation.", "S",
            answer=ObservationAnswer, faults={404: "There is no such observation.", **_INVALID}),
        Endpoint("POST", "/api/sessions", READ_WRITE, sessions.create, "Begin a session.", body=bodies.NewSession,
            answer=SessionAnswer, faults={409: "The session exists.", **_INVALID}),
        Endpoint("GET", "/api/sessions", READ, sessions.listing, "Sessions, the newest first.", "S",
            query=bodies.SessionsQuery, answer=list[SessionAnswer], faults=_INVALID),
        Endpoint("PATCH", "/api/sessions/{session_id:path}", READ_WRITE, sessions.patch,
            "Say what became of a session.", body=bodies.SessionChanges, answer=Done,
            faults={400: "Nothing is given.", 404: "There is no such session.", **_INVALID}),
        Endpoint("POST", "/api/lessons", READ_WRITE, lessons.create, "State a rule.", "S", body=bodies.NewLesson,
            answer=LessonAnswer, faults={400: "The pattern cannot be used.", **_INVALID}),
        Endpoint("GET", "/api/lessons", READ, lessons.listing, "Rules, the most severe first.",
            query=bodies.LessonsQuery, answer=list[LessonAnswer], faults=_INVALID),
        Endpoint("GET", "/api/lessons/match", READ, lessons.match, "Rules about a tool call.", query=bodies.MatchQuery,
            answer=list[MatchAnswer], faults=_INVALID),
        Endpoint("PATCH", "/api/lessons/{id}", READ_WRITE, lessons.patch, "Change a rule.", "S",
            body=bodies.LessonChanges, answer=LessonAnswer,
            faults={400: "Nothing is given, or the pattern cannot be used.", 404: "There is no such rule.",
                **_INVALID}),
        Endpoint("POST", "/api/lessons/{id}/trigger", READ_WRITE, lessons.trigger, "Count that a rule was shown.",
            answer=Triggered, faults=_INVALID),
    ],
)  # fmt: skip
