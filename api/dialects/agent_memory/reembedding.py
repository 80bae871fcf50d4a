"""Making the vectors of observations again: asked for, watched, cancelled. One run at a time in a process."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import Done
from api.dialects.agent_memory.bodies import MAX_BATCH, ReEmbedQuery
from api.dialects.agent_memory.common import context_of, listed
from api.dialects.agent_memory.state import state
from api.dialects.detail import parse_query
from api.http.http import Json
from api.http.openapi import TEXT
from api.services import services
from projections.operations.reembedding import ReEmbedding

_INTEGER, _NUMBER = {"type": "integer"}, {"type": "number"}
_STATUS = {"enum": ["idle", "running", "done", "cancelled"]}
PROGRESS = {
    "type": "object",
    "properties": {
        "status": _STATUS,
        **dict.fromkeys(("total", "processed", "errors"), _INTEGER),
        **dict.fromkeys(("rate", "elapsed_seconds"), _NUMBER),
        **dict.fromkeys(("model", "error"), TEXT),
        "only_missing": {"type": "boolean"},
    },
    "required": ["status"],
}
"""How far a run is; only the status, where there never was one."""
BEGUN = {
    "type": "object",
    "properties": {
        "status": {"anyOf": [{"const": "started"}, PROGRESS]},
        "error": {"type": "string"},
        "only_missing": {"type": "boolean"},
        "batch_size": {"type": "integer"},
    },
    "required": ["status"],
}
"""That it began; or that one runs already, and how far that is."""


async def start(request: Request) -> Response:
    """Begin; where one runs already it goes on, and the answer says how far it is."""
    wanted = parse_query(ReEmbedQuery, request)
    run = state(request).reembedding
    if run is not None and run.progress.status == "running":
        return Json({"error": "Re-embed job already running", "status": run.progress})
    at_hand, context = services(request), context_of(request)
    run = ReEmbedding(
        at_hand.redis,
        listed(request),
        at_hand.jobs,
        model=at_hand.queries.recall.vectors.embedder.model,
        partitions=at_hand.queries.letters.partitions,
        only_missing=wanted.only_missing,
        batch=min(wanted.batch_size, MAX_BATCH),
    )
    state(request).reembedding = run
    await run.start(context.reader())
    return Json({"status": "started", "only_missing": wanted.only_missing, "batch_size": wanted.batch_size})


async def status(request: Request) -> Response:
    """How far the run is, or how the last one ended."""
    run = state(request).reembedding
    return Json(Done(status="idle") if run is None else run.progress)


async def cancel(request: Request) -> Response:
    """Stop the run behind the batch that is under way."""
    run = state(request).reembedding
    return Json(Done(status="cancelling" if run is not None and run.cancel() else "no job running"))
