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
    shown_project,
)
from api.dialects.agent_memory.common import (
    LessonChanges,
    LessonsQuery,
    MatchQuery,
    NewLesson,
    context_of,
    listed,
    numbers,
    read_body,
    unprocessable,
)
from api.dialects.agent_memory.observations import MAX_RESULTS, observation_of, recalled
from api.dialects.agent_memory.records import completing, graver, name_of, wanted_project
from api.dialects.errors import parse_query, path_value
from api.http.http import Json
from ingest.commands.decide import RecordLesson, ReinforceLesson, ReviseLesson, TriggerLesson
from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected, NotFound
from ingest.events.lesson import EVERY_PROJECT
from ingest.ids import OBSERVATION
from ingest.patterns import compiled
from ingest.platform.clock import system_clock, to_ms
from mcp_gateway.tools.tool import Call, ToolAnswer, json_answer
from projections.documents.lessons import Lesson
from projections.documents.rows import joined
from projections.queries.recall import RecallRequest


async def create(request: Request) -> Response:
    """State a rule. One that was stated before is the same lesson, with what is said of it now."""
    wanted = await read_body(request, NewLesson)
    _check(wanted.rule, wanted.trigger_pattern)
    context = context_of(request)
    fields = {
        "project": name_of(wanted.project) if wanted.project else EVERY_PROJECT,
        "content": wanted.rule,
        "title": wanted.title[:LONGEST_TITLE],
        "severity": wanted.severity,
        "trigger_tool": wanted.trigger_tool or "",
        "trigger_pattern": wanted.trigger_pattern or "",
        "derived_from": await _source(context, wanted.source_observation_id),
    }
    stated = parse_object(fields, RecordLesson)
    name, known = await record(context, stated)
    await context.wait_for_own_writes()
    found = (await lessons_of(context, [name])).get(name, known)
    return Json((await _answers(context, [found or _unseen(name, stated, context.tenant)]))[0])


async def listing(request: Request) -> Response:
    """Lessons of a project, or of all: critical ones first, then warnings; the newest first of each."""
    wanted = parse_query(LessonsQuery, request)
    context = context_of(request)
    await context.wait_for_own_writes()
    found = await listed(request).rules(
        context.reader(), wanted_project(wanted.project), wanted.severity, active=wanted.active, limit=wanted.limit
    )
    return Json(await _answers(context, found))


async def match(request: Request) -> Response:
    """The lessons that speak up before a tool call, at most 5. It does not count as shown: see `trigger`."""
    wanted = parse_query(MatchQuery, request)
    context = context_of(request)
    found = await context.queries.lessons.match(
        context.reader(), wanted.tool_name, wanted.tool_input_preview, wanted_project(wanted.project)
    )
    known_as = await numbers(context, "lesson", [one.id for one in found])
    return Json([match_answer(*row) for row in zip(found, known_as, strict=True)])


async def patch(request: Request) -> Response:
    """Change a lesson. What is null stays as it is, so nothing can be taken away."""
    number = path_value(int, request, "id")
    changes = {
        name: value
        for name, value in (await read_body(request, LessonChanges)).model_dump().items()
        if value is not None
    }
    if not changes:
        raise HTTPException(400, "Nothing to update")
    _check(changes.get("rule"), changes.get("trigger_pattern"))
    context = context_of(request)
    await context.wait_for_own_writes()
    known = await _lesson(context, number)
    if known is None:
        raise NotFound("Lesson not found")
    if "rule" in changes:
        changes["content"] = changes.pop("rule")
    if "title" in changes:
        changes["title"] = changes["title"][:LONGEST_TITLE]
    await change(context, parse_object({**changes, "lesson": known.id, "project": known.project}, ReviseLesson))
    await context.wait_for_own_writes()
    found = (await lessons_of(context, [known.id])).get(known.id, known)
    return Json((await _answers(context, [found]))[0])


async def trigger(request: Request) -> Response:
    """Count that a lesson was shown; of one that there is not, nothing."""
    number = path_value(int, request, "id")
    context = context_of(request)
    known = await _lesson(context, number)
    if known is not None:
        await change(context, TriggerLesson(lesson=known.id, project=known.project))
    return Json(Triggered())


def _check(rule: str | None, pattern: str | None) -> None:
    if rule is not None and not rule.strip():
        raise unprocessable("the rule is empty", "rule", given=rule)
    try:
        compiled(pattern or "")
    except CommandRejected as fault:
        raise HTTPException(400, f"Invalid trigger_pattern: {fault.message}") from None


async def _source(context: Call, number: int | None) -> list[str]:
    """The observation that a lesson was learned from. Raises Unprocessable for one that there is not."""
    if number is None:
        return []
    await context.wait_for_own_writes()
    found = await observation_of(context, number)
    if found is None:
        raise unprocessable("there is no such observation", "source_observation_id", given=number)
    return [found.id]


async def _lesson(context: Call, number: int) -> Lesson | None:
    (name,) = await context.queries.numbers(context.tenant, "lesson").ids([number])
    return None if name is None else (await lessons_of(context, [name])).get(name)


async def _answers(context: Call, found: Sequence[Lesson]) -> list[LessonAnswer]:
    known_as = await numbers(context, "lesson", [one.id for one in found])
    projects = [one.project for one in found if shown_project(one)]
    project_numbers = dict(zip(projects, await numbers(context, "project", projects), strict=True))
    sources = [_learned_from(one) for one in found if _learned_from(one)]
    source_numbers = dict(zip(sources, await numbers(context, "observation", sources), strict=True))
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


async def create_lesson(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """State a rule. A rule that was stated before is the same lesson, with what is said of it now."""
    rule, project = arguments["rule"], arguments["project"] or EVERY_PROJECT
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
    name, known = await record(context, stated)
    (number,) = await numbers(context, "lesson", [name])
    return json_answer(
        {
            "saved": True,
            "id": number,
            "title": title or (known and known.title) or default_title(rule),
            "severity": graver(stated.severity, known.severity) if known else stated.severity,
            "project": arguments["project"] or None,
        }
    )


async def record(context: Call, stated: RecordLesson) -> tuple[str, Lesson | None]:
    """State a lesson so that it is as stated, and lasts.

    Returns its id, and what it was once it was recorded; None where that could not be seen in time.
    """
    accepted = await context.write(stated)
    await context.wait_for_own_writes()
    known = (await lessons_of(context, [accepted.id])).get(accepted.id)
    for command in completing(accepted.id, known, stated):
        await change(context, command)
    return accepted.id, known


async def change(context: Call, command: ReviseLesson | ReinforceLesson | TriggerLesson) -> None:
    """Change a lesson that exists."""
    caller = context.caller()
    context.wrote(caller.agent_id, (await context.commands.handle(command, caller)).position)


async def search_lessons(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """The rules about something that are in force: of a project and global ones, or all."""
    project = arguments["project"]
    request = RecallRequest(
        query=arguments["query"],
        projects=[project, EVERY_PROJECT] if project else [],
        kinds=["lesson"],
        limit=max(1, min(arguments["limit"], MAX_RESULTS)),
        ranking="rrf",
        recency_boost=False,
    )
    answer, _ = await recalled(context, request)
    known = await lessons_of(context, [one.id for one in answer.results])
    found = [(known[one.id], one.score) for one in answer.results if one.id in known]
    known_as = await numbers(context, "lesson", [one.id for one, _ in found])
    return json_rows([lesson_line(number, *one) for number, one in zip(known_as, found, strict=True)])


async def lessons_of(context: Call, names: list[str]) -> dict[str, Lesson]:
    """Those that the reader may see, by id."""
    found = await context.queries.lookup.documents(names, context.reader())
    return {str(one.document.id): one.document for one in found if isinstance(one.document, Lesson)}
