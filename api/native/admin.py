"""Routes for operators: progress, jobs, reconciliation, dead letters, rebuilds.

An admin has access to the dead letters of its tenant and projects; an operator also to those without a tenant.
"""

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct, convert
from msgspec.structs import asdict

from api.http.endpoint import Endpoint
from api.native.common import Bounds, Fields, InProject, Queued, Repeatable, ShortLimit, as_struct, router
from api.services import NativeCall
from ingest.commands.decide import Quarantine
from ingest.commands.handler import Accepted
from ingest.errors import CommandRejected
from ingest.nouns.command import Name, ReasonText
from ingest.platform.clock import system_clock
from ingest.roles import ADMIN, OPERATOR
from projections.dead_letters.room import Done, LogLocation, Reason, Selection
from projections.embedding.live import choice_of, chosen
from projections.maintenance.reconciling import Fault, Findings, load_report
from projections.nouns.document import Searched, searchable_text
from projections.queries.lookup import hidden
from projections.queries.views import Items
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import Canaries
from projections.rebuilding.rebuilds import Part, Rebuild, Rebuilds, Step, Switch, What, estimate
from projections.rebuilding.rebuilds import State as RebuildState
from projections.store.dead_letters import Outcome, State
from projections.vectors.embedder import EmbeddingError

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)
Partition = Annotated[int, Meta(ge=0)]
MOST_HIDDEN, SHOWN_CHARS = 1_000, 500
"""The most quarantined documents that are listed, and the most characters of each."""


class Progress(Struct, frozen=True, kw_only=True):
    """A partition's progress, as positions within it. `feed` and `to_embed` count entries; `worker` is the worker that
    holds its lease."""

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
    """The progress of all partitions."""

    partitions: list[Progress]


class QuarantineRequest(Repeatable, frozen=True, kw_only=True):
    """Which memory, lesson or observation to hide, or to show again (`released`), and why."""

    id: Name
    released: bool = False
    reason: ReasonText = ""


class Quarantined(Struct, frozen=True, kw_only=True):
    """A document in quarantine, what put it there (`rule` or `operator`), and the beginning of its text."""

    id: str
    project: str
    quarantined: str
    text: str


@route("POST /v1/admin/quarantine", ADMIN, 202, faults={404: "No such memory, lesson or observation."})
async def post_quarantine(call: NativeCall, body: QuarantineRequest) -> Accepted:
    """Hide a document from everyone but admins, or show it again.

    The event stays in the log: `GET /v1/audit` shows who did it, when and why.
    """
    order = Quarantine(event_id=body.event_id, document=body.id, released=body.released, reason=body.reason)
    return await call.operations.memories.quarantine(order, call.operator(), call.caller())


@route("GET /v1/admin/quarantine", ADMIN)
async def list_quarantine(call: NativeCall, query: InProject) -> Items[Quarantined]:
    """The documents in quarantine.

    Up to 1,000 of them, with the beginning of each text.
    """
    documents = await call.queries.lookup.found(hidden, call.operator(), query.project, MOST_HIDDEN)
    texts = [searchable_text(document)[:SHOWN_CHARS] for document in documents if isinstance(document, Searched)]
    rows = zip(documents, texts, strict=True)
    return Items([as_struct(Quarantined, document, text=text) for document, text in rows])


@route("GET /v1/admin/projections", OPERATOR)
async def get_projections(call: NativeCall) -> Projections:
    """Progress of every partition.

    What is recorded, applied and searchable, and the worker that applies it.
    """
    return Projections(await call.queries.progress())  # pyright: ignore[reportArgumentType]


@route("POST /v1/admin/snapshots", OPERATOR, 202)
async def post_snapshot(call: NativeCall) -> Queued:
    """Write an index snapshot now.

    202 with whether one was queued; none is queued while a snapshot is being written.
    """
    return Queued(queued=await call.jobs.enqueue("snapshot", True, job_id="snapshot"))


class LettersRequest(Bounds, frozen=True, kw_only=True):
    """A page of dead letters, waiting or discarded."""

    state: State = "parked"
    partition: Partition | None = None
    code: str = ""
    type: str = ""
    cursor: str | None = None
    limit: ShortLimit = 50


class RedriveRequest(Fields, frozen=True, kw_only=True):
    """Which dead letters to try again: one by its position, or all of a code or an event type."""

    position: str = ""
    partition: Partition | None = None
    code: str = ""
    type: str = ""
    cursor: str | None = None


class DiscardRequest(RedriveRequest, frozen=True, kw_only=True):
    """The dead letters to discard, the reason, and whether to erase their text from the log."""

    reason: Annotated[str, Meta(min_length=1, max_length=512)]
    erase: bool = False


class DiscardReason(Struct, frozen=True, kw_only=True):
    """Why, by whom and when a dead letter was discarded, and whether its event was erased."""

    reason: str
    agent_id: str
    at: datetime
    erased: bool


class LetterView(Struct, frozen=True, kw_only=True):
    """An event that could not be applied. `message` is empty if the caller can't read the event; `event` is null once
    it is erased. `tried_at` and `release` are those of the last attempt."""

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
    """A page of dead letters, the cursor of the next page, and totals by outcome.

    `counts` cover the whole server, and are null without the operator role.
    """

    dead_letters: list[LetterView]
    next: str | None
    counts: dict[Outcome, int] | None


@route("GET /v1/admin/dead-letters", ADMIN)
async def list_letters(call: NativeCall, query: LettersRequest) -> LettersView:
    """Events that could not be applied.

    Ordered by partition and position.
    """
    letters = call.operations.letters
    return await letters.page(as_struct(Selection, query), call.reader(), query.limit)  # pyright: ignore[reportReturnType]


@route("GET /v1/admin/dead-letters/{position}", ADMIN,
    faults={422: "Invalid log position, or the scope is isolated and no agent was given."})  # fmt: skip
async def get_letter(call: NativeCall, position: str) -> LetterView:
    """One dead letter, with its event and its error.

    Parts that the reader can't access are omitted.
    """
    return await call.operations.letters.show(_location(call, position), call.reader())  # pyright: ignore[reportReturnType]


@route("POST /v1/admin/dead-letters/redrive", ADMIN, 202, faults={404: "No such dead letter."})
async def post_redrive(call: NativeCall, body: RedriveRequest) -> Done:
    """Retry dead letters.

    202 with their positions; the workers retry them.
    """
    letters = call.operations.letters
    if body.position:
        return await letters.redrive(_location(call, body.position), call.reader())
    return await letters.redrive_all(_selection(body), call.reader())


@route("POST /v1/admin/dead-letters/discard", ADMIN,
    faults={404: "No such dead letter.", 409: "Its partition is being rebuilt: `being_rebuilt`."})  # fmt: skip
async def post_discard(call: NativeCall, body: DiscardRequest) -> Done:
    """Discard dead letters.

    They will not be applied. Returns their positions.
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
        raise CommandRejected("a position, a code or a type is required", "position")
    return as_struct(Selection, request)


class ReportView(Struct, frozen=True, kw_only=True):
    """A reconciliation, finished or in progress: its results for each partition and in total, and what to do.

    `next` is the partition that it continues with, null once it has finished.
    """

    started_at: datetime
    finished_at: datetime | None
    next: int | None
    partitions: list[Findings]
    found: dict[Fault, int]
    advice: list[str]


class Newest(Struct, frozen=True):
    """The newest reconciliation; null if there was none."""

    report: ReportView | None


@route("GET /v1/admin/reconcile", OPERATOR)
async def get_reconcile(call: NativeCall) -> Newest:
    """Results of the newest reconciliation.

    And its repairs; null if there was none.
    """
    report = await load_report(call.redis)
    return Newest(None if report is None else convert(report, ReportView, from_attributes=True))


@route("POST /v1/admin/reconcile", OPERATOR, 202)
async def post_reconcile(call: NativeCall) -> Queued:
    """Reconcile now.

    202 with whether a job was queued; none is queued while a requested one is waiting or running.
    """
    return Queued(queued=await call.jobs.enqueue("reconcile", True, job_id="reconcile-now"))


class RebuildOrder(Fields, frozen=True, kw_only=True):
    """What to rebuild: the documents of all partitions or of some, with an automatic or a manual switch.

    Or all embeddings, with another `embedder`: an entry of MNEMOLOG_EMBEDDERS, spelled the same, or MNEMOLOG_EMBEDDER,
    the default.
    """

    what: What | None = None
    embedder: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    partitions: Annotated[list[Partition], Meta(min_length=1)] | None = None
    switch: Switch = "auto"


class SwitchRequest(Fields, frozen=True, kw_only=True):
    """With `force`, switch even if the canaries differ."""

    force: bool = False


class RebuildView(Struct, frozen=True, kw_only=True):
    """A rebuild. `done` and `total` count log entries, `rate` is entries a second, and `estimate_s` the remaining time.

    For embeddings they count documents, and `model` is the embedding model. `why` says what the rebuild waits for or
    what failed; `partitions` has the progress of each.
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


_NOT_NOW = {409: "The rebuild is not in the required state: `wrong_rebuild_state`."}
_ANOTHER = {409: "Another rebuild is in progress: `rebuild_under_way`; `rebuild` is its id."}


@route("GET /v1/admin/rebuilds", OPERATOR)
async def get_rebuilds(call: NativeCall) -> RebuildsView:
    """The newest rebuilds, newest first.

    Including those in progress, with their progress and canary results.
    """
    return RebuildsView([rebuild_view(rebuild) for rebuild in await Rebuilds(call.redis).all()])


@route("GET /v1/admin/rebuilds/{id}", OPERATOR)
async def get_rebuild(call: NativeCall, id: str) -> RebuildView:
    """One rebuild and its progress.

    With its rate and canary results.
    """
    return rebuild_view(await Rebuilds(call.redis).get(id))


@route("POST /v1/admin/rebuilds", OPERATOR, 202, optional=True, faults=_ANOTHER)
async def post_rebuild(call: NativeCall, body: RebuildOrder) -> RebuildView:
    """Start a rebuild in the background.

    202 with the rebuild, 409 while another is in progress.
    """
    if body.what == "embeddings" or (body.what is None and body.embedder is not None):
        rebuild = await _begin_embeddings(call, body)
    elif body.embedder is not None:
        raise CommandRejected(
            "a rebuild of documents takes no embedder: leave it out, or rebuild embeddings", "embedder"
        )
    else:
        rebuild = await Rebuilds(call.redis).start("documents", _partitions(call, body.partitions), body.switch)
    return rebuild_view(rebuild)


async def _begin_embeddings(call: NativeCall, order: RebuildOrder) -> Rebuild:
    """Raises CommandRejected for an embedder that the settings do not name, that this machine can't run, or that is
    live. Other embedders are not checked.
    """
    if order.partitions is not None:
        raise CommandRejected("embeddings are rebuilt for all partitions: leave `partitions` out", "partitions")
    embedders = call.search_index.embedders
    spec = order.embedder or embedders.configured
    if spec not in embedders.named:
        raise CommandRejected(
            "this embedder is not configured: it is neither MNEMOLOG_EMBEDDER nor one of MNEMOLOG_EMBEDDERS",
            "embedder",
        )
    try:
        after = choice_of(spec, await embedders.built(spec))
    except EmbeddingError as error:
        raise CommandRejected(str(error), "embedder") from error
    current = await chosen(call.redis)
    if current is None or current.live == after:
        raise CommandRejected(f"{after.model} is already the live embedding model: choose another embedder", "embedder")
    partitions = _partitions(call, None)
    return await Rebuilds(call.redis).start("embeddings", partitions, order.switch, embedders=(current.live, after))


@route("POST /v1/admin/rebuilds/{id}/switch", OPERATOR, 202, optional=True, faults=_NOT_NOW)
async def post_switch(call: NativeCall, id: str, body: SwitchRequest) -> RebuildView:
    """Switch reads to the rebuilt data.

    409 if it is not ready, or its canaries differ.
    """
    return await _step(call, id, partial(steps.to_switch, force=body.force))


@route("POST /v1/admin/rebuilds/{id}/rollback", OPERATOR, 202, faults=_NOT_NOW)
async def post_rollback(call: NativeCall, id: str) -> RebuildView:
    """Switch reads back to the previous data.

    409 if that was deleted.
    """
    return await _step(call, id, partial(steps.to_roll_back, now=Rebuilds(call.redis).now))


@route("POST /v1/admin/rebuilds/{id}/cancel", OPERATOR, 202, faults=_NOT_NOW)
async def post_cancel(call: NativeCall, id: str) -> RebuildView:
    """Cancel a rebuild that has not started to switch.

    Its data is deleted.
    """
    return await _step(call, id, partial(steps.cancelled, now=Rebuilds(call.redis).now))


async def _step(call: NativeCall, rebuild_id: str, step: Step) -> RebuildView:
    return rebuild_view(await Rebuilds(call.redis).change(rebuild_id, step))


def _partitions(call: NativeCall, requested: list[int] | None) -> list[int]:
    count = call.queries.log.partitions
    partitions = range(count) if requested is None else sorted(set(requested))
    if partitions and partitions[-1] >= count:
        raise CommandRejected(f"valid partitions are 0 to {count - 1}", "partition")
    return list(partitions)


def rebuild_view(rebuild: Rebuild) -> RebuildView:
    """A rebuild for clients: with its progress, without fields that only workers need."""
    return as_struct(
        RebuildView,
        rebuild,
        **asdict(estimate(rebuild, system_clock())),
        model=rebuild.embedders[1].model if rebuild.embedders else None,
        can_roll_back_until=rebuild.kept_until if rebuild.way_back else None,
        partitions=rebuild.parts,
    )
