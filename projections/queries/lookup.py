"""What the index finds for a reader, around a moment, a word or a file; documents by id.

Functions of an index run in its thread.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ingest.errors import NotFound
from ingest.ids import DocumentId
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.condensing.enrichment import same_file
from projections.documents.access import Reader, may_read
from projections.documents.document import Document, Mark
from projections.documents.ledgers import Ledger
from projections.documents.sessions import Session
from projections.queries.documents import DocumentReader, Located
from projections.search.filters import bitmap, facet, ordinals
from projections.search.matching import best_first, by_words
from projections.search.ranking import terms
from projections.search.replica import IndexReplica
from projections.search.search import Filter, matches
from projections.search.service import ReplicaService

Place: TypeAlias = tuple[int, DocumentId]
"""Where a document is: its partition and its id."""
NameKind = Literal["project", "agent"]
LOOKED_AT = 2_000
"""The newest documents: among them every word is found, and files whose path is longer than the one asked for."""
SAID = 200
"""Of all documents, those that say a word best."""


def reach(reader: Reader, project: str | None = None, **narrowing: Any) -> Filter:
    """The filter for what a reader may find, narrowed as a Filter can be."""
    return Filter(
        tenant=reader.tenant,
        reader=reader.agent_id,
        only_agent=reader.only_agent,
        operator=reader.operator,
        within=reader.reach.projects,
        project=project,
        **narrowing,
    )


def newest(index: IndexReplica, documents: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The `count` documents recorded last, newest first; of equals the smallest id. Runs in the index thread."""
    recorded = index.recorded_ms.values[documents].astype(np.float64)
    return documents[best_first(index, documents, recorded, count)]


def names(index: IndexReplica, allowed: Filter, now_ms: int, kind: NameKind) -> list[tuple[str, int]]:
    """The projects or agents of the documents that a filter allows, by name, and how many documents each has. Runs in
    the index thread."""
    matching = matches(index, allowed, now_ms)
    counted = (
        (name, matching.intersection_cardinality(index.facets.of(facet(kind, name))))
        for name in index.facets.values(kind)
    )
    return sorted((name, count) for name, count in counted if count)


def places(index: IndexReplica, documents: NDArray[np.int64] | Sequence[int]) -> list[Place]:
    """Where these documents are, in the order given. Runs in the index thread."""
    return [(int(index.partition[ordinal]), DocumentId(index.ids[ordinal])) for ordinal in map(int, documents)]


def count(index: IndexReplica, allowed: Filter, now_ms: int) -> int:
    """How many documents a filter allows."""
    return len(matches(index, allowed, now_ms))


def latest(index: IndexReplica, allowed: Filter, now_ms: int, most: int) -> list[Place]:
    """The documents recorded last, newest first."""
    return places(index, newest(index, ordinals(matches(index, allowed, now_ms)), most))


def expired(index: IndexReplica, allowed: Filter, now_ms: int, most: int) -> list[Place]:
    """Documents whose time has run out, and that are still there."""
    documents = ordinals(matches(index, allowed, -1) & index.facets.of(facet("expiring", "yes")))
    return places(index, documents[index.expires_ms.values[documents] <= now_ms][:most])


def unimportant(index: IndexReplica, allowed: Filter, now_ms: int, most: int, importance: float) -> list[Place]:
    """Documents of at most this importance."""
    documents = ordinals(matches(index, allowed, now_ms))
    return places(index, documents[index.importance.values[documents] <= importance][:most])


def nearest(index: IndexReplica, allowed: Filter, now_ms: int, when_ms: int) -> list[Place]:
    """The document that happened nearest to a moment, of equals the smallest id; empty when there is none."""
    documents = ordinals(matches(index, allowed, now_ms))
    if not len(documents):
        return []
    away = np.abs(index.occurred_ms.values[documents] - when_ms)
    return places(index, sorted(documents[away == away.min()].tolist(), key=index.ids.__getitem__)[:1])


def around(
    index: IndexReplica, allowed: Filter, now_ms: int, anchor: str, when_ms: int, before: int, after: int
) -> tuple[list[Place], list[Place]]:
    """The documents that happened next before and next after an anchor (its id, its time), in the order of time.

    What happened in the same millisecond is ordered by id.
    """
    documents = ordinals(matches(index, allowed, now_ms))
    occurred = index.occurred_ms.values[documents]
    earlier = _closest(documents[occurred <= when_ms], when_ms - occurred[occurred <= when_ms], before + 1)
    later = _closest(documents[occurred >= when_ms], occurred[occurred >= when_ms] - when_ms, after + 1)
    key = (when_ms, anchor)
    ordered = sorted((int(index.occurred_ms.values[one]), index.ids[one], one) for one in {*earlier, *later})
    past = [one for at, name, one in ordered if (at, name) < key]
    future = [one for at, name, one in ordered if (at, name) > key]
    return places(index, past[len(past) - min(before, len(past)) :]), places(index, future[:after])


def saying(index: IndexReplica, allowed: Filter, now_ms: int, words: str, everywhere: bool) -> list[Place]:
    """Documents that say all of these words or are about that concept, newest first.

    All of the newest LOOKED_AT; `everywhere`, the best SAID of all instead.
    """
    matching = matches(index, allowed, now_ms)
    count = SAID
    if not everywhere:
        matching, count = bitmap(newest(index, ordinals(matching), LOOKED_AT)), LOOKED_AT
    found = set(matching & index.facets.of(facet("concept", words)))
    if asked := terms(words):
        found |= set(by_words(index, asked, allowed, matching, count, every=True))
    documents = np.array(sorted(found), np.int64)
    occurred = index.occurred_ms.values[documents]
    return places(index, documents[np.argsort(-occurred, kind="stable")])


def touching(
    index: IndexReplica, allowed: Filter, now_ms: int, files: Sequence[str], other_than: str, count: int
) -> Mapping[str, list[Place]]:
    """For each of these files the newest `count` documents that name it, but for those of a session.

    Shorter paths are found wherever they are, longer ones (`same_file`) among the newest LOOKED_AT.
    """
    matching = matches(index, allowed, now_ms)
    if other_than:
        matching -= index.facets.of(facet("session", other_than))
    found: dict[str, set[int]] = {
        file: set(matching & index.facets.any_of(facet("file", path) for path in _shorter(file))) for file in files
    }
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(_base(file), []).append(file)
    for ordinal in map(int, newest(index, ordinals(matching), LOOKED_AT)):
        for path in (key.removeprefix("file\x1f") for key in index.facets_of[ordinal] if key.startswith("file\x1f")):
            for file in by_name.get(_base(path), ()):
                if same_file(path, file):
                    found[file].add(ordinal)
    return {
        file: places(index, newest(index, np.array(sorted(documents), np.int64), count))
        for file, documents in found.items()
        if documents
    }


def _closest(documents: NDArray[np.int64], away: NDArray[np.int64], count: int) -> list[int]:
    """The `count` with the least distance, and all that are as far away as the last of them."""
    if len(documents) <= count:
        return documents.tolist()
    return documents[away <= np.partition(away, count - 1)[count - 1]].tolist()


def _shorter(file: str) -> list[str]:
    """The path and its ends, as they may be stored."""
    plain = file.strip().replace("\\", "/").removeprefix("./")
    parts = plain.split("/")
    ends = ["/".join(parts[start:]) for start in range(len(parts))]
    return list(dict.fromkeys(one for end in [file, *ends] if end for one in (end, f"./{end}")))


def _base(path: str) -> str:
    return path.strip().replace("\\", "/").rpartition("/")[2]


class Lookup:
    """Answers what exists, of whatever kind."""

    def __init__(self, replica: ReplicaService, documents: DocumentReader, clock: Clock = system_clock) -> None:
        self._replica, self._documents, self._clock = replica, documents, clock

    async def document(self, name: str, reader: Reader) -> Located:
        """What a reader may see of an id; raises NotFound, also for what this reader may not see."""
        found = await self._documents.find(DocumentId(name))
        if found is None or not may_read(found.document, reader) or isinstance(found.document, Mark | Session | Ledger):
            raise NotFound(f"there is no document {name!r}")
        return found

    async def documents(self, names: Sequence[str], reader: Reader) -> list[Located]:
        """Those of the documents that the reader may see, in the order of the names."""
        found = await self._documents.find_all([DocumentId(name) for name in names])
        return [one for one in found if may_read(one.document, reader) and not isinstance(one.document, Mark | Ledger)]

    async def count(self, reader: Reader, project: str | None = None, **narrowing: Any) -> int:
        """How many documents recall may find for a reader, narrowed as a Filter can be."""
        allowed, now_ms = reach(reader, project, **narrowing), to_ms(self._clock())
        return await self._replica.in_index_thread(count, self._replica.index, allowed, now_ms)

    async def found(
        self, work: Callable[..., list[Place]], reader: Reader, project: str | None, *args: Any, **narrowing: Any
    ) -> list[Document]:
        """What a function of `near` finds for a reader, of a project or of all, narrowed as a Filter can be."""
        allowed, now_ms = reach(reader, project, **narrowing), to_ms(self._clock())
        where = await self._replica.in_index_thread(work, self._replica.index, allowed, now_ms, *args)
        return [one for one in await self._documents.get(where) if one is not None and may_read(one, reader)]

    async def projects(self, reader: Reader) -> list[str]:
        """The projects in which the reader finds anything, by name; the nameless one is the empty name."""
        return [name for name, _ in await self.names(reader, "project")]

    async def names(self, reader: Reader, kind: NameKind, project: str | None = None) -> list[tuple[str, int]]:
        """The same of projects or of agents, with how many documents the reader finds of each."""
        allowed, now_ms = reach(reader, project), to_ms(self._clock())
        return await self._replica.in_index_thread(names, self._replica.index, allowed, now_ms, kind)
