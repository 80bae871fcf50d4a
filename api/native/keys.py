"""Routes for API keys: made, listed, replaced and revoked by admins, each within its own tenant and reach.

On a server without a secret and without any key nobody can be told from anybody else, so none is made here: whoever was
first would lock out the others. `mnemolog keys` makes it, for who may open the log's server.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from api.access.keyring import Keyring
from api.access.keys import Grant, Key, Made, Registry, Status
from api.access.principal import Principal, principal_of
from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from ingest.errors import AccessDenied, NotFound, OutsideKeyScope
from ingest.platform.clock import from_ms, system_clock, to_ms
from ingest.roles import ADMIN, OF_THE_SERVER, Role

NOT_STORED = {"Cache-Control": "no-store"}
"""The answer has a secret that is nowhere else."""


class Rotation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long the old key goes on, and until when the new one is valid."""

    grace_hours: Annotated[float, Meta(ge=0, le=24 * 90)] = 24.0
    expires_at: datetime | None = None


class KeyView(Struct, frozen=True, kw_only=True):
    """A key without its secret. `replaced_by` is the id of the key that was made in its place."""

    id: str
    name: str
    tenant: str
    roles: list[Role]
    projects: list[str]
    agents: list[str]
    status: Status
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    replaced_by: str | None
    reads_per_minute: int
    writes_per_minute: int


class NewKey(KeyView, frozen=True, kw_only=True):
    """A key that was just made. `key` is its token, which is shown this once."""

    key: str


class KeysView(Struct, frozen=True):
    """The keys that the admin may see."""

    keys: list[KeyView]


async def post_key(request: Request) -> Response:
    """Make a key; 201 with its token, which is shown this once."""
    admin = _admin(request)
    grant = await asked_for(request, Grant)
    grant = replace(grant, tenant=grant.tenant or admin.tenant)
    _check(admin, grant)
    await _check_end(request, grant.expires_at)
    return _made(await _registry(request).create(grant))


async def list_keys(request: Request) -> Response:
    """The keys that the caller may manage, without their secrets."""
    admin, now_ms = _admin(request), to_ms(system_clock())
    return Json({"keys": [one.shown(now_ms) for one in await _registry(request).all() if _may_manage(admin, one)]})


async def get_key(request: Request) -> Response:
    """What a key is for, and whether it holds; its secret is stored nowhere."""
    return Json((await _key(request)).shown(to_ms(system_clock())))


async def rotate_key(request: Request) -> Response:
    """Make a key for the same in the place of one, which goes on for a grace time; 201 with the new token."""
    asked = await asked_for(request, Rotation, optional=True)
    key = await _key(request)
    await _check_end(request, asked.expires_at)
    return _made(await _registry(request).rotate(key.id, timedelta(hours=asked.grace_hours), asked.expires_at))


async def revoke_key(request: Request) -> Response:
    """Let nobody in with a key any more, for good."""
    key = await _key(request)
    return Json((await _registry(request).revoke(key.id)).shown(to_ms(system_clock())))


def _made(made: Made) -> Response:
    told: Mapping[str, Any] = made.key.shown(to_ms(system_clock()))
    return Json({"key": str(made.token), **told}, 201, NOT_STORED)


async def _key(request: Request) -> Key:
    admin, name = _admin(request), request.path_params["id"]
    key = await _registry(request).get(name)
    if not _may_manage(admin, key):
        raise NotFound(f"there is no key {name!r}")
    return key


def _admin(request: Request) -> Principal:
    """Whose keys these are to manage; raises AccessDenied for who shows neither a key nor the server's secret."""
    principal = principal_of(request.scope)
    if not principal.named:
        raise AccessDenied(
            "this server has neither a key nor MNEMOLOG_SECRET, so anybody may call it: make the first key with "
            "`mnemolog keys create NAME --role operator` where the log's server is"
        )
    return principal


def _may_manage(admin: Principal, key: Key) -> bool:
    """Whether an admin may see and change a key: an operator any, others those that reach no further than theirs."""
    if admin.is_operator:
        return True
    key_scope = key.principal().key_scope
    within = key.tenant == admin.tenant and _within(admin.key_scope.projects, key_scope.projects)
    return within and not OF_THE_SERVER & key.role_set


def _check(admin: Principal, grant: Grant) -> None:
    """Raise AccessDenied or OutOfReach for a key that would be for more than the admin's own."""
    if admin.is_operator:
        return
    if of_the_server := sorted(OF_THE_SERVER.intersection(grant.roles)):
        raise AccessDenied(f"only an operator makes keys with the role {' or '.join(of_the_server)}")
    if grant.tenant != admin.tenant:
        raise OutsideKeyScope("tenant", grant.tenant, "tenant")
    if not _within(admin.key_scope.projects, tuple(grant.projects)):
        beyond = next((one for one in grant.projects if not admin.key_scope.allows(one)), "(all)")
        raise OutsideKeyScope("project", beyond, "projects")


async def _check_end(request: Request, expires_at: datetime | None) -> None:
    """Raise AccessDenied for a key that would outlive the access token or key that makes it: an issuer could not take
    back what it gave, nor an operator what a key was limited to."""
    admin = _admin(request)
    ends_ms = admin.expires_ms
    if admin.key_id and not ends_ms:
        ends_ms = (await _registry(request).get(admin.key_id)).expires_ms
    if ends_ms and (expires_at is None or (expires_at.tzinfo and to_ms(expires_at) > ends_ms)):
        latest = from_ms(ends_ms).isoformat()
        raise AccessDenied(f"a key may not outlive the token or key that makes it: send `expires_at`, {latest} at most")


def _within(own: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return not own or (bool(others) and set(others) <= set(own))


def _registry(request: Request) -> Registry:
    keyring: Keyring = request.app.state.keyring
    return keyring.registry


ENDPOINTS = [
    Endpoint("POST", "/v1/admin/keys", ADMIN, post_key, "Make a key, whose token is shown this once.", status=201,
        body=Grant, answer=NewKey),
    Endpoint("GET", "/v1/admin/keys", ADMIN, list_keys, "The keys that the admin may see, the oldest first.",
        answer=KeysView),
    Endpoint("GET", "/v1/admin/keys/{id}", ADMIN, get_key, "A key, without its secret.", answer=KeyView),
    Endpoint("POST", "/v1/admin/keys/{id}/rotate", ADMIN, rotate_key,
        "Make a key in the place of one, which goes on for a while.", status=201, body=Rotation, optional=True,
        answer=NewKey),
    Endpoint("DELETE", "/v1/admin/keys/{id}", ADMIN, revoke_key, "Let nobody in with a key any more.", answer=KeyView),
]  # fmt: skip
