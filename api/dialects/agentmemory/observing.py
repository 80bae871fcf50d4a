"""Observations: what hooks see is stored at once, whatever they send, and nothing waits for a projection; a session's
observations are listed, and played back as a film.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from msgspec.structs import replace
from starlette.requests import Request

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.endpoints import (
    CWD_CHARS,
    Arguments,
    agent_of,
    call_of,
    command,
    one_session,
    read_query,
    reading,
    session_of,
)
from api.dialects.agentmemory.operations import MAX_OBSERVATIONS, OF_SESSION, fields, success
from api.dialects.agentmemory.records import Record
from api.dialects.agentmemory.sessions import list_sessions, session_records
from api.dialects.fitting import Fitted, fitted
from api.dialects.session_projects import home_of, homes, settled
from api.importing.sessions import hook_observation
from ingest.commands.decide import TrackSession, WriteCommand
from ingest.errors import MnemologError, NotFound
from ingest.platform.clock import to_ms
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.queries.views import view

IN_THREAD_BYTES = 1 << 18
"""A body over this is made to fit in a thread: the event loop serves others meanwhile."""


async def observe(request: Request, arguments: Arguments) -> Record:
    """Record what a hook saw."""
    session, hook = arguments.needed("sessionId"), arguments.needed("hookType")
    moment = moment_of(arguments["timestamp"])
    call, agent = call_of(request), agent_of(arguments)
    home, new = await settled(request, session, arguments["project"] or "", agent)
    data: Any = {} if arguments["data"] is None else arguments["data"]  # without data only the hook is stored
    if not isinstance(data, dict):
        data = {"content" if isinstance(data, str) else "value": data}
    fits = await _fitted(request, cast("dict[str, Any]", data))
    observation = hook_observation(
        session,
        home.project,
        hook,
        fits.data,
        content="" if fits.data else hook,
        agent_id=home.agent,
        occurred_at=moment,
        image=fits.image,
        modality=fits.modality,
    )
    # a session of another API may belong to the nameless project
    commands: list[WriteCommand] = [replace(observation, project=home.project)]
    if new and (cwd := arguments.chosen("cwd")):  # an observation opens its session, but does not say where it works
        commands.append(
            TrackSession(
                status="started",
                session_id=session,
                project=home.project,
                agent_id=home.agent,
                cwd=cwd[:CWD_CHARS],
                occurred_at=moment,
            )
        )
    receipts = await asyncio.gather(*map(call.write, commands))
    for receipt in receipts:
        homes(request).wrote(session, receipt.position)
    return {"observationId": receipts[0].id}


async def observe_as_agent(request: Request, arguments: Arguments) -> Record:
    """Record a text of the agent's own, as if it had used a tool."""
    session, project = arguments.needed("sessionId"), arguments.needed("project")
    agent = agent_of(arguments)
    home, _ = await settled(request, session, project, agent)
    arguments = arguments | {"project": home.project or project, "agentId": agent or home.agent}
    if image := arguments["imageData"]:
        fits = await _fitted(request, {"image": image})
        arguments |= {"image": fits.image, "modality": "mixed" if fits.image else ""}
    for name in ("text", "content"):
        if isinstance(text := arguments[name], str):
            arguments[name] = (await _fitted(request, {name: text})).data[name]
    return await observe_text(call_of(request), arguments)


def moment_of(given: str | float) -> datetime | None:
    """When something happened, as the client says it; None, which is now, for what is no time of this era."""
    try:
        if isinstance(given, str):
            moment = datetime.fromisoformat(given.strip())
        else:
            moment = datetime.fromtimestamp(given / 1000 if given > _LATEST_S else given, UTC)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if 1970 <= moment.year < 2200 else None


async def _fitted(request: Request, data: Mapping[str, Any]) -> Fitted:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) <= IN_THREAD_BYTES:
        return fitted(data)
    return await asyncio.to_thread(fitted, data)


async def observe_text(call: Call, arguments: Arguments) -> Record:
    """agent_observe: kept as if a tool had been used whose input and output is the text."""
    text = arguments.chosen("text") or arguments.chosen("content")
    if text is None:
        raise BadArgument("text or content is required", "text")
    session, project = arguments.needed("sessionId"), arguments.needed("project")
    agent = arguments["agentId"] or ""
    if cwd := arguments.chosen("cwd"):
        await _record_folder(call, session, project, cwd, agent)
    kind = arguments.chosen("type") or "other"
    title = arguments.chosen("title") or f"agent_{kind}"
    data = {"tool_name": title, "tool_input": text, "tool_output": text, "type": kind}
    image = {name: arguments[name] for name in ("image", "modality") if name in arguments}
    command = hook_observation(session, project, "post_tool_use", data, kind=kind, agent_id=agent, **image)
    accepted = await call.write(command)
    return {"observationId": accepted.id}


async def _record_folder(call: Call, session: str, project: str, cwd: str, agent: str) -> None:
    """Record the folder that a session works in, unless it has one."""
    try:
        located = await call.queries.sessions.one(call.reader(agent), session, project)
        folder = getattr(located.document, "cwd", "")
    except MnemologError:
        folder = ""
    if not folder:
        track = command(TrackSession, status="started", session_id=session, project=project, cwd=cwd, agent_id=agent)
        await call.write(track)


_LATEST_S = 10_000_000_000
"""The year 2286 in seconds: what is later is in milliseconds."""


LABEL_CHARS = 120
_KINDS = {
    "prompt_submit": "prompt", "pre_tool_use": "tool_call", "post_tool_use": "tool_result",
    "post_tool_failure": "tool_error", "assistant_message": "response", "subagent_stop": "response",
    "session_start": "session_start", "session_end": "session_end",
}  # fmt: skip
_BODY = ("userPrompt", "narrative")
_TOOL = ("toolName", "toolInput", "toolOutput")


async def get_observations(request: Request) -> Record:
    """A session's observations, oldest first; empty for an unknown session."""
    arguments = await _of_session(request)
    return await observations(call_of(request), arguments)


async def get_sessions(call: Call, arguments: Arguments) -> Record:
    """The sessions that can be played back, newest first."""
    return success(**await list_sessions(call, arguments))


async def load(request: Request) -> Record:
    """A session as a film."""
    arguments, call = await _of_session(request), call_of(request)
    agent, project = arguments["agentId"] or "", arguments["project"]
    reader, queries = await reading(call, agent), call.queries
    stored = session_of(await queries.sessions.one(reader, arguments["sessionId"], project))
    limit = arguments.count("limit", MAX_OBSERVATIONS)
    page = await queries.sessions.observations(reader, stored.session_id, stored.project, None, limit)
    observations = sorted(page.items, key=lambda observation: observation["occurred_at"])
    (session,) = await session_records(call, reader, [view(stored)])
    times_ms = [to_ms(observation["occurred_at"]) for observation in observations]
    return success(session=session, timeline=film(session, times_ms, list(map(dialect.observation, observations))))


async def _of_session(request: Request) -> Arguments:
    """What was asked of a session, with the project that it is at home in."""
    arguments = read_query(request, fields(OF_SESSION))
    session = arguments.chosen("sessionId")
    if session is None:
        raise BadArgument("sessionId required", "sessionId")  # clients know it by these words
    home = await home_of(request, session)
    return arguments | {"project": home.project if home else None}


async def observations(call: Call, arguments: Arguments) -> Record:
    """memory_observations: a session's observations, oldest first."""
    limit = max(1, min(MAX_OBSERVATIONS, int(arguments["limit"] or MAX_OBSERVATIONS)))
    try:
        located = await one_session(call, arguments)
    except NotFound:
        return {"observations": []}
    reader = call.reader(arguments["agentId"] or "")
    name, project = arguments.needed("sessionId"), getattr(located.document, "project", "")
    page = await call.queries.sessions.observations(reader, name, project, None, limit)
    oldest_first = sorted(page.items, key=lambda observation: observation["occurred_at"])
    return {"observations": list(map(dialect.observation, oldest_first))}


def film(session: Mapping[str, Any], times_ms: Sequence[int], observations: Sequence[Record]) -> Record:
    """A session's observations as a film: when each came after the first, and how long it was until the next.

    `observations` are records in the order of time, `times_ms` when they happened.
    """
    first = times_ms[0] if times_ms else 0
    ends = [*times_ms[1:], *times_ms[-1:]]
    return {
        "sessionId": session["id"],
        "startedAt": session["startedAt"],
        "endedAt": session.get("endedAt"),
        "totalDurationMs": times_ms[-1] - first if times_ms else 0,
        "eventCount": len(observations),
        "events": [
            _event(observation, at - first, end - at)
            for observation, at, end in zip(observations, times_ms, ends, strict=True)
        ],
    }


def _event(observation: Record, offset_ms: int, duration_ms: int) -> Record:
    body = next((observation[name] for name in _BODY if observation.get(name)), None)
    optional = {"body": body, **{name: observation.get(name) for name in _TOOL}}
    return {
        "id": observation["id"],
        "sessionId": observation["sessionId"],
        "ts": observation["timestamp"],
        "offsetMs": offset_ms,
        "durationMs": duration_ms,
        "kind": _KINDS.get(observation["hookType"], "hook"),
        "label": (observation["title"] or observation["hookType"])[:LABEL_CHARS],
        **{name: value for name, value in optional.items() if value is not None},
    }
