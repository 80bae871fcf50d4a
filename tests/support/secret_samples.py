"""Texts with secrets, made from a seed: no text of the repository looks like anybody's key.

The shapes are in `secret_texts/*.json`: `shapes` and `forms` were listed while the rules were written, `held_out`,
`later` and a third of `spellings` before, `neighbors` after the held-out texts of decision 70 showed what was missing;
`innocents` are texts without a secret that look like some.

A shape is a text with `{...}` for what a generator makes, and the secret between « and ». Generators: `an36` letters
and digits, `h40` hex, `A16` capitals and digits, `l32` small letters and digits, `d10` digits, `u43` also - and _,
`b64` base64 without padding, `B32` the alphabet of base32, `pw` what a person chooses, `uuid`. `env64`, `json64` and
`pem64` are the base64 of such a file, `seed12` and `seed24` phrases of BIP-39, `wif` a private key as wallets write it.
"""

import base64
import hashlib
import json
import random
import re
import string
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

_ALPHABETS = {
    "an": string.ascii_letters + string.digits, "h": "0123456789abcdef", "A": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits, "d": string.digits, "u": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
}  # fmt: skip
_WORDS = ("falcon", "Winter", "shop", "Kestrel", "orange", "Tr0ub4dor", "hunter", "Sommer", "gr33n", "paper")
_SIGNS = "!#%*+.-_"
_PART = re.compile(r"\{(an|h|A|l|d|u|b|B|pw|uuid|basic|env|json|pem|seed|wif)(\d*)\}|\{\{|\}\}")
WINDOW = 10
"""Characters of a secret in a row that must not be left over."""


class Sample(NamedTuple):
    """A text and the secret in it."""

    name: str
    text: str
    secret: str

    def leaks(self, stored: str) -> bool:
        """Whether a part of the secret that is worth something is in what was stored."""
        for line in re.split(r"\s+|\\+n", self.secret):
            width = min(len(line), WINDOW)
            if width >= 4 and any(line[at : at + width] in stored for at in range(len(line) - width + 1)):
                return True
        return False


def samples(shapes: Mapping[str, str], seed: int = 1) -> Iterator[Sample]:
    """One sample of every shape."""
    for name, shape in shapes.items():
        chance = random.Random(f"{seed} {name}")
        filled = _PART.sub(lambda part, chance=chance: _made(part, chance), shape)
        before, secret, after = re.split("[«»]", filled)
        yield Sample(name, before + secret + after, secret)


def _made(part: re.Match[str], chance: random.Random) -> str:
    if part[0] in ("{{", "}}"):
        return part[0][0]
    kind, count = part[1], int(part[2] or 0)
    if kind == "pw":
        return _password(chance)
    if kind == "uuid":
        return "-".join("".join(chance.choices(_ALPHABETS["h"], k=size)) for size in (8, 4, 4, 4, 12))
    if made := _ENCODED.get(kind):
        return base64.b64encode(made(chance).encode()).decode()
    if kind == "seed":
        return _phrase(chance.randbytes(count // 3 * 4))
    if kind == "wif":
        return _base58(b"\x80" + chance.randbytes(32) + b"\x01")
    if kind == "B":
        return "".join(chance.choices(string.ascii_uppercase + "234567", k=count))
    while True:
        made = "".join(chance.choices(_ALPHABETS[kind], k=count))
        if count < 12 or (any(map(str.isdigit, made)) and any(map(str.isalpha, made))) or kind == "d":
            return made


def _password(chance: random.Random) -> str:
    return (
        chance.choice(_WORDS) + chance.choice(("", *_SIGNS)) + str(chance.randrange(2, 9999)) + chance.choice(("", "!"))
    )


_ENCODED: dict[str, Callable[[random.Random], str]] = {
    "env": lambda chance: f"DB_HOST=db.internal\nDB_USER=shop\nDB_PASSWORD={_password(chance)}\n",
    "json": lambda chance: f'{{"user": "shop", "password": "{_password(chance)}", "port": 5432}}',
    "pem": lambda chance: (
        "-----BEGIN RSA PRIVATE KEY-----\n"
        + base64.encodebytes(chance.randbytes(600)).decode()
        + "-----END RSA PRIVATE KEY-----\n"
    ),
}


def _phrase(entropy: bytes) -> str:
    words = files("ingest.secrets").joinpath("bip39.txt").read_text().split()
    sum_bits = len(entropy) // 4
    number = int.from_bytes(entropy) << sum_bits | hashlib.sha256(entropy).digest()[0] >> 8 - sum_bits
    length = (len(entropy) * 8 + sum_bits) // 11
    return " ".join(words[number >> 11 * at & 2047] for at in reversed(range(length)))


def _base58(payload: bytes) -> str:
    signs = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number = int.from_bytes(payload + hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4])
    made = ""
    while number:
        number, rest = divmod(number, 58)
        made = signs[rest] + made
    return made


def listed(name: str) -> Any:
    """Return what a file next to this module lists: shapes by their names, or texts without a secret."""
    return json.loads(Path(__file__).with_name("secret_texts").joinpath(f"{name}.json").read_text("utf-8"))
