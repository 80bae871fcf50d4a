"""Rules as data, run by RE2 in linear time: shapes that providers and programs give (rules.toml, and gitleaks.toml, see
NOTICE). What a value in them must look like is in `plausible`.

One RE2 set says in one pass over a text which rules match at all. Only those are run again, for the places.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ingest.patterns import SecretPattern
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
_BEFORE = "(?:^|[^A-Za-z0-9])"
_COUNTED = re.compile(r"\{\d+,?\d*\}.*")
_REST = r"[A-Za-z0-9_\-]*(?:[.+/=~][A-Za-z0-9_\-+/=~]+)*=*"


class SecretRule(NamedTuple):
    """A shape, and what the secret in it must be besides."""

    name: str
    regex: str
    check: str = "none"
    whole: bool = False
    """Whether the rest of the match goes, too."""


def rules() -> list[SecretRule]:
    """Return our own rules but for tokens, then those of gitleaks."""
    own = load("rules.toml")
    own_rules = [
        SecretRule(rule["id"], rule["regex"], rule.get("check", "none"), "whole" in rule) for rule in own["rules"]
    ]
    theirs = load("gitleaks.toml")["rules"]
    return own_rules + [
        SecretRule(rule["id"], rule["regex"].replace(_CONTEXT, ""), "random")
        for rule in theirs
        if "regex" in rule and "path" not in rule and rule["id"] not in own["left_out"]
    ]


def tokens() -> tuple[str, Finder]:
    """A pattern that says whether a text holds a token of a provider, and what finds them. Looking for so many
    alternatives of a counted length backwards, as a search for places does, takes RE2 milliseconds a token. So their
    beginnings are looked for, and each alternative is matched forwards from there."""
    alternatives: list[str] = load("rules.toml")["tokens"]
    beginnings = SecretPattern(
        _BEFORE + f"(?:{'|'.join(_COUNTED.sub('', alternative) for alternative in alternatives)})"
    )
    shape = f"(?:{'|'.join(alternatives)}){_REST}"
    whole = SecretPattern(shape)

    def find(raw: bytes, text: str) -> Iterator[Span]:
        end = 0
        for start, _ in beginnings.spans(raw):
            if start < end:
                continue
            start += raw[start] not in _ALPHANUMERIC
            end = whole.end(raw, start)
            token = text[start:end]
            mixed = (not token.isupper() and not token.islower()) or any(map(str.isdigit, token))
            if end and mixed and plausible.none(token):
                yield start, end

    return _BEFORE + shape, find


def finder(rule: SecretRule) -> Finder:
    """What finds the secrets of one rule."""
    pattern = SecretPattern(rule.regex)
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


def secret_in(match: Any) -> Span:
    """Return the place of the first group that took part in a match, else of the match."""
    for group in range(1, match.re.groups + 1):
        if (start := match.start(group)) >= 0:
            return start, match.end(group)
    return match.span()
