"""Near a ceiling, tenants that wrote more than their fair share are refused first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.health.samples import Sample
from projections.health.watch import (
    ACTIVE,
    HALF_LIFE_S,
    MOST_TENANTS,
    NEAR,
    RELEASE,
    Limits,
    Pressure,
    RecentWork,
    Work,
    above_fair_share,
    decide,
    readiness,
    reserve,
    room,
)

LAG = Limits(lag=1_000)
FLOOD = {"flood": Work(9_000, 9_000_000), "quiet": Work(10, 10_000)}
TENANTS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(Work, st.floats(ACTIVE, 1e6), st.floats(1, 1e9)),
)


def behind(events: int) -> Sample:
    """So many events are not projected yet."""
    return Sample(lag={0: events}, workers=1)


def refuses(held: Pressure | None, tenant: str | None) -> bool:
    """Whether a tenant's writes are refused; None: everybody's."""
    return held is not None and held.of(tenant) is not None


def test_near_the_ceiling_the_flooding_tenant_alone_is_refused():
    held = decide(behind(800), LAG, None, FLOOD)
    assert refuses(held, "flood")
    assert not refuses(held, "quiet")
    assert not refuses(held, "a tenant that wrote nothing yet")
    assert not refuses(held, None)
    assert decide(behind(799), LAG, None, FLOOD) is None


def test_at_the_ceiling_everybody_is_refused():
    held = decide(behind(1_000), LAG, None, FLOOD)
    assert refuses(held, None)
    assert refuses(held, "quiet")


def test_below_the_ceiling_again_the_others_are_let_in_first():
    held = decide(behind(1_000), LAG, None, FLOOD)
    held = decide(behind(899), LAG, held, FLOOD)
    assert refuses(held, "flood")
    assert not refuses(held, "quiet")
    held = decide(behind(721), LAG, held, FLOOD)
    assert refuses(held, "flood")
    assert decide(behind(719), LAG, held, FLOOD) is None


def test_a_refusal_names_no_other_tenant():
    held = decide(behind(900), LAG, None, FLOOD)
    assert held is not None
    assert held.reason == (
        "this tenant has recently written more than its fair share, and 900 events are pending; the ceiling is 1,000"
    )


def test_readiness_notes_it_and_the_process_is_not_impaired():
    found = readiness(behind(900), decide(behind(900), LAG, None, FLOOD))
    (condition,) = found.conditions
    assert (condition.code, condition.weight) == ("fair_share", "notes")
    assert "1 tenants above their fair share" in condition.message
    assert "flood" not in condition.message
    assert found.impaired == []


def test_bytes_count_for_memory_and_events_for_lag():
    shares = {"many": Work(1_000, 1_000), "big": Work(10, 1_000_000)}
    sample = Sample(lag={0: 900}, memory_used=96, memory_limit=100, workers=1)
    held = decide(sample, Limits(memory=1.0, lag=1_000), None, shares)
    assert held is not None
    assert {excess.cause: excess.tenants for excess in held.excesses if excess.cause == "lag"} == {
        "lag": frozenset({"many"})
    }
    held = decide(Sample(memory_used=96, memory_limit=100), Limits(memory=1.0), None, shares)
    assert held is not None
    assert held.tenants == {"big"}


def test_the_reserve_of_memory_is_what_is_left_above_where_shares_count():
    sample = Sample(memory_used=95, memory_limit=1_000, replicas=2)
    assert reserve(sample, Limits(memory=1.0)) == 25
    assert room(sample, Limits(memory=1.0)) == 452
    assert reserve(sample, Limits()) == 0


@given(st.lists(st.integers(0, 1_500), max_size=40), st.builds(Work, st.floats(ACTIVE, 1e6), st.floats(1, 1e9)))
def test_with_one_tenant_everything_is_as_without_shares(levels: list[int], work: Work):
    alone: Pressure | None = None
    plain: Pressure | None = None
    for level in levels:
        alone, plain = decide(behind(level), LAG, alone, {"only": work}), decide(behind(level), LAG, plain)
        assert alone == plain


@given(TENANTS, st.lists(st.integers(0, 1_500), min_size=1, max_size=20))
def test_never_all_are_refused_below_the_ceiling_and_always_at_it(shares: dict[str, Work], levels: list[int]):
    held: Pressure | None = None
    for level in levels:
        before, held = held, decide(behind(level), LAG, held, shares)
        if level >= 1_000:
            assert refuses(held, None)
        elif held is not None and held.of(None) is None:
            assert held.tenants < set(shares)
            assert level >= NEAR["lag"] * 1_000 * (RELEASE if before is not None else 1)
            fair = sum(work.events for work in shares.values()) / len(shares)
            assert all(shares[name].events > fair for name in held.tenants)


@given(TENANTS, st.sets(st.sampled_from("abcdefgh")))
def test_a_tenant_below_its_fair_share_is_never_above_it(shares: dict[str, Work], held: set[str]):
    above = above_fair_share(shares, "events", held)
    fair = sum(work.events for work in shares.values()) / max(1, len(shares))
    assert not {name for name, work in shares.items() if work.events <= fair} & above
    if shares:
        assert above < set(shares)


def test_equal_tenants_are_not_refused_by_turns():
    shares = {"one": Work(1_000, 1), "two": Work(1_050, 1), "three": Work(980, 1)}
    assert decide(behind(999), LAG, None, shares) is None


def test_recent_work_halves_and_is_dropped_at_last():
    work = RecentWork()
    work.add("a", 8, 800)
    assert work.shares(100.0) == {"a": Work(8, 800)}
    assert work.shares(100.0 + HALF_LIFE_S) == {"a": Work(4, 400)}
    work.add("b", 1, 10)
    assert work.shares(100.0 + 6 * HALF_LIFE_S) == {"a": Work(0.125, 12.5), "b": Work(1 / 32, 10 / 32)}
    assert work.shares(100.0 + 7 * HALF_LIFE_S) == {"a": Work(0.0625, 6.25)}
    assert work.shares(100.0 + 9 * HALF_LIFE_S) == {}


def test_so_many_tenants_are_counted_and_the_others_together():
    work = RecentWork()
    for number in range(MOST_TENANTS + 50):
        work.add(f"t{number}", 1, 1)
    shares = work.shares(0.0)
    assert len(shares) == MOST_TENANTS + 1
    assert shares[work.name_of("t1049")] == Work(50, 50)
    assert work.name_of("t3") == "t3"


@pytest.mark.parametrize("rate", [1, 10, 100])
def test_a_quiet_tenant_is_let_in_while_a_flooding_one_keeps_the_lag_up(rate: int):
    """A model of two tenants, a worker that projects 100 events a second, and a look a second, for five minutes."""
    work, lag, held = RecentWork(), 0.0, None
    taken = {"flood": 0, "quiet": 0}
    for second in range(300):
        for tenant, wanted in (("flood", 1_000), ("quiet", 1)):
            if tenant == "quiet" and second % (100 // rate):
                continue
            if not refuses(held, work.name_of(tenant)):
                events = wanted if tenant == "quiet" else min(wanted, 150)
                work.add(tenant, events, events)
                taken[tenant] += events
                lag += events
        lag = max(0.0, lag - 100)
        held = decide(behind(int(lag)), LAG, held, work.shares(float(second)))
        assert lag < 1_000
    assert taken["quiet"] == -(-300 // (100 // rate))
    assert taken["flood"] >= 300 * 90
