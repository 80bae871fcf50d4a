"""What tokens mean in a log: of before a growth, of another log, of this one."""

from datetime import UTC, datetime
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import CommandRejected
from ingest.log.event_log import Growth, LogHistory
from ingest.log.position import START, Position, Token

BEFORE, AFTER = 3, 36
Grown = tuple[dict[int, list[Position]], dict[int, list[Position]], LogHistory]


@st.composite
def grown_logs(draw: st.DrawFn) -> Grown:
    """The positions of a log's partitions before one or two growths and right after, and its history then."""
    routes = [crc32(route.encode()) for route in draw(st.lists(st.sampled_from("abcdefghijklmnop"), max_size=30))]
    between = draw(st.sampled_from([(), (2 * BEFORE,), (6 * BEFORE,)]))
    counts = (BEFORE, *between, AFTER)
    logs: list[dict[int, list[Position]]] = []
    for count in counts:
        places: dict[int, list[Position]] = {partition: [] for partition in range(count)}
        for number, home in enumerate(routes, 1):
            places[home % count].append(Position(number, 0))
        logs.append(places)
    newest = str(Position(len(routes), 0))
    growths = [
        Growth(count, newest, [str(places[-1] if places else START) for places in log.values()])
        for count, log in zip(counts, logs[1:], strict=False)
    ]
    return logs[0], logs[-1], LogHistory(AFTER, None, growths)


def token_in(draw: st.DrawFn, partitions: dict[int, list[Position]]) -> Token:
    """A token of some of the partitions, at any of their positions."""
    named = draw(st.lists(st.sampled_from([one for one in partitions if partitions[one]] or [0]), unique=True))
    return Token({one: draw(st.sampled_from(partitions[one] or [START])) for one in named})


def behind(partitions: dict[int, list[Position]], token: Token) -> set[Position]:
    """What a reader that goes on behind a token is given."""
    return {at for one, places in partitions.items() for at in places if at > token.get(one, START)}


@given(grown_logs(), st.data())
def test_a_token_of_before_is_covered_when_all_that_it_covered_is_applied(grown: Grown, data: st.DataObject):
    old, new, history = grown
    token = data.draw(st.composite(token_in)(old))
    wanted = history.to_wait_for(token)
    covered = {at for one, upto in token.items() for at in old[one] if at <= upto}
    everything = {one: places[-1] if places else START for one, places in new.items()}
    assert wanted.covered_by(everything), "once all is projected it is not waited for in vain"
    for one, places in new.items():
        for at in places:
            if at in covered:
                assert wanted[one] >= at


@given(grown_logs(), st.data())
def test_what_a_token_of_before_covered_is_waited_for_when_a_later_write_took_its_place(
    grown: Grown, data: st.DataObject
):
    old, new, history = grown
    token = data.draw(st.composite(token_in)(old))
    covered = {at for one, upto in token.items() for at in old[one] if at <= upto}
    later = Position.parse(history.growths[-1].newest)._replace(seq=1)
    for partition in data.draw(st.lists(st.sampled_from(sorted(old)), unique=True)):
        token.include(partition, later)
    wanted = history.to_wait_for(token)
    for one, places in new.items():
        assert all(wanted[one] >= at for at in places if at in covered)
        assert wanted.get(one, START) <= max([*places, later if one in token else START], default=START)


@given(grown_logs(), st.data())
def test_a_cursor_of_before_goes_on_where_it_was(grown: Grown, data: st.DataObject):
    old, new, history = grown
    token = data.draw(st.composite(token_in)(old))
    assert behind(new, history.to_read_on(token)) == behind(old, token)


@given(grown_logs(), st.data())
def test_a_cursor_of_since_goes_on_where_it_was_too(grown: Grown, data: st.DataObject):
    _, new, history = grown
    token = data.draw(st.composite(token_in)(new))
    again = history.to_read_on(Token.parse(str(history.as_cursor(token))))
    assert behind(new, again) == behind(new, token)


HISTORY = LogHistory(4, None, [Growth(2, "100-0", ["100-0", "90-0", "80-0", "0-0"])])


@pytest.mark.parametrize(
    ("said", "waited_for"),
    [
        ("0:100-0", "0:100-0,2:80-0"),
        ("0:70-0", "0:70-0,2:70-0"),
        ("1:90-0", "1:90-0,3:0-0"),
        ("0:101-0", "0:101-0,2:80-0"),
        ("2:200-0", "2:200-0"),
        ("0:70-0,3:200-0", "0:70-0,2:70-0,3:200-0"),
    ],
)
def test_what_is_waited_for(said: str, waited_for: str):
    assert str(HISTORY.to_wait_for(Token.parse(said))) == waited_for


def test_what_was_written_between_two_growths_is_spread_by_the_second_alone():
    second = Growth(4, "120-0", [f"{n}-0" for n in (120, 85, 90, 95, 60, 90, 110, 70)])
    history = LogHistory(8, None, [*HISTORY.growths, second])
    assert str(history.to_wait_for(Token.parse("0:100-0"))) == "0:100-0,2:90-0,4:60-0,6:100-0"
    assert str(history.to_wait_for(Token.parse("0:101-0"))) == "0:101-0,2:80-0,4:60-0,6:80-0"
    assert str(history.to_wait_for(Token.parse("0:121-0"))) == "0:121-0,2:80-0,4:60-0,6:80-0"
    assert set(history.to_read_on(Token.parse("0:100-0"))) == {0, 2, 4, 6}
    assert set(history.to_read_on(Token.parse("0:100-0,3:0-0"))) == {0, 3, 4, 7}


def test_a_partition_that_there_is_not_is_refused():
    with pytest.raises(CommandRejected, match="there is no partition 4"):
        HISTORY.to_wait_for(Token.parse("4:1-0"))


def test_a_position_from_before_the_log_began_is_of_another_log():
    history = LogHistory(2, datetime(2026, 1, 1, tzinfo=UTC))
    for understood in (history.to_wait_for, history.to_read_on):
        with pytest.raises(CommandRejected, match="1:1700000000000-0 is a position of another log") as fault:
            understood(Token.parse("0:1767225600000-0,1:1700000000000-0"))
        assert fault.value.field == "after"
        for beginning in ("0-0", "0-1", "1-0", "999999999999-0"):
            assert understood(Token.parse(f"0:1767225600000-0,1:{beginning}")), "that is a way to say the beginning"


def test_clocks_may_differ_by_some_seconds():
    history = LogHistory(2, datetime(2026, 1, 1, tzinfo=UTC))
    early = Token({0: Position(1767225600000 - 9_000, 0)})
    assert history.to_wait_for(early) == early
