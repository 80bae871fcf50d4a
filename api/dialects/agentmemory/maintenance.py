"""Deletion by name and by age; health checks; the audit log."""

import asyncio
import os
import resource
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.endpoints import (
    Arguments,
    at_least_one,
    call_of,
    documents_of,
    named_agent,
    noted,
    one_session,
    read_query,
    reading,
    settings,
)
from api.dialects.agentmemory.operations import REQUESTS, failure, success
from api.dialects.agentmemory.records import Record, renamed, without_empty
from api.dialects.application import redis_fault
from api.dialects.session_projects import home_of, homes
from api.http.http import Json
from api.services import services
from ingest.errors import LogUnavailable, NotFound, ReaderUnknown
from ingest.platform.files import toml_beside
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import server_version
from mcp_gateway.tools.tool import Call
from projections.forgetting.forget import Sweep
from projections.health.watch import LOG
from projections.nouns.observation import Observation
from projections.queries.log_events import AuditEntry


async def post_forget(request: Request, arguments: Arguments) -> Record:
    """Permanently delete a memory, some observations of a session, or the whole session."""
    session = arguments.chosen("sessionId")
    home = await home_of(request, session) if session else None
    record = await forget(call_of(request), arguments | {"project": home.project if home else None})
    if session and not arguments["observationIds"] and arguments.chosen("memoryId") is None:
        homes(request).forget(session)
    return record


async def auto_forget(request: Request, arguments: Arguments) -> Record:
    """Delete expired memories and old unimportant observations; with dryRun, only list them.

    Saving already supersedes duplicates, so there are no contradictions.
    """
    in_query = read_query(request, REQUESTS["POST auto-forget"])
    dry_run, call = bool(arguments["dryRun"] or in_query["dryRun"]), call_of(request)
    reader, caller, operations = await reading(call), call.caller(), call.operations
    sweep = Sweep(operations.current, call.queries.lookup, operations.forgetting)
    swept = await sweep.run(reader, caller, dry_run=dry_run)
    noted(call, caller, swept)
    return success(
        ttlExpired=swept.expired,
        contradictions=[],
        lowValueObs=swept.unimportant,
        evictedMemories=swept.expired,
        evictedObservations=swept.unimportant,
        evicted=0 if dry_run else len(swept.expired) + len(swept.unimportant),
        dryRun=dry_run,
    )


async def forget(call: Call, arguments: Arguments) -> Record:
    """memory_forget: a memory, some observations of a session, or the whole session."""
    memory, names = arguments.chosen("memoryId"), arguments["observationIds"]
    if memory is None and arguments.chosen("sessionId") is None:
        raise BadArgument("memoryId or sessionId is required", "memoryId")
    forgetting, caller, reader = call.operations.forgetting, call.caller(), call.reader()
    try:
        if memory is not None:
            forgotten = await forgetting.document(memory, reader, caller)
            deleted = forgotten.total
        elif names:
            await call.wait_for_own_writes()
            observations = await documents_of(call, names, reader, Observation)
            of_session = [seen.id for seen in observations if seen.session_id == arguments["sessionId"]]
            forgotten = await forgetting.documents(of_session, reader, caller)
            deleted = forgotten.documents.get("observation", 0)
        else:
            forgotten = await forgetting.session(await one_session(call, arguments), caller)
            deleted = forgotten.documents.get("observation", 0) + 2  # the session and its summary are counted as well
    except NotFound:
        return success(deleted=0)
    noted(call, caller, forgotten)
    return success(deleted=deleted)


async def diagnose(call: Call, arguments: Arguments) -> Record:
    """memory_diagnose: the checks that ran, and the state of the server."""
    diagnosis = await call.queries.diagnose(await reading(call), arguments["categories"] or ())
    return success(
        status=diagnosis.status,
        service="agentmemory",
        version=version(),
        database="valkey",
        databaseStatus="connected",
        checks=diagnosis.checks,
        summary=diagnosis.summary,
    )


MAX_LIMIT = 1_000
MAX_PAGES = 20
"""Pages of the log that are looked at for entries of one kind."""
_TABLE = toml_beside(__file__, "maintenance.toml")
WORDS: Mapping[str, str] = _TABLE["words"]
"""What agentmemory calls our events."""
_EVENTS: Mapping[str, str] = {word: event for event, word in WORDS.items()} | {"delete": "subject.forgotten"}


async def audit(call: Call, arguments: Arguments) -> Record:
    """Who wrote or deleted what, newest first; of one operation, in agentmemory's words or ours."""
    at_least_one(arguments, "limit")
    limit, operation = min(MAX_LIMIT, int(arguments["limit"])), arguments["operation"] or ""
    try:
        reader = call.reader(named_agent(arguments))
    except ReaderUnknown as error:
        return failure(str(error), entries=[])
    newest: list[AuditEntry] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await call.queries.audit.entries(
            reader, _EVENTS.get(operation, operation), cursor=cursor, limit=limit - len(newest)
        )
        newest += page.entries
        cursor = page.next
        if cursor is None or len(newest) >= limit:
            break
    return success(entries=list(map(audit_record, newest)))


def audit_record(entry: AuditEntry) -> Record:
    """An entry as agentmemory has it."""
    fields = asdict(entry)
    details = renamed(fields, "agent_id project session_id reason source erased")
    return {
        **renamed(fields, "id timestamp=at"),
        "operation": WORDS.get(entry.operation, entry.operation),
        **renamed(fields, "functionId=operation targetIds=targets"),
        "details": {name: value for name, value in details.items() if value},
        **without_empty(renamed(fields, "user_id")),
    }


# A store that takes longer to respond counts as unavailable.
PING_S = 2.0
# Calls closer together are compared with the same earlier measurement.
LOOK_S = 1.0
LAG_WARN_MS = 500.0
DEGRADED_BEHIND = 10_000
"""Events that are not projected yet."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

FLAGS: list[Record] = _TABLE["flags"]


class Meter:
    """Measures the process from one call to the next."""

    def __init__(self) -> None:
        times = os.times()
        self.started = time.monotonic()
        self._last_cpu_s, self._last_at = times.user + times.system, self.started

    def used(self) -> Record:
        """Memory, and processor use since the last call: 100 percent is one processor, fully used."""
        times, now = os.times(), time.monotonic()
        try:
            rss = int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE_BYTES
        except OSError:  # not on Linux: the peak usage
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        cpu_s, elapsed = times.user + times.system, now - self._last_at
        percent = 100 * (cpu_s - self._last_cpu_s) / elapsed if elapsed > 0 else 0.0
        if elapsed >= LOOK_S:
            self._last_cpu_s, self._last_at = cpu_s, now
        memory = {"heapUsed": rss, "heapTotal": rss, "rss": rss, "external": 0}
        cpu = {"userMicros": int(times.user * 1e6), "systemMicros": int(times.system * 1e6)}
        return {"memory": memory, "cpu": {**cpu, "percent": round(percent, 2)}}


async def livez(request: Request) -> Response:
    """The process responds."""
    return Json({"status": "ok", "service": "agentmemory", **_ports(request)})


async def health(request: Request) -> Response:
    """Server health and resource usage."""
    server, meter = services(request), request.app.state.agentmemory.meter
    due = time.perf_counter()
    await asyncio.sleep(0)
    lag_ms = 1000 * (time.perf_counter() - due)
    latency_ms = await _ping_ms(request)
    with suppress(LogUnavailable):
        await server.watch.look()  # as /readyz does, so that the two never contradict each other
    connected, behind = latency_ms is not None, sum(server.search_index.lag.values())
    conditions = [condition for condition in server.watch.readiness.conditions if condition.code != LOG]
    notes = [condition.message for condition in conditions if condition.code == "index" or condition.weight == "notes"]
    alerts = [] if connected else ["Redis is not responding"]
    alerts += [condition.message for condition in conditions if condition.message not in notes]
    if behind >= DEGRADED_BEHIND:
        alerts.append(f"{behind:,} events are pending")
    if lag_ms > LAG_WARN_MS:
        notes.append(f"the event loop lags by {lag_ms:.0f} ms")
    status: Literal["healthy", "degraded", "critical"] = "healthy"
    if not connected or any(condition.weight == "stops" and condition.code != "index" for condition in conditions):
        status = "critical"
    elif alerts or notes:
        status = "degraded"
    state = "connected" if connected else "disconnected"
    record: Record = {
        "status": status,
        "service": "agentmemory",
        "version": version(),
        "health": {
            "status": status,
            "connectionState": state,
            "workers": [],
            **meter.used(),
            "eventLoopLagMs": round(lag_ms, 3),
            "uptimeSeconds": round(time.monotonic() - meter.started, 3),
            "kvConnectivity": {"status": "ok" if connected else "error", "latencyMs": latency_ms},
            "alerts": alerts,
            "notes": notes,
        },
        "functionMetrics": [],
        "circuitBreaker": None,
        "database": "valkey",
        "databaseStatus": state,
        **_ports(request),
    }
    return Json(record, 503 if status == "critical" else 200)


async def flags(request: Request) -> Record:
    """The feature flags."""
    chosen = settings(request)
    model = bool(chosen.llm)
    return {
        "version": version(),
        "provider": "llm" if model else "noop",
        "embeddingProvider": "none" if chosen.embedder == "none" else "embeddings",
        "flags": [{**flag, "enabled": flag["default"] or (flag["needsLlm"] and model)} for flag in FLAGS],
    }


async def graph_stats(call: Call) -> Record:
    """How many nodes and edges the graph has."""
    totals = await call.queries.graph.stats(await reading(call), None)
    nodes, edges = sum(totals.nodes.values()), sum(totals.edges.values())
    return success(
        totalNodes=nodes, totalEdges=edges, nodesByType=totals.nodes, edgesByType=totals.edges, nodes=nodes, edges=edges
    )


def version() -> str:
    """Our version, in the form x.y.z."""
    return server_version() or "0.0.0"


def _ports(request: Request) -> Record:
    """The ports of the page and the stream: the same one as everything else."""
    port = settings(request).port
    return {"viewerPort": port, "viewerSkipped": False, "streamsPort": port}


async def _ping_ms(request: Request) -> float | None:
    """How long the log's server takes to respond; None if it does not."""
    began = time.perf_counter()
    if await redis_fault(request, PING_S):
        return None
    return round(1000 * (time.perf_counter() - began), 3)
