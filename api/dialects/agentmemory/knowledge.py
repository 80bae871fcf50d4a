"""What is made of what was seen: the graph, facts, procedures, crystals, insights, profiles; and timelines."""

import re
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.answers import answer
from api.dialects.agentmemory.condensing import reflect
from api.dialects.agentmemory.endpoints import Arguments, call_of, reply, success
from api.dialects.agentmemory.records import Record, View, iso, renamed, without_empty
from api.dialects.session_projects import home_of
from api.http.http import Json
from ingest.platform.clock import system_clock
from mcp_gateway.tools.tool import ToolAnswer, ToolContext
from projections.condensing import claims
from projections.condensing.profile import Profile
from projections.documents.actions import is_dropped
from projections.queries import lookup
from projections.queries.views import view

MAX_LISTED = 500
_TIMES = "createdAt=recorded_at updated_at"
_STEP = re.compile(r"^\d+\. (.*)$")


async def semantic(request: Request, arguments: Arguments) -> Response:
    """What sessions state, or one decided."""
    kept = await _tagged(call_of(request), arguments, claims.FACT, claims.CONSOLIDATED)
    found = list(map(fact_record, kept))
    return Json({"semantic": found, "items": found, "total": len(found)})


async def procedural(request: Request, arguments: Arguments) -> Response:
    """How things are done, as several memories say."""
    found = [
        procedure_record(one)
        for one in await _tagged(call_of(request), arguments, claims.PROCEDURE, claims.CONSOLIDATED)
    ]
    return Json({"procedural": found, "items": found, "total": len(found)})


async def crystals(request: Request, arguments: Arguments) -> Response:
    """What chains of finished actions came to; of a session, its own and those it has actions of."""
    call = call_of(request)
    kept = await _tagged(call, arguments | {"limit": MAX_LISTED}, claims.CRYSTAL)
    learned = await call.queries.lessons.surest(call.reader(), None, system_clock(), source="crystal", limit=MAX_LISTED)
    lessons = list(map(view, learned))
    found = [crystal_record(one, lessons) for one in kept]
    if session := arguments["sessionId"]:
        names = list(dict.fromkeys(name for one in found for name in one["sourceActionIds"]))
        known = await call.queries.lookup.documents(names, call.reader())
        in_session = {one.document.id for one in known if getattr(one.document, "session_id", "") == session}
        found = [
            one for one in found if one.get("sessionId") == session or in_session.intersection(one["sourceActionIds"])
        ]
    return success(crystals=found[: arguments.count("limit", MAX_LISTED)], total=len(found))


async def get_profile(request: Request, arguments: Arguments) -> Response:
    """What a project is like; without one, which projects there are."""
    call = call_of(request)
    if arguments.chosen("project") is not None:
        return reply(await profile(call, arguments))
    await call.wait_for_own_writes()
    return success(projects=await _projects(call))


async def post_reflect(request: Request, arguments: Arguments) -> Response:
    """Insights of a project; with a session, the slots brought up to date with that."""
    if session := arguments.chosen("sessionId"):
        home = await home_of(request, session)
        arguments = arguments | {"project": home.project if home else arguments["project"]}
    return reply(await reflect(call_of(request), arguments))


async def _tagged(call: ToolContext, arguments: Arguments, *tags: str) -> list[dict[str, Any]]:
    """The newest memories that have all of these tags, of the project that is named or of all."""
    await call.wait_for_own_writes()
    limit, project = arguments.count("limit", MAX_LISTED), arguments.chosen("project")
    found = await call.queries.lookup.found(
        lookup.latest, call.reader(), project, limit, kinds=["memory"], tags=list(tags)
    )
    return list(map(view, found))


async def _projects(call: ToolContext) -> list[str]:
    return [name for name in await call.queries.lookup.projects(call.reader()) if name]


async def profile(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_profile: in an object of its own, and flat."""
    await call.wait_for_own_writes()
    reader, project = call.reader(), arguments.needed("project")
    known, cached = await call.queries.profiles.of(reader, project, refresh=bool(arguments["refresh"]))
    if known is None:
        return answer({"profile": None, "reason": "no_sessions"})
    record = profile_record(known)
    return answer({**record, "profile": record, "cached": cached})


def fact_record(kept: View) -> Record:
    """A fact: a memory of what summaries of sessions state, by one of them if it was decided there."""
    return {
        "id": kept["id"],
        "fact": kept["content"],
        "confidence": round(kept["importance"] / 10, 3),
        "sourceSessionIds": [name for name in kept["derived_from"] if name.startswith("sum_")],
        "sourceMemoryIds": [name for name in kept["derived_from"] if name.startswith("mem_")],
        "strength": kept["importance"],
        "project": kept["project"],
        **renamed(kept, _TIMES),
    }


def procedure_record(kept: View) -> Record:
    """A procedure: a memory whose first line names it, and whose others are its steps."""
    name, *lines = kept["content"].split("\n")
    return {
        "id": kept["id"],
        "name": name,
        "steps": [found[1] for line in lines if (found := _STEP.match(line))],
        "triggerCondition": "",
        "frequency": len(kept["derived_from"]),
        "sourceMemoryIds": list(kept["derived_from"]),
        "strength": kept["importance"],
        **renamed(kept, "project"),
        **renamed(kept, _TIMES),
    }


def crystal_record(kept: View, lessons: Iterable[View] = ()) -> Record:
    """A crystal: a memory of finished actions; `lessons` are those that may have been drawn from the same actions."""
    narrative, *outcomes = kept["content"].split("\n- ")
    if not outcomes:  # of each action a line
        lines = kept["content"].split("\n")
        narrative = " ".join(lines)
        outcomes = [line for line in lines if not is_dropped(line.rpartition(": ")[2].rstrip("."))]
    actions = set(kept["references"])
    return {
        "id": kept["id"],
        "narrative": narrative,
        "keyOutcomes": outcomes,
        **renamed(kept, "filesAffected=files"),
        "lessons": [
            one["content"] for one in lessons if one["derived_from"] and actions.issuperset(one["derived_from"])
        ],
        **renamed(kept, "sourceActionIds=references project createdAt=recorded_at"),
        **without_empty(renamed(kept, "session_id")),
    }


def profile_record(known: Profile) -> Record:
    """A project's profile."""
    return {
        "project": known.project,
        "updatedAt": iso(known.updated_at),
        "topConcepts": [{"concept": name, "frequency": count} for name, count in known.concepts],
        "topFiles": [{"file": name, "frequency": count} for name, count in known.files],
        "conventions": list(known.conventions),
        "commonErrors": list(known.errors),
        "recentActivity": list(known.recent_activity),
        "preferences": list(known.preferences),
        "sessionCount": known.session_count,
        "totalObservations": known.total_observations,
    }
