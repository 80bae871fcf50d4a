"""What a caller sends as its key: `mnk_<id>_<secret><checksum>`. Pure, but for the randomness of a new one.

The id is public and names the key in lists and logs. The secret has 256 bits of randomness, so nobody can guess one
whose hash is known: a plain SHA-256 is enough, where a password would need a slow hash. The checksum tells a mistyped
or cut-off key from a wrong one without a look at any store, and a secret scanner a real key from what resembles one.
"""

import re
import secrets
from binascii import crc32
from hashlib import sha256
from typing import NamedTuple

PREFIX = "mnk_"
ID_CHARS, SECRET_CHARS, CHECKSUM_CHARS = 12, 43, 6
SECRET_BYTES = 32
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHAPE = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{ID_CHARS}}})_([0-9A-Za-z]{{{SECRET_CHARS}}})([0-9A-Za-z]{{{CHECKSUM_CHARS}}})"
)


class Token(NamedTuple):
    """A key as its owner knows it."""

    id: str
    secret: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.id}_{self.secret}{_checksum(self.id, self.secret)}"

    def __repr__(self) -> str:
        return f"Token({self.id!r}, ...)"

    @property
    def digest(self) -> str:
        """What is stored in the place of the secret: SHA-256, 64 hex digits."""
        return sha256(self.secret.encode()).hexdigest()


def mint() -> Token:
    """A new token, of the system's randomness."""
    secret = _base62(int.from_bytes(secrets.token_bytes(SECRET_BYTES)), SECRET_CHARS)
    return Token("".join(secrets.choice(_ALPHABET) for _ in range(ID_CHARS)), secret)


def parse(text: str) -> Token | None:
    """The token that a text is; None for what is none, or was mistyped."""
    found = _SHAPE.fullmatch(text)
    if found is None or _checksum(found[1], found[2]) != found[3]:
        return None
    return Token(found[1], found[2])


def _checksum(name: str, secret: str) -> str:
    return _base62(crc32(f"{name}_{secret}".encode()), CHECKSUM_CHARS)


def _base62(number: int, length: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 62)
        digits = _ALPHABET[rest] + digits
    return digits.rjust(length, "0")
