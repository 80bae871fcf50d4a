"""Shrinks a hook's data to fit into one event. Pure.

A hook sends a tool's whole input, and screenshots in base64: many megabytes, while an event is limited to one. Images
are replaced by a hash; long texts are truncated with a note; numbers over 64 bits and deeply nested values become text;
everything else is unchanged.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple, cast

import msgspec

from ingest.secrets.scrub import MAX_DEPTH, scrub_text

# Of the data as JSON; an event has 1 MiB, with everything around it.
MAX_BYTES = 900 << 10
# Characters that a text is cut to; the next one is tried when all of it is still too big.
CAPS = (65_536, 4_096)
MAX_FIELDS = 64
"""Kept of an object that is big by the number of its parts."""
DEPTH = MAX_DEPTH - 8
_IMAGE = re.compile(
    r"(?:data:image/(?P<kind>[a-z0-9.+-]+);base64,|(?=(?:iVBORw0KGgo|/9j/)[A-Za-z0-9+/]{29}))(?=[A-Za-z0-9+/])", re.I
)
_NAME = "tool_name"


class Fitted(NamedTuple):
    """The data, and the name of the first image that was in it; `modality` empty without images."""

    data: dict[str, Any]
    modality: str = ""
    image: str = ""


def fitted(data: Mapping[str, Any]) -> Fitted:
    """The data with images named instead of kept, cut to about MAX_BYTES of JSON."""
    walk = _Walk()
    reduced = cast("dict[str, Any]", walk.over(dict(data), 0))
    modality = "" if not walk.images else "mixed" if walk.text else "image"
    image = walk.images[0] if walk.images else ""
    for cap in CAPS:
        if len(_json(reduced)) <= MAX_BYTES:
            return Fitted(reduced, modality, image)
        reduced = cast("dict[str, Any]", _capped(reduced, cap))
    return Fitted(reduced if len(_json(reduced)) <= MAX_BYTES else _few_fields(reduced), modality, image)


class _Walk:
    """Goes over a value and puts names in the place of images, and texts in the place of what nests too deeply."""

    def __init__(self) -> None:
        self.images: list[str] = []
        self.text = False

    def over(self, value: Any, depth: int, field: str = "") -> Any:
        if isinstance(value, str):
            if match := _IMAGE.match(value):
                return self._named(value[match.end("kind") + len(";base64,") :] if match["kind"] else value, match)
            self.text |= bool(value.strip()) and field != _NAME
            return value
        if not isinstance(value, dict | list):
            return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value
        if depth > DEPTH:
            return cut(_json(value).decode(), CAPS[-1])
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {name: self.over(part, depth + 1, name) for name, part in fields.items()}
        return [self.over(part, depth + 1, field) for part in cast("list[Any]", value)]

    def _named(self, base64: str, match: re.Match[str]) -> str:
        kind = (match["kind"] or ("png" if base64.startswith("iVBOR") else "jpeg")).lower()
        name = f"sha256-{sha256(base64.encode(errors='replace')).hexdigest()}.{kind.partition('+')[0]}"
        self.images.append(name)
        return f"[image {name}: {len(base64):,} characters of base64, not kept]"


def cut(text: str, most: int) -> str:
    """The text, or its beginning and how much there was; secrets go first, or a cut one would not be known for one."""
    if len(text) <= most:
        return text
    return f"{scrub_text(text)[:most]}\n[cut: {most:,} of {len(text):,} characters are kept]"


def _capped(value: Any, cap: int) -> Any:
    if isinstance(value, str):
        return cut(value, cap)
    if isinstance(value, dict):
        return {cut(name, cap): _capped(part, cap) for name, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_capped(part, cap) for part in cast("list[Any]", value)]
    return value


def _few_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """For what is big by the number of its parts: the first fields, what is too big of them as a text of its JSON."""
    share = MAX_BYTES // min(len(data), MAX_FIELDS)
    few: dict[str, Any] = {}
    for name, value in list(data.items())[:MAX_FIELDS]:
        encoded = _json(value)
        # A character of JSON takes up to six bytes in a text of JSON.
        few[name] = value if len(encoded) <= share else cut(encoded.decode(), share // 8)
    if len(data) > MAX_FIELDS:
        few["cut"] = f"{MAX_FIELDS} of {len(data):,} fields are kept"
    return few


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
