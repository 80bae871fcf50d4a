"""Lessons: listing, saving, finding them."""

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import MAX_LIMIT, Arguments, chosen, command, count, needed, written_document
from api.dialects.agentmemory.mcp.answers import succeeded
from ingest.commands.requests import RecordLesson
from ingest.platform.clock import system_clock
from mcp_gateway.tools.tool import Answer, Door
from projections.queries.views import view

MAX_LESSONS = 1_000
USUAL_CONFIDENCE = 0.5


async def lessons(door: Door, arguments: Arguments) -> Answer:
    """memory_lessons: the surest ones."""
    await door.caught_up()
    now, source, limit = system_clock(), chosen(arguments, "source"), count(arguments, "limit", MAX_LESSONS)
    known = await door.queries.lessons.surest(
        door.reader(),
        chosen(arguments, "project"),
        now,
        min_confidence=arguments["minConfidence"],
        limit=MAX_LESSONS if source else limit,
    )
    told = [dialect.lesson(view(one), one.confidence_at(now)) for one in known]
    return succeeded(lessons=[one for one in told if source in (None, one["source"])][:limit])


async def save(door: Door, arguments: Arguments) -> Answer:
    """memory_lesson_save: a new lesson, or a known one made stronger."""
    content, stated, agent = needed(arguments, "content"), arguments["confidence"], arguments["agentId"] or ""
    confidence = stated if stated is not None and 0 <= stated <= 1 else USUAL_CONFIDENCE
    lesson = command(
        RecordLesson,
        content=content,
        context=arguments["context"],
        project=arguments["project"],
        confidence=float(confidence),
        tags=arguments["tags"],
        agent_id=agent,
    )
    accepted = await door.write(lesson)
    known = await written_document(door, accepted.id, agent)
    if known is None:
        told = {"id": accepted.id, "content": content, "context": lesson.context, "confidence": confidence}
        return succeeded(action="created", lesson=told)
    action = "strengthened" if known["reinforcements"] else "created"
    return succeeded(action=action, lesson=dialect.lesson(known, known["confidence"]))


async def search(door: Door, arguments: Arguments) -> Answer:
    """memory_lesson_recall, memory_lesson_search: lessons about a query; with a project, of it alone."""
    await door.caught_up()
    now = system_clock()
    found = await door.queries.lessons.search(
        door.reader(),
        needed(arguments, "query"),
        chosen(arguments, "project"),
        now,
        min_confidence=arguments["minConfidence"],
        limit=count(arguments, "limit", MAX_LIMIT),
        everywhere=False,
    )
    return succeeded(lessons=[dialect.lesson(view(one), one.confidence_at(now), score) for one, score in found])
