import json
from typing import Any

import pytest

from ingest.errors import CommandRejected
from mcp_gateway.lenient import BadArgument, coerced, read, repaired_json, value, words

NAMES = {"type": ["string", "array"], "items": {"type": "string"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "number", "default": 10}, "tags": NAMES},
    "required": ["query"],
}


def test_every_property_is_there_absent_ones_as_their_default():
    """Null is absent, unknown keys are passed over, and what is accepted without being advertised counts."""
    given = {"query": "tea", "limit": None, "who": "ada", "depth": "3"}
    assert read(given, SCHEMA, {"depth": {"type": "integer"}}) == {
        "query": "tea",
        "limit": 10,
        "tags": None,
        "depth": 3,
    }


def test_a_missing_argument_is_named():
    with pytest.raises(BadArgument, match="query is required") as raised:
        read({"query": None}, SCHEMA)
    assert raised.value.field == "query"
    assert isinstance(raised.value, CommandRejected)


def test_another_argument_may_excuse_a_missing_one():
    assert read({"tags": "a"}, SCHEMA, instead=("tags",))["query"] is None
    with pytest.raises(BadArgument):
        read({"limit": 5}, SCHEMA, instead=("tags",))


@pytest.mark.parametrize(
    ("schema", "given", "said"),
    [
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, " 2.5 ", 2.5),
        ({"type": "number"}, 3.0, 3),
        ({"type": "number"}, -1.5e300, -1.5e300),
        ({"type": "integer"}, "7", 7),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "false", False),
        (NAMES, "a, b,,c ", ["a", "b", "c"]),
        (NAMES, ["a,b", None, "c"], ["a,b", "c"]),
        ({"type": "array", "items": {"type": "integer"}}, "1,2", [1, 2]),
        ({"type": ["string", "array"]}, [{"obsId": "x"}, "y"], [{"obsId": "x"}, "y"]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "x", "x"),
        ({"type": "object"}, {"a": 1}, {"a": 1}),
        ({}, 5, 5),
        ({"type": "string"}, "tea \ud83c", "tea �"),
    ],
)
def test_values_are_read_leniently(schema: dict[str, Any], given: Any, said: Any):
    found = value(given, schema, "x")
    assert found == said
    assert type(found) is type(said)


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"type": "string"}, 5),
        ({"type": "number"}, "five"),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "9" * 400),
        ({"type": "number"}, 10**400),
        ({"type": "number"}, True),
        ({"type": "integer"}, 2.5),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, 1),
        (NAMES, 5),
        (NAMES, [5]),
        ({"type": "object"}, "[]"),
        ({"type": "string", "enum": ["a", "b"]}, "c"),
        ({"type": "integer", "minimum": 1}, 0),
        ({"type": "integer", "maximum": 1}, 2),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(schema: dict[str, Any], given: Any):
    with pytest.raises(BadArgument, match="limit must ") as raised:
        value(given, schema, "limit")
    assert raised.value.field == "limit"


def test_words_are_trimmed_and_never_empty():
    assert words(" a ,, b") == ["a", "b"]
    assert words("") == []


@pytest.mark.parametrize(
    ("raw", "schema", "expected"),
    [
        ('["a","b, c"]', NAMES, ["a", "b, c"]),
        (' ["a"] ', {"type": "array", "items": {"type": "string"}}, ["a"]),
        ("[1]", NAMES, ["[1]"]),
        ("[broken", NAMES, ["[broken"]),
        ('[{"a": 1}]', {"type": "array", "items": {"type": "object"}}, [{"a": 1}]),
        ('["1", 2]', {"type": "array", "items": {"type": "number"}}, [1, 2]),
        ('{"a": "b"}', {"type": "object"}, {"a": "b"}),
        ("[1]", {"type": "string"}, "[1]"),
        ("5", {"type": "string"}, "5"),
        ("true", {"type": "string"}, "true"),
        ("null", {"type": "string"}, "null"),
    ],
)
def test_json_in_a_text_is_read_where_a_list_or_an_object_is_expected(raw: str, schema: dict[str, Any], expected: Any):
    assert value(raw, schema, "x") == expected


def test_the_text_null_is_absent_where_no_text_is_expected():
    assert read({"query": "null", "limit": "null", "tags": "null"}, SCHEMA) == {
        "query": "null", "limit": 10, "tags": None,
    }  # fmt: skip


def test_a_native_tools_arguments_get_the_types_of_its_schema_and_the_rest_stays():
    properties = {
        "id": {"type": "string"}, "label": {"type": "string"}, "limit": {"type": "integer", "maximum": 9},
        "full": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}}, "data": {"type": "object"},
        "kind": {"type": "string", "enum": ["a"]},
    }  # fmt: skip
    schema = {"type": "object", "properties": properties}
    given = {
        "id": 5,
        "label": 5,
        "limit": "50",
        "full": " True ",
        "tags": '["a"]',
        "data": "x",
        "kind": "b",
        "more": "5",
    }
    assert coerced(given, schema) == {
        "id": "5", "label": 5, "limit": 50, "full": True, "tags": ["a"], "data": "x", "kind": "b", "more": "5",
    }  # fmt: skip
    assert coerced({"id": None, "limit": "null", "full": "maybe", "tags": [1]}, schema) == {
        "full": "maybe",
        "tags": [1],
    }
    assert coerced({"id": True, "limit": 5.0, "tags": "a, b"}, schema) == {"id": True, "limit": 5, "tags": ["a", "b"]}


@pytest.mark.parametrize(
    "message", [b'{"a": "plain"}', '{"a": "☕"}'.encode(), b"", b'{"a": "\\ud83c"', b"\\ud800" * 9]
)
def test_what_needs_no_repair_or_is_no_json_stays_as_it_is(message: bytes):
    assert repaired_json(message) is message


def test_half_pairs_are_replaced_wherever_they_are_and_whole_ones_kept():
    message = b'{"\\uDF75": ["\\ud83c\\udf75", {"a": "tea \\ud83c"}], "n": 1.5, "t": true}'
    assert json.loads(repaired_json(message)) == {"�": ["🍵", {"a": "tea �"}], "n": 1.5, "t": True}


def test_deep_nesting_is_left_to_the_parser_behind():
    message = b'["\\ud800"' + b",[" * 5000 + b"]" * 5001
    assert repaired_json(message) is message
