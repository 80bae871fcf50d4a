"""From the claims of a token to whom it lets in."""

from typing import Any

import pytest

from api.access.oauth.rules import TokenRefused, TokenRules
from api.access.oauth.tokens import LEEWAY_S
from api.access.oauth.verifier import principal_of_claims
from api.access.principal import Principal, Rates
from ingest.platform.settings import SCOPES
from ingest.roles import KeyScope, roles_by_scope

PLAIN = TokenRules("https://issuer.example", "https://m/mcp", ("https://m/mcp",), roles_by_scope(SCOPES), "default")
EVERY_ROLE = roles_by_scope((*SCOPES, "metrics=metrics", "ops=operator", "work=read+write"))
LIMITED = PLAIN._replace(
    roles_by_scope=EVERY_ROLE, tenant_claim="tenant", projects_claim="projects", agents_claim="agents"
)
FULL = {"tenant": "acme", "projects": ["shop"], "agents": ["ada"]}


def principal(rules: TokenRules = PLAIN, scope: Any = "mnemolog:read", **claims: Any) -> Principal:
    return principal_of_claims({"sub": "ada", "exp": 1000, "scope": scope, **claims}, rules)


def test_a_token_is_for_the_servers_tenant_and_all_of_it_unless_the_settings_name_claims():
    found = principal(tenant="acme", projects=["shop"], agents=["ada"])
    assert (found.tenant, found.roles, found.key_scope) == ("default", {"read"}, KeyScope(within_tenant=True))
    assert found.named


@pytest.mark.parametrize(
    ("claims", "roles"),
    [
        ({"scope": "mnemolog:read mnemolog:write"}, {"read", "write"}),
        ({"scope": "openid profile"}, set[str]()),
        ({"scope": ["mnemolog:admin"]}, {"admin"}),
        ({"scope": None, "scp": "mnemolog:read"}, {"read"}),
        ({"scope": None, "scp": ["mnemolog:write", 1]}, {"write"}),
        ({"scope": None}, set[str]()),
        ({"scope": 7}, set[str]()),
        ({"scope": "operator admin read"}, set[str]()),
    ],
)
def test_scopes_give_the_roles_that_the_settings_say(claims: dict[str, Any], roles: set[str]):
    assert principal(**claims).roles == roles


def test_a_scope_may_give_several_roles():
    assert principal(LIMITED, "work", **FULL).roles == {"read", "write"}


def test_claims_say_tenant_projects_and_agents():
    found = principal(LIMITED, tenant="acme", projects=["shop", "bakery", "shop"], agents="ada")
    assert found.tenant == "acme"
    assert found.key_scope == KeyScope(("bakery", "shop"), ("ada",), within_tenant=True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tenant": None}, "no claim 'tenant'"),
        ({"tenant": ""}, "cannot be one"),
        ({"tenant": ["a"]}, "'tenant' cannot be used"),
        ({"projects": None}, "no claim 'projects'"),
        ({"projects": []}, "'projects' is empty"),
        ({"projects": {"shop": True}}, "'projects' cannot be used"),
        ({"projects": [1]}, "'projects' cannot be used"),
        ({"projects": [str(number) for number in range(101)]}, "'projects' cannot be used"),
        ({"projects": ["a\0b"]}, "cannot be one"),
        ({"agents": None}, "no claim 'agents'"),
        ({"agents": []}, "'agents' is empty"),
        ({"agents": ""}, "'agents' cannot be used"),
        ({"sub": ""}, "`sub` is empty"),
    ],
)
def test_a_token_without_a_claim_that_the_settings_name_lets_nobody_in(changes: dict[str, Any], reason: str):
    """An empty list least of all: a reach without names is all there is."""
    with pytest.raises(TokenRefused, match=reason):
        principal(LIMITED, **{**FULL, **changes})


def test_all_projects_and_agents_have_to_be_said():
    assert principal(LIMITED, **{**FULL, "projects": "*", "agents": ["*"]}).key_scope == KeyScope(within_tenant=True)


def test_a_token_for_some_projects_or_agents_has_no_role_for_more():
    scope = "mnemolog:read mnemolog:admin metrics ops"
    every = {"tenant": "acme", "projects": "*", "agents": "*"}
    assert principal(LIMITED, scope, **every).roles == {"read", "admin", "metrics", "operator"}
    assert principal(LIMITED, scope, **{**every, "projects": "shop"}).roles == {"read", "admin"}
    assert principal(LIMITED, scope, **{**every, "agents": "ada"}).roles == {"read"}


def test_only_an_operators_token_is_shown_what_belongs_to_no_tenant():
    every = {"tenant": "acme", "projects": "*", "agents": "*"}
    assert not principal(LIMITED, "ops", **every).key_scope.within_tenant
    assert principal(LIMITED, "mnemolog:admin", **every).key_scope.within_tenant
    assert principal(LIMITED, "ops", **{**every, "projects": "shop"}).key_scope.within_tenant


def test_a_subject_is_counted_under_an_id_that_does_not_tell_who_it_is():
    limited = PLAIN._replace(rates=Rates(600, 60))
    ada, eve = principal(limited, sub="ada@example.com"), principal(limited, sub="eve@example.com")
    assert ada.rates == Rates(600, 60)
    assert ada.key_id == principal(limited, "mnemolog:write", sub="ada@example.com").key_id
    assert ada.key_id != eve.key_id
    assert "ada" not in ada.key_id
    assert 0 < len(ada.key_id) <= 30


def test_a_token_counts_until_it_expires():
    assert principal(exp=1000).expires_ms == (1000 + LEEWAY_S) * 1000
