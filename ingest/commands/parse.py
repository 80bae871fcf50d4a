"""From bytes to commands. Every fault names what was wrong and where; a lone surrogate is repaired, never a crash."""

import json
import re
from typing import Any, TypeVar, cast

import msgspec

from ingest.commands.requests import WRITE_TYPES, WriteCommand
from ingest.commands.scrub import repair_text
from ingest.errors import CommandRejected, MalformedRequest

T = TypeVar("T")

_ANY_WRITE = cast(type[WriteCommand], WriteCommand)
"""msgspec takes a union where type checkers want a class."""
_json_batch = msgspec.json.Decoder(list[WriteCommand])
_AT = re.compile(r" - at `(?:key in )?\$(.*?)`$")
_UNKNOWN_FIELD = re.compile(r"unknown field `(.*?)`")
_MISSING_FIELD = re.compile(r"missing required field `(.*?)`")
_MAX_DEPTH = 200


def parse_json(body: bytes, cls: type[T]) -> T:
    """One request of type `cls`. Raises MalformedRequest or CommandRejected (with the field's path)."""
    try:
        return msgspec.json.decode(body, type=cls)
    except msgspec.ValidationError as error:
        raise rejected(error) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return parse_object(_loaded_json(body, error), cls)


def parse_object(value: Any, cls: type[T]) -> T:
    """Like parse_json for a value that is already decoded (an MCP tool's arguments)."""
    try:
        return msgspec.convert(_repaired(value), cls)
    except msgspec.ValidationError as error:
        raise rejected(error) from None
    except RecursionError:
        raise MalformedRequest("the request is nested too deeply") from None


def parse_batch(body: bytes, content_type: str) -> list[WriteCommand | CommandRejected]:
    """A batch of commands: a JSON array, NDJSON (`application/x-ndjson`) or a msgpack array.

    One bad item is a CommandRejected in its place. Raises MalformedRequest when the batch itself cannot be read.
    """
    if "msgpack" in content_type:
        return _parse_msgpack_batch(body)
    if "ndjson" in content_type or "jsonl" in content_type:
        return [_parse_line(line) for line in body.splitlines() if line.strip()]
    try:
        return list(_json_batch.decode(body))
    except msgspec.ValidationError:
        items: Any = _loaded_json(body, None)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        items = _loaded_json(body, error)
    if not isinstance(items, list):
        raise MalformedRequest("a batch is a JSON array of commands (or NDJSON with application/x-ndjson)")
    return [_parse_item(item) for item in items]  # pyright: ignore[reportUnknownVariableType]


def rejected(error: msgspec.ValidationError) -> CommandRejected:
    """A validation fault as the caller should read it: message, and the path of the field."""
    text = str(error)
    at = _AT.search(text)
    path = at.group(1).lstrip(".") if at else ""
    message = text[: at.start()] if at else text
    for pattern in (_UNKNOWN_FIELD, _MISSING_FIELD):
        if name := pattern.search(message):
            path = f"{path}.{name.group(1)}" if path else name.group(1)
    if path == "type" and "Invalid value" in message:
        message = f"{message.removeprefix('Invalid value ')} is not a command type; there are: {', '.join(WRITE_TYPES)}"
    return CommandRejected(message.replace("Object contains unknown field", "unknown field"), path or None)


def _parse_msgpack_batch(body: bytes) -> list[WriteCommand | CommandRejected]:
    try:
        return list(_msgpack_batch.decode(body))
    except (ValueError, RecursionError, TypeError):  # msgspec's own errors are ValueErrors
        pass
    try:
        items = _msgpack_items.decode(body)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"not a msgpack array of commands: {error}") from None
    return [_parse_msgpack_item(item) for item in items]


def _parse_msgpack_item(item: msgspec.Raw) -> WriteCommand | CommandRejected:
    try:
        return _msgpack_item.decode(item)
    except msgspec.ValidationError as error:
        return rejected(error)
    except (ValueError, RecursionError, TypeError) as error:
        return CommandRejected(str(error) or type(error).__name__)


def _no_extension(code: int, data: memoryview) -> Any:
    raise ValueError(f"msgpack extension type {code} is not understood")


_msgpack_batch = msgspec.msgpack.Decoder(list[WriteCommand], ext_hook=_no_extension)
_msgpack_items = msgspec.msgpack.Decoder(list[msgspec.Raw])
_msgpack_item = msgspec.msgpack.Decoder(_ANY_WRITE, ext_hook=_no_extension)


def _parse_item(item: Any) -> WriteCommand | CommandRejected:
    try:
        return parse_object(item, _ANY_WRITE)
    except CommandRejected as fault:
        return fault
    except MalformedRequest as fault:
        return CommandRejected(str(fault))


def _parse_line(line: bytes) -> WriteCommand | CommandRejected:
    try:
        return parse_json(line, _ANY_WRITE)
    except CommandRejected as fault:
        return fault
    except MalformedRequest as fault:
        return CommandRejected(str(fault))


def _loaded_json(body: bytes, error: Exception | None) -> Any:
    """The JSON value by the standard library, which reads lone surrogates; MalformedRequest when it is not JSON."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise MalformedRequest("the request is nested too deeply") from None
    except ValueError as fault:
        raise MalformedRequest(f"not JSON: {error or fault}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _repaired(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        return value  # the command's scrubbing refuses it, and names the field
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, list):
        return [_repaired(item, depth + 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {
            repair_text(str(key)): _repaired(item, depth + 1)  # pyright: ignore[reportUnknownArgumentType]
            for key, item in value.items()  # pyright: ignore[reportUnknownVariableType]
        }
    return value
