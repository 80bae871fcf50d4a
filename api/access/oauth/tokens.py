"""Signed tokens (JWT, RFC 7519) and the keys they are signed with (JWK, RFC 7517). The one file that imports PyJWT.

Only asymmetric signatures are accepted. The key determines the algorithm, never the token.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt
import msgspec
from jwt.types import Options

from api.access.oauth.rules import TokenRules
from api.access.principal import TokenRefused

# allowed clock difference between the issuer and this machine
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
"""`typ` of an access token; other types have other purposes, such as logging out."""
_REQUIRED: Options = {"require": ["exp", "iss", "aud", "sub"]}


class SigningKey(NamedTuple):
    """A public key, and the algorithms whose signatures it verifies."""

    key: Any
    algorithms: tuple[str, ...]


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


def signing_keys(document: bytes) -> dict[str, SigningKey]:
    """The keys of a JWK set that can verify tokens, by `kid`; a single key also by the empty text.

    Keys of other kinds, for other purposes or too short (RSA under 2048 bits) are omitted. Raises ValueError for
    anything but a set with a usable key.
    """
    try:
        listed = msgspec.json.decode(document, type=_KeySet).keys
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"is not a JWK set: {error}") from None
    if len(listed) > MAX_KEYS:
        raise ValueError(f"has {len(listed)} keys; the limit is {MAX_KEYS}")
    keys = {str(stated.get("kid", "")): key for stated in listed if (key := _signing_key(stated)) is not None}
    if not keys:
        raise ValueError("has no usable key: RSA of 2048 bits or more, P-256, P-384, P-521 or Ed25519")
    return keys if len(keys) > 1 else {**keys, "": next(iter(keys.values()))}


def _signing_key(stated: dict[str, Any]) -> SigningKey | None:
    kind = (stated.get("kty"), "" if stated.get("kty") == "RSA" else stated.get("crv"))
    algorithms = _BY_KIND.get((str(kind[0]), str(kind[1])), ())
    if "alg" in stated:
        algorithms = tuple(name for name in algorithms if name == stated["alg"])
    if not algorithms or stated.get("use", "sig") != "sig" or "d" in stated:
        return None  # `d` is the private key: anyone could sign with it
    try:
        key = jwt.PyJWK(stated, algorithms[0])
        if key.Algorithm.check_key_length(key.key):
            return None
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    return SigningKey(key.key, algorithms)


def is_token(credential: str) -> bool:
    """Whether a credential looks like a signed token; no API key does."""
    return credential.count(".") == 2


def key_id_of(token: str, issuer: str) -> str:
    """The `kid` in a token's header, empty if missing. Does not verify the signature.

    Raises TokenRefused for anything that cannot be a token of this issuer.
    """
    if len(token) > MAX_TOKEN_CHARS:
        raise TokenRefused(f"the token is longer than {MAX_TOKEN_CHARS:,} characters")
    try:
        opened = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenRefused("the credential is neither an API key nor a signed token (JWT)") from None
    header, claims = opened["header"], opened["payload"]
    if header.get("alg") not in ALGORITHMS:
        raise TokenRefused(f"the token's signature is {_quoted(header.get('alg'))}; accepted are {', '.join(_BY_NAME)}")
    if str(header.get("typ", "")).lower() not in _TYPES:
        raise TokenRefused(f"the token is not an access token: its `typ` is {_quoted(header['typ'])}")
    if claims.get("iss") != issuer:
        raise TokenRefused(f"the token's issuer is {_quoted(claims.get('iss'))}; MNEMOLOG_OAUTH_ISSUER is {issuer}")
    return str(header.get("kid", ""))


def verified_claims(token: str, key: SigningKey, rules: TokenRules) -> Mapping[str, Any]:
    """The claims of a token that this key signed, for this server, and that is currently valid; raises TokenRefused."""
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
            f"the token is not for this server: its `aud` contains none of {', '.join(rules.audiences)}"
        ) from None
    except jwt.InvalidAlgorithmError:
        raise TokenRefused(
            f"the token's key is for {', '.join(key.algorithms)}, but the signature uses another algorithm"
        ) from None
    except jwt.InvalidSignatureError:
        raise TokenRefused("the token's signature does not match the key that it names") from None
    except (jwt.PyJWTError, ValueError, TypeError):
        raise TokenRefused("the token's claims violate RFC 7519") from None


_BY_NAME = sorted(ALGORITHMS)


def _quoted(value: object) -> str:
    return repr(value)[:200]
