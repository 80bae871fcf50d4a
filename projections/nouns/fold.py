"""The documents projection: a batch of events folded over the documents it touches. Pure.

Every step is harmless when repeated: an event whose document (or mark) exists already changes nothing, and a tombstone
stays a tombstone. So a redelivery, a retry after the log's dedup window and a replay all end with the same documents.

What a fold reads is known before it runs: documents by id, members of listings, and what those lead to. So
`store/protocol.py` loads it for the whole batch in a few round trips, not in one for each event.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from ingest.events.envelope import Recorded
from ingest.ids import DocumentId
from projections.nouns import batch
from projections.nouns import feedback as feedback
from projections.nouns import forgetting as forgetting  # both register folds; `document` imports those of the nouns
from projections.nouns.batch import RULES, FoldBatch
from projections.nouns.document import Document

VERSION = 13
"""Raise the version when the fold makes something else of an event, or texts get other index terms: workers then
rebuild the documents of older versions, and their index entries. `tests/compat/test_folds.py` fails if the result
changed and the version did not."""


DocumentChange: TypeAlias = batch.DocumentChange[Document]
Changes: TypeAlias = batch.Changes[Document]


def rebuild_due(folded_by: bytes | None) -> str:
    """Return why the documents of a generation need a rebuild; empty if this release's folds made them.

    `folded_by` is the version that the generation names; releases before version 9 named none.
    """
    if folded_by is not None and int(folded_by) == VERSION:
        return ""
    version = "an earlier release" if folded_by is None else f"version {int(folded_by)}"
    return f"rebuild due: documents were folded by {version}, this release folds {VERSION}"


def about(event: Recorded) -> list[str]:
    """Return the ids of the documents that an event is about, the one that it creates first."""
    return RULES[type(event.data)].about(event, event.data)


def documents_of(events: Iterable[Recorded]) -> set[DocumentId]:
    """The ids that a fold of these events may read, except those that listings and other documents lead to."""
    return {DocumentId(name) for event in events for name in RULES[type(event.data)].reads(event, event.data)}


def candidate_listings(events: Iterable[Recorded]) -> set[str]:
    """The listings whose members the fold of these events also reads: memories that a new one may supersede or follow,
    and the marks of what is to be forgotten."""
    return {name for event in events for name in RULES[type(event.data)].listings(event, event.data)}


def candidate_members(events: Iterable[Recorded], members: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The members of candidate listings whose documents the fold of these events reads, in order."""
    selected: dict[str, set[str]] = {}
    for event in events:
        rule = RULES[type(event.data)]
        wants = rule.wants(event, event.data)
        for name in rule.listings(event, event.data):
            selected.setdefault(name, set()).update(filter(wants, members.get(name, ())))
    return {name: sorted(some) for name, some in selected.items() if some}


def further_documents(events: Iterable[Recorded], loaded: Mapping[DocumentId, Document]) -> set[DocumentId]:
    """The ids that loaded documents lead to: later versions, and memories that were condensed together."""
    return {DocumentId(name) for event in events for name in RULES[type(event.data)].follows(event, event.data, loaded)}


def further_listings(events: Iterable[Recorded], loaded: Mapping[DocumentId, Document]) -> set[str]:
    """The listings that loaded documents lead to: marks of what is forgotten together with something else."""
    return {name for event in events for name in RULES[type(event.data)].further_listings(event, event.data, loaded)}


def fold(
    events: Iterable[Recorded], loaded: Mapping[DocumentId, Document], candidates: Mapping[str, Sequence[str]]
) -> Changes:
    """The changes that `events`, in log order, make to the `loaded` documents.

    `candidates` holds, by listing, what `candidate_members` keeps of `candidate_listings(events)`, and all members of
    `further_listings(events, loaded)`; `loaded` holds what exists of `documents_of(events)`, of what those members
    name, and of `further_documents(events, loaded)`.
    """
    folding = FoldBatch(loaded, candidates)
    for event in events:
        folding.tenant = event.envelope.tenant
        RULES[type(event.data)].apply(folding, event, event.data)
    # a batch knows no noun: what it was given, and what the folds of all nouns put, is of the types in `Document`
    return cast(Changes, folding.changes())
