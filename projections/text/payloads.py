"""What a payload says, apart from how it is written: the values of JSON, also of JSON text, without its keys. Pure.

The answers of tools arrive as JSON text: whole, cut at either end, within other text, within the strings of other JSON.
One scan reads all of it; it never fails, and its work is linear in the text. What stands in quotes before a colon names
a value, and what stands in quotes otherwise is one. (A parser ends at the first fault, and a cut text has one.)

A data URL of any size is named by a short marker, `[image/png, 68 bytes]`, in whatever is derived from a text, and says
nothing: no fact, concept or file is read from it, from its markdown or HTML wrapping (with the alternative text), or
from a marker.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import repeat
from typing import Any, cast
from urllib.parse import unquote_to_bytes

import msgspec

from projections.kernel.module import native

_TYPE = r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+*-]*"
_URL = (
    rf"data:(?P<type>{_TYPE})?(?P<parameters>(?:;[a-z0-9.+-]+(?:=[^;,\s\"'<>()\\]{{0,100}})?)*),"
    r"(?P<body>[^\s\"'<>()\[\]{}`|\\]*)"
)
_EMBEDDED = re.compile(
    rf"(?P<markdown>!\[[^\]\n]{{0,200}}\]\(\s*<?)?(?P<html><img\b[^<>]{{0,500}}?\bsrc\s*=\s*\\?[\"']?)?"
    rf"(?<![a-z0-9])(?:{_URL})"
    r"(?(markdown)[^)\n]{0,200}\)?)(?(html)[^<>]{0,500}>?)",
    re.IGNORECASE,
)
_DRAWING = re.compile(r"\[image/svg\+xml, 0 bytes\]<svg")
_MARKERS = re.compile(
    rf"\[(?:{_TYPE}|base64), [\d,]+ bytes\]"
    r"|\[image sha256-[^\]\n]{0,200}\]"
    r"|\[[\d,]+ characters of base64\]"
    r"|(?:… )?\[cut(?:: [\d,]+ of [\d,]+ characters are kept)?\]",
    re.IGNORECASE,
)
_MARKER_END = re.compile(r"(?:bytes|of base64)\]|\[(?:cut|image )", re.IGNORECASE)
_SIGNATURES = {
    "iVBORw0KGgo": "image/png",
    "/9j/4": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "PHN2Zy": "image/svg+xml",
    "JVBERi0": "application/pdf",
}
"""How files begin in base64."""
BEGINNINGS = tuple(_SIGNATURES)
_BARE = re.compile(rf"(?<![\w+/=-])(?P<begins>{'|'.join(_SIGNATURES)})[A-Za-z0-9+/_-]{{8,}}={{0,2}}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_WORDLIKE = re.compile(r"[a-z]{9}")
_LEAST_CHARS, _LEAST_SIGNED_CHARS = 40, 16
_UPPER_SHARE = 0.25
"""Capitals in base64 are four of ten; in a long name written in camel case fewer than two."""


def named(text: str) -> str:
    """The text with a marker in the place of each data URL and of what is base64: an image, or the whole text."""
    if not compiled_payloads.may_embed(text):
        return text
    if "data:" in text.lower():
        text = _without_drawings(_EMBEDDED.sub(_marker, text))
    for begins in _SIGNATURES:
        if begins in text:
            text = _BARE.sub(lambda match: f"[{_SIGNATURES[match['begins']]}, {_size(match[0]):,} bytes]", text)
            break
    whole = text.strip()
    return f"[base64, {_size(whole):,} bytes]" if is_base64(whole) else text


_FRAME = re.compile(
    r"^(?:(?:Chunk ID|Wall time|Original token count|Exit Code|Signal|Process Group PGID|Background PIDs): .*"
    r"|Process exited with code \d+|Output:\s*|(?:Error|Directory): \((?:none|root)\)|\*\*\* (?:Begin|End) Patch|@@.*"
    r"|\(End of file.*\))$|^\*\*\* (?:Update|Add|Delete) File: ",
    re.MULTILINE,
)
_FRAME_SIGNS = ("*** ", "Wall time", "Exit Code", "(End of file")
"""One of which is in each text that has frames."""
compiled_payloads = native.Payloads([*BEGINNINGS, *_FRAME_SIGNS])


def unframed(text: str) -> str:
    """The text without what the tools of Codex, Gemini CLI and OpenCode write around each output and patch."""
    return _FRAME.sub("", text) if any(map(text.__contains__, _FRAME_SIGNS)) else text


def removed(text: str) -> str:
    """The text without data URLs, base64 and markers: what is left of it says something."""
    text = named(text)
    return _MARKERS.sub(" ", text) if "[" in text and _MARKER_END.search(text) else text


def is_base64(word: str) -> bool:
    """Whether a word is binary data: it begins like an image's, or is long and mixed as no name is."""
    if len(word) < _LEAST_SIGNED_CHARS or " " in word:
        return False
    if word.startswith(BEGINNINGS):
        return _BASE64.fullmatch(word) is not None
    if len(word) < _LEAST_CHARS or _WORDLIKE.search(word) or not _BASE64.fullmatch(word):
        return False
    capitals = sum(map(str.isupper, word))
    return capitals >= _UPPER_SHARE * len(word) and any(map(str.isdigit, word)) and not word.isupper()


def _marker(match: re.Match[str]) -> str:
    kind = (match["type"] or "text/plain").lower()
    body = match["body"]
    is_encoded = match["parameters"].lower().endswith(";base64")
    return f"[{kind}, {_size(body) if is_encoded else len(unquote_to_bytes(body)):,} bytes]"


def _without_drawings(text: str) -> str:
    """The text without raw SVG: the marker before it only covers the beginning of its data URL."""
    parts: list[str] = []
    at = 0
    while match := _DRAWING.search(text, at):
        start = match.end() - len("<svg")
        end = text.find("</svg>", start)
        end = len(text) if end < 0 else end + len("</svg>")
        parts += [text[at : match.start()], f"[image/svg+xml, {end - start:,} bytes]"]
        at = end
    return "".join([*parts, text[at:]])


def _size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


MAX_NODES = 256
"""JSON nodes visited in search of text, the end of each container counted as one."""
MAX_NESTED = 6
"""JSON text within the strings of JSON text; deeper, keys are left out, and the rest is taken as it stands."""
PATTERN_FIELDS = frozenset(("pattern", "glob", "regex", "regexp", "include", "exclude", "output_mode"))
"""Of a tool's input: what was looked for, and how, which is nothing that was found."""
STATE_FIELDS = frozenset(
    ("status", "state", "mode", "type", "subagent_type", "sandbox_permissions", "editor", "endedReason", "end_reason")
)
"""Where tools put one word of a fixed list, as `in_progress`."""
BINARY_FIELDS = frozenset(("base64", "image_data", "imageData", "imageBase64", "signature"))
_ID_FIELDS = ("_id", "Id", "ID", "_uuid", "Uuid")
"""How the names of fields end whose text is an id; `id` and `uuid` by themselves, too."""

_OPENING = re.compile(
    r"[{\[](?=[\s{\[]{0,64}(?:(?P<escape>\\{0,32})\"|[}\]]|(?:-?\d[\d.eE+-]{0,40}|true|false|null)\s{0,64},))"
)
_STRING = re.compile(r"\"((?:[^\"\\]++|\\.)*+)(\"|\\?\Z)", re.DOTALL)
_KEY = re.compile(
    r"(?:\\(?<![\\\"]\\)\\{0,31}\"(?P<escaped>[^\"\\\n]{0,200})|\"(?<![\\\"]\")(?P<quoted>[^\"\\\n]{0,200})"
    r"|'(?<![\w']')(?P<single>[^'\\\n]{1,200})'(?=\s*:))(?(single)|\\{0,32}\")\s*:"
)
"""Each alternative begins with a literal, which makes the search ten times as fast."""
_CUT_KEY = re.compile(r"([^\"\\\n{}\[\],:]{1,200})\\{0,32}\"\s*:")
"""At the beginning of a text."""
_KEY_END = re.compile(r"[\"']\s*:")
_SYNTAX = " \t\"',[]{}"
_LITERALS = frozenset(("true", "false", "null", "NaN", "Infinity"))
_ESCAPE = re.compile(
    r"\\(?:u(?P<high>d[89ab][0-9a-f]{2})\\u(?P<low>d[c-f][0-9a-f]{2})|u(?P<one>[0-9a-f]{4})|u[0-9a-f]{0,3}\Z|(?P<sign>.)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_SIGNS = {"n": "\n", "r": "\n", "t": " ", "b": " ", "f": "\n"}


class Reading:
    """Reads texts and values. Collects `names`, the lower-cased names that were met, of fields and of what they hide:
    tools, patterns. `fields` are the texts in JSON text with the names of their fields.
    """

    def __init__(self, *, is_tool_use: bool = False) -> None:
        self.names: set[str] = set()
        self.fields: list[tuple[str, str]] = []
        self._is_tool_use = is_tool_use

    def text(self, text: str) -> str:
        """What a text says: itself without data URLs, unless there is JSON in it."""
        if compiled_payloads.is_plain(text):
            return text
        values, names, fields = _values(text, self._is_tool_use)
        self.names |= names
        self.fields += fields
        return values

    def value(self, value: Any, limit: int) -> str:
        """What the texts in a JSON value's first `MAX_NODES` nodes say, line by line, `limit` characters at most."""
        lines: list[str] = []
        left = limit
        for field, text in self._leaves(value):
            if left > 0 and self._tells(field, text):
                lines.append(self.text(text[:left]))
                left -= min(len(text), left) + 1
        return "\n".join(lines)

    def _leaves(self, value: Any) -> Iterator[tuple[str, str]]:
        """Yields the non-empty strings in a JSON value's first nodes with the names of their fields, in order."""
        pending: list[Iterator[tuple[Any, Any]]] = [iter([("", value)])]
        for _ in range(MAX_NODES + 1):
            item = next(pending[-1], None)
            if item is None:
                pending.pop()
                if not pending:
                    return
                continue
            name, node = item
            field = name if isinstance(name, str) else ""
            self._named(field)
            if isinstance(node, str):
                if node:
                    yield field, node
            elif isinstance(node, dict):
                pending.append(iter(cast(dict[Any, Any], node).items()))
            elif isinstance(node, list | tuple):
                pending.append(zip(repeat(field), cast(Iterable[Any], node)))

    def read(self, text: str, depth: int = 0) -> str:
        """Return the values in the JSON of a text at a depth of nesting, and what is beside; data URLs stay."""
        if compiled_payloads.is_plain(text):
            return text
        if depth > MAX_NESTED or ('"' not in text and "{" not in text and "[" not in text):
            return self._without_keys(text)
        whole = _STRING.match(text.strip())
        if whole and whole.end() == len(text.strip()):
            return self.read(_decoded(whole[1]), depth + 1) if "\\" in whole[1] else self._without_keys(whole[1])
        lines: list[str] = []
        at = 0
        while opening := _OPENING.search(text, at):
            lines.append(self._without_keys(text[at : opening.start()]))
            if opening["escape"]:
                lines.append(self.read(_decoded(text[opening.start() :]), depth + 1))
                return "\n".join(lines)
            at = self._container(text, opening.start(), depth, lines)
        lines.append(self._without_keys(text[at:]))
        return "\n".join(lines) if len(lines) > 1 else lines[0]

    def _container(self, text: str, start: int, depth: int, lines: list[str]) -> int:
        """Add the values of the object or list that begins at `start`; returns where it ends."""
        end, names, values = native.json_container(text, start)
        for name in names:
            self._named(_decoded(name))
        for field, value in values:
            if field is not None:
                self._value(_decoded(field), _decoded(value), depth, lines)
            elif value not in _LITERALS:
                lines.append(value)
        return end

    def _value(self, field: str, text: str, depth: int, lines: list[str]) -> None:
        if text:
            self.fields.append((field, text))
            if self._tells(field, text):
                lines.append(self.read(text, depth + 1))

    def _without_keys(self, text: str) -> str:
        if ":" not in text or not _KEY_END.search(text):
            return text
        cut = None if _KEY.match(text) else _CUT_KEY.match(text)
        if cut:
            self._named(cut[1])
        values, keys = _KEY.subn(self._dropped, text[cut.end() :] if cut else text)
        values = "\n" + values if cut else values
        return "\n".join([line.strip(_SYNTAX) for line in values.split("\n")]) if keys or cut else text

    def _dropped(self, key: re.Match[str]) -> str:
        self._named(key[key.lastindex or 0])
        return "\n"

    def _named(self, name: str) -> None:
        if name:
            self.names.add(name.strip().lower())

    def _tells(self, field: str, text: str) -> bool:
        """Whether the text of a field says something: not a tool's name, an id, a state, a pattern or an image."""
        if field == "tool_name" or (self._is_tool_use and field in PATTERN_FIELDS):
            self._named(text)
            return False
        if field in STATE_FIELDS and " " not in text:
            return False
        return not (field in ("id", "uuid") or field in BINARY_FIELDS or field.endswith(_ID_FIELDS))


@lru_cache(maxsize=4)
def _values(text: str, is_tool_use: bool) -> tuple[str, Set[str], Sequence[tuple[str, str]]]:
    """Return what a text says, the names met in it and its fields. Cached, as an output is read for its document's
    fields and again for the headline of its call."""
    reading = Reading(is_tool_use=is_tool_use)
    return unframed(removed(reading.read(text))), reading.names, reading.fields


def _decoded(raw: str) -> str:
    """The text of a JSON string's inside; a half of a pair of surrogates becomes the replacement character."""
    return _ESCAPE.sub(_unescaped, raw) if "\\" in raw else raw


def _unescaped(match: re.Match[str]) -> str:
    if match["high"]:
        return chr(0x10000 + ((int(match["high"], 16) - 0xD800) << 10) + int(match["low"], 16) - 0xDC00)
    if match["one"]:
        code = int(match["one"], 16)
        return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= code <= 0xDFFF or not code else chr(code)
    sign = match["sign"] or ""
    return _SIGNS.get(sign, sign)


def as_text(value: Any, limit: int) -> str:
    """Returns at least the first `limit` + 1 characters of a string or of a value's JSON text; "" for nothing.

    Data URLs are named.
    """
    if value is None or value == {} or value == []:
        return ""
    if isinstance(value, str):
        return named(value.strip())[: limit + 1]
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return named(_as_text_slowly(value, limit))
    return named(encoded.decode())[: limit + 1]


def _as_text_slowly(value: Any, limit: int) -> str:
    """For what msgspec refuses (lone surrogates, huge integers, deep nesting): stops as soon as it has enough."""
    encoder = json.JSONEncoder(
        ensure_ascii=False, check_circular=False, skipkeys=True, separators=(",", ":"), default=_nothing
    )
    text = ""
    try:
        for piece in encoder.iterencode(value):
            text += piece
            if len(text) > limit:
                break
    except (ValueError, RecursionError):  # an integer too long to print
        pass
    return text[: limit + 1]


def _nothing(_: Any) -> None:
    """Stands in for what has no JSON form."""
