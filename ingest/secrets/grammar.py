"""Values that something names: a label, what assigns a value to it, and a value that looks like a secret.

One pass finds the labels (words.toml). The forms (grammar.toml) say what may stand between a label and a value, and are
tried at each label, never over the text, so that many of them cost little and none can scan what another one read. What
the value must look like is the other grammar, in `plausible`: a form names a check for each kind of label, because a
secret that a person has chosen looks different from one that a machine made. What is not a literal (a variable, a call,
a path, a placeholder) stays.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from ingest.patterns import SecretPattern
from ingest.secrets import plausible
from ingest.secrets.reading import is_label, load, read, spelled
from ingest.secrets.rules import CHECKS, JUDGED, Span, secret_in

_TAIL = r"(?:[_.\-]?{{tail}}){0,2}"
_CHOSEN = ("password", "secret", "code", "abroad", "foreign")
_KINDS = (*_CHOSEN, "token", "named")
_NAME = re.compile(
    spelled("(?i)(?:" + "|".join(f"(?P<{kind}>{{{{{kind}}}}})" for kind in _KINDS) + rf"){_TAIL}\Z")
)
_LONGEST_NAME = 128
_AROUND = 160
"""Characters before and after a label that are looked at."""
_ROW_KEY = re.compile(
    r"(?i)(?:idempotency|partition|primary|foreign|cache|sort|dedup\w{0,12}|row|object|group|lookup|unique|composite|range|hash"
    r"|map)[_.\- ]?key\W*\Z"
)
_SESSION = re.compile(r"(?i)session[_.\- ]?id\W*\Z")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What names a row, a request or a session of an agent opens nothing. The session of a web server is no UUID."""
_OPENING = re.compile(r"""\\*["'`]\Z""")
_RUN = re.compile(r"""(?:[^\s"'`<>\\]++|\\\r?\n[ \t]*+|\\(?![nrt"'`]))++""")
_OTHER_SCRIPT = re.compile(rb"[\x13-\x1f\x7f]")
_CONTINUED = re.compile(r"\\\r?\n[ \t]*+")
_WRAPPED = re.compile(r"(?:(?:\\?\r?\n|\\n)[ \t]*+[A-Za-z0-9+/]{16,}+={0,2}(?=[\s\"'\\]|$))++")
_NEXT = re.compile(r"""(?=[&;,\\%])(?:[&;,](?=\s*[A-Za-z_][\w .\-]{0,40}=|\s|$)|\\u00|%26|&amp;)""")
_LONGEST_LITERAL = 1024
_LONGEST_PREFIX = 16
_LONGEST_SETTING = 48
_TRAILING = ".,;:)]}"


class _Form(NamedTuple):
    """What stands before and after a label, and what its value must look like, by the kind of the label."""

    before: SecretPattern | None
    after: SecretPattern | None
    checks: Mapping[str, str]
    unless: re.Pattern[str]

    def value(self, raw: bytes, begin: int, stop: int) -> Span | None:
        """Return where the value of a label begins, and where the text that assigns it does."""
        if self.after is not None:
            end = self.after.end(raw, stop, stop + _AROUND)
            if not end or (self.before is not None and not _last(self.before, raw, begin)):
                return None
            return secret_in(self.after.groups(raw, stop, end))
        at = max(0, begin - _AROUND)
        window = raw[at:begin]
        if self.before is None or (match := _last(self.before, raw, begin)) is None:
            return None
        start, end = secret_in(self.before.groups(window, *match))
        return at + start, at + end


def _last(pattern: SecretPattern, raw: bytes, end: int) -> Span | None:
    """Return the place of a match that ends at `end`, in the characters before it."""
    return next(pattern.spans(raw[max(0, end - _AROUND) : end]), None)


class _Forms(NamedTuple):
    """The forms of a kind of label: those of which only what follows the label matters, and others."""

    free: list[_Form]
    bound: list[_Form]
    after: SecretPattern
    before: SecretPattern


@cache
def _forms(kind: str) -> _Forms:
    listed = [form for form in load("grammar.toml")["forms"] if _check(form, kind)]
    free = [form for form in listed if "before" not in form]
    bound = [form for form in listed if "before" in form]
    return _Forms(
        list(map(_form, free)),
        list(map(_form, bound)),
        _any(form["after"] for form in free),
        _any((form["before"] for form in bound), "$"),
    )


def _any(patterns: Iterable[str], end: str = "") -> SecretPattern:
    return SecretPattern(spelled(f"(?i)(?:{'|'.join(patterns)}){end}"))


def _form(form: Mapping[str, str]) -> _Form:
    return _Form(
        _any([form["before"]], "$") if "before" in form else None,
        _any([form["after"]]) if "after" in form else None,
        form,
        re.compile(form.get("unless", r"(?!)")),
    )


def _check(form: Mapping[str, str], kind: str) -> str | None:
    """Return what the value of such a label must look like in a form; nothing where the form does not apply to it."""
    return form.get(kind, form.get("password") if kind in _CHOSEN else None)


def find_labelled(raw: bytes, text: str) -> Iterator[Span]:
    """Return the values that labels name and that look like secrets."""
    consumed = 0
    for begin, stop in _LABELS.spans(raw):
        if begin < consumed or not is_label(text[begin:stop]):
            continue
        kind = _kind(raw[begin:stop])
        forms = _forms(kind)
        tried = forms.free if forms.after.end(raw, stop, stop + _AROUND) else []
        if _last(forms.before, raw, begin):
            tried = [*tried, *forms.bound]
        for form in tried:
            if (value := form.value(raw, begin, stop)) and (
                span := _secret_of(raw, text, (begin, stop), value, form, kind)
            ):
                consumed = span[1]
                yield span
                break


def _secret_of(raw: bytes, text: str, label: Span, value: Span, form: _Form, kind: str) -> Span | None:
    """Return the place of a value, if it is a secret."""
    begin, stop = label
    start = value[0]
    if form.unless.search(text, stop, start):
        return None
    opening = _OPENING.search(text, max(0, start - 8), start)
    quote = "" if opening is None else opening[0]
    end = _end(text, start, quote) if start >= stop else value[1]
    if not quote and (other := _OTHER_SCRIPT.search(raw, start, end)):
        end = other.start()
    judged = _CONTINUED.sub("", text[start : min(end, start + JUDGED)])
    if not _is_secret(judged, text[max(0, begin - _LONGEST_PREFIX) : stop], _check(form.checks, kind) or "", quoted=bool(quote)):
        return None
    if end - start >= JUDGED and (rest := _RUN.match(text, end)):
        end = rest.end()
    if wrapped := _WRAPPED.match(text, end) if end - start >= 40 else None:
        end = wrapped.end()
    return start, end


def _end(text: str, start: int, quote: str) -> int:
    """Where a value ends: at its closing quote, else where its run of characters does."""
    if quote:
        limit = min(len(text), start + _LONGEST_LITERAL)
        end = text.find(quote, start, limit)
        while end > start and not quote.startswith("\\") and text[end - 1] == "\\":
            end = text.find(quote, end + 1, limit)
        if end >= 0 and "\n" not in text[start:end]:
            return end
    run = _RUN.match(text, start, start + JUDGED)
    end = run.end() if run else start
    if not quote:
        cut = _NEXT.search(text, start + 1, min(end, start + JUDGED) + _LONGEST_SETTING)
        end = min(end, cut.start()) if cut else end
        while end > start and text[end - 1] in _TRAILING:
            end -= 1
    return end


_LABELS = SecretPattern(
    spelled(r"(?i)(?:{{label}})(?:[_.\-]?{{tail}}){0,2}|{{named}}(?:[_.\-]?{{tail}}){0,2}\b"), longest=True
)


@lru_cache(4096)
def _kind(label: bytes) -> str:
    match = _NAME.match(label.decode())
    return "" if match is None or match.lastgroup is None else match.lastgroup


@lru_cache(4096)
def check_of(name: str) -> str | None:
    """Return what the value of such a name must look like to be a secret; None for a name without a label."""
    match = _NAME.search(read(name[-_LONGEST_NAME:]).decode())
    if match is None or not is_label(name):
        return None
    return "random" if match.lastgroup in ("token", "named") else "assigned"


def is_secret(value: str, name: str) -> bool:
    """Return whether the value of a name is a secret."""
    check = check_of(name)
    return check is not None and _is_secret(value[:JUDGED], name, check, quoted=True)


def _is_secret(value: str, name: str, check: str, *, quoted: bool) -> bool:
    identifies = check == "random" and (
        _ROW_KEY.search(name) or (_SESSION.search(name) and _UUID.fullmatch(value) is not None)
    )
    return not identifies and CHECKS[check](value, quoted)
