"""Lessons, for the REST API and the tools: made, listed, searched, matched with a tool call, changed, counted."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import convert
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agent_memory.answers import (
    LONGEST_TITLE,
    LessonAnswer,
    MatchAnswer,
    Triggered,
    default_title,
    json_rows,
    lesson_answer,
    lesson_line,
    lesson_project,
)
from api.dialects.agent_memory.common import (
    LessonChanges,
    LessonsQuery,
    MatchQuery,
    NewLesson,
    change,
    context_of,
    listed,
    numbers,
    unprocessable,
)
from api.dialects.agent_memory.observations import MAX_RESULTS, observation_of, recalled
from api.dialects.agent_memory.records import completing, graver, name_of, wanted_project
from api.dialects.errors import parse_query, path_value, read_model
from api.http.http import Json
from ingest.commands.decide import RecordLesson, ReviseLesson, TriggerLesson
from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected, NotFound
from ingest.kinds import OBSERVATION
from ingest.nouns.command import EVERY_PROJECT
from ingest.patterns import compiled
from ingest.platform.clock import system_clock, to_ms
from mcp_gateway.tools.tool import Call, ToolAnswer, json_answer
from projections.nouns.lesson import Lesson
from projections.nouns.rows import joined
from projections.queries.recall import RecallRequest


async def create(request: Request) -> Response:
    """State a rule. One that was stated before is the same lesson, with what is said of it now."""
    body = await read_model(NewLesson, request)
    _check(body.rule, body.trigger_pattern)
    context, sources = context_of(request), list[str]()
    if body.source_observation_id is not None:
        await context.wait_for_own_writes()
        source = await observation_of(context, body.source_observation_id)
        if source is None:
            number = body.source_observation_id
            raise unprocessable("there is no such observation", "source_observation_id", given=number)
        sources.append(source.id)
    stated = _stated(body.model_dump(), name_of(body.project) if body.project else "", sources)
    name, existing = await record(context, stated)
    await context.wait_for_own_writes()
    lesson = (await lessons_of(context, [name])).get(name, existing)
    return Json((await _answers(context, [lesson or _unprojected(name, stated, context.tenant)]))[0])


async def listing(request: Request) -> Response:
    """Lessons of a project, or of all: critical ones first, then warnings; the newest first of each."""
    query = parse_query(LessonsQuery, request)
    context = context_of(request)
    await context.wait_for_own_writes()
    rules = await listed(request).rules(
        context.reader(), wanted_project(query.project), query.severity, active=query.active, limit=query.limit
    )
    return Json(await _answers(context, rules))


async def match(request: Request) -> Response:
    """The lessons that speak up before a tool call, at most 5. It does not count as shown: see `trigger`."""
    query = parse_query(MatchQuery, request)
    context = context_of(request)
    lessons = await context.queries.lessons.match(
        context.reader(), query.tool_name, query.tool_input_preview, wanted_project(query.project)
    )
    ids = await numbers(context, "lesson", [lesson.id for lesson in lessons])
    answers = [lesson_answer(*row) for row in zip(lessons, ids, strict=True)]
    return Json([convert(answer, MatchAnswer, from_attributes=True) for answer in answers])


async def patch(request: Request) -> Response:
    """Change a lesson. What is null stays as it is, so nothing can be taken away."""
    number = path_value(int, request, "id")
    changes = (await read_model(LessonChanges, request)).model_dump(exclude_none=True)
    if not changes:
        raise HTTPException(400, "Nothing to update")
    _check(changes.get("rule"), changes.get("trigger_pattern"))
    context = context_of(request)
    await context.wait_for_own_writes()
    lesson = await _lesson(context, number)
    if lesson is None:
        raise NotFound("Lesson not found")
    if "rule" in changes:
        changes["content"] = changes.pop("rule")
    if "title" in changes:
        changes["title"] = changes["title"][:LONGEST_TITLE]
    await change(context, parse_object({**changes, "lesson": lesson.id, "project": lesson.project}, ReviseLesson))
    await context.wait_for_own_writes()
    revised = (await lessons_of(context, [lesson.id])).get(lesson.id, lesson)
    return Json((await _answers(context, [revised]))[0])


async def trigger(request: Request) -> Response:
    """Count that a lesson was shown; of one that there is not, nothing."""
    number = path_value(int, request, "id")
    context = context_of(request)
    lesson = await _lesson(context, number)
    if lesson is not None:
        await change(context, TriggerLesson(lesson=lesson.id, project=lesson.project))
    return Json(Triggered())


def _check(rule: str | None, pattern: str | None) -> None:
    if rule is not None and not rule.strip():
        raise unprocessable("the rule is empty", "rule", given=rule)
    try:
        compiled(pattern or "")
    except CommandRejected as error:
        raise HTTPException(400, f"Invalid trigger_pattern: {error.message}") from None


async def _lesson(context: Call, number: int) -> Lesson | None:
    (name,) = await context.queries.numbers(context.tenant, "lesson").ids([number])
    return None if name is None else (await lessons_of(context, [name])).get(name)


async def _answers(context: Call, lessons: Sequence[Lesson]) -> list[LessonAnswer]:
    ids = await numbers(context, "lesson", [lesson.id for lesson in lessons])
    projects = [lesson.project for lesson in lessons if lesson_project(lesson)]
    project_ids = dict(zip(projects, await numbers(context, "project", projects), strict=True))
    prefix = f"{OBSERVATION}_"
    sources = [next((name for name in lesson.sources if name.startswith(prefix)), "") for lesson in lessons]
    named = list(filter(None, sources))
    source_ids = dict(zip(named, await numbers(context, "observation", named), strict=True))
    return [
        lesson_answer(lesson, number, project_ids.get(lesson.project), source_ids.get(source))
        for lesson, number, source in zip(lessons, ids, sources, strict=True)
    ]


def _stated(given: Mapping[str, Any], project: str | None, sources: Sequence[str] = ()) -> RecordLesson:
    fields = {
        "project": project or EVERY_PROJECT,
        "content": given["rule"],
        "title": (given["title"] or "")[:LONGEST_TITLE],
        "severity": given["severity"],
        "trigger_tool": given["trigger_tool"] or "",
        "trigger_pattern": given["trigger_pattern"] or "",
        "derived_from": sources,
    }
    return parse_object(fields, RecordLesson)


def _unprojected(name: str, stated: RecordLesson, tenant: str) -> Lesson:
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
    if not arguments["rule"].strip():
        raise CommandRejected("is empty", "rule")
    stated = _stated(arguments, arguments["project"])
    name, existing = await record(context, stated)
    (number,) = await numbers(context, "lesson", [name])
    return json_answer(
        {
            "saved": True,
            "id": number,
            "title": stated.title or (existing and existing.title) or default_title(arguments["rule"]),
            "severity": graver(stated.severity, existing.severity) if existing else stated.severity,
            "project": arguments["project"] or None,
        }
    )


async def record(context: Call, stated: RecordLesson) -> tuple[str, Lesson | None]:
    """State a lesson so that it is as stated, and lasts.

    Returns its id, and what it was once it was recorded; None where that could not be seen in time.
    """
    accepted = await context.write(stated)
    await context.wait_for_own_writes()
    existing = (await lessons_of(context, [accepted.id])).get(accepted.id)
    for command in completing(accepted.id, existing, stated):
        await change(context, command)
    return accepted.id, existing


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
    lessons = await lessons_of(context, [hit.id for hit in answer.results])
    hits = [(lessons[hit.id], hit.score) for hit in answer.results if hit.id in lessons]
    ids = await numbers(context, "lesson", [lesson.id for lesson, _ in hits])
    return json_rows([lesson_line(number, *hit) for number, hit in zip(ids, hits, strict=True)])


async def lessons_of(context: Call, names: list[str]) -> dict[str, Lesson]:
    """Those that the reader may see, by id."""
    documents = [located.document for located in await context.queries.lookup.documents(names, context.reader())]
    return {str(document.id): document for document in documents if isinstance(document, Lesson)}
