"""The registry of keys: what Redis holds of them, and every change to it.

Keys are configuration and no events: they are in no log, no export and no backup. A key is never deleted: a revoked one
says in a list what it was for, and its id is not given away again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from api.access.key import Grant, Key, KeyToken, key_of, mint
from ingest.errors import CommandRejected, NotFound
from ingest.log.keys import ACCESS_KEYS, ACCESS_VERSION, access_row_pk, row_key
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.documents.rows import read_row, save_row

MAX_KEYS = 10_000
"""Every API process holds all of them in memory, about 1 KB each."""
ROWS_AT_ONCE = 500


class Made(NamedTuple):
    """A new key, and the only copy of its token there is."""

    token: KeyToken
    key: Key


class Registry:
    """The keys of all tenants."""

    def __init__(self, redis: Client, clock: Clock = system_clock) -> None:
        self._redis, self._clock = redis, clock

    async def create(self, grant: Grant) -> Made:
        """Make a key. Raises CommandRejected for a grant that makes no sense, or past MAX_KEYS."""
        if await self._redis.scard(ACCESS_KEYS) >= MAX_KEYS:
            raise CommandRejected(f"there are {MAX_KEYS:,} keys already; revoked ones count, too")
        made = self._made(grant)
        await self._save(made.key)
        return made

    async def rotate(self, name: str, grace: timedelta, expires_at: datetime | None = None) -> Made:
        """Make a key for the same as this one, which goes on for the grace time and then expires.

        Without `expires_at` the new one lasts as long as the old one was made to. Raises NotFound, or CommandRejected
        for one that does not hold any more or was replaced.
        """
        old, now = await self.get(name), self._clock()
        if not old.holds(to_ms(now)):
            raise CommandRejected(f"key {name} is {old.status(to_ms(now))}: make a new one")
        if old.replaced_by:
            raise CommandRejected(f"key {name} was replaced by {old.replaced_by} already")
        if expires_at is None and old.expires_ms:
            expires_at = now + timedelta(milliseconds=old.expires_ms - old.created_ms)
        made = self._made(replace(_grant_of(old), expires_at=expires_at))
        end_ms = to_ms(now + grace)
        ends = min(end_ms, old.expires_ms) if old.expires_ms else end_ms
        await self._save(made.key, old.model_copy(update={"replaced_by": made.key.id, "expires_ms": ends}))
        return made

    async def revoke(self, name: str) -> Key:
        """Let nobody in with a key any more; one that was revoked stays as it is. Raises NotFound."""
        key = await self.get(name)
        if not key.revoked_ms:
            key = key.model_copy(update={"revoked_ms": to_ms(self._clock())})
            await self._save(key)
        return key

    async def get(self, name: str) -> Key:
        """A key by its id; raises NotFound."""
        key = read_row(Key, await self._redis.hgetall(row_key(access_row_pk(name))))
        if key is None:
            raise NotFound(f"there is no key {name!r}")
        return key

    async def all(self) -> list[Key]:
        """Every key, the oldest first."""
        names = sorted(name.decode() for name in await self._redis.smembers(ACCESS_KEYS))
        found: list[Key] = []
        for start in range(0, len(names), ROWS_AT_ONCE):
            found += await self._rows(names[start : start + ROWS_AT_ONCE])
        return sorted(found, key=lambda one: (one.created_ms, one.id))

    async def version(self) -> int:
        """A number that every change to a key makes bigger; 0 before there is one."""
        return int(await self._redis.get(ACCESS_VERSION) or 0)

    async def _rows(self, names: Sequence[str]) -> list[Key]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hgetall(row_key(access_row_pk(name)))
            rows = await pipe.execute()
        return [key for row in rows if (key := read_row(Key, row)) is not None]

    def _made(self, grant: Grant) -> Made:
        token, ends = mint(), grant.expires_at
        if ends is not None and ends.tzinfo is None:
            raise CommandRejected("a time needs a zone: write 2026-01-31T12:00:00Z", "expires_at")
        key = key_of(grant, token.id, token.digest, to_ms(self._clock()), to_ms(ends) if ends else 0)
        return Made(token, key)

    async def _save(self, *keys: Key) -> None:
        """Save keys together, and tell the processes that there is something new."""
        async with self._redis.pipeline(transaction=True) as pipe:
            for key in keys:
                await save_row(key, access_row_pk(key.id), pipe)
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
