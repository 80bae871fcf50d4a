"""What agent-memory's tools for lessons do: create_lesson, search_lessons."""

from typing import TYPE_CHECKING, Any

from api.dialects.agent_memory.mcp import shapes
from api.dialects.agent_memory.mcp.observations import recalled
from ingest.commands.parse import parse_object
from ingest.commands.requests import RecordLesson, ReinforceLesson, ReviseLesson, TriggerLesson
from ingest.errors import CommandRejected
from mcp_gateway.tools.tool import Answer, Door

if TYPE_CHECKING:
    from projections.documents.lessons import Lesson

GLOBAL = ""
"""The project of lessons that concern every project."""


async def create_lesson(door: Door, arguments: dict[str, Any]) -> Answer:
    """State a rule. A rule that was stated before is the same lesson, with what is said of it now."""
    from api.dialects.agent_memory.records import graver

    rule, project = arguments["rule"], arguments["project"] or GLOBAL
    if not rule.strip():
        raise CommandRejected("is empty", "rule")
    title = (arguments["title"] or "")[: shapes.LONGEST_TITLE]
    fields = {
        "project": project,
        "content": rule,
        "title": title,
        "severity": arguments["severity"],
        "trigger_tool": arguments["trigger_tool"] or "",
        "trigger_pattern": arguments["trigger_pattern"] or "",
    }
    stated = parse_object(fields, RecordLesson)
    name, known = await state(door, stated)
    (number,) = await door.queries.browse.numbers(door.tenant, "lesson").numbers([name])
    return shapes.one_line(
        {
            "saved": True,
            "id": number,
            "title": title or (known and known.title) or shapes.default_title(rule),
            "severity": graver(stated.severity, known.severity) if known else stated.severity,
            "project": project or None,
        }
    )


async def state(door: Door, stated: RecordLesson) -> "tuple[str, Lesson | None]":
    """State a lesson so that it is as stated, and lasts.

    Returns its id, and what it was once it was recorded; None where that could not be seen in time.
    """
    from api.dialects.agent_memory.records import completing

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
    from projections.queries import RecallRequest

    project = arguments["project"]
    request = RecallRequest(
        query=arguments["query"],
        projects=[project, GLOBAL] if project else [],
        kinds=["lesson"],
        limit=max(1, min(arguments["limit"], shapes.MAX_RESULTS)),
        ranking="rrf",
        recency_boost=False,
    )
    answer, _ = await recalled(door, request)
    known = await lessons_of(door, [one.id for one in answer.results])
    found = [(known[one.id], one.score) for one in answer.results if one.id in known]
    numbers = await door.queries.browse.numbers(door.tenant, "lesson").numbers([one.id for one, _ in found])
    return shapes.listed([shapes.lesson_line(number, *one) for number, one in zip(numbers, found, strict=True)])


async def lessons_of(door: Door, names: list[str]) -> "dict[str, Lesson]":
    """Those that the reader may see, by id."""
    from projections.documents.lessons import Lesson

    found = await door.queries.browse.documents(names, door.reader())
    return {str(one.document.id): one.document for one in found if isinstance(one.document, Lesson)}
