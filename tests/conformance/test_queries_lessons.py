"""Which lessons speak up, which are about a query, which are the surest; and who is told."""

from datetime import timedelta
from typing import Any

import pytest
from desk import ADA, ALONE, STRANGER, Desk

from ingest.commands.decide import RetireLesson, ReviseLesson
from ingest.platform.clock import system_clock
from projections.documents.access import Reader
from projections.queries import lessons as lessons_module
from projections.queries.context import Compile, ContextRequest
from projections.queries.lessons import Lessons
from projections.queries.profiles import ProjectProfiles


@pytest.fixture
def lessons(desk: Desk) -> Lessons:
    return Lessons(desk.replica, desk.documents, desk.recall.vectors)


async def matched(lessons: Lessons, reader: Reader = ADA, **asked: Any) -> list[str]:
    wanted: dict[str, Any] = {"tool_name": "Bash", "preview": "git push --force", "project": "atlas", **asked}
    return [one.content for one in await lessons.match(reader, **wanted)]


async def test_lessons_about_a_tool_call_come_by_severity_then_the_newest_first(desk: Desk, lessons: Lessons):
    await desk.learn("any tool", severity="warning")
    await desk.learn("global", project="*", severity="warning", trigger_tool="Bash")
    await desk.learn("of no project", project="", severity="info", trigger_tool="Bash")
    await desk.learn("critical", severity="critical", trigger_pattern="PUSH.*force")
    await desk.learn("unrated", trigger_tool="Bash")
    await desk.learn("another tool", severity="critical", trigger_tool="bash")
    await desk.learn("another text", severity="critical", trigger_pattern="rm -rf")
    await desk.learn("another project", project="hermes", severity="critical")
    await desk.learn("no rule at all")
    await desk.settle()
    assert await matched(lessons) == ["critical", "global", "any tool", "unrated"]
    assert await matched(lessons, limit=2) == ["critical", "global"]
    assert await matched(lessons, project=None) == ["global", "of no project"]
    assert await matched(lessons, tool_name="Edit") == ["critical", "any tool"]


async def test_every_lesson_is_looked_at_however_many_there_are(
    desk: Desk, lessons: Lessons, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lessons_module, "PAGE", 2)
    await desk.learn("the oldest", severity="info", trigger_pattern="push")
    for n in range(5):
        await desk.learn(f"other{n}", severity="info", trigger_pattern="pull", project="atlas" if n % 2 else "")
    await desk.settle()
    assert await matched(lessons) == ["the oldest"]


async def test_patterns_that_take_too_long_are_cut_off_and_the_log_says_so(
    desk: Desk, lessons: Lessons, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    await desk.learn("first", severity="critical")
    await desk.learn("second", severity="warning")
    await desk.settle()
    monkeypatch.setattr(lessons_module, "PATTERNS_BUDGET_S", 0.0)
    assert await matched(lessons) == ["first"]
    assert "1 found, others not looked at" in caplog.text


async def test_inactive_and_retired_lessons_are_silent(desk: Desk, lessons: Lessons):
    resting = await desk.learn("rest before pushing", severity="critical")
    faded = await desk.learn("push on fridays", severity="critical", confidence=0.05)
    await desk.say(ReviseLesson(lesson=resting, project="atlas", active=False))
    await desk.say(RetireLesson(lesson=faded, project="atlas", confidence=0.05))
    await desk.settle()
    now = system_clock()
    assert await matched(lessons) == []
    assert await lessons.search(ADA, "push", "atlas", now, min_confidence=0) == []
    assert await lessons.surest(ADA, "atlas", now) == []


async def test_a_search_weighs_what_a_lesson_says_by_how_sure_it_is(desk: Desk, lessons: Lessons):
    await desk.learn("rebase before pushing the branch", confidence=0.4)
    await desk.learn("never force pushing on fridays", confidence=0.7)
    await desk.learn("pushing needs a token", project="*", confidence=0.6)
    await desk.learn("pushing is not for this project", project="", confidence=0.6)
    await desk.learn("pushing elsewhere", project="hermes", confidence=0.9)
    await desk.learn("drink green tea", confidence=0.9)
    await desk.settle()
    now = system_clock()
    found = await lessons.search(ADA, "rebase pushing", "atlas", now)
    assert [(one.content, score) for one, score in found] == [
        ("rebase before pushing the branch", 0.4),
        ("never force pushing on fridays", 0.35),
        ("pushing needs a token", 0.3),
    ]
    assert [one.project for one, _ in await lessons.search(ADA, "pushing", None, now, limit=1)] == ["hermes"]
    assert len(await lessons.search(ADA, "rebase pushing", "atlas", now, min_confidence=0.5)) == 2


async def test_a_lesson_that_was_not_said_for_long_weighs_less(desk: Desk, lessons: Lessons):
    await desk.learn("rebase before pushing", confidence=0.8)
    await desk.settle()
    now = system_clock()
    ((_, fresh),) = await lessons.search(ADA, "rebase", "atlas", now)
    ((_, old),) = await lessons.search(ADA, "rebase", "atlas", now + timedelta(weeks=4))
    assert (fresh, old) == (0.8, round(0.6 / 1.28, 3))


async def test_the_surest_come_first_of_one_project_or_of_all(desk: Desk, lessons: Lessons):
    await desk.learn("half", confidence=0.5)
    await desk.learn("sure", confidence=0.9, origin="crystal")
    await desk.learn("global", project="", confidence=0.7)
    await desk.settle()
    now = system_clock()
    assert [one.content for one in await lessons.surest(ADA, None, now)] == ["sure", "global", "half"]
    assert [one.content for one in await lessons.surest(ADA, "atlas", now)] == ["sure", "half"]
    assert [one.content for one in await lessons.surest(ADA, None, now, limit=1)] == ["sure"]
    assert [one.content for one in await lessons.surest(ADA, None, now, source="manual")] == ["global", "half"]
    assert [one.content for one in await lessons.surest(ADA, None, now, min_confidence=0.6)] == ["sure", "global"]


async def test_isolated_readers_are_told_their_own_lessons_and_other_tenants_none(desk: Desk, lessons: Lessons):
    await desk.learn("said by ada", severity="info")
    await desk.learn("said by bob", severity="info", agent_id="bob")
    await desk.learn("said elsewhere", severity="info", tenant="elsewhere")
    await desk.settle()
    now = system_clock()
    for reader, told in ((ALONE, ["said by bob"]), (STRANGER, ["said elsewhere"])):
        assert await matched(lessons, reader) == told
        assert [one.content for one, _ in await lessons.search(reader, "said", "atlas", now)] == told
        assert [one.content for one in await lessons.surest(reader, None, now)] == told


async def test_a_context_tells_a_lesson_of_another_project_only_where_it_is_meant_for_all(desk: Desk):
    await desk.learn("own", confidence=0.6)
    await desk.learn("for every project", project="*", confidence=0.6)
    await desk.learn("of no project", project="", confidence=0.9)
    await desk.learn("of another", project="hermes", confidence=0.9)
    await desk.settle()
    compiling = Compile(desk.replica, desk.documents, desk.recall, ProjectProfiles(desk.replica, desk.documents))
    context = await compiling(ContextRequest(project="atlas"), ADA)
    (block,) = (one for one in context.blocks if one.kind == "lessons")
    assert [line.split(") ")[1] for line in block.text.splitlines()[1:]] == ["own", "for every project"]
