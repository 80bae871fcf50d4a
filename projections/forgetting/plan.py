"""The plan of a forgetting: which documents go, which stay with fewer sources, and which are cut down.

A document goes with what was derived from it and nothing else says (condensing answers what remains of it) and, for a
condensed memory, with the memories that it replaced. A session goes with its observations, its summary and the commits
made in no other; a user with every document that names the user and every session of its own; a project with
everything. What is recorded after a forgetting began stays. A slot that an observation was reflected into stays,
without those lines.

A plan changes nothing: it is made a page of documents at a time, and `forget` appends each page before the next.
Retired observations are read out of the log again: forgetting needs to know what they said, and what came of it.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from ingest.events.envelope import SESSION_TYPES
from ingest.events.subject import MAX_FORGOTTEN
from ingest.ids import DocumentId, document_id
from ingest.kinds import MEMORY, SESSION
from ingest.log.position import START, Position, Token, partition_of, project_route, session_route
from projections.condensing.remaining import Derived, is_derived_by_server, remaining
from projections.condensing.slots import contributed, without
from projections.nouns.action import Action
from projections.nouns.document import PROJECT_LISTINGS, Document, subject_kind
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation, session_observations
from projections.nouns.rows import derived, of_user
from projections.nouns.session import (
    Commit,
    Session,
    Summary,
    session_commits,
    sessions,
    summary_id,
)
from projections.nouns.slot import Slot, slot_id
from projections.nouns.tombstone import (
    Ledger,
    SupersededEvent,
    Tombstone,
    marks,
    unpacked,
)
from projections.operations.current import Current
from projections.queries.retired import Retired
from projections.text.claims import Remainder

PAGE = 100
"""Documents whose derived ones are looked for in one round trip."""
LOOKS = 5
"""How often a forgetting looks again before it leaves what others derive in that time to them."""


class Stream(NamedTuple):
    """Where documents are: a project's own stream, or that of one of its sessions."""

    project: str
    session_id: str = ""


class Erase(NamedTuple):
    """A tombstone for documents of one stream."""

    stream: Stream
    documents: list[Document]
    digest: str
    """Made of what it names, as in the other steps: a forgetting repeated after a crash appends nothing twice."""


class Keep(NamedTuple):
    """A document that stays, and is no longer derived from `taken`."""

    document: Derived
    taken: list[str]
    digest: str


class Cut(NamedTuple):
    """A memory that goes, and what others still say of it, which takes its place.

    `references` are those of the memory that stay; `referenced_actions`, with their projects, point to the successor.
    """

    memory: Memory
    left: Remainder
    references: list[str]
    referenced_actions: list[tuple[str, str]]
    successor: DocumentId
    digest: str


class Rewrite(NamedTuple):
    """A slot whose history goes, and what it holds from now on."""

    slot: Slot
    content: str
    digest: str


Step: TypeAlias = Erase | Keep | Cut | Rewrite


def successor_event(event_id: str, digest: str) -> str:
    """The id of the event that puts what is left of a cut memory in its place."""
    return f"{event_id}:{digest}:left"


class Plan:
    """What has been planned so far of one forgetting."""

    def __init__(self, current: Current, tenant: str, event_id: str, until: Token, done: Collection[str] = ()) -> None:
        """`until` is where it began: what was recorded later stays. Documents that are `done` were forgotten before."""
        self._current, self._reader, self._retired = current, current.documents, Retired(current.documents, current.log)
        self._tenant, self._event_id, self._until = tenant, event_id, until
        self._partitions = range(self._reader.partitions)
        self.covers: Callable[[Document], bool] = lambda document: False
        """Whether a document is of the subject, and so no longer a source of anything."""
        self.gone: set[str] = set(done)
        """Ids of what goes."""
        self._stays: dict[str, None] = {}
        """Ids of what was derived from it and stays."""
        self._sessions = {DocumentId(name) for name in done if name.startswith(f"{SESSION}_")}
        self._touched: set[DocumentId] = set()
        """Sessions that go, and those that lose something."""
        self._lines: dict[str, dict[str, set[str]]] = {}
        """Lines that erased observations may have put into slots, by project and label."""

    # what belongs to a subject, a page at a time

    async def of_session(self, session: Session) -> AsyncIterator[Sequence[Document]]:
        """A session's observations, those that are retired, its commits; then the session itself."""
        self._sessions.add(DocumentId(session.id))
        home = self._partition(Stream(session.project, session.session_id))
        async for page in self._reader.pages(session_observations(session.id), [home]):
            yield page
        async for page in self._retired.of_session(session):
            yield page
        async for page in self._reader.pages(session_commits(self._tenant, session.session_id), self._partitions):
            own = [commit for commit in page if isinstance(commit, Commit) and commit.project == session.project]
            yield [commit for commit in own if commit.session_ids == [session.session_id]]
        yield [session]

    async def of_user(self, user_id: str) -> AsyncIterator[Sequence[Document]]:
        """Every document that names a user, and every session of its own."""
        self.covers = lambda document: getattr(document, "user_id", "") == user_id
        for partition in self._partitions:
            async for page in self._reader.pages(of_user(self._tenant, user_id), [partition]):
                subjects = [DocumentId(mark.subject) for mark in page if isinstance(mark, SupersededEvent)]
                for ledger in [document for document in page if isinstance(document, Ledger)]:
                    async for retired in self._retired.of_ledger(ledger, lambda entry: entry.user_id == user_id):
                        yield retired
                    marked = [entry.subject for entry in unpacked(ledger) if entry.user_id == user_id]
                    subjects += [name for name in marked if name == ledger.session]
                named = [*page, *await self._reader.get([(partition, name) for name in subjects])]
                for session in [document for document in named if isinstance(document, Session)]:
                    async for own in self.of_session(session):
                        yield own
                yield [document for document in named if document is not None and not isinstance(document, Session)]

    async def of_project(self, project: str) -> AsyncIterator[Sequence[Document]]:
        """Every session of a project, and all its documents."""
        self.covers = lambda document: getattr(document, "project", None) == project
        async for page in self._reader.pages(sessions(self._tenant, project), self._partitions):
            for session in [document for document in page if isinstance(document, Session)]:
                async for own in self.of_session(session):
                    yield own
        for listing in (*PROJECT_LISTINGS, marks):
            async for page in self._reader.pages(listing(self._tenant, project), [self._partition(Stream(project))]):
                yield page

    async def find(self, names: Sequence[str]) -> list[Document]:
        """Those of the documents that are there; retired observations are read out of the log."""
        located = await self._reader.find_all([*map(DocumentId, names)])
        documents: list[Document] = [location.document for location in located]
        present = {document.id for document in documents}
        return documents + await self._retired.find([name for name in names if name not in present], self._tenant)

    # what becomes of it

    async def steps(self, pages: AsyncIterator[Sequence[Document]], looks: int) -> AsyncIterator[list[Step]]:
        """What becomes of what is on these pages: each list is to be appended before the next one is asked for.

        Then looks again, up to `looks` times, for what others derived since, and for what stayed then: whichever of two
        forgettings that run at once looks last, sees what both have forgotten. Slots come last.
        """
        async for page in pages:
            yield await self._erase(page)
        for _ in range(looks if self.gone else 0):
            await self._current.settle()
            steps, gone = list[Step](), [*self.gone, *map(summary_id, self._touched)]
            for start in range(0, len(gone), PAGE):
                fates, going = await self._fates(gone[start : start + PAGE])
                steps += [*fates, *self._erasures(going)]
            stayed = [DocumentId(name) for name in self._stays if name not in self.gone]
            documents = [located.document for located in await self._reader.find_all(stayed)]
            judged, going = await self._judge([document for document in documents if isinstance(document, Derived)])
            self.gone.update(document.id for document in going)
            steps += [*judged, *self._erasures(going)]
            yield steps
            if all(isinstance(step, Keep) for step in steps):
                break
        yield await self._slots()

    async def _erase(self, documents: Sequence[Document]) -> list[Step]:
        """The steps that erase documents, with what becomes of those derived from them.

        The derived ones first: a forgetting that is interrupted in between finds them again by what they are derived
        from.
        """
        going = [
            document
            for document in {document.id: document for document in documents}.values()
            if document.id not in self.gone and not self._is_late(document) and _stream_of(document) is not None
        ]
        self.gone.update(document.id for document in going)
        sources = [document for document in going if subject_kind(document)]
        self._touched.update(name for source in sources if (name := _session_of(source)) is not None)
        steps, derived_too = await self._fates(sources)
        others = [document for document in going if not subject_kind(document)]
        return [*steps, *self._erasures([*derived_too, *sources, *others])]

    async def _slots(self) -> list[Step]:
        """Take what the erased observations said out of the slots that sessions are reflected into."""
        steps: list[Step] = []
        for project, lines_of in self._lines.items():
            for home in dict.fromkeys([project, ""]):  # the nameless one's for callers who know no projects
                for label, lines in lines_of.items():
                    name = slot_id(self._tenant, home, label)
                    slot = await self._current.get(project_route(self._tenant, home), name) if lines else None
                    if isinstance(slot, Slot) and name not in self.gone:
                        content = without(label, slot.content, lines)
                        steps += [Rewrite(slot, content, _digest(slot.id, content))] if content != slot.content else []
        return steps

    async def _fates(self, sources: Sequence[Document] | Sequence[str]) -> tuple[list[Step], list[Document]]:
        """Steps for what was derived from these and stays, and what of it goes, with what that was a source of."""
        steps: list[Step] = []
        going: dict[str, Document] = {}
        waiting: Sequence[Document | str] = sources
        while waiting:
            condensed = [name for source in waiting if isinstance(source, Memory) for name in source.condensed]
            names = dict.fromkeys(name for source in waiting for name in _sources_like(source))
            made = await self._reader.members_of([derived(name) for name in names], self._partitions)
            made = list(dict.fromkeys([*made, *map(DocumentId, condensed)]))
            documents = [located.document for located in await self._reader.find_all(made)]
            documents = [document for document in documents if document.id not in self.gone]
            further = [document for document in documents if document.id in condensed]
            judged, not_left = await self._judge(
                [document for document in documents if isinstance(document, Derived) and document.id not in condensed]
            )
            further += not_left
            self.gone.update(document.id for document in further)
            steps, going = [*steps, *judged], {**going, **{document.id: document for document in further}}
            waiting = [*further, *(step.memory.id for step in judged if isinstance(step, Cut))]
        return steps, list(going.values())

    async def _judge(self, candidates: Sequence[Derived]) -> tuple[list[Step], list[Document]]:
        """Steps for those of which something is left; and the others."""
        candidates = [
            candidate for candidate in candidates if is_derived_by_server(candidate) or not self._is_late(candidate)
        ]
        if not candidates:
            return [], []
        steps: list[Step] = []
        going: list[Document] = []

        async def find(names: Sequence[str]) -> list[Document]:
            return await self.find([name for name in names if name not in self.gone])

        for outcome in await remaining(self._reader, find, candidates, self._is_gone):
            document, left = outcome.document, outcome.left
            if left is None:
                going.append(document)
            elif outcome.is_whole:
                if taken := outcome.taken:
                    self._stays[document.id] = None
                    steps.append(Keep(document, taken, _digest(document.id, *sorted(taken))))
            elif isinstance(document, Memory) and document.id not in self.gone:
                references = [name for name in document.references if name not in self.gone]
                located = await self._reader.find_all([*map(DocumentId, references)])
                pointers = [location.document for location in located if isinstance(location.document, Action)]
                pointing = [(action.id, action.project) for action in pointers]
                digest = _digest(document.id, left.content)
                event_id = successor_event(self._event_id, digest)
                successor = document_id(MEMORY, project_route(self._tenant, document.project), event_id)
                self.gone.add(document.id)
                self._stays[successor] = None
                steps.append(Cut(document, left, references, pointing, successor, digest))
        return steps, going

    def _erasures(self, documents: Iterable[Document]) -> list[Step]:
        """Tombstones of documents, each in its stream."""
        streams: dict[Stream, list[Document]] = {}
        for document in documents:
            if (stream := _stream_of(document)) is not None:
                streams.setdefault(stream, []).append(document)
            if isinstance(document, Observation):
                lines_of = self._lines.setdefault(document.project, {})
                for label, lines in contributed([document]).items():
                    lines_of.setdefault(label, set()).update(lines)
        steps: list[Step] = []
        for stream, going in streams.items():
            for start in range(0, len(going), MAX_FORGOTTEN):
                some = going[start : start + MAX_FORGOTTEN]
                steps.append(Erase(stream, some, _digest(*sorted(document.id for document in some))))
        return steps

    def _is_gone(self, document: Document) -> bool:
        """Whether nothing can be derived from a document any more."""
        if document.id in self.gone or self.covers(document) or isinstance(document, Tombstone):
            return True
        match document:
            case Observation(session=session):
                return session in self._sessions
            case Summary(session=session):
                return session in self._sessions or session in self._touched
            case Session(id=name):
                return name in self._sessions
            case _:
                return False

    def _is_late(self, document: Document) -> bool:
        """Whether a document was recorded, or a session opened, after the forgetting began."""
        if isinstance(document, Session):
            if not document.forgotten_at or document.told_from.startswith(self._event_id):
                return False  # what is left of a session that this forgetting met was opened before
            position = document.forgotten_at
        else:
            position = getattr(document, "position", "")
        stream = _stream_of(document)
        if not position or stream is None:
            return False
        return Position.parse(position) > self._until.get(self._partition(stream), START)

    def _partition(self, stream: Stream) -> int:
        route = (
            session_route(self._tenant, *stream) if stream.session_id else project_route(self._tenant, stream.project)
        )
        return partition_of(route, len(self._partitions))


def _session_of(document: Document) -> DocumentId | None:
    """The session whose summary tells of a document."""
    match document:
        case Observation(session=session):
            return session
        case Session(id=name):
            return DocumentId(name)
        case _:
            return None


def _sources_like(source: Document | str) -> list[str]:
    """The names by which what was derived from a document, or from the summary of its session, names its sources."""
    name = source if isinstance(source, str) else source.id
    session = name if name.startswith(f"{SESSION}_") else None if isinstance(source, str) else _session_of(source)
    return [name] if session is None else [name, summary_id(DocumentId(session))]


def _stream_of(document: Document) -> Stream | None:
    """The stream that holds a document; None for what goes with another, or is gone."""
    match document:
        case Observation() | Session():
            return Stream(document.project, document.session_id)
        case SupersededEvent(was=was, erased=erased):
            return None if erased or was in SESSION_TYPES else Stream(document.project)
        case Summary() | Tombstone() | Ledger():
            return None
        case _:
            return Stream(document.project)


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
