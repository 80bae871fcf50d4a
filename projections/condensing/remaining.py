"""Handles derived documents when some of their sources are deleted.

A document stays if the remaining sources state it word for word; it then names only these. A memory that the server
composed loses what only deleted sources stated. All other documents derived from the deleted sources are deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from ingest.ids import DocumentId
from ingest.kinds import SESSION, SUMMARY
from projections.condensing.crystals import outcome_of, rules_of
from projections.condensing.summaries import is_made, observations_of
from projections.nouns.action import Action
from projections.nouns.document import Document
from projections.nouns.lesson import Lesson
from projections.nouns.memory import CRYSTAL, FACT, PROCEDURE, SERVER_TAGS, Memory
from projections.nouns.observation import Observation
from projections.nouns.relation import Relation
from projections.nouns.session import Session, Summary
from projections.queries.documents import DocumentReader
from projections.text.accounts import account
from projections.text.claims import SAME_CLAIM, Remainder, confirmed, cut, reworded, sayers, says

Derived: TypeAlias = Memory | Lesson | Relation
Find: TypeAlias = Callable[[Sequence[str]], Awaitable[list[Document]]]
"""Returns those of the documents that are there."""


class Remaining(Struct, frozen=True):
    """What is left of a derived document; `left` is None if nothing is left."""

    document: Derived
    left: Remainder | None

    @property
    def is_whole(self) -> bool:
        """Whether the document stays as it is, with fewer sources."""
        content = "" if isinstance(self.document, Relation) else self.document.content
        return self.left is not None and self.left.content == content

    @property
    def taken(self) -> list[str]:
        """The sources that it is no longer derived from."""
        return [name for name in sources_of(self.document) if self.left is None or name not in self.left.sources]


def sources_of(document: Document) -> list[str]:
    """The documents that one was derived from."""
    match document:
        case Memory(derived_from=sources):
            return sources
        case Lesson() | Relation():
            return document.sources
        case _:
            return []


def is_derived_by_server(document: Document) -> bool:
    """Whether a document was made of others by the server: it can be made again of what is left."""
    if isinstance(document, Lesson):
        return bool(document.derived_from) and document.origin in (CRYSTAL, "reflection", "suggestion")
    return isinstance(document, Memory) and is_made(document)


async def remaining(
    reader: DocumentReader, find: Find, documents: Sequence[Derived], is_gone: Callable[[Document], bool]
) -> list[Remaining]:
    """What is left of each of these documents, given what those of their sources say that are there and not gone.

    For a summary of something that is gone, what is left of its session counts. `find` also finds what is retired.
    """
    names = list(dict.fromkeys(name for document in documents for name in sources_of(document)))
    summaries = [name for name in names if name.partition("_")[0] == SUMMARY]
    others = await find([name for name in names if name not in summaries])
    texts = {document.id: _text_of(document) for document in others if not is_gone(document)}
    reduced: set[str] = set()
    """Summaries that do not say all that they did."""
    for name in summaries:
        texts[name], is_whole = await _text_of_session(reader, name, is_gone)
        reduced |= {name} if not is_whole else set()
    texts = {name: text for name, text in texts.items() if text}
    return await asyncio.to_thread(
        lambda: [Remaining(document, _left(document, texts, reduced)) for document in documents]
    )


def _left(document: Derived, all_texts: Mapping[str, str], reduced: Collection[str]) -> Remainder | None:
    texts = {name: all_texts[name] for name in sources_of(document) if name in all_texts}
    if isinstance(document, Relation):
        # A relation stays with the sources that name both of its ends. A model read it out of all that a source said.
        ends = [end.partition(":")[2] for end in (document.source, document.target)]
        whole = [name for name in document.sources if name in texts and name not in reduced]
        both = [name for name in whole if all(says(texts[name], end) for end in ends)]
        return Remainder("", both) if both else None
    if not all(sayers(label, texts) for label in _labels(document)):
        return None
    if whole := confirmed(document.content, texts):
        return whole
    if not isinstance(document, Memory) or not is_made(document) or not document.is_latest or document.forget_after:
        return None
    if PROCEDURE in document.tags:  # steps that are missing make another procedure
        return None
    if FACT in document.tags:
        return reworded(document.content, texts, SAME_CLAIM)
    return cut(document.content, texts, heading=CRYSTAL not in document.tags)


def _labels(document: Memory | Lesson) -> list[str]:
    """What a document says beside its content, but for the tags that the server gives."""
    if isinstance(document, Lesson):
        labels = [*document.tag_list, document.title, document.context, document.trigger_pattern]
    else:
        title = "" if is_made(document) else document.title
        labels = [title, *document.tags, *document.concepts, *document.files, *document.metadata.values()]
    return [label for label in labels if label and label not in SERVER_TAGS and label not in document.content]


async def _text_of_session(reader: DocumentReader, name: str, is_gone: Callable[[Document], bool]) -> tuple[str, bool]:
    """What a session's summary says, or else what is left of the session; and whether it is the summary."""
    session_name = DocumentId(f"{SESSION}_{name.partition('_')[2]}")
    located = await reader.find_all([session_name, DocumentId(name)])
    session = next((row.document for row in located if isinstance(row.document, Session)), None)
    summary = next((row.document for row in located if isinstance(row.document, Summary)), None)
    if session is None or is_gone(session):
        return "", False
    if summary is not None and not is_gone(summary):
        return _text_of(summary), True
    observations = await observations_of(reader, session)
    return "\n".join(_text_of(observation) for observation in observations if not is_gone(observation)), False


def _text_of(document: Document) -> str:
    match document:
        case Observation():
            parts = [document.content, account(document), *document.concepts, *document.files]
        case Summary():
            parts = [document.title, document.narrative, *document.decisions, *document.remaining]
        case Memory():
            parts = [document.title, document.content, *document.concepts, *document.tags, *document.files]
        case Lesson():
            parts = [document.content, document.context, *document.tag_list]
        case Action():
            stated = [outcome_of(document), *rules_of(document)]
            parts = [document.title, document.description, document.result, *stated]
        case _:
            parts = []
    return "\n".join(part for part in parts if part)
