"""Lessons: listing, saving, finding, confirming and forgetting them."""

from starlette.responses import Response

from api.dialects.agentmemory.endpoints import MAX_LIMIT, Arguments, command, reading, written_document
from api.dialects.agentmemory.operations import failure, success
from api.dialects.agentmemory.records import Record, View, iso, renamed, without_empty
from api.http.http import Json
from ingest.commands.decide import RecordLesson
from ingest.errors import NotFound
from ingest.events.lesson import EVERY_PROJECT
from ingest.platform.clock import system_clock
from mcp_gateway.tools.tool import Call
from projections.documents.lessons import Lesson
from projections.queries.views import view

MAX_LESSONS = 1_000
USUAL_CONFIDENCE = 0.5
LESSON_CHARS = 240
_SOURCES = {"reflection": "consolidation"}


async def post_lesson(call: Call, arguments: Arguments) -> Response:
    """A new lesson (201), or a known one made stronger (200)."""
    record = await save_lesson(call, arguments)
    return Json(record, 200 if record["action"] == "strengthened" else 201)


async def post_strengthen(call: Call, arguments: Arguments) -> Record:
    """Confirm a lesson, which ranks it higher."""
    name, agent = arguments.needed("lessonId"), arguments["agentId"] or ""
    caller = call.caller(agent)
    try:
        accepted = await call.operations.work.reinforce(name, call.reader(agent), caller)
    except NotFound:
        return failure("lesson not found")
    call.wrote(caller.agent_id, accepted.position)
    document = await written_document(call, name, agent)
    return success(lesson={"id": name} if document is None else lesson_record(document, document["confidence"]))


async def delete_lesson(call: Call, arguments: Arguments) -> Record:
    """memory_lesson_delete: delete a lesson permanently."""
    name, agent = arguments.needed("lessonId"), arguments["agentId"] or ""
    reader, caller = await reading(call, agent), call.caller(agent)
    located = await call.queries.lookup.documents([name], reader)
    if not any(isinstance(entry.document, Lesson) for entry in located):
        return failure("lesson not found")
    forgotten = await call.operations.forgetting.document(name, reader, caller, reason="lessons/delete")
    call.wrote(caller.agent_id, forgotten.position)
    return success(deleted=forgotten.total)


async def list_lessons(call: Call, arguments: Arguments) -> Record:
    """memory_lessons: the surest ones."""
    reader, now = await reading(call), system_clock()
    source, limit = arguments.chosen("source"), arguments.count("limit", MAX_LESSONS)
    surest = await call.queries.lessons.surest(
        reader,
        arguments.chosen("project"),
        now,
        min_confidence=arguments["minConfidence"],
        limit=MAX_LESSONS if source else limit,
    )
    records = [lesson_record(view(lesson), lesson.confidence_at(now)) for lesson in surest]
    return success(lessons=[record for record in records if source in (None, record["source"])][:limit])


async def save_lesson(call: Call, arguments: Arguments) -> Record:
    """memory_lesson_save: a new lesson, or a known one made stronger."""
    content, stated, agent = arguments.needed("content"), arguments["confidence"], arguments["agentId"] or ""
    confidence = stated if stated is not None and 0 <= stated <= 1 else USUAL_CONFIDENCE
    lesson = command(
        RecordLesson,
        content=content,
        context=arguments["context"],
        project=arguments.chosen("project") or EVERY_PROJECT,
        confidence=float(confidence),
        tags=arguments["tags"],
        agent_id=agent,
    )
    accepted = await call.write(lesson)
    document = await written_document(call, accepted.id, agent)
    if document is None:
        record = {"id": accepted.id, "content": content, "context": lesson.context, "confidence": confidence}
        return success(action="created", lesson=record)
    action = "strengthened" if document["reinforcements"] else "created"
    return success(action=action, lesson=lesson_record(document, document["confidence"]))


async def search_lessons(call: Call, arguments: Arguments) -> Record:
    """memory_lesson_recall, memory_lesson_search: lessons about a query; with a project, of it alone."""
    reader, now = await reading(call), system_clock()
    hits = await call.queries.lessons.search(
        reader,
        arguments.needed("query"),
        arguments.chosen("project"),
        now,
        min_confidence=arguments["minConfidence"],
        limit=arguments.count("limit", MAX_LIMIT),
        everywhere=False,
    )
    records = [lesson_record(view(lesson), lesson.confidence_at(now), score) for lesson, score in hits]
    return success(lessons=records)


def lesson_record(learned: View, confidence: float, score: float | None = None) -> Record:
    """A lesson with what is left of its confidence; with its score, if it was searched for."""
    reinforced = learned["reinforcements"] > 0
    source = _SOURCES.get(learned["origin"], learned["origin"])
    record: Record = {
        **renamed(learned, "id content context"),
        "confidence": round(confidence, 3),
        "reinforcements": learned["reinforcements"],
        "source": source if source in ("crystal", "consolidation") else "manual",
        **renamed(learned, "sourceIds=derived_from tags createdAt=recorded_at updated_at"),
        "decayRate": 0.05,
    }
    optional = _project(learned) | (renamed(learned, "lastReinforcedAt=reinforced_at") if reinforced else {})
    return record | without_empty(optional) | ({} if score is None else {"score": score})


def lesson_hint(learned: View, confidence: float, score: float) -> Record:
    """A lesson beside search results."""
    text: str = learned["content"]
    return {
        "lessonId": learned["id"],
        "content": text if len(text) <= LESSON_CHARS else text[:LESSON_CHARS] + "…",
        "confidence": round(confidence, 3),
        "score": score,
        "createdAt": iso(learned["recorded_at"]),
        "tags": list(learned["tags"]),
        **without_empty(_project(learned)),
    }


def _project(learned: View) -> Record:
    return {"project": "" if learned["project"] == EVERY_PROJECT else learned["project"]}
