"""Bytes become commands or an error that says what was wrong and where; never a crash. Values are counted first."""

import json
import tracemalloc
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.commands import parse as sizing
from ingest.commands.decide import (
    WRITE_TYPES,
    DeleteSlot,
    LinkCommit,
    Observe,
    RecordLesson,
    Relate,
    Remember,
    SetSlot,
    TrackSession,
    WriteAction,
    WriteCommand,
)
from ingest.commands.parse import (
    array_items,
    check_msgpack,
    check_values,
    count_msgpack,
    count_values,
    msgpack_length,
    parse_batch,
    parse_json,
    parse_object,
)
from ingest.errors import CommandRejected, MalformedRequest, RequestTooLarge
from ingest.nouns.action import ActionEdge
from ingest.nouns.command import Command

WRITE: Any = WriteCommand
GOOD = {"type": "remember", "content": "likes tea"}
JSON, NDJSON, MSGPACK = "application/json", "application/x-ndjson", "application/msgpack"
REPLACED = "\ufffd"


def write(body: bytes) -> Any:
    """One write command from JSON."""
    return parse_json(body, WRITE)


def encoded(items: list[Any], content_type: str) -> bytes:
    """A batch."""
    if content_type == NDJSON:
        return b"\n".join(json.dumps(item).encode() for item in items)
    return msgspec.msgpack.encode(items) if content_type == MSGPACK else json.dumps(items).encode()


def fault_of(body: bytes) -> CommandRejected:
    """The rejection of a JSON body."""
    with pytest.raises(CommandRejected) as fault:
        write(body)
    return fault.value


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"type": "observe", "session_id": "s1", "kind": "task", "data": {"a": [1, None]}},
         Observe(session_id="s1", kind="task", data={"a": [1, None]})),
        ({"type": "remember", "content": "x", "visibility": "shared", "shared_with": ["bob"]},
         Remember(content="x", visibility="shared", shared_with=["bob"])),
        ({"type": "lesson", "content": "x", "confidence": 1}, RecordLesson(content="x", confidence=1.0)),
        ({"type": "session", "session_id": "s1", "status": "ended", "outcome": "failed"},
         TrackSession(session_id="s1", status="ended", outcome="failed")),
        ({"type": "commit", "commit": "9f1c", "files": ["a"]}, LinkCommit(commit="9f1c", files=["a"])),
        ({"type": "slot", "label": "notes", "content": "x", "pinned": None, "read_only": True},
         SetSlot(label="notes", content="x", read_only=True)),
        ({"type": "slot_delete", "label": "notes"}, DeleteSlot(label="notes")),
        ({"type": "action", "title": "x", "priority": 1.5, "edges": [{"type": "unlocks", "target": "act_1"}]},
         WriteAction(title="x", priority=1.5, edges=[ActionEdge(type="unlocks", target="act_1")])),
        ({"type": "relation", "source": "a", "target": "b", "relation": "r", "remove": True},
         Relate(source="a", target="b", relation="r", remove=True)),
    ],
)  # fmt: skip
def test_every_write_type_is_read(body: dict[str, Any], expected: Command):
    assert write(json.dumps(body).encode()) == expected
    assert parse_object(body, WRITE) == expected
    assert parse_batch(json.dumps([body]).encode(), JSON) == [expected]
    assert parse_batch(json.dumps(body).encode() + b"\n", NDJSON) == [expected]
    assert parse_batch(msgspec.msgpack.encode([body]), MSGPACK) == [expected]


def test_every_write_type_has_a_name():
    assert {cls.__struct_config__.tag for cls in WRITE.__args__} == set(WRITE_TYPES)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"type": "slot", "label": "Notes", "content": "x"}, "label"),
        ({"type": "slot", "label": "notes", "content": "x", "size_limit": 0}, "size_limit"),
        ({"type": "slot", "label": "notes", "content": "x", "scope": "user"}, "scope"),
        ({"type": "commit", "commit": ""}, "commit"),
        ({"type": "relation", "source": "", "target": "b", "relation": "r"}, "source"),
        ({"type": "relation", "source": "a", "target": "b", "relation": "r", "confidence": 2}, "confidence"),
        ({"type": "action", "title": "x", "edges": [{"type": "eats", "target": "a"}]}, "edges[0].type"),
        ({"type": "session", "session_id": "s1", "status": "ended", "outcome": "so-so"}, "outcome"),
        ({"type": "lesson", "content": "x", "severity": "high"}, "severity"),
    ],
)
def test_a_wrong_value_of_any_noun_is_named(body: dict[str, Any], field: str):
    assert fault_of(json.dumps(body).encode()).field == field


@pytest.mark.parametrize("body", [b"", b" ", b"{", b"nope", b"{'type': 'remember'}", b"\xff\xfe", b'{"type":"\xff"}'])
def test_what_is_not_json_is_malformed(body: bytes):
    with pytest.raises(MalformedRequest, match="not JSON"):
        write(body)


@pytest.mark.parametrize("body", [b"null", b"[]", b"5", b'"remember"', b"true"])
def test_what_is_no_object_is_rejected(body: bytes):
    assert "Expected `object`" in fault_of(body).message


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"content": 5}, "content"),
        ({"content": None}, "content"),
        ({"importance": "high"}, "importance"),
        ({"importance": 10.5}, "importance"),
        ({"importance": -1}, "importance"),
        ({"tags": "tea"}, "tags"),
        ({"tags": ["tea", 5]}, "tags[1]"),
        ({"tags": ["x" * 513]}, "tags[0]"),
        ({"tags": ["x"] * 201}, "tags"),
        ({"visibility": "secret"}, "visibility"),
        ({"ttl_days": 0}, "ttl_days"),
        ({"occurred_at": "yesterday"}, "occurred_at"),
        ({"project": "x" * 513}, "project"),
        ({"event_id": "x" * 129}, "event_id"),
        ({"metadata": ["a"]}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata[...]"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(more: dict[str, Any], field: str):
    assert fault_of(json.dumps({**GOOD, **more}).encode()).field == field


def test_an_unknown_key_is_named():
    fault = fault_of(b'{"type": "remember", "content": "x", "importanse": 9}')
    assert (fault.field, fault.message) == ("importanse", "unknown field `importanse`")


def test_a_missing_field_is_named():
    fault = fault_of(b'{"type": "remember"}')
    assert fault.field == "content"
    assert "missing required field `content`" in fault.message


@pytest.mark.parametrize("body", [b'{"type": "forget"}', b'{"type": "revise", "memory": "mem_1", "content": "b"}'])
def test_an_unknown_type_is_answered_with_the_known_ones(body: bytes):
    fault = fault_of(body)
    assert fault.field == "type"
    assert all(name in fault.message for name in WRITE_TYPES)


def test_a_missing_type_is_named():
    assert fault_of(b'{"content": "x"}').field == "type"


def test_a_value_that_is_decoded_already_is_rejected_alike():
    with pytest.raises(CommandRejected) as fault:
        parse_object({**GOOD, "tags": ["tea", 5]}, WRITE)
    assert fault.value.field == "tags[1]"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"tea \ud83d", f"tea {REPLACED}"),
        (rb"\udc00 tea", f"{REPLACED} tea"),
        (rb"\ud83d\ude80", "🚀"),
        (rb"\ude80\ud83d", REPLACED * 2),
    ],
)
def test_a_lone_surrogate_is_repaired(written: bytes, read: str):
    assert write(b'{"type": "remember", "content": "' + written + b'"}').content == read


def test_lone_surrogates_are_repaired_wherever_they_stand():
    body = rb'{"type": "observe", "session_id": "\ud800", "metadata": {"\ud800": "\ud800"}, "data": {"a": ["\ud800"]}}'
    assert write(body) == Observe(session_id=REPLACED, metadata={REPLACED: REPLACED}, data={"a": [REPLACED]})


def test_a_lone_surrogate_in_a_decoded_value_is_repaired_too():
    """An MCP tool's arguments come decoded, by a decoder that may let lone surrogates through."""
    value = {"type": "observe", "session_id": "\ud800", "content": "\ud800", "data": {"a": ["\ud800"]}}
    assert parse_object(value, WRITE) == Observe(session_id=REPLACED, content=REPLACED, data={"a": [REPLACED]})


def test_nul_in_a_text_is_kept():
    assert write(rb'{"type": "remember", "content": "a\u0000b"}').content == "a\0b"


def test_deep_nesting_is_refused_not_a_crash():
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    with pytest.raises(MalformedRequest, match="nested too deeply"):
        write(b'{"type": "observe", "data": ' + deep + b"}")


def test_one_deep_item_rejects_only_itself():
    deep = b'{"type": "observe", "data": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}"
    good = json.dumps(GOOD).encode()
    first, *_, last = parse_batch(b"[" + b",".join([good, deep, b'{"type": "nope"}', good]) + b"]", JSON)
    assert first == last == Remember(content="likes tea")


def test_nan_and_infinity_are_rejected():
    """NaN is not JSON: as an importance it would make every ranking meaningless, in data it would come back as null."""
    for body in (b'{"type": "observe", "data": {"x": NaN}}', b'{"type": "observe", "data": {"x": -Infinity}}'):
        with pytest.raises((MalformedRequest, CommandRejected)):
            write(body)


@pytest.mark.parametrize("content_type", [JSON, "application/json; charset=utf-8", "text/plain", ""])
def test_a_batch_is_a_json_array_unless_said_otherwise(content_type: str):
    assert parse_batch(json.dumps([GOOD, GOOD]).encode(), content_type) == [Remember(content="likes tea")] * 2


@pytest.mark.parametrize("content_type", [NDJSON, "application/jsonl", "application/x-ndjson; charset=utf-8"])
def test_ndjson_is_a_command_a_line(content_type: str):
    line = json.dumps(GOOD).encode()
    body = line + b"\n\n  \r\n" + line + b"\r\n" + line
    assert parse_batch(body, content_type) == [Remember(content="likes tea")] * 3


def test_ndjson_text_may_hold_what_python_thinks_ends_a_line():
    text = "a\u2028b\u0085c\x1cd"
    line = json.dumps({**GOOD, "content": text}, ensure_ascii=False).replace("\x1c", "\\u001c")
    assert parse_batch(line.encode(), NDJSON) == [Remember(content=text)]


@pytest.mark.parametrize("content_type", [JSON, NDJSON, MSGPACK])
def test_an_empty_batch_is_no_commands(content_type: str):
    assert parse_batch(encoded([], content_type) or b"\n", content_type) == []


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", JSON),
        (b'{"type": "remember", "content": "x"}', JSON),
        (b"null", JSON),
        (b'[{"type": "remember", "content": "x"},', JSON),
        (b'[{"type": "nope"}, {"a": "\xff"}]', JSON),
        (b"[" * 100_000, JSON),
        (b"", MSGPACK),
        (b"\xc1", MSGPACK),
        (msgspec.msgpack.encode(GOOD), MSGPACK),
        (msgspec.msgpack.encode([GOOD])[:-1], MSGPACK),
        (b"\x92" + msgspec.msgpack.encode({"type": "nope"}) + b"\xd9", MSGPACK),
        (b"\x91" * 100_000 + b"\x01", MSGPACK),
    ],
)
def test_a_batch_that_cannot_be_read_is_malformed(body: bytes, content_type: str):
    with pytest.raises(MalformedRequest):
        parse_batch(body, content_type)


@pytest.mark.parametrize("item", [b"\x81\x80\x01", b"\x81\xa1a\xa1\xff", b"\xd4\x05\x00"], ids=["key", "utf-8", "ext"])
def test_a_msgpack_item_that_cannot_be_read_rejects_only_itself(item: bytes):
    """A map for a key, text that is not UTF-8, an extension type."""
    bad, good = parse_batch(b"\x92" + item + msgspec.msgpack.encode(GOOD), MSGPACK)
    assert isinstance(bad, CommandRejected)
    assert isinstance(good, Remember)


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "nope"},
        {**GOOD, "content": 5},
        {**GOOD, "bogus": 1},
        {"type": "remember"},
        5,
        None,
        ["remember"],
        {"type": "observe", "data": {"a": {"b": 1}}, "metadata": {"a": {}}},
    ],
)
@pytest.mark.parametrize("content_type", [JSON, NDJSON, MSGPACK])
def test_one_bad_item_rejects_only_itself(bad: Any, content_type: str):
    first, second, third = parse_batch(encoded([GOOD, bad, GOOD], content_type), content_type)
    assert first == third == Remember(content="likes tea")
    assert isinstance(second, CommandRejected)


@pytest.mark.parametrize("line", [b"{", b"nope", b"\xff", b'{"a":' * 50_000, b'{"type": "remember", "content": 5}'])
def test_one_bad_line_of_ndjson_rejects_only_itself(line: bytes):
    good = json.dumps(GOOD).encode()
    first, second, third = parse_batch(b"\n".join([good, line, good]), NDJSON)
    assert first == third == Remember(content="likes tea")
    assert isinstance(second, CommandRejected)


def test_one_item_with_a_lone_surrogate_does_not_reject_its_batch():
    body = rb'[{"type": "remember", "content": "\ud800"}, {"type": "nope"}, {"type": "remember", "content": "b"}]'
    first, second, third = parse_batch(body, JSON)
    assert (first, third) == (Remember(content=REPLACED), Remember(content="b"))
    assert isinstance(second, CommandRejected)
    assert second.field == "type"


MILLION = 1_000_000
HOSTILE = {
    "integers": (b"[" + b",".join([b"1"] * MILLION) + b"]", JSON),
    "objects": (b"[" + b",".join([b"{}"] * MILLION) + b"]", JSON),
    "arrays in a line": (b"[" + b",".join([b"[]"] * MILLION) + b"]", NDJSON),
    "integers in lines": (b"1\n" * MILLION, NDJSON),
    "integers, packed": (msgspec.msgpack.encode([1] * MILLION), MSGPACK),
    "a length that lies": (b"\xdd\xff\xff\xff\xff" + b"\x90" * MILLION, MSGPACK),
    "values of a command": (b'[{"type":"observe","data":{"x":[' + b",".join([b"[]"] * MILLION) + b"]}}]", JSON),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_million_values_are_refused_before_they_are_made(body: tuple[bytes, str]):
    """They would take 70 MB to 1.3 GB."""
    tracemalloc.start()
    try:
        with pytest.raises(RequestTooLarge):
            parse_batch(*body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 40 << 20


@pytest.mark.parametrize("content_type", [JSON, NDJSON, MSGPACK])
def test_an_item_of_too_many_values_rejects_only_itself(content_type: str):
    big = {"type": "observe", "session_id": "s", "data": {"x": [1] * 250_000}}
    first, second, third = parse_batch(encoded([GOOD, big, GOOD], content_type), content_type)
    assert first == third == Remember(content="likes tea")
    assert isinstance(second, CommandRejected)
    assert "250,000 values" in second.message


def test_a_request_of_too_many_values_is_too_large():
    with pytest.raises(RequestTooLarge, match="250,000 values"):
        write(b'{"type": "observe", "data": {"x": [' + b",".join([b"1"] * 250_000) + b"]}}")


@pytest.mark.parametrize("content_type", [JSON, NDJSON, MSGPACK])
def test_more_than_10_000_items_are_too_large(content_type: str):
    with pytest.raises(RequestTooLarge, match="10,000 items"):
        parse_batch(encoded([GOOD] * 10_001, content_type), content_type)


@pytest.mark.parametrize("content_type", [JSON, NDJSON, MSGPACK])
def test_the_errors_of_a_batch_are_freed_with_it(content_type: str):
    """An error with a traceback would be in a cycle with the frames it passed, and so would the batch."""
    items: list[Any] = [{"type": "remember"}, {"type": "nope"}, 5] * 50
    rejections = [
        item for item in parse_batch(encoded(items, content_type), content_type) if isinstance(item, CommandRejected)
    ]
    assert [rejection.__traceback__ or rejection.__context__ for rejection in rejections] == [None] * 150


@given(st.binary(max_size=200), st.sampled_from([JSON, NDJSON, MSGPACK]))
def test_no_bytes_crash_the_parser(body: bytes, content_type: str):
    try:
        parse_batch(body, content_type)
    except MalformedRequest:
        pass


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(st.characters(categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(WRITE_TYPES)},
        optional=dict.fromkeys(
            ["content", "data", "session_id", "status", "tags", "metadata", "importance", "occurred_at"], json_values
        ),
    )
)
def test_whatever_an_item_holds_it_is_a_command_or_a_rejection(item: dict[str, Any]):
    (found,) = parse_batch(json.dumps([item], allow_nan=False).encode(), JSON) if _is_json(item) else (None,)
    assert found is None or isinstance(found, Command | CommandRejected)


def _is_json(item: Any) -> bool:
    try:
        json.dumps(item, allow_nan=False)
    except ValueError:
        return False
    return True


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
        assert [json.loads(array_item) for array_item in array_items(json.dumps(items).encode(), 8)] == items


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
