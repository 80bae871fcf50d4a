"""Parses bytes into commands. Every error says what is wrong and where; a lone surrogate is repaired.

A value takes two bytes of a body and a hundred bytes of memory, so a body within its size limit can take gigabytes.
That is why values and items are counted before anything is parsed. Counting scans the bytes in C, a window at a time:
it makes no objects, and lets other threads run.

An error that is stored, such as that of an item of a batch, has no traceback: that would keep the frames' objects, and
itself, alive until the garbage collector runs.
"""

import json
import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from ingest.commands.decide import WRITE_TYPES, WriteCommand
from ingest.errors import CommandRejected, MalformedRequest, RequestTooLarge, without_traceback
from ingest.names import with_nfc
from ingest.secrets.scrub import repair_text

if TYPE_CHECKING:  # the stdio bridge imports this module too, and never gets a big body
    import numpy as np
    from numpy.typing import NDArray


T = TypeVar("T")

_ANY_WRITE = cast(type[WriteCommand], WriteCommand)
"""msgspec accepts a union where type checkers require a class."""
_json_batch = msgspec.json.Decoder(list[WriteCommand])
_AT = re.compile(r" - at `(?:key in )?\$(.*?)`$")
_FIELD = re.compile(r"(?:unknown|missing required) field `(.*?)`")
_MAX_DEPTH = 200
MAX_BATCH_ITEMS = 10_000
AT_ONCE_BYTES = 512 << 10
"""A larger batch is parsed item by item, because nothing else runs while the parser does."""
_MAX_MESSAGE_CHARS = 500
_LINES_WINDOW = 1 << 20
_NOT_BLANK, _LINE_END = re.compile(rb"\S"), re.compile(rb"[\r\n]")


class _NestedTooDeep(MalformedRequest):
    def __init__(self) -> None:
        super().__init__("the request is nested too deeply")


def parse_json(body: bytes, cls: type[T]) -> T:
    """One request of type `cls`, its names in NFC. Raises MalformedRequest, CommandRejected (with the field's path), or
    RequestTooLarge for more than MAX_VALUES."""
    check_values(body)
    try:
        parsed = msgspec.json.decode(body, type=cls)
    except msgspec.ValidationError as error:
        raise rejected(error) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return parse_object(_loaded_json(body, error), cls)
    return parsed if body.isascii() and b"\\u" not in body else with_nfc(parsed)


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
            items = _msgpack_batch.decode(body)
        else:
            check_values(body)
            items = _json_batch.decode(body)
    except (ValueError, RecursionError, TypeError, RequestTooLarge):  # msgspec's own errors are ValueErrors
        return None
    return list(items) if len(items) <= MAX_BATCH_ITEMS else None


def parse_batch(body: bytes, content_type: str) -> list[WriteCommand | CommandRejected]:
    """A batch of commands: a JSON array, NDJSON (`application/x-ndjson`) or a msgpack array. One bad item is a
    CommandRejected in its place. Raises MalformedRequest when the batch itself cannot be read, RequestTooLarge for more
    than MAX_BATCH_ITEMS or MAX_BATCH_VALUES."""
    if (items_at_once := parse_batch_at_once(body, content_type)) is not None:
        return items_at_once
    if "msgpack" in content_type:
        return list(map(_parse_msgpack_item, _msgpack_items(body)))
    if _lines(content_type):
        lines = _ndjson_items(body)
        if len(body) > MAX_BATCH_VALUES:
            check_values(b"[%s]" % b",".join(lines), MAX_BATCH_VALUES, "the batch")
        return list(map(_parse_item, lines))
    check_values(body, MAX_BATCH_VALUES, "the batch")
    return [_parse_item(item, number) for number, item in enumerate(array_items(body, MAX_BATCH_ITEMS))]


def _lines(content_type: str) -> bool:
    return "ndjson" in content_type or "jsonl" in content_type


def _ndjson_items(body: bytes) -> list[bytes]:
    """The lines that are not blank."""
    lines: list[bytes] = []
    start = _next(_NOT_BLANK, body, 0)
    while start < len(body):
        if len(lines) == MAX_BATCH_ITEMS:
            raise RequestTooLarge("the batch", None, MAX_BATCH_ITEMS, "items")
        end = _next(_LINE_END, body, start)
        lines.append(body[start:end])
        start = _next(_NOT_BLANK, body, end)
    return lines


def _next(pattern: re.Pattern[bytes], body: bytes, start: int) -> int:
    """Where the pattern, of one byte, matches next; the length of the body when it does not. Looks a window at a time,
    between which others have their turn."""
    while start < len(body):
        if match := pattern.search(body, start, start + _LINES_WINDOW):
            return match.start()
        start += _LINES_WINDOW
    return len(body)


def rejected(error: msgspec.ValidationError) -> CommandRejected:
    """A validation fault as the caller should read it: message, and the path of the field."""
    text = str(error)
    at = _AT.search(text)
    path = at[1].lstrip(".") if at else ""
    message = text[: at.start()] if at else text
    if name := _FIELD.search(message):
        path = f"{path}.{name[1]}" if path else name[1]
    if path == "type" and "Invalid value" in message:
        message = f"{message.removeprefix('Invalid value ')} is no command type; valid types: {', '.join(WRITE_TYPES)}"
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
    raise ValueError(f"msgpack extension type {code} is not supported")


_msgpack_batch = msgspec.msgpack.Decoder(list[WriteCommand], ext_hook=_no_extension)
_msgpack_raws = msgspec.msgpack.Decoder(list[msgspec.Raw])
_msgpack_item = msgspec.msgpack.Decoder(_ANY_WRITE, ext_hook=_no_extension)


def _parse_item(item: bytes, number: int | None = None) -> WriteCommand | CommandRejected:
    """A line of NDJSON, or an item of a JSON array by its `number`; raises MalformedRequest if that is not JSON, since
    the array is not either."""
    try:
        try:
            return parse_json(item, _ANY_WRITE)
        except CommandRejected as error:
            if number is not None:
                _loaded_json(item, None)  # a parser that looks for a type stops at the first error
            return without_traceback(error)
    except (MalformedRequest, RequestTooLarge) as error:
        if number is None or isinstance(error, (_NestedTooDeep, RequestTooLarge)):
            return CommandRejected(str(error))
        raise MalformedRequest(f"{error} (item {number} of the batch)") from None


def _loaded_json(body: bytes, error: Exception | None) -> Any:
    """The JSON value by the standard library, which reads lone surrogates; MalformedRequest when it is not JSON."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise _NestedTooDeep from None
    except ValueError as invalid:
        raise MalformedRequest(f"not JSON: {error or invalid}") from None


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


MAX_VALUES = 250_000
"""Values in one request or one item of a batch, at any depth. Creating them blocks for up to 60 ms, and takes 60 MB."""
MAX_BATCH_VALUES = 1_000_000
"""Values in all items of a batch together."""
_WINDOW = 1 << 20
_COMMA, _QUOTE, _OPEN, _CLOSE = b',"{}'
_LOWER = 0x20
"""Turns a square bracket into a curly one."""


def check_values(body: bytes, limit: int = MAX_VALUES, what: str = "the body") -> None:
    """Raise RequestTooLarge for JSON of more than `limit` values, arrays and objects included."""
    # at most two values in three bytes, as in [[],[],[]], so most bodies need no counting
    if 2 * len(body) + 2 > 3 * limit and (count := count_values(body, limit)) > limit:
        raise RequestTooLarge(what, count, limit, "values")


def count_values(body: bytes, enough: int = 0) -> int:
    """How many values JSON has (an empty array or object counts twice), or `enough` where there are clearly no more; of
    what is no JSON, at least as many as a parser makes before it finds out."""
    starts = range(0, len(body), _WINDOW)
    counts = accumulate(sum(body.count(mark, start, start + _WINDOW) for mark in b",[{") for start in starts)
    if len(body) <= enough or all(count < enough for count in counts):
        return enough
    return 1 + sum(int((window.commas | window.opens).sum()) for window in _windows(body))


def array_items(body: bytes, limit: int) -> list[bytes]:
    """The items of a JSON array as they stand, none of them parsed. Raises RequestTooLarge for more than `limit`,
    MalformedRequest where the body cannot be an array."""
    first, last = len(body) - len(body.lstrip()), len(body.rstrip())
    ends, count, depth = [first], 1, 0
    for window in _windows(body):
        depths = (window.opens.astype("int32") - window.closes).cumsum(dtype="int32") + depth
        commas = (window.commas & (depths == 1)).nonzero()[0]
        count += len(commas)
        ends += (commas[: limit + 1 - len(ends)] + window.start).tolist() if len(ends) <= limit else []
        depth = int(depths[-1])
    if depth != 0 or body[first : first + 1] != b"[" or body[last - 1 : last] != b"]":
        raise _no_array(body)
    if not body[first + 1 : last - 1].strip():
        return []
    if count > limit:
        raise RequestTooLarge("the batch", count, limit, "items")
    return [body[start + 1 : end] for start, end in pairwise([*ends, last - 1])]


def check_msgpack(raw: bytes | memoryview, limit: int = MAX_VALUES, what: str = "the item") -> None:
    """Raise RequestTooLarge for msgpack of more than `limit` values, keys, arrays and maps included."""
    if len(raw) > limit and count_msgpack(raw, limit) > limit:
        raise RequestTooLarge(what, None, limit, "values")


def count_msgpack(raw: bytes | memoryview, most: int) -> int:
    """How many values msgpack has, as its headers say, but no more than one over `most`; of what is cut off, as many
    as there are."""
    at, count, expected = 0, 0, 1
    while expected and at < len(raw) and count <= most:
        count, expected = count + 1, expected - 1
        size, length_bytes, children = _MSGPACK[raw[at]]
        length = int.from_bytes(raw[at + 1 : at + 1 + length_bytes], "big") if length_bytes else 0
        if children < 0:  # the length is of bytes that follow
            at += size + length_bytes + length
        else:
            at += size + length_bytes
            expected += length * children
            if not length_bytes and children:
                expected += (raw[at - 1] & 0x0F) * children
    return count


def msgpack_length(raw: bytes) -> int | None:
    """How many items a msgpack array says that it has; None for what is no array."""
    kind = raw[0] if raw else 0
    if kind & 0xF0 == 0x90:
        return kind & 0x0F
    return int.from_bytes(raw[1 : 3 if kind == 0xDC else 5], "big") if kind in (0xDC, 0xDD) else None


def _msgpack_headers() -> list[tuple[int, int, int]]:
    """By first byte: the bytes of a value without its length and contents, the bytes of its length, and how many values
    each of that length is (-1: bytes)."""
    single = (1, 0, 0)
    table = [single] * 0x80 + [(1, 0, 2)] * 16 + [(1, 0, 1)] * 16 + [(1 + n, 0, -1) for n in range(32)] + [single] * 64
    numbers = {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}
    extensions = {0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18}
    for code, size in (numbers | extensions).items():
        table[code] = (size, 0, -1)
    for first in (0xC4, 0xD9):  # bytes, text
        table[first : first + 3] = [(1, 1, -1), (1, 2, -1), (1, 4, -1)]
    table[0xC7:0xCA] = [(2, 1, -1), (2, 2, -1), (2, 4, -1)]  # extension types
    table[0xDC:0xE0] = [(1, 2, 1), (1, 4, 1), (1, 2, 2), (1, 4, 2)]
    return table


_MSGPACK = _msgpack_headers()


class _Marks(NamedTuple):
    """Which bytes of a window, outside of strings, are commas, opening and closing brackets; and where it begins."""

    start: int
    commas: "NDArray[np.bool_]"
    opens: "NDArray[np.bool_]"
    closes: "NDArray[np.bool_]"


def _windows(body: bytes) -> Iterator[_Marks]:
    """The structure of JSON, a window at a time."""
    import numpy as np

    start, in_string = 0, 0
    while start < len(body):
        window = body[start : start + _WINDOW]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:  # what a backslash escapes is read with it
            window = body[start : start + _WINDOW + 1]
        if b"\\" in window:
            window = window.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        codes = np.frombuffer(window, np.uint8)
        # counted modulo 256, which keeps what is odd odd
        inside = np.cumsum(codes == _QUOTE, dtype=np.uint8) + np.uint8(in_string) & 1
        outside = inside == 0
        folded = codes | _LOWER
        yield _Marks(start, (codes == _COMMA) & outside, (folded == _OPEN) & outside, (folded == _CLOSE) & outside)
        in_string = int(inside[-1])
        start += len(window)


def _no_array(body: bytes) -> MalformedRequest:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except RecursionError:
        return _NestedTooDeep()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return MalformedRequest(f"not JSON: {error}")
    return MalformedRequest("a batch is a JSON array of commands (or NDJSON with application/x-ndjson)")
