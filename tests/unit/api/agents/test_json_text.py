"""JSON that somebody wrote is edited where it changes; the rest stays byte for byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.agents.json_text import Unreadable, parse, rewrite

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=5)
INDENTS = st.sampled_from([None, 0, 1, 2, 4, "\t"])


@given(OBJECTS, OBJECTS, INDENTS)
def test_the_text_says_the_new_value_whatever_the_old_one_was(old: dict[str, Any], new: dict[str, Any], indent: Any):
    assert parse(rewrite(json.dumps(old, indent=indent), new)) == new


@given(OBJECTS, INDENTS, st.booleans())
def test_the_same_value_leaves_the_text_alone(value: dict[str, Any], indent: Any, ascii_only: bool):
    text = "\n " + json.dumps(value, indent=indent, ensure_ascii=ascii_only) + "\n\n"
    assert rewrite(text, value) == text


@given(OBJECTS.filter(bool), VALUES, INDENTS)
def test_what_is_added_and_taken_out_again_leaves_no_trace(value: dict[str, Any], added: Any, indent: Any):
    text = json.dumps(value, indent=indent)
    name = "a name that is not there"
    assert rewrite(rewrite(text, {**value, name: added}), value) == text


def test_only_the_line_that_changes_is_touched():
    text = '{ "b" : [1,2,   3],\n  "a": {"x":1.0},\n\n  "c": "\\u00e9" }\n'
    assert rewrite(text, {"b": [1, 2, 3], "a": {"x": 2}, "c": "é"}) == text.replace("1.0", "2")


def test_what_is_added_is_indented_as_the_file_is():
    assert rewrite('{\n\t"a": 1\n}\n', {"a": 1, "b": {"c": [2]}}) == (
        '{\n\t"a": 1,\n\t"b": {\n\t\t"c": [\n\t\t\t2\n\t\t]\n\t}\n}\n'
    )


def test_line_ends_are_those_of_the_file():
    assert rewrite('{\r\n  "a": 1\r\n}\r\n', {"a": 1, "b": [2]}) == (
        '{\r\n  "a": 1,\r\n  "b": [\r\n    2\r\n  ]\r\n}\r\n'
    )


def test_an_item_goes_from_between_others():
    assert rewrite('[\n  {"a": 1},\n  {"b": 2},\n  {"c": 3}\n]', [{"a": 1}, {"c": 3}]) == (
        '[\n  {"a": 1},\n  {"c": 3}\n]'
    )


def test_of_a_key_that_is_there_twice_the_last_is_changed():
    assert rewrite('{"a": 1, "a": 2}', {"a": 3}) == '{"a": 1, "a": 3}'


COMMENTED = """{
  // servers of mine
  "servers": {
    "x": {"url": "http://a/*not a comment*/"}, // keep
    /* and
       this */
    "y": {"url": "b"}
  },
}
"""


def test_comments_and_trailing_commas_stay():
    value = parse(COMMENTED, comments=True)
    added = {"servers": {**value["servers"], "ours": {"command": "m"}}}
    text = rewrite(COMMENTED, added, comments=True)
    assert parse(text, comments=True) == added
    assert set(COMMENTED.splitlines()) - set(text.splitlines()) == {'    "y": {"url": "b"}'}
    assert rewrite(text, value, comments=True) == COMMENTED


def test_a_comment_before_what_is_taken_out_stays():
    text = '{\n  "a": 1, // about a\n  "b": 2\n}'
    assert rewrite(text, {"a": 1}, comments=True) == '{\n  "a": 1 // about a\n}'


def test_an_edit_that_a_comment_would_swallow_is_refused():
    with pytest.raises(Unreadable, match="by hand"):
        rewrite('{"a": 1, // about a\n"b": 2}', {"a": 1}, comments=True)


@pytest.mark.parametrize(
    ("text", "where"),
    [('{\n  "a": 1\n  "b": 2}', "line 3, column 3"), ('{"a" 1}', "line 1, column 6"), ("// c\n{}", "line 1, column 1")],
)
def test_what_is_no_json_is_refused_with_the_place(text: str, where: str):
    with pytest.raises(Unreadable, match=where):
        rewrite(text, {})


def test_what_is_nested_beyond_reason_is_refused():
    with pytest.raises(Unreadable, match="nested"):
        parse("[" * 100_000)
