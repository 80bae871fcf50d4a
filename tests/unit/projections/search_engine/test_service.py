from ingest.log.position import Position
from projections.search_engine.service import Delay, delays


def at(ms: int) -> Position:
    return Position(ms, 0)


def test_what_is_projected_and_not_in_the_index_is_a_delay():
    assert delays({}, {0: at(5), 1: at(9)}, {0: at(7), 1: at(9)}, 100.0) == {0: Delay(at(7), 100.0)}


def test_a_partition_that_follows_steady_writes_is_not_delayed_for_long():
    """It is always a little behind, but never waits long for the same position."""
    known = delays({}, {0: at(5)}, {0: at(7)}, 100.0)
    known = delays(known, {0: at(8)}, {0: at(9)}, 110.0)
    assert known == {0: Delay(at(9), 110.0)}


def test_a_partition_that_does_not_get_on_is_delayed_since_the_first_position():
    known = delays({}, {0: at(5)}, {0: at(7)}, 100.0)
    known = delays(known, {0: at(6)}, {0: at(20)}, 130.0)
    assert known == {0: Delay(at(7), 100.0)}


def test_a_delay_ends_when_the_index_has_all():
    known = delays({}, {0: at(5)}, {0: at(7)}, 100.0)
    assert delays(known, {0: at(7)}, {0: at(7)}, 101.0) == {}


def test_a_delay_stays_while_the_node_of_the_log_does_not_answer():
    known = delays({}, {0: at(5)}, {0: at(7)}, 100.0)
    assert delays(known, {0: at(5)}, {}, 101.0) == known
