"""Search: results with their text, or titles first; and how often one search follows another."""

import time
from collections import OrderedDict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.asking import MAX_LIMIT, Arguments, door_of, endpoint, reply, succeeded
from api.dialects.agentmemory.mcp.recall import recall
from api.dialects.agentmemory.mcp.recall import smart_search as smart_search_tool
from api.dialects.agentmemory.shapes import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    DEGRADED,
    NUMBER,
    OBJECT,
    RESULT,
    TEXT,
    fields,
    listed,
    otherwise,
    outcome,
    record,
)
from api.http.endpoint import Endpoint
from api.http.http import Json
from ingest.errors import ProjectionBehind, ReaderUnknown
from ingest.roles import METRICS, READ
from mcp_gateway.lenient import BadArgument

WINDOW_S = 30.0
MAX_SEARCHERS = 10_000
UNANSWERED = (ProjectionBehind, ReaderUnknown)
"""The index is loading, or nobody says who reads: there are no results, and the answer says why."""
OURS = "viewer"
"""The page that comes with the server: a person looks, no agent."""
CAVEAT = (
    "counted by this process since it started: a search is followed up when the same session (or, where none is named, "
    "anybody) searches again within the window; that is a hint that the first answer was not enough, and no more"
)

SEARCH = {
    "query": TEXT,
    "limit": otherwise(NUMBER, 20),
    "project": TEXT,
    "cwd": TEXT,
    "format": TEXT,
    "token_budget": NUMBER,
    "agentId": TEXT,
}
SMART_SEARCH = {
    "query": TEXT,
    "expandIds": {"type": ["array", "string"], "items": ANYTHING},
    "limit": otherwise(NUMBER, 20),
    "project": TEXT,
    "includeLessons": otherwise(BOOLEAN, True),
    "agentId": TEXT,
    "sessionId": TEXT,
    "source": TEXT,
}


class Followups:
    """How many searches agents made, and how many were followed by another one soon. Bounded."""

    def __init__(self) -> None:
        self.searches = self.followed = 0
        self._last: OrderedDict[str, float] = OrderedDict()

    def searched(self, session: str) -> None:
        """Count a search."""
        now = time.monotonic()
        before = self._last.pop(session, None)
        self.searches += 1
        self.followed += before is not None and now - before <= WINDOW_S
        self._last[session] = now
        if len(self._last) > MAX_SEARCHERS:
            self._last.popitem(last=False)


async def search(request: Request, arguments: Arguments) -> Response:
    """Search observations and memories."""
    _at_least_one(arguments, "limit", "token_budget")
    if arguments["limit"] > MAX_LIMIT:
        raise BadArgument(f"limit must be at most {MAX_LIMIT}", "limit")
    try:
        return reply(await recall(door_of(request), arguments))
    except UNANSWERED as why:  # a client that is refused goes on by itself, unseen
        nothing: dict[str, Any] = {
            "format": arguments["format"] or "full",
            "results": [],
            "tokens_used": 0,
            "truncated": False,
        }
        return Json({**nothing, "degraded": [str(why)]})


async def smart_search(request: Request, arguments: Arguments) -> Response:
    """Search, titles first; what expandIds names in full."""
    if arguments["query"] is None and arguments["expandIds"] is None:
        raise BadArgument("query is required", "query")
    _at_least_one(arguments, "limit")
    source = arguments["source"] or request.headers.get("x-agentmemory-source", "")
    if not arguments["expandIds"] and source != OURS:
        _followups(request).searched(arguments["sessionId"] or "")
    # The session is the one that asks: it narrows nothing.
    try:
        return reply(await smart_search_tool(door_of(request), {**arguments, "sessionId": None}))
    except UNANSWERED as why:
        return Json({"mode": "compact", "results": [], "lessons": [], "degraded": [str(why)]})


async def followup(request: Request) -> Response:
    """How often agents search again at once."""
    counted = _followups(request)
    rate = counted.followed / counted.searches if counted.searches else 0.0
    return succeeded(
        windowSeconds=int(WINDOW_S),
        agentInitiatedSearches=counted.searches,
        followupWithinWindow=counted.followed,
        rate=round(rate, 4),
        caveat=CAVEAT,
    )


def _at_least_one(arguments: Arguments, *names: str) -> None:
    for name in names:
        if arguments[name] is not None and arguments[name] < 1:
            raise BadArgument(f"{name} must be at least 1", name)


def _followups(request: Request) -> Followups:
    return request.app.state.agentmemory.followups


ENDPOINTS = [
    endpoint(
        "POST", "/agentmemory/search", READ, search, "Search observations and memories.",
        body=fields(SEARCH, ("query",)),
        answer=record({"format": TEXT, "results": listed(RESULT), "tokens_used": COUNT, "truncated": BOOLEAN},
            {"tokens_budget": COUNT, "text": TEXT, **DEGRADED}),
    ),
    endpoint(
        "POST", "/agentmemory/smart-search", READ, smart_search, "Search, titles first; what expandIds names in full.",
        body=fields(SMART_SEARCH), optional=True,
        answer=record({"mode": TEXT, "results": listed(RESULT)}, {"lessons": listed(OBJECT), "truncated": BOOLEAN,
            **DEGRADED}),
    ),
    Endpoint(
        "GET", "/agentmemory/diagnostics/followup", METRICS, followup, "How often agents search again at once.",
        answer=outcome({**dict.fromkeys(("windowSeconds", "agentInitiatedSearches", "followupWithinWindow"), COUNT),
            "rate": NUMBER, "caveat": TEXT}),
    ),
]  # fmt: skip
