"""Access tokens from an issuer on loopback: the SDK's OAuth client, refusals, keys beside tokens.

Which routes a token may use is tested by tests/acceptance/test_authorisation_walk.py; when keys of the issuer are
fetched by tests/conformance/test_access_registry.py."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.shared.exceptions import MCPError
from oauth_issuer import Issuer, signed
from ports import free_port
from pydantic import AnyUrl
from waiting import wait_until

from api.access.keys import Grant, Registry
from ingest.platform.connections import connect
from tests.acceptance.running import Server, running

CALLBACK = "http://127.0.0.1:1/callback"
WRITES = 30
"""A minute and subject."""


class Tokens(NamedTuple):
    """A server and the issuer whose tokens it takes."""

    server: Server
    issuer: Issuer

    def client(self, token: str = "") -> httpx.AsyncClient:
        return self.server.client(secret=token)


@pytest.fixture(scope="module")
def tokens(cache_dir: Path) -> Iterator[Tokens]:
    port = free_port()
    resource = f"http://127.0.0.1:{port}/mcp"
    with Issuer() as issuer:
        issuer.resource = resource
        started = running(
            cache_dir,
            embedder="none",
            partitions=2,
            port=port,
            url=f"http://127.0.0.1:{port}",
            secret=None,
            hosts=("memory.example",),
            oauth_issuer=issuer.url,
            oauth_resource=resource,
            oauth_projects_claim="projects",
            oauth_writes=WRITES,
        )
        issuer.claims = {"projects": "*"}
        with started as server:
            yield Tokens(server, issuer)


@pytest.fixture(autouse=True)
def well(tokens: Tokens) -> None:
    """The issuer as it is to begin with."""
    tokens.issuer.down, tokens.issuer.granted = False, None


# the SDK's client


class Remembered:
    """What an MCP client keeps: nothing, at first."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """A user who agrees to everything."""

    def __init__(self) -> None:
        self.visited: list[dict[str, str]] = []

    async def visit(self, url: str) -> None:
        self.visited.append({name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})
        async with httpx.AsyncClient(trust_env=False) as http:
            self._came_back_to = (await http.get(url)).headers["location"]

    async def callback(self) -> AuthorizationCodeResult:
        said = {name: values[0] for name, values in parse_qs(urlsplit(self._came_back_to).query).items()}
        return AuthorizationCodeResult(code=said["code"], state=said["state"], iss=said["iss"])


@asynccontextmanager
async def connected(tokens: Tokens, browser: Browser, kept: Remembered) -> AsyncGenerator[Client]:
    """The official client, which knows the server's address and nothing else."""
    url = f"{tokens.server.url}/mcp"
    metadata = OAuthClientMetadata(
        client_name="test", redirect_uris=[AnyUrl(CALLBACK)], token_endpoint_auth_method="none"
    )
    auth = OAuthClientProvider(url, metadata, kept, browser.visit, browser.callback)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=30, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def test_a_client_that_knows_only_the_address_gets_a_token_and_is_let_in(tokens: Tokens):
    browser, kept = Browser(), Remembered()
    async with connected(tokens, browser, kept) as client:
        assert "remember" in {tool.name for tool in (await client.list_tools()).tools}
        arguments = {"project": "shop", "content": "the till is blue"}
        assert not (await client.call_tool("remember", arguments)).is_error
        found = await client.call_tool("recall", {"project": "shop", "query": "till", "min_confidence": 0})
    assert "the till is blue" in str(found.structured_content)
    assert [one["scope"] for one in browser.visited] == ["mnemolog:read mnemolog:write"]
    assert browser.visited[0]["resource"] == f"{tokens.server.url}/mcp"


async def test_a_client_whose_token_lacks_a_scope_asks_for_it_and_goes_on(tokens: Tokens):
    browser, kept = Browser(), Remembered()
    tokens.issuer.granted = {"mnemolog:read"}
    async with connected(tokens, browser, kept) as client:
        assert not (await client.call_tool("recall", {"project": "shop", "query": "till"})).is_error
        tokens.issuer.granted = None
        assert not (await client.call_tool("remember", {"project": "shop", "content": "x"})).is_error
    assert [one["scope"] for one in browser.visited] == ["mnemolog:read mnemolog:write"] * 2


async def test_a_client_that_is_given_no_further_scope_is_told_what_is_missing(tokens: Tokens):
    tokens.issuer.granted = {"mnemolog:read"}
    async with connected(tokens, Browser(), Remembered()) as client:
        with pytest.raises(MCPError, match="this token has no write role"):
            await client.call_tool("remember", {"project": "shop", "content": "x"})


async def test_mcp_is_served_under_the_name_that_a_proxy_passes_on(tokens: Tokens):
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    statuses: dict[str, int] = {}
    for host in ("memory.example", "evil.example"):
        headers = {"Host": host, "Accept": "application/json, text/event-stream"}
        async with tokens.client(tokens.issuer.token()) as client:
            statuses[host] = (await client.post("/mcp", json=listing, headers=headers)).status_code
    assert statuses == {"memory.example": 200, "evil.example": 403}


# refusals


async def test_without_a_token_the_server_says_where_to_get_one(tokens: Tokens):
    async with tokens.client() as client:
        refused = [await client.post("/mcp"), await client.get("/v1/memories"), await client.get("/readyz")]
        for answer in refused:
            assert answer.status_code == 401
            header = httpx2.Response(401, headers={"WWW-Authenticate": answer.headers["www-authenticate"]})
            assert extract_field_from_www_auth(header, "error") is None
            assert extract_field_from_www_auth(header, "scope") == "mnemolog:read mnemolog:write"
            address = extract_field_from_www_auth(header, "resource_metadata")
            assert address == f"{tokens.server.url}/.well-known/oauth-protected-resource/mcp"
            for place in (str(address), "/.well-known/oauth-protected-resource"):
                assert (await client.get(place)).json()["authorization_servers"] == [tokens.issuer.url]


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "the token has expired"),
        ({"iss": "https://evil.example"}, "MNEMOLOG_OAUTH_ISSUER is http"),
        ({"aud": "https://other.example/mcp"}, "not for this server"),
        ({"projects": None}, "no claim 'projects'"),
        ({"projects": []}, "'projects' is empty"),
    ],
)
async def test_a_token_that_does_not_hold_is_refused_with_the_reason(
    tokens: Tokens, claims: dict[str, Any], reason: str
):
    async with tokens.client(tokens.issuer.token(**claims)) as client:
        for answer in (await client.post("/mcp"), await client.get("/v1/memories")):
            assert answer.status_code == 401
            assert reason in answer.json()["detail"]
            assert 'error="invalid_token", error_description="the token' in answer.headers["www-authenticate"]


async def test_a_token_that_somebody_else_signed_is_refused(tokens: Tokens):
    stranger = ec.generate_private_key(ec.SECP256R1())
    claims = tokens.issuer.stated("mnemolog:read")
    for token, reason in (
        (signed(stranger, tokens.issuer.kid, claims), "signature does not match the key that it names"),
        (signed(stranger, "unheard-of", claims), "signed with the key 'unheard-of'"),
        (signed(None, tokens.issuer.kid, claims, "none"), "signature is 'none'"),
        (signed("x" * 64, tokens.issuer.kid, claims, "HS256"), "signature is 'HS256'"),
        ("a.b.c", "neither an API key nor a signed token"),
    ):
        async with tokens.client(token) as client:
            answer = await client.get("/v1/memories")
        assert (answer.status_code, reason in answer.text) == (401, True), answer.text


async def test_a_rotated_key_is_learnt_and_the_one_before_forgotten(tokens: Tokens):
    async with tokens.client(tokens.issuer.token()) as before:
        assert (await before.get("/v1/memories")).status_code == 200
        tokens.issuer.rotate()
        async with tokens.client(tokens.issuer.token()) as after:

            async def known() -> bool:
                return (await after.get("/v1/memories")).status_code == 200

            await wait_until(known)
        assert (await before.get("/v1/memories")).status_code == 401


async def test_while_the_issuer_is_away_known_keys_count_and_of_others_nobody_can_tell(tokens: Tokens):
    good, unknown = tokens.issuer.token(), signed(tokens.issuer.key, "new", tokens.issuer.stated("mnemolog:read"))
    async with tokens.client(good) as client, tokens.client(unknown) as other:

        async def given_up() -> bool:
            return (await other.get("/v1/memories")).status_code == 503

        assert (await client.get("/v1/memories")).status_code == 200
        tokens.issuer.down = True
        await wait_until(given_up)
        refused = await other.get("/v1/memories")
        assert refused.json()["code"] == "issuer_unavailable"
        assert f"the keys of the issuer {tokens.issuer.url} cannot be fetched" in refused.json()["detail"]
        assert refused.headers["retry-after"] == "10"
        assert (await client.get("/v1/memories")).status_code == 200


# what a token is for


async def test_a_token_is_for_the_projects_that_it_lists(tokens: Tokens):
    own, other = f"own-{uuid4().hex}", f"other-{uuid4().hex}"
    async with tokens.client(tokens.issuer.token(projects=[own])) as client:
        allowed = await client.post("/v1/memories", json={"project": own, "content": "x"})
        assert allowed.status_code == 202
        refused = await client.post("/v1/memories", json={"project": other, "content": "x"})
        assert refused.status_code == 403
        assert "www-authenticate" not in refused.headers, "no further scope would help"


async def test_a_route_that_needs_another_scope_says_which(tokens: Tokens):
    async with tokens.client(tokens.issuer.token("mnemolog:read")) as client:
        refused = await client.post("/v1/memories", json={"project": "shop", "content": "x"})
        assert refused.status_code == 403
        assert refused.json()["detail"] == "this token has no write role"
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        assert 'scope="mnemolog:read mnemolog:write"' in refused.headers["www-authenticate"]
        operators = await client.post("/v1/admin/purge")
        assert (operators.status_code, "www-authenticate" in operators.headers) == (403, False)


async def test_a_subject_is_held_back_as_a_key_is_whichever_token_it_sends(tokens: Tokens):
    busy, told = f"busy-{uuid4().hex}", list[int]()
    for number in range(WRITES + 5):
        async with tokens.client(tokens.issuer.token(sub=busy, jti=str(number))) as client:
            told.append((await client.post("/v1/memories", json={"content": "x", "event_id": "same"})).status_code)
    assert told[:WRITES] == [202] * WRITES
    assert 429 in told[WRITES:]
    async with tokens.client(tokens.issuer.token(sub=f"{busy}-2")) as client:
        assert (await client.post("/v1/memories", json={"content": "x"})).status_code == 202


async def test_api_keys_hold_beside_tokens(tokens: Tokens):
    redis = connect(tokens.server.redis_url)
    made = await Registry(redis).create(Grant(name="x", roles=["read"], tenant="default"))
    await redis.aclose()
    async with tokens.client(str(made.token)) as client:

        async def known() -> bool:
            return (await client.get("/v1/memories")).status_code == 200

        await wait_until(known)
        refused = await client.post("/v1/memories", json={"content": "x"})
        assert refused.json()["detail"] == "this key has no write role"
        assert "www-authenticate" not in refused.headers


async def test_no_key_outlives_the_token_or_key_that_makes_it(tokens: Tokens):
    """Neither a made nor a rotated one, nor the one that a key makes which a token made."""
    url, ends = "/v1/admin/keys", datetime.now(UTC) + timedelta(minutes=30)
    in_time, too_late = ends.isoformat(), (ends + timedelta(minutes=45)).isoformat()
    grant = {"name": "x", "roles": ["read", "admin"]}
    redis = connect(tokens.server.redis_url)
    lasting = await Registry(redis).create(Grant(name="x", roles=["read"], tenant="default"))
    await redis.aclose()
    async with tokens.client(tokens.issuer.token("mnemolog:admin")) as admin:  # for an hour
        for beyond in ({}, {"expires_at": too_late}):
            refused = await admin.post(url, json=grant | beyond)
            assert (refused.status_code, "expires_at" in refused.json()["detail"]) == (403, True)
            assert (await admin.post(f"{url}/{lasting.key.id}/rotate", json=beyond)).status_code == 403
        made = await admin.post(url, json=grant | {"expires_at": in_time})
        assert made.status_code == 201
        rotated = await admin.post(f"{url}/{lasting.key.id}/rotate", json={"expires_at": in_time})
        assert datetime.fromisoformat(rotated.json()["expires_at"]) <= ends
        listed = {key["id"]: key for key in (await admin.get(url)).json()["keys"]}
        assert listed[lasting.key.id]["status"] == "replaced"
    async with tokens.client(made.json()["key"]) as successor:

        async def known() -> bool:
            return (await successor.get("/readyz")).status_code == 200

        await wait_until(known)
        for beyond in ({}, {"expires_at": too_late}):
            assert (await successor.post(url, json=grant | beyond)).status_code == 403
            assert (await successor.post(f"{url}/{made.json()['id']}/rotate", json=beyond)).status_code == 403
        assert (await successor.post(url, json=grant | {"expires_at": in_time})).status_code == 201


async def test_no_token_is_in_a_log(tokens: Tokens):
    sent = [tokens.issuer.token(), tokens.issuer.token(exp=1), tokens.issuer.token(aud="x")]
    for token in sent:
        async with tokens.client(token) as client:
            await client.get("/v1/memories")
    logs = "".join(path.read_text(errors="replace") for path in (tokens.server.data_dir / "logs").iterdir())
    assert logs
    assert [token for token in sent if token.rpartition(".")[2] in logs] == []
