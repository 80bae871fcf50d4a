"""From bytes to commands. Every fault names what was wrong and where; a lone surrogate is repaired, never a crash.

What is over a limit is refused before anything is made of it (`sizing`). A fault that is kept, such as that of an item
of a batch, has no traceback: it would keep what the frames hold, and itself, until the collector comes by.
"""

import json
import re
from typing import Any, TypeVar, cast

import msgspec

from ingest.commands.requests import WRITE_TYPES, WriteCommand
from ingest.commands.sizing import MAX_BATCH_VALUES, array_items, check_msgpack, check_values, msgpack_length
from ingest.errors import CommandRejected, MalformedRequest, RequestTooLarge, kept
from ingest.names import with_nfc
from ingest.secrets.scrub import repair_text

T = TypeVar("T")

_ANY_WRITE = cast(type[WriteCommand], WriteCommand)
"""msgspec takes a union where type checkers want a class."""
_json_batch = msgspec.json.Decoder(list[WriteCommand])
_AT = re.compile(r" - at `(?:key in )?\$(.*?)`$")
_UNKNOWN_FIELD = re.compile(r"unknown field `(.*?)`")
_MISSING_FIELD = re.compile(r"missing required field `(.*?)`")
_MAX_DEPTH = 200
MAX_BATCH_ITEMS = 10_000
AT_ONCE_BYTES = 512 << 10
"""A bigger batch is parsed item by item: nothing else runs while a parser is at work."""
_MAX_MESSAGE_CHARS = 500
_WINDOW = 1 << 20
_NOT_BLANK, _LINE_END = re.compile(rb"\S"), re.compile(rb"[\r\n]")


class _NestedTooDeep(MalformedRequest):
    def __init__(self) -> None:
        super().__init__("the request is nested too deeply")


def parse_json(body: bytes, cls: type[T]) -> T:
    """One request of type `cls`, its names in NFC. Raises MalformedRequest, CommandRejected (with the field's path), or
    RequestTooLarge for more than MAX_VALUES."""
    check_values(body)
    try:
        found = msgspec.json.decode(body, type=cls)
    except msgspec.ValidationError as error:
        raise rejected(error) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return parse_object(_loaded_json(body, error), cls)
    return found if body.isascii() and b"\\u" not in body else with_nfc(found)


def parse_object(value: Any, cls: type[T]) -> T:
    """Like parse_json for a value that is already decoded (an MCP tool's arguments)."""
    try:
        return with_nfc(msgspec.convert(_repaired(value), cls))
    except msgspec.ValidationError as error:
        raise rejected(error) from None
    except RecursionError:
        raise _NestedTooDeep from None


def parse_batch_at_once(body: bytes, content_type: str) -> list[WriteCommand | CommandRejected] | None:
    """A small batch whose items are all good; None for any other, which is for `parse_batch`."""
    if len(body) > AT_ONCE_BYTES or _lines(content_type):
        return None
    try:
        if "msgpack" in content_type:
            check_msgpack(body)
            found = _msgpack_batch.decode(body)
        else:
            check_values(body)
            found = _json_batch.decode(body)
    except (ValueError, RecursionError, TypeError, RequestTooLarge):  # msgspec's own errors are ValueErrors
        return None
    return list(found) if len(found) <= MAX_BATCH_ITEMS else None


def parse_batch(body: bytes, content_type: str) -> list[WriteCommand | CommandRejected]:
    """A batch of commands: a JSON array, NDJSON (`application/x-ndjson`) or a msgpack array.

    One bad item is a CommandRejected in its place. Raises MalformedRequest when the batch itself cannot be read,
    RequestTooLarge for more than MAX_BATCH_ITEMS or MAX_BATCH_VALUES.
    """
    if (found := parse_batch_at_once(body, content_type)) is not None:
        return found
    if "msgpack" in content_type:
        return list(map(_parse_msgpack_item, _msgpack_items(body)))
    if _lines(content_type):
        lines = _ndjson_items(body)
        if len(body) > MAX_BATCH_VALUES:
            check_values(b"[%s]" % b",".join(lines), MAX_BATCH_VALUES, "the batch")
        return list(map(_parse_line, lines))
    check_values(body, MAX_BATCH_VALUES, "the batch")
    items = array_items(body, MAX_BATCH_ITEMS)
    return [_parse_item(item, number) for number, item in enumerate(items)]


def _lines(content_type: str) -> bool:
    return "ndjson" in content_type or "jsonl" in content_type


def _ndjson_items(body: bytes) -> list[bytes]:
    """The lines that are not blank."""
    found: list[bytes] = []
    start = _next(_NOT_BLANK, body, 0)
    while start < len(body):
        if len(found) == MAX_BATCH_ITEMS:
            raise RequestTooLarge("the batch", None, MAX_BATCH_ITEMS, "items")
        end = _next(_LINE_END, body, start)
        found.append(body[start:end])
        start = _next(_NOT_BLANK, body, end)
    return found


def _next(pattern: re.Pattern[bytes], body: bytes, start: int) -> int:
    """Where the pattern, of one byte, matches next; the length of the body when it does not. Looks a window at a time,
    between which others have their turn."""
    while start < len(body):
        if found := pattern.search(body, start, start + _WINDOW):
            return found.start()
        start += _WINDOW
    return len(body)


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
    message = message.replace("Object contains unknown field", "unknown field")
    return CommandRejected(message[:_MAX_MESSAGE_CHARS], path[:_MAX_MESSAGE_CHARS] or None)


def _msgpack_items(body: bytes) -> list[msgspec.Raw]:
    if (length := msgpack_length(body)) is not None and length > MAX_BATCH_ITEMS:
        raise RequestTooLarge("the batch", length, MAX_BATCH_ITEMS, "items")
    check_msgpack(body, MAX_BATCH_VALUES, "the batch")
    try:
        return _msgpack_raws.decode(body)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"not a msgpack array of commands: {error}") from None


def _parse_msgpack_item(item: msgspec.Raw) -> WriteCommand | CommandRejected:
    try:
        check_msgpack(memoryview(item))
        return _msgpack_item.decode(item)
    except msgspec.ValidationError as error:
        return rejected(error)
    except (ValueError, RecursionError, TypeError, RequestTooLarge) as error:
        return CommandRejected(str(error)[:_MAX_MESSAGE_CHARS] or type(error).__name__)


def _no_extension(code: int, data: memoryview) -> Any:
    raise ValueError(f"msgpack extension type {code} is not understood")


_msgpack_batch = msgspec.msgpack.Decoder(list[WriteCommand], ext_hook=_no_extension)
_msgpack_raws = msgspec.msgpack.Decoder(list[msgspec.Raw])
_msgpack_item = msgspec.msgpack.Decoder(_ANY_WRITE, ext_hook=_no_extension)


def _parse_item(item: bytes, number: int) -> WriteCommand | CommandRejected:
    """An item of a JSON array. Raises MalformedRequest where it is no JSON, because then the array is none."""
    try:
        try:
            return parse_json(item, _ANY_WRITE)
        except CommandRejected as fault:
            _loaded_json(item, None)  # a parser that looks for a type leaves at the first fault
            return kept(fault)
    except (_NestedTooDeep, RequestTooLarge) as fault:
        return CommandRejected(str(fault))
    except MalformedRequest as fault:
        raise MalformedRequest(f"{fault} (item {number} of the batch)") from None


def _parse_line(line: bytes) -> WriteCommand | CommandRejected:
    try:
        return parse_json(line, _ANY_WRITE)
    except CommandRejected as fault:
        return kept(fault)
    except (MalformedRequest, RequestTooLarge) as fault:
        return CommandRejected(str(fault))


def _loaded_json(body: bytes, error: Exception | None) -> Any:
    """The JSON value by the standard library, which reads lone surrogates; MalformedRequest when it is not JSON."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise _NestedTooDeep from None
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
