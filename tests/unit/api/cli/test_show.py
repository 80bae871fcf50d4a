"""Where `mnemolog show` finds documents, and what it makes of them."""

from datetime import datetime
from typing import Any

import pytest
import typer
from rich.console import Console

from api.cli.rows import moment
from api.cli.show import headline_of, parts


def shown(document: dict[str, Any]) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        for part in parts(document):
            console.print(part)
    return capture.get()


@pytest.mark.parametrize(
    ("document", "headline"),
    [
        ({"id": "obs_1", "headline": "ran\nthe tests", "title": "Bash"}, "ran the tests"),
        ({"id": "s1", "title": "", "first_prompt": "Fix it"}, "Fix it"),
        ({"id": "rel_1", "source": "mem_1", "relation": "causes", "target": "mem_2"}, "mem_1 causes mem_2"),
        ({"id": "act_1"}, "act_1"),
    ],
)
def test_a_headline_is_one_line_of_whatever_there_is(document: dict[str, Any], headline: str):
    assert headline_of(document) == headline


def test_what_is_empty_is_left_out_and_what_is_long_comes_last():
    told = shown({"id": "mem_1", "tags": [], "retired": False, "read_only": True, "content": "two\nlines", "owner": ""})
    assert "tags" not in told
    assert "retired" not in told
    assert "owner" not in told
    assert told.index("read only") < told.index("\ncontent") < told.index("  lines")


def test_what_an_agent_wrote_moves_no_cursor():
    assert "\x1b" not in shown({"id": "mem_1", "title": "a\x1b[2J", "content": "b\x1b[2J", "tags": ["c\x1b[2J"]})


def test_other_data_than_of_a_tool_is_told_as_json():
    assert '"level": 3' in shown({"id": "obs_1", "data": {"level": 3}})


def test_no_bound_asks_for_none():
    assert moment("since")("") == ""


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31", datetime(2026, 1, 31).astimezone()),
        ("2026-01-31T12:00", datetime(2026, 1, 31, 12).astimezone()),
        ("2026-01-31T12:00:00Z", datetime.fromisoformat("2026-01-31T12:00:00+00:00")),
        ("2026-01-31T12:00:00+09:00", datetime.fromisoformat("2026-01-31T12:00:00+09:00")),
    ],
)
def test_a_bound_is_in_the_local_zone_unless_it_has_one(text: str, time: datetime):
    sent = datetime.fromisoformat(moment("until")(text))
    assert (sent, sent.tzinfo is not None) == (time, True)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "0001-01-01"])
def test_an_invalid_time_names_the_option(text: str):
    with pytest.raises(typer.BadParameter) as refused:
        moment("since")(text)
    assert refused.value.param_hint == "--since"
