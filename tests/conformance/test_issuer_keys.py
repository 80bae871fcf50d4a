"""The keys of an issuer over real HTTP: when they are fetched, what is refused, and what counts while it is away."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from factories import ManualClock
from oauth_issuer import RESOURCE, Issuer

from api.access.oauth import verifier
from api.access.oauth.issuer import AGAIN_S, FRESH_S, MAX_BYTES, STALE_S, IssuerKeys
from api.access.oauth.rules import TokenRefused, TokenRules
from api.access.oauth.tokens import LEEWAY_S
from api.access.oauth.verifier import AccessTokens
from ingest.errors import IssuerUnavailable
from ingest.roles import roles_by_scope


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
    async with IssuerKeys(rules(issuer.url), clock_s) as found:
        yield found


async def test_requests_that_wait_share_one_fetch(issuer: Issuer, keys: IssuerKeys):
    found = await asyncio.gather(*(keys.find(issuer.kid) for _ in range(20)))
    assert all(one is not None for one in found)
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
    with pytest.raises(IssuerUnavailable, match="answered HTTP 500"):
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
        with pytest.raises(IssuerUnavailable, match=f"issuer {url} cannot be read: ConnectError"):
            await keys.find("any")


async def test_the_metadata_has_to_be_of_the_issuer(issuer: Issuer):
    """As the settings write it: an issuer is compared as text."""
    async with IssuerKeys(rules(f"{issuer.url}/")) as keys:
        with pytest.raises(IssuerUnavailable, match=f"is of the issuer '{issuer.url}': write MNEMOLOG_OAUTH_ISSUER"):
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
        ("/nothing", (200, PLAIN, b""), "there is no metadata at .*; MNEMOLOG_OAUTH_JWKS can name the keys"),
        (OPENID, (200, PLAIN, b"<html>"), "openid-configuration: JSON is malformed"),
        (OPENID, (200, PLAIN, b'{"issuer": "URL"}'), "missing required field `jwks_uri`"),
        (OPENID, (302, REDIRECT, b""), "answered HTTP 302"),
        (
            OPENID,
            (200, PLAIN, b'{"issuer": "URL", "jwks_uri": "http://issuer.example/k"}'),
            "jwks_uri must be an https://",
        ),
        (OPENID, (200, PLAIN, b'{"issuer": "URL", "jwks_uri": "file:///etc/passwd"}'), "jwks_uri is not an http"),
        (OPENID, (200, PLAIN, b'{"issuer": "URL", "jwks_uri": "URL/none"}'), "/none answered HTTP 404"),
        (OPENID, (200, PLAIN, b" " * (MAX_BYTES + 1)), "answered more than 262,144 bytes"),
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
    found = await tokens.identify(issuer.token("mnemolog:read"))
    assert found is not None
    assert found.roles == {"read"}
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
    assert all(kept is now for kept, now in zip(others, [await tokens.identify(one) for one in sent[1:]], strict=True))
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
    with pytest.raises(TokenRefused, match="of the issuer"):
        await tokens.identify(issuer.token(iss="https://elsewhere.example"))
    assert issuer.requests["/jwks"] == 1
