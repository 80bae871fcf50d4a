"""Finders of secrets that a regular expression alone cannot find: blocks, tables, assignments, encoded forms.

- Secrets of many lines or parts: private keys in PEM, private spans, cookies, Kubernetes Secrets, tables.
- Secrets in an encoded form: files in base64, the words of a wallet's key (BIP-39).
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from ingest.secrets import plausible
from ingest.secrets.reading import load

Span = tuple[int, int]

_BLOCKS = load("blocks.toml")
_RE = {part: re.compile(pattern) for block in _BLOCKS.values() for part, pattern in block.items() if part != "trigger"}


_NO_VALUE = ("[REDACTED", "$", "<", "{")

_ATTRIBUTES = frozenset(("expires", "max-age", "path", "domain", "samesite", "version", "priority"))


def find_pem(raw: bytes, text: str) -> Iterator[Span]:
    """The private keys in PEM, also on one line, with escaped line ends, and those whose end is missing."""
    begins = list(_RE["begin"].finditer(text))
    ends = [match.end() for match in _RE["end"].finditer(text)]
    after = 0
    for index, begin in enumerate(begins):
        until = begins[index + 1].start() if index + 1 < len(begins) else len(text)
        while after < len(ends) and ends[after] <= begin.end():
            after += 1
        if after < len(ends) and ends[after] <= until:
            stop = ends[after]
        else:
            body = _RE["body"].match(text, begin.end(), until)
            stop = body.end() if body else begin.end()
        if _RE["key"].search(text, begin.end(), stop):
            yield begin.start(), stop


def find_private(raw: bytes, text: str) -> Iterator[Span]:
    """The private spans, outermost ones; one that is not closed goes to the end. A tag in backticks is a mention."""
    depth = start = 0
    for tag in _RE["tag"].finditer(text):
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
    for cookies in _RE["cookie"].finditer(text):
        start = cookies.start("pairs")
        for pair in cookies["pairs"].split(";"):
            name, _, value = pair.partition("=")
            bare = value.strip()
            if name.strip().lower() not in _ATTRIBUTES and plausible.random(bare):
                at = start + len(name) + 1 + value.index(bare)
                yield at, at + len(bare)
            start += len(pair) + 1


def find_kubernetes(raw: bytes, text: str) -> Iterator[Span]:
    """The values under `data` and `stringData` of Kubernetes Secrets, in YAML and JSON."""
    bounds = [0, *(match.end() for match in _RE["document"].finditer(text)), len(text)]
    for start, end in pairwise(bounds):
        if not _RE["kind"].search(text, start, end):
            continue
        for block in _RE["data"].finditer(text, start, end):
            for value in _RE["entry"].finditer(text, *block.span("entries")):
                if not value["value"].startswith(_NO_VALUE):
                    yield value.span("value")


def find_in_tables(raw: bytes, text: str) -> Iterator[Span]:
    """The cells below a heading that says password or token, in Markdown and in lines of values between separators."""
    head: list[int] = []
    for line in _RE["line"].finditer(text):
        sign = next((item for item in "|\t;," if item in line[0]), "")
        cells = list(re.finditer(rf"[^{re.escape(sign)}]+", line[0])) if sign else []
        named = [at for at, cell in enumerate(cells) if _RE["heading"].fullmatch(cell[0])]
        if named or not cells:
            head = named
        for at in head if not named else ():
            value = cells[at][0].strip(" \"'`*") if at < len(cells) else ""
            if plausible.prose(value) or plausible.random(value):
                start = line.start() + cells[at].start() + cells[at][0].index(value)
                yield start, start + len(value)


_LENGTHS = (12, 15, 18, 21, 24)
_LONGEST_RUN = 26
"""Words in a row, two of which may belong to the sentence around a phrase. A longer run is a text of common words: one
in sixteen of its parts has a valid checksum by chance."""
_DISTINCT = 0.75
"""Share of different words, at least: keys are random, so nine of ten have at most one word twice."""


def find_base64(raw: bytes, text: str, altered: Callable[[str], bool]) -> Iterator[Span]:
    """The texts in base64 of which `altered` says that they hold a secret."""
    for match in _RE["encoded"].finditer(text):
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
    for word in _RE["word"].finditer(text):
        if word[1].lower() in _words():
            run.append(word)
            if word[2] is None:
                continue
        if _LENGTHS[0] <= len(run) <= _LONGEST_RUN and len({item[1].lower() for item in run}) >= _DISTINCT * len(run):
            named = _RE["named"].search(text, max(0, run[0].start() - 80), run[0].start())
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


def finders(altered: Callable[[str], bool]) -> Iterator[tuple[str, str, Callable[[bytes, str], Iterator[Span]]]]:
    """Return the names of blocks, what tells that a text may hold one, and what finds them. `altered` says whether a
    decoded text holds a secret."""
    for name, find in {
        "private-span": find_private,
        "private-key": find_pem,
        "cookie": find_cookies,
        "kubernetes-secret": find_kubernetes,
        "table": find_in_tables,
        "base64": partial(find_base64, altered=altered),
        "phrase": find_phrases,
    }.items():
        yield name, _BLOCKS[name]["trigger"], find
