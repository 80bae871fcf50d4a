"""Which settings make a server that takes access tokens."""

import pytest

from api.access.gate import check_binding
from api.access.oauth.rules import token_rules
from api.access.principal import Rates
from ingest.errors import InvalidSetting
from ingest.platform.settings import from_environment

ISSUER = {"MNEMOLOG_OAUTH_ISSUER": "https://issuer.example"}
RESOURCE = {"MNEMOLOG_OAUTH_RESOURCE": "https://memory.example/mcp"}


def test_without_an_issuer_there_are_no_tokens():
    assert token_rules(from_environment({})) is None


def test_an_issuer_and_the_servers_address_are_enough():
    rules = token_rules(from_environment(ISSUER | RESOURCE))
    assert rules is not None
    assert rules.audiences == ("https://memory.example/mcp",)
    assert rules.roles_by_scope == {
        "mnemolog:read": {"read"},
        "mnemolog:write": {"write"},
        "mnemolog:admin": {"admin"},
    }
    assert (rules.tenant_claim, rules.projects_claim, rules.agents_claim, rules.jwks) == ("", "", "", "")


def test_what_the_settings_say_is_what_counts():
    further = {
        "MNEMOLOG_TENANT": "acme",
        "MNEMOLOG_OAUTH_AUDIENCE": "api://a, api://b",
        "MNEMOLOG_OAUTH_SCOPES": "notes=read+write,https://x/ops=operator",
        "MNEMOLOG_OAUTH_READS": "600",
    }
    rules = token_rules(from_environment(ISSUER | RESOURCE | further))
    assert rules is not None
    assert rules.audiences == ("api://a", "api://b")
    assert rules.roles_by_scope == {"notes": {"read", "write"}, "https://x/ops": {"operator"}}
    assert (rules.tenant, rules.rates) == ("acme", Rates(600, 0))


def test_an_issuer_needs_the_servers_address():
    with pytest.raises(InvalidSetting, match="needs MNEMOLOG_OAUTH_RESOURCE"):
        token_rules(from_environment(ISSUER))


@pytest.mark.parametrize("name", ["MNEMOLOG_OAUTH_RESOURCE", "MNEMOLOG_OAUTH_JWKS", "MNEMOLOG_OAUTH_AUDIENCE"])
def test_settings_that_would_count_for_nothing_are_told(name: str):
    with pytest.raises(InvalidSetting, match="MNEMOLOG_OAUTH_ISSUER is not set"):
        token_rules(from_environment({name: "https://memory.example/mcp"}))


def test_a_server_that_asks_for_tokens_may_listen_beyond_loopback():
    check_binding(from_environment(ISSUER | RESOURCE | {"MNEMOLOG_HOST": "0.0.0.0"}), keys=False)
