"""The native resources: what a user attaches to a conversation, or an agent reads by its address.

Nothing here loads the index before it is read: the stdio bridge lists resources without it.
"""

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

import mcp.types as types
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from ingest.commands.command import Name
from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected, NotFound
from ingest.names import marked
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.reading import ContextArguments, compiled_context, context_text
from mcp_gateway.tools.recalled import document_text
from mcp_gateway.tools.tool import ToolContext

MARKDOWN = "text/markdown"
PROJECTS_LISTED = 10
SESSIONS_LOOKED_AT = 100
"""The newest: the projects that were worked on lately are theirs."""
PROJECTS_ASKED, OF_A_PROJECT = 100, 5
"""Of a key that is for some projects, and sessions of each: some may not be the reader's to see."""

RESOURCES = (
    types.Resource(
        uri="mnemolog://projects",
        name="projects",
        title="Projects",
        description="The projects worked on lately, with the addresses of their contexts.",
        mime_type=MARKDOWN,
    ),
)
TEMPLATES = (
    types.ResourceTemplate(
        uri_template="mnemolog://projects/{project}/context",
        name="context",
        title="Context of a project",
        description="What to know before working on a project: memories, lessons, what came of its last sessions.",
        mime_type=MARKDOWN,
    ),
    types.ResourceTemplate(
        uri_template="mnemolog://documents/{id}",
        name="document",
        title="Document",
        description="A memory, lesson, observation or summary, whole. `recall` answers ids.",
        mime_type=MARKDOWN,
    ),
    types.ResourceTemplate(
        uri_template="mnemolog://sessions/{session_id}/summary{?project}",
        name="summary",
        title="Summary of a session",
        description="What came of a session. The project is needed where several have a session of that id.",
        mime_type=MARKDOWN,
    ),
)
_CONTEXT = re.compile(r"mnemolog://projects/(?P<project>[^/?#]+)/context")
_DOCUMENT = re.compile(r"mnemolog://documents/(?P<id>[^/?#]+)")
_SUMMARY = re.compile(r"mnemolog://sessions/(?P<session_id>[^/?#]+)/summary(\?project=(?P<project>[^&#]*))?")


class Address(Struct, frozen=True, kw_only=True):
    """What the variables of an address say."""

    id: Name = ""
    project: Name | None = None
    session_id: Name = ""


async def resource_text(call: ToolContext, uri: str) -> str:
    """What a resource says. Raises BadArgument, or MCPError where it is not there for whoever reads."""
    try:
        if uri == RESOURCES[0].uri:
            return await _projects(call)
        if found := _CONTEXT.fullmatch(uri):
            return await _context(call, _address(found).project or "")
        if found := _DOCUMENT.fullmatch(uri):
            return await _document(call, _address(found).id)
        if found := _SUMMARY.fullmatch(uri):
            return await _summary(call, _address(found))
    except NotFound:
        pass  # answered like an address of no such form
    except CommandRejected as error:
        raise BadArgument(error.message, error.field) from None
    raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri}", {"uri": uri})


async def contexts(call: ToolContext) -> Sequence[types.Resource]:
    """The contexts of the projects that were worked on lately."""
    await call.wait_for_own_writes()
    return [
        types.Resource(
            uri=context_uri(project),
            name=f"context of {' '.join(project.split())}",
            title=f"Context of {' '.join(project.split())}",
            description=f"Worked on last on {active}.",
            mime_type=MARKDOWN,
        )
        for project, active in await _recent_projects(call)
    ]


def context_uri(project: str) -> str:
    """The address of a project's context."""
    return f"mnemolog://projects/{quote(project, safe='')}/context"


def _address(found: re.Match[str]) -> Address:
    """Raises NotFound for what cannot be a name: no text, or too long."""
    named = {name: one for name, one in found.groupdict().items() if one is not None}
    try:
        return parse_object({name: unquote(one, errors="strict") for name, one in named.items()}, Address)
    except (UnicodeDecodeError, CommandRejected):
        raise NotFound(f"there is no {found[0]}") from None


async def _recent_projects(call: ToolContext) -> list[tuple[str, str]]:
    """Projects and the days on which something last happened there, as far as the reader may know, the latest first."""
    reader = call.reader()
    places = [(one, OF_A_PROJECT) for one in reader.key_scope.projects[:PROJECTS_ASKED]] or [(None, SESSIONS_LOOKED_AT)]
    pages = await asyncio.gather(
        *(call.queries.sessions.page(reader, project, None, limit) for project, limit in places)
    )
    newest: dict[str, str] = {}
    for one in sorted((one for page in pages for one in page.items), key=lambda one: one["updated_at"], reverse=True):
        newest.setdefault(one["project"], f"{one['updated_at']:%Y-%m-%d}")
    newest.pop("", None)
    return list(newest.items())[:PROJECTS_LISTED]


async def _projects(call: ToolContext) -> str:
    await call.wait_for_own_writes()
    lines = [
        f"- {' '.join(name.split())} (last on {active}): {context_uri(name)}"
        for name, active in await _recent_projects(call)
    ]
    if not lines:
        return "No session of a project is recorded yet that you may see."
    return "\n".join(marked("mnemolog-projects", lines))


async def _context(call: ToolContext, project: str) -> str:
    arguments = ContextArguments(project=project, agent_id=call.acting())
    compiled = await compiled_context(call, arguments)
    if not compiled.context and not compiled.left_out:
        raise NotFound(f"nothing is recorded of project {project!r}")
    return context_text(compiled, arguments)


async def _document(call: ToolContext, name: str) -> str:
    from mcp_gateway.tools.documents import read_document

    await call.wait_for_own_writes()
    return document_text(await read_document(call, name, call.reader()))


async def _summary(call: ToolContext, address: Address) -> str:
    from mcp_gateway.tools.documents import whole
    from projections.queries.views import view

    await call.wait_for_own_writes()
    reader, queries = call.reader(), call.queries
    located = await queries.sessions.one(reader, address.session_id, address.project)
    if summary := await queries.summaries.of_session(reader, located):
        return document_text(whole(summary))
    session = view(located.document)
    return (
        f"Session {session['id']} of project {session['project']} has no summary yet: it gets one when it has ended. "
        f"Status: {session['status']}, observations: {session['observation_count']}."
    )
