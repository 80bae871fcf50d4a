"""Forgetting: what belongs to a subject, and the tombstones that make it go.

A document goes with what was derived from it and, for a condensed memory, with what that stands for. A memory that is
forgotten by its id goes with every version before it: who deletes the newest deletes all of it. A session goes
with its observations, its summary and the commits made in no other; a user with every document that names the user and
every session of its own; a project with everything. What is recorded after a forgetting began stays. A slot that an
observation was reflected into stays, without those lines.

Names (of tenants, projects, sessions and agents) stay in the log's stubs, because a replay needs them; a user's does
not.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from ingest.commands.decide import Caller
from ingest.commands.requests import ForgetSubject, SetSlot
from ingest.durability import Durability, weakest
from ingest.errors import Forbidden, NotFound
from ingest.events.routing import SESSION_TYPES
from ingest.events.subject import MAX_FORGOTTEN, SubjectKind
from ingest.ids import DocumentId, new_event_id
from ingest.log.partitions import partition_of, project_route, session_route
from ingest.log.position import START, Position, Token
from projections.access import Reader, may_forget, may_read
from projections.condense.slots import contributed, without
from projections.documents.actions import Action
from projections.documents.commits import Commit
from projections.documents.document import (
    Document,
    Mark,
    Tombstone,
    actions,
    commits,
    derived,
    lessons,
    marks,
    memories,
    of_user,
    relations,
    session_commits,
    session_observations,
    sessions,
    slots,
)
from projections.documents.ledgers import Ledger, unpacked
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.relations import Relation
from projections.documents.sessions import SESSION, Session
from projections.documents.slots import Slot, slot_id
from projections.documents.summaries import Summary, summary_id
from projections.operations.current import Current
from projections.operations.retired import Retired

KINDS: dict[type[Document], SubjectKind] = {
    Observation: "observation",
    Memory: "memory",
    Lesson: "lesson",
    Slot: "slot",
    Action: "action",
    Relation: "relation",
    Commit: "commit",
    Session: "session",
}
_PAGE = 100
"""Members of a listing looked at in one round trip."""


Watch: TypeAlias = Callable[[Iterable[Document]], None]


class Forgotten(Struct, frozen=True, kw_only=True):
    """What a forgetting covered: how many documents of each kind, the position that covers all of it, and what that
    survives."""

    event_id: str
    documents: dict[str, int]
    position: str
    durability: Durability = "memory"

    @property
    def total(self) -> int:
        """All documents."""
        return sum(self.documents.values())


class _Stream(NamedTuple):
    """Where documents are: a project's own stream, or that of one of its sessions."""

    project: str
    session_id: str = ""


class Forgetting:
    """Finds what belongs to a subject and appends its tombstones. Repeating one with its event id changes nothing."""

    def __init__(self, current: Current, watch: Watch | None = None, done: Collection[str] = ()) -> None:
        """`watch` is told of all documents that are about to be forgotten; those `done` were, and are passed over."""
        self._current, self._watch, self._done = current, watch, done
        self._reader = current.documents
        self._retired = Retired(current.documents, current.log)

    async def document(
        self, name: str, reader: Reader, caller: Caller, *, reason: str = "", event_id: str = ""
    ) -> Forgotten:
        """Forget one document.

        Raises NotFound when it is not there, or not for this reader; Forbidden for a memory that is shared with it.
        """
        until = await self._current.settle()
        found = next(iter(await self._found([name], caller.tenant)), None)
        if found is None or not may_read(found, reader) or type(found) not in KINDS:
            raise NotFound(f"there is no document {name!r}")
        if not may_forget(found, reader):
            raise Forbidden(f"memory {name} is not yours: its creator or its owner may forget it")
        kind = KINDS[type(found)]
        run = _Run(self._current, caller, kind, name, reason, event_id, until, self._watch, self._done)
        if isinstance(found, Session):
            await self._session(run, found, caller.tenant)
        else:
            await self._documents(run, [found, *await self._older([found], reader)], caller.tenant)
        await self._clean_slots(run, caller.tenant)
        return run.outcome()

    async def documents(self, names: Sequence[str], reader: Reader, caller: Caller, *, reason: str = "") -> Forgotten:
        """Forget those of these documents that are there, and that this reader may forget."""
        until = await self._current.settle()
        found = await self._found(list(dict.fromkeys(names)), caller.tenant)
        readable = [one for one in found if may_read(one, reader) and type(one) in KINDS]
        readable = [one for one in readable if may_forget(one, reader)]
        kind = KINDS[type(readable[0])] if readable else "memory"
        run = _Run(
            self._current, caller, kind, readable[0].id if readable else "", reason, "", until, self._watch, self._done
        )
        await self._documents(run, [*readable, *await self._older(readable, reader)], caller.tenant)
        await self._clean_slots(run, caller.tenant)
        return run.outcome()

    async def session(
        self, session: Session, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget a session and its observations; with `until`, those recorded up to there."""
        now = await self._current.settle()
        until = now if until is None else until
        run = _Run(
            self._current, caller, "session", session.session_id, reason, event_id, until, self._watch, self._done
        )
        await self._session(run, session, caller.tenant)
        await self._clean_slots(run, caller.tenant)
        return run.outcome()

    async def user(
        self, user_id: str, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget everything that names a user; with `until`, what was recorded up to there."""
        now = await self._current.settle()
        until = now if until is None else until
        run = _Run(
            self._current, caller, "user", user_digest(caller.tenant, user_id), reason, event_id, until, self._watch,
            self._done,
        )  # fmt: skip
        for partition in range(self._reader.partitions):
            async for page in self._pages(of_user(caller.tenant, user_id), [partition]):
                about = [DocumentId(one.subject) for one in page if isinstance(one, Mark)]
                for ledger in [one for one in page if isinstance(one, Ledger)]:
                    about += await self._retired_of(run, ledger, user_id, caller.tenant)
                named = [*page, *await self._reader.get([(partition, name) for name in about])]
                found = [one for one in named if one is not None]
                for session in [one for one in found if isinstance(one, Session)]:
                    await self._session(run, session, caller.tenant)
                await self._documents(run, [one for one in found if not isinstance(one, Session)], caller.tenant)
        await self._clean_slots(run, caller.tenant)
        return run.outcome()

    async def project(
        self, project: str, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget everything of a project; with `until`, what was recorded up to there."""
        tenant = caller.tenant
        now = await self._current.settle()
        until = now if until is None else until
        run = _Run(self._current, caller, "project", project, reason, event_id, until, self._watch, self._done)
        everywhere = range(self._reader.partitions)
        async for page in self._pages(sessions(tenant, project), everywhere):
            for session in page:
                if isinstance(session, Session):
                    await self._session(run, session, tenant)
        home = [partition_of(project_route(tenant, project), self._reader.partitions)]
        for listing in (memories, lessons, slots, actions, relations, commits, marks):
            async for page in self._pages(listing(tenant, project), home):
                await self._documents(run, page, tenant)
        await self._clean_slots(run, tenant)
        return run.outcome()

    async def made_of(
        self, names: Sequence[str], kind: SubjectKind, subject: str, caller: Caller, *, reason: str = "", event_id: str
    ) -> Forgotten:
        """Forget what was made of documents that are forgotten by now: by someone who had read them before."""
        until = await self._current.settle()
        run = _Run(self._current, caller, kind, subject, reason, event_id, until, self._watch, self._done)
        sources = [*names, *(summary_id(DocumentId(name)) for name in names if name.startswith(f"{SESSION}_"))]
        for start in range(0, len(sources), _PAGE):
            listings = [derived(name) for name in sources[start : start + _PAGE]]
            made = await self._reader.members_of(listings, range(self._reader.partitions))
            found = [one.document for one in await self._reader.find_all(made)]
            await self._documents(run, [one for one in found if type(one) in KINDS], caller.tenant)
        return run.outcome()

    async def _session(self, run: "_Run", session: Session, tenant: str) -> None:
        """Its observations, then what was derived from them, then the session itself."""
        where = _Stream(session.project, session.session_id)
        home = [partition_of(session_route(tenant, *where), self._reader.partitions)]
        async for page in self._pages(session_observations(session.id), home):
            await self._documents(run, page, tenant)
        async for page in self._retired.of_session(session):
            await self._documents(run, page, tenant)
        everywhere = range(self._reader.partitions)
        async for page in self._pages(session_commits(tenant, session.session_id), everywhere):
            made_here = [one for one in page if isinstance(one, Commit) and one.session_ids == [session.session_id]]
            await self._documents(run, [one for one in made_here if one.project == session.project], tenant)
        if not run.opened_later(session):
            await run.forget(where, [session])

    async def _found(self, names: Sequence[str], tenant: str) -> list[Document]:
        """Those of the documents that are there; retired observations are read out of the log."""
        found: list[Document] = [one.document for one in await self._reader.find_all([*map(DocumentId, names)])]
        known = {one.id for one in found}
        return found + await self._retired.find([name for name in names if name not in known], tenant)

    async def _older(self, found: Sequence[Document], reader: Reader) -> list[Memory]:
        """The versions before these memories that this reader may forget, too."""
        older: dict[DocumentId, Memory] = {}
        for at in [one for one in found if isinstance(one, Memory)]:
            home = partition_of(project_route(at.tenant, at.project), self._reader.partitions)
            while at.parent_id and at.parent_id not in older:
                (before,) = await self._reader.get([(home, DocumentId(at.parent_id))])
                if not isinstance(before, Memory):
                    break
                older[before.id] = at = before
        return [one for one in older.values() if may_forget(one, reader)]

    async def _retired_of(self, run: "_Run", ledger: Ledger, user_id: str, tenant: str) -> list[DocumentId]:
        """Forget a user's retired observations; returns what else the user's marks in the ledger are about."""
        async for page in self._retired.of_ledger(ledger, lambda entry: entry.user_id == user_id):
            await self._documents(run, page, tenant)
        return [one.subject for one in unpacked(ledger) if one.user_id == user_id and one.subject == ledger.session]

    async def _clean_slots(self, run: "_Run", tenant: str) -> None:
        """Take what the forgotten observations said out of the slots that sessions are reflected into."""
        for project, said in run.said.items():
            for place in dict.fromkeys([project, ""]):  # the nameless one's for callers who know no projects
                for label, lines in said.items():
                    name = slot_id(tenant, place, label)
                    slot = await self._current.get(project_route(tenant, place), name) if lines else None
                    if isinstance(slot, Slot) and (left := without(label, slot.content, lines)) != slot.content:
                        await run.rewrite(slot, left)

    async def _documents(self, run: "_Run", found: Sequence[Document], tenant: str) -> None:
        """Documents with what was derived from them, each in its stream."""
        known = {one.id: one for one in found}
        waiting = [one for one in known.values() if type(one) in KINDS]
        while waiting:
            further = await self._derived(waiting)
            waiting = [one for one in further if one.id not in known]
            known |= {one.id: one for one in waiting}
        streams: dict[_Stream, list[Document]] = {}
        for one in known.values():
            stream = _stream_of(one)
            if stream is not None and not run.came_later(one, stream):
                streams.setdefault(stream, []).append(one)
        for where, documents in streams.items():
            for start in range(0, len(documents), MAX_FORGOTTEN):
                await run.forget(where, documents[start : start + MAX_FORGOTTEN])

    async def _derived(self, sources: Sequence[Document]) -> list[Document]:
        """What was made of these: memories and lessons derived from them, and what a condensed memory stands for."""
        everywhere = range(self._reader.partitions)
        listings = [derived(one.id) for one in sources]
        listings += {derived(summary_id(name)) for one in sources if (name := _session_of(one)) is not None}
        names = await self._reader.members_of(listings, everywhere)
        names += [DocumentId(name) for one in sources if isinstance(one, Memory) for name in one.condensed]
        return [one.document for one in await self._reader.find_all(list(dict.fromkeys(names)))]

    async def _pages(self, listing: str, partitions: Sequence[int]) -> AsyncIterator[list[Document]]:
        """All documents of a listing, a page at a time, as they stand when the page is read."""
        cursor: str | None = None
        while True:
            page = await self._reader.page(listing, partitions, cursor=cursor, limit=_PAGE, newest_first=False)
            if page.documents:
                yield [one.document for one in page.documents]
            if page.next is None:
                return
            cursor = page.next


class _Run:
    """One forgetting under way: the tombstones appended so far, with ids that a second run, after a crash, repeats."""

    def __init__(
        self,
        current: Current,
        caller: Caller,
        kind: SubjectKind,
        subject: str,
        reason: str,
        event_id: str,
        until: Token,
        watch: Watch | None,
        done: Collection[str],
    ) -> None:
        # what was made of it goes with it, also in projects that the caller's key is not for
        self._current = current
        self._caller = caller._replace(reach=caller.reach._replace(projects=()))
        self._kind: SubjectKind = kind
        self._subject, self._reason = subject, reason
        self._event_id = event_id or str(new_event_id())
        self._until, self._watch = until, watch
        self._token = Token()
        self._reached: set[Durability] = set()
        self._seen = set(done)
        self._counts: Counter[str] = Counter()
        self.said: dict[str, dict[str, set[str]]] = {}
        """Lines that the forgotten observations may have put into slots, by project and label."""

    def came_later(self, document: Document, where: _Stream) -> bool:
        """Whether a document was recorded after the forgetting began."""
        route = session_route if where.session_id else project_route
        partition = partition_of(route(self._caller.tenant, *_named(where)), self._current.log.partitions)
        position = getattr(document, "position", "")
        return position != "" and Position.parse(position) > self._until.get(partition, START)

    def opened_later(self, session: Session) -> bool:
        """Whether a session was opened after the forgetting began; what is left of one that it met was not."""
        if not session.forgotten_at or session.told_from.startswith(self._event_id):
            return False
        route = session_route(self._caller.tenant, session.project, session.session_id)
        until = self._until.get(partition_of(route, self._current.log.partitions), START)
        return Position.parse(session.forgotten_at) > until

    async def forget(self, where: _Stream, documents: Iterable[Document]) -> None:
        """Append the tombstone of documents of one stream, but those that have one."""
        fresh = {one.id: one for one in documents if one.id not in self._seen}
        if not fresh:
            return
        if self._watch is not None:
            self._watch(fresh.values())
        digest = blake2b("\0".join(sorted(fresh)).encode(), digest_size=8).hexdigest()
        alone = self._kind not in ("session", "user", "project") and not self._counts
        command = ForgetSubject(
            event_id=self._event_id if alone else f"{self._event_id}:{digest}",
            kind=self._kind,
            subject=self._subject,
            reason=self._reason,
            documents=list(fresh),
            project=where.project,
            session_id=where.session_id,
            causation="" if alone else self._event_id,
        )
        accepted = await self._current.give(command, self._caller)
        self._token.include_all(Token.parse(accepted.position))
        self._reached.add(accepted.durability)
        self._seen.update(fresh)
        for one in fresh.values():
            if isinstance(one, Observation):
                slots_of = self.said.setdefault(one.project, {})
                for label, lines in contributed([one]).items():
                    slots_of.setdefault(label, set()).update(lines)
        self._counts.update((KINDS.get(type(one)) or "event") for one in fresh.values())

    async def rewrite(self, slot: Slot, content: str) -> None:
        """Forget all that was ever in a slot but what it is to hold; at once, or a crash could lose that, too."""
        if slot.id in self._seen:
            return
        digest = blake2b("\0".join((slot.id, content)).encode(), digest_size=8).hexdigest()
        forget = ForgetSubject(
            event_id=f"{self._event_id}:{digest}",
            kind=self._kind,
            subject=self._subject,
            reason=self._reason,
            documents=[slot.id],
            project=slot.project,
            causation=self._event_id,
        )
        keep = SetSlot(
            event_id=f"{self._event_id}:{digest}:kept",
            label=slot.label,
            content=content,
            scope=slot.scope,
            project=slot.project,
            agent_id=slot.agent_id,
            user_id=slot.user_id,
            size_limit=slot.size_limit,
            description=slot.description,
            pinned=slot.pinned,
            read_only=slot.read_only,
        )
        self._token.include_all(await self._current.give_together([forget, keep], self._caller))

    def outcome(self) -> Forgotten:
        """What has been forgotten."""
        return Forgotten(
            event_id=self._event_id,
            documents=dict(self._counts),
            position=str(self._token),
            durability=weakest(self._reached),
        )


def user_digest(tenant: str, user_id: str) -> str:
    """What stands for a user in tombstones and receipts: who knows the name can tell that it was this one."""
    return "usr_" + blake2b("\0".join((tenant, user_id)).encode(), digest_size=10).hexdigest()


def _session_of(document: Document) -> DocumentId | None:
    """The session whose summary tells of a document."""
    match document:
        case Observation(session=session):
            return session
        case Session(id=name):
            return DocumentId(name)
        case _:
            return None


def _stream_of(document: Document) -> _Stream | None:
    """The stream that holds a document; None for what goes with another, or is gone."""
    match document:
        case Observation() | Session():
            return _Stream(document.project, document.session_id)
        case Mark(was=was, erased=erased):
            return None if erased or was in SESSION_TYPES else _Stream(document.project)
        case Summary() | Tombstone() | Ledger():
            return None
        case _:
            return _Stream(document.project)


def _named(where: _Stream) -> tuple[str, ...]:
    return where if where.session_id else (where.project,)
