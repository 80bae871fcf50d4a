"""Summaries that go on where an earlier one ended."""

from projections.condensing.summaries import DECISIONS, NARRATIVE_CHARS, Digest, continued


def told(title: str, narrative: str, *decisions: str) -> Digest:
    return Digest(title, narrative, list(decisions), [f"{title}.py"], [title], 1)


def test_both_are_told_in_their_order():
    both = continued(told("leases", "Renewed too late.", "renew at half"), told("fences", "Added a fence."), 7)
    assert both.title == "leases"
    assert both.narrative == "Renewed too late. Added a fence."
    assert both.decisions == ["renew at half"]
    assert (both.files, both.concepts) == (["leases.py", "fences.py"], ["leases", "fences"])
    assert both.observation_count == 7


def test_a_session_that_is_taken_up_again_and_again_stays_bounded_and_keeps_its_beginning():
    both = told("day 0", "It began with granite. " + "word " * 200)
    for day in range(1, 40):
        both = continued(both, told(f"day {day}", f"Then day {day} came. " + "word " * 200, f"chose {day}"), day)
        assert len(both.narrative) <= NARRATIVE_CHARS
    assert both.narrative.startswith("It began with granite.")
    assert "Then day 39 came." in both.narrative
    assert both.decisions == [f"chose {day}" for day in range(40 - DECISIONS, 40)]


def test_a_short_part_leaves_its_room_to_the_other():
    both = continued(told("a", "Short."), told("b", "word " * 400), 2)
    assert len(both.narrative) > NARRATIVE_CHARS - 20
