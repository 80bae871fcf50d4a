"""Arguments as clients and models send them, read by the schema a tool advertises. Pure.

Null is absent, and so is the text "null" unless text is expected. Numbers can be numeric text, booleans "true" or
"false", lists a JSON list or comma-separated text, objects JSON text. If text is expected, text stays unchanged.
Dialects ignore unknown keys and report other errors by name; native tools report both.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import msgspec

from ingest.errors import CommandRejected
from ingest.names import with_nfc
from ingest.secrets.scrub import repair_text

EXACT = 2**53
"""Up to here, a float without a fraction is read as an integer."""
Schema = Mapping[str, Any]
"""A JSON Schema of one value: `type` (a name or a list of names) or `anyOf`, `items`, `enum`, `default`, `minimum`,
`maximum`. Other keywords are ignored."""


class BadArgument(CommandRejected):
    """An argument is missing or invalid; `field` is its name."""

    code = "bad_argument"


class LenientArguments(dict[str, Any]):
    """A call's arguments, read by the schema of its tool or endpoint: every property, None without a value."""

    def __or__(self, other: Mapping[str, Any]) -> "LenientArguments":  # pyright: ignore[reportIncompatibleMethodOverride]
        return LenientArguments({**self, **other})

    def needed(self, name: str) -> str:
        """A non-blank text; raises BadArgument."""
        value = self[name]
        if value is None or not value.strip():
            raise BadArgument(f"{name} is empty", name)
        return value

    def chosen(self, name: str) -> str | None:
        """A text, or None for a blank one."""
        value = self.get(name)
        return value if value and value.strip() else None

    def count(self, name: str, most: int, least: int = 1) -> int:
        """A number, clamped to its bounds."""
        return max(least, min(most, int(self[name])))


def read(
    arguments: Mapping[str, Any],
    schema: Schema,
    also: Mapping[str, Schema] | None = None,
    instead: Collection[str] = (),
) -> LenientArguments:
    """Every property of an object's schema, and of `also` (accepted, but not advertised); absent ones as their default.

    Without a default, an absent argument is None. A required one can be absent if one of `instead` is given. Raises
    BadArgument.
    """
    properties: dict[str, Schema] = {**schema.get("properties", {}), **(also or {})}
    values = LenientArguments()
    given = with_nfc(dict(arguments))
    for name, schema_part in properties.items():
        raw = given.get(name)
        values[name] = schema_part.get("default") if _is_absent(raw, schema_part) else value(raw, schema_part, name)
    excused = any(values.get(name) is not None for name in instead)
    for name in schema.get("required", ()):
        if values[name] is None and not excused:
            raise BadArgument(f"{name} is required", name)
    return values


def coerced(arguments: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """A native tool's arguments, converted to the types of its schema, without absent ones.

    A number is accepted as an id. An unreadable value is unchanged: the tool's own types reject it.
    """
    values: dict[str, Any] = {}
    for name, raw in arguments.items():
        schema_part: Schema = schema["properties"].get(name, {})
        if _is_absent(raw, schema_part):
            continue
        try:
            read_as = next((reading for _, reading in _readings(raw, schema_part, name)), raw)
        except BadArgument:
            read_as = raw
        is_number = isinstance(read_as, int | float) and not isinstance(read_as, bool)
        is_id = schema_part.get("type") == "string" and (name == "id" or name.endswith("_id"))
        values[name] = str(read_as) if is_number and is_id else read_as
    return values


def value(raw: Any, schema: Schema, name: str) -> Any:
    """A value, read by its schema; raises BadArgument."""
    kinds = _kinds(schema)
    if not kinds:
        return repair_text(raw) if isinstance(raw, str) else raw
    for schema_part, read_as in _readings(raw, schema, name):
        if "enum" in schema_part and read_as not in schema_part["enum"]:
            raise BadArgument(f"{name} must be one of {', '.join(map(str, schema_part['enum']))}", name)
        if "minimum" in schema_part and read_as < schema_part["minimum"]:
            raise BadArgument(f"{name} must be at least {schema_part['minimum']}", name)
        if "maximum" in schema_part and read_as > schema_part["maximum"]:
            raise BadArgument(f"{name} must be at most {schema_part['maximum']}", name)
        return read_as
    raise BadArgument(f"{name} must be {' or '.join(_WORDS[kind] for kind, _ in kinds)}", name)


def _readings(raw: Any, schema: Schema, name: str) -> Iterator[tuple[Schema, Any]]:
    for kind, schema_part in _kinds(schema):
        read_as = _convert(kind, raw, schema_part, name)
        if read_as is not None:
            yield schema_part, read_as


def _is_absent(raw: Any, schema: Schema) -> bool:
    """Whether a value is absent: models write null, and some write it as text."""
    if not isinstance(raw, str):
        return raw is None
    kinds = _kinds(schema)
    return bool(kinds) and kinds[0][0] != "string" and raw.strip() == "null"


def words(text: str) -> list[str]:
    """The non-empty parts of a comma-separated text."""
    return [part for part in map(str.strip, text.split(",")) if part]


def _kinds(schema: Schema) -> list[tuple[str, Schema]]:
    """The types a schema allows, each with its own schema. Lists come first, because clients write lists as text."""
    parts: list[tuple[Any, Schema]] = [(part.get("type", ()), part) for part in schema.get("anyOf", [schema])]
    kinds = [(kind, part) for stated, part in parts for kind in ([stated] if isinstance(stated, str) else stated)]
    return sorted((pair for pair in kinds if pair[0] != "null"), key=lambda pair: pair[0] != "array")


def _convert(kind: str, raw: Any, schema: Schema, name: str) -> Any:
    """A value as the JSON type `kind`; None if it is not one."""
    match kind:
        case "string":
            return repair_text(raw) if isinstance(raw, str) else None
        case "number" | "integer":
            number = _number(raw)
            return number if kind == "number" or isinstance(number, int) else None
        case "boolean":
            if isinstance(raw, bool):
                return raw
            return {"true": True, "false": False}.get(raw.strip().lower()) if isinstance(raw, str) else None
        case "array":
            return _array(raw, schema, name)
        case _:  # an object
            fields = _decode(raw, "{") if isinstance(raw, str) else raw
            return cast("dict[str, Any]", fields) if isinstance(fields, dict) else None


def _number(raw: Any) -> int | float | None:
    if isinstance(raw, bool):
        return None
    if isinstance(raw, str):
        try:
            raw = float(raw) if any(mark in raw for mark in ".eEnN") else int(raw)
        except ValueError:
            return None
    try:
        if not isinstance(raw, int | float) or not math.isfinite(raw):
            return None
    except OverflowError:  # an integer too large for a float
        return None
    return int(raw) if abs(raw) <= EXACT and raw == int(raw) else raw


def _array(raw: Any, schema: Schema, name: str) -> list[Any] | None:
    items: Schema = schema.get("items", {})
    if isinstance(raw, str):
        listed: list[Any] | None = _decode(raw, "[")
        # text in brackets that is not a list of texts, such as [1], is a name
        fits = listed is not None and (items.get("type") != "string" or all(isinstance(item, str) for item in listed))
        raw = listed if fits else words(raw)
    if not isinstance(raw, list):
        return None
    return [value(item, items, name) for item in cast("list[Any]", raw) if item is not None]


def _decode(raw: str, opening: str) -> Any:
    """The JSON value of a text that begins with `opening`; None for other text."""
    try:
        return msgspec.json.decode(raw) if raw.lstrip().startswith(opening) else None
    except (msgspec.DecodeError, RecursionError):
        return None


_WORDS = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")


def repaired_json(message: bytes) -> bytes:
    """The message without half surrogate pairs; the same object if there are none, or if it is not JSON.

    A half pair (`"\\ud83c"`, an emoji that JavaScript cut) is legal JSON but not text. The SDK's parsers reject it, and
    over stdio such a request would never be answered.
    """
    if not _ESCAPED.search(message):
        return message
    try:
        return json.dumps(_repaired_value(json.loads(message)), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return message  # the next parser reports the error


def _repaired_value(value: Any) -> Any:
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, list):
        return [_repaired_value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_repaired_value(key): _repaired_value(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value
