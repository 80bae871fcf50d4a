"""Keys on a real server: what is stored of them, whom they let in, and how often.

Left open: what a request with a key may do (tests/acceptance/test_authorisation_walk.py).

`mnemolog admin keys` on a real server.
"""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
from factories import ManualClock
from oauth_issuer import RESOURCE, Issuer
from typer.testing import CliRunner, Result

from api.access.admission import RateLimits
from api.access.keys import Grant, Keyring, Made, Registry, parse
from api.access.oauth import verifier
from api.access.oauth.rules import TokenRules
from api.access.oauth.tokens import LEEWAY_S
from api.access.oauth.verifier import AGAIN_S, FRESH_S, MAX_BYTES, STALE_S, AccessTokens, IssuerKeys
from api.access.principal import Principal, TokenRefused
from api.cli.main import application
from api.http.http import answer
from ingest.embedded.valkey import EmbeddedValkey
from ingest.errors import CommandRejected, IssuerUnavailable, NotFound, TooManyRequests
from ingest.log.keys import access_bucket, access_row_pk, row_key
from ingest.platform.clock import to_ms
from ingest.platform.connections import Client, connected
from ingest.roles import ADMIN, METRICS, OPERATOR, KeyScope, roles_by_scope
from projections.webhooks.subscriptions import Owner
from tests.support.terminal import at_terminal
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
    caller = await admitted(registry, made, clock)
    assert caller is not None
    assert (caller.tenant, caller.roles, caller.key_id) == ("default", {"read", "write"}, made.key.id)
    assert caller.key_scope == KeyScope(("", "shop"), ("ada",), within_tenant=True, is_admin=False, key=made.key.id)


@pytest.mark.parametrize("tenant", ["default", "elsewhere"])
async def test_only_an_operators_key_is_shown_what_belongs_to_no_tenant(
    registry: Registry, clock: ManualClock, tenant: str
):
    within: dict[str, bool] = {}
    for role in ("read", "admin", "metrics", "operator"):
        caller = await admitted(registry, await registry.create(Grant(name="x", roles=[role], tenant=tenant)), clock)
        assert caller is not None
        within[role] = caller.key_scope.within_tenant
    assert within == {"read": True, "admin": True, "metrics": True, "operator": False}


async def test_a_stored_admin_key_is_no_operator(registry: Registry, clock: ManualClock):
    """Also one for all of a tenant that was made before there were operators' keys."""
    caller = await admitted(registry, await registry.create(Grant(name="x", roles=["read", "write", "admin"])), clock)
    assert caller is not None
    assert caller.may(ADMIN)
    assert not caller.may(OPERATOR)
    assert not caller.may(METRICS)
    assert not caller.is_operator


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
    assert {item.id: item.status(0) for item in await registry.all()} == {
        short.key.id: "active",
        long.key.id: "revoked",
    }


async def test_a_replaced_key_goes_on_for_its_grace_time(registry: Registry, clock: ManualClock):
    old = await registry.create(GRANT)
    new = await registry.rotate(old.key.id, timedelta(hours=2))
    first, second = await admitted(registry, old, clock), await admitted(registry, new, clock)
    assert first is not None
    assert second is not None
    assert second == first._replace(key_id=new.key.id, key_scope=first.key_scope._replace(key=new.key.id))
    clock.advance(timedelta(hours=2))
    assert await admitted(registry, old, clock) is None
    assert await admitted(registry, new, clock)
    with pytest.raises(CommandRejected):
        await registry.rotate(old.key.id, timedelta(0))


async def test_registries_of_two_servers_read_side_by_side(registry: Registry, valkey: EmbeddedValkey):
    """One process may use several servers; the other one is here another database."""
    made = await registry.create(GRANT)
    async with connected(f"{valkey.url}?db=1") as redis:
        others = Owner("default", made.key.id, made.key.principal().key_scope, 0)
        allowed = await asyncio.gather(*(each.allows(others) for each in (registry, Registry(redis)) * 3))
    assert allowed == [True, False] * 3


async def test_a_key_of_an_earlier_release_is_read(registry: Registry, redis: Client):
    """Fields that were added since are missing from its hash."""
    stored = {"pk": access_row_pk("0123456789AB"), "id": "0123456789AB", "digest": "d", "tenant": "", "name": "x"}
    await redis.hset(row_key(access_row_pk("0123456789AB")), mapping=stored | {"roles": '["read"]'})
    key = await registry.get("0123456789AB")
    assert (key.role_set, key.expires_ms, key.replaced_by) == ({"read"}, 0, "")


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
    caller = await ring.identify(given)
    return caller is not None and bool(caller.key_id)


async def _refuses(ring: Keyring, given: str) -> bool:
    return await ring.identify(given) is None


async def test_the_servers_secret_is_a_key_to_everything(registry: Registry):
    ring = Keyring(registry, "default", "s3cret", loopback=False)
    await ring.load()
    caller = await ring.identify("s3cret")
    assert caller is not None
    assert caller.is_operator
    assert caller.named
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
    for item in (limits, another):  # 101 were taken of 60: one more comes a second
        with pytest.raises(TooManyRequests) as refused:
            await item.take("a", "writes", 60)
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


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def clock_s() -> Clock:
    return Clock()


def rules(issuer: str, **changes: Any) -> TokenRules:
    scopes = roles_by_scope(["mnemolog:read=read"])
    return TokenRules(issuer, RESOURCE, (RESOURCE,), scopes, "default")._replace(**changes)


@pytest.fixture
async def keys(issuer: Issuer, clock_s: Clock) -> AsyncGenerator[IssuerKeys]:
    async with IssuerKeys(rules(issuer.url), clock_s) as results:
        yield results


async def test_requests_that_wait_share_one_fetch(issuer: Issuer, keys: IssuerKeys):
    document = await asyncio.gather(*(keys.find(issuer.kid) for _ in range(20)))
    assert all(item is not None for item in document)
    assert issuer.requests["/jwks"] == 1


async def test_a_known_key_asks_nobody_until_the_keys_are_old(issuer: Issuer, keys: IssuerKeys, clock_s: Clock):
    for age_s, fetches in ((0.0, 1), (FRESH_S - 1, 1), (FRESH_S + 1, 2)):
        clock_s.s = 1000 + age_s
        assert await keys.find(issuer.kid) is not None
        assert issuer.requests["/jwks"] == fetches


async def test_unknown_keys_have_the_issuer_asked_again_only_so_often(issuer: Issuer, keys: IssuerKeys, clock_s: Clock):
    for number in range(50):
        assert await keys.find(f"guessed-{number}") is None
    assert issuer.requests["/jwks"] == 1
    clock_s.s += AGAIN_S
    for number in range(50):
        assert await keys.find(f"guessed-{number}") is None
    assert issuer.requests["/jwks"] == 2


async def test_a_rotated_key_counts_and_the_one_before_does_not(issuer: Issuer, keys: IssuerKeys, clock_s: Clock):
    before = issuer.kid
    assert await keys.find(before) is not None
    issuer.rotate()
    assert await keys.find(issuer.kid) is None, "the issuer was asked a moment ago"
    clock_s.s += AGAIN_S
    assert await keys.find(issuer.kid) is not None
    assert await keys.find(before) is None


async def test_what_is_known_counts_for_a_while_when_the_issuer_is_away(
    issuer: Issuer, keys: IssuerKeys, clock_s: Clock
):
    assert await keys.find(issuer.kid) is not None
    issuer.down = True
    clock_s.s += FRESH_S
    assert await keys.find(issuer.kid) is not None
    with pytest.raises(IssuerUnavailable, match="returned HTTP 500"):
        await keys.find("unknown")
    clock_s.s += STALE_S
    with pytest.raises(IssuerUnavailable, match=issuer.url):
        await keys.find(issuer.kid)
    issuer.down = False
    clock_s.s += AGAIN_S
    assert await keys.find(issuer.kid) is not None


async def test_an_issuer_that_cannot_be_reached_is_told():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    async with IssuerKeys(rules(url)) as keys:
        with pytest.raises(IssuerUnavailable, match=f"issuer {url} cannot be fetched: ConnectError"):
            await keys.find("any")


async def test_the_metadata_has_to_be_of_the_issuer(issuer: Issuer):
    """As the settings write it: an issuer is compared as text."""
    async with IssuerKeys(rules(f"{issuer.url}/")) as keys:
        with pytest.raises(IssuerUnavailable, match=f"names the issuer '{issuer.url}': set MNEMOLOG_OAUTH_ISSUER"):
            await keys.find(issuer.kid)


async def test_the_settings_may_name_the_keys(issuer: Issuer):
    async with IssuerKeys(rules("https://issuer.invalid", jwks=f"{issuer.url}/jwks")) as keys:
        assert await keys.find(issuer.kid) is not None
    assert issuer.requests == {"/jwks": 1}


class Answers(BaseHTTPRequestHandler):
    """Answers each path as a test says: status, headers, body."""

    by_path: dict[str, tuple[int, dict[str, str], bytes]]

    def do_GET(self) -> None:
        status, headers, body = self.by_path.get(self.path, (404, {}, b""))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[tuple[str, dict[str, tuple[int, dict[str, str], bytes]]]]:
    """The address of an issuer that a test puts together, and what it answers."""
    by_path: dict[str, tuple[int, dict[str, str], bytes]] = {}
    server = HTTPServer(("127.0.0.1", 0), type("Handler", (Answers,), {"by_path": by_path}))
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", by_path
    server.shutdown()
    thread.join()
    server.server_close()


PLAIN: dict[str, str] = {}
REDIRECT = {"Location": "http://127.0.0.1:1/"}
OPENID = "/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("path", "answer", "reason"),
    [
        ("/nothing", (200, PLAIN, b""), "no metadata at .*; set MNEMOLOG_OAUTH_JWKS to the URL of the keys"),
        (OPENID, (200, PLAIN, b"<html>"), "openid-configuration: JSON is malformed"),
        (OPENID, (200, PLAIN, b'{"issuer": "URL"}'), "missing required field `jwks_uri`"),
        (OPENID, (302, REDIRECT, b""), "returned HTTP 302"),
        (
            OPENID,
            (200, PLAIN, b'{"issuer": "URL", "jwks_uri": "http://issuer.example/k"}'),
            "jwks_uri must be an https://",
        ),
        (OPENID, (200, PLAIN, b'{"issuer": "URL", "jwks_uri": "file:///etc/passwd"}'), "jwks_uri is not an http"),
        (OPENID, (200, PLAIN, b'{"issuer": "URL", "jwks_uri": "URL/none"}'), "/none returned HTTP 404"),
        (OPENID, (200, PLAIN, b" " * (MAX_BYTES + 1)), "returned more than 262,144 bytes"),
    ],
)
async def test_what_an_issuer_must_not_answer_is_told(
    answering: tuple[str, dict[str, tuple[int, dict[str, str], bytes]]],
    path: str,
    answer: tuple[int, dict[str, str], bytes],
    reason: str,
):
    url, by_path = answering
    status, headers, body = answer
    by_path[path] = (status, headers, body.replace(b"URL", url.encode()))
    async with IssuerKeys(rules(url)) as keys:
        with pytest.raises(IssuerUnavailable, match=reason):
            await keys.find("any")


async def test_a_token_lets_in_whom_it_is_for(issuer: Issuer, keys: IssuerKeys):
    tokens = AccessTokens(rules(issuer.url), keys)
    caller = await tokens.identify(issuer.token("mnemolog:read"))
    assert caller is not None
    assert caller.roles == {"read"}
    assert await tokens.identify("mnk_no-token") is None
    assert await tokens.identify("") is None


async def test_a_token_that_was_verified_counts_until_it_expires(issuer: Issuer, keys: IssuerKeys):
    """Also the second time, when its signature is not looked at again."""
    clock = ManualClock(datetime.now(UTC))
    tokens, token = AccessTokens(rules(issuer.url), keys, clock), issuer.token(exp=int(clock().timestamp()) - 5)
    first = await tokens.identify(token)
    assert await tokens.identify(token) is first, "it is kept"
    clock.advance(timedelta(seconds=LEEWAY_S))
    assert await tokens.identify(token) is not first, "it is verified again, by the clock of the machine"


async def test_a_token_that_was_verified_counts_no_longer_than_its_key(
    issuer: Issuer, keys: IssuerKeys, clock_s: Clock
):
    tokens, token = AccessTokens(rules(issuer.url), keys), issuer.token()
    assert await tokens.identify(token) is not None
    issuer.rotate()
    clock_s.s += FRESH_S
    with pytest.raises(TokenRefused, match="does not have"):
        await tokens.identify(token)


async def test_what_was_verified_is_kept_for_so_many_tokens_only(
    issuer: Issuer, keys: IssuerKeys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(verifier, "MAX_VERIFIED", 2)
    tokens = AccessTokens(rules(issuer.url), keys)
    sent = [issuer.token(sub=name) for name in ("ada", "bob", "eve")]
    first, *others = [await tokens.identify(token) for token in sent]
    assert [await tokens.identify(token) for token in sent[1:]] == others
    assert all(row is now for row, now in zip(others, [await tokens.identify(item) for item in sent[1:]], strict=True))
    assert await tokens.identify(sent[0]) is not first


async def test_a_token_of_an_unknown_key_is_refused_by_name(issuer: Issuer, keys: IssuerKeys):
    tokens, old = AccessTokens(rules(issuer.url), keys), issuer.kid
    await tokens.identify(issuer.token())
    issuer.rotate()
    with pytest.raises(TokenRefused, match=f"key '{issuer.kid}', which the issuer {issuer.url} does not have"):
        await tokens.identify(issuer.token())
    assert old != issuer.kid


async def test_a_token_of_another_issuer_asks_nobody(issuer: Issuer, keys: IssuerKeys, clock_s: Clock):
    tokens = AccessTokens(rules(issuer.url), keys)
    await tokens.identify(issuer.token())
    clock_s.s += FRESH_S
    with pytest.raises(TokenRefused, match="issuer is"):
        await tokens.identify(issuer.token(iss="https://elsewhere.example"))
    assert issuer.requests["/jwks"] == 1


class KeysCommand:
    """The command, on the log's server."""

    def __init__(self, url: str, home: Path) -> None:
        self.variables = {
            "REDIS_URL": url, "MNEMOLOG_TENANT": "default", "HOME": str(home), "XDG_CONFIG_HOME": "",
            "MNEMOLOG_SECRET": "",
        }  # fmt: skip

    def run(self, *arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(application(), ["keys", *arguments], input=stdin, env=self.variables)

    def answer(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def command(redis: Client, valkey: EmbeddedValkey, tmp_path: Path) -> KeysCommand:
    return KeysCommand(valkey.url, tmp_path)


def test_a_key_is_made_and_shown_once(command: KeysCommand):
    made = command.answer(
        "create", "fleet", "--role", "read,write", "--project", "shop", "--agent", "ada", "--days", "1"
    )
    assert parse(made["key"]) is not None
    assert (made["tenant"], made["roles"], made["projects"], made["agents"]) == (
        "default", ["read", "write"], ["shop"], ["ada"],
    )  # fmt: skip
    shown = command.answer("show", made["id"])
    assert "key" not in shown
    assert made["key"] not in json.dumps(command.answer("list"))


def test_for_people_the_key_is_a_line_of_its_own(command: KeysCommand):
    done = command.run("create", "fleet", "--role", "read")
    assert parse(done.stdout.strip()) is not None


def test_a_rotated_key_is_replaced_and_a_revoked_one_is_not_listed(command: KeysCommand):
    old = command.answer("create", "fleet", "--role", "read")
    new = command.answer("rotate", old["id"], "--grace-hours", "1")
    assert command.answer("show", old["id"])["replaced_by"] == new["id"]
    assert command.answer("revoke", old["id"])["status"] == "revoked"
    assert [key["id"] for key in command.answer("list")["keys"]] == [new["id"]]
    assert {key["id"] for key in command.answer("list", "--all")["keys"]} == {old["id"], new["id"]}


def test_only_the_first_key_says_what_asks_for_one_now(command: KeysCommand):
    assert "the server's first key" in command.run("create", "first", "--role", "operator").stderr
    assert "the server's first key" not in command.run("create", "second", "--role", "read").stderr


def test_the_operators_key_can_be_made_with_the_first_one_only(command: KeysCommand):
    first = command.answer("create", "fleet", "--role", "read,write", "--operator")
    assert first["operator"]["roles"] == ["operator"]
    assert parse(first["operator"]["key"]) is not None
    assert "operator" not in command.answer("create", "more", "--role", "read", "--operator")
    assert len(command.answer("list")["keys"]) == 3


def test_without_a_terminal_nothing_is_asked_and_the_missing_operator_is_told(command: KeysCommand):
    done = command.run("create", "fleet", "--role", "read")
    assert done.exit_code == 0
    assert "there is no operator key yet" in done.stderr
    assert len(command.answer("list")["keys"]) == 1


def test_at_a_terminal_the_first_key_is_made_after_a_yes_and_the_operators_with_it(command: KeysCommand):
    create = ("keys", "create", "fleet", "--role", "read,write")
    code, shown = at_terminal(command.variables, *create, answers={"Create it?": "n\n"})
    assert (code, "every request needs a key" in shown, "no key was created" in shown) == (1, True, True)
    assert command.answer("list")["keys"] == []
    assert "there are no keys" in command.run("list").output
    code, shown = at_terminal(
        command.variables, *create, answers={"Create it?": "y\n", "Also create an operator key": "y\n"}
    )
    assert code == 0, shown
    assert [key["roles"] for key in command.answer("list")["keys"]] == [["read", "write"], ["operator"]]
    code, shown = at_terminal(command.variables, *create, answers={})
    assert (code, "Create it?" in shown) == (0, False)


def test_a_key_is_stored_when_it_is_made_and_when_it_is_replaced(command: KeysCommand, tmp_path: Path):
    stored = tmp_path / ".config/mnemolog/keys/127.0.0.1_3111"
    made = command.answer("create", "hooks", "--role", "read,write", "--store")
    assert (made["stored"], stored.read_text().strip()) == (str(stored), made["key"])
    rotated = command.answer("rotate", made["id"], "--store")
    assert stored.read_text().strip() == rotated["key"]
    assert command.answer("create", "another", "--role", "read")["stored"] is None
    assert stored.read_text().strip() == rotated["key"]


def test_a_key_from_elsewhere_is_stored_and_a_mistyped_one_is_not(command: KeysCommand, tmp_path: Path):
    key = command.answer("create", "hooks", "--role", "read,write")["key"]
    assert command.run("store", stdin=f"{key[:-1]}\n").exit_code == 1
    assert not (tmp_path / ".config").exists()
    done = command.run("store", "--url", "http://10.0.0.7:4000", stdin=f"{key}\n")
    assert done.exit_code == 0
    assert (tmp_path / ".config/mnemolog/keys/10.0.0.7_4000").read_text().strip() == key
    assert key not in done.output


def test_a_key_for_the_server_is_for_no_project(command: KeysCommand):
    assert command.run("create", "x", "--role", "operator", "--project", "shop").exit_code == 1
    assert command.answer("create", "x", "--role", "operator,metrics")["roles"] == ["metrics", "operator"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "0123456789AB"),
        ("revoke", "0123456789AB"),
        ("create", "fleet", "--role", "owner"),
        ("create", "fleet", "--role", "admin", "--agent", "ada"),
        ("create", "fleet", "--role", "read", "--days", "0"),
    ],
)
def test_what_cannot_be_done_exits_1(command: KeysCommand, arguments: tuple[str, ...]):
    assert command.run(*arguments).exit_code == 1
