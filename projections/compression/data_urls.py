"""Embedded binary data in texts: data URLs, bare base64, and the markers that name what was left out. Pure.

A data URL of any size is named by a short marker, `[image/png, 68 bytes]`, in whatever is derived from a text, and says
nothing: no fact, concept or file is read from it, from its markdown or HTML wrapping (with the alternative text), or
from a marker.
"""

import re
from urllib.parse import unquote_to_bytes

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
_SIGNATURES = {
    "iVBORw0KGgo": "image/png",
    "/9j/4": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "PHN2Zy": "image/svg+xml",
    "JVBERi0": "application/pdf",
}
"""How files begin in base64."""
_BARE = re.compile(rf"(?<![\w+/=-])(?P<begins>{'|'.join(_SIGNATURES)})[A-Za-z0-9+/_-]{{8,}}={{0,2}}")
_SIGNED_BYTES = tuple(map(str.encode, _SIGNATURES))
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_WORDLIKE = re.compile(r"[a-z]{9}")
_LEAST_CHARS, _LEAST_SIGNED_CHARS = 40, 16
_UPPER_SHARE = 0.25
"""Capitals in base64 are four of ten; in a long name written in camel case fewer than two."""


def named(text: str) -> str:
    """The text with a marker in the place of each data URL and of what is base64: an image, or the whole text."""
    if "data:" in text.lower():
        text = _without_drawings(_EMBEDDED.sub(_marker, text))
    if any(map(text.__contains__, _SIGNATURES)):
        text = _BARE.sub(_bare_marker, text)
    return f"[base64, {_size(text.strip()):,} bytes]" if is_base64(text.strip()) else text


def has_any(encoded: bytes) -> bool:
    """Whether there may be something to be named in a JSON value."""
    return b"data:" in encoded.lower() or any(map(encoded.__contains__, _SIGNED_BYTES))


def removed(text: str) -> str:
    """The text without data URLs, base64 and markers: what is left of it says something."""
    found = named(text)
    if "[" not in found:
        return found
    return _MARKERS.sub(" ", found)


def is_base64(word: str) -> bool:
    """Whether a word is binary data: it begins like an image's, or is long and mixed as no name is."""
    if len(word) < _LEAST_SIGNED_CHARS or not _BASE64.fullmatch(word):
        return False
    if word.startswith(tuple(_SIGNATURES)):
        return True
    if len(word) < _LEAST_CHARS or _WORDLIKE.search(word):
        return False
    capitals = sum(map(str.isupper, word))
    return capitals >= _UPPER_SHARE * len(word) and any(map(str.isdigit, word)) and not word.isupper()


def _marker(found: re.Match[str]) -> str:
    kind = (found["type"] or "text/plain").lower()
    body = found["body"]
    is_encoded = found["parameters"].lower().endswith(";base64")
    return f"[{kind}, {_size(body) if is_encoded else len(unquote_to_bytes(body)):,} bytes]"


def _without_drawings(text: str) -> str:
    """The text without the SVG, as it is written, that follows a marker which only knows how its data URL begins."""
    kept: list[str] = []
    at = 0
    while found := _DRAWING.search(text, at):
        start = found.end() - len("<svg")
        end = text.find("</svg>", start)
        end = len(text) if end < 0 else end + len("</svg>")
        kept += [text[at : found.start()], f"[image/svg+xml, {end - start:,} bytes]"]
        at = end
    return "".join([*kept, text[at:]])


def _bare_marker(found: re.Match[str]) -> str:
    return f"[{_SIGNATURES[found['begins']]}, {_size(found[0]):,} bytes]"


def _size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4
