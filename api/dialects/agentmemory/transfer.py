"""What comes from elsewhere and what is told elsewhere: exports, Antigravity's conversations, the log as commits."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, cast, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import antigravity
from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import Arguments, count, door_of, endpoint, failure, object_in, reply, success
from api.dialects.agentmemory.auditing import WORDS, entries
from api.dialects.agentmemory.shapes import (
    COUNT,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    fields,
    listed,
    otherwise,
    outcome,
    record,
)
from api.dialects.agentmemory.take_over import Strategy, TakeOver
from api.http.endpoint import Endpoint
from api.http.http import body
from api.services import services
from ingest.errors import CommandRejected, Overloaded
from ingest.platform.aside import aside
from ingest.roles import ADMIN, OPERATOR, READ
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.catalog import server_version
from mcp_gateway.tools.tool import Door
from projections.operations.clear import Clear
from projections.queries.audit import AuditEntry

MAX_COMMITS = 500
MAX_IMPORT_BYTES = 64 << 20
"""A bigger export is for `mnemolog import agentmemory`, which reads it from a file."""
MAX_IMPORT_VALUES = 2_000_000
LIMITS = {"sessions": 10_000, "memories": 50_000, "summaries": 10_000}
MAX_PER_SESSION, MAX_OBSERVATIONS = 5_000, 500_000
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
FIRST, LAST = (0, 3, 0), (0, 9, 29)
"""Versions of agentmemory whose exports are read; our own are, too."""
EXPORT = fields({"exportData": {"type": "object"}, "strategy": otherwise(TEXT, STRATEGIES[0])}, ("exportData",))
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
_one_at_a_time = asyncio.Semaphore(1)
"""An export is in memory as long as it is imported."""
SHA_CHARS, SHORT_CHARS = 40, 7
NOBODY = "mnemolog"


async def import_export(request: Request) -> Response:
    """Take over an export."""
    services(request).reach.check_whole()
    if _one_at_a_time.locked():
        raise Overloaded("another export is being imported", retry_after_s=10)
    async with _one_at_a_time:
        raw = await body(request, MAX_IMPORT_BYTES)
        arguments = lenient.read(await aside(object_in, raw, MAX_IMPORT_VALUES), EXPORT)
        strategy = _strategy(arguments["strategy"])
        export: dict[str, Any] = arguments["exportData"]
        if fault := _unsupported(export):
            return failure(fault)
        return await _taken_over(door_of(request), export, strategy)


async def _taken_over(door: Door, export: dict[str, Any], strategy: Strategy) -> Response:
    reader, caller, operations = door.reader(), door.caller(), door.operations
    clear = Clear(operations.current, operations.forgetting, door.queries.browse)
    try:
        done = await TakeOver(door.commands, operations, clear).run(export, strategy, reader, caller)
    except CommandRejected as refused:
        return failure(refused.message)
    door.wrote(caller.agent_id, done.position)
    counts = {f"{name[:-1]}ies" if name.endswith("y") else f"{name}s": count for name, count in done.rows.items()}
    told: dict[str, Any] = {**dict.fromkeys(("sessions", "observations", "memories", "summaries"), 0), **counts}
    told |= {"refused": done.refused, "refusals": done.refusals} if done.refused else {}
    return success(strategy=strategy, skipped=done.skipped, **told)


def _strategy(given: str) -> Strategy:
    for one in STRATEGIES:
        if one == given.strip().lower():
            return one
    raise BadArgument(f"strategy must be one of {', '.join(STRATEGIES)}", "strategy")


def _unsupported(export: Mapping[str, Any]) -> str:
    """Why an export cannot be taken; empty when it can."""
    version: Any = export.get("version")
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    own = _VERSION.match(server_version() or "")
    stated = tuple(map(int, found.groups())) if found else ()
    ours = tuple(map(int, own.groups())) if own else ()
    if not stated or not (FIRST <= stated <= LAST or stated <= ours):
        return f"Unsupported export version: {version}"
    for name, most in LIMITS.items():
        if _length(export.get(name)) > most:
            return f"too many {name}: {_length(export.get(name)):,}, and the limit is {most:,}"
    observed: Any = export.get("observations")
    counts = list(map(_length, cast("dict[str, Any]", observed).values())) if isinstance(observed, dict) else []
    if max(counts, default=0) > MAX_PER_SESSION or sum(counts) > MAX_OBSERVATIONS:
        return f"too many observations: the limit is {MAX_PER_SESSION:,} a session and {MAX_OBSERVATIONS:,} in all"
    return ""


def _length(found: Any) -> int:
    return len(cast("list[Any]", found)) if isinstance(found, list) else 0


async def sync_antigravity(request: Request, arguments: Arguments) -> Response:
    """Take over conversations of Antigravity that are on the server's machine."""
    if arguments["mode"].strip().lower() not in ("", *antigravity.MODES):
        raise BadArgument(f"mode must be one of {', '.join(antigravity.MODES)}", "mode")
    return reply(await antigravity.sync(door_of(request), arguments))


async def commits(request: Request, arguments: Arguments) -> Response:
    """The audit log, told as commits; the newest first."""
    found = await entries(door_of(request), "", count(arguments, "limit", MAX_COMMITS))
    return success(commits=list(map(_commit, found)))


def _commit(entry: AuditEntry) -> dict[str, Any]:
    name = "".join(mark for mark in entry.id if mark.isalnum()).lower()
    agent = entry.agent_id or NOBODY
    what = WORDS.get(entry.operation, entry.operation)
    return {
        "sha": name[-SHA_CHARS:].rjust(SHA_CHARS, "0"),
        "shortSha": name[-SHORT_CHARS:],
        "agent": agent,
        "email": f"{agent}@{NOBODY}.invalid",
        "date": dialect.iso(entry.at),
        "message": " ".join([what, *entry.targets[:3]]),
    }


ENDPOINTS = [
    Endpoint(
        "POST", "/agentmemory/import", ADMIN, import_export, "Take over an export; what cannot be taken is told of.",
        "S", body=EXPORT,
        faults={400: "The export is missing, or there is no such strategy.",
            413: "The export is too big for a request.", 429: "Another one is being imported."},
        answer=outcome({"strategy": TEXT,
            **dict.fromkeys(("skipped", "sessions", "observations", "memories", "summaries"), COUNT)},
            {"refused": COUNT, "refusals": TEXTS}),
    ),
    endpoint(
        "POST", "/agentmemory/antigravity/sync", OPERATOR, sync_antigravity, "Take over conversations of Antigravity.",
        "S", faults={400: "There is no such mode."},
        body=fields({"mode": otherwise(TEXT, antigravity.MODES[0]), "currentConversationId": TEXT,
            "currentFolder": TEXT}),
        optional=True, answer=OBJECT,
    ),
    endpoint(
        "GET", "/agentmemory/dolt/commits", READ, commits, "The audit log, told as commits.", "S",
        query=fields({"limit": otherwise(NUMBER, 50)}),
        answer=outcome({"commits": listed(record(dict.fromkeys(("sha", "shortSha", "agent", "email", "date",
            "message"), TEXT)))}),
    ),
]  # fmt: skip
