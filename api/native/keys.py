"""Routes for API keys: made, listed, replaced and revoked by admins, each within its own tenant and reach."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from api.access.key import Grant, Key, Status
from api.access.keyring import Keyring
from api.access.principal import Principal, Role, principal_of
from api.access.registry import Made, Registry
from api.endpoint import Endpoint
from api.http import Json, asked_for
from ingest.clock import system_clock, to_ms
from ingest.errors import NotFound, OutOfReach

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
    admin = principal_of(request.scope)
    grant = await asked_for(request, Grant)
    grant = replace(grant, tenant=grant.tenant or admin.tenant)
    _check(admin, grant.tenant, grant.projects, grant.agents)
    return _made(await _registry(request).create(grant))


async def list_keys(request: Request) -> Response:
    """The keys that the admin may see, the oldest first."""
    admin, now_ms = principal_of(request.scope), to_ms(system_clock())
    return Json({"keys": [one.shown(now_ms) for one in await _registry(request).all() if _may_manage(admin, one)]})


async def get_key(request: Request) -> Response:
    """A key, without its secret."""
    return Json((await _key(request)).shown(to_ms(system_clock())))


async def rotate_key(request: Request) -> Response:
    """Make a key for the same in the place of one, which goes on for a grace time; 201 with the new token."""
    asked = await asked_for(request, Rotation, optional=True)
    key = await _key(request)
    return _made(await _registry(request).rotate(key.id, timedelta(hours=asked.grace_hours), asked.expires_at))


async def revoke_key(request: Request) -> Response:
    """Let nobody in with a key any more."""
    key = await _key(request)
    return Json((await _registry(request).revoke(key.id)).shown(to_ms(system_clock())))


def _made(made: Made) -> Response:
    told: Mapping[str, Any] = made.key.shown(to_ms(system_clock()))
    return Json({"key": str(made.token), **told}, 201, NOT_STORED)


async def _key(request: Request) -> Key:
    name = request.path_params["id"]
    key = await _registry(request).get(name)
    if not _may_manage(principal_of(request.scope), key):
        raise NotFound(f"there is no key {name!r}")
    return key


def _may_manage(admin: Principal, key: Key) -> bool:
    """Whether an admin may see and change a key: the operator any, others those that reach no further than theirs."""
    if admin.is_root:
        return True
    reach = key.principal(admin.tenant).reach
    return key.tenant == admin.tenant and _within(admin.reach.projects, reach.projects)


def _check(admin: Principal, tenant: str, projects: list[str], agents: list[str]) -> None:
    """Raise OutOfReach for a key that would reach further than the admin's own."""
    if admin.is_root:
        return
    if tenant != admin.tenant:
        raise OutOfReach("tenant", tenant, "tenant")
    if not _within(admin.reach.projects, tuple(projects)):
        beyond = next((one for one in projects if not admin.reach.allows(one)), "(all)")
        raise OutOfReach("project", beyond, "projects")


def _within(own: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return not own or (bool(others) and set(others) <= set(own))


def _registry(request: Request) -> Registry:
    keyring: Keyring = request.app.state.keyring
    return keyring.registry


ENDPOINTS = [
    Endpoint(
        "POST", "/v1/admin/keys", post_key, "Make a key, whose token is shown this once.",
        status=201, body=Grant, answer=NewKey,
    ),
    Endpoint("GET", "/v1/admin/keys", list_keys, "The keys that the admin may see, the oldest first.", answer=KeysView),
    Endpoint("GET", "/v1/admin/keys/{id}", get_key, "A key, without its secret.", answer=KeyView),
    Endpoint(
        "POST", "/v1/admin/keys/{id}/rotate", rotate_key, "Make a key in the place of one, which goes on for a while.",
        status=201, body=Rotation, optional=True, answer=NewKey,
    ),
    Endpoint("DELETE", "/v1/admin/keys/{id}", revoke_key, "Let nobody in with a key any more.", answer=KeyView),
]  # fmt: skip
