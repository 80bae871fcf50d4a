"""Secrets of many lines, or of many parts: private keys in PEM, private spans, cookies, Kubernetes Secrets, tables."""

import re
from collections.abc import Iterator
from itertools import pairwise

from ingest.secrets import plausible

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


def find_kubernetes(raw: bytes, text: str) -> Iterator[Span]:
    """The values under `data` and `stringData` of Kubernetes Secrets, in YAML and JSON."""
    bounds = [0, *(found.end() for found in _DOCUMENT.finditer(text)), len(text)]
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
        sign = next((one for one in "|\t;," if one in line[0]), "")
        cells = list(re.finditer(rf"[^{re.escape(sign)}]+", line[0])) if sign else []
        named = [at for at, cell in enumerate(cells) if _HEADING.fullmatch(cell[0])]
        if named or not cells:
            head = named
        for at in head if not named else ():
            value = cells[at][0].strip(" \"'`*") if at < len(cells) else ""
            if plausible.is_prose_secret(value) or (len(value) >= 8 and plausible.is_random(value)):
                start = line.start() + cells[at].start() + cells[at][0].index(value)
                yield start, start + len(value)
