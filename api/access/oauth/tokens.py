"""Signed tokens (JWT, RFC 7519) and the keys they are signed with (JWK, RFC 7517). The one file that imports PyJWT.

Only asymmetric signatures count. Which algorithms do is said by the key, never by the token.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt
import msgspec
from jwt.types import Options

from api.access.oauth.rules import TokenRefused, TokenRules

# the clocks of the issuer and of this machine may differ by this much
LEEWAY_S = 30
MAX_TOKEN_CHARS = 16 << 10
MAX_KEYS = 100
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_KIND = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
ALGORITHMS = frozenset(name for names in _BY_KIND.values() for name in names)
_TYPES = ("", "jwt", "at+jwt", "application/at+jwt")
"""`typ` of an access token; others are for other ends, such as logging out."""
_REQUIRED: Options = {"require": ["exp", "iss", "aud", "sub"]}


class SigningKey(NamedTuple):
    """A public key, and the algorithms whose signatures it verifies."""

    key: Any
    algorithms: tuple[str, ...]


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


def signing_keys(document: bytes) -> dict[str, SigningKey]:
    """The keys of a JWK set that can verify tokens, by `kid`; an only one also by the empty text.

    Keys of other kinds, for other ends or too short (RSA under 2048 bits) are left out. Raises ValueError for what is
    no set, or one without a usable key.
    """
    try:
        listed = msgspec.json.decode(document, type=_KeySet).keys
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"is no JWK set: {error}") from None
    if len(listed) > MAX_KEYS:
        raise ValueError(f"has {len(listed)} keys; {MAX_KEYS} are read at most")
    keys = {str(stated.get("kid", "")): key for stated in listed if (key := _signing_key(stated)) is not None}
    if not keys:
        raise ValueError("has no key that can be used: RSA of 2048 bits or more, P-256, P-384, P-521 or Ed25519")
    return keys if len(keys) > 1 else {**keys, "": next(iter(keys.values()))}


def _signing_key(stated: dict[str, Any]) -> SigningKey | None:
    kind = (stated.get("kty"), "" if stated.get("kty") == "RSA" else stated.get("crv"))
    algorithms = _BY_KIND.get((str(kind[0]), str(kind[1])), ())
    if "alg" in stated:
        algorithms = tuple(name for name in algorithms if name == stated["alg"])
    if not algorithms or stated.get("use", "sig") != "sig" or "d" in stated:
        return None  # with `d` the private key was published: anyone could sign
    try:
        key = jwt.PyJWK(stated, algorithms[0])
        if key.Algorithm.check_key_length(key.key):
            return None
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    return SigningKey(key.key, algorithms)


def is_token(credential: str) -> bool:
    """Whether a credential has the form of a signed token, which no API key has."""
    return credential.count(".") == 2


def key_id_of(token: str, issuer: str) -> str:
    """The `kid` of the key a token says it is signed with, empty for none. The signature is not looked at.

    Raises TokenRefused for what cannot be a token of this issuer.
    """
    if len(token) > MAX_TOKEN_CHARS:
        raise TokenRefused(f"the token is longer than {MAX_TOKEN_CHARS:,} characters")
    try:
        opened = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenRefused("this is neither a key nor a signed token (JWT)") from None
    header, claims = opened["header"], opened["payload"]
    if header.get("alg") not in ALGORITHMS:
        raise TokenRefused(f"the token's signature is {_quoted(header.get('alg'))}; taken are {', '.join(_BY_NAME)}")
    if str(header.get("typ", "")).lower() not in _TYPES:
        raise TokenRefused(f"the token is no access token: its `typ` is {_quoted(header['typ'])}")
    if claims.get("iss") != issuer:
        raise TokenRefused(
            f"the token is of the issuer {_quoted(claims.get('iss'))}; MNEMOLOG_OAUTH_ISSUER is {issuer}"
        )
    return str(header.get("kid", ""))


def verified_claims(token: str, key: SigningKey, rules: TokenRules) -> Mapping[str, Any]:
    """The claims of a token that this key signed, for this server, in time; raises TokenRefused."""
    try:
        return jwt.decode(
            token,
            key.key,
            algorithms=key.algorithms,
            audience=rules.audiences,
            issuer=rules.issuer,
            leeway=LEEWAY_S,
            options=_REQUIRED,
        )
    except jwt.ExpiredSignatureError:
        raise TokenRefused("the token has expired") from None
    except jwt.ImmatureSignatureError:
        raise TokenRefused("the token is not valid yet: compare the clocks of the issuer and of this server") from None
    except jwt.MissingRequiredClaimError as error:
        raise TokenRefused(f"the token has no claim `{error.claim}`") from None
    except jwt.InvalidAudienceError:
        raise TokenRefused(
            f"the token is not for this server: its `aud` has none of {', '.join(rules.audiences)}"
        ) from None
    except jwt.InvalidAlgorithmError:
        raise TokenRefused(f"the token's key is for {', '.join(key.algorithms)}, and it is signed otherwise") from None
    except jwt.InvalidSignatureError:
        raise TokenRefused("the token's signature is not of the key that it names") from None
    except (jwt.PyJWTError, ValueError, TypeError):
        raise TokenRefused("the token's claims are not what RFC 7519 says") from None


_BY_NAME = sorted(ALGORITHMS)


def _quoted(value: object) -> str:
    return repr(value)[:200]
