"""Lists in the order that agent-memory's clients expect, whatever order the store keeps."""

import pytest
from desk import ADA, STRANGER, Desk
from factories import PROJECT, minute

from ingest.commands.decide import RecordLesson, ReviseLesson, TrackSession
from ingest.events.lesson import Severity
from projections.queries import listed
from projections.queries.listed import Listed

ACTIVE = ("active",)


@pytest.fixture
def lists(desk: Desk) -> Listed:
    return Listed(desk.replica, desk.documents)


async def begin(desk: Desk, session: str, begun: int, last: int, project: str = PROJECT) -> None:
    """A session that began and was last active so many minutes after noon."""
    await desk.say(TrackSession(status="started", occurred_at=minute(begun), project=project, session_id=session))
    await desk.observe("seen", minute(last), project=project, session_id=session)


@pytest.mark.parametrize("at_once", [1, 3, 200])
async def test_sessions_come_by_their_beginning_not_their_last_activity(
    desk: Desk, lists: Listed, monkeypatch: pytest.MonkeyPatch, at_once: int
):
    monkeypatch.setattr(listed, "SESSIONS_AT_ONCE", at_once)
    for begun, last in ((0, 30), (1, 2), (2, 29), (3, 4), (4, 5), (5, 28)):
        await begin(desk, f"s{begun}", begun, last)
    await desk.settle()
    found = await lists.sessions(ADA, PROJECT, ACTIVE, 3)
    assert [one.session.session_id for one in found] == ["s5", "s4", "s3"]
    assert len(await lists.sessions(ADA, None, ACTIVE, 100)) == await lists.session_count(ADA.tenant) == 6
    assert await lists.sessions(STRANGER, None, ACTIVE, 100) == []
    assert await lists.sessions(ADA, None, ("failed",), 100) == []


async def test_of_sessions_of_one_id_the_first_is_listed(desk: Desk, lists: Listed):
    await begin(desk, "s", 1, 2)
    await begin(desk, "s", 3, 4, "another")
    await desk.settle()
    assert [one.session.project for one in await lists.sessions(ADA, None, ACTIVE, 10)] == [PROJECT]


async def test_observations_come_newest_first_page_by_page(desk: Desk, lists: Listed):
    for when in (3, 0, 4, 1, 2):
        await desk.observe(f"step {when}", minute(when), project="even" if when % 2 == 0 else "odd")
    await desk.settle()

    async def steps(project: str | None, offset: int, limit: int) -> list[str]:
        return [one.content for one in await lists.observations(ADA, project, [], offset, limit)]

    assert await steps(None, 0, 2) == ["step 4", "step 3"]
    assert await steps(None, 2, 100) == ["step 2", "step 1", "step 0"]
    assert await steps("even", 1, 1) == ["step 2"]
    assert await steps("nowhere", 0, 10) == await steps(None, 5, 10) == await steps(None, 0, 0) == []
    assert await lists.observation_count(ADA) == 5
    counted = await lists.tally(ADA)
    assert (counted.total, counted.embedded, counted.projects) == (5, 0, {"even": 3, "odd": 2})


async def test_rules_come_by_severity_and_those_switched_off_only_when_asked_for(desk: Desk, lists: Listed):
    stated: list[tuple[str, Severity, str]] = [
        ("plain", "", PROJECT),
        ("told", "info", PROJECT),
        ("grave", "critical", "another"),
        ("warned", "warning", PROJECT),
        ("graver", "critical", PROJECT),
    ]
    names: dict[str, str] = {}
    for text, severity, project in stated:
        names[text] = await desk.say(RecordLesson(content=text, severity=severity, project=project))
    await desk.say(ReviseLesson(lesson=names["warned"], project=PROJECT, active=False))
    await desk.settle()

    async def rules(project: str | None, severity: str | None, *, active: bool = True, limit: int = 10) -> list[str]:
        return [one.content for one in await lists.rules(ADA, project, severity, active=active, limit=limit)]

    assert await rules(None, None) == ["graver", "grave", "told", "plain"]
    assert await rules(None, None, limit=2) == ["graver", "grave"]
    assert await rules(PROJECT, "critical") == ["graver"]
    assert await rules(None, "info") == ["told", "plain"]
    assert await rules(None, "warning") == []
    assert await rules(None, None, active=False) == await rules(PROJECT, "warning", active=False) == ["warned"]
    assert await rules("another", None, active=False) == []
