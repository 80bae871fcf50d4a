"""Routes for operators: rebuilds beside what is read. Begin one, watch it, switch, go back, cancel."""

from datetime import datetime
from typing import Annotated, TypeVar

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.services import services
from ingest.errors import CommandRejected, RebuildUnderWay
from ingest.roles import OPERATOR
from projections.embedding.live import choice_of, chosen
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import Canaries
from projections.rebuilding.rebuilds import Part, Rebuild, Rebuilds, State, Step, Switch, What, estimate
from projections.vectors.embedder import EmbeddingError

T = TypeVar("T")
PartitionNumber = Annotated[int, Meta(ge=0)]


class RebuildOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to rebuild: documents of all partitions, or of some; switched to unasked, or when told to.

    Or the embeddings of all, by another `embedder`: one that MNEMOLOG_EMBEDDERS lists, written in the same way, or that
    of MNEMOLOG_EMBEDDER, which is what counts without it.
    """

    what: What | None = None
    embedder: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    partitions: Annotated[list[PartitionNumber], Meta(min_length=1)] | None = None
    switch: Switch = "auto"


class RebuildRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which partition to rebuild; all of them when none is named."""

    partition: PartitionNumber | None = None


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
    state: State
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


async def post_rebuild(request: Request) -> Response:
    """Begin a rebuild; 202 with it, 409 while another has not ended."""
    asked = await _asked(request, RebuildOrder)
    if asked.what == "embeddings" or (asked.what is None and asked.embedder is not None):
        return Json(view(await _begin_embeddings(request, asked), _all(request)), 202)
    if asked.embedder is not None:
        raise CommandRejected("documents need no embedder: leave it out, or ask for embeddings", "embedder")
    begun = await _all(request).start("documents", _partitions(request, asked.partitions), asked.switch)
    return Json(view(begun, _all(request)), 202)


async def _begin_embeddings(request: Request, asked: RebuildOrder) -> Rebuild:
    """Raises CommandRejected for an embedder that the settings do not name, that this machine cannot have, or that is
    live. What is not named is not looked at.
    """
    if asked.partitions is not None:
        raise CommandRejected("one embedder is for all partitions: leave them out", "partitions")
    embedders = services(request).search_index.embedders
    spec = asked.embedder or embedders.configured
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
    known = await chosen(services(request).redis)
    if known is None or known.live == after:
        raise CommandRejected(f"vectors of {after.model} are live: name another embedder", "embedder")
    return await _all(request).start(
        "embeddings", _partitions(request, None), asked.switch, embedders=(known.live, after)
    )


async def post_projections_rebuild(request: Request) -> Response:
    """Rebuild documents and switch; 202 with the partitions whose rebuild has begun, none while they are rebuilt."""
    asked = await _asked(request, RebuildRequest)
    wanted = _partitions(request, None if asked.partition is None else [asked.partition])
    rebuilds = _all(request)
    try:
        await rebuilds.start("documents", wanted)
    except RebuildUnderWay:
        current = await rebuilds.current()
        if current is None or not {part.partition for part in current.parts} >= set(wanted):
            raise
        return Json(Rebuilding([]), 202)
    return Json(Rebuilding(wanted), 202)


async def get_rebuilds(request: Request) -> Response:
    """The newest rebuilds, those under way among them: how far they are, and what their canaries say."""
    rebuilds = _all(request)
    return Json(RebuildsView([view(one, rebuilds) for one in await rebuilds.all()]))


async def get_rebuild(request: Request) -> Response:
    """One rebuild: how far it is, how fast, and what its canaries say."""
    rebuilds = _all(request)
    return Json(view(await rebuilds.get(request.path_params["id"]), rebuilds))


async def post_switch(request: Request) -> Response:
    """Make what was rebuilt what is read; 409 when it is not ready, or its canaries differ."""
    asked = await _asked(request, SwitchRequest)
    return await _step(request, lambda one: steps.to_switch(one, force=asked.force))


async def post_rollback(request: Request) -> Response:
    """Read again what was read before; 409 when that is not kept any more."""
    now = _all(request).now
    return await _step(request, lambda one: steps.to_roll_back(one, now))


async def post_cancel(request: Request) -> Response:
    """Leave a rebuild that has not begun to switch; what it made is deleted."""
    now = _all(request).now
    return await _step(request, lambda one: steps.cancelled(one, now))


def view(rebuild: Rebuild, rebuilds: Rebuilds) -> RebuildView:
    """A rebuild as it is shown: with how far it is, and without what only workers need."""
    far = estimate(rebuild, rebuilds.now)
    return RebuildView(
        id=rebuild.id,
        what=rebuild.what,
        model=rebuild.embedders[1].model if rebuild.embedders else None,
        state=rebuild.state,
        switch=rebuild.switch,
        why=rebuild.why,
        done=far.done,
        total=far.total,
        rate=far.rate,
        estimate_s=far.estimate_s,
        started_at=rebuild.started_at,
        finished_at=rebuild.finished_at,
        can_roll_back_until=rebuild.kept_until if rebuild.way_back else None,
        canaries=rebuild.canaries,
        partitions=rebuild.parts,
    )


async def _step(request: Request, step: Step) -> Response:
    rebuilds = _all(request)
    return Json(view(await rebuilds.change(request.path_params["id"], step), rebuilds), 202)


async def _asked(request: Request, cls: type[T]) -> T:
    return await asked_for(request, cls, optional=True)


def _partitions(request: Request, asked: list[int] | None) -> list[int]:
    """The partitions asked for, all when none is; raises CommandRejected for one that is not there."""
    count = services(request).queries.log.partitions
    wanted = range(count) if asked is None else sorted(set(asked))
    if wanted and wanted[-1] >= count:
        raise CommandRejected(f"there are partitions 0 to {count - 1}", "partition")
    return list(wanted)


def _all(request: Request) -> Rebuilds:
    return Rebuilds(services(request).redis)


_NOT_NOW = {409: "It is not where that can be asked of it: `wrong_rebuild_state`."}
_ANOTHER = {409: "Another one has not ended: `rebuild_under_way`; `rebuild` is its id."}

ENDPOINTS = [
    Endpoint("GET", "/v1/admin/rebuilds", OPERATOR, get_rebuilds, "The newest rebuilds, newest first.",
        answer=RebuildsView),
    Endpoint("POST", "/v1/admin/rebuilds", OPERATOR, post_rebuild, "Begin a rebuild beside what is read.", status=202,
        body=RebuildOrder, optional=True, answer=RebuildView, faults=_ANOTHER),
    Endpoint("GET", "/v1/admin/rebuilds/{id}", OPERATOR, get_rebuild, "One rebuild, and how far it is.",
        answer=RebuildView),
    Endpoint("POST", "/v1/admin/rebuilds/{id}/switch", OPERATOR, post_switch, "Make what was rebuilt what is read.",
        status=202, body=SwitchRequest, optional=True, answer=RebuildView, faults=_NOT_NOW),
    Endpoint("POST", "/v1/admin/rebuilds/{id}/rollback", OPERATOR, post_rollback, "Read again what was read before.",
        status=202, answer=RebuildView, faults=_NOT_NOW),
    Endpoint("POST", "/v1/admin/rebuilds/{id}/cancel", OPERATOR, post_cancel,
        "Leave a rebuild that has not begun to switch.", status=202, answer=RebuildView, faults=_NOT_NOW),
    Endpoint("POST", "/v1/admin/projections/rebuild", OPERATOR, post_projections_rebuild,
        "Rebuild documents, and switch to them.", status=202, body=RebuildRequest, optional=True, answer=Rebuilding,
        faults=_ANOTHER),
]  # fmt: skip
