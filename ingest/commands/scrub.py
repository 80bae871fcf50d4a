"""Secrets and private text are taken out of a write before it is stored, indexed or broadcast.

Guarantee: a text holding one of the shapes in `_RULES` comes back without it, and scrubbing twice changes nothing
more. The shapes are those that agentmemory removes; they are matched leaf by leaf, never over JSON text,
so that a secret at the end of a string cannot swallow the quote that closes it.

Every write pays for this, so a text is first reduced to one question a C loop can answer: every shape but the private
block and Slack's holds a run of at least 20 key characters. Ordinary prose has no such run and leaves after one pass.
All patterns are linear: repetitions are possessive or bounded, and no failed attempt can rescan what another one read.
"""

import re
from collections.abc import Iterator
from operator import is_
from typing import Any, NamedTuple, cast

PRIVATE = "[REDACTED]"
SECRET = "[REDACTED_SECRET]"
_PIECE_CHARS = 64 << 10
MAX_DEPTH = 128
"""Levels a value may nest. JSON encoders give up at the interpreter's 1,000 frames, and a level takes two here."""


class NestedTooDeep(ValueError):
    """A value nests further than a write may."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"nested deeper than {limit} levels")
        self.limit = limit


class KeyIsNoText(ValueError):
    """A mapping has a key that is no text: msgpack can say that, JSON, in which it will be read, cannot."""

    def __init__(self, key: object) -> None:
        super().__init__(f"{key!r} is a key, and keys are text")


class _Rule(NamedTuple):
    """`shape` can match only where `mark` occurs, in lower-cased text.

    The whole match goes, or only its group `gone`; a match with a group `kept` stays.
    """

    mark: str  # not bytes: `in` is five times faster on str
    shape: re.Pattern[bytes]


_KEY_RUN = 20
_KEY_CHARACTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+="
_CLASSES = bytes(0x61 if code in _KEY_CHARACTERS else 0x20 for code in range(256))
_LONG_RUN = b"a" * _KEY_RUN
_GAP = b" \t\r\n\f\v\\\"'=:"
"""What may stand between a keyword and its value."""
_SHORT_KEY = re.compile(rb"-(?<=[xX][oO][xX][bB]-)")
"""The one prefix that makes a secret of fewer than 20 characters; written to be found by its rarest character."""

_OPEN, _CLOSE = b"<private>", b"</private>"
_SHORTEST_BLOCK = len(_OPEN) + len(_CLOSE)
_KEYWORDS = ("api_key", "api-key", "apikey", "secret", "token", "password", "credential", "auth")
_LONGEST_KEYWORD = max(map(len, _KEYWORDS))
_SECRET_VALUE = re.compile(r"""\s*+["']?[A-Za-z0-9_\-/.+]{20,}+\S*+""")


def _assignment(keyword: str) -> _Rule:
    """Returns the rule for `keyword = value`; after a quoted keyword, as in JSON text, only the value goes."""
    value = rb"[a-z0-9_\-/.+]{20,}+"
    plain = rb"""[ \t\r\n\f\v]*+[=:][ \t\r\n\f\v]*+(?P<q>\\*+["'])?+""" + value + rb"(?(q)(?:(?P=q))?)"
    quoted = rb"""\\*+["'][ \t\r\n\f\v]*+[=:][ \t\r\n\f\v]*+(?:\\*+["'])?+(?P<gone>""" + value + rb"={0,2})"
    return _Rule(keyword, re.compile(re.escape(keyword.encode()) + rb"(?:" + plain + rb"|" + quoted + rb")"))


def _prefix(shape: bytes, rest: bytes, mark: str) -> _Rule:
    """Returns the rule for a key that starts with `shape`, which a letter or digit must not precede.

    The look-behind follows the prefix instead of leading it, because a leading one stops `re` from skipping ahead.
    """
    return _Rule(mark, re.compile(shape + rb"(?<![a-z0-9]" + shape + rb")" + rest))


_RULES = (
    *map(_assignment, _KEYWORDS),
    _Rule("bearer", re.compile(rb"bearer[ \t\r\n\f\v]++[a-z0-9._\-+/=]{20,}+")),
    # sk-proj- and sk-ant- are longer spellings of the same shape.
    _prefix(rb"[spra]k-", rb"[a-z0-9][a-z0-9_\-]{19,}+", "k-"),
    _prefix(rb"gh[pus]_", rb"[a-z0-9]{36,}+", "gh"),
    _prefix(rb"github_pat_", rb"[a-z0-9_]{22,}+", "github_pat_"),
    _prefix(rb"xoxb-", rb"[a-z0-9\-]++", "xoxb-"),
    # Fixed-length keys take the rest of their run along: what was cut off would otherwise gain a left boundary.
    _prefix(rb"akia", rb"[a-z0-9]{16,}+", "akia"),
    _prefix(rb"aiza", rb"[a-z0-9_\-]{35,}+", "aiza"),
    # A run that is no JWT is consumed and kept, so that a later `eyj` inside it is not tried again.
    _prefix(rb"eyj", rb"[a-z0-9_\-]{10,}+(?:\.[a-z0-9_\-]{10,}+\.[a-z0-9_\-]{10,}+|(?P<kept>))", "eyj"),
    _prefix(rb"npm_", rb"[a-z0-9]{36,}+", "npm_"),
    _prefix(rb"glpat-", rb"[a-z0-9_\-]{20,}+", "glpat-"),
    _prefix(rb"dop_v1_", rb"[a-z0-9]{64,}+", "dop_v1_"),
)


def scrub_text(text: str) -> str:
    """Returns `text` without private blocks and secrets; the same object when it holds none."""
    if len(text) < _SHORTEST_BLOCK and "-" not in text:
        return text
    if "<" in text:
        text = _without_private_blocks(text)
    ascii_text = text.encode("ascii", "replace")  # one byte a character, so that places found in it hold in `text`
    window = _suspicious_window(ascii_text)
    return _without_secrets(text, ascii_text.lower(), window) if window else text


def scrub(value: Any) -> Any:
    """Returns `value` with every string leaf repaired and scrubbed; the same object when nothing changed.

    Walks dict, list and tuple. A string under a key that ends in a secret's name (`password`, `accessToken`), directly
    or in a list, is read as the value of an assignment: it goes when it starts with 20 or more key characters. Keys
    are repaired (two keys that become equal leave the later value) and otherwise untouched, as is every other type.
    Raises `NestedTooDeep` beyond `MAX_DEPTH` levels.
    """
    return _walk(value, named_secret=False, depth=0)


def repair_text(text: str) -> str:
    """Returns `text` with split surrogate pairs joined and lone ones replaced by U+FFFD; else the same object."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(map(_repaired, _pieces(text)))
    return text


def _repaired(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _pieces(text: str) -> Iterator[str]:
    """A text in pieces that no surrogate pair is split by: one call over megabytes of lone ones holds up everybody."""
    start = 0
    while start < len(text):
        end = start + _PIECE_CHARS
        end += "\ud800" <= text[end - 1 : end] <= "\udbff"
        yield text[start:end]
        start = end


def _walk(value: Any, *, named_secret: bool, depth: int) -> Any:
    if isinstance(value, str):
        return _scrub_leaf(value, named_secret=named_secret)
    if not isinstance(value, (dict, list, tuple)):
        return value
    if depth == MAX_DEPTH:
        raise NestedTooDeep(MAX_DEPTH)
    if isinstance(value, dict):
        return _walk_dict(cast(dict[Any, Any], value), depth=depth + 1)
    items = cast(list[Any] | tuple[Any, ...], value)
    fresh = [_walk(item, named_secret=named_secret, depth=depth + 1) for item in items]
    if all(map(is_, fresh, items)):
        return items
    return tuple(fresh) if isinstance(items, tuple) else fresh


def _walk_dict(value: dict[Any, Any], *, depth: int) -> dict[Any, Any]:
    fresh: dict[Any, Any] = {}
    changed = False
    for key, item in value.items():
        if not isinstance(key, str):
            raise KeyIsNoText(key)
        new_key, named_secret = repair_text(key), key.lower().endswith(_KEYWORDS)
        new = _walk(item, named_secret=named_secret, depth=depth)
        changed = changed or new is not item or new_key is not key
        fresh[new_key] = new
    return fresh if changed else value


def _scrub_leaf(text: str, *, named_secret: bool) -> str:
    text = repair_text(text)
    if named_secret and (found := _SECRET_VALUE.match(text)):
        text = SECRET + text[found.end() :]
    return scrub_text(text)


def _without_private_blocks(text: str) -> str:
    folded = text.encode("ascii", "replace").lower()
    kept: list[str] = []
    end = 0
    while (start := folded.find(_OPEN, end)) >= 0 and (close := folded.find(_CLOSE, start)) >= 0:
        kept += (text[end:start], PRIVATE)
        end = close + len(_CLOSE)
    return "".join((*kept, text[end:])) if kept else text


def _suspicious_window(ascii_text: bytes) -> str:
    """Returns the part, lower-cased, that the beginning of any secret must be in; empty when there can be none."""
    if _SHORT_KEY.search(ascii_text):
        return ascii_text.lower().decode()
    classes = ascii_text.translate(_CLASSES)
    first = classes.find(_LONG_RUN)
    if first < 0:
        return ""
    last_end = classes.rfind(_LONG_RUN) + _KEY_RUN
    keyword_end = len(ascii_text[:first].rstrip(_GAP))
    return ascii_text[max(0, keyword_end - _LONGEST_KEYWORD) : last_end].lower().decode()


def _without_secrets(text: str, folded: bytes, window: str) -> str:
    for rule in _RULES:
        if rule.mark not in window:
            continue
        kept: list[str] = []
        end = 0
        for found in rule.shape.finditer(folded):
            if found.lastgroup == "kept":
                continue
            start, stop = found.span("gone" if found.lastgroup == "gone" else 0)
            kept += (text[end:start], SECRET)
            end = stop
        if kept:
            text = "".join((*kept, text[end:]))
            folded = text.encode("ascii", "replace").lower()
            window = folded.decode()
    return text
