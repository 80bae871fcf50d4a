"""The text of a document that search sees: all that was said, nothing that was derived from it."""

from collections.abc import Iterator
from typing import Any, cast

from projections.compression.data_urls import named
from projections.condensing.memex import without_prefix
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.summaries import Summary

MAX_DATA_CHARS = 100_000
"""Of a hook payload; a tool's output beyond that is bulk, not something to find."""


def searchable_text(document: Observation | Memory | Lesson | Summary) -> str:
    """What was said, for the lexical index and the embedding. Titles, facts and narratives repeat it, so stay out."""
    match document:
        case Observation():
            parts = [document.content, *(_texts(document.data) if document.data else ())]
        case Memory():
            content = without_prefix(document.content) if document.condensed else document.content
            parts = [content, *document.tags, *document.concepts, *document.files]
        case Lesson():
            parts = [document.title, document.content, document.context, *document.tag_list]
        case Summary():
            parts = [document.title, document.narrative, *document.decisions, *document.files, *document.concepts]
    return named("\n".join(part for part in parts if part))


def _texts(data: dict[str, Any]) -> Iterator[str]:
    """The strings in a JSON value, in order, up to MAX_DATA_CHARS altogether."""
    left = MAX_DATA_CHARS
    pending: list[Any] = [data]
    while pending and left > 0:
        node = pending.pop()
        if isinstance(node, str):
            yield node[:left]
            left -= len(node)
        elif isinstance(node, dict):
            pending.extend(reversed(list(cast(dict[str, Any], node).values())))
        elif isinstance(node, list | tuple):
            pending.extend(reversed(cast(list[Any], node)))
