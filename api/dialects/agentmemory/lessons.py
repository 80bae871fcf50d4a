"""Lessons: listing, saying, finding, confirming and forgetting them."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import (
    NAMES,
    NUMBER,
    TEXT,
    Properties,
    asked,
    asked_in_query,
    door,
    failed,
    otherwise,
    reply,
    succeeded,
)
from api.dialects.agentmemory.mcp import lessons as tools
from api.dialects.agentmemory.mcp.asking import needed, written_document
from api.dialects.agentmemory.shapes import COUNT, LESSON, fields, listed, outcome
from api.http.endpoint import Endpoint
from ingest.errors import NotFound
from ingest.roles import READ, READ_WRITE
from projections.documents.lessons import Lesson

NAMED = {"lessonId": TEXT, "agentId": TEXT}
LIST_LESSONS_FIELDS: Properties = {
    "project": TEXT,
    "source": TEXT,
    "minConfidence": otherwise(NUMBER, 0),
    "limit": otherwise(NUMBER, 50),
}
SAVE_FIELDS: Properties = {
    "content": TEXT,
    "context": TEXT,
    "confidence": NUMBER,
    "project": TEXT,
    "tags": NAMES,
    "agentId": TEXT,
}
SEARCH_FIELDS: Properties = {
    "query": TEXT,
    "project": TEXT,
    "minConfidence": otherwise(NUMBER, 0.1),
    "limit": otherwise(NUMBER, 10),
}


async def list_lessons(request: Request) -> Response:
    """The surest lessons."""
    return reply(await tools.lessons(door(request), asked_in_query(request, LIST_LESSONS_FIELDS)))


async def save(request: Request) -> Response:
    """A new lesson (201), or a known one made stronger (200)."""
    answer = await tools.save(door(request), await asked(request, SAVE_FIELDS, ("content",)))
    strengthened = isinstance(answer.data, dict) and answer.data["action"] == "strengthened"
    return reply(answer, 200 if strengthened else 201)


async def search(request: Request) -> Response:
    """Lessons about a query."""
    return reply(await tools.search(door(request), await asked(request, SEARCH_FIELDS, ("query",))))


async def strengthen(request: Request) -> Response:
    """Say that a lesson proved right again."""
    said, through = await asked(request, NAMED, ("lessonId",)), door(request)
    name, agent = needed(said, "lessonId"), said["agentId"] or ""
    caller = through.caller(agent)
    try:
        accepted = await through.operations.work.reinforce(name, through.reader(agent), caller)
    except NotFound:
        return failed("lesson not found")
    through.wrote(caller.agent_id, accepted.position)
    known = await written_document(through, name, agent)
    if known is None:
        return succeeded(lesson={"id": name})
    return succeeded(lesson=dialect.lesson(known, known["confidence"]))


async def delete(request: Request) -> Response:
    """Forget a lesson, for good; said again, it is a new one."""
    said, through = await asked(request, NAMED, ("lessonId",)), door(request)
    name, agent = needed(said, "lessonId"), said["agentId"] or ""
    await through.caught_up(agent)
    reader, caller = through.reader(agent), through.caller(agent)
    found = await through.queries.browse.documents([name], reader)
    if not any(isinstance(one.document, Lesson) for one in found):
        return failed("lesson not found", 404)
    gone = await through.operations.forgetting.document(name, reader, caller, reason="lessons/delete")
    through.wrote(caller.agent_id, gone.position)
    return succeeded(deleted=gone.total)


SAVED = outcome({"action": {"enum": ["created", "strengthened"]}, "lesson": LESSON})
ENDPOINTS = [
    Endpoint(
        "GET",
        "/agentmemory/lessons",
        READ,
        list_lessons,
        "The lessons, the surest first.",
        "S",
        faults={400: "A number is none."},
        query=fields(LIST_LESSONS_FIELDS),
        answer=outcome({"lessons": listed(LESSON)}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/lessons",
        READ_WRITE,
        save,
        "Say a lesson; 200 when it was known and is stronger now.",
        "S",
        201,
        faults={400: "The content is missing."},
        body=fields(SAVE_FIELDS, ("content",)),
        answer=SAVED,
        answers={200: SAVED},
    ),
    Endpoint(
        "POST",
        "/agentmemory/lessons/search",
        READ,
        search,
        "Lessons about a query.",
        "S",
        faults={400: "The query is missing."},
        body=fields(SEARCH_FIELDS, ("query",)),
        answer=outcome({"lessons": listed(LESSON)}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/lessons/strengthen",
        READ_WRITE,
        strengthen,
        "Say that a lesson proved right again.",
        "S",
        faults={400: "The id is missing."},
        body=fields(NAMED, ("lessonId",)),
        answer=outcome({"lesson": LESSON}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/lessons/delete",
        READ_WRITE,
        delete,
        "Forget a lesson.",
        "S",
        faults={400: "The id is missing.", 404: "There is no such lesson."},
        body=fields(NAMED, ("lessonId",)),
        answer=outcome({"deleted": COUNT}),
    ),
]
