"""What is found wrong, by looking at the newest of everything."""

from datetime import timedelta

import pytest
from desk import ADA, ALONE, PARTITIONS, STRANGER, Desk
from factories import ManualClock

from ingest.commands.decide import Relate, SetSlot, SummariseSession, WriteAction
from ingest.events.action import ActionEdge
from ingest.log.keys import WORKERS, PartitionKeys
from ingest.platform.clock import system_clock
from projections.dead_letters.records import DeadLetter, queue_letter
from projections.documents.access import Reader
from projections.health.diagnosis import CATEGORIES
from projections.health.pressure import Limits
from projections.health.queries import Diagnose
from projections.health.samples import HealthSampler
from projections.health.watch import Watch
from projections.maintenance.backups import Status, save_status

MISSING = f"mem_{0:020x}"


@pytest.fixture
def later() -> ManualClock:
    """A clock that can be moved on from now."""
    return ManualClock(system_clock())


@pytest.fixture
async def watch(desk: Desk, later: ManualClock) -> Watch:
    """Sees a worker that is alive, however far the clock is moved."""
    await desk.redis.zadd(WORKERS, {"desk": (later() + timedelta(days=365)).timestamp() * 1000})
    return Watch(HealthSampler(desk.redis, PARTITIONS, desk.replica, clock=later), Limits())


@pytest.fixture
def diagnose(desk: Desk, watch: Watch, later: ManualClock) -> Diagnose:
    return Diagnose(desk.redis, watch, desk.replica, desk.documents, llm="stub", clock=later)


async def troubles(diagnose: Diagnose, reader: Reader = ADA, *categories: str) -> dict[str, str]:
    """The messages of what did not pass, by category and name."""
    found = await diagnose(reader, categories)
    return {f"{one.category}/{one.name}": one.message for one in found.checks if one.status != "pass"}


async def test_an_empty_memory_is_healthy(diagnose: Diagnose):
    found = await diagnose(ADA)
    assert found.status == "healthy"
    assert {check.category for check in found.checks} == set(CATEGORIES)


async def test_backups_that_fail_or_are_late_are_told(desk: Desk, watch: Watch, later: ManualClock):
    health = Diagnose(desk.redis, watch, desk.replica, desk.documents, backup_every=timedelta(hours=1), clock=later)
    assert await troubles(health) == {}, "nobody has looked yet"
    await save_status(desk.redis, Status(target="/srv", error="the disk is full"))
    assert await troubles(health) == {"storage/backup": "the newest backup failed: the disk is full"}
    await save_status(desk.redis, Status(target="/srv", listed_at=later()))
    later.advance(timedelta(hours=3))
    assert await troubles(health) == {}
    later.advance(timedelta(seconds=1))
    assert "does a worker run?" in (await troubles(health))["storage/backup"]


async def test_only_what_is_asked_for_is_told(diagnose: Diagnose):
    found = await diagnose(ADA, ["storage", "llm", "unknown"])
    assert [check.category for check in found.checks] == ["storage", "llm"]
    assert " MiB" in found.checks[0].message


async def test_ordinary_work_is_healthy(desk: Desk, diagnose: Diagnose):
    first = await desk.remember("tea at four in the afternoon", keep_duplicates=False)
    await desk.remember("tea at four in the afternoon", keep_duplicates=False)
    await desk.learn("rebase")
    await desk.observe("step 1")
    await desk.say(Relate(source=first, target="concept:tea", relation="about", project="atlas"))
    await desk.settle()
    await desk.forget("memory", first)
    assert await troubles(diagnose) == {}


async def test_events_that_wait_are_counted_and_timed(desk: Desk, diagnose: Diagnose, later: ManualClock):
    await desk.remember("tea")
    later.advance(timedelta(seconds=35))
    assert list(await troubles(diagnose)) == ["log/lag"]
    (check,) = (await diagnose(ADA, ["log"])).checks
    assert check.message.startswith("1 events are not projected yet, the oldest for 3")


async def test_dead_letters_are_counted(desk: Desk, diagnose: Diagnose):
    letter = DeadLetter(position="1-0", code="internal", message="no", attempts=3)
    async with desk.redis.pipeline() as pipe:
        queue_letter(pipe, PartitionKeys(PARTITIONS - 1).of_generation(1), letter)
        await pipe.execute()
    assert await troubles(diagnose) == {"dead_letters/dead-letters": "1 events could not be applied"}


async def test_a_session_that_was_silent_for_a_day_is_named(desk: Desk, diagnose: Diagnose, later: ManualClock):
    await desk.observe("step 1", session_id="forgotten")
    await desk.settle()
    later.advance(timedelta(hours=23))
    assert await troubles(diagnose) == {}
    later.advance(timedelta(hours=2))
    assert "forgotten" in (await troubles(diagnose))["sessions/active-over-a-day"]
    assert await troubles(diagnose, ALONE) == {}
    assert await troubles(diagnose, STRANGER) == {}


async def test_what_leads_nowhere_is_named(desk: Desk, diagnose: Diagnose):
    memory = await desk.remember("tea")
    action = await desk.say(WriteAction(title="brew", requires=[f"act_{0:020x}"], project="atlas", agent_id="ada"))
    relation = await desk.say(Relate(source=memory, target=MISSING, relation="about", project="atlas", agent_id="ada"))
    await desk.settle()
    found = await troubles(diagnose)
    assert set(found) == {"actions/missing-requirement", "relations/dangling"}
    assert action in found["actions/missing-requirement"]
    assert relation in found["relations/dangling"]
    assert await troubles(diagnose, ALONE) == {}
    assert await troubles(diagnose, STRANGER) == {}


async def test_circles_of_actions_summaries_without_a_title_and_full_slots_are_named(desk: Desk, diagnose: Diagnose):
    await desk.remember("tea")
    first = await desk.say(WriteAction(title="hen", project="atlas"))
    second = await desk.say(WriteAction(title="egg", requires=[first], project="atlas"))
    edge = ActionEdge(type="requires", target=second)
    await desk.say(WriteAction(action=first, edges=[edge], project="atlas"))
    await desk.observe("step 1", event_id="opening")
    summary = SummariseSession(
        title=" ", narrative="said", project="atlas", session_id="s1", observation_count=1, forgotten_at="opening"
    )
    await desk.say(summary)
    await desk.say(SetSlot(label="notes", content="too long", size_limit=100, project="atlas"))
    await desk.say(SetSlot(label="notes", content="too long", size_limit=3, project="atlas"))
    await desk.settle()
    found = await troubles(diagnose)
    assert set(found) == {"actions/cycle", "summaries/title", "slots/over-limit"}
    assert first in found["actions/cycle"]
    assert "notes" in found["slots/over-limit"]


async def test_memories_that_the_server_made_are_not_counted_among_those_without_a_project(
    desk: Desk, diagnose: Diagnose
):
    """A crystal, or what was consolidated, of work without a project is nobody's fault."""
    for tags in (["crystal"], ["consolidated"], ["fact", "consolidated"], ["procedure", "consolidated"]):
        await desk.remember(f"made of {tags}", project="", tags=tags)
    await desk.settle()
    assert await troubles(diagnose) == {}
    await desk.remember("a fact that somebody saved", project="", tags=["fact"])
    await desk.settle()
    assert (await troubles(diagnose))["memories/unscoped"].startswith("1 memories")


async def test_memories_without_a_project_are_counted_for_those_who_may_see_them(desk: Desk, diagnose: Diagnose):
    await desk.remember("tea", project="")
    await desk.remember("the safe", project="", visibility="private")
    await desk.settle()
    assert (await troubles(diagnose))["memories/unscoped"].startswith("2 memories")
    assert (await troubles(diagnose, Reader("default")))["memories/unscoped"].startswith("1 memories")
