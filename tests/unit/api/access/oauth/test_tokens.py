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

from api.access.oauth.rules import TokenRefused, TokenRules
from api.access.oauth.tokens import LEEWAY_S, MAX_TOKEN_CHARS, is_token, key_id_of, signing_keys, verified_claims

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
        ({"exp": "soon"}, "not what RFC 7519 says"),
        ({"iss": "https://evil.example"}, "of the issuer 'https://evil.example'"),
        ({"iss": ISSUER + "/"}, "MNEMOLOG_OAUTH_ISSUER is https://issuer.example$"),
        ({"iss": None}, "of the issuer None"),
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
    with pytest.raises(TokenRefused, match="is for RS256, and it is signed otherwise"):
        verified_claims(token, only_rs256["r"], RULES)
    with pytest.raises(TokenRefused, match="signed otherwise"):
        verified_claims(token, KEYS["e"], RULES)


def test_a_signature_of_another_key_is_refused():
    with pytest.raises(TokenRefused, match="not of the key that it names"):
        verify(signed(ec.generate_private_key(ec.SECP256R1()), "e", claims()))


def test_a_changed_claim_is_refused():
    head, _, signature = signed(EC, "e", claims()).split(".")
    _, body, _ = signed(P384, "e", claims(sub="eve"), "ES384").split(".")
    with pytest.raises(TokenRefused, match="not of the key that it names"):
        verify(f"{head}.{body}.{signature}")


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt"])
def test_a_token_for_another_end_is_refused(kind: str):
    with pytest.raises(TokenRefused, match="is no access token"):
        verify(signed(EC, "e", claims(), typ=kind))


@pytest.mark.parametrize("text", ["a.b.c", "..", "eyJhbGciOiJSUzI1NiJ9.bm8.", "é.ü.ö", "[].{}.x"])
def test_what_is_no_token_is_refused(text: str):
    assert is_token(text)
    with pytest.raises(TokenRefused, match="neither a key nor a signed token"):
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
        (b"<html>", "is no JWK set"),
        (b"{}", "is no JWK set"),
        (b'{"keys": 1}', "is no JWK set"),
        (b'{"keys": []}', "no key that can be used"),
        (key_set({"kty": "oct", "k": "c2VjcmV0"}), "no key that can be used"),
        (key_set(*[{"kty": "RSA"}] * 101), "101 keys; 100 are read at most"),
        (b'{"keys":' + b"[" * 5000, "is no JWK set"),
    ],
)
def test_what_is_no_set_of_keys_is_told(document: bytes, reason: str):
    with pytest.raises(ValueError, match=reason):
        signing_keys(document)
