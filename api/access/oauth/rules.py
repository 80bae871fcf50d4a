"""The settings for access tokens, the error responses for tokens, and the metadata for clients that can request tokens
(RFC 9728, RFC 6750, and MCP's authorization)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from starlette.types import Message, Send

from api.access.principal import Principal, Rates
from ingest.errors import InvalidSetting, RoleMissing
from ingest.platform.settings import Settings
from ingest.roles import READ_WRITE, Role, roles_by_scope


class TokenRules(NamedTuple):
    """Which issuer's tokens are accepted, for which resource, and which claims limit access. An empty claim name: the
    claim is not read."""

    issuer: str
    resource: str
    audiences: tuple[str, ...]
    roles_by_scope: Mapping[str, frozenset[Role]]
    tenant: str
    tenant_claim: str = ""
    projects_claim: str = ""
    agents_claim: str = ""
    rates: Rates = Rates()
    jwks: str = ""


def rules_of(settings: Settings) -> TokenRules:
    """The rules of a server that accepts access tokens; raises InvalidSetting for contradictory settings."""
    if not settings.oauth_resource:
        raise InvalidSetting(
            "MNEMOLOG_OAUTH_ISSUER needs MNEMOLOG_OAUTH_RESOURCE: the URL of /mcp that MCP clients use, such as "
            "https://memory.example/mcp"
        )
    return TokenRules(
        settings.oauth_issuer,
        settings.oauth_resource,
        settings.oauth_audience or (settings.oauth_resource,),
        roles_by_scope(settings.oauth_scopes),
        settings.tenant,
        settings.oauth_tenant_claim,
        settings.oauth_projects_claim,
        settings.oauth_agents_claim,
        Rates(settings.oauth_reads, settings.oauth_writes),
        settings.oauth_jwks,
    )


WELL_KNOWN = "/.well-known/oauth-protected-resource"
_NOT_QUOTABLE = re.compile(r"[^ !#-\[\]-~]")
"""RFC 6750, section 3: characters that an error_description must not contain."""
FORBIDDEN_RPC = -32001
"""JSON-RPC reserves -32000 to -32099 for servers."""


class _RpcAnswer(msgspec.Struct):
    id: int | str | None = None


class Resource:
    """This server as a protected resource."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        parts = urlsplit(rules.resource)
        path = WELL_KNOWN + parts.path.rstrip("/")
        self.issuer = rules.issuer
        self.paths = tuple(dict.fromkeys((WELL_KNOWN, f"{WELL_KNOWN}/mcp", path)))
        """The paths of its metadata, including the one for clients that know only the server's address."""
        self._metadata_url = f"{parts.scheme}://{parts.netloc}{path}"
        self._first_scopes = self.scopes_for(READ_WRITE)

    @property
    def metadata(self) -> dict[str, Any]:
        """RFC 9728, section 2. The scopes are the initial ones; a 403 names the others."""
        return {
            "resource": self._rules.resource,
            "authorization_servers": [self._rules.issuer],
            "scopes_supported": self._first_scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "mnemolog",
        }

    def scopes_for(self, roles: Iterable[str]) -> list[str]:
        """Scopes that grant these roles, if any do; if several grant a role, the one with the fewest roles."""
        missing, chosen = set(roles), list[str]()
        for scope, given in sorted(self._rules.roles_by_scope.items(), key=lambda item: len(item[1])):
            if missing & given:
                chosen.append(scope)
                missing -= given
        return chosen

    def challenge(self, reason: str = "") -> str:
        """`WWW-Authenticate` of a 401; `reason` says why the sent token is invalid."""
        return self._header("invalid_token" if reason else "", reason, self._first_scopes)

    def step_up(self, principal: Principal, refused: RoleMissing) -> str:
        """`WWW-Authenticate` of a 403 for a token without a role; empty if no scope grants that role.

        Also names the scopes of the token's current roles, because the next token replaces this one.
        """
        if not refused.needs <= frozenset[str]().union(*self._rules.roles_by_scope.values()):
            return ""
        return self._header("insufficient_scope", str(refused), self.scopes_for(principal.roles | refused.needs))

    def stepping_up(self, send: Send, principal: Principal, denied: list[RoleMissing]) -> Send:
        """Sends the response, or if a role was missing, a 403 that names the scope to request.

        MCP tools and resources answer refusals with 200, because models need the text. A client that can request tokens
        needs the status, so it gets the refusal as a JSON-RPC error. A response that has started continues.
        """
        begun, body, header = False, bytearray(), b""

        async def answer(message: Message) -> None:
            nonlocal begun, header
            if message["type"] == "http.response.start" and denied:
                header = self.step_up(principal, denied[0]).encode("latin-1")
            if begun or not header:
                begun = True
                await send(message)
            elif message["type"] == "http.response.start":
                if message["status"] == 403:
                    begun = True
                    await send({**message, "headers": [*message["headers"], (b"www-authenticate", header)]})
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    begun = True
                    requested = msgspec.json.decode(bytes(body), type=_RpcAnswer).id
                    error = {"code": FORBIDDEN_RPC, "message": str(denied[0])}
                    reply = msgspec.json.encode({"jsonrpc": "2.0", "id": requested, "error": error})
                    length = (b"content-length", str(len(reply)).encode())
                    headers = [(b"content-type", b"application/json"), length, (b"www-authenticate", header)]
                    await send({"type": "http.response.start", "status": 403, "headers": headers})
                    await send({"type": "http.response.body", "body": reply})

        return answer

    def _header(self, error: str, reason: str, scopes: Iterable[str]) -> str:
        parts = {
            "error": error,
            "error_description": _NOT_QUOTABLE.sub("'", reason),
            "resource_metadata": self._metadata_url,
            "scope": " ".join(scopes),
        }
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)
