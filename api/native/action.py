"""Routes of actions, the work items that agents share."""

from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace

from api.http.endpoint import Endpoint
from api.native.common import APPLIED, VERSION_CONFLICT, After, Fields, ListRequest, PageLimit, as_struct, router
from api.services import NativeCall
from ingest.commands.decide import WriteAction
from ingest.commands.handler import Accepted
from ingest.nouns.action import LEASE_SECONDS, LeaseSeconds, Token
from ingest.nouns.command import EventName, Name, Names, Status
from ingest.roles import READ, WRITE
from projections.operations.claims import Claim
from projections.operations.current import Applied
from projections.queries.views import Page, view
from projections.queries.work import ActionView

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class ReadyAction(ActionView, frozen=True, kw_only=True):
    """A work item that nothing blocks; `leased` while an agent works on it."""

    score: float
    leased: bool


class Frontier(Struct, frozen=True, kw_only=True):
    """The work items that can be done now, and the number of open ones."""

    items: list[ReadyAction]
    open: int


class ActionsRequest(ListRequest, frozen=True, kw_only=True):
    """A page of actions; with `open`, only open ones."""

    open: bool = False


class FrontierRequest(After, frozen=True, kw_only=True):
    """Of one project, or of all; omits items leased to agents other than `agent_id`."""

    project: Name | None = None
    agent_id: Name = ""
    limit: PageLimit = 20


@route("GET /v1/actions", READ)
async def list_actions(call: NativeCall, query: ActionsRequest) -> Page[ActionView]:
    """A project's work items, newest first."""
    return await call.queries.actions.page(call.reader(), *query.page, open_only=query.open)


class ClaimRequest(Fields, frozen=True, kw_only=True):
    """How long the claim lasts, unless it is renewed; the agent that claims, unless a header or the key names it."""

    lease_seconds: LeaseSeconds = LEASE_SECONDS
    agent_id: Name = ""
    event_id: EventName = ""


class NextClaimRequest(ClaimRequest, frozen=True, kw_only=True):
    """Which project's actions; with `labels`, only those with any of these tags."""

    project: Name = ""
    labels: Names = field(default_factory=list[str])


class RenewalRequest(ClaimRequest, frozen=True, kw_only=True):
    """The claim's token, and how long it lasts from now on."""

    token: Token


class ReleaseRequest(Fields, frozen=True, kw_only=True):
    """The token of the claim to end."""

    token: Token
    agent_id: Name = ""
    event_id: EventName = ""


class CompletionRequest(ReleaseRequest, frozen=True, kw_only=True):
    """The token of the claim, and what came of the work."""

    result: str | None = None
    status: Status = "done"


_CONFLICT = {409: "Another agent holds the action, or its token is stale, or it is finished or not ready."}


@route("POST /v1/actions", WRITE, 202, faults={404: "No action has that id.", **VERSION_CONFLICT}, answers=APPLIED)
async def post_action(call: NativeCall, body: WriteAction) -> Accepted:
    """Create a work item, or change the one that the body names."""
    return await call.operations.work.write_action(body, call.reader(), call.caller())


@route("POST /v1/actions/{id}/claim", WRITE, optional=True, faults=_CONFLICT)
async def post_claim(call: NativeCall, id: str, body: ClaimRequest) -> Claim:
    """Claim a work item for a time.

    One agent at a time holds it. Claims are decided in the order of the log, and leases end by the log's clock.
    """
    caller = call.caller(body.agent_id)
    return await call.operations.claims.claim(id, body.lease_seconds, call.reader(), caller, body.event_id)


@route("POST /v1/actions/claim_next", WRITE, optional=True, faults={404: "No action is free for this agent."})
async def post_claim_next(call: NativeCall, body: NextClaimRequest) -> Claim:
    """Claim the best free work item of a project."""
    reader, caller = call.reader(), call.caller(body.agent_id)
    lease = body.lease_seconds
    return await call.operations.claims.claim_next(body.project, body.labels, lease, reader, caller, body.event_id)


@route("POST /v1/actions/{id}/renew", WRITE, faults=_CONFLICT)
async def post_renew(call: NativeCall, id: str, body: RenewalRequest) -> Claim:
    """Extend a claim."""
    caller, lease = call.caller(body.agent_id), body.lease_seconds
    return await call.operations.claims.renew(id, body.token, lease, call.reader(), caller, body.event_id)


@route("POST /v1/actions/{id}/release", WRITE, faults=_CONFLICT)
async def post_release(call: NativeCall, id: str, body: ReleaseRequest) -> Applied:
    """End a claim, unfinished."""
    caller = call.caller(body.agent_id)
    return await call.operations.claims.release(id, body.token, call.reader(), caller, body.event_id)


@route("POST /v1/actions/{id}/complete", WRITE, faults=_CONFLICT)
async def post_complete(call: NativeCall, id: str, body: CompletionRequest) -> Applied:
    """Finish a work item that the agent holds."""
    command = as_struct(WriteAction, body, action=id)
    accepted = await call.operations.work.write_action(command, call.reader(), call.caller(body.agent_id))
    return cast(Applied, accepted)  # a change with a token is applied or refused


@route("PATCH /v1/actions/{id}", WRITE, 202, faults=VERSION_CONFLICT, answers=APPLIED)
async def patch_action(call: NativeCall, id: str, body: WriteAction) -> Accepted:
    """Change a work item."""
    return await call.operations.work.write_action(replace(body, action=id), call.reader(), call.caller())


@route("GET /v1/frontier", READ)
async def get_frontier(call: NativeCall, query: FrontierRequest) -> Frontier:
    """The work items that can be done now, most urgent first."""
    reader = call.reader(query.agent_id)
    actions, ready, _ = await call.queries.actions.open_work(reader, query.project, query.agent_id or reader.agent_id)
    tasks = ready[: query.limit]
    items = [view(actions[task.item.id]) | {"score": task.score, "leased": task.leased} for task in tasks]
    return Frontier(items=items, open=len(actions))
