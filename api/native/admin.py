"""Routes for operators: how far everything is, jobs, reconciliation, dead letters, rebuilds.

An admin sees the dead letters of its tenant and projects; an operator also those that name no tenant.
"""

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct, convert
from msgspec.structs import asdict

from api.http.endpoint import Endpoint
from api.native.common import Bounds, InProject, Queued, Repeatable, as_struct, router
from api.services import NativeCall
from ingest.commands.command import Name
from ingest.commands.decide import Quarantine
from ingest.commands.handler import Accepted
from ingest.errors import CommandRejected, RebuildUnderWay
from ingest.roles import ADMIN, OPERATOR
from projections.dead_letters.records import Outcome, State
from projections.dead_letters.room import Done, LogLocation, Reason, Selection
from projections.documents.access import operator_of
from projections.documents.document import Searched, searchable_text
from projections.embedding.live import choice_of, chosen
from projections.maintenance.reconciling import Fault, Findings, load_report
from projections.queries.lookup import hidden
from projections.queries.views import Items
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import Canaries
from projections.rebuilding.rebuilds import Part, Rebuild, Rebuilds, Step, Switch, What, estimate
from projections.rebuilding.rebuilds import State as RebuildState
from projections.vectors.embedder import EmbeddingError

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)
Partition = Annotated[int, Meta(ge=0)]
MOST_HIDDEN, SHOWN_CHARS = 1_000, 500
"""Documents in quarantine that are listed, and characters of each."""


class Progress(Struct, frozen=True, kw_only=True):
    """How far a partition is; positions within it. `feed` and `to_embed` count entries, `worker` is who leases it."""

    partition: int
    generation: int
    head: str
    checkpoint: str
    searchable: str
    lag: int
    to_embed: int
    feed: int
    dead_letters: int
    worker: str | None


class Projections(Struct, frozen=True):
    """How far all partitions are."""

    partitions: list[Progress]


class QuarantineRequest(Repeatable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which memory, lesson or observation to hide, or to show again (`released`), and why."""

    id: Name
    released: bool = False
    reason: Annotated[str, Meta(max_length=512)] = ""


class Quarantined(Struct, frozen=True, kw_only=True):
    """A document in quarantine, what put it there (`rule` or `operator`), and the beginning of its text."""

    id: str
    project: str
    quarantined: str
    text: str


@route("POST /v1/admin/quarantine", ADMIN, 202, faults={404: "There is no such memory, lesson or observation."})
async def post_quarantine(call: NativeCall, body: QuarantineRequest) -> Accepted:
    """Hide a document from everyone but admins, or show it again.

    The event stays in the log: `GET /v1/audit` shows who did it, when and why.
    """
    order = Quarantine(event_id=body.event_id, document=body.id, released=body.released, reason=body.reason)
    operator = operator_of(call.tenant, call.key_scope)
    return await call.operations.memories.quarantine(order, operator, call.caller())


@route("GET /v1/admin/quarantine", ADMIN)
async def list_quarantine(call: NativeCall, query: InProject) -> Items[Quarantined]:
    """The documents in quarantine.

    Up to 1,000 of them, with the beginning of each text.
    """
    operator = operator_of(call.tenant, call.key_scope)
    documents = await call.queries.lookup.found(hidden, operator, query.project, MOST_HIDDEN)
    texts = [searchable_text(document)[:SHOWN_CHARS] for document in documents if isinstance(document, Searched)]
    rows = zip(documents, texts, strict=True)
    return Items([as_struct(Quarantined, document, text=text) for document, text in rows])


@route("GET /v1/admin/projections", OPERATOR)
async def get_projections(call: NativeCall) -> Projections:
    """How far every partition is.

    What is recorded, applied and searchable, and which worker applies it.
    """
    return Projections(await call.queries.progress())  # pyright: ignore[reportArgumentType]


@route("POST /v1/admin/snapshots", OPERATOR, 202)
async def post_snapshot(call: NativeCall) -> Queued:
    """Write an index snapshot now.

    202 with whether one was queued: not while one is being written.
    """
    return Queued(queued=await call.jobs.enqueue("snapshot", True, job_id="snapshot"))


class LettersRequest(Bounds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of dead letters, or of those that were discarded."""

    state: State = "parked"
    partition: Partition | None = None
    code: str = ""
    type: str = ""
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class RedriveRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to try again: one by its position, or all of a code or an event type."""

    position: str = ""
    partition: Partition | None = None
    code: str = ""
    type: str = ""
    cursor: str | None = None


class DiscardRequest(RedriveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dead letters to discard, the reason, and whether to erase their text from the log."""

    reason: Annotated[str, Meta(min_length=1, max_length=512)]
    erase: bool = False


class DiscardReason(Struct, frozen=True, kw_only=True):
    """Why, by whom and when a letter was discarded, and whether its event was erased."""

    reason: str
    agent_id: str
    at: datetime
    erased: bool


class LetterView(Struct, frozen=True, kw_only=True):
    """An event that could not be applied. `message` is empty for who can't read the event, which is null once gone;
    `tried_at` and `release` are of the last try."""

    position: str
    state: State
    code: str
    message: str
    type: str
    attempts: int
    parked_at: datetime | None
    tried_at: datetime | None
    release: str
    redrive_requested: bool
    discarded: DiscardReason | None
    event: dict[str, Any] | None


class LettersView(Struct, frozen=True, kw_only=True):
    """A page of dead letters, the cursor of the next one, and what became of dead letters ever, of all that there were.

    `counts` are of the whole server, and null for who is not its operator.
    """

    dead_letters: list[LetterView]
    next: str | None
    counts: dict[Outcome, int] | None


@route("GET /v1/admin/dead-letters", ADMIN)
async def list_letters(call: NativeCall, query: LettersRequest) -> LettersView:
    """Events that could not be applied.

    In the order of partitions and positions.
    """
    letters = call.operations.letters
    return await letters.page(as_struct(Selection, query), call.reader(), query.limit)  # pyright: ignore[reportReturnType]


@route("GET /v1/admin/dead-letters/{position}", ADMIN,
    faults={422: "Invalid log position, or the scope is isolated and no agent was given."})  # fmt: skip
async def get_letter(call: NativeCall, position: str) -> LetterView:
    """One of them, with its event and its error.

    As far as the reader can see it.
    """
    return await call.operations.letters.show(_location(call, position), call.reader())  # pyright: ignore[reportReturnType]


@route("POST /v1/admin/dead-letters/redrive", ADMIN, 202, faults={404: "There is no such dead letter."})
async def post_redrive(call: NativeCall, body: RedriveRequest) -> Done:
    """Try some again.

    202 with their positions; the workers do it.
    """
    letters = call.operations.letters
    if body.position:
        return await letters.redrive(_location(call, body.position), call.reader())
    return await letters.redrive_all(_selection(body), call.reader())


@route("POST /v1/admin/dead-letters/discard", ADMIN,
    faults={404: "There is no such dead letter.", 409: "Its partition is being rebuilt: `being_rebuilt`."})  # fmt: skip
async def post_discard(call: NativeCall, body: DiscardRequest) -> Done:
    """Discard some: they will not be applied.

    Answers their positions.
    """
    letters, reader = call.operations.letters, call.reader()
    reason = Reason(reason=body.reason, agent_id=call.caller().agent_id, erase=body.erase)
    if body.position:
        return await letters.discard(_location(call, body.position), reader, reason)
    return await letters.discard_all(_selection(body), reader, reason)


def _location(call: NativeCall, position: str) -> LogLocation:
    return LogLocation.parse(position, call.operations.letters.partitions)


def _selection(request: RedriveRequest) -> Selection:
    if not (request.code or request.type):
        raise CommandRejected("name a position, a code or a type", "position")
    return as_struct(Selection, request)


class ReportView(Struct, frozen=True, kw_only=True):
    """A reconciliation, finished or in progress: what it found in each partition and in all, and what to do.

    `next` is the partition that it continues with, null when it is over.
    """

    started_at: datetime
    finished_at: datetime | None
    next: int | None
    partitions: list[Findings]
    found: dict[Fault, int]
    advice: list[str]


class Newest(Struct, frozen=True):
    """The newest reconciliation; null when there was none."""

    report: ReportView | None


@route("GET /v1/admin/reconcile", OPERATOR)
async def get_reconcile(call: NativeCall) -> Newest:
    """What the newest reconciliation found.

    And what it repaired; null if there was none.
    """
    report = await load_report(call.redis)
    return Newest(None if report is None else convert(report, ReportView, from_attributes=True))


@route("POST /v1/admin/reconcile", OPERATOR, 202)
async def post_reconcile(call: NativeCall) -> Queued:
    """Reconcile now.

    202 with whether a job was queued: not while a requested one is waiting or running.
    """
    return Queued(queued=await call.jobs.enqueue("reconcile", True, job_id="reconcile-now"))


class RebuildOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to rebuild: documents of all partitions, or of some; switched to unasked, or when told to.

    Or the embeddings of all, by another `embedder`: one that MNEMOLOG_EMBEDDERS lists, written in the same way, or that
    of MNEMOLOG_EMBEDDER, which is what counts without it.
    """

    what: What | None = None
    embedder: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    partitions: Annotated[list[Partition], Meta(min_length=1)] | None = None
    switch: Switch = "auto"


class RebuildRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which partition to rebuild; all of them when none is named."""

    partition: Partition | None = None


class SwitchRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With `force` also while the canaries differ."""

    force: bool = False


class RebuildView(Struct, frozen=True, kw_only=True):
    """A rebuild. `done` and `total` count log entries, `rate` those of a second; `estimate_s` is what is left at it.

    Of embeddings they count documents, and `model` is what their vectors are made by. `why` says what it waits for or
    what went wrong, `partitions` how far each is.
    """

    id: str
    what: What
    model: str | None
    state: RebuildState
    switch: Switch
    why: str
    done: int
    total: int
    rate: float
    estimate_s: float | None
    started_at: datetime
    finished_at: datetime | None
    can_roll_back_until: datetime | None
    canaries: Canaries | None
    partitions: list[Part]


class RebuildsView(Struct, frozen=True):
    """The newest rebuilds."""

    rebuilds: list[RebuildView]


class Rebuilding(Struct, frozen=True):
    """The partitions whose rebuild has begun."""

    queued: list[int]


_NOT_NOW = {409: "The rebuild is in another state: `wrong_rebuild_state`."}
_ANOTHER = {409: "Another one has not ended: `rebuild_under_way`; `rebuild` is its id."}


@route("GET /v1/admin/rebuilds", OPERATOR)
async def get_rebuilds(call: NativeCall) -> RebuildsView:
    """The newest rebuilds, newest first.

    Including those in progress: how far they are, and what their canaries say.
    """
    rebuilds = Rebuilds(call.redis)
    return RebuildsView([rebuild_view(rebuild, rebuilds) for rebuild in await rebuilds.all()])


@route("GET /v1/admin/rebuilds/{id}", OPERATOR)
async def get_rebuild(call: NativeCall, id: str) -> RebuildView:
    """One rebuild, and how far it is.

    How fast it is, and what its canaries say.
    """
    rebuilds = Rebuilds(call.redis)
    return rebuild_view(await rebuilds.get(id), rebuilds)


@route("POST /v1/admin/rebuilds", OPERATOR, 202, optional=True, faults=_ANOTHER)
async def post_rebuild(call: NativeCall, body: RebuildOrder) -> RebuildView:
    """Begin a rebuild beside what is read.

    202 with it, 409 while another has not ended.
    """
    rebuilds = Rebuilds(call.redis)
    if body.what == "embeddings" or (body.what is None and body.embedder is not None):
        rebuild = await _begin_embeddings(call, body)
    elif body.embedder is not None:
        raise CommandRejected("documents need no embedder: leave it out, or ask for embeddings", "embedder")
    else:
        rebuild = await rebuilds.start("documents", _partitions(call, body.partitions), body.switch)
    return rebuild_view(rebuild, rebuilds)


async def _begin_embeddings(call: NativeCall, order: RebuildOrder) -> Rebuild:
    """Raises CommandRejected for an embedder that the settings do not name, that this machine can't run, or that is
    live. An embedder that is not named is not looked at.
    """
    if order.partitions is not None:
        raise CommandRejected("one embedder is for all partitions: leave them out", "partitions")
    embedders = call.search_index.embedders
    spec = order.embedder or embedders.configured
    if spec not in embedders.named:
        raise CommandRejected(
            "the server's settings do not name this embedder: it is neither MNEMOLOG_EMBEDDER nor one of "
            "MNEMOLOG_EMBEDDERS",
            "embedder",
        )
    try:
        after = choice_of(spec, await embedders.built(spec))
    except EmbeddingError as error:
        raise CommandRejected(str(error), "embedder") from error
    current = await chosen(call.redis)
    if current is None or current.live == after:
        raise CommandRejected(f"vectors of {after.model} are live: name another embedder", "embedder")
    rebuilds = Rebuilds(call.redis)
    return await rebuilds.start("embeddings", _partitions(call, None), order.switch, embedders=(current.live, after))


@route("POST /v1/admin/rebuilds/{id}/switch", OPERATOR, 202, optional=True, faults=_NOT_NOW)
async def post_switch(call: NativeCall, id: str, body: SwitchRequest) -> RebuildView:
    """Make what was rebuilt what is read.

    409 if it is not ready, or its canaries differ.
    """
    return await _step(call, id, partial(steps.to_switch, force=body.force))


@route("POST /v1/admin/rebuilds/{id}/rollback", OPERATOR, 202, faults=_NOT_NOW)
async def post_rollback(call: NativeCall, id: str) -> RebuildView:
    """Read again what was read before.

    409 if that is no longer there.
    """
    return await _step(call, id, partial(steps.to_roll_back, now=Rebuilds(call.redis).now))


@route("POST /v1/admin/rebuilds/{id}/cancel", OPERATOR, 202, faults=_NOT_NOW)
async def post_cancel(call: NativeCall, id: str) -> RebuildView:
    """Cancel a rebuild that has not begun to switch.

    What it made is deleted.
    """
    return await _step(call, id, partial(steps.cancelled, now=Rebuilds(call.redis).now))


async def _step(call: NativeCall, rebuild_id: str, step: Step) -> RebuildView:
    rebuilds = Rebuilds(call.redis)
    return rebuild_view(await rebuilds.change(rebuild_id, step), rebuilds)


@route("POST /v1/admin/projections/rebuild", OPERATOR, 202, optional=True, faults=_ANOTHER)
async def post_projections_rebuild(call: NativeCall, body: RebuildRequest) -> Rebuilding:
    """Rebuild documents, and switch to them.

    202 with the partitions whose rebuild has begun; none if they are already being rebuilt.
    """
    partitions = _partitions(call, None if body.partition is None else [body.partition])
    rebuilds = Rebuilds(call.redis)
    try:
        await rebuilds.start("documents", partitions)
    except RebuildUnderWay:
        current = await rebuilds.current()
        if current is None or not {part.partition for part in current.parts} >= set(partitions):
            raise
        return Rebuilding([])
    return Rebuilding(partitions)


def _partitions(call: NativeCall, requested: list[int] | None) -> list[int]:
    count = call.queries.log.partitions
    partitions = range(count) if requested is None else sorted(set(requested))
    if partitions and partitions[-1] >= count:
        raise CommandRejected(f"there are partitions 0 to {count - 1}", "partition")
    return list(partitions)


def rebuild_view(rebuild: Rebuild, rebuilds: Rebuilds) -> RebuildView:
    """A rebuild as it is shown: with how far it is, and without what only workers need."""

    return as_struct(
        RebuildView,
        rebuild,
        **asdict(estimate(rebuild, rebuilds.now)),
        model=rebuild.embedders[1].model if rebuild.embedders else None,
        can_roll_back_until=rebuild.kept_until if rebuild.way_back else None,
        partitions=rebuild.parts,
    )
