"""Imports Claude Code transcripts from folders on the server that the settings allow.

Event ids are derived from the lines, so a repeated import stores nothing twice. The number of folder entries is
limited.
"""

import asyncio
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

from starlette.requests import Request

from api.dialects.agentmemory.endpoints import (
    Arguments,
    at_least_one,
    call_of,
    command,
    one_of,
    session_of,
    settings,
)
from api.dialects.agentmemory.knowledge import reflected, summarised
from api.dialects.agentmemory.operations import failure, success
from api.dialects.agentmemory.records import Record
from api.importing import claude_code
from api.importing.mapping import events_of
from api.importing.transcripts import AGENT, Conversation, brain, conversations, observed
from ingest.commands.decide import TrackSession
from ingest.commands.parse import check_values
from ingest.errors import AccessDenied, CommandRejected, MnemologError, NotFound, RequestTooLarge
from ingest.events.envelope import Event, route_of
from ingest.ids import DocumentId, EventId, document_id
from ingest.kinds import OBSERVATION
from ingest.log.position import partition_of
from ingest.nouns.observation import ObservationRecorded
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.nouns.access import EVERYBODY

CLAUDE_CODE = "~/.claude/projects"
MAX_FILES = 1_000
MAX_LOOKED_AT = 50_000
"""Entries of folders."""
MAX_LINE = 16 << 20
ROWS = 200
"""Mapped in a thread and appended at a time."""
MAX_SESSIONS_TOLD = 1_000


def _resolved(path: Path) -> Path:
    """The path with `..` and links resolved."""
    return path.expanduser().resolve()


def transcripts(location: Path) -> tuple[list[Path], bool]:
    """The transcripts below a folder, newest first, or the one that is named; and whether the search was cut short."""
    if location.is_file():
        return [location], False
    entries: list[tuple[float, Path]] = []
    looked_at, capped = 0, False
    for folder, _, names in os.walk(location):
        for name in names:
            looked_at += 1
            path = Path(folder, name)
            if name.endswith(".jsonl") and not path.is_symlink():
                entries.append((path.stat().st_mtime, path))
        if capped := looked_at >= MAX_LOOKED_AT:
            break
    entries.sort(key=lambda entry: (-entry[0], str(entry[1])))
    return [path for _, path in entries], capped


async def import_transcripts(request: Request, arguments: Arguments) -> Record:
    """Import transcripts."""
    at_least_one(arguments, "maxFiles")
    most, named = min(MAX_FILES, int(arguments["maxFiles"])), arguments.chosen("path")
    try:
        location = await asyncio.to_thread(_resolved, Path(named or CLAUDE_CODE))
    except (OSError, ValueError, RuntimeError) as error:  # too long, with a NUL, in the home of no user
        raise BadArgument(f"path cannot be resolved: {error}", "path") from None
    folders = await asyncio.to_thread(lambda: list(map(_resolved, settings(request).import_folders)))
    if not any(location.is_relative_to(folder) for folder in folders):
        raise AccessDenied(f"{named or CLAUDE_CODE} is not in a folder of MNEMOLOG_IMPORT_FOLDERS")
    if not await asyncio.to_thread(location.exists):
        return failure(f"there is nothing at {location}")
    files, capped = await asyncio.to_thread(transcripts, location)
    call, sessions = call_of(request), dict[str, None]()
    observations = 0
    for path in files[:most]:
        observations += await _take(call, path, sessions)
    return success(
        imported=len(files[:most]),
        observations=observations,
        sessionIds=list(islice(sessions, MAX_SESSIONS_TOLD)),
        discovered=len(files),
        truncated=len(files) > most,
        traversalCapped=capped,
        maxFiles=most,
        maxFilesUpperBound=MAX_FILES,
    )


async def _take(call: Call, path: Path, sessions: dict[str, None]) -> int:
    """Append the events of a transcript that are not there yet; returns how many of them are observations."""
    observations = 0
    events = _events(path, call.tenant)
    while some := await asyncio.to_thread(lambda: list(islice(events, ROWS))):
        fresh = await _without_stored(call, some)
        outcome = await call.commands.append_events(fresh)
        call.wrote(call.acting(), str(outcome.token))
        not_stored = {*outcome.repeated, *(index for index, _ in outcome.rejected)}
        observations += sum(
            isinstance(event.data, ObservationRecorded) and index not in not_stored for index, event in enumerate(fresh)
        )
        sessions.update(dict.fromkeys(event.envelope.session_id for event in some))
    return observations


async def _without_stored(call: Call, events: list[Event]) -> list[Event]:
    """The events without the observations that have a document: the log remembers an event's id only for a while."""
    documents = call.operations.current.documents
    observations = [event for event in events if isinstance(event.data, ObservationRecorded)]
    keys: list[tuple[int, DocumentId]] = []
    for event in observations:
        route = route_of(*event)
        name = document_id(OBSERVATION, route, EventId(event.envelope.event_id))
        keys.append((partition_of(route, documents.partitions), name))
    stored = await documents.get(keys)
    repeated = {id(event) for event, document in zip(observations, stored, strict=True) if document is not None}
    return [event for event in events if id(event) not in repeated]


def _events(path: Path, tenant: str) -> Iterator[Event]:
    with path.open("rb") as file:
        for _, row in claude_code.rows(_lines(file)):
            with suppress(CommandRejected):  # nothing in the line is stored, as with most lines of a transcript
                yield from events_of(claude_code.mapped(row), claude_code.SYSTEM, tenant)


def _lines(file: Iterable[bytes]) -> Iterator[claude_code.TranscriptLine]:
    for number, line in enumerate(file, 1):
        entry: Any = None
        if len(line) <= MAX_LINE:
            with suppress(ValueError, RecursionError, RequestTooLarge):
                check_values(line)
                entry = json.loads(line)
        of_claude = isinstance(entry, dict) and claude_code.is_one(cast(Record, entry))
        yield claude_code.TranscriptLine(number, entry if of_claude else None)


MODES = ("current_session", "current_folder", "all")
MAX_OBSERVATIONS = 5_000
REFLECTED = 50


async def sync(call: Call, arguments: Arguments) -> Record:
    """memory_antigravity_sync: turns that are not known yet become observations."""
    record, _ = await _synced(call, arguments)
    return record


async def sync_all(call: Call, arguments: Arguments) -> Record:
    """memory_antigravity_sync_all: and each session is summarised, and its slots brought up to date."""
    record, projects = await _synced(call, arguments)
    summaries: Record = {}
    reflections: Record = {}
    for session_id, project in projects.items():
        session = await session_of(call, call.reader(EVERYBODY), session_id, project)
        try:
            summaries[session_id] = {"success": True, "summary": await summarised(call, session)}
            reflections[session_id] = {"success": True, **await reflected(call, session, REFLECTED)}
        except MnemologError as error:
            summaries.setdefault(session_id, {"success": False, "error": str(error)})
            reflections.setdefault(session_id, {"success": False, "error": str(error)})
    return {**record, "crystallizations": summaries, "reflections": reflections}


async def _synced(call: Call, arguments: Arguments) -> tuple[Record, dict[str, str]]:
    """What was taken over, and the project of each session."""
    mode = one_of(arguments.chosen("mode") or MODES[0], MODES, "mode")
    only = ""
    if mode == "current_session":
        only = arguments.chosen("currentConversationId") or ""
        if not only:
            return _record({}, 0, "currentConversationId is needed for current_session"), {}
    folder = await asyncio.to_thread(lambda: brain(Path.home()))
    if not await asyncio.to_thread(folder.is_dir):
        return _record({}, 0, f"there is no folder {folder}"), {}
    candidates = await asyncio.to_thread(lambda: list(conversations(folder, only)))
    here = arguments.chosen("currentFolder") or ""
    if mode == "current_folder":
        if not here:
            return _record({}, 0, "currentFolder is needed for current_folder"), {}
        candidates = [candidate for candidate in candidates if candidate.folder.rstrip("/") == here.rstrip("/")]
    projects: dict[str, str] = {}
    added = 0
    for candidate in candidates:
        project = candidate.folder or here or str(Path.cwd())
        if candidate.turns:
            added += await _observe_new_turns(call, candidate, project)
            projects[candidate.session_id] = project
    await call.wait_for_own_writes(AGENT)
    return _record(projects, added), projects


async def _observe_new_turns(call: Call, conversation: Conversation, project: str) -> int:
    """Observe the turns that are new; returns how many."""
    session_id = conversation.session_id
    await call.wait_for_own_writes(AGENT)
    prompts: set[str] = set()  # those imported before
    with suppress(NotFound):
        page = await call.queries.sessions.observations(
            call.reader(EVERYBODY), session_id, project, None, MAX_OBSERVATIONS
        )
        inputs = [item["data"].get("tool_input") for item in page.items]
        prompts = {prompt for prompt in inputs if isinstance(prompt, str)}
    if not prompts:
        started = command(
            TrackSession, status="started", session_id=session_id, project=project, cwd=project, agent_id=AGENT
        )
        await call.write(started)
    added = 0
    for turn in conversation.turns:
        if turn.prompt in prompts:
            continue
        prompts.add(turn.prompt)
        observation = observed(session_id, project, turn.prompt, turn.response)
        added += not (await call.write(observation)).duplicate
    return added


def _record(projects: dict[str, str], added: int, error: str = "") -> Record:
    record: Record = {"success": not error, "syncedSessions": list(projects), "observationsAdded": added}
    return record | ({"error": error} if error else {})
