"""Secrets of many lines, or of many parts: private keys in PEM, private spans, cookies."""

import re
from collections.abc import Iterator

Span = tuple[int, int]

PRIVATE = "[REDACTED]"

PEM_TRIGGER = r"(?i)-{3,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{3,5}"
_BEGIN = re.compile(r"(?i)-{3,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{3,5}")
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
    r"(?i)\b(?:set-)?cookie\d?\\*[\"']?\]?\s*(?:=>|[:=,])\s*\\*[\"']?[^\s=;,\"']+=[^\s;\"']{4}"
    r"|(?:\s-b|--cookie)(?:\s+|=)[\"']?[^\s=;\"']+=[^\s;\"']{4}"
)
_COOKIE = re.compile(
    r"(?i)(?:\b(?:set-)?cookie\d?\\*+[\"']?\]?\s*+(?:=>|[:=,])\s*+\\*+[\"']?+|(?:\s-b|--cookie)(?:\s+|=)[\"']?+)"
    r"(?P<pairs>[^\s=;,\"'\\]{1,200}+=[^;\r\n\"'\\]*+(?:;\s*+[^\r\n\"'\\;]*+)*+)"
)
_SHORTEST = 8
_NO_VALUE = ("[REDACTED", "$", "<", "{")
_ATTRIBUTES = frozenset(("expires", "max-age", "path", "domain", "samesite", "version", "priority"))


def find_pem(raw: bytes, text: str) -> Iterator[Span]:
    """The private keys in PEM, also on one line, with escaped line ends, and those whose end is missing."""
    begins = list(_BEGIN.finditer(text))
    ends = [found.end() for found in _END.finditer(text)]
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
            found = value.strip()
            if name.strip().lower() not in _ATTRIBUTES and len(found) >= _SHORTEST and not found.startswith(_NO_VALUE):
                at = start + len(name) + 1 + value.index(found)
                yield at, at + len(found)
            start += len(pair) + 1
