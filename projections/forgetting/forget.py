"""Forgetting: makes a plan of what goes with a subject, and appends its tombstones; forgetting in bulk.

A memory that is forgotten by its id goes with the versions before it that its author wrote: deleting the newest deletes
all of it. What it superseded because it states the same, or what another agent wrote, is a memory of its own, and
current again.

Names (of tenants, projects, sessions and agents) stay in the log's stubs, because a replay needs them; a user's does
not.
"""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ingest.commands.decide import Caller, ForgetSubject, Remember, SetSlot, WriteAction
from ingest.commands.handler import Accepted
from ingest.durability import Durability, weakest
from ingest.errors import Forbidden, NotFound
from ingest.ids import DocumentId, new_event_id
from ingest.log.position import Token, partition_of, project_route
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.forgetting.plan import LOOKS, Cut, Erase, Keep, Plan, Rewrite, Step, successor_event
from projections.nouns.access import Reader, has_access, may_forget, may_read
from projections.nouns.action import actions
from projections.nouns.document import Document, Searched, carried, searchable_text, subject_kind
from projections.nouns.lesson import lessons
from projections.nouns.memory import EXPIRING, Memory, memories
from projections.nouns.observation import Observation, session_observations
from projections.nouns.relation import relations
from projections.nouns.rows import derived
from projections.nouns.session import Session, sessions, summary_id
from projections.nouns.slot import Slot, slots
from projections.operations.current import Current
from projections.queries.lookup import Lookup, unimportant
from projections.queries.retired import Retired
from projections.queries.work import Actions
from projections.store.receipts import Receipt

SAMPLES = 20
"""Texts of forgotten documents that a probe searches for."""


class Samples:
    """The ids of what one or several forgettings forgot, and texts of some; in memory only."""

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

    @property
    def token(self) -> Token:
        """The position; empty if nothing was appended."""
        return Token.parse(self.position) if self.position else Token()


@dataclass
class Forgetting:
    """Forgets what belongs to a subject. Repeating a forgetting with its event id changes nothing.

    Documents are noted in `samples` before they are forgotten; those that it has were, and are skipped.
    """

    _current: Current
    _samples: Samples | None = None

    async def document(
        self, name: str, reader: Reader, caller: Caller, *, reason: str = "", event_id: str = ""
    ) -> Forgotten:
        """Forget one document.

        Raises NotFound when it is not there, or not for this reader; Forbidden for a memory that is shared with it.
        """
        run = await self._begin(caller, ForgetSubject(event_id=event_id, kind="memory", subject=name, reason=reason))
        document = next(iter(await run.plan.find([name])), None)
        kind = subject_kind(document) if document and has_access(document, reader) else None
        if document is None or kind is None:
            raise NotFound(f"there is no document {name!r}")
        if not may_forget(document, reader):
            raise Forbidden(f"memory {name} belongs to another agent: only its creator or owner can delete it")
        run.order = replace(run.order, kind=kind)
        if isinstance(document, Session):
            return await run.carry_out(run.plan.of_session(document))
        return await run.carry_out(_page([document, *await self._older([document], reader)]))

    async def documents(
        self, names: Sequence[str], reader: Reader, caller: Caller, *, reason: str = "", kept: Collection[str] = ()
    ) -> Forgotten:
        """Forget those of these documents that are there, and that this reader may forget.

        Of memories also the versions before them, but for those `kept`.
        """
        run = await self._begin(caller, ForgetSubject(kind="memory", subject="", reason=reason))
        documents = await run.plan.find(list(dict.fromkeys(names)))
        documents = [document for document in documents if has_access(document, reader) and subject_kind(document)]
        documents = [document for document in documents if may_forget(document, reader)]
        if documents:
            run.order = replace(run.order, kind=subject_kind(documents[0]), subject=documents[0].id)
        older = [version for version in await self._older(documents, reader) if version.id not in kept]
        return await run.carry_out(_page([*documents, *older]))

    async def session(
        self, session: Session, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget a session and its observations; with `until`, those recorded up to there."""
        order = ForgetSubject(event_id=event_id, kind="session", subject=session.session_id, reason=reason)
        run = await self._begin(caller, order, until)
        return await run.carry_out(run.plan.of_session(session))

    async def user_or_project(self, receipt: Receipt, caller: Caller, until: Token) -> Forgotten:
        """Forget everything that names a receipt's user, or everything of its project, that was recorded up to `until`.

        It is not planned again at the end: the job that carries out a receipt runs it again.
        """
        run = await self._begin(caller, _order(receipt), until)
        is_user = receipt.kind == "user"
        pages = run.plan.of_user(receipt.name) if is_user else run.plan.of_project(receipt.name)
        return await run.carry_out(pages, looks=0)

    async def made_of_it(self, receipt: Receipt, caller: Caller) -> Forgotten:
        """Forget what was made of the samples, which are forgotten by now: by someone who had read them before."""
        run = await self._begin(caller, _order(receipt))
        return await run.carry_out(_page([]), looks=1)

    async def _begin(self, caller: Caller, order: ForgetSubject, until: Token | None = None) -> "_Run":
        now, order = await self._current.settle(), replace(order, event_id=order.event_id or str(new_event_id()))
        samples = self._samples or Samples()
        plan = Plan(self._current, caller.tenant, order.event_id, now if until is None else until, samples.names)
        # what was made of it goes with it, also in projects that the caller's key is not for
        caller = caller._replace(key_scope=caller.key_scope._replace(projects=()))
        return _Run(self._current, plan, caller, order, samples)

    async def _older(self, documents: Sequence[Document], reader: Reader) -> list[Memory]:
        """The earlier versions of these memories that this reader may forget."""
        older: dict[DocumentId, Memory] = {}
        for version in [document for document in documents if isinstance(document, Memory)]:
            home = partition_of(project_route(version.tenant, version.project), self._current.log.partitions)
            while version.parent_id and not version.separate_parent and version.parent_id not in older:
                (before,) = await self._current.documents.get([(home, DocumentId(version.parent_id))])
                if not isinstance(before, Memory):
                    break
                older[before.id] = version = before
        return [version for version in older.values() if may_forget(version, reader)]


@dataclass
class _Run:
    """One forgetting in progress: appends the steps of its plan, with ids that a second run, after a crash, repeats."""

    current: Current
    plan: Plan
    caller: Caller
    order: ForgetSubject
    """Each tombstone is this order for some documents."""
    samples: Samples
    token: Token = field(default_factory=Token)
    reached: set[Durability] = field(default_factory=set[Durability])
    counts: Counter[str] = field(default_factory=Counter[str])

    async def carry_out(self, pages: AsyncIterator[Sequence[Document]], looks: int = LOOKS) -> Forgotten:
        """Append step after step of the plan for what is on these pages."""
        async for steps in self.plan.steps(pages, looks):
            for step in steps:
                await self._append_step(step)
        return Forgotten(
            event_id=self.order.event_id,
            documents=dict(self.counts),
            position=str(self.token),
            durability=weakest(self.reached),
        )

    async def _append_step(self, step: Step) -> None:
        match step:
            case Erase((project, session_id), documents, digest):
                for document in documents:
                    self.samples.names[document.id] = None
                    if isinstance(document, Searched) and len(self.samples.texts) < SAMPLES:
                        self.samples.texts.append(searchable_text(document))
                alone = self.order.kind not in ("session", "user", "project") and not self.counts
                names: list[str] = [document.id for document in documents]
                tombstone = self._tombstone("" if alone else f":{digest}", project, session_id, documents=names)
                self.reached.add((await self._append(tombstone)).durability)
                self.counts.update(subject_kind(document) or "event" for document in documents)
            case Keep(document, taken, digest):
                suffix = f":{digest}:stays"
                await self._append(self._tombstone(suffix, document.project, kept=[document.id], sources=taken))
            case Cut(memory):
                await self._replace(step, memory, *self._successor(step))
            case Rewrite(slot, content):
                event_id = f"{self.order.event_id}:{step.digest}:kept"
                remainder = SetSlot(**carried(slot, SetSlot, without={"content"}), event_id=event_id, content=content)
                await self._replace(step, slot, remainder)

    async def _append(self, command: ForgetSubject) -> Accepted:
        accepted = await self.current.give(command, self.caller)
        self.token.include_all(Token.parse(accepted.position))
        return accepted

    async def _replace(
        self, step: Cut | Rewrite, old: Memory | Slot, *successors: Remember | WriteAction | SetSlot
    ) -> None:
        """Forget a document and append what takes its place; in one batch, or a crash in between could lose both."""
        tombstone = self._tombstone(f":{step.digest}", old.project, documents=[old.id])
        self.token.include_all(await self.current.append_batch([tombstone, *successors], self.caller))

    def _tombstone(self, suffix: str, project: str, session_id: str = "", **listed: list[str]) -> ForgetSubject:
        """A tombstone of this forgetting: the one with its own event id when `suffix` is empty, else caused by that."""
        causation = self.order.event_id if suffix else ""
        event_id = f"{self.order.event_id}{suffix}"
        return replace(
            self.order, event_id=event_id, causation=causation, project=project, session_id=session_id, **listed
        )

    def _successor(self, step: Cut) -> list[Remember | WriteAction]:
        """What others still say of a memory, as a memory, and the actions that point to it."""
        content, title = step.left.content, step.memory.title
        fields = carried(step.memory, Remember, without={"files", "metadata"})  # they may name what is forgotten
        fields |= {
            "event_id": successor_event(self.order.event_id, step.digest),
            "content": content,
            "title": title if content.startswith(title) else "",
            "references": step.references,
            "keep_duplicates": True,
            "derived_from": list(step.left.sources),
        }
        if step.memory.forget_after:
            left = step.memory.forget_after - system_clock()
            fields["ttl_days"] = max(left / timedelta(days=1), SOON_DAYS)
        remember = Remember(**fields)
        pointing = [
            WriteAction(
                event_id=f"{self.order.event_id}:{step.digest}:{name}",
                project=project,
                action=name,
                crystallized_into=step.successor,
            )
            for name, project in step.referenced_actions
        ]
        return [remember, *pointing]


SOON_DAYS = 1e-6
"""The time to live of what is left of a memory that has just expired."""


def user_digest(tenant: str, user_id: str) -> str:
    """What represents a user in tombstones and receipts: anyone who knows the name can check that it was this one."""
    return "usr_" + blake2b("\0".join((tenant, user_id)).encode(), digest_size=10).hexdigest()


def _order(receipt: Receipt) -> ForgetSubject:
    return ForgetSubject(event_id=receipt.id, kind=receipt.kind, subject=receipt.subject, reason=receipt.reason)


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

        async def forget(pages: AsyncIterator[Sequence[Document]]) -> None:
            async for page in pages:
                if names := [document.id for document in page if document.id not in kept]:
                    gone = await self._forgetting.documents(names, reader, caller, reason=REASON, kept=kept)
                    token.include_all(gone.token)

        projects = {"", *await self._lookup.projects(reader)}
        projects |= {action.project for action in (await self._actions.open_work(reader, None)).actions.values()}
        async for page in self._documents.located(sessions(reader.tenant), everywhere, PAGE):
            for partition, session in page:
                if not isinstance(session, Session) or not may_read(session, reader):
                    continue
                projects.add(session.project)
                if session.id in kept:
                    await forget(self._documents.pages(session_observations(session.id), [partition], PAGE))
                    await forget(self._retired.of_session(session))
                else:
                    token.include_all((await self._forgetting.session(session, caller, reason=REASON)).token)
        for project in sorted(projects):
            for listing in (memories, lessons, slots, actions, relations):
                await forget(self._documents.pages(listing(reader.tenant, project), everywhere, PAGE))
        return token


KEPT = timedelta(days=180)
"""The minimum age at which an observation can be deleted."""
UNIMPORTANT = 2
MOST = 200
"""The most documents of each kind that one sweep deletes."""


class Swept(NamedTuple):
    """What was, or would be, forgotten: ids of memories and observations."""

    expired: list[str]
    unimportant: list[str]
    position: str


class Sweep:
    """Forgets expired memories and old observations that hardly mattered."""

    def __init__(self, current: Current, lookup: Lookup, forgetting: Forgetting, clock: Clock = system_clock) -> None:
        self._documents, self._lookup, self._forgetting, self._clock = current.documents, lookup, forgetting, clock

    async def run(self, reader: Reader, caller: Caller, *, dry_run: bool) -> Swept:
        """Forget what the reader can see of it; with `dry_run`, only say what that would be.

        An observation stays of which something was made that a forgetting would take along.
        """
        places = await self._documents.members(EXPIRING, range(self._documents.partitions), MOST)
        ended = f"{to_ms(self._clock()) + 1:014d}|"
        over = [(partition, DocumentId(due.rpartition("|")[2])) for partition, due in places if due < ended]
        # as of no moment: for a request's reader, expired memories are gone already
        outlived = await self._documents.readable(over, reader._replace(now=None), Memory)
        until_ms = to_ms(self._clock() - KEPT)
        minor: list[str] = []
        for document in await self._lookup.found(
            unimportant, reader, None, MOST, UNIMPORTANT, kinds=["observation"], to_ms=until_ms
        ):
            if isinstance(document, Observation):
                listings = [derived(document.id), derived(summary_id(document.session))]
                if not await self._documents.members_of(listings, range(self._documents.partitions)):
                    minor.append(document.id)
        swept: dict[str, list[str]] = {"expired": [memory.id for memory in outlived], "old and unimportant": minor}
        token = Token()
        for reason, names in swept.items():
            if names and not dry_run:
                token.include_all((await self._forgetting.documents(names, reader, caller, reason=reason)).token)
        return Swept(*swept.values(), position=str(token))
