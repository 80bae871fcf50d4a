"""One forgetting under way: the tombstones it has appended, and which documents go, stay or change."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from ingest.commands.decide import Caller, ForgetSubject, Remember, SetSlot, WriteAction
from ingest.durability import Durability, weakest
from ingest.events.envelope import SESSION_TYPES
from ingest.events.subject import SubjectKind
from ingest.ids import MEMORY, DocumentId, document_id, new_event_id
from ingest.log.position import START, Position, Token, partition_of, project_route, session_route
from projections.condensing.claims import Remainder
from projections.condensing.slots import contributed
from projections.documents.actions import Action, actions
from projections.documents.document import Document
from projections.documents.lessons import Lesson, lessons
from projections.documents.memories import Memory, memories
from projections.documents.observations import Observation
from projections.documents.relations import Relation, relations
from projections.documents.sessions import SESSION, Commit, Session, Summary, commits
from projections.documents.slots import Slot, slots
from projections.documents.tombstones import Ledger, SupersededEvent, Tombstone, marks
from projections.forgetting.derived import Verdict
from projections.operations.current import Current

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
OF_A_PROJECT: dict[type[Document], Callable[[str, str], str]] = {
    Memory: memories,
    Lesson: lessons,
    Slot: slots,
    Action: actions,
    Relation: relations,
    Commit: commits,
    SupersededEvent: marks,
}
"""The listing of a project's documents, by tenant and project; sessions are listed across partitions, with all that
they hold."""

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


class Stream(NamedTuple):
    """Where documents are: a project's own stream, or that of one of its sessions."""

    project: str
    session_id: str = ""


class ForgettingRun:
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
        self._caller = caller._replace(key_scope=caller.key_scope._replace(projects=()))
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
        self.covers: Callable[[Document], bool] = lambda document: False
        """Whether a document is of the subject, and so no source of anything any more."""
        self.gone: set[str] = set(done)
        """Ids of what is forgotten, or is about to be."""
        self.changed: dict[str, None] = {}
        """Ids of memories in whose place there is one that says less."""
        self.stayed: dict[str, None] = {}
        """Ids of what was derived from the forgotten and stays."""
        self.sessions: set[DocumentId] = set()
        self.touched: set[DocumentId] = set()
        """Sessions that go, and those that lose something."""

    def passed_over(self, names: Iterable[str]) -> None:
        """These are forgotten already."""
        for name in names:
            self.gone.add(name)
            if name.startswith(f"{SESSION}_"):
                self.sessions.add(DocumentId(name))

    def is_gone(self, document: Document) -> bool:
        """Whether nothing can be derived from a document any more."""
        if document.id in self.gone or self.covers(document) or isinstance(document, Tombstone):
            return True
        match document:
            case Observation(session=session):
                return session in self.sessions
            case Summary(session=session):
                return session in self.sessions or session in self.touched
            case Session(id=name):
                return name in self.sessions
            case _:
                return False

    def is_late(self, document: Document) -> bool:
        """Whether a document was recorded after the forgetting began."""
        where = stream_of(document)
        return where is not None and self.came_later(document, where)

    def _tombstone(
        self,
        suffix: str,
        project: str,
        *,
        session_id: str = "",
        documents: Sequence[str] = (),
        kept: Sequence[str] = (),
        sources: Sequence[str] = (),
    ) -> ForgetSubject:
        """A tombstone of this forgetting: the one with its own event id when `suffix` is empty, else caused by that."""
        return ForgetSubject(
            event_id=f"{self._event_id}{suffix}",
            kind=self._kind,
            subject=self._subject,
            reason=self._reason,
            documents=list(documents),
            kept=list(kept),
            sources=list(sources),
            project=project,
            session_id=session_id,
            causation=self._event_id if suffix else "",
        )

    async def keep(self, judged: Verdict) -> None:
        """Note that a document stays, and of what it is derived no more."""
        one = judged.document
        if not judged.taken:
            return
        digest = blake2b("\0".join((one.id, *sorted(judged.taken))).encode(), digest_size=8).hexdigest()
        command = self._tombstone(f":{digest}:stays", one.project, kept=[one.id], sources=judged.taken)
        self._token.include_all(Token.parse((await self._current.give(command, self._caller)).position))
        self.stayed[one.id] = None

    async def cut(self, old: Memory, left: Remainder) -> None:
        """Forget a memory, and put what others say of it in its place; at once, or a crash could lose that, too."""
        if old.id in self._seen:
            return
        digest = blake2b("\0".join((old.id, left.content)).encode(), digest_size=8).hexdigest()
        forget = self._tombstone(f":{digest}", old.project, documents=[old.id])
        remember = Remember(
            event_id=f"{self._event_id}:{digest}:left",
            project=old.project,
            session_id=old.session_id,
            agent_id=old.agent_id,
            user_id=old.user_id,
            occurred_at=old.occurred_at,
            content=left.content,
            title=old.title if left.content.startswith(old.title) else "",
            memory_type=old.memory_type,
            purpose=old.purpose,
            tags=old.tags,
            concepts=old.concepts,
            references=[one for one in old.references if one not in self.gone],
            importance=old.importance,
            visibility=old.visibility,
            shared_with=old.shared_with,
            owner=old.owner,
            keep_duplicates=True,
            derived_from=list(left.sources),
        )
        home = project_route(self._caller.tenant, old.project)
        new = document_id(MEMORY, home, remember.event_id)
        pointing = [
            WriteAction(
                event_id=f"{self._event_id}:{digest}:{name}", project=project, action=name, crystallized_into=new
            )
            for name, project in await self._actions(remember.references)
        ]
        self._token.include_all(await self._current.append_batch([forget, remember, *pointing], self._caller))
        self._seen.add(old.id)
        self.gone.add(old.id)
        self.changed[old.id] = None
        self.stayed[new] = None

    async def _actions(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Those of the documents that are actions, with their projects."""
        found = await self._current.documents.find_all([*map(DocumentId, names)])
        return [(one.document.id, one.document.project) for one in found if isinstance(one.document, Action)]

    def came_later(self, document: Document, where: Stream) -> bool:
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

    async def forget(self, where: Stream, documents: Iterable[Document]) -> None:
        """Append the tombstone of documents of one stream, but those that have one."""
        fresh = {one.id: one for one in documents if one.id not in self._seen}
        if not fresh:
            return
        if self._watch is not None:
            self._watch(fresh.values())
        digest = blake2b("\0".join(sorted(fresh)).encode(), digest_size=8).hexdigest()
        alone = self._kind not in ("session", "user", "project") and not self._counts
        command = self._tombstone(
            "" if alone else f":{digest}", where.project, session_id=where.session_id, documents=list(fresh)
        )
        accepted = await self._current.give(command, self._caller)
        self._token.include_all(Token.parse(accepted.position))
        self._reached.add(accepted.durability)
        self._seen.update(fresh)
        self.gone.update(fresh)
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
        forget = self._tombstone(f":{digest}", slot.project, documents=[slot.id])
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
        self._token.include_all(await self._current.append_batch([forget, keep], self._caller))

    def outcome(self) -> Forgotten:
        """What has been forgotten."""
        return Forgotten(
            event_id=self._event_id,
            documents=dict(self._counts),
            position=str(self._token),
            durability=weakest(self._reached),
        )


def session_of(document: Document) -> DocumentId | None:
    """The session whose summary tells of a document."""
    match document:
        case Observation(session=session):
            return session
        case Session(id=name):
            return DocumentId(name)
        case _:
            return None


def stream_of(document: Document) -> Stream | None:
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


def _named(where: Stream) -> tuple[str, ...]:
    return where if where.session_id else (where.project,)
