"""Values that something names: a label, what assigns a value to it, and a value that looks like a secret.

One pass finds the labels (words.toml). The forms (grammar.toml) say what may stand between a label and a value, and are
tried at each label, never over the text, so that many of them cost little and none can scan what another one read. What
the value must look like is the other grammar, in `plausible`: a form names a check for each kind of label, because a
secret that a person has chosen looks different from one that a machine made. What is not a literal (a variable, a call,
a path, a placeholder) stays.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from ingest.patterns import BuiltInPattern, which_begin
from ingest.secrets.finders import JUDGED, Span, secret_in
from ingest.secrets.plausible import check as checked
from ingest.secrets.plausible import identifies, is_words
from ingest.secrets.reading import is_label, load, read, spelled

_CHOSEN = ("password", "terse", "secret", "code", "abroad", "foreign")
_KINDS = (*_CHOSEN, "token", "named")
_NAME = re.compile(spelled("(?i)(?:" + "|".join(f"(?P<{kind}>{{{{{kind}}}}})" for kind in _KINDS) + r"){{tails}}\Z"))
_LONGEST_NAME = 128
_AROUND = 160
"""Characters before and after a label that are looked at."""
_OPENING = re.compile(r"""\\*["'`]\Z""")
_RUN = re.compile(r"""(?:[^\s"'`<>\\]++|\\\r?\n[ \t]*+|\\(?![nrt"'`]))++""")
_OTHER_SCRIPT = re.compile(rb"[\x13-\x1f\x7f]")
_CONTINUED = re.compile(r"\\\r?\n[ \t]*+")
_WRAPPED = re.compile(r"(?:(?:\\?\r?\n|\\n)[ \t]*+[A-Za-z0-9+/]{16,}+={0,2}(?=[\s\"'\\]|$))++")
_NEXT = re.compile(r"""(?=[&;,\\%])(?:[&;,](?=\s*[A-Za-z_][\w .\-]{0,40}=|\s|$)|\\u00|%26|&amp;)""")
_LONGEST_LITERAL = 1024
_REMEMBERED = 32
_LONGEST_PREFIX = 16
_LONGEST_SETTING = 48
_TRAILING = ".,;:)]}"


class _Form(NamedTuple):
    """What stands before and after a label, and what its value must look like, by the kind of the label."""

    before: BuiltInPattern
    after: BuiltInPattern
    checks: Mapping[str, str]

    @property
    def follows(self) -> bool:
        """Whether something must stand before the label."""
        return "before" in self.checks

    def value(self, raw: bytes, begin: int, stop: int) -> Span | None:
        """Return the place of a label's value, of which the end may be unknown."""
        at = max(0, begin - _AROUND)
        before = next(self.before.spans(raw[at:begin]), None) if self.follows else (0, 0)
        if before is None:
            return None
        groups = self.before.groups(raw[at:begin], *before) if self.follows else []
        if len(groups) < 2:
            return secret_in(self.after.groups(raw, stop, self.after.end(raw, stop, stop + _AROUND)))
        start, end = secret_in(groups)
        return at + start, at + end


@cache
def _forms(kind: str) -> tuple[list[_Form], Callable[[bytes], list[int]], BuiltInPattern]:
    """Return the forms of a kind of label, what says which of them match after the last letter of a label, by their
    numbers, and a pattern that matches where something must stand before a label, and does."""
    listed = [form for form in load("grammar.toml")["forms"] if _check(form, kind)]
    forms = [_Form(_any([form.get("before", "")], "$"), _any([form.get("after", "")]), form) for form in listed]
    after = which_begin([spelled(f"(?is:.)(?i:{form.get('after', '')})") for form in listed])
    return forms, after, _any((form["before"] for form in listed if "before" in form), "$")


def _any(patterns: Iterable[str], end: str = "") -> BuiltInPattern:
    return BuiltInPattern(spelled(f"(?i)(?:{'|'.join(patterns)}){end}"))


def _check(form: Mapping[str, str], kind: str) -> str:
    """Return what the value of such a label must look like in a form; nothing where the form does not apply to it."""
    return form.get(kind, form.get("password", "") if kind in _CHOSEN else "")


def find_labelled(raw: bytes, text: str) -> Iterator[Span]:
    """Return the values that labels name and that look like secrets."""
    consumed = 0
    without: set[tuple[str, str]] = set()  # surroundings of labels without a secret: repeated texts are judged once
    for begin, stop in _LABELS.spans(raw):
        if begin < consumed or not is_label(text[begin:stop]):
            continue
        surroundings = text[max(0, begin - _AROUND) : begin], text[begin : stop + _AROUND + _LONGEST_LITERAL]
        if surroundings in without:
            continue
        kind = _kind(raw[begin:stop])
        forms, after, before = _forms(kind)
        possible = [forms[number] for number in after(raw[stop - 1 : stop + _AROUND])]
        led = before.is_in(raw[max(0, begin - _AROUND) : begin])
        for form in possible:
            value = form.value(raw, begin, stop) if led or not form.follows else None
            if value and (span := _secret_of(raw, text, (begin, stop), value, _check(form.checks, kind))):
                consumed = span[1]
                yield span
                break
        else:
            if len(without) == _REMEMBERED:
                without.clear()
            without.add(surroundings)
            if kind == "foreign":
                consumed = stop + 1  # words of one another are one word
            elif " " not in (run := text[stop + 1 : stop + 1 + JUDGED]) and len(run) == JUDGED and is_words(run):
                consumed = stop + JUDGED // 2  # the rest of a long run of words would be read for each label in it


def _secret_of(raw: bytes, text: str, label: Span, value: Span, check: str) -> Span | None:
    """Return the place of a value, if it is a secret."""
    begin, stop = label
    start = value[0]
    opening = _OPENING.search(text, max(0, start - 8), start)
    quote = "" if opening is None else opening[0]
    end = end_of(text, start, quote) if start >= stop else value[1]
    if not quote and (other := _OTHER_SCRIPT.search(raw, start, end)):
        end = other.start()
    judged = _CONTINUED.sub("", text[start : min(end, start + JUDGED)])
    if not _is_secret(judged, text[max(0, begin - _LONGEST_PREFIX) : stop], check, quoted=bool(quote)):
        return None
    if end - start >= JUDGED and (rest := _RUN.match(text, end)):
        end = rest.end()
    if wrapped := _WRAPPED.match(text, end) if end - start >= 40 else None:
        end = wrapped.end()
    return start, end


def end_of(text: str, start: int, quote: str) -> int:
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
        end = start + len(text[start:end].rstrip(_TRAILING))
    return end


_LABELS = BuiltInPattern(spelled(r"(?i){{whole_label}}{{tails}}\b|{{label}}{{tails}}"), longest=True)


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
    return checked(check)(value, quoted) and not identifies(name, value)
