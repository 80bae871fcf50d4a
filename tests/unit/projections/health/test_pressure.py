"""When ceilings hold writes back, why, and when they let go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from projections.health.samples import Sample
from projections.health.watch import EMBEDDED_DISK_FLOOR, Limits, Pressure, decide, memory_ceiling, room

LAG = Limits(lag=1_000)
MEMORY = Limits(memory=0.85)
DISK = Limits(disk=90 << 20)


def behind(events: int) -> Sample:
    """So many events are not projected yet, in two partitions."""
    return Sample(lag={0: events // 2, 1: events - events // 2}, workers=1)


def used(share: float) -> Sample:
    """The server uses this share of its limit."""
    return Sample(memory_used=int(share * 2**30), memory_limit=2**30, workers=1)


def test_nothing_is_held_back_below_a_ceiling():
    everything = Limits(memory=0.85, lag=1_000, disk=1)
    sample = Sample(lag={0: 999}, memory_used=84 << 30, memory_limit=100 << 30, disk_free=2)
    assert decide(sample, everything) is None


def test_a_ceiling_engages_when_it_is_reached():
    held = decide(behind(1_000), LAG)
    assert held is not None
    assert held.causes == ["lag"]
    assert held.reason == "1,000 events are pending; the ceiling is 1,000"


def test_it_lets_go_below_nine_tenths_and_not_before():
    held = decide(behind(1_000), LAG)
    held = decide(behind(900), LAG, held)
    assert held is not None
    assert held.reason.startswith("900 events")
    assert decide(behind(899), LAG, held) is None


def test_what_fell_below_its_ceiling_without_being_engaged_is_not_held():
    assert decide(behind(950), LAG, decide(used(0.9), MEMORY)) is None


def test_the_reason_says_when_nobody_works():
    held = decide(Sample(lag={0: 1_200_000}), Limits(lag=1_000_000))
    assert held is not None
    assert held.reason == ("1,200,000 events are pending; the ceiling is 1,000,000; no worker is running")


def test_memory_is_a_share_of_the_limit_or_of_the_machine_or_a_size():
    assert memory_ceiling(Sample(memory_limit=1_000, machine_memory=9_000), MEMORY) == 850
    assert memory_ceiling(Sample(memory_limit=0, machine_memory=2_000), MEMORY) == 1_700
    assert memory_ceiling(Sample(memory_limit=1_000), Limits(memory=5_000)) == 5_000
    held = decide(used(0.86), MEMORY)
    assert held is not None
    assert held.reason == "Redis uses 881 MiB of memory; the ceiling is 870 MiB"


def test_the_disk_holds_writes_back_from_below():
    assert decide(Sample(disk_free=91 << 20), DISK) is None
    held = decide(Sample(disk_free=90 << 20), DISK)
    assert held is not None
    assert held.reason == "the log's disk has 90 MiB free; the minimum is 90 MiB"
    assert decide(Sample(disk_free=100 << 20), DISK, held) is not None
    assert decide(Sample(disk_free=101 << 20), DISK, held) is None
    full = decide(Sample(disk_free=0), DISK)
    assert full is not None
    assert full.retry_after_s == 30


def test_what_is_not_known_holds_nothing_back():
    everything = Limits(memory=0.85, lag=0, disk=1 << 30)
    assert decide(Sample(), everything, decide(used(1.0), MEMORY)) is None


def test_a_ceiling_of_nothing_is_no_ceiling():
    assert decide(Sample(lag={0: 10**9}, memory_used=10**15, disk_free=0), Limits()) is None


def test_all_that_hold_back_are_told_and_the_latest_says_when_to_come_back():
    sample = Sample(lag={0: 1_500}, memory_used=90, memory_limit=100)
    held = decide(sample, Limits(memory=0.85, lag=1_000))
    assert held is not None
    assert held.causes == ["memory", "lag"]
    assert "; " in held.reason
    assert held.retry_after_s == 30


@pytest.mark.parametrize(("events", "seconds"), [(1_000, 1), (1_010, 2), (1_250, 16), (1_500, 30), (9_999, 30)])
def test_the_more_there_is_the_later_to_come_back(events: int, seconds: int):
    held = decide(behind(events), LAG)
    assert held is not None
    assert held.retry_after_s == seconds


@given(st.lists(st.integers(900, 999), max_size=50), st.booleans())
def test_within_the_band_it_stays_as_it_was(levels: list[int], engaged: bool):
    held = first = decide(behind(1_000 if engaged else 899), LAG)
    for level in levels:
        held = decide(behind(level), LAG, held)
        assert (held is None) == (first is None)


@given(st.lists(st.integers(0, 3_000), max_size=50))
def test_every_change_crosses_the_whole_band(levels: list[int]):
    held: Pressure | None = None
    for level in levels:
        now = decide(behind(level), LAG, held)
        if now is not None and held is None:
            assert level >= 1_000
        if now is None and held is not None:
            assert level < 900
        if now is not None:
            assert 1 <= now.retry_after_s <= 30
        held = now


def test_settings_become_ceilings():
    assert Limits.parse("2GiB", 5, "1MiB", embedded=False) == Limits(memory=2 << 30, lag=5, disk=1 << 20)
    assert Limits.parse("85%", 0, "", embedded=False) == Limits(memory=0.85)
    assert Limits.parse("0", 0, "", embedded=True) == Limits(disk=EMBEDDED_DISK_FLOOR)
    assert Limits.parse("0", 0, "0", embedded=True) == Limits()


def test_what_projecting_will_take_counts_against_the_ceiling_on_memory():
    sample = Sample(memory_used=400 << 20, memory_limit=1 << 30, lag={0: 1_000}, pending_bytes=40 << 20, workers=1)
    held = decide(sample, MEMORY)
    assert held is not None
    assert held.causes == ["memory"]
    assert "uses 400 MiB of memory; the ceiling is 870 MiB, and accepted writes may need 56" in held.reason
    assert decide(structs.replace(sample, lag={}, pending_bytes=0), MEMORY) is None


def test_texts_that_wait_for_vectors_count_against_the_ceiling_on_memory():
    sample = Sample(memory_used=800 << 20, memory_limit=1 << 30, to_embed=100_000, dimensions=384, workers=1)
    assert decide(sample, MEMORY) is not None
    assert decide(structs.replace(sample, dimensions=0), MEMORY) is None, "without an embedder there are no vectors"


def test_the_room_between_two_samples_is_shared_by_the_processes():
    sample = Sample(memory_used=600, memory_limit=1_000, replicas=2)
    assert room(sample, MEMORY) == 125
    assert room(sample, Limits()) is None
    assert room(Sample(), MEMORY) is None, "what is not known holds nothing back"
