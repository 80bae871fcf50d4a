"""The current memories of a partition's projects by their words, in the process: what a rebuild compares new ones with.

A rebuild meets every memory of a project. Asking the listing for all that share a pair of words with each costs more
than all else where the memories are about the same things. Counting shared words in arrays finds those that are alike,
and next to no others.
"""

import zlib
from array import array
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingest.events.envelope import Recorded
from ingest.events.memory import MemoryRecorded
from ingest.ids import DocumentId
from projections.documents.document import Document
from projections.documents.memories import Memory, similar
from projections.documents.rows import whole_of
from projections.folds.fold import DocumentChange, candidate_listings, candidate_members
from projections.search.similarity import SUPERSEDE_ABOVE, keys_of, tokens_of

HELD_WORDS = 300_000
"""Words that are held for all projects together, each once a memory: 60 MB at most, where all of them are different."""
MOST_WORDS = HELD_WORDS // 2
"""Of one project. One with more is not held."""
PROJECTS = 1_000
READ_AT_ONCE = 500
ROUNDING = 1e-9

Members = Callable[[Collection[str]], Awaitable[Mapping[str, Sequence[str]]]]
"""Reads the members of listings, and of parts of them."""
Count = Callable[[str], Awaitable[int]]
"""Says how many members a listing has."""
Load = Callable[[Collection[DocumentId]], Awaitable[Mapping[DocumentId, Document]]]
"""Reads documents."""


class SimilarMemories:
    """Finds which memories new ones resemble, in the projects that are small enough."""

    def __init__(self, members: Members, count: Count, load: Load) -> None:
        """What these say is stored."""
        self._members, self._count, self._load = members, count, load
        self._projects: dict[str, _Project] = {}
        """By listing, those asked for last at the end."""

    async def candidates(self, events: Sequence[Recorded]) -> dict[str, Sequence[str]]:
        """The candidates of a batch of events, as `project` takes them."""
        probes = [probe for event in events if (probe := await self._probe(event)) is not None]
        by_words = {probe.event.position for probe in probes}
        asked = candidate_listings(event for event in events if event.position not in by_words)
        asked |= {name for probe in probes for name in probe.further}
        found = candidate_members(events, await self._members(asked)) if asked else {}
        for probe in probes:
            found[probe.part] = [*found.get(probe.part, ()), *probe.project.resembling(probe.words)]
        return found

    def saved(self, documents: Mapping[DocumentId, DocumentChange]) -> None:
        """Take note of what was saved."""
        for name, (before, after) in documents.items():
            document = before if after is None else after
            if isinstance(document, Memory) or isinstance(before, Memory):
                known = document if isinstance(document, Memory) else before
                assert isinstance(known, Memory)
                project = self._projects.get(similar(known.tenant, known.project))
                if project is not None:
                    project.take(name, after)

    async def _probe(self, event: Recorded) -> "_Probe | None":
        """Where an event looks; None for one that looks for nothing, or in a project that is not held."""
        data = event.data
        if not isinstance(data, MemoryRecorded) or data.keep_duplicates:
            return None
        listing = similar(event.envelope.tenant, event.envelope.project)
        project = await self._project(listing)
        if project.full:
            return None
        names = candidate_listings([event])
        parts = {name for name in names if whole_of(name)[0] == listing}
        return _Probe(event, _words(data.content), project, min(parts), names - parts)

    async def _project(self, listing: str) -> "_Project":
        project = self._projects.pop(listing, None)
        if project is None:
            project = await self._read(listing)
            while len(self._projects) >= PROJECTS or self._held + project.held > HELD_WORDS:
                del self._projects[next(iter(self._projects))]
        self._projects[listing] = project
        return project

    @property
    def _held(self) -> int:
        return sum(project.held for project in self._projects.values())

    async def _read(self, listing: str) -> "_Project":
        project = _Project()
        if await self._count(listing) > MOST_WORDS:
            project.give_up()
            return project
        members = (await self._members([listing]))[listing]
        names = list({DocumentId(member.rpartition("|")[2]) for member in members})
        for start in range(0, len(names), READ_AT_ONCE):
            for name, document in (await self._load(names[start : start + READ_AT_ONCE])).items():
                project.take(name, document)
        return project


class _Project:
    """One project's current memories: in which of them each word is, and how many each of them has."""

    def __init__(self) -> None:
        self.full = False
        """Too many words to be held; then it has none."""
        self.held = 0
        self._memories: dict[int, array[int]] = {}
        """By the checksum of a word, the places of the memories that have it. Two words may share one: then a memory
        seems to be more like another than it is, and the fold finds out."""
        self._sizes = array("i")
        """How many words the memory at each place has; none for one that is not current any more."""
        self._members: list[str] = []
        self._places: dict[str, int] = {}

    def resembling(self, words: Collection[int]) -> list[str]:
        """Members of the listing, but for their keys, of all memories that are alike enough to be superseded."""
        where = [self._memories[word] for word in words if word in self._memories]
        if not where:
            return []
        sizes: NDArray[np.int32] = np.array(self._sizes, np.int32)
        places: NDArray[np.int32] = np.concatenate([np.array(one, np.int32) for one in where])
        shared = np.bincount(places, minlength=len(sizes))
        alike = (sizes > 0) & (shared > (SUPERSEDE_ABOVE - ROUNDING) * (len(words) + sizes - shared))
        return [self._members[place] for place in np.flatnonzero(alike).tolist()]

    def take(self, name: DocumentId, after: Document | None) -> None:
        """A memory of this project is new, or has become something else."""
        place = self._places.pop(name, None)
        if place is not None:
            self._sizes[place] = 0
        if not self.full and isinstance(after, Memory) and after.is_latest and not after.keep_duplicates:
            self._add(name, after.content)

    def give_up(self) -> None:
        """Hold nothing any more."""
        self.__init__()
        self.full = True

    def _add(self, name: DocumentId, content: str) -> None:
        words = _words(content)
        self.held += len(words)
        if self.held > MOST_WORDS:
            self.give_up()
            return
        self._places[name] = place = len(self._sizes)
        self._sizes.append(len(words))
        self._members.append(f"|{keys_of(content).sketch:016x}|{name}")
        for word in words:
            self._memories.setdefault(word, array("i")).append(place)


class _Probe(NamedTuple):
    """An event that looks for similar memories: among which, and a part of their listing where the fold will look."""

    event: Recorded
    words: set[int]
    project: _Project
    part: str
    further: set[str]


def _words(content: str) -> set[int]:
    return {zlib.crc32(token.encode("utf-8", "surrogatepass")) for token in tokens_of(content)}
