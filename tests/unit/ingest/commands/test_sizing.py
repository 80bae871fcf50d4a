"""What a body holds is counted before anything is made of it; the count is never less than what a parser makes."""

import json
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.commands import parse as sizing
from ingest.commands.parse import array_items, check_msgpack, check_values, count_msgpack, count_values, msgpack_length
from ingest.errors import MalformedRequest, RequestTooLarge

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.sampled_from(['\\', '"', ',[{"', '\\"', "}]", "é"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)  # fmt: skip


@pytest.fixture(params=[1, 2, 7, 64, sizing._WINDOW])  # pyright: ignore[reportPrivateUsage]
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sizing, "_WINDOW", request.param)
    return request.param


def counted(value: Any) -> int:
    """Values of a decoded one, an empty array or object twice."""
    return 1 + (max(1, sum(map(counted, parts(value)))) if isinstance(value, dict | list) else 0)


def told(value: Any) -> int:
    """What msgpack says: values, and the keys of maps."""
    return 1 + sum(map(told, parts(value))) + (len(parts(value)) if isinstance(value, dict) else 0)


def parts(value: Any) -> list[Any]:
    """What is in an array or an object."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


SAMPLES: list[Any] = [
    [], {}, [[]], [{}], [1, 2], {"a": [1, {"b": []}]}, ["a,b", "[", '{"', "\\", '\\"', ""],
    [[1, [2]], {"x": "]"}], "x", 1,
]  # fmt: skip


ARRAYS: list[Any] = [one for one in SAMPLES if isinstance(one, list)]


def test_values_are_counted_outside_of_texts_alone(window: int):
    for value in SAMPLES:
        for indent in (None, 1):
            assert count_values(json.dumps(value, indent=indent).encode()) == counted(value), value


@given(values)
def test_any_json_has_as_many_values_as_are_counted(value: Any):
    assert count_values(msgspec.json.encode(value)) == counted(value)


@given(values)
def test_any_msgpack_has_as_many_values_as_are_counted(value: Any):
    assert count_msgpack(msgspec.msgpack.encode(value), 10_000) == told(value)


@pytest.mark.parametrize("ext", [b"x", b"xy", b"wxyz", b"x" * 8, b"x" * 16, b"", b"x" * 300, b"x" * 70_000])
def test_msgpack_that_json_cannot_say_is_counted_too(ext: bytes):
    value = [msgspec.msgpack.Ext(5, ext), ext, "x" * len(ext), 1.5, -1, -200, -40_000, -(2**40), 2**40]
    assert count_msgpack(msgspec.msgpack.encode(value), 10_000) == 10


@given(st.lists(values, max_size=8))
def test_the_items_of_an_array_are_what_was_put_in(items: list[Any]):
    found = array_items(b" " + json.dumps(items, indent=1).encode() + b"\n", 8)
    assert [json.loads(one) for one in found] == items


def test_the_items_of_an_array_are_found_in_windows_of_any_size(window: int):
    for items in ARRAYS:
        assert [json.loads(one) for one in array_items(json.dumps(items).encode(), 8)] == items


@pytest.mark.parametrize("body", [b"", b" ", b"[", b"]", b"{}", b"[1", b"1]", b"[[]", b'["]', b"null", b"[1]]", b"[1}"])
def test_what_cannot_be_an_array_has_no_items(body: bytes):
    with pytest.raises((MalformedRequest, ValueError)):
        list(map(json.loads, array_items(body, 8)))


def test_more_items_than_allowed_are_refused_with_their_number():
    with pytest.raises(RequestTooLarge, match="1,000,000 items; the limit is 10,000"):
        array_items(b"[" + b",".join([b"1"] * 1_000_000) + b"]", 10_000)


def test_more_values_than_allowed_are_refused():
    check_values(b"[1,1,1]", 4)
    with pytest.raises(RequestTooLarge, match="4 values; the limit is 3 values"):
        check_values(b"[1,1,1]", 3)
    with pytest.raises(RequestTooLarge, match="over 3 values"):
        check_msgpack(msgspec.msgpack.encode([1, 1, 1]), 3)


@given(values)
def test_a_value_more_than_allowed_is_refused_however_short_the_body_is(value: Any):
    body, count = msgspec.json.encode(value), counted(value)
    check_values(body, count)
    with pytest.raises(RequestTooLarge):
        check_values(body, count - 1)


def test_commas_and_brackets_in_a_text_are_no_values():
    check_values(json.dumps(["[{,"] * 2 + [",[{" * 1_000]).encode(), 8)


def test_a_length_that_lies_is_believed_and_not_waited_for():
    lying = b"\xdd\xff\xff\xff\xff\x01"
    assert msgpack_length(lying) == 2**32 - 1
    assert count_msgpack(lying, 10) == 2
    assert count_msgpack(b"\xdb\xff\xff\xff\xff", 10) == 1
    assert msgpack_length(b"\x93") == 3
    assert msgpack_length(b"\xdc\x01\x00") == 256
    assert msgpack_length(b"\x81") is None
    assert msgpack_length(b"") is None


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_counting(body: bytes):
    assert count_values(body) >= bool(body)
    assert count_msgpack(body, 50) <= 51
    try:
        array_items(body, 10)
    except (MalformedRequest, RequestTooLarge):
        pass
