"""What the index finds for a reader, whatever its kind; documents by id."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ingest.errors import CommandRejected, NotFound
from ingest.ids import DocumentId, is_shortened
from ingest.platform.clock import Clock, from_ms, system_clock, to_ms
from projections.index.protocol import DocumentLocation, Index, IndexService
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Document, SupersededEvent
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Change, changes, file_name
from projections.nouns.session import Session
from projections.nouns.tombstone import Ledger
from projections.queries.documents import DocumentReader, Located
from projections.search.candidates import near_names
from projections.search.question import Filter, facet
from projections.text.terms import SCANNED
from projections.text.words import names_in, same_file

NameKind = Literal["project", "agent"]
LOOKED_AT = 2_000
"""The newest documents: among them files are looked for whose path is longer than the one asked for."""


def key_scope(reader: Reader, project: str | None = None, *, now: datetime | None = None, **narrowing: Any) -> Filter:
    """The filter for what a reader can find at a time, at present without one, narrowed as a Filter can be."""
    return Filter(
        tenant=reader.tenant,
        now_ms=to_ms(now or system_clock()),
        reader=reader.agent_id,
        only_agent=reader.only_agent,
        operator=reader.operator,
        within=reader.key_scope.projects,
        project=project,
        **narrowing,
    )


def latest(index: Index, allowed: Filter, most: int) -> list[DocumentLocation]:
    """The documents recorded last, newest first."""
    return index.recorded_last(allowed, most)


def unimportant(index: Index, allowed: Filter, most: int, importance: float) -> list[DocumentLocation]:
    """Documents of at most this importance."""
    return index.every(replace(allowed, importance_to=importance), most)


def hidden(index: Index, allowed: Filter, most: int) -> list[DocumentLocation]:
    """Documents in quarantine."""
    return index.every(replace(allowed, retired=True, any_of=[("hidden", "yes")]), most)


def touching(
    index: Index, allowed: Filter, files: Sequence[str], other_than: str, count: int
) -> Mapping[str, list[DocumentLocation]]:
    """For each of these files the newest `count` documents that name it, but for those of a session.

    Shorter paths are always found, longer ones (`same_file`) where one of the newest LOOKED_AT documents has them.
    """
    if other_than:
        allowed = replace(allowed, without=[("session", other_than)])
    paths: dict[str, dict[str, None]] = {}
    by_name: dict[str, list[str]] = {}
    for file in files:
        parts = file.strip().replace("\\", "/").removeprefix("./").split("/")
        ends = [file, *("/".join(parts[start:]) for start in range(len(parts)))]
        paths[file] = {path: None for end in ends if end for path in (end, f"./{end}")}
        by_name.setdefault(_base(file), []).append(file)
    lead = facet("file", "")
    recent = index.facets(index.recorded_last(allowed, LOOKED_AT))
    named = dict.fromkeys(key.removeprefix(lead) for keys in recent for key in keys if key.startswith(lead))
    for path in named:
        for file in by_name.get(_base(path), ()):
            if same_file(path, file):
                paths[file][path] = None
    locations = {file: index.recorded_last(replace(allowed, files=[*paths[file]]), count) for file in files}
    return {file: places for file, places in locations.items() if places}


MOST_CHANGES = 100
"""Of a file in each partition that are counted."""
FILES_OF_A_DOCUMENT = 5
_NAMES_FILES = re.compile(r"\w\.[A-Za-z]|/")
"""What a text says that names a file: most say neither, and are not searched for names."""


class FileChange(Struct, frozen=True):
    """A file that a document names, which was changed since: how often, when last, and by which observation."""

    file: str
    times: int
    at: datetime
    by: str

    def __str__(self) -> str:
        return f"{self.file} changed {f'{self.times} times' if self.times > 1 else 'once'} since"


def _named_files(document: Document) -> tuple[list[str], int]:
    """The files that a memory or a lesson names, and when it was last stated or confirmed, in ms."""
    match document:
        case Memory():
            files, text = document.files, document.content
            since_ms = to_ms(max(filter(None, (document.occurred_at, document.confirmed_at))))
        case Lesson():
            files, text = [], f"{document.content}\n{document.context}"
            since_ms = document.reinforced_ms if document.reinforcements else document.occurred_ms
        case _:
            return [], 0
    text = text[:SCANNED]
    named = names_in(text).files if _NAMES_FILES.search(text) else ()
    return list(dict.fromkeys((*files, *named)))[:FILES_OF_A_DOCUMENT], since_ms


def _change_of(file: str, since_ms: int, changes: Iterable[Change]) -> FileChange | None:
    """What changed of a file; None for nothing, or where its bare name is that of several files."""
    later = [change for change in changes if change.ms > since_ms and same_file(change.path, file)]
    if not later or not all(same_file(change.path, later[0].path) for change in later):
        return None
    last = max(later)
    return FileChange(file, len({change.id for change in later}), from_ms(last.ms), last.id)


def _base(path: str) -> str:
    return path.strip().replace("\\", "/").rpartition("/")[2]


def _beginning(allowed: Filter, shortened: Sequence[str], index: Index) -> dict[str, list[DocumentLocation]]:
    """The documents in use of each shortened id, or else replaced ones, also those that a reader cannot see."""
    retired = replace(allowed, retired=True)
    return {name: index.beginning(allowed, name) or index.beginning(retired, name) for name in shortened}


@dataclass
class Lookup:
    """Answers what exists, of whatever kind."""

    _index: IndexService
    _documents: DocumentReader
    _clock: Clock = system_clock

    async def document(self, name: str, reader: Reader) -> Located:
        """What a reader can see of an id; raises NotFound, also for what this reader can't see."""
        located = await self._documents.find(DocumentId(name))
        if (
            located is None
            or not may_read(located.document, reader)
            or isinstance(located.document, SupersededEvent | Session | Ledger)
        ):
            raise NotFound(f"there is no document {name!r}")
        return located

    async def documents(self, names: Sequence[str], reader: Reader) -> list[Located]:
        """Those of the documents that the reader can see, in the order of the names."""
        documents = await self._documents.find_all([DocumentId(name) for name in names])
        return [
            located
            for located in documents
            if may_read(located.document, reader) and not isinstance(located.document, SupersededEvent | Ledger)
        ]

    async def whole_ids(self, names: Sequence[str], reader: Reader) -> list[str]:
        """The names, with a shortened id of a document that the reader can see replaced by the whole one.

        Raises CommandRejected for a shortened id that several of the documents have.
        """
        shortened = [name for name in names if is_shortened(name)]
        if not shortened:
            return list(names)
        allowed = key_scope(reader, now=self._clock())
        beginning = await self._index.ask(partial(_beginning, allowed, shortened))
        possible = [id for locations in beginning.values() for _, id in locations]
        readable = {located.document.id for located in await self.documents(possible, reader)}
        whole = list[str]()
        for name in names:
            ids = [id for _, id in beginning.get(name, ()) if id in readable]
            if len(ids) > 1:
                raise CommandRejected(f"{name!r} is the beginning of {', '.join(ids)}: use one of these")
            whole.append(ids[0] if ids else name)
        return whole

    async def changed_since(self, documents: Iterable[Document], reader: Reader) -> dict[str, list[FileChange]]:
        """What was changed of the files that memories and lessons name, since they were stated, by document id.

        Of what the reader can see, in the project of each document: one round trip, and none if no file is named.
        """
        named = {document.id: (document, *_named_files(document)) for document in documents}
        bounds: dict[tuple[str, str], int] = {}
        for document, files, since_ms in named.values():
            for file in files:
                key = changes(reader.tenant, getattr(document, "project", "")), file_name(file)
                bounds[key] = min(since_ms, bounds.get(key, since_ms))
        if not bounds:
            return {}
        ranges = [(listing, f"{name}|{since_ms + 1:014d}", f"{name}|~") for (listing, name), since_ms in bounds.items()]
        rows = await self._documents.newest_between(ranges, MOST_CHANGES)
        visible = {
            key: [change for change in map(Change.of, row) if reader.only_agent in ("", change.agent_id)]
            for key, row in zip(bounds, rows, strict=True)
        }
        changed: dict[str, list[FileChange]] = {}
        for name, (document, files, since_ms) in named.items():
            listing = changes(reader.tenant, getattr(document, "project", ""))
            of_files = (_change_of(file, since_ms, visible[listing, file_name(file)]) for file in files)
            if some := [change for change in of_files if change is not None]:
                changed[name] = some
        return changed

    async def count(self, reader: Reader, project: str | None = None, **narrowing: Any) -> int:
        """How many documents recall can find for a reader, narrowed as a Filter can be."""
        allowed = key_scope(reader, project, now=self._clock(), **narrowing)
        return await self._index.ask_current(lambda index: index.count(allowed))

    async def found(
        self,
        work: Callable[..., list[DocumentLocation]],
        reader: Reader,
        project: str | None,
        *args: Any,
        **narrowing: Any,
    ) -> list[Document]:
        """What a function of this module finds for a reader, of a project or of all, narrowed as a Filter can be."""
        allowed = key_scope(reader, project, now=self._clock(), **narrowing)
        locations = await self._index.ask(lambda index: work(index, allowed, *args))
        documents = await self._documents.get(locations)
        return [document for document in documents if document is not None and may_read(document, reader)]

    async def projects(self, reader: Reader) -> list[str]:
        """The projects in which the reader finds anything, by name; the nameless one is the empty name."""
        return [name for name, _ in await self.names(reader, "project")]

    async def unknown(
        self, reader: Reader, projects: Iterable[str] = (), agent_id: str = "", session_id: str = ""
    ) -> list[str]:
        """A note for each of these names of which the reader finds no document, with similar names that they find."""
        notes: list[str] = []
        named: list[tuple[NameKind | Literal["session"], str]] = [("agent", agent_id), ("session", session_id)]
        named[:0] = [("project", project) for project in projects]
        for kind, name in named:
            if not name or await self.count(reader, any_of=[(kind, name)]):
                continue
            names = [] if kind == "session" else [existing for existing, _ in await self.names(reader, kind)]
            near = ", ".join(map(repr, await asyncio.to_thread(near_names, name, filter(None, names))))
            notes.append(
                f"{kind} {name!r} has no searchable documents that you can read" + f"; similar: {near}" * bool(near)
            )
        return notes

    async def names(self, reader: Reader, kind: NameKind, project: str | None = None) -> list[tuple[str, int]]:
        """The same of projects or of agents, with how many documents the reader finds of each."""
        allowed = key_scope(reader, project, now=self._clock())
        counts = await self._index.ask_current(lambda index: index.counts(allowed, kind))
        return sorted(counts.items())
