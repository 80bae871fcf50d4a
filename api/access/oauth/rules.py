"""What the settings say of access tokens, and how a token is refused."""

from collections.abc import Mapping
from typing import NamedTuple

from api.access.principal import Rates
from ingest.errors import InvalidSetting
from ingest.platform.settings import Settings
from ingest.roles import Role, roles_by_scope


class TokenRefused(Exception):
    """The token lets nobody in; the text says why, and holds nothing of the token but names that it states."""


class TokenRules(NamedTuple):
    """Whose tokens let in, for what, and which claims say how far. An empty claim name: nothing is read there."""

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


def token_rules(settings: Settings) -> TokenRules | None:
    """The rules of a server that takes access tokens; raises InvalidSetting for settings that make none."""
    if not settings.oauth_issuer:
        if settings.oauth_resource or settings.oauth_audience or settings.oauth_jwks:
            raise InvalidSetting(
                "MNEMOLOG_OAUTH_ISSUER is not set, and other MNEMOLOG_OAUTH settings are: set it, or unset them"
            )
        return None
    if not settings.oauth_resource:
        raise InvalidSetting(
            "MNEMOLOG_OAUTH_ISSUER needs MNEMOLOG_OAUTH_RESOURCE: the address of /mcp as MCP clients know it, such as "
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
