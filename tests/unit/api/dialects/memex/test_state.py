from datetime import UTC, datetime, timedelta

import pytest

from api.dialects.memex.app import Limit, TooOften
from api.http.http import retry_after, status_of

NOON = datetime(2026, 1, 31, 12, 0, 30, tzinfo=UTC)


def refused(limit: Limit, agent: str, now: datetime = NOON) -> bool:
    try:
        limit.count(agent, now)
    except TooOften:
        return True
    return False


def test_the_first_call_over_the_limit_is_refused_and_refused_ones_count():
    limit = Limit("creates", 3)
    assert [refused(limit, "ada") for _ in range(5)] == [False, False, False, True, True]
    with pytest.raises(TooOften, match="'ada' asked for 6 creates this minute; the limit is 3") as fault:
        limit.count("ada", NOON)
    assert (status_of(fault.value), retry_after(fault.value)) == (429, {"Retry-After": "60"})


def test_agents_are_counted_apart():
    limit = Limit("creates", 1)
    assert [refused(limit, agent) for agent in ("ada", "bob", "ada", "bob")] == [False, False, True, True]


def test_a_minute_is_one_of_the_clock():
    limit = Limit("searches", 1)
    assert not refused(limit, "ada", NOON)
    assert refused(limit, "ada", NOON + timedelta(seconds=29))
    assert not refused(limit, "ada", NOON + timedelta(seconds=30))


def test_no_more_agents_are_remembered_than_it_says():
    """The one that came first is forgotten, and begins again."""
    limit = Limit("creates", 1, agents=2)
    for agent in ("ada", "bob", "eve"):
        limit.count(agent, NOON)
    assert refused(limit, "eve")
    assert refused(limit, "bob")
    assert not refused(limit, "ada")
