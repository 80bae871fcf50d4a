"""What happened around something, and what is known of files; and who is told."""

from datetime import timedelta
from typing import Any

import pytest
from desk import ADA, ALONE, BOB, NOBODY, STRANGER, Desk
from factories import NOW, minute

from projections.documents.access import Reader
from projections.queries import lookup
from projections.queries.observations import AroundQueries, Timeline


@pytest.fixture
def around(desk: Desk) -> AroundQueries:
    return AroundQueries(desk.replica, desk.documents, desk.recall)


def told(timeline: Timeline) -> list[tuple[int, str]]:
    return [(entry.position, entry.observation.content) for entry in timeline.entries]


async def day(desk: Desk) -> list[str]:
    """Nine observations, a minute apart, written in another order than they happened."""
    names = {n: await desk.observe(f"step {n}", minute(n), session_id=f"s{n % 2}") for n in (4, 0, 8, 2, 6, 1, 7, 3, 5)}
    await desk.settle()
    return [names[n] for n in range(9)]


async def test_around_a_date_is_what_happened_nearest_to_it(desk: Desk, around: AroundQueries):
    await day(desk)
    found = await around.timeline(ADA, (minute(4) + timedelta(seconds=20)).isoformat(), "atlas", before=2, after=3)
    assert told(found) == [(n - 4, f"step {n}") for n in range(2, 8)]
    assert (found.anchor_index, found.reason) == (2, "")
    assert told(await around.timeline(ADA, NOW.strftime("%Y-%m-%d"), "atlas", before=1, after=1))[0] == (0, "step 0")


async def test_around_an_observation_is_what_happened_before_and_after_it(desk: Desk, around: AroundQueries):
    names = await day(desk)
    assert told(await around.timeline(ADA, names[8], "atlas", before=2)) == [
        (-2, "step 6"),
        (-1, "step 7"),
        (0, "step 8"),
    ]
    of_session = await around.timeline(ADA, names[4], None, "s0", before=1, after=1)
    assert told(of_session) == [(-1, "step 2"), (0, "step 4"), (1, "step 6")]
    assert (await around.timeline(ADA, names[4], "hermes")).reason == "no_match"
    assert (await around.timeline(ADA, names[4], None, "s1")).reason == "no_match"


async def test_what_happened_in_the_same_millisecond_is_in_the_order_of_ids(desk: Desk, around: AroundQueries):
    names = sorted([await desk.observe(f"step {n}", NOW) for n in range(5)])
    await desk.settle()
    found = await around.timeline(ADA, names[2], "atlas", before=1, after=1)
    assert [entry.observation.id for entry in found.entries] == names[1:4]


@pytest.mark.parametrize("looked_at", [2_000, 1])
async def test_around_words_is_the_newest_that_contains_them(
    desk: Desk, around: AroundQueries, looked_at: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lookup, "LOOKED_AT", looked_at)
    await desk.observe("the kettle leaks", minute(1))
    await desk.observe("the kettle was replaced", minute(3))
    await desk.observe("the pot, not that kettle leaks", minute(2))
    await desk.observe("tea at four", minute(4))
    await desk.settle()
    assert told(await around.timeline(ADA, "Kettle", "atlas", before=0, after=0)) == [(0, "the kettle was replaced")]
    found = await around.timeline(ADA, "kettle leaks", "atlas", before=0, after=0)
    assert told(found) == [(0, "the pot, not that kettle leaks")]
    assert (await around.timeline(ADA, "leaks kettle", "atlas")).reason == "no_match", "not as it was said"


async def test_an_empty_timeline_says_why(desk: Desk, around: AroundQueries):
    await day(desk)
    reasons = {
        "  ": "invalid_anchor",
        "2026-13-45": "invalid_date",
        "2026-01-31 at tea": "invalid_date",
        "nobody said this": "no_match",
        "obs_0123": "no_match",
    }
    found = {anchor: await around.timeline(ADA, anchor, "atlas") for anchor in reasons}
    assert {anchor: one.reason for anchor, one in found.items()} == reasons
    assert {(len(one.entries), one.anchor_index) for one in found.values()} == {(0, -1)}
    assert (await around.timeline(ADA, "2026-01-31", "nowhere")).reason == "no_match"


async def test_a_timeline_tells_isolated_readers_their_own_only_and_other_tenants_nothing(
    desk: Desk, around: AroundQueries
):
    names = [
        await desk.observe(f"step {n}", minute(n), agent_id=agent)
        for n, agent in enumerate(["ada", "bob", "ada", "bob"])
    ]
    await desk.settle()
    assert told(await around.timeline(ALONE, names[1], "atlas")) == [(0, "step 1"), (1, "step 3")]
    assert told(await around.timeline(ALONE, "step", None))[-1] == (0, "step 3")
    for anchor in (names[0], "step 2"):
        assert (await around.timeline(ALONE, anchor, "atlas")).reason == "no_match"
    for anchor in (names[0], "step", "2026-01-31"):
        assert (await around.timeline(STRANGER, anchor, None)).reason == "no_match"


async def enriched(around: AroundQueries, *files: str, reader: Reader = ADA, session: str = "s9", **asked: Any) -> str:
    wanted: dict[str, Any] = {"terms": [], "tool_name": "Edit", "project": "atlas", **asked}
    found = await around.enrich(reader, session, files, **wanted)
    return found.context


async def test_files_are_told_of_by_history_recall_and_bugs(desk: Desk, around: AroundQueries):
    await desk.edit("/repo/src/tea.py", "the kettle was too small")
    await desk.edit("src/tea.py", "steeped for long", session_id="s2")
    await desk.edit("lib/tea.py", "unrelated", session_id="s2")
    await desk.remember("the pot overflows on retry", files=["src/tea.py"], tags=["bug"])
    await desk.remember("the pot is blue", files=["src/tea.py"])
    await desk.remember("the pot leaks", files=["other.py"], tags=["bug"])
    await desk.settle()
    context = await enriched(around, "src/tea.py", terms=["overflows"])
    history, _, rest = context.partition("</agentmemory-file-context>")
    assert history.startswith("<agentmemory-file-context>\n## src/tea.py\n")
    assert "Edit `/repo/src/tea.py`" in history
    assert "Edit `src/tea.py`" in history
    assert "lib/tea.py" not in history
    assert "<agentmemory-relevant-context>" in rest
    _, _, errors = rest.partition("<agentmemory-past-errors>\n")
    assert errors == "- the pot overflows on retry\n</agentmemory-past-errors>"
    assert "Edit `src/tea.py`" in await enriched(around, "/home/ada/src/tea.py")
    assert len(await enriched(around, "src/tea.py", limit_chars=120)) <= 120


async def test_a_sessions_own_work_is_no_news_and_its_project_is_the_default(desk: Desk, around: AroundQueries):
    await desk.edit("tea.py", "steeped for long", session_id="s1")
    await desk.edit("tea.py", "of another project", session_id="s2", project="hermes")
    await desk.observe("begun", session_id="s9")
    await desk.settle()
    assert "file-context" not in await enriched(around, "tea.py", session="s1")
    assert "steeped for long" in await enriched(around, "tea.py", project=None)
    assert "of another project" not in await enriched(around, "tea.py", project=None)
    assert "of another project" in await enriched(around, "tea.py", project=None, session="unknown")


async def test_nothing_known_is_nothing_said(desk: Desk, around: AroundQueries):
    assert await enriched(around, "tea.py") == ""
    assert await enriched(around) == ""


async def test_bugs_are_told_to_those_who_may_see_them(desk: Desk, around: AroundQueries):
    await desk.remember("overflows on retry", files=["tea.py"], tags=["bug"], visibility="private")
    await desk.settle()
    assert "overflows" in await enriched(around, "tea.py")
    for reader in (BOB, NOBODY, ALONE, STRANGER):
        assert await enriched(around, "tea.py", reader=reader) == ""
