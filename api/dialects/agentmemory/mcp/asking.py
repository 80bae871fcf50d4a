"""What calls share: arguments made sure of, commands checked like any other, who acts, which session is meant."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected, NotFound, ReaderUnknown
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Door
from projections.documents.document import Document
from projections.documents.sessions import Session
from projections.queries.documents import Located
from projections.queries.views import view

C = TypeVar("C")
Arguments = Mapping[str, Any]
MAX_LIMIT = 100
"""Results of one search."""


def needed(arguments: Arguments, name: str) -> str:
    """A text that may not be blank."""
    value = arguments[name]
    if value is None or not value.strip():
        raise BadArgument(f"{name} is empty", name)
    return value


def count(arguments: Arguments, name: str, most: int, least: int = 1) -> int:
    """A number brought into its bounds."""
    return max(least, min(most, int(arguments[name])))


def chosen(arguments: Arguments, name: str) -> str | None:
    """A text, or None for a blank one."""
    value = arguments.get(name)
    return value if value and value.strip() else None


def command(cls: type[C], **fields: Any) -> C:
    """A command of these fields, those left out that are None; raises CommandRejected for one over its limits."""
    return parse_object({name: value for name, value in fields.items() if value is not None}, cls)


async def one_session(door: Door, arguments: Arguments) -> Located:
    """The session that `sessionId` names, own writes included; raises NotFound."""
    agent = arguments.get("agentId") or ""
    await door.caught_up(agent)
    return await door.queries.browse.session(
        door.reader(agent), needed(arguments, "sessionId"), chosen(arguments, "project")
    )


async def project_of(door: Door, session: str, agent: str) -> str:
    """The project of a session that the caller may see; empty for none, or where several have one of that id."""
    try:
        await door.caught_up(agent)
        located = await door.queries.browse.session(door.reader(agent), session, None)
    except (CommandRejected, NotFound, ReaderUnknown):
        return ""
    return session_of(located).project


def session_of(located: Located) -> Session:
    """The session that was located."""
    assert isinstance(located.document, Session)
    return located.document


async def written_document(door: Door, name: str, agent: str) -> dict[str, Any] | None:
    """A document that was just written, as readers get it; None when it is not projected in time, or nobody reads."""
    try:
        reader = door.reader(agent)
    except ReaderUnknown:  # it is stored all the same
        return None
    await door.caught_up(agent)
    found = await door.queries.browse.documents([name], reader)
    return view(found[0].document) if found else None


def views(found: list[Located]) -> dict[str, dict[str, Any]]:
    """Documents as readers get them, by id."""
    documents: list[Document] = [one.document for one in found]
    return {one.id: view(one) for one in documents}
