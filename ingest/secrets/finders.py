"""Finders of secrets by their own shape: what providers and programs give, blocks, tables, encoded forms.

- Secrets of many lines or parts: private keys in PEM, private spans, cookies, Kubernetes Secrets, tables.
- Secrets in an encoded form: files in base64, the words of a wallet's key (BIP-39).
- Rules as data, run by RE2 in linear time: our own (rules.toml) and those of gitleaks (gitleaks.toml, see NOTICE).
  What a value in them must look like is in `plausible`.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ingest.patterns import BuiltInPattern
from ingest.secrets import plausible
from ingest.secrets.reading import load

Span = tuple[int, int]
Finder = Callable[[bytes, str], Iterator[Span]]
"""The places of secrets in a text, given as ASCII bytes and as text with equal offsets."""

JUDGED = 80
"""How much of a value is looked at: enough to tell, and not so much that many long ones cost more than their length."""
_ALPHANUMERIC = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_WHOLE_RUN = ("none", "no-words")
_QUOTES = ('"', "'", "`")
_CONTEXT = r"[\w.-]{0,50}?"
"""What gitleaks allows before a provider's name; a search that is not anchored needs none of it."""
_RUN = re.compile(r"[A-Za-z0-9_-]*+")
"""The rest after a secret of a fixed length, which is removed with it."""
_HEX = re.compile("[0-9a-f]*|[0-9A-F]*")
"""A digest that begins like a token."""
_BEFORE = "(?:^|[^A-Za-z0-9])"
_COUNTED = re.compile(r"\{\d+,?\d*\}.*")
_REST = r"[A-Za-z0-9_\-]*(?:[.+/=~][A-Za-z0-9_\-+/=~]+)*=*"

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
        columns = enumerate(cells) if len(cells) > 1 or sign == "|" else ()
        named = [at for at, cell in columns if _RE["heading"].fullmatch(cell[0])]
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


def finders(altered: Callable[[str], bool]) -> Iterator[tuple[str, Callable[[bytes, str], Iterator[Span]]]]:
    """Return what tells that a text may hold a block, and what finds it, for each kind.

    `altered` says whether a decoded text holds a secret.
    """
    for name, find in {
        "private-span": find_private,
        "private-key": find_pem,
        "cookie": find_cookies,
        "kubernetes-secret": find_kubernetes,
        "table": find_in_tables,
        "base64": partial(find_base64, altered=altered),
        "phrase": find_phrases,
    }.items():
        yield _BLOCKS[name]["trigger"], find


class SecretRule(NamedTuple):
    """A shape, and what the secret in it must be besides."""

    regex: str
    check: str = "none"
    whole: bool = False
    """Whether the rest of the match goes, too."""


def rules() -> list[SecretRule]:
    """Return our own rules but for tokens, then those of gitleaks."""
    own = load("rules.toml")
    own_rules = [SecretRule(rule["regex"], rule.get("check", "none"), "whole" in rule) for rule in own["rules"]]
    theirs = load("gitleaks.toml")["rules"]
    return own_rules + [
        SecretRule(rule["regex"].replace(_CONTEXT, ""), "random")
        for rule in theirs
        if "regex" in rule and "path" not in rule and rule["id"] not in own["left_out"]
    ]


def tokens() -> tuple[str, Finder]:
    """A pattern that says whether a text holds a token of a provider, and what finds them. Looking for so many
    alternatives of a counted length backwards, as a search for places does, takes RE2 milliseconds a token. So their
    beginnings are looked for, and each alternative is matched forwards from there."""
    alternatives: list[str] = load("rules.toml")["tokens"]
    beginnings = BuiltInPattern(
        _BEFORE + f"(?:{'|'.join(_COUNTED.sub('', alternative) for alternative in alternatives)})"
    )
    shape = f"(?:{'|'.join(alternatives)}){_REST}"
    whole = BuiltInPattern(shape)

    def find(raw: bytes, text: str) -> Iterator[Span]:
        end = 0
        for start, _ in beginnings.spans(raw):
            if start < end:
                continue
            start += raw[start] not in _ALPHANUMERIC
            end = whole.end(raw, start)
            token = text[start:end]
            mixed = (not token.isupper() and not token.islower()) or any(map(str.isdigit, token))
            if end and mixed and not _HEX.fullmatch(token) and plausible.none(token):
                yield start, end

    return _BEFORE + shape, find


def finder(rule: SecretRule) -> Finder:
    """What finds the secrets of one rule."""
    pattern = BuiltInPattern(rule.regex)
    check = plausible.check(rule.check)
    whole_run = rule.check in _WHOLE_RUN

    def find(raw: bytes, text: str) -> Iterator[Span]:
        consumed = 0
        for begin, stop in pattern.spans(raw):
            if begin < consumed:
                continue
            start, end = secret_in(pattern.groups(raw, begin, stop))
            if start == begin and start and raw[start - 1] in _ALPHANUMERIC and raw[start] in _ALPHANUMERIC:
                continue  # in the middle of a word: another word
            quoted = text[start - 1 : start] in _QUOTES and text[end : end + 1] in _QUOTES
            if not whole_run and not quoted:
                end = start + len(text[start:end].rstrip(".,;:)]}"))
            if check(text[start : min(end, start + JUDGED)], quoted):
                consumed = _RUN.match(text, end).end() if whole_run else end  # pyright: ignore[reportOptionalMemberAccess]
                yield (begin, consumed + quoted) if rule.whole else (start, consumed)

    return find


def secret_in(groups: list[Span]) -> Span:
    """Return the place of the first group that took part in a match, else of the match."""
    return next((group for group in groups[1:] if group[0] >= 0), groups[0])
