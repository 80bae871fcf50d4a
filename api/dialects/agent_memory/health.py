"""Whether the service can be used, and how much it holds."""

import asyncio
import logging
from collections import Counter
from typing import Any

from msgspec import Struct
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import Done
from api.dialects.agent_memory.common import MAX_BATCH, ReEmbedQuery, context_of, listed, numbers, state
from api.dialects.agent_memory.records import nearest_type
from api.dialects.errors import parse_query
from api.http.http import Json
from api.http.openapi import TEXT, object_schema
from api.services import services
from ingest.errors import ProjectionBehind, reason_of
from projections.rebuilding.reembedding import ReEmbedding

logger = logging.getLogger(__name__)

DATABASE_WITHIN_S = 0.2
# Hooks allow half a second for all of it; a search that is under way takes the index some ten milliseconds.
COUNTED_WITHIN_S = 0.025
_PROVIDERS = {"default": "onnx"}


class HealthAnswer(Struct, frozen=True, kw_only=True):
    """`status` is `ok` when both parts are, else `degraded`."""

    status: str
    db: dict[str, Any]
    embeddings: dict[str, Any]
    queue: dict[str, int]


class StatsAnswer(Struct, frozen=True, kw_only=True):
    """How much there is."""

    observations: dict[str, int]
    sessions: int
    projects: int
    queue: dict[str, int]
    by_type: dict[str, int]
    by_project: dict[str, int]


async def health(request: Request) -> Response:
    """200 in any case. No model is loaded and nothing is searched; counts that take too long are the last known."""
    db, observations = await asyncio.gather(_database(request), _observations(request))
    embeddings = _embeddings(request)
    up, healthy = "version" in db, db["status"] == "ok"
    lag = services(request).search_index.lag
    return Json(
        HealthAnswer(
            status="ok" if healthy and embeddings["status"] == "ok" else "degraded",
            db=db,
            embeddings=embeddings,
            queue={"pending": sum(lag.values()) if up else -1, "observations_total": observations if up else -1},
        )
    )


async def stats(request: Request) -> Response:
    """Counts, from the index and its facets.

    `queue`: `pending` are events that are not projected yet, of whatever kind; `done` the observations there are;
    `failed` the events that could not be applied.
    """
    context, lists = context_of(request), listed(request)
    await context.wait_for_own_writes()
    counted = await lists.tally(context.reader())
    partitions = await context.queries.progress()
    by_type: Counter[str] = Counter()
    for kind, count in counted.kinds.items():
        by_type[nearest_type(kind)] += count
    await numbers(context, "project", sorted(counted.projects))
    return Json(
        StatsAnswer(
            observations={
                "total": counted.total,
                "with_embedding": counted.embedded,
                "without_embedding": counted.total - counted.embedded,
            },
            sessions=await lists.session_count(context.tenant),
            projects=await context.queries.numbers(context.tenant, "project").count(),
            queue={
                "pending": sum(partition["lag"] for partition in partitions),
                "done": counted.total,
                "failed": sum(partition["dead_letters"] for partition in partitions),
            },
            by_type=dict(by_type),
            by_project=counted.projects,
        )
    )


async def _database(request: Request) -> dict[str, Any]:
    try:
        async with asyncio.timeout(DATABASE_WITHIN_S):
            about: dict[str, Any] = await services(request).redis.info("server")
    except TimeoutError:
        return {"status": "error", "error": f"no answer within {DATABASE_WITHIN_S:g} s"}
    except (RedisError, OSError) as error:
        return {"status": "error", "error": reason_of(error)}
    version = about.get("valkey_version") or about.get("redis_version", "")
    name = about.get("server_name") or "redis"
    details = {"version": f"{name} {version}", "pgvector": True}  # which means that vectors can be searched
    for condition in services(request).watch.readiness.impaired:
        return {"status": "error", "error": condition.message, **details}
    return {"status": "ok", **details}


def _embeddings(request: Request) -> dict[str, Any]:
    embedder = services(request).queries.recall.vectors.embedder
    if not embedder.dimensions:
        return {"status": "error", "error": "no embedder is configured: searches use words only"}
    provider = services(request).search_index.embedders.spec.partition(":")[0]
    return {
        "status": "ok",
        "model": embedder.model,
        "dimensions": embedder.dimensions,
        "provider": _PROVIDERS.get(provider, provider),
    }


async def _observations(request: Request) -> int:
    """How many observations there are; the last known count while the index is busy, -1 before the first."""
    try:
        async with asyncio.timeout(COUNTED_WITHIN_S):
            state(request).observations = await listed(request).observation_count(context_of(request).reader())
    except (TimeoutError, ProjectionBehind) as error:
        logger.debug("observations are not counted now: %r", error)
    return state(request).observations


_INTEGER, _NUMBER = {"type": "integer"}, {"type": "number"}
_STATUS = {"enum": ["idle", "running", "done", "cancelled"]}
PROGRESS = object_schema(
    {
        "status": _STATUS,
        **dict.fromkeys(("total", "processed", "errors"), _INTEGER),
        **dict.fromkeys(("rate", "elapsed_seconds"), _NUMBER),
        **dict.fromkeys(("model", "error"), TEXT),
        "only_missing": {"type": "boolean"},
    },
    "status",
)
"""How far a run is; only the status, where there never was one."""
BEGUN = object_schema(
    {
        "status": {"anyOf": [{"const": "started"}, PROGRESS]},
        "error": TEXT,
        "only_missing": {"type": "boolean"},
        "batch_size": _INTEGER,
    },
    "status",
)
"""That it began; or that one runs already, and how far that is."""


async def start(request: Request) -> Response:
    """Begin; where one runs already it goes on, and the answer says how far it is."""
    query = parse_query(ReEmbedQuery, request)
    run = state(request).reembedding
    if run is not None and run.progress.status == "running":
        return Json({"error": "Re-embed job already running", "status": run.progress})
    dependencies, context = services(request), context_of(request)
    run = ReEmbedding(
        dependencies.redis,
        listed(request),
        dependencies.jobs,
        model=dependencies.queries.recall.vectors.embedder.model,
        partitions=dependencies.operations.letters.partitions,
        only_missing=query.only_missing,
        batch=min(query.batch_size, MAX_BATCH),
    )
    state(request).reembedding = run
    await run.start(context.reader())
    return Json({"status": "started", "only_missing": query.only_missing, "batch_size": query.batch_size})


async def status(request: Request) -> Response:
    """How far the run is, or how the last one ended."""
    run = state(request).reembedding
    return Json(Done(status="idle") if run is None else run.progress)


async def cancel(request: Request) -> Response:
    """Stop the run behind the batch that is under way."""
    run = state(request).reembedding
    return Json(Done(status="cancelling" if run is not None and run.cancel() else "no job running"))
