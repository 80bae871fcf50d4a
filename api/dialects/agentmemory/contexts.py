"""What an agent should know: when it begins, before its window is compacted, before it touches files."""

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.endpoints import Arguments, chosen, door_of, needed, settings, success
from api.dialects.agentmemory.records import UNKNOWN_PROJECT
from api.http.http import Json
from ingest.errors import ProjectionBehind
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolContext
from projections.documents.access import Reader
from projections.queries.compile import ContextRequest
from projections.queries.context import estimated_tokens

MAX_TOKENS = 200_000
TAG, OUR_TAG = "agentmemory-context", "mnemolog-context"
LONGER_TOKENS = estimated_tokens(2 * (len(TAG) - len(OUR_TAG)) * " ")
"""What a context grows by when its tag is the one that agentmemory's clients know."""


class RenderedContext(NamedTuple):
    """A context, of how many blocks it is, and its tokens; an empty one when there is nothing to say."""

    context: str = ""
    blocks: int = 0
    tokens: int = 0


async def context_for(door: ToolContext, reader: Reader, session: str, project: str, budget: int) -> RenderedContext:
    """The context of a project for a session, within a budget of tokens; raises ProjectionBehind without an index."""
    room = max(1, min(MAX_TOKENS, budget) - LONGER_TOKENS)
    wanted = ContextRequest(project=project, session_id=session, token_budget=room)
    compiled = await door.queries.context(wanted, reader)
    if not compiled.context:
        return RenderedContext()
    inner = compiled.context.removeprefix(f"<{OUR_TAG}").removesuffix(f"</{OUR_TAG}>")
    text = f"<{TAG}{inner}</{TAG}>"
    return RenderedContext(text, len(compiled.blocks), estimated_tokens(text))


async def context(request: Request, arguments: Arguments) -> Response:
    """The context of a project within a budget."""
    session, project = needed(arguments, "sessionId"), chosen(arguments, "project") or UNKNOWN_PROJECT
    budget = settings(request).token_budget if arguments["budget"] is None else int(arguments["budget"])
    if budget < 1:
        raise BadArgument("budget must be at least 1", "budget")
    agent = chosen(arguments, "agentId") or request.query_params.get("agentId", "")
    door = door_of(request)
    await door.caught_up(agent)
    try:
        known = await context_for(door, door.reader(agent), session, project, budget)
    except ProjectionBehind as error:
        return Json({**RenderedContext()._asdict(), "degraded": [str(error)]})
    return Json(known._asdict())


async def enrich(request: Request, arguments: Arguments) -> Response:
    """What is known of files that are about to be touched."""
    session = needed(arguments, "sessionId")
    if not arguments["files"]:
        raise BadArgument("files must name at least one file", "files")
    door, agent = door_of(request), chosen(arguments, "agentId") or ""
    await door.caught_up(agent)
    known = await door.queries.around.enrich(
        door.reader(agent), session, arguments["files"], arguments["terms"] or [], arguments["toolName"] or "",
        chosen(arguments, "project"),
    )  # fmt: skip
    return Json({"context": known.context, "truncated": known.truncated})


async def bridge(request: Request) -> Response:
    """Hooks ask for this before they ask for a context; nothing has to be synchronised here."""
    return success(skipped=True, reason="memories are kept here and not in files")
