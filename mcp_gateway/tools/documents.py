"""Full documents by id. Loads the index, so it is imported only by calls."""

from collections.abc import Sequence
from typing import Any

from ingest.errors import NotFound
from ingest.kinds import SEARCHED_BY_PREFIX, SearchedKind
from mcp_gateway.tools.recalled_document import RecalledDocument
from mcp_gateway.tools.tool import Call
from projections.nouns.access import Reader
from projections.nouns.document import Searched
from projections.nouns.lesson import Lesson
from projections.nouns.observation import Observation
from projections.queries.views import in_view, view
from projections.text.accounts import headline, prose

DETAILS: dict[SearchedKind, Sequence[str]] = {
    "observation": ("files", "data"),
    "memory": ("tags", "files", "version", "superseded_by", "valid_until", "visibility", "shared_with"),
    "lesson": ("context", "tags", "retired_at"),
    "summary": ("decisions", "remaining", "files"),
}
"""Fields shown beside the content."""
USUAL: dict[str, Any] = {"version": 1, "visibility": "public"}
"""Values that are not shown."""


async def read_documents(call: Call, names: Sequence[str], reader: Reader) -> tuple[list[RecalledDocument], list[str]]:
    """The documents that the reader can see, in full, in the order of the names; and the other names."""
    located = await call.queries.lookup.documents(list(dict.fromkeys(names)), reader)
    documents = {str(hit.document.id): whole(hit.document) for hit in located if isinstance(hit.document, Searched)}
    return list(documents.values()), [name for name in dict.fromkeys(names) if name not in documents]


async def read_document(call: Call, name: str, reader: Reader) -> RecalledDocument:
    """One document in full; raises NotFound, also if the reader has no access."""
    documents, _ = await read_documents(call, [name], reader)
    if not documents:
        raise NotFound(f"there is no document {name!r}")
    return documents[0]


def whole(document: Searched) -> RecalledDocument:
    """A document in full: its texts, and the input and output of a tool call."""
    kind = SEARCHED_BY_PREFIX[document.id.partition("_")[0]]
    content, narrative, session_id, agent_id, project, occurred_at, metadata = in_view(document, _FIELDS)
    if isinstance(document, Observation):
        title, narrative = headline(document), prose(document)
    else:
        title = document.title
        if isinstance(document, Lesson):
            title = title or document.content.split("\n", 1)[0][:80]
    content = content or narrative or ""
    fields = view(document)
    details = {name: fields[name] for name in DETAILS[kind] if fields[name] and fields[name] != USUAL.get(name)}
    if "data" in details:
        details["data"] = {name: value for name, value in details["data"].items() if value != content}
    return RecalledDocument(
        id=document.id,
        kind=kind,
        title=title,
        content=content,
        details={name: value for name, value in details.items() if value},
        occurred_at=occurred_at,
        agent_id=agent_id or "",
        session_id=session_id or "",
        project=project,
        metadata=metadata or {},
    )


_FIELDS = ("content", "narrative", "session_id", "agent_id", "project", "occurred_at", "metadata")
