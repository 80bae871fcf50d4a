"""What the commands that list share."""

from datetime import datetime

import pytest
import typer

from api.cli.rows import moment


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
