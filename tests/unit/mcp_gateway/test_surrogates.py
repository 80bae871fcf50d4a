import json

import pytest

from mcp_gateway.lenient import repaired_json


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
