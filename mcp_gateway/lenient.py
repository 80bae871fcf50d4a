"""Arguments as dialect clients send them, read by the schema a tool advertises. Pure.

Unknown keys are passed over, null is absent, numbers may be numeric text, booleans "true" or "false", lists a text with
commas. What is left is refused by name.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from ingest.errors import CommandRejected
from ingest.secrets.scrub import repair_text

EXACT = 2**53
"""Up to here a float that is whole is taken for the whole number it says."""
Schema = Mapping[str, Any]
"""A JSON Schema of one value: `type` (a name or a list of names) or `anyOf`, `items`, `enum`, `default`, `minimum`,
`maximum`. Other keywords say nothing here."""


class BadArgument(CommandRejected):
    """An argument is missing, or cannot be read as what it should be; `field` is its name."""

    code = "bad_argument"


def read(
    arguments: Mapping[str, Any],
    schema: Schema,
    also: Mapping[str, Schema] | None = None,
    instead: Collection[str] = (),
) -> dict[str, Any]:
    """Every property of an object's schema, and of `also` (taken, but not advertised); absent ones as their default.

    Without a default an absent argument is None. What is required may be absent only where one of `instead` is given.
    Raises BadArgument.
    """
    properties: dict[str, Schema] = {**schema.get("properties", {}), **(also or {})}
    values: dict[str, Any] = {}
    for name, one in properties.items():
        given = arguments.get(name)
        values[name] = one.get("default") if given is None else value(given, one, name)
    excused = any(values.get(name) is not None for name in instead)
    for name in schema.get("required", ()):
        if values[name] is None and not excused:
            raise BadArgument(f"{name} is required", name)
    return values


def value(given: Any, schema: Schema, name: str) -> Any:
    """What was given, as the schema has it; raises BadArgument."""
    kinds = _kinds(schema)
    if not kinds:
        return _repaired(given)
    for kind, one in kinds:
        read_as = _READERS[kind](given, one, name)
        if read_as is not None:
            return _checked(read_as, one, name)
    raise BadArgument(f"{name} must be {' or '.join(_WORDS[kind] for kind, _ in kinds)}", name)


def words(text: str) -> list[str]:
    """The parts of a text with commas, trimmed; empty ones left out."""
    return [part for part in map(str.strip, text.split(",")) if part]


def _kinds(schema: Schema) -> list[tuple[str, Schema]]:
    """The types a schema allows, each with its own schema. A list wins over text: text is how clients write lists."""
    parts: list[Schema] = schema.get("anyOf", [schema])
    found: list[tuple[str, Schema]] = []
    for part in parts:
        stated = part.get("type", ())
        found += [(kind, part) for kind in ([stated] if isinstance(stated, str) else stated) if kind != "null"]
    return sorted(found, key=lambda pair: pair[0] != "array")


def _text(given: Any, schema: Schema, name: str) -> str | None:
    return repair_text(given) if isinstance(given, str) else None


def _number(given: Any, schema: Schema, name: str) -> int | float | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, str):
        try:
            given = float(given) if any(mark in given for mark in ".eEnN") else int(given)
        except ValueError:
            return None
    try:
        if not isinstance(given, int | float) or not math.isfinite(given):
            return None
    except OverflowError:  # a whole number beyond any that a float could be
        return None
    return int(given) if abs(given) <= EXACT and given == int(given) else given


def _whole(given: Any, schema: Schema, name: str) -> int | None:
    number = _number(given, schema, name)
    return number if isinstance(number, int) else None


def _boolean(given: Any, schema: Schema, name: str) -> bool | None:
    if isinstance(given, bool):
        return given
    return {"true": True, "false": False}.get(given.strip().lower()) if isinstance(given, str) else None


def _array(given: Any, schema: Schema, name: str) -> list[Any] | None:
    items: Schema = schema.get("items", {})
    if isinstance(given, str):
        return [value(part, items, name) for part in words(given)]
    if not isinstance(given, list):
        return None
    return [value(one, items, name) for one in cast("list[Any]", given) if one is not None]


def _object(given: Any, schema: Schema, name: str) -> dict[str, Any] | None:
    return cast("dict[str, Any]", _repaired(given)) if isinstance(given, dict) else None


_READERS: dict[str, Callable[[Any, Schema, str], Any]] = {
    "string": _text,
    "number": _number,
    "integer": _whole,
    "boolean": _boolean,
    "array": _array,
    "object": _object,
}
_WORDS = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def _checked(read_as: Any, schema: Schema, name: str) -> Any:
    if "enum" in schema and read_as not in schema["enum"]:
        raise BadArgument(f"{name} must be one of {', '.join(map(str, schema['enum']))}", name)
    if "minimum" in schema and read_as < schema["minimum"]:
        raise BadArgument(f"{name} must be at least {schema['minimum']}", name)
    if "maximum" in schema and read_as > schema["maximum"]:
        raise BadArgument(f"{name} must be at most {schema['maximum']}", name)
    return read_as


def _repaired(given: Any) -> Any:
    """Half surrogate pairs were repaired before the message was parsed; this holds for callers inside the process."""
    return repair_text(given) if isinstance(given, str) else given
