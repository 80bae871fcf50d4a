"""Secrets that a program wrote in another form: files in base64, the words of a wallet's key (BIP-39)."""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

Span = tuple[int, int]

_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _digits(allowed: Callable[[int], bool]) -> str:
    return "[" + "".join(digit for value, digit in enumerate(_BASE64) if allowed(value)) + "]"


_PRINTABLE = (
    _digits(lambda value: value == 2 or 8 <= value < 32)
    + _digits(lambda value: value % 16 == 0 or 2 <= value % 16 < 8)
    + _digits(lambda value: value % 4 < 2)
    + r"[A-Za-z0-9+/\-_]"
)
"""Four digits that encode three printable ASCII characters or line ends. One group of a random text in 12 is like that,
so five in a row tell an encoded text from a hash or a picture before anything is decoded."""
BASE64_TRIGGER = rf"(?:^|[^A-Za-z0-9+/=])(?:{_PRINTABLE}){{5}}"
_ENCODED = re.compile(rf"(?<![A-Za-z0-9+/=])(?:{_PRINTABLE}){{5}}(?:[A-Za-z0-9+/\-_]|\\?\r?\n[ \t]*+(?=\S{{16}}))*+=*+")

PHRASE_TRIGGER = (
    r"(?:^|\x00)[\"'`]?(?:[a-z]{3,8} ){11}[a-z]{3}"
    r"|(?i:\b(?:(?:seed|recovery|backup|wallet|secret|mnemonic)[ _-]?(?:phrase|words)|mnemonic|bip-?39)\b)"
)
"""A phrase at the beginning of a text, or a word for it. Counting words wherever they begin would multiply RE2's
states, and make the scan of any text half as long again."""
_WORD = re.compile(r"([A-Za-z]+)(?:[\s,]{1,3}(?:\d{1,2}[.)]\s?)?(?=[A-Za-z])|(\b|.))", re.DOTALL)
_NAMED = re.compile(r"(?i)\b(?:seed|mnemonic|recovery|backup|wallet)\b[^\n]{0,40}\Z")
_LENGTHS = (12, 15, 18, 21, 24)
_LONGEST_RUN = 26
"""Words in a row, two of which may belong to the sentence around a phrase. A longer run is a text of common words: one
in sixteen of its parts has a valid checksum by chance."""
_DISTINCT = 0.75
"""Share of different words, at least: keys are random, so nine of ten have at most one word twice."""


def find_base64(raw: bytes, text: str, altered: Callable[[str], bool]) -> Iterator[Span]:
    """The texts in base64 of which `altered` says that they hold a secret."""
    for found in _ENCODED.finditer(text):
        digits = re.sub(r"[\s\\=]", "", found[0]).replace("-", "+").replace("_", "/")
        try:
            plain = b64decode(digits + "=" * (-len(digits) % 4)).decode()
        except (Error, ValueError):
            continue
        if altered(plain):
            yield found.span()


def find_phrases(raw: bytes, text: str) -> Iterator[Span]:
    """The runs of words of BIP-39 with a valid checksum in them; any twelve where a word before says seed or wallet."""
    run: list[re.Match[str]] = []
    for word in _WORD.finditer(text):
        known = word[1].lower() in _words()
        if known:
            run.append(word)
        if known and word[2] is None:
            continue
        if _LENGTHS[0] <= len(run) <= _LONGEST_RUN and len({one[1].lower() for one in run}) >= _DISTINCT * len(run):
            named = _NAMED.search(text, max(0, run[0].start() - 80), run[0].start())
            if named or _is_key([_words()[one[1].lower()] for one in run]):
                yield run[0].start(), run[-1].end(1)
        run = []


def _is_key(numbers: list[int]) -> bool:
    """Whether some of these words in a row end with the checksum of the others."""
    return any(_checked(numbers[at : at + length]) for length in _LENGTHS for at in range(len(numbers) - length + 1))


def _checked(numbers: list[int]) -> bool:
    bits = len(numbers) // 3
    value = sum(number << 11 * at for at, number in enumerate(reversed(numbers)))
    entropy = (value >> bits).to_bytes(bits * 4)
    return sha256(entropy).digest()[0] >> 8 - bits == value & (1 << bits) - 1


@cache
def _words() -> dict[str, int]:
    return {word: at for at, word in enumerate(Path(__file__).with_name("bip39.txt").read_text().split())}
