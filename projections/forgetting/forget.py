"""Forgetting: what belongs to a subject, and the tombstones that make it go.

A document goes with what was derived from it and nothing else says (see `derived`) and, for a condensed memory, with
what that stands for. A memory that is forgotten by its id goes with the versions before it that its author wrote:
deleting the newest deletes all of it. What it superseded because it states the same, or what another agent wrote, is a
memory of its own, and current again.
A session goes with its observations, its summary and the commits made in no other; a user with every
document that names the user and every session of its own; a project with everything. What is recorded after a
forgetting began stays. A slot that an observation was reflected into stays, without those lines.

Names (of tenants, projects, sessions and agents) stay in the log's stubs, because a replay needs them; a user's does
not.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

from ingest.commands.decide import Caller
from ingest.errors import Forbidden, NotFound
from ingest.events.subject import MAX_FORGOTTEN, SubjectKind
from ingest.ids import DocumentId
from ingest.log.position import Token, partition_of, project_route, session_route
from projections.condensing.slots import without
from projections.documents.access import Reader, may_forget, may_read
from projections.documents.document import Document
from projections.documents.memories import Memory
from projections.documents.observations import session_observations
from projections.documents.rows import derived, of_user
from projections.documents.sessions import SESSION, Commit, Session, session_commits, sessions, summary_id
from projections.documents.slots import Slot, slot_id
from projections.documents.tombstones import Ledger, SupersededEvent, unpacked
from projections.forgetting.derived import Derived, is_derived_by_server, read_sources, sources_of, verdict
from projections.forgetting.forgetting_run import KINDS as KINDS
from projections.forgetting.forgetting_run import OF_A_PROJECT, ForgettingRun, Stream, Watch, session_of, stream_of
from projections.forgetting.forgetting_run import Forgotten as Forgotten
from projections.forgetting.retired import Retired
from projections.operations.current import Current

_PAGE = 100
"""Documents whose derived ones are looked for in one round trip."""
_LOOKS = 5
"""How often a forgetting looks again before it leaves what others derive meanwhile to them."""


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
        run = self._run(caller, kind, name, reason, event_id, until)
        if isinstance(found, Session):
            await self._session(run, found, caller.tenant)
        else:
            await self._documents(run, [found, *await self._older([found], reader)], caller.tenant)
        return await self._finished(run, caller.tenant)

    async def documents(
        self, names: Sequence[str], reader: Reader, caller: Caller, *, reason: str = "", kept: Collection[str] = ()
    ) -> Forgotten:
        """Forget those of these documents that are there, and that this reader may forget.

        Of memories also the versions before them, but for those `kept`.
        """
        until = await self._current.settle()
        found = await self._found(list(dict.fromkeys(names)), caller.tenant)
        readable = [one for one in found if may_read(one, reader) and type(one) in KINDS]
        readable = [one for one in readable if may_forget(one, reader)]
        kind = KINDS[type(readable[0])] if readable else "memory"
        run = self._run(caller, kind, readable[0].id if readable else "", reason, "", until)
        older = [one for one in await self._older(readable, reader) if one.id not in kept]
        await self._documents(run, [*readable, *older], caller.tenant)
        return await self._finished(run, caller.tenant)

    async def session(
        self, session: Session, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget a session and its observations; with `until`, those recorded up to there."""
        now = await self._current.settle()
        run = self._run(caller, "session", session.session_id, reason, event_id, now if until is None else until)
        await self._session(run, session, caller.tenant)
        return await self._finished(run, caller.tenant)

    async def user(
        self, user_id: str, caller: Caller, *, reason: str = "", event_id: str = "", until: Token | None = None
    ) -> Forgotten:
        """Forget everything that names a user; with `until`, what was recorded up to there."""
        now, subject = await self._current.settle(), user_digest(caller.tenant, user_id)
        run = self._run(caller, "user", subject, reason, event_id, now if until is None else until)
        run.covers = lambda one: getattr(one, "user_id", "") == user_id
        for partition in range(self._reader.partitions):
            async for page in self._reader.pages(of_user(caller.tenant, user_id), [partition]):
                about = [DocumentId(one.subject) for one in page if isinstance(one, SupersededEvent)]
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
        run = self._run(caller, "project", project, reason, event_id, now if until is None else until)
        run.covers = lambda one: getattr(one, "project", None) == project
        everywhere = range(self._reader.partitions)
        async for page in self._reader.pages(sessions(tenant, project), everywhere):
            for session in page:
                if isinstance(session, Session):
                    await self._session(run, session, tenant)
        home = [partition_of(project_route(tenant, project), self._reader.partitions)]
        for listing in OF_A_PROJECT.values():
            async for page in self._reader.pages(listing(tenant, project), home):
                await self._documents(run, page, tenant)
        await self._clean_slots(run, tenant)
        return run.outcome()

    async def made_of(
        self, names: Sequence[str], kind: SubjectKind, subject: str, caller: Caller, *, reason: str = "", event_id: str
    ) -> Forgotten:
        """Forget what was made of documents that are forgotten by now: by someone who had read them before."""
        until = await self._current.settle()
        run = self._run(caller, kind, subject, reason, event_id, until)
        run.passed_over(names)
        for start in range(0, len(names), _PAGE):
            await self._settle_derived(run, names[start : start + _PAGE], caller.tenant)
        return run.outcome()

    def _run(
        self, caller: Caller, kind: SubjectKind, subject: str, reason: str, event_id: str, until: Token
    ) -> ForgettingRun:
        return ForgettingRun(self._current, caller, kind, subject, reason, event_id, until, self._watch, self._done)

    async def _finished(self, run: ForgettingRun, tenant: str) -> Forgotten:
        await self._look_again(run, tenant)
        await self._clean_slots(run, tenant)
        return run.outcome()

    async def _session(self, run: ForgettingRun, session: Session, tenant: str) -> None:
        """Its observations with what was derived from them, then the session itself."""
        run.sessions.add(DocumentId(session.id))
        where = Stream(session.project, session.session_id)
        home = [partition_of(session_route(tenant, *where), self._reader.partitions)]
        async for page in self._reader.pages(session_observations(session.id), home):
            await self._documents(run, page, tenant)
        async for page in self._retired.of_session(session):
            await self._documents(run, page, tenant)
        everywhere = range(self._reader.partitions)
        async for page in self._reader.pages(session_commits(tenant, session.session_id), everywhere):
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
        """The versions that these memories revised and this reader may forget, too."""
        older: dict[DocumentId, Memory] = {}
        for at in [one for one in found if isinstance(one, Memory)]:
            home = partition_of(project_route(at.tenant, at.project), self._reader.partitions)
            while at.parent_id and not at.separate_parent and at.parent_id not in older:
                (before,) = await self._reader.get([(home, DocumentId(at.parent_id))])
                if not isinstance(before, Memory):
                    break
                older[before.id] = at = before
        return [one for one in older.values() if may_forget(one, reader)]

    async def _retired_of(self, run: ForgettingRun, ledger: Ledger, user_id: str, tenant: str) -> list[DocumentId]:
        """Forget a user's retired observations; returns what else the user's marks in the ledger are about."""
        async for page in self._retired.of_ledger(ledger, lambda entry: entry.user_id == user_id):
            await self._documents(run, page, tenant)
        return [one.subject for one in unpacked(ledger) if one.user_id == user_id and one.subject == ledger.session]

    async def _clean_slots(self, run: ForgettingRun, tenant: str) -> None:
        """Take what the forgotten observations said out of the slots that sessions are reflected into."""
        for project, said in run.said.items():
            for place in dict.fromkeys([project, ""]):  # the nameless one's for callers who know no projects
                for label, lines in said.items():
                    name = slot_id(tenant, place, label)
                    slot = await self._current.get(project_route(tenant, place), name) if lines else None
                    if isinstance(slot, Slot) and (left := without(label, slot.content, lines)) != slot.content:
                        await run.rewrite(slot, left)

    async def _documents(self, run: ForgettingRun, found: Sequence[Document], tenant: str) -> None:
        """Documents with what becomes of those derived from them, each in its stream.

        The derived ones first: who is interrupted in between finds them again by what they are derived from.
        """
        going = [one for one in found if type(one) in KINDS and not run.is_late(one)]
        marks = [one for one in found if type(one) not in KINDS and not run.is_late(one)]
        run.gone.update(one.id for one in going)
        run.touched.update(name for one in going if (name := session_of(one)) is not None)
        derived_too = await self._fates(run, going, tenant)
        await self._forget_all(run, [*derived_too, *going, *marks])

    async def _settle_derived(self, run: ForgettingRun, names: Sequence[str], tenant: str) -> bool:
        """See to what is derived from documents that are gone; returns whether there was anything to do."""
        before = len(run.gone), len(run.changed)
        await self._forget_all(run, await self._fates(run, list(names), tenant))
        return before != (len(run.gone), len(run.changed))

    async def _look_again(self, run: ForgettingRun, tenant: str) -> None:
        """Look once more at what was derived while this went on, as by another forgetting that left some of it.

        Whichever of two that go on at once looks last, sees what both have forgotten.
        """
        if not run.gone:
            return
        for _ in range(_LOOKS):
            await self._current.settle()
            names = [*run.gone, *map(summary_id, run.touched)]
            changed = False
            for start in range(0, len(names), _PAGE):
                changed |= await self._settle_derived(run, names[start : start + _PAGE], tenant)
            if not changed and not await self._kept_again(run, tenant):
                return

    async def _kept_again(self, run: ForgettingRun, tenant: str) -> bool:
        """Judge once more what stayed; returns whether some of it did not."""
        kept = [one.document for one in await self._reader.find_all([*map(DocumentId, run.stayed)])]
        going = await self._judged(run, [one for one in kept if isinstance(one, Derived)], tenant)
        await self._forget_all(run, going)
        return bool(going)

    async def _forget_all(self, run: ForgettingRun, documents: Iterable[Document]) -> None:
        streams: dict[Stream, list[Document]] = {}
        for one in documents:
            if (stream := stream_of(one)) is not None:
                streams.setdefault(stream, []).append(one)
        for where, found in streams.items():
            for start in range(0, len(found), MAX_FORGOTTEN):
                await run.forget(where, found[start : start + MAX_FORGOTTEN])

    async def _fates(
        self, run: ForgettingRun, sources: Sequence[Document] | Sequence[str], tenant: str
    ) -> list[Document]:
        """See to what was derived from these; returns what of it goes, with what was derived from that in turn."""
        going: dict[str, Document] = {}
        waiting: Sequence[Document | str] = sources
        while waiting:
            changed = len(run.changed)
            condensed = {name for one in waiting if isinstance(one, Memory) for name in one.condensed}
            made = [one for one in await self._derived(waiting) if one.id not in run.gone]
            further = [one for one in made if one.id in condensed]
            judged = [one for one in made if isinstance(one, Derived) and one.id not in condensed]
            further += await self._judged(run, judged, tenant)
            going |= {one.id: one for one in further}
            run.gone.update(going)
            waiting = [*further, *list(run.changed)[changed:]]
        return list(going.values())

    async def _judged(self, run: ForgettingRun, candidates: Sequence[Derived], tenant: str) -> list[Document]:
        """Keep, or cut down, those of which something is left; returns the others."""
        candidates = [one for one in candidates if is_derived_by_server(one) or not run.is_late(one)]
        if not candidates:
            return []
        names = list(dict.fromkeys(name for one in candidates for name in sources_of(one) if name not in run.gone))
        said = await read_sources(self._reader, lambda names: self._found(names, tenant), names, run.is_gone)
        going: list[Document] = []
        for judged in await asyncio.to_thread(lambda: [verdict(one, said) for one in candidates]):
            if judged.left is None:
                going.append(judged.document)
            elif judged.is_whole:
                await run.keep(judged)
            elif isinstance(judged.document, Memory):
                await run.cut(judged.document, judged.left)
        return going

    async def _derived(self, sources: Sequence[Document | str]) -> list[Document]:
        """What names these, and what a condensed memory stands for."""
        everywhere = range(self._reader.partitions)
        names: list[str] = []
        for one in sources:
            name = one if isinstance(one, str) else one.id
            session = name if name.startswith(f"{SESSION}_") else None if isinstance(one, str) else session_of(one)
            names += [name] if session is None else [name, summary_id(DocumentId(session))]
        made = await self._reader.members_of([derived(name) for name in dict.fromkeys(names)], everywhere)
        made += [DocumentId(name) for one in sources if isinstance(one, Memory) for name in one.condensed]
        return [one.document for one in await self._reader.find_all(list(dict.fromkeys(made)))]


def user_digest(tenant: str, user_id: str) -> str:
    """What stands for a user in tombstones and receipts: who knows the name can tell that it was this one."""
    return "usr_" + blake2b("\0".join((tenant, user_id)).encode(), digest_size=10).hexdigest()
