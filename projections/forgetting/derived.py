"""What becomes of documents that were made of others when some of those are forgotten.

A document stays as long as sources that are left say it, word for word; then it names these alone. A memory that the
server put together loses what only the forgotten said. Everything else that was derived from the forgotten goes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from ingest.ids import DocumentId
from projections.compression.accounts import account
from projections.condensing.claims import (
    CRYSTAL,
    FACT,
    PROCEDURE,
    SAME_CLAIM,
    SERVER_TAGS,
    Remainder,
    confirmed,
    cut,
    reworded,
    sayers,
    says,
)
from projections.condensing.crystals import done_action, rules_of, told
from projections.condensing.summaries import is_made, observations_of
from projections.documents.actions import Action
from projections.documents.document import Document
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.relations import Relation
from projections.documents.sessions import SESSION, SUMMARY, Session, Summary
from projections.queries.documents import DocumentReader

Derived: TypeAlias = Memory | Lesson | Relation
Find: TypeAlias = Callable[[Sequence[str]], Awaitable[list[Document]]]
"""Returns those of the documents that are there."""


class Verdict(Struct, frozen=True):
    """What is left of a derived document; None for nothing."""

    document: Derived
    left: Remainder | None

    @property
    def is_whole(self) -> bool:
        """Whether the document stays as it is, with fewer sources."""
        return self.left is not None and self.left.content == _content(self.document)

    @property
    def taken(self) -> list[str]:
        """The sources that it is derived from no more."""
        return [one for one in sources_of(self.document) if self.left is None or one not in self.left.sources]


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
        return bool(document.derived_from) and document.origin in (CRYSTAL, "reflection")
    return isinstance(document, Memory) and is_made(document)


class SourceTexts(Struct, frozen=True):
    """What sources say; `reduced` are those that do not say all that they did."""

    texts: dict[str, str]
    reduced: frozenset[str]


def verdict(document: Derived, said: SourceTexts) -> Verdict:
    """What is left of a document, given what those of its sources say that are there."""
    texts = {one: said.texts[one] for one in sources_of(document) if one in said.texts}
    if isinstance(document, Relation):  # a model read it out of all that a source said
        return Verdict(document, _left_of_relation(document, {one: texts[one] for one in texts.keys() - said.reduced}))
    return Verdict(document, _left(document, texts))


def _left_of_relation(relation: Relation, texts: Mapping[str, str]) -> Remainder | None:
    """A relation stays with the sources that name both of its ends."""
    ends = [end.partition(":")[2] for end in (relation.source, relation.target)]
    both = [one for one in relation.sources if one in texts and all(says(texts[one], end) for end in ends)]
    return Remainder("", both) if both else None


def _left(document: Memory | Lesson, texts: Mapping[str, str]) -> Remainder | None:
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


def _content(document: Derived) -> str:
    return "" if isinstance(document, Relation) else document.content


async def read_sources(
    documents: DocumentReader, find: Find, names: Sequence[str], is_gone: Callable[[Document], bool]
) -> SourceTexts:
    """What the documents of these names say; nothing of those that are not there, or are gone.

    A summary that tells of something that is gone says what is left of its session. `find` also finds what is retired.
    """
    found: dict[str, str] = {}
    summaries = [name for name in names if name.partition("_")[0] == SUMMARY]
    for one in await find([name for name in names if name not in summaries]):
        if not is_gone(one) and (said := _said_by(one)):
            found[one.id] = said
    reduced: set[str] = set()
    for name in summaries:
        found[name], whole = await _of_session(documents, name, is_gone)
        reduced |= {name} if not whole else set()
    return SourceTexts({name: said for name, said in found.items() if said}, frozenset(reduced))


async def _of_session(documents: DocumentReader, name: str, is_gone: Callable[[Document], bool]) -> tuple[str, bool]:
    """What a session's summary says, or else what is left of the session; and whether it is the summary."""
    session_name = DocumentId(f"{SESSION}_{name.partition('_')[2]}")
    located = await documents.find_all([session_name, DocumentId(name)])
    session = next((one.document for one in located if isinstance(one.document, Session)), None)
    summary = next((one.document for one in located if isinstance(one.document, Summary)), None)
    if session is None or is_gone(session):
        return "", False
    if summary is not None and not is_gone(summary):
        return _said_by(summary), True
    left = [one for one in await observations_of(documents, session) if not is_gone(one)]
    return "\n".join(_said_by(one) for one in left), False


def _said_by(document: Document) -> str:
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
            done = done_action(document)
            parts = [document.title, document.description, document.result, told(done), *rules_of(done)]
        case _:
            parts = []
    return "\n".join(part for part in parts if part)
