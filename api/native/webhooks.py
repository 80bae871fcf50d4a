"""Routes for webhooks: the events of the log, sent to a URL.

A webhook belongs to the key that created it, is shown to this key and to admins of the tenant, and ends with the key.
A server without keys has none: it could not tell whose they are.
"""

from datetime import datetime
from functools import partial

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from api.access.principal import Principal
from api.http.endpoint import Endpoint
from api.http.http import Json
from api.native.common import Fields, as_struct, router
from api.native.keys import check_named
from api.services import NativeCall, owner_of
from ingest.errors import AccessDenied, NotFound
from ingest.platform.clock import from_ms, system_clock
from ingest.roles import ADMIN, READ
from projections.queries.log_events import Criteria
from projections.queries.views import Items
from projections.webhooks.subscriptions import Letter, Progress, Subscription, begin

ENDPOINTS: list[Endpoint] = []
route = partial(router(ENDPOINTS), check=check_named)


class NewWebhook(Fields, frozen=True, kw_only=True):
    """Where to send which events: those after the position `after`, or after now."""

    url: str
    type: str = ""
    criteria: Criteria = Criteria()
    secret: str = ""
    after: str | None = None
    verify: bool = True


class WebhookView(Progress, frozen=True, kw_only=True):
    """A webhook and how far its deliveries are."""

    id: str
    url: str
    type: str
    criteria: Criteria
    mcp: bool
    expires_at: datetime | None
    secret: str | UnsetType = UNSET


@route("POST /v1/webhooks", READ, 201, answer=WebhookView)
async def post_webhook(call: NativeCall, body: NewWebhook, principal: Principal) -> Response:
    """Send events to a URL.

    Repeating the call for the same URL and events refreshes the webhook. Only the first answer has the secret.
    """
    if not (body.verify or principal.may(ADMIN)):
        raise AccessDenied("only an admin can create a webhook without verifying the receiver")
    log = call.queries.log
    requested = Subscription(
        owner=owner_of(principal)._replace(agent=call.reader().agent_id),
        url=body.url,
        type=body.type,
        criteria=body.criteria,
        secrets=[body.secret] if body.secret else [],
        refreshed_at=system_clock(),
        expires_at=from_ms(principal.expires_ms) if principal.expires_ms else None,
    )
    cursor, _ = await begin(log, body.after, log.applied())
    webhook, progress, is_new = await call.operations.webhooks.subscribe(requested, cursor, verify=body.verify)
    secret = webhook.secrets[0] if is_new else UNSET
    return Json(replace(_view(webhook, progress), secret=secret), 201, {"Cache-Control": "no-store"})


@route("GET /v1/webhooks", READ)
async def list_webhooks(call: NativeCall, principal: Principal) -> Items[WebhookView]:
    """The webhooks of the caller's key.

    An admin sees those of the tenant. Without their secrets.
    """
    return Items([_view(*each) for each in await _owned(call, principal)])


@route("DELETE /v1/webhooks/{id}", READ, 204, answer=None)
async def delete_webhook(call: NativeCall, id: str, principal: Principal) -> Response:
    """Delete a webhook.

    With its dead letters. Deliveries stop at once.
    """
    await call.operations.webhooks.remove((await _one(call, principal, id)).id)
    return Response(status_code=204)


@route("GET /v1/webhooks/{id}/dead-letters", READ)
async def list_dead_letters(call: NativeCall, id: str, principal: Principal) -> Items[Letter]:
    """Events that the receiver did not accept.

    Without their content; oldest first, and the newest 1,000.
    """
    return Items(await call.operations.webhooks.letters((await _one(call, principal, id)).id))


@route("POST /v1/webhooks/{id}/dead-letters/retry", READ, 202)
async def retry_dead_letters(call: NativeCall, id: str, principal: Principal) -> Items[Letter]:
    """Deliver dead letters once more.

    Those that fail again stay. Also ends the wait for the next attempt, and enables a webhook again.
    """
    webhook, now = await _one(call, principal, id), system_clock()
    await call.operations.webhooks.save(replace(webhook, retry_at=now, refreshed_at=now))
    return Items(await call.operations.webhooks.letters(id))


async def _owned(call: NativeCall, principal: Principal) -> list[tuple[Subscription, Progress]]:
    manages = principal.may(ADMIN) and principal.key_scope.whole
    return [
        each
        for each in await call.operations.webhooks.all()
        if each[0].owner.tenant == principal.tenant and (manages or each[0].owner.key_id == principal.key_id)
    ]


async def _one(call: NativeCall, principal: Principal, name: str) -> Subscription:
    for webhook, _ in await _owned(call, principal):
        if webhook.id == name:
            return webhook
    raise NotFound(f"there is no webhook {name!r}")


def _view(webhook: Subscription, progress: Progress) -> WebhookView:
    stored = {name: getattr(webhook, name) for name in ("id", "url", "type", "criteria", "mcp", "expires_at")}
    return as_struct(WebhookView, progress, **stored)
