"""A key as it is stored and shown (its owner and permissions, never its secret), and as its owner sends it; and each
API process's cache of all keys.

At most once every FRESH_S, a request asks Redis whether anything has changed (one GET), and reloads the keys if so. So
a new key works, and a revoked key stops working, within FRESH_S on every process. No other request waits for Redis, and
guessed keys never reach it. While Redis is down, the cached keys stay valid for STALE_S; then every key is refused.
"""

import asyncio
import hmac
import logging
import re
import secrets
import time
from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace
from redis.exceptions import RedisError

from api.access.principal import Principal, Rates, anybody, principal_of, root
from ingest.errors import CommandRejected, LogUnavailable, NotFound
from ingest.log.keys import ACCESS_KEYS, ACCESS_VERSION, access_row_pk
from ingest.names import nfc
from ingest.nouns.command import Name
from ingest.platform.clock import Clock, from_ms, system_clock, to_ms
from ingest.platform.connections import Client
from ingest.roles import ADMIN, OF_THE_SERVER, ROLES, KeyScope, Role, allow
from projections.nouns.rows import Row, load_row
from projections.webhooks.subscriptions import Owner

MAX_NAMES = 100
"""The most projects, and the most agents, of one key: every search compares them."""
Status = Literal["active", "replaced", "expired", "revoked"]
ProjectNames = Annotated[list[Name], Meta(max_length=MAX_NAMES)]
AgentNames = Annotated[list[Annotated[str, Meta(min_length=1, max_length=512)]], Meta(max_length=MAX_NAMES)]
PerMinute = Annotated[int, Meta(ge=0, le=100_000_000)]


class Grant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The permissions of a key. No projects or agents means all. Rates are requests a minute; 0 means no limit."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    roles: Annotated[list[Role], Meta(min_length=1, max_length=len(ROLES))]
    tenant: Name = ""
    projects: ProjectNames = []
    agents: AgentNames = []
    expires_at: datetime | None = None
    reads_per_minute: PerMinute = 0
    writes_per_minute: PerMinute = 0


class Key(Row, index=True):
    """One key. Times are in ms since the epoch, 0 means never; lists are JSON."""

    id: str
    digest: str
    tenant: str
    name: str
    roles: str
    projects: str = "[]"
    agents: str = "[]"
    created_ms: int = 0
    expires_ms: int = 0
    revoked_ms: int = 0
    reads_per_minute: int = 0
    writes_per_minute: int = 0
    replaced_by: str = ""

    def principal(self) -> Principal:
        """The principal of the key."""
        roles = self.role_set
        key_scope = KeyScope(
            tuple(map(nfc, _names(self.projects))),
            tuple(map(nfc, _names(self.agents))),
            "operator" not in roles,
            allow(roles, ADMIN),
            self.id,
        )
        rates = Rates(self.reads_per_minute, self.writes_per_minute)
        return Principal(self.tenant, roles, self.id, key_scope, rates)

    @property
    def role_set(self) -> frozenset[Role]:
        """Its roles; unknown ones (from a newer release) are ignored."""
        stored = _names(self.roles)
        return frozenset(role for role in ROLES if role in stored)

    def holds(self, now_ms: int) -> bool:
        """Whether the key is valid now."""
        return not self.revoked_ms and not (self.expires_ms and self.expires_ms <= now_ms)

    def status(self, now_ms: int) -> Status:
        """`active`, `replaced` (still valid, for a while), `expired` or `revoked`."""
        if self.revoked_ms:
            return "revoked"
        if not self.holds(now_ms):
            return "expired"
        return "replaced" if self.replaced_by else "active"

    def view(self, now_ms: int) -> "KeyView":
        """The key without its secret."""
        return KeyView(
            id=self.id,
            name=self.name,
            tenant=self.tenant,
            roles=msgspec.json.decode(self.roles),
            projects=_names(self.projects),
            agents=_names(self.agents),
            status=self.status(now_ms),
            created_at=from_ms(self.created_ms),
            expires_at=from_ms(self.expires_ms) if self.expires_ms else None,
            revoked_at=from_ms(self.revoked_ms) if self.revoked_ms else None,
            replaced_by=self.replaced_by or None,
            reads_per_minute=self.reads_per_minute,
            writes_per_minute=self.writes_per_minute,
        )


class KeyView(Struct, frozen=True, kw_only=True):
    """A key without its secret. `replaced_by` is the id of its replacement."""

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


def key_of(grant: Grant, name: str, digest: str, created_ms: int, expires_ms: int) -> Key:
    """The key for a grant. Raises CommandRejected for a contradictory grant."""
    if "admin" in grant.roles and grant.agents:
        raise CommandRejected(
            "an admin reads every agent's documents: an admin key cannot be limited to agents", "agents"
        )
    of_the_server = sorted(OF_THE_SERVER.intersection(grant.roles))
    if of_the_server and (grant.projects or grant.agents):
        raise CommandRejected(
            f"{' and '.join(of_the_server)} is server-wide: such a key cannot be limited to projects or agents",
            "projects" if grant.projects else "agents",
        )
    for field, values in (("projects", grant.projects), ("agents", grant.agents), ("name", [grant.name])):
        if any("\0" in value for value in values):
            raise CommandRejected("a name cannot contain NUL", field)
    if expires_ms and expires_ms <= created_ms:
        raise CommandRejected("`expires_at` is in the past", "expires_at")
    return Key(
        pk=access_row_pk(name),
        id=name,
        digest=digest,
        tenant=grant.tenant,
        name=grant.name,
        roles=_json([role for role in ROLES if role in grant.roles]),
        projects=_json(sorted(set(grant.projects))),
        agents=_json(sorted(set(grant.agents))),
        created_ms=created_ms,
        expires_ms=expires_ms,
        reads_per_minute=grant.reads_per_minute,
        writes_per_minute=grant.writes_per_minute,
    )


def _json(values: list[Any]) -> str:
    return msgspec.json.encode(values).decode()


def _names(stored: str) -> list[str]:
    return msgspec.json.decode(stored, type=list[str])


PREFIX = "mnk_"
ID_CHARS, SECRET_CHARS, CHECKSUM_CHARS = 12, 43, 6
SECRET_BYTES = 32
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHAPE = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{ID_CHARS}}})_([0-9A-Za-z]{{{SECRET_CHARS}}})([0-9A-Za-z]{{{CHECKSUM_CHARS}}})"
)


class KeyToken(NamedTuple):
    """A key in its owner's form: `mnk_<id>_<secret><checksum>`.

    The id is public and names the key in lists and logs. The secret has 256 random bits and cannot be guessed from its
    hash: a plain SHA-256 is enough, where a password would need a slow hash. The checksum detects mistyped and
    truncated keys without a lookup, and lets secret scanners recognize real keys.
    """

    id: str
    secret: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.id}_{self.secret}{_checksum(self.id, self.secret)}"

    def __repr__(self) -> str:
        return f"Token({self.id!r}, ...)"

    @property
    def digest(self) -> str:
        """The stored hash of the secret: SHA-256, 64 hex digits."""
        return sha256(self.secret.encode()).hexdigest()


def mint() -> KeyToken:
    """A new token, from the system's random source."""
    secret = _base62(int.from_bytes(secrets.token_bytes(SECRET_BYTES)), SECRET_CHARS)
    return KeyToken("".join(secrets.choice(_ALPHABET) for _ in range(ID_CHARS)), secret)


def parse(text: str) -> KeyToken | None:
    """The token in a text; None if the text is not a token or was mistyped."""
    match = _SHAPE.fullmatch(text)
    if match is None or _checksum(match[1], match[2]) != match[3]:
        return None
    return KeyToken(match[1], match[2])


def _checksum(name: str, secret: str) -> str:
    return _base62(crc32(f"{name}_{secret}".encode()), CHECKSUM_CHARS)


def _base62(number: int, length: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 62)
        digits = _ALPHABET[rest] + digits
    return digits.rjust(length, "0")


# every API process holds all of them in memory, about 1 KB each
MAX_KEYS = 10_000
ROWS_AT_ONCE = 500


class Made(NamedTuple):
    """A new key, with the only copy of its token."""

    token: KeyToken
    key: Key


@dataclass
class Registry:
    """The keys of all tenants."""

    _redis: Client
    _clock: Clock = system_clock

    async def create(self, grant: Grant) -> Made:
        """Create a key. Raises CommandRejected for a contradictory grant, or if there are MAX_KEYS already."""
        if await self._redis.scard(ACCESS_KEYS) >= MAX_KEYS:
            raise CommandRejected(f"the limit of {MAX_KEYS:,} keys is reached; revoked keys count")
        created = self._made(grant)
        await self._save(created.key)
        return created

    async def rotate(self, name: str, grace: timedelta, expires_at: datetime | None = None) -> Made:
        """Create a key with the same permissions.

        The old key keeps working during the grace period and then expires. Without `expires_at`, the new key has the
        old key's lifetime. Raises NotFound, or CommandRejected if the key is no longer valid or was already replaced.
        """
        old, now = await self.get(name), self._clock()
        if not old.holds(to_ms(now)):
            raise CommandRejected(f"key {name} is {old.status(to_ms(now))}; create a new one")
        if old.replaced_by:
            raise CommandRejected(f"key {name} was already replaced by {old.replaced_by}")
        if expires_at is None and old.expires_ms:
            expires_at = now + timedelta(milliseconds=old.expires_ms - old.created_ms)
        created = self._made(replace(_grant_of(old), expires_at=expires_at))
        end_ms = to_ms(now + grace)
        ends = min(end_ms, old.expires_ms) if old.expires_ms else end_ms
        await self._save(created.key, old.model_copy(update={"replaced_by": created.key.id, "expires_ms": ends}))
        return created

    async def revoke(self, name: str) -> Key:
        """Revoke a key; a revoked key stays unchanged. Raises NotFound."""
        key = await self.get(name)
        if not key.revoked_ms:
            key = key.model_copy(update={"revoked_ms": to_ms(self._clock())})
            await self._save(key)
        return key

    async def get(self, name: str) -> Key:
        """A key by its id; raises NotFound."""
        key = await self._load(name)
        if key is None:
            raise NotFound(f"there is no key {name!r}")
        return key

    async def all(self) -> list[Key]:
        """Every key, oldest first."""
        names = sorted(name.decode() for name in await self._redis.smembers(ACCESS_KEYS))
        results: list[Key] = []
        for start in range(0, len(names), ROWS_AT_ONCE):
            loaded = await asyncio.gather(*map(self._load, names[start : start + ROWS_AT_ONCE]))
            results += [key for key in loaded if key is not None]
        return sorted(results, key=lambda key: (key.created_ms, key.id))

    async def allows(self, owner: Owner) -> bool:
        """Whether the owner of a subscription still has access; for a process without a Keyring."""
        now_ms = to_ms(self._clock())
        if owner.expires_ms or not owner.key_id:
            return not 0 < owner.expires_ms <= now_ms
        key = await self._load(owner.key_id)
        return key is not None and key.holds(now_ms)

    async def version(self) -> int:
        """A number that grows with every change to a key; 0 before the first key."""
        return int(await self._redis.get(ACCESS_VERSION) or 0)

    def _made(self, grant: Grant) -> Made:
        token, ends = mint(), grant.expires_at
        if ends is not None and ends.tzinfo is None:
            raise CommandRejected("a time needs a zone: write 2026-01-31T12:00:00Z", "expires_at")
        key = key_of(grant, token.id, token.digest, to_ms(self._clock()), to_ms(ends) if ends else 0)
        return Made(token, key)

    async def _load(self, name: str) -> Key | None:
        return await load_row(Key, access_row_pk(name), self._redis)

    async def _save(self, *keys: Key) -> None:
        async with self._redis.pipeline(transaction=True) as pipe:
            for key in keys:
                await key.save(pipeline=pipe)
                pipe.sadd(ACCESS_KEYS, key.id)
            pipe.incr(ACCESS_VERSION)
            await pipe.execute()


def _grant_of(key: Key) -> Grant:
    principal = key.principal()
    return Grant(
        name=key.name,
        roles=sorted(principal.roles),
        tenant=key.tenant,
        projects=list(principal.key_scope.projects),
        agents=list(principal.key_scope.agents),
        reads_per_minute=key.reads_per_minute,
        writes_per_minute=key.writes_per_minute,
    )


logger = logging.getLogger(__name__)

FRESH_S = 2.0  # a revoked key works this long at most; one GET per process and interval costs nothing
STALE_S = 60.0  # longer than a failover of Redis or Valkey takes; then a revoked key may not go on working
# requests that wait for a look continue after this time with the keys read before
LOOK_S = 1.0
_NO_DIGEST = sha256(b"no key has this").hexdigest()


class Keyring:
    """Identifies a caller by the credential it sends. `loopback`: only this machine can reach the server, and no token
    issuer is configured."""

    def __init__(
        self, registry: Registry, tenant: str, secret: str | None, *, loopback: bool, clock: Clock = system_clock
    ) -> None:
        self.registry, self._tenant, self._loopback, self._clock = registry, tenant, loopback, clock
        self._secret = sha256(secret.encode()).digest() if secret else None
        self._root, self._anybody = root(tenant), anybody(tenant)
        self._keys: Mapping[str, tuple[Key, Principal]] = {}
        self._version = -1
        self._due_s = self._read_s = 0.0
        self._looking: asyncio.Task[None] | None = None

    @property
    def open(self) -> bool:
        """Whether callers need no key: there is no secret, never was a key, and only this machine can call."""
        return self._loopback and self._secret is None and not self._keys

    @property
    def empty(self) -> bool:
        """Whether no key was ever created."""
        return not self._keys

    async def load(self) -> None:
        """Load the keys now; raises what Redis raises."""
        version = await self.registry.version()
        if version != self._version:
            self._keys = {key.id: (key, key.principal()) for key in await self.registry.all()}
            self._version = version
        self._read_s = time.monotonic()

    async def identify(self, credential: str) -> Principal | None:
        """The principal of a credential; None if it is refused. A caller without a key sends an empty text.

        Raises LogUnavailable if the keys could not be read for STALE_S.
        """
        if time.monotonic() >= self._due_s:
            await self._look()
        if self._secret is not None and hmac.compare_digest(
            sha256(credential.encode(errors="replace")).digest(), self._secret
        ):
            return self._root
        if not credential:
            return self._anybody if self.open else None
        token = parse(credential)
        # an unknown id takes the same path as a wrong secret, so that timing reveals nothing
        key, principal = self._keys.get(token.id if token else "", (None, None))
        digest = token.digest if token else _NO_DIGEST
        same = hmac.compare_digest(digest, key.digest if key else _NO_DIGEST)
        if key is not None and same and key.holds(to_ms(self._clock())):
            return principal
        return self._anybody if self.open else None

    async def holds(self, principal: Principal) -> bool:
        """Whether a caller's access is still valid; long-lived connections ask this."""
        if time.monotonic() >= self._due_s:
            await self._look()
        if principal.expires_ms:
            return to_ms(self._clock()) < principal.expires_ms
        if principal.key_id:
            key, _ = self._keys.get(principal.key_id, (None, None))
            return key is not None and key.holds(to_ms(self._clock()))
        return self._secret is not None if principal.named else self.open

    async def _look(self) -> None:
        """Check for changes once, no matter how many requests wait for the result."""
        if self._looking is None or self._looking.done():
            # set before the check: requests that arrive during it use the cached keys
            self._due_s = time.monotonic() + FRESH_S
            self._looking = asyncio.create_task(self.load(), name="keys")
        try:
            # shielded: a disconnecting client must not cancel the check that others wait for
            await asyncio.wait_for(asyncio.shield(self._looking), LOOK_S)
        except (RedisError, OSError) as error:
            if time.monotonic() - self._read_s > STALE_S:
                raise LogUnavailable(f"the API keys cannot be read: {error}") from None
            logger.warning("the API keys could not be refreshed: %s", error)


async def still_holds(scope: Mapping[str, Any]) -> bool:
    """Whether the same key would still give this request access."""
    keyring: Keyring = scope["app"].state.keyring
    return await keyring.holds(principal_of(scope))
