"""Keys on a real server: what is stored of them, whom they let in, and how often.

Left open: what a request with a key may do (tests/acceptance/test_authorisation_walk.py).
"""

from datetime import timedelta
from typing import Any, cast

import pytest
from factories import ManualClock

from api.access.admission import RateLimits
from api.access.keyring import Keyring
from api.access.keys import Grant, Made, Registry
from api.access.principal import Principal
from api.http.http import answer
from ingest.errors import CommandRejected, NotFound, TooManyRequests
from ingest.log.keys import access_bucket, access_row_pk, row_key
from ingest.platform.clock import to_ms
from ingest.platform.connections import Client
from ingest.roles import ADMIN, METRICS, OPERATOR, KeyScope
from tests.support.waiting import wait_until

GRANT = Grant(name="fleet", roles=["read", "write"], tenant="default", projects=["shop", ""], agents=["ada"])


@pytest.fixture
def registry(redis: Client, clock: ManualClock) -> Registry:
    return Registry(redis, clock)


async def admitted(registry: Registry, made: Made, clock: ManualClock) -> Principal | None:
    """Whom a server that has just started lets in."""
    ring = Keyring(registry, "default", None, loopback=False, clock=clock)
    await ring.load()
    return await ring.identify(str(made.token))


async def test_a_key_lets_in_whom_it_is_for(registry: Registry, clock: ManualClock):
    made = await registry.create(GRANT)
    found = await admitted(registry, made, clock)
    assert found is not None
    assert (found.tenant, found.roles, found.key_id) == ("default", {"read", "write"}, made.key.id)
    assert found.key_scope == KeyScope(("", "shop"), ("ada",), within_tenant=True)


@pytest.mark.parametrize("tenant", ["default", "elsewhere"])
async def test_only_an_operators_key_is_shown_what_belongs_to_no_tenant(
    registry: Registry, clock: ManualClock, tenant: str
):
    within: dict[str, bool] = {}
    for role in ("read", "admin", "metrics", "operator"):
        found = await admitted(registry, await registry.create(Grant(name="x", roles=[role], tenant=tenant)), clock)
        assert found is not None
        within[role] = found.key_scope.within_tenant
    assert within == {"read": True, "admin": True, "metrics": True, "operator": False}


async def test_a_stored_admin_key_is_no_operator(registry: Registry, clock: ManualClock):
    """Also one for all of a tenant that was made before there were operators' keys."""
    found = await admitted(registry, await registry.create(Grant(name="x", roles=["read", "write", "admin"])), clock)
    assert found is not None
    assert found.may(ADMIN)
    assert not found.may(OPERATOR)
    assert not found.may(METRICS)
    assert not found.is_operator


async def test_the_secret_is_not_stored(registry: Registry, redis: Client):
    made = await registry.create(GRANT)
    stored: dict[bytes, bytes] = await redis.hgetall(row_key(access_row_pk(made.key.id)))
    everything = b" ".join([*stored, *stored.values()])
    assert made.token.secret.encode() not in everything
    assert made.key.digest.encode() in everything


async def test_an_expired_and_a_revoked_key_let_nobody_in(registry: Registry, clock: ManualClock):
    short = await registry.create(Grant(name="x", roles=["read"], expires_at=clock() + timedelta(hours=1)))
    long = await registry.create(Grant(name="y", roles=["read"]))
    assert await admitted(registry, short, clock)
    clock.advance(timedelta(hours=1))
    assert await admitted(registry, short, clock) is None
    assert await admitted(registry, long, clock)
    await registry.revoke(long.key.id)
    assert await admitted(registry, long, clock) is None
    assert {one.id: one.status(0) for one in await registry.all()} == {short.key.id: "active", long.key.id: "revoked"}


async def test_a_replaced_key_goes_on_for_its_grace_time(registry: Registry, clock: ManualClock):
    old = await registry.create(GRANT)
    new = await registry.rotate(old.key.id, timedelta(hours=2))
    first, second = await admitted(registry, old, clock), await admitted(registry, new, clock)
    assert first is not None
    assert second is not None
    assert second == first._replace(key_id=new.key.id)
    clock.advance(timedelta(hours=2))
    assert await admitted(registry, old, clock) is None
    assert await admitted(registry, new, clock)
    with pytest.raises(CommandRejected):
        await registry.rotate(old.key.id, timedelta(0))


async def test_a_key_that_nobody_made_is_not_found(registry: Registry):
    for ask in (registry.get, registry.revoke):
        with pytest.raises(NotFound):
            await ask("0123456789AB")


@pytest.mark.parametrize(
    "grant",
    [
        Grant(name="x", roles=["admin"], agents=["ada"]),
        Grant(name="x", roles=["read"], projects=["a\0b"]),
        Grant(name="x", roles=["operator"], projects=["shop"]),
        Grant(name="x", roles=["read", "metrics"], agents=["ada"]),
    ],
)
async def test_a_grant_that_is_not_what_it_seems_makes_no_key(registry: Registry, grant: Grant):
    with pytest.raises(CommandRejected):
        await registry.create(grant)
    assert await registry.all() == []


async def test_a_running_server_learns_of_new_and_revoked_keys(registry: Registry):
    ring = Keyring(registry, "default", None, loopback=True)
    await ring.load()
    unnamed = await ring.identify("")  # open, as long as there is no key
    assert unnamed is not None
    assert not unnamed.named
    made = await registry.create(GRANT)
    await wait_until(lambda: _knows(ring, str(made.token)))
    assert await ring.identify("") is None
    await registry.revoke(made.key.id)
    await wait_until(lambda: _refuses(ring, str(made.token)))
    assert await ring.identify("") is None, "a server does not open again when its last key is revoked"


async def _knows(ring: Keyring, given: str) -> bool:
    found = await ring.identify(given)
    return found is not None and bool(found.key_id)


async def _refuses(ring: Keyring, given: str) -> bool:
    return await ring.identify(given) is None


async def test_the_servers_secret_is_a_key_to_everything(registry: Registry):
    ring = Keyring(registry, "default", "s3cret", loopback=False)
    await ring.load()
    found = await ring.identify("s3cret")
    assert found is not None
    assert found.is_operator
    assert found.named
    assert await ring.identify("s3cret ") is None
    assert await ring.identify("") is None


async def test_a_server_that_others_can_reach_is_never_open(registry: Registry):
    ring = Keyring(registry, "default", None, loopback=False)
    await ring.load()
    assert await ring.identify("") is None


async def test_a_key_may_ask_so_often_and_is_told_when_to_come_back(redis: Client):
    limits = RateLimits(redis)
    for _ in range(5):
        await limits.take("a", "writes", 5)
    with pytest.raises(TooManyRequests) as refused:
        await limits.take("a", "writes", 5)
    assert b'"reason":"limit"' in answer(refused.value).body
    assert 1 <= refused.value.retry_after_s <= 12  # one more comes every 12 seconds
    await limits.take("a", "reads", 5)
    await limits.take("b", "writes", 5)


async def test_further_events_of_a_request_are_a_debt_that_later_writes_wait_for(redis: Client):
    limits, another = RateLimits(redis), RateLimits(redis)
    await limits.take("a", "writes", 60)
    charge = limits.meter("a", 60)
    await charge(1)  # it was paid for
    await charge(100)
    for one in (limits, another):  # 101 were taken of 60: one more comes a second
        with pytest.raises(TooManyRequests) as refused:
            await one.take("a", "writes", 60)
        assert 38 <= refused.value.retry_after_s <= 42
    await limits.take("a", "reads", 60)
    assert await cast(Any, redis).ttl(access_bucket("a", "writes")) > 150


async def test_the_debt_of_a_key_is_an_hours_worth_at_most(redis: Client):
    limits = RateLimits(redis)
    await limits.take("a", "writes", 60)
    await limits.meter("a", 60)(1_000_000)
    with pytest.raises(TooManyRequests) as refused:
        await limits.take("a", "writes", 60)
    assert 3_590 <= refused.value.retry_after_s <= 3_601


async def test_what_a_process_took_in_advance_pays_for_further_events(redis: Client):
    limits = RateLimits(redis)
    await limits.take("a", "writes", 6_000)  # it took 100
    await limits.meter("a", 6_000)(50)
    before = (await cast(Any, redis).info("stats"))["total_commands_processed"]
    for _ in range(50):
        await limits.take("a", "writes", 6_000)
    assert (await cast(Any, redis).info("stats"))["total_commands_processed"] - before <= 1


async def test_processes_share_what_a_key_may_ask(redis: Client):
    processes = [RateLimits(redis) for _ in range(4)]
    taken = 0
    for turn in range(48):
        try:
            await processes[turn % 4].take("a", "reads", 20)
            taken += 1
        except TooManyRequests:
            continue
    assert 20 <= taken <= 21  # the bucket refills by one every 3 seconds


async def test_a_second_is_taken_in_one_round_trip(redis: Client):
    limits, calls = RateLimits(redis), cast(Any, redis)
    await limits.take("a", "writes", 60_000)
    before = (await calls.info("stats"))["total_commands_processed"]
    for _ in range(999):
        await limits.take("a", "writes", 60_000)
    assert (await calls.info("stats"))["total_commands_processed"] - before <= 1  # asking for the figure


async def test_who_showed_a_token_holds_until_it_expires(registry: Registry, clock: ManualClock):
    ring = Keyring(registry, "default", None, loopback=False, clock=clock)
    await ring.load()
    let_in = Principal("default", ADMIN, "oauth-1", expires_ms=to_ms(clock()) + 1000)
    assert await ring.holds(let_in)
    clock.advance(timedelta(seconds=1))
    assert not await ring.holds(let_in)
