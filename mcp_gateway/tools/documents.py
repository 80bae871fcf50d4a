"""Documents that recall finds, read whole by id. Loads the index, which listing the tools must not."""

from collections.abc import Sequence
from typing import Any

from ingest.errors import NotFound
from mcp_gateway.tools.recalled import Kind, RecalledDocument
from mcp_gateway.tools.tool import ToolContext
from projections.compression.accounts import headline, prose
from projections.documents.access import Reader
from projections.documents.document import Searched
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.sessions import Summary
from projections.queries.views import in_view, view

KINDS: dict[type[Searched], Kind] = {
    Observation: "observation", Memory: "memory", Lesson: "lesson", Summary: "summary",
}  # fmt: skip
DETAILS: dict[Kind, Sequence[str]] = {
    "observation": ("files", "data"),
    "memory": ("tags", "files", "version", "superseded_by", "visibility", "shared_with"),
    "lesson": ("context", "tags", "retired_at"),
    "summary": ("decisions", "remaining", "files"),
}
"""What is told of a document beside its content."""
USUAL: dict[str, Any] = {"version": 1, "visibility": "public"}
"""What goes without saying."""


async def read_documents(
    call: ToolContext, names: Sequence[str], reader: Reader
) -> tuple[list[RecalledDocument], list[str]]:
    """Those of the documents that are there for the reader, whole, in the order of the names; and the other names."""
    located = await call.queries.lookup.documents(list(dict.fromkeys(names)), reader)
    found = {str(one.document.id): whole(one.document) for one in located if isinstance(one.document, Searched)}
    return list(found.values()), [name for name in dict.fromkeys(names) if name not in found]


async def read_document(call: ToolContext, name: str, reader: Reader) -> RecalledDocument:
    """One document, whole; raises NotFound, also for what this reader may not see."""
    found, _ = await read_documents(call, [name], reader)
    if not found:
        raise NotFound(f"there is no document {name!r}")
    return found[0]


def whole(document: Searched) -> RecalledDocument:
    """All that a document says: its words, and of a tool call what went in and what came out."""
    kind = KINDS[type(document)]
    content, narrative, session_id, agent_id, project, occurred_at, metadata = in_view(document, _FIELDS)
    if isinstance(document, Observation):
        title, narrative = headline(document), prose(document)
    else:
        title = (
            document.title or document.content.split("\n", 1)[0][:80]
            if isinstance(document, Lesson)
            else document.title
        )
    content = content or narrative or ""
    known = view(document)
    details = {name: known[name] for name in DETAILS[kind] if known[name] and known[name] != USUAL.get(name)}
    if "data" in details:
        details["data"] = {name: one for name, one in details["data"].items() if one != content}
    return RecalledDocument(
        id=document.id,
        kind=kind,
        title=title,
        content=content,
        details={name: one for name, one in details.items() if one},
        occurred_at=occurred_at,
        agent_id=agent_id or "",
        session_id=session_id or "",
        project=project,
        metadata=metadata or {},
    )


_FIELDS = ("content", "narrative", "session_id", "agent_id", "project", "occurred_at", "metadata")
