"""How much a body holds, counted before anything is made of it: values of JSON and msgpack, items of an array. Pure.

A value takes two bytes of a body and a hundred bytes of memory, so a body within its size can take gigabytes. Counting
goes over the bytes in C, a window at a time: it makes no objects, and lets other threads run.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ingest.errors import MalformedRequest, RequestTooLarge

if TYPE_CHECKING:  # whoever parses loads this, also where no big body ever comes: the stdio bridge
    import numpy as np
    from numpy.typing import NDArray

MAX_VALUES = 250_000
"""In one request or one item of a batch, at any depth. Making so many takes up to 60 ms in one go, and 60 MB."""
MAX_BATCH_VALUES = 1_000_000
"""In all items of a batch together."""
_WINDOW = 1 << 20
_COMMA, _QUOTE, _OPEN, _CLOSE = b',"{}'
_LOWER = 0x20
"""Makes a curly bracket of a square one."""


def check_values(body: bytes, limit: int = MAX_VALUES, what: str = "the body") -> None:
    """Raise RequestTooLarge for JSON of more than `limit` values, arrays and objects included."""
    # at most two values in three bytes, as in [[],[],[]], so most bodies need no counting
    if 2 * len(body) + 2 > 3 * limit and (count := count_values(body, limit)) > limit:
        raise RequestTooLarge(what, count, limit, "values")


def count_values(body: bytes, enough: int = 0) -> int:
    """How many values JSON has (an empty array or object counts twice), or `enough` where there are clearly no more; of
    what is no JSON, at least as many as a parser makes before it finds out."""
    if len(body) <= enough or not _may_have_more(body, enough):
        return enough
    return 1 + sum(int((window.commas | window.opens).sum()) for window in _windows(body))


def _may_have_more(body: bytes, enough: int) -> bool:
    count = 0
    for start in range(0, len(body), _WINDOW):
        count += sum(body.count(mark, start, start + _WINDOW) for mark in b",[{")
        if count >= enough:
            return True
    return False


def array_items(body: bytes, limit: int) -> list[bytes]:
    """The items of a JSON array as they stand, none of them parsed.

    Raises RequestTooLarge for more than `limit`, MalformedRequest where the body cannot be an array.
    """
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
    place, count, expected = 0, 0, 1
    while expected and place < len(raw) and count <= most:
        count, expected = count + 1, expected - 1
        size, length_bytes, children = _MSGPACK[raw[place]]
        length = int.from_bytes(raw[place + 1 : place + 1 + length_bytes], "big") if length_bytes else 0
        if children < 0:  # the length is of bytes that follow
            place += size + length_bytes + length
        else:
            place += size + length_bytes
            expected += length * children
            if not length_bytes and children:
                expected += (raw[place - 1] & 0x0F) * children
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
    one = (1, 0, 0)
    table = [one] * 0x80 + [(1, 0, 2)] * 16 + [(1, 0, 1)] * 16 + [(1 + n, 0, -1) for n in range(32)] + [one] * 64
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
        return MalformedRequest("the request is nested too deeply")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return MalformedRequest(f"not JSON: {error}")
    return MalformedRequest("a batch is a JSON array of commands (or NDJSON with application/x-ndjson)")
