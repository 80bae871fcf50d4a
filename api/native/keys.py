"""Routes for API keys: created, listed, rotated and revoked by admins, each within its own tenant and key scope.

A server with neither a secret nor a key cannot distinguish its callers, so it creates no key here: the first caller
would lock out all others. `mnemolog admin keys`, which needs access to Redis, creates the first key.

Also the metadata for clients that can request access tokens (RFC 9728), if the settings name an issuer.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace
from starlette.responses import Response

from api.access.keys import Grant, Key, KeyView, Made, Registry
from api.access.principal import Principal
from api.http.endpoint import Endpoint
from api.http.http import Json
from api.native.common import Fields, router
from api.services import NativeCall
from ingest.errors import AccessDenied, NotFound, OutsideKeyScope
from ingest.platform.clock import from_ms, system_clock, to_ms
from ingest.roles import ADMIN, ANY, OF_THE_SERVER

if TYPE_CHECKING:
    from api.access.oauth.rules import Resource


def check_named(principal: Principal) -> None:
    """Raise AccessDenied for a caller with neither a key nor the server's secret."""
    if not principal.named:
        raise AccessDenied(
            "this server has neither a key nor MNEMOLOG_SECRET, so anyone can call it: create the "
            "first key with `mnemolog admin keys create NAME --role operator` as a user with access to Redis"
        )


ENDPOINTS: list[Endpoint] = []
route = partial(router(ENDPOINTS), check=check_named)


class Rotation(Fields, frozen=True, kw_only=True):
    """How long the old key keeps working, and when the new one expires."""

    grace_hours: Annotated[float, Meta(ge=0, le=24 * 90)] = 24.0
    expires_at: datetime | None = None


class NewKey(KeyView, frozen=True, kw_only=True):
    """A new key. `key` is its token, which is shown only once."""

    key: str


class KeysView(Struct, frozen=True):
    """The keys that the admin can see."""

    keys: list[KeyView]


@route("POST /v1/admin/keys", ADMIN, 201, answer=NewKey)
async def post_key(call: NativeCall, body: Grant, principal: Principal) -> Response:
    """Create a key, whose token is shown only once."""
    grant = replace(body, tenant=body.tenant or principal.tenant)
    _check(principal, grant)
    registry = Registry(call.redis)
    await _check_end(registry, principal, grant.expires_at)
    return _made(await registry.create(grant))


@route("GET /v1/admin/keys", ADMIN)
async def list_keys(call: NativeCall, principal: Principal) -> KeysView:
    """The keys that the admin can see, oldest first.

    Without their secrets.
    """
    now_ms = to_ms(system_clock())
    return KeysView([key.view(now_ms) for key in await Registry(call.redis).all() if _may_manage(principal, key)])


@route("POST /v1/admin/keys/{id}/rotate", ADMIN, 201, optional=True, answer=NewKey)
async def rotate_key(call: NativeCall, id: str, body: Rotation, principal: Principal) -> Response:
    """Replace a key with a new one that has the same permissions.

    The old key keeps working during the grace period; 201 with the new token.
    """
    registry = Registry(call.redis)
    key = await _key(registry, principal, id)
    await _check_end(registry, principal, body.expires_at)
    return _made(await registry.rotate(key.id, timedelta(hours=body.grace_hours), body.expires_at))


@route("DELETE /v1/admin/keys/{id}", ADMIN)
async def revoke_key(call: NativeCall, id: str, principal: Principal) -> KeyView:
    """Revoke a key permanently.

    It stays in listings as `revoked`.
    """
    registry = Registry(call.redis)
    key = await _key(registry, principal, id)
    return (await registry.revoke(key.id)).view(to_ms(system_clock()))


def _made(created: Made) -> Response:
    fields = asdict(created.key.view(to_ms(system_clock())))
    # no-store: the response has a secret that is stored nowhere
    return Json({"key": str(created.token), **fields}, 201, {"Cache-Control": "no-store"})


async def _key(registry: Registry, admin: Principal, key_id: str) -> Key:
    key = await registry.get(key_id)
    if not _may_manage(admin, key):
        raise NotFound(f"there is no key {key_id!r}")
    return key


def _may_manage(admin: Principal, key: Key) -> bool:
    if admin.is_operator:
        return True
    key_scope = key.principal().key_scope
    within = key.tenant == admin.tenant and _within(admin.key_scope.projects, key_scope.projects)
    return within and not OF_THE_SERVER & key.role_set


def _check(admin: Principal, grant: Grant) -> None:
    """Raise AccessDenied or OutsideKeyScope for a key with more access than the admin's own."""
    if admin.is_operator:
        return
    if of_the_server := sorted(OF_THE_SERVER.intersection(grant.roles)):
        raise AccessDenied(f"only an operator can create keys with the role {' or '.join(of_the_server)}")
    if grant.tenant != admin.tenant:
        raise OutsideKeyScope("tenant", grant.tenant, "tenant")
    if not _within(admin.key_scope.projects, tuple(grant.projects)):
        beyond = next((project for project in grant.projects if not admin.key_scope.allows(project)), "(all)")
        raise OutsideKeyScope("project", beyond, "projects")


async def _check_end(registry: Registry, admin: Principal, expires_at: datetime | None) -> None:
    # a key must not outlive the access token or key that creates it: otherwise an issuer could not revoke access, and
    # an expiration set by an operator would have no effect
    ends_ms = admin.expires_ms
    if admin.key_id and not ends_ms:
        ends_ms = (await registry.get(admin.key_id)).expires_ms
    if ends_ms and (expires_at is None or (expires_at.tzinfo and to_ms(expires_at) > ends_ms)):
        latest = from_ms(ends_ms).isoformat()
        raise AccessDenied(
            f"a key cannot outlive the token or key that creates it: send an `expires_at` of {latest} or earlier"
        )


def _within(own: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return not own or (bool(others) and set(others) <= set(own))


class ResourceMetadata(Struct, frozen=True, kw_only=True):
    """The token issuer of this server, and the initial scopes."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]
    resource_name: str


def metadata_endpoints(resource: "Resource") -> list[Endpoint]:
    """The endpoints of the protected-resource metadata, one for each path."""
    endpoints: list[Endpoint] = []

    async def get_metadata(call: NativeCall) -> ResourceMetadata:
        """Who issues access tokens for this server (RFC 9728)."""
        return ResourceMetadata(**resource.metadata)

    for path in resource.paths:
        router(endpoints)(f"GET {path}", ANY, open=True)(get_metadata)
    return endpoints
