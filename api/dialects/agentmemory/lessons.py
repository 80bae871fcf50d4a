"""Lessons: listing, saying, finding, confirming and forgetting them."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import (
    Arguments,
    answered_by,
    door_of,
    endpoint,
    failed,
    needed,
    reply,
    succeeded,
    written_document,
)
from api.dialects.agentmemory.mcp import lessons as tools
from api.dialects.agentmemory.shapes import COUNT, LESSON, NAMES, NUMBER, TEXT, fields, listed, otherwise, outcome
from ingest.errors import NotFound
from ingest.roles import READ, READ_WRITE
from projections.documents.lessons import Lesson

NAMED = {"lessonId": TEXT, "agentId": TEXT}
LIST_LESSONS_FIELDS = {
    "project": TEXT,
    "source": TEXT,
    "minConfidence": otherwise(NUMBER, 0),
    "limit": otherwise(NUMBER, 50),
}
SAVE_FIELDS = {
    "content": TEXT,
    "context": TEXT,
    "confidence": NUMBER,
    "project": TEXT,
    "tags": NAMES,
    "agentId": TEXT,
}
SEARCH_FIELDS = {
    "query": TEXT,
    "project": TEXT,
    "minConfidence": otherwise(NUMBER, 0.1),
    "limit": otherwise(NUMBER, 10),
}


async def save(request: Request, arguments: Arguments) -> Response:
    """A new lesson (201), or a known one made stronger (200)."""
    answer = await tools.save(door_of(request), arguments)
    strengthened = isinstance(answer.data, dict) and answer.data["action"] == "strengthened"
    return reply(answer, 200 if strengthened else 201)


async def strengthen(request: Request, arguments: Arguments) -> Response:
    """Say that a lesson proved right again."""
    door = door_of(request)
    name, agent = needed(arguments, "lessonId"), arguments["agentId"] or ""
    caller = door.caller(agent)
    try:
        accepted = await door.operations.work.reinforce(name, door.reader(agent), caller)
    except NotFound:
        return failed("lesson not found")
    door.wrote(caller.agent_id, accepted.position)
    known = await written_document(door, name, agent)
    if known is None:
        return succeeded(lesson={"id": name})
    return succeeded(lesson=dialect.lesson(known, known["confidence"]))


async def delete(request: Request, arguments: Arguments) -> Response:
    """Forget a lesson, for good; said again, it is a new one."""
    door = door_of(request)
    name, agent = needed(arguments, "lessonId"), arguments["agentId"] or ""
    await door.caught_up(agent)
    reader, caller = door.reader(agent), door.caller(agent)
    found = await door.queries.browse.documents([name], reader)
    if not any(isinstance(one.document, Lesson) for one in found):
        return failed("lesson not found", 404)
    gone = await door.operations.forgetting.document(name, reader, caller, reason="lessons/delete")
    door.wrote(caller.agent_id, gone.position)
    return succeeded(deleted=gone.total)


SAVED = outcome({"action": {"enum": ["created", "strengthened"]}, "lesson": LESSON})
ENDPOINTS = [
    endpoint(
        "GET", "/agentmemory/lessons", READ, answered_by(tools.lessons), "The lessons, the surest first.", "S",
        faults={400: "A number is none."}, query=fields(LIST_LESSONS_FIELDS),
        answer=outcome({"lessons": listed(LESSON)}),
    ),
    endpoint(
        "POST", "/agentmemory/lessons", READ_WRITE, save, "Say a lesson; 200 when it was known and is stronger now.",
        "S", 201, faults={400: "The content is missing."}, body=fields(SAVE_FIELDS, ("content",)), answer=SAVED,
        answers={200: SAVED},
    ),
    endpoint(
        "POST", "/agentmemory/lessons/search", READ, answered_by(tools.search), "Lessons about a query.", "S",
        faults={400: "The query is missing."}, body=fields(SEARCH_FIELDS, ("query",)),
        answer=outcome({"lessons": listed(LESSON)}),
    ),
    endpoint(
        "POST", "/agentmemory/lessons/strengthen", READ_WRITE, strengthen, "Say that a lesson proved right again.", "S",
        faults={400: "The id is missing."}, body=fields(NAMED, ("lessonId",)), answer=outcome({"lesson": LESSON}),
    ),
    endpoint(
        "POST", "/agentmemory/lessons/delete", READ_WRITE, delete, "Forget a lesson.", "S",
        faults={400: "The id is missing.", 404: "There is no such lesson."}, body=fields(NAMED, ("lessonId",)),
        answer=outcome({"deleted": COUNT}),
    ),
]  # fmt: skip
