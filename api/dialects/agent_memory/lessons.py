"""Lessons, for the REST API and the tools: made, listed, searched, matched with a tool call, changed, counted."""

from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import (
    LONGEST_TITLE,
    LessonAnswer,
    Triggered,
    default_title,
    json_rows,
    lesson_answer,
    lesson_line,
    match_answer,
)
from api.dialects.agent_memory.asking import asked, door, listed, numbers, unprocessable
from api.dialects.agent_memory.bodies import LessonChanges, LessonsQuery, MatchQuery, NewLesson
from api.dialects.agent_memory.observations import MAX_RESULTS, observation_of, recalled
from api.dialects.agent_memory.records import completing, graver, name_of, wanted_project
from api.dialects.agent_memory.tools import json_line
from api.dialects.detail import parse_query, path_value
from api.http.http import Json
from ingest.commands.parse import parse_object
from ingest.commands.requests import RecordLesson, ReinforceLesson, ReviseLesson, TriggerLesson
from ingest.errors import CommandRejected, NotFound
from ingest.ids import OBSERVATION
from ingest.patterns import compiled
from ingest.platform.clock import system_clock, to_ms
from mcp_gateway.tools.tool import Answer, Door, ToolCalls
from projections.documents.lessons import Lesson
from projections.documents.rows import joined
from projections.queries import RecallRequest

GLOBAL = ""
"""The project of lessons that concern every project."""


async def create(request: Request) -> Response:
    """State a rule. One that was stated before is the same lesson, with what is said of it now."""
    asked_for = await asked(request, NewLesson)
    _check(asked_for.rule, asked_for.trigger_pattern)
    through = door(request)
    fields = {
        "project": name_of(asked_for.project) if asked_for.project else GLOBAL,
        "content": asked_for.rule,
        "title": asked_for.title[:LONGEST_TITLE],
        "severity": asked_for.severity,
        "trigger_tool": asked_for.trigger_tool or "",
        "trigger_pattern": asked_for.trigger_pattern or "",
        "derived_from": await _source(through, asked_for.source_observation_id),
    }
    stated = parse_object(fields, RecordLesson)
    name, known = await record(through, stated)
    await through.caught_up()
    found = (await lessons_of(through, [name])).get(name, known)
    return Json((await _answers(through, [found or _unseen(name, stated, through.tenant)]))[0])


async def listing(request: Request) -> Response:
    """Lessons of a project, or of all: critical ones first, then warnings; the newest first of each."""
    asked_for = parse_query(LessonsQuery, request)
    through = door(request)
    await through.caught_up()
    found = await listed(request).rules(
        through.reader(),
        wanted_project(asked_for.project),
        asked_for.severity,
        active=asked_for.active,
        limit=asked_for.limit,
    )
    return Json(await _answers(through, found))


async def match(request: Request) -> Response:
    """The lessons that speak up before a tool call, at most 5. It does not count as shown: see `trigger`."""
    asked_for = parse_query(MatchQuery, request)
    through = door(request)
    found = await through.queries.lessons.match(
        through.reader(), asked_for.tool_name, asked_for.tool_input_preview, wanted_project(asked_for.project)
    )
    known_as = await numbers(through, "lesson", [one.id for one in found])
    return Json([match_answer(*row) for row in zip(found, known_as, strict=True)])


async def patch(request: Request) -> Response:
    """Change a lesson. What is null stays as it is, so nothing can be taken away."""
    number = path_value(int, request, "id")
    changes = {
        name: value for name, value in (await asked(request, LessonChanges)).model_dump().items() if value is not None
    }
    if not changes:
        raise HTTPException(400, "Nothing to update")
    _check(changes.get("rule"), changes.get("trigger_pattern"))
    through = door(request)
    await through.caught_up()
    known = await _lesson(through, number)
    if known is None:
        raise NotFound("Lesson not found")
    if "rule" in changes:
        changes["content"] = changes.pop("rule")
    if "title" in changes:
        changes["title"] = changes["title"][:LONGEST_TITLE]
    await change(through, parse_object({**changes, "lesson": known.id, "project": known.project}, ReviseLesson))
    await through.caught_up()
    found = (await lessons_of(through, [known.id])).get(known.id, known)
    return Json((await _answers(through, [found]))[0])


async def trigger(request: Request) -> Response:
    """Count that a lesson was shown; of one that there is not, nothing."""
    number = path_value(int, request, "id")
    through = door(request)
    known = await _lesson(through, number)
    if known is not None:
        await change(through, TriggerLesson(lesson=known.id, project=known.project))
    return Json(Triggered())


def _check(rule: str | None, pattern: str | None) -> None:
    if rule is not None and not rule.strip():
        raise unprocessable("the rule is empty", "rule", given=rule)
    try:
        compiled(pattern or "")
    except CommandRejected as fault:
        raise HTTPException(400, f"Invalid trigger_pattern: {fault.message}") from None


async def _source(through: Door, number: int | None) -> list[str]:
    """The observation that a lesson was learned from. Raises Unprocessable for one that there is not."""
    if number is None:
        return []
    await through.caught_up()
    found = await observation_of(through, number)
    if found is None:
        raise unprocessable("there is no such observation", "source_observation_id", given=number)
    return [found.id]


async def _lesson(through: Door, number: int) -> Lesson | None:
    (name,) = await through.queries.browse.numbers(through.tenant, "lesson").ids([number])
    return None if name is None else (await lessons_of(through, [name])).get(name)


async def _answers(through: Door, found: Sequence[Lesson]) -> list[LessonAnswer]:
    known_as = await numbers(through, "lesson", [one.id for one in found])
    projects = [one.project for one in found if one.project]
    project_numbers = dict(zip(projects, await numbers(through, "project", projects), strict=True))
    sources = [_learned_from(one) for one in found if _learned_from(one)]
    source_numbers = dict(zip(sources, await numbers(through, "observation", sources), strict=True))
    return [
        lesson_answer(one, number, project_numbers.get(one.project), source_numbers.get(_learned_from(one)))
        for one, number in zip(found, known_as, strict=True)
    ]


def _learned_from(one: Lesson) -> str:
    return next((source for source in one.sources if source.startswith(f"{OBSERVATION}_")), "")


def _unseen(name: str, stated: RecordLesson, tenant: str) -> Lesson:
    """A lesson that was recorded and cannot be read yet."""
    return Lesson(
        id=name,
        tenant=tenant,
        project=stated.project,
        title=stated.title,
        content=stated.content,
        severity=stated.severity,
        trigger_tool=stated.trigger_tool,
        trigger_pattern=stated.trigger_pattern,
        derived_from=joined(stated.derived_from),
        occurred_ms=to_ms(system_clock()),
    )


async def create_lesson(door: Door, arguments: dict[str, Any]) -> Answer:
    """State a rule. A rule that was stated before is the same lesson, with what is said of it now."""
    rule, project = arguments["rule"], arguments["project"] or GLOBAL
    if not rule.strip():
        raise CommandRejected("is empty", "rule")
    title = (arguments["title"] or "")[:LONGEST_TITLE]
    fields = {
        "project": project,
        "content": rule,
        "title": title,
        "severity": arguments["severity"],
        "trigger_tool": arguments["trigger_tool"] or "",
        "trigger_pattern": arguments["trigger_pattern"] or "",
    }
    stated = parse_object(fields, RecordLesson)
    name, known = await record(door, stated)
    (number,) = await numbers(door, "lesson", [name])
    return json_line(
        {
            "saved": True,
            "id": number,
            "title": title or (known and known.title) or default_title(rule),
            "severity": graver(stated.severity, known.severity) if known else stated.severity,
            "project": project or None,
        }
    )


async def record(door: Door, stated: RecordLesson) -> tuple[str, Lesson | None]:
    """State a lesson so that it is as stated, and lasts.

    Returns its id, and what it was once it was recorded; None where that could not be seen in time.
    """
    accepted = await door.write(stated)
    await door.caught_up()
    known = (await lessons_of(door, [accepted.id])).get(accepted.id)
    for command in completing(accepted.id, known, stated):
        await change(door, command)
    return accepted.id, known


async def change(door: Door, command: ReviseLesson | ReinforceLesson | TriggerLesson) -> None:
    """Change a lesson that exists."""
    caller = door.caller()
    door.wrote(caller.agent_id, (await door.commands.handle(command, caller)).position)


async def search_lessons(door: Door, arguments: dict[str, Any]) -> Answer:
    """The rules about something that are in force: of a project and global ones, or all."""
    project = arguments["project"]
    request = RecallRequest(
        query=arguments["query"],
        projects=[project, GLOBAL] if project else [],
        kinds=["lesson"],
        limit=max(1, min(arguments["limit"], MAX_RESULTS)),
        ranking="rrf",
        recency_boost=False,
    )
    answer, _ = await recalled(door, request)
    known = await lessons_of(door, [one.id for one in answer.results])
    found = [(known[one.id], one.score) for one in answer.results if one.id in known]
    known_as = await numbers(door, "lesson", [one.id for one, _ in found])
    return json_rows([lesson_line(number, *one) for number, one in zip(known_as, found, strict=True)])


async def lessons_of(door: Door, names: list[str]) -> dict[str, Lesson]:
    """Those that the reader may see, by id."""
    found = await door.queries.browse.documents(names, door.reader())
    return {str(one.document.id): one.document for one in found if isinstance(one.document, Lesson)}


TOOL_CALLS: ToolCalls = {"create_lesson": create_lesson, "search_lessons": search_lessons}
