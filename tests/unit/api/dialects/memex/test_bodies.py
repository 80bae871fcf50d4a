"""Bodies and query strings as memex refuses them: the shapes of FastAPI and pydantic."""

from typing import Any
from uuid import UUID

import pytest
from starlette.requests import Request

from api.dialects.errors import Unprocessable, parse, parse_query, path_value, read_all
from api.dialects.memex.app import MemoryCreate, MemorySearch, OfAgent, OfPair

PAIR = '"agent_id": "a", "user_id": "u"'


def refused(raw: str, content_type: str = "application/json") -> list[dict[str, Any]]:
    with pytest.raises(Unprocessable) as fault:
        parse(MemoryCreate, raw.encode(), content_type)
    return fault.value.errors


def request(query: str = "", memory: str = "") -> Request:
    path = {"memory_id": memory}
    return Request({"type": "http", "query_string": query.encode(), "headers": [], "path_params": path})


def test_what_is_left_out_has_its_default():
    asked = parse(MemoryCreate, f'{{{PAIR}, "content": "x", "colour": "red"}}'.encode())
    assert (asked.importance, asked.memory_type.value) == (1.0, "episodic")
    found = parse(MemorySearch, f'{{{PAIR}, "query": "x"}}'.encode())
    assert (found.top_k, found.alpha, found.memory_type) == (10, 0.7, None)


def test_numbers_may_be_text_and_blanks_are_text():
    asked = parse(MemorySearch, f'{{{PAIR}, "query": "  ", "top_k": "3", "alpha": "0.5"}}'.encode())
    assert (asked.query, asked.top_k, asked.alpha) == ("  ", 3, 0.5)


def test_every_fault_of_a_body_is_told():
    (short, high, kind) = refused('{"agent_id": "", "user_id": "u", "content": "x", "importance": 3, "memory_type": 7}')
    assert short == {
        "type": "string_too_short",
        "loc": ["body", "agent_id"],
        "msg": "String should have at least 1 character",
        "input": "",
        "ctx": {"min_length": 1},
    }
    assert (high["type"], high["loc"], high["ctx"]) == ("less_than_equal", ["body", "importance"], {"le": 2.0})
    assert (kind["type"], kind["ctx"]) == ("enum", {"expected": "'episodic', 'semantic' or 'procedural'"})


def test_a_missing_field_shows_the_body_it_is_missing_in():
    (fault,) = refused(f"{{{PAIR}}}")
    told = {"type": "missing", "loc": ["body", "content"], "msg": "Field required"}
    assert fault == {**told, "input": {"agent_id": "a", "user_id": "u"}}


@pytest.mark.parametrize("raw", ["", "null"])
def test_no_body_is_missing(raw: str):
    assert refused(raw) == [{"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}]


@pytest.mark.parametrize("raw", ["[]", "5", '"text"'])
def test_a_body_that_is_no_object_is_told_as_such(raw: str):
    (fault,) = refused(raw)
    assert (fault["type"], fault["loc"]) == ("model_attributes_type", ["body"])


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_does_not_say_it_is_json_is_text(content_type: str):
    (fault,) = refused(f'{{{PAIR}, "content": "x"}}', content_type)
    assert (fault["type"], fault["input"]) == ("model_attributes_type", f'{{{PAIR}, "content": "x"}}')


@pytest.mark.parametrize(
    ("raw", "place", "told"),
    [('{"agent_id":', 12, "Expecting value"), ("{'a': 1}", 1, "Expecting property name enclosed in double quotes")],
)
def test_broken_json_is_told_with_its_place(raw: str, place: int, told: str):
    (fault,) = refused(raw)
    assert (fault["type"], fault["loc"], fault["msg"]) == ("json_invalid", ["body", place], "JSON decode error")
    assert (fault["input"], fault["ctx"]) == ({}, {"error": told})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_out_of_bounds(number: str):
    (fault,) = refused(f'{{{PAIR}, "content": "x", "importance": {number}}}')
    assert fault["loc"] == ["body", "importance"]


def test_deep_nesting_is_refused():
    (fault,) = refused("[" * 100_000)
    assert fault["type"] == "json_invalid"


def test_what_a_query_string_lacks_has_no_input():
    with pytest.raises(Unprocessable) as fault:
        parse_query(OfPair, request("agent_id="))
    assert fault.value.errors == [
        {"type": "missing", "loc": ["query", "user_id"], "msg": "Field required", "input": None}
    ]


def test_faults_of_path_and_query_are_told_together():
    asked = request("user_id=u", memory="abc")
    with pytest.raises(Unprocessable) as fault:
        read_all(lambda: path_value(UUID, asked, "memory_id"), lambda: parse_query(OfAgent, asked))
    assert [(error["type"], error["loc"]) for error in fault.value.errors] == [
        ("uuid_parsing", ["path", "memory_id"]),
        ("missing", ["query", "agent_id"]),
    ]
