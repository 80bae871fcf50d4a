"""Which tokens and cursors belong to a log: not those of another one, or from before it got more partitions."""

from datetime import UTC, datetime

import pytest

from ingest.errors import CommandRejected
from ingest.log.event_log import FIRST_MS, Growth, LogHistory
from ingest.log.position import Position, Token


def position(number: int) -> str:
    return str(Position(FIRST_MS + number, 0))


def token(text: str) -> Token:
    """Such as `0:70,3:200`."""
    return Token({int(part.split(":")[0]): Position(FIRST_MS + int(part.split(":")[1]), 0) for part in text.split(",")})


HISTORY = LogHistory(4, None, [Growth(2, position(100), [position(one) for one in (100, 90, 80, -1)])])
BEFORE_GROWTH = "is a position from before this log got more partitions; leave it out"


@pytest.mark.parametrize("text", ["0:100", "0:101", "2:80", "2:101", "1:90,3:200"])
def test_a_position_that_the_grown_log_has_is_a_token(text: str):
    assert HISTORY.check_token(token(text)) == token(text)


@pytest.mark.parametrize("text", ["2:81", "2:100", "1:100", "3:1", "0:100,1:91"])
def test_a_position_that_a_growth_left_in_another_partition_is_refused(text: str):
    with pytest.raises(CommandRejected, match=BEFORE_GROWTH) as refused:
        HISTORY.check_token(token(text))
    assert refused.value.field == "after"


def test_a_cursor_from_before_a_growth_is_refused_and_one_since_is_not():
    for text in ("0:100", "0:70,1:90", "0:200,1:10"):
        with pytest.raises(CommandRejected, match=BEFORE_GROWTH):
            HISTORY.check_cursor(token(text))
    for text in ("0:70", "0:70,1:101"):
        cursor = Token.parse(str(HISTORY.as_cursor(token(text))))
        assert HISTORY.check_cursor(cursor) == cursor
    assert HISTORY.check_cursor(token("0:101,1:102")) == token("0:101,1:102"), "written since"
    assert HISTORY.check_cursor(Token.parse("0:0-0")) == Token.parse("0:0-0"), "the beginning"


def test_cursors_of_a_log_that_never_grew_stay_as_they_are():
    history = LogHistory(4)
    assert history.as_cursor(token("0:70")) == history.check_cursor(token("0:70")) == token("0:70")


def test_the_newest_of_several_growths_decides():
    second = Growth(4, position(120), [position(one) for one in (120, 85, 90, 95, 60, 90, 110, 70)])
    history = LogHistory(8, None, [*HISTORY.growths, second])
    assert history.check_token(token("6:110"))
    with pytest.raises(CommandRejected, match=BEFORE_GROWTH):
        history.check_token(token("2:100"))


def test_a_position_is_spread_over_what_its_partition_became():
    assert HISTORY.growths[0].spread(token("1:70")) == token("1:70,3:70")


def test_a_partition_that_there_is_not_is_refused():
    with pytest.raises(CommandRejected, match="there is no partition 4"):
        HISTORY.check_token(Token.parse("4:1-0"))


def test_a_position_from_before_the_log_began_is_of_another_log():
    history = LogHistory(2, datetime(2026, 1, 1, tzinfo=UTC))
    for check in (history.check_token, history.check_cursor):
        with pytest.raises(CommandRejected, match="1:1700000000000-0 is a position of another log") as fault:
            check(Token.parse("0:1767225600000-0,1:1700000000000-0"))
        assert fault.value.field == "after"
        for beginning in ("0-0", "0-1", "1-0", "999999999999-0"):
            assert check(Token.parse(f"0:1767225600000-0,1:{beginning}")), "that is a way to say the beginning"


def test_clocks_may_differ_by_some_seconds():
    history = LogHistory(2, datetime(2026, 1, 1, tzinfo=UTC))
    early = Token({0: Position(1767225600000 - 9_000, 0)})
    assert history.check_token(early) == early
