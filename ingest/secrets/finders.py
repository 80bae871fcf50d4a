"""Finders of secrets that a regular expression alone cannot find: blocks, tables, assignments, encoded forms.

- Secrets of many lines or parts: private keys in PEM, private spans, cookies, Kubernetes Secrets, tables.
- Secrets in an encoded form: files in base64, the words of a wallet's key (BIP-39).
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from ingest.secrets import plausible

Span = tuple[int, int]

PRIVATE = "[REDACTED]"

PEM_TRIGGER = r"(?i)-{3,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{3,5}"
_BEGIN = re.compile(PEM_TRIGGER)
_END = re.compile(r"(?i)-{3,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{3,5}")
_BODY = re.compile(
    r"""(?:[\s"'+,>|#*/]|\\+[nrt"']|(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash):[^\n\\]{0,200}+|[A-Za-z0-9+/=]{16,}+)*+"""
    r"""(?:[A-Za-z+/]{0,15}+[0-9+/=][A-Za-z0-9+/=]*+)?+"""
)
"""What a key may hold, as far as it goes, where its end is missing: whole lines, then the beginning of one."""
_HAS_KEY = re.compile(r"[A-Za-z0-9+/=]{16}")

PRIVATE_TRIGGER = r"(?i)(?:<|&lt;|\\u003c|%3c)\s*private\b"
_TAG = re.compile(
    r"(?i)(?:<|&lt;|\\u003c|%3c)\s*+(/\s*+)?private(?![\w.-])([^<>\n]{0,200}?)(?:>|&gt;|\\u003e|%3e)|(?:<|&lt;|\\u003c)\s*+private(?=\s[^<>]{0,200}$)"
)

COOKIE_TRIGGER = (
    r"(?i)\b(?:set-)?cookie\d?\\*[\"']?\]?\s*(?:=>|[:=,])\s*\\*[\"']?[^\s=;,\"']+=(?:[^\r\n\"']*[=])?[^\s;\"']{8}"
    r"|(?:\s-b|--cookie)(?:\s+|=)[\"']?[^\s=;\"']+=(?:[^\r\n\"']*[=])?[^\s;\"']{8}"
)
_COOKIE = re.compile(
    r"(?i)(?:\b(?:set-)?cookie\d?\\*+[\"']?\]?\s*+(?:=>|[:=,])\s*+\\*+[\"']?+|(?:\s-b|--cookie)(?:\s+|=)[\"']?+)"
    r"(?P<pairs>[^\s=;,\"'\\]{1,200}+=[^;\r\n\"'\\]*+(?:;\s*+[^\r\n\"'\\;]*+)*+)"
)
_SHORTEST = 8
_NO_VALUE = ("[REDACTED", "$", "<", "{")
KUBERNETES_TRIGGER = r"""kind\\*["']?\s*:\s*\\*["']?Secret\b"""
_KUBERNETES = re.compile(KUBERNETES_TRIGGER)
_DOCUMENT = re.compile(r"(?m)^---|\\n---")
_DATA = re.compile(
    r"""\b(?:data|stringData)\\*["']?[ \t]*+:(?P<entries>[ \t]*+\{[^{}]*+\}|(?:(?:\r?\n|\\n)[ \t]+[^\n\\]*+)++)"""
)
_ENTRY = re.compile(
    r"""[\w./-]++\\*["']?[ \t]*+:[ \t]*+(?:[|>][-+]?(?:\r?\n|\\n)[ \t]*+)?\\*["']?"""
    r"""(?P<value>[^\s"'\\,{}][^\n"'\\]{3,})"""
)

TABLE_TRIGGER = r"""(?i)(?:^|[|\t;,\n_])[ "'*]*(?:passwor[dt]|passwd|pwd|secret|token|api[_ -]?key)[ "'*]*[|\t;,\r\n]"""
_HEADING = re.compile(
    r"""(?i)[ "'*]*(?:[\w ]{0,24}[_ ])?(?:passwor[dt]|passwd|pwd|secret|token|api[_ -]?key)[ "'*\r]*"""
)
_LINE = re.compile(r"[^\n]+")

_ATTRIBUTES = frozenset(("expires", "max-age", "path", "domain", "samesite", "version", "priority"))


def find_pem(raw: bytes, text: str) -> Iterator[Span]:
    """The private keys in PEM, also on one line, with escaped line ends, and those whose end is missing."""
    begins = list(_BEGIN.finditer(text))
    ends = [match.end() for match in _END.finditer(text)]
    after = 0
    for index, begin in enumerate(begins):
        until = begins[index + 1].start() if index + 1 < len(begins) else len(text)
        while after < len(ends) and ends[after] <= begin.end():
            after += 1
        if after < len(ends) and ends[after] <= until:
            stop = ends[after]
        else:
            body = _BODY.match(text, begin.end(), until)
            stop = body.end() if body else begin.end()
        if _HAS_KEY.search(text, begin.end(), stop):
            yield begin.start(), stop


def find_private(raw: bytes, text: str) -> Iterator[Span]:
    """The private spans, outermost ones; one that is not closed goes to the end. A tag in backticks is a mention."""
    depth = start = 0
    for tag in _TAG.finditer(text):
        if tag[1]:
            if depth == 1:
                yield start, tag.end()
            depth = max(0, depth - 1)
            continue
        mention = text[tag.start() - 1 : tag.start()] == "`" == text[tag.end() : tag.end() + 1]
        if (mention and not depth) or (tag[2] or "").rstrip().endswith("/"):
            continue
        if not depth:
            start = tag.start()
        depth += 1
    if depth:
        yield start, len(text)


def find_cookies(raw: bytes, text: str) -> Iterator[Span]:
    """The values of cookies that are long enough to open something."""
    for cookies in _COOKIE.finditer(text):
        start = cookies.start("pairs")
        for pair in cookies["pairs"].split(";"):
            name, _, value = pair.partition("=")
            bare = value.strip()
            if name.strip().lower() not in _ATTRIBUTES and len(bare) >= _SHORTEST and not bare.startswith(_NO_VALUE):
                at = start + len(name) + 1 + value.index(bare)
                yield at, at + len(bare)
            start += len(pair) + 1


def find_kubernetes(raw: bytes, text: str) -> Iterator[Span]:
    """The values under `data` and `stringData` of Kubernetes Secrets, in YAML and JSON."""
    bounds = [0, *(match.end() for match in _DOCUMENT.finditer(text)), len(text)]
    for start, end in pairwise(bounds):
        if not _KUBERNETES.search(text, start, end):
            continue
        for block in _DATA.finditer(text, start, end):
            for value in _ENTRY.finditer(text, *block.span("entries")):
                if not value["value"].startswith(_NO_VALUE):
                    yield value.span("value")


def find_in_tables(raw: bytes, text: str) -> Iterator[Span]:
    """The cells below a heading that says password or token, in Markdown and in lines of values between separators."""
    head: list[int] = []
    for line in _LINE.finditer(text):
        sign = next((item for item in "|\t;," if item in line[0]), "")
        cells = list(re.finditer(rf"[^{re.escape(sign)}]+", line[0])) if sign else []
        named = [at for at, cell in enumerate(cells) if _HEADING.fullmatch(cell[0])]
        if named or not cells:
            head = named
        for at in head if not named else ():
            value = cells[at][0].strip(" \"'`*") if at < len(cells) else ""
            if plausible.is_prose_secret(value) or (len(value) >= 8 and plausible.is_random(value)):
                start = line.start() + cells[at].start() + cells[at][0].index(value)
                yield start, start + len(value)


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
    for match in _ENCODED.finditer(text):
        digits = re.sub(r"[\s\\=]", "", match[0]).replace("-", "+").replace("_", "/")
        try:
            plain = b64decode(digits + "=" * (-len(digits) % 4)).decode()
        except (Error, ValueError):
            continue
        if altered(plain):
            yield match.span()


def find_phrases(raw: bytes, text: str) -> Iterator[Span]:
    """The runs of words of BIP-39 with a valid checksum in them; any twelve where a word before says seed or wallet."""
    run: list[re.Match[str]] = []
    for word in _WORD.finditer(text):
        if word[1].lower() in _words():
            run.append(word)
            if word[2] is None:
                continue
        if _LENGTHS[0] <= len(run) <= _LONGEST_RUN and len({item[1].lower() for item in run}) >= _DISTINCT * len(run):
            named = _NAMED.search(text, max(0, run[0].start() - 80), run[0].start())
            numbers = [_words()[item[1].lower()] for item in run]
            parts = (numbers[at : at + size] for size in _LENGTHS for at in range(len(numbers) - size + 1))
            if named or any(map(_has_checksum, parts)):
                yield run[0].start(), run[-1].end(1)
        run = []


def _has_checksum(numbers: list[int]) -> bool:
    """Whether words, by number, end with the checksum of the others."""
    bits = len(numbers) // 3
    value = sum(number << 11 * at for at, number in enumerate(reversed(numbers)))
    entropy = (value >> bits).to_bytes(bits * 4)
    return sha256(entropy).digest()[0] >> 8 - bits == value & (1 << bits) - 1


@cache
def _words() -> dict[str, int]:
    return {word: at for at, word in enumerate(Path(__file__).with_name("bip39.txt").read_text().split())}
