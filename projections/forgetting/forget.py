"""Forgetting: makes a plan of what goes with a subject, and appends its tombstones; forgetting in bulk.

A memory that is forgotten by its id goes with the versions before it that its author wrote: deleting the newest deletes
all of it. What it superseded because it states the same, or what another agent wrote, is a memory of its own, and
current again.

Names (of tenants, projects, sessions and agents) stay in the log's stubs, because a replay needs them; a user's does
not.
"""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from ingest.commands.decide import Caller, ForgetSubject, Remember, SetSlot, WriteAction
from ingest.durability import Durability, weakest
from ingest.errors import Forbidden, NotFound
from ingest.events.subject import SubjectKind
from ingest.ids import DocumentId, new_event_id
from ingest.log.position import Token, partition_of, project_route
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.documents.access import Reader, may_forget, may_read
from projections.documents.actions import actions
from projections.documents.document import Document, Searched, searchable_text
from projections.documents.lessons import lessons
from projections.documents.memories import Memory, memories
from projections.documents.observations import Observation, session_observations
from projections.documents.relations import relations
from projections.documents.rows import derived
from projections.documents.sessions import Session, sessions, summary_id
from projections.documents.slots import Slot, slots
from projections.forgetting.plan import KINDS, Cut, Erase, Keep, Plan, Retired, Rewrite, Step, successor_event
from projections.operations.current import Current
from projections.queries.lookup import Lookup, expired, unimportant
from projections.queries.work import Actions

_LOOKS = 5
"""How often a forgetting looks again before it leaves what others derive meanwhile to them."""

SAMPLES = 20
"""Texts of forgotten documents that a probe searches for."""


class Samples:
    """The ids of what one or several forgettings forgot, and texts of some; kept in memory only."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.texts: list[str] = []


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


class Forgetting:
    """Forgets what belongs to a subject. Repeating a forgetting with its event id changes nothing."""

    def __init__(self, current: Current, samples: Samples | None = None) -> None:
        """Documents are noted in `samples` before they are forgotten; those that it has were, and are skipped."""
        self._current, self._samples = current, samples

    async def document(
        self, name: str, reader: Reader, caller: Caller, *, reason: str = "", event_id: str = ""
    ) -> Forgotten:
        """Forget one document.

        Raises NotFound when it is not there, or not for this reader; Forbidden for a memory that is shared with it.
        """
        run = await self._begin(caller, "memory", name, reason, event_id)
        document = next(iter(await run.plan.find([name])), None)
        if document is None or not may_read(document, reader) or type(document) not in KINDS:
            raise NotFound(f"there is no document {name!r}")
        if not may_forget(document, reader):
            raise Forbidden(f"memory {name} is not yours: its creator or its owner may forget it")
        run.kind = KINDS[type(document)]
        if isinstance(document, Session):
            return await run.carry_out(run.plan.of_session(document), looks=_LOOKS)
        return await run.carry_out(_page([document, *await self._older([document], reader)]), looks=_LOOKS)

    async def documents(
        self, names: Sequence[str], reader: Reader, caller: Caller, *, reason: str = "", kept: Collection[str] = ()
    ) -> Forgotten:
        """Forget those of these documents that are there, and that this reader may forget.

        Of memories also the versions before them, but for those `kept`.
        """
        run = await self._begin(caller, "memory", "", reason)
        documents = await run.plan.find(list(dict.fromkeys(names)))
        documents = [document for document in documents if may_read(document, reader) and type(document) in KINDS]
        documents = [document for document in documents if may_forget(document, reader)]
        if documents:
            run.kind, run.subject = KINDS[type(documents[0])], documents[0].id
        older = [one for one in await self._older(documents, reader) if one.id not in kept]
        return await run.carry_out(_page([*documents, *older]), looks=_LOOKS)

    async def session(
        self, session: Session, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget a session and its observations; with `until`, those recorded up to there."""
        run = await self._begin(caller, "session", session.session_id, reason, event_id, until)
        return await run.carry_out(run.plan.of_session(session), looks=_LOOKS)

    async def user(
        self, user_id: str, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget everything that names a user; with `until`, what was recorded up to there."""
        run = await self._begin(caller, "user", user_digest(caller.tenant, user_id), reason, event_id, until)
        return await run.carry_out(run.plan.of_user(user_id))

    async def project(
        self, project: str, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget everything of a project; with `until`, what was recorded up to there."""
        run = await self._begin(caller, "project", project, reason, event_id, until)
        return await run.carry_out(run.plan.of_project(project))

    async def made_of(
        self, names: Sequence[str], kind: SubjectKind, subject: str, caller: Caller, *, reason: str = "", event_id: str
    ) -> Forgotten:
        """Forget what was made of documents that are forgotten by now: by someone who had read them before."""
        run = await self._begin(caller, kind, subject, reason, event_id)
        await run.append(await run.plan.made_of(names))
        return run.outcome()

    async def _begin(
        self,
        caller: Caller,
        kind: SubjectKind,
        subject: str,
        reason: str,
        event_id: str = "",
        until: Token | None = None,
    ) -> "_Run":
        now, event_id = await self._current.settle(), event_id or str(new_event_id())
        samples = self._samples or Samples()
        plan = Plan(self._current, caller.tenant, event_id, now if until is None else until, samples.names)
        return _Run(self._current, plan, caller, kind, subject, reason, event_id, samples)

    async def _older(self, documents: Sequence[Document], reader: Reader) -> list[Memory]:
        """The versions that these memories revised and this reader may forget, too."""
        older: dict[DocumentId, Memory] = {}
        for version in [document for document in documents if isinstance(document, Memory)]:
            home = partition_of(project_route(version.tenant, version.project), self._current.log.partitions)
            while version.parent_id and not version.separate_parent and version.parent_id not in older:
                (before,) = await self._current.documents.get([(home, DocumentId(version.parent_id))])
                if not isinstance(before, Memory):
                    break
                older[before.id] = version = before
        return [one for one in older.values() if may_forget(one, reader)]


class _Run:
    """One forgetting in progress: appends the steps of its plan, with ids that a second run, after a crash, repeats."""

    def __init__(
        self,
        current: Current,
        plan: Plan,
        caller: Caller,
        kind: SubjectKind,
        subject: str,
        reason: str,
        event_id: str,
        samples: Samples,
    ) -> None:
        self.plan, self.subject = plan, subject
        self.kind: SubjectKind = kind
        self._current, self._reason, self._event_id, self._samples = current, reason, event_id, samples
        # what was made of it goes with it, also in projects that the caller's key is not for
        self._caller = caller._replace(key_scope=caller.key_scope._replace(projects=()))
        self._token = Token()
        self._reached: set[Durability] = set()
        self._counts: Counter[str] = Counter()

    async def carry_out(self, pages: AsyncIterator[Sequence[Document]], looks: int = 0) -> Forgotten:
        """Plan and append page after page; then look up to `looks` times for what was derived meanwhile."""
        async for page in pages:
            await self.append(await self.plan.erase(page))
        for _ in range(looks if self.plan.gone else 0):
            await self._current.settle()
            steps = await self.plan.again()
            await self.append(steps)
            if all(isinstance(step, Keep) for step in steps):
                break
        await self.append(await self.plan.slots())
        return self.outcome()

    def outcome(self) -> Forgotten:
        """What has been forgotten."""
        return Forgotten(
            event_id=self._event_id,
            documents=dict(self._counts),
            position=str(self._token),
            durability=weakest(self._reached),
        )

    async def append(self, steps: Sequence[Step]) -> None:
        """Append the events of steps, in their order."""
        for step in steps:
            match step:
                case Erase(stream, documents, digest):
                    for document in documents:
                        self._samples.names[document.id] = None
                        if isinstance(document, Searched) and len(self._samples.texts) < SAMPLES:
                            self._samples.texts.append(searchable_text(document))
                    alone = self.kind not in ("session", "user", "project") and not self._counts
                    suffix = "" if alone else f":{digest}"
                    await self._append(
                        self._tombstone(suffix, *stream, documents=[document.id for document in documents])
                    )
                    self._counts.update(KINDS.get(type(document)) or "event" for document in documents)
                case Keep(document, taken, digest):
                    suffix = f":{digest}:stays"
                    await self._append(self._tombstone(suffix, document.project, kept=[document.id], sources=taken))
                case Cut(memory):
                    await self._replace(step, memory, *self._successor(step))
                case Rewrite(slot, content):
                    await self._replace(step, slot, _slot(slot, content, f"{self._event_id}:{step.digest}:kept"))

    async def _append(self, command: ForgetSubject) -> None:
        accepted = await self._current.give(command, self._caller)
        self._token.include_all(Token.parse(accepted.position))
        if command.documents:
            self._reached.add(accepted.durability)

    async def _replace(
        self, step: Cut | Rewrite, old: Memory | Slot, *successors: Remember | WriteAction | SetSlot
    ) -> None:
        """Forget a document and append what takes its place; in one batch, or a crash in between could lose both."""
        tombstone = self._tombstone(f":{step.digest}", old.project, documents=[old.id])
        self._token.include_all(await self._current.append_batch([tombstone, *successors], self._caller))

    def _tombstone(
        self,
        suffix: str,
        project: str,
        session_id: str = "",
        *,
        documents: Sequence[str] = (),
        kept: Sequence[str] = (),
        sources: Sequence[str] = (),
    ) -> ForgetSubject:
        """A tombstone of this forgetting: the one with its own event id when `suffix` is empty, else caused by that."""
        return ForgetSubject(
            event_id=f"{self._event_id}{suffix}",
            kind=self.kind,
            subject=self.subject,
            reason=self._reason,
            documents=list(documents),
            kept=list(kept),
            sources=list(sources),
            project=project,
            session_id=session_id,
            causation=self._event_id if suffix else "",
        )

    def _successor(self, step: Cut) -> list[Remember | WriteAction]:
        """What others still say of a memory, as a memory, and the actions that point to it."""
        old, left = step.memory, step.left
        remember = Remember(
            event_id=successor_event(self._event_id, step.digest),
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
            references=step.references,
            importance=old.importance,
            visibility=old.visibility,
            shared_with=old.shared_with,
            owner=old.owner,
            keep_duplicates=True,
            derived_from=list(left.sources),
        )
        pointing = [
            WriteAction(
                event_id=f"{self._event_id}:{step.digest}:{name}",
                project=project,
                action=name,
                crystallized_into=step.successor,
            )
            for name, project in step.referenced_actions
        ]
        return [remember, *pointing]


def user_digest(tenant: str, user_id: str) -> str:
    """What stands for a user in tombstones and receipts: anyone who knows the name can check that it was this one."""
    return "usr_" + blake2b("\0".join((tenant, user_id)).encode(), digest_size=10).hexdigest()


def _slot(slot: Slot, content: str, event_id: str) -> SetSlot:
    return SetSlot(
        event_id=event_id,
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


async def _page(documents: Sequence[Document]) -> AsyncIterator[Sequence[Document]]:
    yield documents


PAGE = 200
REASON = "import: replace"


class Clear:
    """Forgets what somebody has replaced."""

    def __init__(self, current: Current, forgetting: Forgetting, lookup: Lookup, actions: Actions) -> None:
        self._documents, self._forgetting = current.documents, forgetting
        self._lookup, self._actions = lookup, actions
        self._retired = Retired(current.documents, current.log)

    async def others(self, kept: Collection[str], reader: Reader, caller: Caller) -> Token:
        """Forget all documents but these, as far as the reader may; returns the position behind all of it.

        Raises what forgetting raises, on the way: repeating it goes on.
        """
        token, everywhere = Token(), range(self._documents.partitions)
        projects = {"", *await self._lookup.projects(reader)}
        projects |= {action.project for action in (await self._actions.open_work(reader, None)).actions.values()}
        async for page in self._documents.located(sessions(reader.tenant), everywhere, PAGE):
            for partition, session in page:
                if not isinstance(session, Session) or not may_read(session, reader):
                    continue
                projects.add(session.project)
                if session.id in kept:
                    listing = session_observations(session.id)
                    await self._forget(listing, [partition], kept, reader, caller, token)
                    async for seen in self._retired.of_session(session):
                        names = [one.id for one in seen if one.id not in kept]
                        await self._forget_names(names, kept, reader, caller, token)
                else:
                    gone = await self._forgetting.session(session, caller, reason=REASON)
                    token.include_all(Token.parse(gone.position))
        for project in sorted(projects):
            for listing in (memories, lessons, slots, actions, relations):
                await self._forget(listing(reader.tenant, project), everywhere, kept, reader, caller, token)
        return token

    async def _forget(
        self, listing: str, partitions: Collection[int], kept: Collection[str], reader: Reader, caller: Caller,
        token: Token,
    ) -> None:  # fmt: skip
        async for page in self._documents.pages(listing, list(partitions), PAGE):
            names = [one.id for one in page if one.id not in kept]
            await self._forget_names(names, kept, reader, caller, token)

    async def _forget_names(
        self, names: Sequence[str], kept: Collection[str], reader: Reader, caller: Caller, token: Token
    ) -> None:
        if names:
            gone = await self._forgetting.documents(names, reader, caller, reason=REASON, kept=kept)
            token.include_all(Token.parse(gone.position) if gone.position else {})


KEPT = timedelta(days=180)
"""How long an observation is kept whatever it says."""
UNIMPORTANT = 2
MOST = 200
"""Documents of each kind that one sweep forgets."""


class Swept(NamedTuple):
    """What was, or would be, forgotten: ids of memories and observations."""

    expired: list[str]
    unimportant: list[str]
    position: str


class Sweep:
    """Forgets expired memories and old observations that hardly mattered."""

    def __init__(self, current: Current, lookup: Lookup, forgetting: Forgetting, clock: Clock = system_clock) -> None:
        self._current, self._lookup, self._forgetting, self._clock = current, lookup, forgetting, clock

    async def run(self, reader: Reader, caller: Caller, *, dry_run: bool) -> Swept:
        """Forget what the reader may see of it; with `dry_run`, only say what that would be.

        An observation stays of which something was made that a forgetting would take along.
        """
        memories = await self._lookup.found(expired, reader, None, MOST, kinds=["memory"])
        until_ms = to_ms(self._clock() - KEPT)
        old = await self._lookup.found(
            unimportant, reader, None, MOST, UNIMPORTANT, kinds=["observation"], to_ms=until_ms
        )
        outlived: list[str] = [memory.id for memory in memories]
        minor: list[str] = [one.id for one in old if isinstance(one, Observation) and not await self._is_source(one)]
        token = Token()
        if not dry_run:
            for names, reason in ((outlived, "expired"), (minor, "old and unimportant")):
                if names:
                    gone = await self._forgetting.documents(names, reader, caller, reason=reason)
                    token.include_all(Token.parse(gone.position) if gone.position else {})
        return Swept(outlived, minor, str(token))

    async def _is_source(self, seen: Observation) -> bool:
        listings = [derived(seen.id), derived(summary_id(seen.session))]
        return bool(await self._current.documents.members_of(listings, range(self._current.documents.partitions)))
