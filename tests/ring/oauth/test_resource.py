"""What a server says of itself to clients that can ask for tokens."""

from typing import Any

import msgspec
import pytest
from httpx2 import Response
from mcp.client.auth.utils import extract_field_from_www_auth, extract_resource_metadata_from_www_auth
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl
from starlette.types import Message

from api.access.oauth.rules import Resource, TokenRules
from api.access.principal import Principal
from ingest.errors import RoleMissing
from ingest.platform.settings import SCOPES
from ingest.roles import ADMIN, OPERATOR, READ, READ_WRITE, WRITE, Role, roles_by_scope

RULES = TokenRules("https://issuer.example", "https://memory.example/mcp", ("x",), roles_by_scope(SCOPES), "default")
RESOURCE = Resource(RULES)


def principal(*roles: Role) -> Principal:
    return Principal("default", frozenset(roles), "oauth-1", expires_ms=1)


@pytest.mark.parametrize(
    "address",
    ["https://memory.example/mcp", "https://memory.example", "https://h.example/memory/mcp", "http://h:3111/"],
)
def test_the_metadata_is_where_the_specification_puts_it(address: str):
    resource = Resource(RULES._replace(resource=address))
    url = str(build_resource_metadata_url(AnyHttpUrl(address)))
    assert extract_resource_metadata_from_www_auth(refusal(resource.challenge())) == url
    assert "/" + url.split("/", 3)[3] in resource.paths
    assert {"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} <= {*resource.paths}


def test_the_sdks_model_reads_the_metadata():
    read = ProtectedResourceMetadata.model_validate_json(msgspec.json.encode(RESOURCE.metadata))
    assert str(read.resource) == "https://memory.example/mcp"
    assert [str(server) for server in read.authorization_servers] == ["https://issuer.example"]
    assert read.scopes_supported == ["mnemolog:read", "mnemolog:write"]


def test_a_scope_that_gives_little_is_asked_for_before_one_that_gives_much():
    scopes = roles_by_scope(("all=read+write+admin", "see=read", "say=write"))
    resource = Resource(RULES._replace(roles_by_scope=scopes))
    assert resource.scopes_for(READ_WRITE) == ["see", "say"]
    assert resource.scopes_for(ADMIN) == ["all"]


def refusal(header: str) -> Response:
    return Response(401, headers={"WWW-Authenticate": header})


def test_a_refusal_without_a_token_names_no_error():
    assert RESOURCE.challenge() == (
        'Bearer resource_metadata="https://memory.example/.well-known/oauth-protected-resource/mcp", '
        'scope="mnemolog:read mnemolog:write"'
    )


def test_a_reason_cannot_end_the_header_or_its_own_quotes():
    header = RESOURCE.challenge('it is of "evil"\r\nSet-Cookie: a\\é')
    assert extract_field_from_www_auth(refusal(header), "error") == "invalid_token"
    assert "error_description=\"it is of 'evil'''Set-Cookie: a''\"" in header


def test_a_further_scope_is_asked_for_beside_those_that_are_there():
    header = RESOURCE.step_up(principal("read"), RoleMissing("no write role", WRITE))
    assert extract_field_from_www_auth(refusal(header), "error") == "insufficient_scope"
    assert extract_field_from_www_auth(refusal(header), "scope") == "mnemolog:read mnemolog:write"


def test_what_no_scope_gives_is_not_asked_for():
    assert RESOURCE.step_up(principal("read"), RoleMissing("no operator role", OPERATOR)) == ""


class Sent:
    """What a client is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> Any:
        return msgspec.json.decode(b"".join(message["body"] for message in self.messages[1:]))


async def answered(status: int, body: bytes, denied: list[RoleMissing]) -> Sent:
    """What becomes of an answer to a token that reads."""
    sent = Sent()
    send = RESOURCE.stepping_up(sent, principal("read"), denied)
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body[:5], "more_body": True})
    await send({"type": "http.response.body", "body": body[5:]})
    return sent


async def test_an_answer_for_which_no_role_was_missing_goes_as_it_is():
    sent = await answered(403, b'{"error": 1}', [])
    assert (sent.status, sent.headers, sent.body) == (403, {"content-type": "application/json"}, {"error": 1})


async def test_a_403_says_which_scope_to_ask_for():
    sent = await answered(403, b'{"error": 1}', [RoleMissing("no write role", WRITE)])
    assert (sent.status, sent.body) == (403, {"error": 1})
    assert 'error="insufficient_scope"' in sent.headers["www-authenticate"]


async def test_a_refused_tool_is_an_error_of_json_rpc_with_403():
    body = b'{"jsonrpc":"2.0","id":7,"result":{"isError":true}}'
    sent = await answered(200, body, [RoleMissing("this token has no write role", WRITE)])
    assert sent.status == 403
    assert 'scope="mnemolog:read mnemolog:write"' in sent.headers["www-authenticate"]
    error = {"code": -32001, "message": "this token has no write role"}
    assert sent.body == {"jsonrpc": "2.0", "id": 7, "error": error}


async def test_a_refusal_that_no_scope_lifts_goes_as_it_is():
    sent = await answered(200, b'{"id": 7}', [RoleMissing("no operator role", OPERATOR), RoleMissing("x", READ)])
    assert (sent.status, sent.body) == (200, {"id": 7})


async def test_an_answer_that_has_begun_goes_on():
    sent, denied = Sent(), list[RoleMissing]()
    send = RESOURCE.stepping_up(sent, principal("read"), denied)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    denied.append(RoleMissing("no write role", WRITE))
    await send({"type": "http.response.body", "body": b'{"id": 7}'})
    assert (sent.status, sent.body) == (200, {"id": 7})
