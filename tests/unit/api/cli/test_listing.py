"""What the commands that list share."""

from datetime import datetime

import pytest
import typer

from api.cli.listing import in_time


def test_no_bounds_ask_for_none():
    assert in_time("", "") == {}


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31", datetime(2026, 1, 31).astimezone()),
        ("2026-01-31T12:00", datetime(2026, 1, 31, 12).astimezone()),
        ("2026-01-31T12:00:00Z", datetime.fromisoformat("2026-01-31T12:00:00+00:00")),
        ("2026-01-31T12:00:00+09:00", datetime.fromisoformat("2026-01-31T12:00:00+09:00")),
    ],
)
def test_a_bound_is_of_this_machines_zone_unless_it_says(text: str, time: datetime):
    asked = datetime.fromisoformat(in_time("", text)["until"])
    assert (asked, asked.tzinfo is not None) == (time, True)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "0001-01-01"])
def test_what_is_no_time_names_the_option(text: str):
    with pytest.raises(typer.BadParameter) as refused:
        in_time(text, "")
    assert refused.value.param_hint == "--since"
