"""Signed tokens against keys: which signatures and claims count, whatever the token says of itself."""

import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import HMACAlgorithm, OKPAlgorithm, RSAAlgorithm
from oauth_issuer import public_jwk, signed

from api.access.binding import check_binding, token_rules
from api.access.oauth.rules import TokenRules
from api.access.oauth.tokens import LEEWAY_S, MAX_TOKEN_CHARS, is_token, key_id_of, signing_keys, verified_claims
from api.access.oauth.verifier import principal_of_claims
from api.access.principal import Principal, Rates, TokenRefused
from ingest.errors import InvalidSetting
from ingest.platform.settings import SCOPES, from_environment
from ingest.roles import KeyScope, roles_by_scope

ISSUER, RESOURCE = "https://issuer.example", "https://memory.example/mcp"
RULES = TokenRules(ISSUER, RESOURCE, (RESOURCE, "api://memory"), {}, "default")
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
P384 = ec.generate_private_key(ec.SECP384R1())


def claims(**changes: Any) -> dict[str, Any]:
    """Claims that hold; None leaves one out."""
    stated = {"iss": ISSUER, "aud": RESOURCE, "sub": "ada", "exp": int(time.time()) + 600, **changes}
    return {name: value for name, value in stated.items() if value is not None}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


KEYS = signing_keys(key_set(public_jwk(RSA, "r"), public_jwk(EC, "e"), public_jwk(P384, "p")))


def verify(token: str) -> dict[str, Any]:
    """The claims, as the server comes by them."""
    return dict(verified_claims(token, KEYS[key_id_of(token, ISSUER)], RULES))


@pytest.mark.parametrize(
    ("key", "kid", "algorithm"), [(RSA, "r", "RS256"), (RSA, "r", "PS512"), (EC, "e", "ES256"), (P384, "p", "ES384")]
)
def test_a_token_that_a_key_of_the_issuer_signed_holds(key: Any, kid: str, algorithm: str):
    assert verify(signed(key, kid, claims(), algorithm))["sub"] == "ada"


@pytest.mark.parametrize("aud", ["api://memory", ["x", RESOURCE]])
def test_one_audience_of_several_is_enough(aud: Any):
    assert verify(signed(EC, "e", claims(aud=aud)))["aud"] == aud


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": int(time.time()) - LEEWAY_S - 5}, "has expired"),
        ({"nbf": int(time.time()) + 600}, "not valid yet"),
        ({"iat": int(time.time()) + 600}, "not valid yet"),
        ({"aud": "https://other.example"}, "not for this server"),
        ({"aud": ["https://memory.example"]}, "not for this server"),
        ({"aud": None}, "no claim `aud`"),
        ({"exp": None}, "no claim `exp`"),
        ({"sub": None}, "no claim `sub`"),
        ({"exp": "soon"}, "violate RFC 7519"),
        ({"iss": "https://evil.example"}, "issuer is 'https://evil.example'"),
        ({"iss": ISSUER + "/"}, "MNEMOLOG_OAUTH_ISSUER is https://issuer.example$"),
        ({"iss": None}, "issuer is None"),
    ],
)
def test_a_token_is_refused_for_what_it_claims(changes: dict[str, Any], reason: str):
    with pytest.raises(TokenRefused, match=reason):
        verify(signed(EC, "e", claims(**changes)))


def test_clocks_may_differ_a_little():
    assert verify(signed(EC, "e", claims(exp=int(time.time()) - 5, iat=int(time.time()) + 5)))


def test_an_unsigned_token_is_refused():
    with pytest.raises(TokenRefused, match="signature is 'none'"):
        verify(signed(None, "r", claims(), "none"))


def test_a_token_signed_with_the_public_key_as_a_secret_is_refused():
    """The confusion of RS256 with HS256: PyJWT refuses to make such a token, so it is made of one that it makes."""
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    jws = jwt.PyJWS()
    jws.unregister_algorithm("HS256")
    jws.register_algorithm("HS256", _AnySecret(HMACAlgorithm.SHA256))
    token = jws.encode(json.dumps(claims()).encode(), public, "HS256", headers={"kid": "r"})
    with pytest.raises(TokenRefused, match="signature is 'HS256'"):
        verify(token)
    with pytest.raises(TokenRefused, match="is for RS256"):
        verified_claims(token, KEYS["r"], RULES)


class _AnySecret(HMACAlgorithm):
    def prepare_key(self, key: Any) -> bytes:
        return key


def test_the_key_says_which_algorithms_count():
    only_rs256 = signing_keys(key_set(public_jwk(RSA, "r", alg="RS256"), public_jwk(EC, "e")))
    token = signed(RSA, "r", claims(), "RS512")
    with pytest.raises(TokenRefused, match="is for RS256, but the signature uses another algorithm"):
        verified_claims(token, only_rs256["r"], RULES)
    with pytest.raises(TokenRefused, match="uses another algorithm"):
        verified_claims(token, KEYS["e"], RULES)


def test_a_signature_of_another_key_is_refused():
    with pytest.raises(TokenRefused, match="does not match the key that it names"):
        verify(signed(ec.generate_private_key(ec.SECP256R1()), "e", claims()))


def test_a_changed_claim_is_refused():
    head, _, signature = signed(EC, "e", claims()).split(".")
    _, body, _ = signed(P384, "e", claims(sub="eve"), "ES384").split(".")
    with pytest.raises(TokenRefused, match="does not match the key that it names"):
        verify(f"{head}.{body}.{signature}")


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt"])
def test_a_token_for_another_end_is_refused(kind: str):
    with pytest.raises(TokenRefused, match="is not an access token"):
        verify(signed(EC, "e", claims(), typ=kind))


@pytest.mark.parametrize("text", ["a.b.c", "..", "eyJhbGciOiJSUzI1NiJ9.bm8.", "é.ü.ö", "[].{}.x"])
def test_what_is_no_token_is_refused(text: str):
    assert is_token(text)
    with pytest.raises(TokenRefused, match="neither an API key nor a signed token"):
        key_id_of(text, ISSUER)


def test_a_very_long_token_is_not_looked_into():
    with pytest.raises(TokenRefused, match="longer than"):
        key_id_of(f"{'a' * MAX_TOKEN_CHARS}.b.c", ISSUER)


def test_an_api_key_is_no_token():
    assert not is_token("mnk_0123456789AB_" + "a" * 49)
    assert not is_token("")


def test_a_token_that_is_refused_is_not_in_the_reason():
    token = signed(EC, "e", claims(aud="x"))
    with pytest.raises(TokenRefused) as refused:
        verify(token)
    assert not any(part in str(refused.value) for part in token.split("."))


def test_the_only_key_verifies_tokens_that_name_none():
    alone = signing_keys(key_set(public_jwk(EC, "e")))
    assert verified_claims(signed(EC, "", claims()), alone[""], RULES)["sub"] == "ada"
    assert "" not in KEYS


def test_keys_that_cannot_be_used_are_left_out():
    ed = json.loads(OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key()))
    listed = [
        {**ed, "kid": "ed"},
        public_jwk(EC, "e"),
        public_jwk(RSA, "encrypts", use="enc"),
        public_jwk(RSA, "oaep", alg="RSA-OAEP"),
        public_jwk(RSA, "hmac", alg="HS256"),
        public_jwk(rsa.generate_private_key(65537, 1024), "short"),
        {**json.loads(RSAAlgorithm.to_jwk(RSA)), "kid": "private"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA", "kid": "curve"},
        {"kty": "RSA", "n": "!", "e": "!", "kid": "broken"},
        {"kid": "nothing"},
    ]
    assert set(signing_keys(key_set(*listed))) == {"ed", "e"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"<html>", "is not a JWK set"),
        (b"{}", "is not a JWK set"),
        (b'{"keys": 1}', "is not a JWK set"),
        (b'{"keys": []}', "no usable key"),
        (key_set({"kty": "oct", "k": "c2VjcmV0"}), "no usable key"),
        (key_set(*[{"kty": "RSA"}] * 101), "101 keys; the limit is 100"),
        (b'{"keys":' + b"[" * 5000, "is not a JWK set"),
    ],
)
def test_what_is_no_set_of_keys_is_told(document: bytes, reason: str):
    with pytest.raises(ValueError, match=reason):
        signing_keys(document)


PLAIN = TokenRules("https://issuer.example", "https://m/mcp", ("https://m/mcp",), roles_by_scope(SCOPES), "default")
EVERY_ROLE = roles_by_scope((*SCOPES, "metrics=metrics", "ops=operator", "work=read+write"))
LIMITED = PLAIN._replace(
    roles_by_scope=EVERY_ROLE, tenant_claim="tenant", projects_claim="projects", agents_claim="agents"
)
FULL = {"tenant": "acme", "projects": ["shop"], "agents": ["ada"]}
ADA = "oauth-fdee430d40bd57deeac186cd"
"""The key of the subject `ada`: whatever tokens she has, she counts as one writer."""


def principal(rules: TokenRules = PLAIN, scope: Any = "mnemolog:read", **claims: Any) -> Principal:
    return principal_of_claims({"sub": "ada", "exp": 1000, "scope": scope, **claims}, rules)


def test_a_token_is_for_the_servers_tenant_and_all_of_it_unless_the_settings_name_claims():
    found = principal(tenant="acme", projects=["shop"], agents=["ada"])
    assert (found.tenant, found.roles, found.key_scope) == (
        "default",
        {"read"},
        KeyScope(within_tenant=True, is_admin=False, key=ADA),
    )
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
    assert found.key_scope == KeyScope(("bakery", "shop"), ("ada",), within_tenant=True, is_admin=False, key=ADA)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tenant": None}, "no claim 'tenant'"),
        ({"tenant": ""}, "invalid tenant"),
        ({"tenant": ["a"]}, "'tenant' is invalid"),
        ({"projects": None}, "no claim 'projects'"),
        ({"projects": []}, "'projects' is empty"),
        ({"projects": {"shop": True}}, "'projects' is invalid"),
        ({"projects": [1]}, "'projects' is invalid"),
        ({"projects": [str(number) for number in range(101)]}, "'projects' is invalid"),
        ({"projects": ["a\0b"]}, "invalid tenant, project or agent"),
        ({"agents": None}, "no claim 'agents'"),
        ({"agents": []}, "'agents' is empty"),
        ({"agents": ""}, "'agents' is invalid"),
        ({"sub": ""}, "`sub` is empty"),
    ],
)
def test_a_token_without_a_claim_that_the_settings_name_lets_nobody_in(changes: dict[str, Any], reason: str):
    """An empty list least of all: a reach without names is all there is."""
    with pytest.raises(TokenRefused, match=reason):
        principal(LIMITED, **{**FULL, **changes})


def test_all_projects_and_agents_have_to_be_said():
    assert principal(LIMITED, **{**FULL, "projects": "*", "agents": ["*"]}).key_scope == KeyScope(
        within_tenant=True, is_admin=False, key=ADA
    )


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


ISSUER_SETTING = {"MNEMOLOG_OAUTH_ISSUER": "https://issuer.example"}
RESOURCE_SETTING = {"MNEMOLOG_OAUTH_RESOURCE": "https://memory.example/mcp"}


def test_without_an_issuer_there_are_no_tokens():
    assert token_rules(from_environment({})) is None


def test_an_issuer_and_the_servers_address_are_enough():
    rules = token_rules(from_environment(ISSUER_SETTING | RESOURCE_SETTING))
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
    rules = token_rules(from_environment(ISSUER_SETTING | RESOURCE_SETTING | further))
    assert rules is not None
    assert rules.audiences == ("api://a", "api://b")
    assert rules.roles_by_scope == {"notes": {"read", "write"}, "https://x/ops": {"operator"}}
    assert (rules.tenant, rules.rates) == ("acme", Rates(600, 0))


def test_an_issuer_needs_the_servers_address():
    with pytest.raises(InvalidSetting, match="needs MNEMOLOG_OAUTH_RESOURCE"):
        token_rules(from_environment(ISSUER_SETTING))


@pytest.mark.parametrize("name", ["MNEMOLOG_OAUTH_RESOURCE", "MNEMOLOG_OAUTH_JWKS", "MNEMOLOG_OAUTH_AUDIENCE"])
def test_settings_that_would_count_for_nothing_are_told(name: str):
    with pytest.raises(InvalidSetting, match="other MNEMOLOG_OAUTH settings need MNEMOLOG_OAUTH_ISSUER"):
        token_rules(from_environment({name: "https://memory.example/mcp"}))


def test_a_server_that_asks_for_tokens_may_listen_beyond_loopback():
    check_binding(from_environment(ISSUER_SETTING | RESOURCE_SETTING | {"MNEMOLOG_HOST": "0.0.0.0"}), keys=False)
