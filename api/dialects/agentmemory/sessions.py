"""Sessions: starting, observing, ending, listing and playback; and their commits.

Hook events are stored immediately, whatever they contain, and nothing waits for a projection.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from msgspec.structs import asdict, replace
from redis.exceptions import RedisError
from starlette.requests import Request

from api.dialects.agentmemory.endpoints import (
    CWD_CHARS,
    Arguments,
    agent_of,
    at_least_one,
    call_of,
    command,
    every,
    named_agent,
    one_session,
    read_query,
    reading,
    session_of,
    settings,
    written_document,
)
from api.dialects.agentmemory.operations import REQUESTS, success
from api.dialects.agentmemory.records import (
    Record,
    commit_record,
    observation_record,
    renamed,
    session_record,
    without_empty,
)
from api.dialects.agentmemory.searching import context_for
from api.dialects.fitting import Fitted, fitted
from api.dialects.session_projects import SessionProject, home_of, homes, settled, written_elsewhere
from api.hook_observations import hook_observation
from ingest.commands.decide import LinkCommit, TrackSession, WriteCommand
from ingest.errors import MnemologError, NotFound, ProjectionBehind, ReaderUnknown
from ingest.log.position import Token
from ingest.platform.clock import in_utc, system_clock, to_ms
from ingest.secrets.scrub import beginning
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.nouns.access import Reader
from projections.nouns.session import Session
from projections.queries.views import view

logger = logging.getLogger(__name__)
MAX_OBSERVATIONS = 5_000
"""Of a session, in one answer; also the default in `operations.toml`."""
TITLE_CHARS = 200
# A session's start waits no longer for its context; hooks give up after 0.7 s.
CONTEXT_S = 0.25
# Nor for what was written to the session before.
KNOWN_S = 0.4
SESSIONS = 20
"""Listed without a limit."""
MAX_SESSIONS = 500
# Summaries read side by side.
AT_ONCE = 8


async def start(request: Request, arguments: Arguments) -> Record:
    """Start or resume a session; the answer has the context of its project."""
    session = arguments.needed("sessionId")
    for name in ("project", "cwd"):
        if arguments[name] is None:
            raise BadArgument(f"{name} is required", name)
    call, agent = call_of(request), agent_of(arguments)
    home, new = await settled(request, session, arguments["project"], agent)
    moment = system_clock()
    title = beginning((arguments["title"] or "").strip(), TITLE_CHARS)
    started = _started(session, home, arguments["cwd"], moment, title)
    current = None if new else await _existing(call, home, session, agent)
    if current is None:
        now_ms = to_ms(moment)
        current = Session(
            tenant=call.tenant,
            project=home.project,
            session_id=session,
            agent_id=call.caller(home.agent).agent_id,
            started_ms=now_ms,
            updated_ms=now_ms,
        )
    accepted, context = await asyncio.gather(
        call.write(started), _context(call, session, home.project, settings(request).token_budget, agent)
    )
    homes(request).wrote(session, accepted.position)
    changes = {"status": "active", "ended_ms": 0, **without_empty({"cwd": started.cwd, "title": title})}
    return {"session": session_record(view(current.model_copy(update=changes))), "context": context}


def _started(session: str, home: SessionProject, cwd: str, at: datetime | None, title: str = "") -> TrackSession:
    """The command that says that a session began in a folder."""
    return TrackSession(
        status="started",
        session_id=session,
        project=home.project,
        agent_id=home.agent,
        cwd=cwd[:CWD_CHARS],
        title=title,
        occurred_at=at,
    )


async def end(request: Request, arguments: Arguments) -> Record:
    """End a session; an unknown one counts as ended. Maintenance writes its summary."""
    session = arguments.needed("sessionId")
    if home := await home_of(request, session):
        ended = TrackSession(status="ended", session_id=session, project=home.project, agent_id=home.agent)
        accepted = await call_of(request).write(ended)
        homes(request).wrote(session, accepted.position)
    return success()


async def get_sessions(call: Call, arguments: Arguments) -> Record:
    """The sessions, newest first."""
    limit = MAX_SESSIONS if arguments["limit"] is None else arguments["limit"]
    try:
        return await list_sessions(call, arguments | {"limit": limit})
    except ReaderUnknown as error:
        return {"sessions": [], "degraded": [str(error)]}


async def _existing(call: Call, home: SessionProject, session: str, agent: str) -> Session | None:
    """The stored session, including the last writes made here; None if `agent` cannot read it."""
    written = Token(home.written)
    written.include_all(written_elsewhere(call.last_writes.shared, call.tenant, session))
    try:
        async with asyncio.timeout(KNOWN_S):
            if written:
                await call.queries.log.wait_for_own_writes(str(written))
    except (TimeoutError, ProjectionBehind):
        logger.info("a session was resumed before its last writes were projected")
    try:
        return await session_of(call, call.reader(agent), session, home.project)
    except (NotFound, ReaderUnknown):
        return None


async def _context(call: Call, session: str, project: str, budget: int, agent: str) -> str:
    """The context for `agent`, which need not be the session's own; empty if it is not ready in time."""
    try:
        reader = call.reader(agent)
        async with asyncio.timeout(CONTEXT_S):
            return (await context_for(call, reader, session, project, budget)).context
    except (TimeoutError, MnemologError, RedisError) as error:
        logger.info("a session starts without context: %s", error or "timed out")
        return ""


async def list_sessions(call: Call, arguments: Arguments) -> Record:
    """memory_sessions, memory_sessions_list: the newest sessions."""
    limit = max(1, min(MAX_SESSIONS, int(arguments["limit"] or SESSIONS)))
    reader = await reading(call, named_agent(arguments))
    page = await call.queries.sessions.page(reader, None, None, limit)
    return {"sessions": await session_records(call, reader, page.items)}


async def session_records(
    call: Call,
    reader: Reader,
    sessions: Sequence[Mapping[str, Any]],
    summaries: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> list[Record]:
    """Sessions with the summaries they have and the commits made in them, the newest start first.

    Summaries are read unless they are given, by project and session.
    """
    turns = asyncio.Semaphore(AT_ONCE)
    commits: dict[str, list[str]] = {}
    for commit in (await call.queries.commits.page(reader, None, None, MAX_SESSIONS)).items:
        for name in commit["session_ids"]:
            commits.setdefault(name, []).append(commit["commit"])

    async def summary_of(session: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if not session["summarised"]:
            return None
        if summaries is not None:
            return summaries.get((session["project"], session["id"]))
        async with turns:
            located = await call.queries.sessions.one(reader, session["id"], session["project"])
            summary = await call.queries.summaries.of_session(reader, located)
        return None if summary is None else view(summary)

    pairs = zip(sessions, await asyncio.gather(*map(summary_of, sessions)), strict=True)
    records = [session_record(session, summary, commits.get(session["id"], [])) for session, summary in pairs]
    return sorted(records, key=lambda record: record["startedAt"], reverse=True)


NAME_CHARS, TIME_CHARS, MAX_FILES = 512, 64, 2_000
MAX_LIMIT = 500
MAX_SEEN = 10_000
"""Commits that one request looks at, the newest linked first."""


async def link(request: Request, arguments: Arguments) -> Record:
    """Link a commit to the session it was made in."""
    sha, session, call = arguments.needed("sha").strip(), arguments.chosen("sessionId") or "", call_of(request)
    home = await home_of(request, session) if session else None
    files: list[str] = arguments["files"] or []
    linked = command(
        LinkCommit,
        commit=sha,
        session_id=session,
        project=home.project if home else arguments["project"],
        agent_id=arguments.chosen("agentId") or (home.agent if home else None),
        message=arguments["message"],
        **{name: (arguments[name] or "")[:NAME_CHARS] for name in ("branch", "repo", "author")},
        authored_at=(arguments["authoredAt"] or "")[:TIME_CHARS],
        files=[file[:NAME_CHARS] for file in files[:MAX_FILES]],
    )
    accepted = await call.write(linked)
    stored = await written_document(call, accepted.id, arguments.chosen("agentId") or "")
    if stored is None:  # not projected in time
        stored = asdict(linked) | {"session_ids": [session] if session else [], "linked_at": system_clock()}
    return {"commit": commit_record(stored)}


async def commit_lookup(call: Call, arguments: Arguments) -> Record:
    """memory_commit_lookup: a commit, and the sessions it was made in; raises NotFound."""
    sha, reader = arguments.needed("sha").strip(), await reading(call, named_agent(arguments))
    matches = await _commits(call, reader, {"commit": sha}, 1)
    if not matches:
        raise NotFound(f"no session is known for commit {sha}")
    lists = [await call.queries.sessions.named(reader, name) for name in matches[0]["session_ids"]]
    sessions = [view(located.document) for named in lists for located in named]
    return {"commit": commit_record(matches[0]), "sessions": await session_records(call, reader, sessions)}


async def commits(call: Call, arguments: Arguments) -> Record:
    """memory_commits: commits, the newest linked first."""
    at_least_one(arguments, "limit")
    limit = min(int(arguments["limit"]), MAX_LIMIT)
    filters = {name: arguments[name] for name in ("branch", "repo") if arguments[name]}
    newest = await _commits(call, await reading(call, named_agent(arguments)), filters, limit)
    return {"commits": list(map(commit_record, newest))}


async def _commits(call: Call, reader: Reader, filters: dict[str, str], limit: int) -> list[Record]:
    """The newest commits whose fields match the filters."""
    matches: list[Record] = []
    async for commit in every(call.queries.commits.page, reader, None, MAX_SEEN):
        if all(commit[name] == value for name, value in filters.items()):
            matches.append(commit)
        if len(matches) == limit:
            break
    return matches


# A body over this is made to fit in a thread, so that the event loop can serve other requests.
IN_THREAD_BYTES = 1 << 18


async def observe(request: Request, arguments: Arguments) -> Record:
    """Record a hook's event."""
    session, hook = arguments.needed("sessionId"), arguments.needed("hookType")
    moment = moment_of(arguments["timestamp"])
    call, agent = call_of(request), agent_of(arguments)
    home, new = await settled(request, session, arguments["project"] or "", agent)
    data: Any = {} if arguments["data"] is None else arguments["data"]  # without data only the hook is stored
    if not isinstance(data, dict):
        data = {"content" if isinstance(data, str) else "value": data}
    fits = await _fitted(request, cast(Record, data))
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
        commands.append(_started(session, home, cwd, moment))
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
        moment = in_utc(moment)
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
    agent = named_agent(arguments)
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
        folder = (await session_of(call, call.reader(agent), session, project)).cwd
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


async def played_sessions(call: Call, arguments: Arguments) -> Record:
    """The sessions that can be played back, newest first."""
    return success(**await list_sessions(call, arguments))


async def load(request: Request) -> Record:
    """A session's observations with playback times."""
    arguments, call = await _of_session(request), call_of(request)
    reader = await reading(call, named_agent(arguments))
    stored = await session_of(call, reader, arguments["sessionId"], arguments["project"])
    observations = await _observed_in(call, reader, stored, arguments.count("limit", MAX_OBSERVATIONS))
    (session,) = await session_records(call, reader, [view(stored)])
    times_ms = [to_ms(observation["occurred_at"]) for observation in observations]
    return success(session=session, timeline=film(session, times_ms, list(map(observation_record, observations))))


async def _of_session(request: Request) -> Arguments:
    """The request about a session, with the session's project."""
    arguments = read_query(request, {"properties": REQUESTS["GET replay/load"]["properties"]})
    session = arguments.chosen("sessionId")
    if session is None:
        raise BadArgument("sessionId required", "sessionId")  # clients match this text
    home = await home_of(request, session)
    return arguments | {"project": home.project if home else None}


async def observations(call: Call, arguments: Arguments) -> Record:
    """memory_observations: a session's observations, oldest first."""
    limit = max(1, min(MAX_OBSERVATIONS, int(arguments["limit"] or MAX_OBSERVATIONS)))
    try:
        session = await one_session(call, arguments)
    except NotFound:
        return {"observations": []}
    observed = await _observed_in(call, call.reader(named_agent(arguments)), session, limit)
    return {"observations": list(map(observation_record, observed))}


async def _observed_in(call: Call, reader: Reader, session: Session, limit: int) -> list[Record]:
    """What was observed in a session, oldest first."""
    page = await call.queries.sessions.observations(reader, session.session_id, session.project, None, limit)
    return sorted(page.items, key=lambda observation: observation["occurred_at"])


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
        **renamed(observation, "id sessionId ts=timestamp"),
        "offsetMs": offset_ms,
        "durationMs": duration_ms,
        "kind": _KINDS.get(observation["hookType"], "hook"),
        "label": (observation["title"] or observation["hookType"])[:LABEL_CHARS],
        **{name: value for name, value in optional.items() if value is not None},
    }
