"""Which lessons speak up, which are about a query, which are the surest; and who is told."""

from datetime import timedelta
from typing import Any

import pytest
from desk import ADA, ALONE, BOB, STRANGER, Desk
from factories import PROJECT, minute
from redis.exceptions import ConnectionError
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller, ChangeVisibility, RecordLesson, RetireLesson, ReviseLesson, TrackSession
from ingest.commands.handler import Accepted
from ingest.ids import DocumentId
from ingest.log.position import Token
from ingest.nouns.lesson import Severity
from ingest.platform.clock import system_clock
from projections.nouns.access import Reader
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.operations.memory import MemoryChanges, MemoryOperations
from projections.operations.work import Confirmed, Confirming
from projections.queries import lesson as lessons_module
from projections.queries import listed
from projections.queries import profiles as profiles_module
from projections.queries.context import Compile, ContextRequest
from projections.queries.lesson import Lessons
from projections.queries.listed import Listed
from projections.queries.memory import Memories
from projections.queries.profiles import ProjectProfiles


@pytest.fixture
def lessons(desk: Desk) -> Lessons:
    return Lessons(desk.replica, desk.documents, desk.recall.vectors)


async def matched(lessons: Lessons, reader: Reader = ADA, **options: Any) -> list[str]:
    headers: dict[str, Any] = {"tool_name": "Bash", "preview": "git push --force", "project": "atlas", **options}
    return [lesson.content for lesson in await lessons.match(reader, **headers)]


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
    assert "1 matched, the others were skipped" in caplog.text


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
    results = await lessons.search(ADA, "rebase pushing", "atlas", now)
    assert [(result.content, score) for result, score in results] == [
        ("rebase before pushing the branch", 0.4),
        ("never force pushing on fridays", 0.35),
        ("pushing needs a token", 0.3),
    ]
    assert [result.project for result, _ in await lessons.search(ADA, "pushing", None, now, limit=1)] == ["hermes"]
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
    assert [lesson.content for lesson in await lessons.surest(ADA, None, now)] == ["sure", "global", "half"]
    assert [lesson.content for lesson in await lessons.surest(ADA, "atlas", now)] == ["sure", "half"]
    assert [lesson.content for lesson in await lessons.surest(ADA, None, now, limit=1)] == ["sure"]
    assert [lesson.content for lesson in await lessons.surest(ADA, None, now, source="manual")] == ["global", "half"]
    assert [lesson.content for lesson in await lessons.surest(ADA, None, now, min_confidence=0.6)] == ["sure", "global"]


async def test_isolated_readers_are_told_their_own_lessons_and_other_tenants_none(desk: Desk, lessons: Lessons):
    await desk.learn("said by ada", severity="info")
    await desk.learn("said by bob", severity="info", agent_id="bob")
    await desk.learn("said elsewhere", severity="info", tenant="elsewhere")
    await desk.settle()
    now = system_clock()
    for reader, answer in ((ALONE, ["said by bob"]), (STRANGER, ["said elsewhere"])):
        assert await matched(lessons, reader) == answer
        assert [result.content for result, _ in await lessons.search(reader, "said", "atlas", now)] == answer
        assert [result.content for result in await lessons.surest(reader, None, now)] == answer


async def test_a_context_tells_a_lesson_of_another_project_only_where_it_is_meant_for_all(desk: Desk):
    await desk.learn("own", confidence=0.6)
    await desk.learn("for every project", project="*", confidence=0.6)
    await desk.learn("of no project", project="", confidence=0.9)
    await desk.learn("of another", project="hermes", confidence=0.9)
    await desk.settle()
    compiling = Compile(desk.replica, desk.documents, desk.recall, ProjectProfiles(desk.replica, desk.documents))
    context = await compiling(ContextRequest(project="atlas"), ADA)
    (block,) = (block for block in context.blocks if block.kind == "lessons")
    assert [line.split(") ")[1] for line in block.text.splitlines()[1:]] == ["own", "for every project"]


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
    results = await lists.sessions(ADA, PROJECT, ACTIVE, 3)
    assert [result.session.session_id for result in results] == ["s5", "s4", "s3"]
    assert len(await lists.sessions(ADA, None, ACTIVE, 100)) == await lists.session_count(ADA.tenant) == 6
    assert await lists.sessions(STRANGER, None, ACTIVE, 100) == []
    assert await lists.sessions(ADA, None, ("failed",), 100) == []


async def test_of_sessions_of_one_id_the_first_is_listed(desk: Desk, lists: Listed):
    await begin(desk, "s", 1, 2)
    await begin(desk, "s", 3, 4, "another")
    await desk.settle()
    assert [session.session.project for session in await lists.sessions(ADA, None, ACTIVE, 10)] == [PROJECT]


async def test_observations_come_newest_first_page_by_page(desk: Desk, lists: Listed):
    for when in (3, 0, 4, 1, 2):
        await desk.observe(f"step {when}", minute(when), project="even" if when % 2 == 0 else "odd")
    await desk.settle()

    async def steps(project: str | None, offset: int, limit: int) -> list[str]:
        return [observation.content for observation in await lists.observations(ADA, project, [], offset, limit)]

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
        return [rule.content for rule in await lists.rules(ADA, project, severity, active=active, limit=limit)]

    assert await rules(None, None) == ["graver", "grave", "told", "plain"]
    assert await rules(None, None, limit=2) == ["graver", "grave"]
    assert await rules(PROJECT, "critical") == ["graver"]
    assert await rules(None, "info") == ["told", "plain"]
    assert await rules(None, "warning") == []
    assert await rules(None, None, active=False) == await rules(PROJECT, "warning", active=False) == ["warned"]
    assert await rules("another", None, active=False) == []


@pytest.fixture
def profiles(desk: Desk) -> ProjectProfiles:
    return ProjectProfiles(desk.replica, desk.documents)


async def test_a_project_is_told_by_its_sessions_and_preferences(desk: Desk, profiles: ProjectProfiles):
    for path in ("src/tea.py", "src/tea.py", "src/pot.py"):
        await desk.edit(path)
    await desk.edit("src/other.py", project="hermes")
    await desk.remember("prefers tabs", tags=["preference"])
    await desk.remember("prefers tea", project="*", user_id="u1")
    await desk.remember("the kettle leaks")
    await desk.settle()
    profile, cached = await profiles.of(ADA, "atlas")
    assert profile is not None
    assert not cached
    assert (profile.session_count, profile.total_observations) == (1, 3)
    assert profile.files == [("src/tea.py", 2)]  # changed more than once
    assert profile.preferences == ["prefers tabs"]
    of_user, _ = await profiles.of(ADA, "atlas", "u1")
    assert of_user is not None
    assert of_user.preferences == ["prefers tea", "prefers tabs"]


async def test_an_unknown_project_has_none(desk: Desk, profiles: ProjectProfiles):
    await desk.remember("prefers tabs", project="", tags=["preference"])
    await desk.settle()
    assert await profiles.of(ADA, "nowhere") == (None, False)
    assert await profiles.of(ADA, "nowhere") == (None, False)


async def test_the_second_answer_is_the_first_until_it_is_refreshed_or_old(
    desk: Desk, profiles: ProjectProfiles, monkeypatch: pytest.MonkeyPatch
):
    await desk.edit("a.py")
    await desk.settle()
    first, _ = await profiles.of(ADA, "atlas")
    await desk.edit("b.py")
    await desk.settle()
    assert await profiles.of(BOB, "atlas") == (first, True)
    fresh, cached = await profiles.of(ADA, "atlas", refresh=True)
    assert fresh is not None
    assert (len(fresh.files), cached) == (2, False)
    monkeypatch.setattr(profiles_module, "KEEP_S", 0.0)
    await profiles.of(ADA, "atlas", refresh=True)
    assert (await profiles.of(ADA, "atlas"))[1] is False


async def test_only_so_many_are_kept(desk: Desk, profiles: ProjectProfiles, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiles_module, "KEPT", 2)
    for name in "abc":
        await desk.edit(f"{name}.py", project=name)
    await desk.settle()
    for name in "abc":
        await profiles.of(ADA, name)
    assert [(await profiles.of(ADA, name))[1] for name in "cba"] == [True, True, False]


async def test_what_was_forgotten_is_told_no_more(desk: Desk, profiles: ProjectProfiles):
    await desk.edit("a.py")
    gone = await desk.edit("secret.py")
    await desk.settle()
    await profiles.of(ADA, "atlas")
    await desk.forget("observation", gone, session_id="s1")
    profile, cached = await profiles.of(ADA, "atlas")
    assert profile is not None
    assert not cached
    assert profile.files == [("a.py", 1)]


async def test_a_preference_that_became_private_is_told_no_more(desk: Desk, profiles: ProjectProfiles):
    await desk.edit("a.py")
    name = await desk.remember("prefers tabs", tags=["preference"])
    private = await desk.remember("prefers secrets", tags=["preference"], visibility="private")
    await desk.settle()
    profile, _ = await profiles.of(ADA, "atlas")
    assert profile is not None
    assert profile.preferences == ["prefers tabs"], f"{private} is ada's own, but the profile is everybody's"
    await desk.say(ChangeVisibility(memory=name, visibility="private", project="atlas"))
    await desk.settle()
    profile, cached = await profiles.of(ADA, "atlas")
    assert profile is not None
    assert not cached
    assert profile.preferences == []


async def test_isolated_readers_get_a_profile_of_their_own_and_other_tenants_none(
    desk: Desk, profiles: ProjectProfiles
):
    await desk.edit("ada.py")
    await desk.edit("bob.py", agent_id="bob", session_id="s2")
    await desk.remember("ada prefers tabs", tags=["preference"])
    await desk.settle()
    await profiles.of(ADA, "atlas")
    profile, cached = await profiles.of(ALONE, "atlas")
    assert profile is not None
    assert not cached
    assert (profile.files, profile.preferences, profile.session_count) == ([("bob.py", 1)], [], 1)
    assert await profiles.of(STRANGER, "atlas") == (None, False)


EVE = Reader(TENANT, "eve")


async def confirm(shop: Workshop, *names: str, reader: Reader = ADA, event_id: str = "") -> Confirmed:
    caller = Caller(TENANT, agent_id=reader.agent_id)
    result = await Confirming(shop.current).confirm(names, reader, caller, event_id)
    await shop.project()
    return result


async def learn(shop: Workshop) -> str:
    return (await shop.say(RecordLesson(content="Run the migrations first.", project="atlas"))).id


async def test_memories_and_lessons_that_proved_right_count_for_more(shop: Workshop):
    tea, lesson = (await shop.remember("tea")).id, await learn(shop)
    result = await confirm(shop, tea, lesson, tea)
    assert (result.confirmed, result.unknown) == ([tea, lesson], [])
    assert result.position
    assert (await shop.document(tea, Memory)).confirmations == 1
    assert (await shop.document(lesson, Lesson)).reinforcements == 1


async def test_confirming_again_with_the_same_event_id_changes_nothing(shop: Workshop):
    tea, lesson = (await shop.remember("tea")).id, await learn(shop)
    for _ in range(2):
        await confirm(shop, tea, lesson, event_id="e1")
    assert (await shop.document(tea, Memory)).confirmations == 1
    assert (await shop.document(lesson, Lesson)).reinforcements == 1
    await confirm(shop, tea, event_id="e2")
    assert (await shop.document(tea, Memory)).confirmations == 2


async def test_what_is_not_there_or_not_the_readers_to_see_is_unknown(shop: Workshop):
    superseded = (await shop.remember("one", agent_id="eve")).id
    changes = MemoryChanges(content="two")
    await MemoryOperations(shop.current).change(superseded, changes, EVE, Caller(TENANT, agent_id="eve"))
    hers = (await shop.remember("private", agent_id="ada", visibility="private")).id
    observation = (await shop.observe("an observation")).id
    named = [hers, observation, superseded, "mem_nothing", "what?"]
    result = await confirm(shop, *named, reader=EVE)
    assert (result.confirmed, result.unknown, result.position) == ([], named, "")
    assert (await shop.document(hers, Memory)).confirmations == 0


async def test_a_stored_memory_is_acknowledged_while_its_outcome_cannot_be_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    """The server of the log fails between the append and the look at what the memory superseded."""
    name = await desk.remember("We deploy on Tuesdays")
    await desk.settle()
    location = desk.replica.partition_of(name)
    assert location is not None
    accepted = Accepted(name, "event-1", f"{location}:{await desk.log.head(location)}", False, "fsync")

    async def fail(locations: Any) -> Any:
        raise ConnectionError("the server closed the connection")

    memories = Memories(desk.documents, desk.lookup, desk.replica)
    monkeypatch.setattr(desk.documents, "get", fail)
    answer = await memories.answer_to(accepted, lambda: ADA)
    assert (answer.id, answer.position) == (name, accepted.position)
    monkeypatch.setattr(desk.documents, "find_all", fail)
    assert await memories.count_restatements([DocumentId(name)], TENANT, Token.parse(accepted.position)) == 0
