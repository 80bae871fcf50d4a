"""What time brings about, against a real Valkey: sessions end, lessons fade, memories expire, much becomes little.

The clock stands still unless a test moves it. Every job may run twice, or on two workers at once, and ends the same.

Left open: how often the jobs run (`workers.main` says); in what order what is due is done.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from workshop import IDLE_AFTER, PARTITIONS, TENANT, Workshop

from ingest.commands.decide import AnyCommand, Caller, EndIdleSession, ForgetSubject, ReinforceLesson, TrackSession
from ingest.commands.handler import Accepted
from ingest.events.subject import EventErased
from ingest.ids import DocumentId
from ingest.log.position import partition_of, project_route
from ingest.nouns.lesson import LessonRetired
from ingest.nouns.memory import MemoryCondensed
from ingest.nouns.session import SessionEnded, SessionSummarised
from ingest.platform.clock import from_ms, to_ms
from projections.condensing import consolidation
from projections.condensing import operations as condensing_operations
from projections.forgetting.forget import Forgetting
from projections.nouns.access import Reader
from projections.nouns.lesson import fades_at, is_retired
from projections.nouns.memory import EPISODIC, Memory
from projections.operations.current import Current
from workers import upkeep as upkeep_module
from workers.upkeep import Condense, Upkeep

MS = timedelta(milliseconds=1)
TOPICS = ("kettle", "harbour", "violin", "glacier", "lantern", "orchard", "pulley", "saddle", "thimble", "walnut")


# sessions


async def test_a_session_that_fell_silent_is_ended_and_one_that_did_not_is_not(shop: Workshop):
    """To the millisecond: silent for exactly the idle time is not yet silent for longer."""
    await shop.observe("the first thing", "quiet")
    await shop.project()
    observation = from_ms((await shop.session("quiet")).seen_ms)
    shop.clock.now = observation + IDLE_AFTER
    assert await shop.upkeep().end_idle_sessions() == 0
    shop.clock.advance(MS)
    assert await shop.upkeep().end_idle_sessions() == 1
    await shop.project()
    quiet = await shop.session("quiet")
    assert quiet.status == "ended"
    (event,) = await shop.events(SessionEnded.TYPE)
    assert event.data == SessionEnded(reason="idle", idle_since_ms=quiet.seen_ms)
    assert await shop.upkeep().end_idle_sessions() == 0


async def test_an_ended_session_opens_again_when_something_comes_and_ends_again(shop: Workshop):
    await shop.observe("the first thing")
    await shop.project()
    shop.clock.advance(2 * IDLE_AFTER)
    await shop.upkeep().run()
    await shop.project()
    assert (await shop.session()).status == "ended"
    await shop.observe("one more thing")
    await shop.project()
    assert ((await shop.session()).status, (await shop.session()).ended_ms) == ("active", 0)
    assert await shop.upkeep().end_idle_sessions() == 1, "the log's clock stood still, ours is half an hour ahead"
    await shop.project()
    assert (await shop.session()).status == "ended"
    assert len(await shop.events(SessionEnded.TYPE)) == 2


async def test_an_observation_between_the_look_and_the_end_keeps_the_session_open(shop: Workshop):
    """The end says since when it was silent; the fold finds that it was not."""

    class Late(Current):
        async def give(self, command: AnyCommand, caller: Caller) -> Accepted:
            if isinstance(command, EndIdleSession):
                await asyncio.sleep(0.005)  # the log's clock counts milliseconds
                await shop.observe("just in time")
            return await super().give(command, caller)

    await shop.observe("the first thing")
    await shop.project()
    shop.clock.advance(2 * IDLE_AFTER)
    assert await shop.upkeep(shop.another_current(Late)).end_idle_sessions() == 1
    await shop.project()
    session = await shop.session()
    assert (session.status, session.observation_count) == ("active", 2)


async def test_a_crash_after_the_end_was_appended_ends_the_session_once(shop: Workshop):
    """Nothing was folded between two runs, of two workers: one event."""
    await shop.observe("the first thing")
    await shop.project()
    shop.clock.advance(2 * IDLE_AFTER)
    await asyncio.gather(shop.upkeep().end_idle_sessions(), shop.upkeep().end_idle_sessions())
    await shop.upkeep().end_idle_sessions()
    assert len(await shop.events(SessionEnded.TYPE)) == 1


# lessons


@pytest.mark.parametrize("confidence", [0.1, 0.12, 0.15, 0.3, 0.5, 0.8, 1.0])
async def test_a_lesson_retires_when_what_is_left_of_it_is_a_tenth(shop: Workshop, confidence: float):
    """Not a millisecond before 0.05 a week have brought it there, and never in its first week."""
    fields = await shop.learn("round the total last", confidence=confidence)
    await shop.project()
    told_at = from_ms((await shop.lesson(fields.id)).reinforced_ms)
    weeks = max(1.0, (confidence - 0.1) / 0.05)
    due = from_ms(to_ms(told_at + timedelta(weeks=weeks)))
    shop.clock.now = due - MS
    assert await shop.upkeep().retire_lessons() == 0
    shop.clock.now = due
    assert await shop.upkeep().retire_lessons() == 1
    await shop.project()
    lesson = await shop.lesson(fields.id)
    assert lesson.retired_ms > 0
    (event,) = await shop.events(LessonRetired.TYPE)
    assert isinstance(event.data, LessonRetired)
    left = max(0.05, confidence - 0.05 * ((due - told_at) / timedelta(weeks=1)))
    assert event.data.confidence == pytest.approx(round(left, 3), abs=1e-9)
    assert is_retired(event.data.confidence, 0)
    assert await shop.upkeep().retire_lessons() == 0


async def test_a_worker_whose_clock_is_ahead_of_the_logs_retires_a_lesson_all_the_same(shop: Workshop):
    """By the log's clock no time has passed at all; its event id must not be used up for nothing."""
    lesson = await shop.learn("a faint idea", confidence=0.12)
    await shop.project()
    shop.clock.advance(timedelta(weeks=1, minutes=1))
    assert await shop.upkeep().retire_lessons() == 1
    await shop.project()
    assert (await shop.lesson(lesson.id)).retired_ms > 0


@pytest.mark.parametrize("again", ["reinforce", "say"])
async def test_a_lesson_that_was_confirmed_never_retires(shop: Workshop, again: str):
    lesson = await shop.learn("round the total last", confidence=0.2)
    if again == "say":
        await shop.learn("round the total last")
    else:
        await shop.project()
        await shop.say(ReinforceLesson(lesson=lesson.id, project="atlas"))
    await shop.project()
    answer = await shop.lesson(lesson.id)
    assert answer.reinforcements == 1
    assert answer.confidence == pytest.approx(0.2 + 0.1 * 0.8, abs=1e-9)
    for _ in range(5):
        shop.clock.advance(timedelta(weeks=100))
        assert await shop.upkeep().retire_lessons() == 0
    assert (await shop.lesson(lesson.id)).retired_ms == 0
    assert answer.confidence_at(shop.clock.now) == 0.05


async def test_a_lesson_confirmed_between_the_look_and_the_retirement_stays(shop: Workshop):
    class Late(Current):
        async def give(self, command: AnyCommand, caller: Caller) -> Accepted:
            await shop.learn("round the total last")
            return await super().give(command, caller)

    fields = await shop.learn("round the total last", confidence=0.2)
    await shop.project()
    shop.clock.now = fades_at(0.2, 0.05, shop.clock.now) + timedelta(minutes=1)
    assert await shop.upkeep(shop.another_current(Late)).retire_lessons() == 1
    await shop.project()
    lesson = await shop.lesson(fields.id)
    assert (lesson.retired_ms, lesson.reinforcements) == (0, 1)


# memories that are not for ever


async def test_a_memory_is_forgotten_when_its_time_has_run_out(shop: Workshop):
    brief = await shop.remember("the guest password is tulip", ttl_days=0.5)
    lasting = await shop.remember("the guest house is at the harbour", ttl_days=2)
    forever = await shop.remember("the guest list is closed")
    await shop.project()
    due = (await shop.document(brief.id, Memory)).forget_after
    assert due is not None
    shop.clock.now = due - MS
    assert await shop.upkeep().forget_expired() == 0
    shop.clock.now = due
    assert await shop.upkeep().forget_expired() == 1
    await shop.project()
    assert await shop.gone(brief.id)
    assert [memory.id for memory in await shop.memories()] == [lasting.id, forever.id]
    assert [event.data.was for event in await shop.events(EventErased.TYPE) if isinstance(event.data, EventErased)]
    assert await shop.upkeep().forget_expired() == 0


# summaries


async def test_an_ended_session_is_summarised_once(shop: Workshop):
    """Two workers, a crash before the fold, another run: one event, one summary."""
    for text in ("reading the parser", "decided to round last", "the tests pass"):
        await shop.observe(text)
    await shop.say(TrackSession(session_id="s1", project="atlas", status="ended"))
    await shop.project()
    assert sorted(await asyncio.gather(shop.upkeep().summarise(), shop.upkeep().summarise())) == [1, 1]
    assert await shop.upkeep().summarise() == 1
    await shop.project()
    assert len(await shop.events(SessionSummarised.TYPE)) == 1
    assert (await shop.summary()).observation_count == 3
    assert await shop.upkeep().summarise() == 0


async def test_a_summary_has_the_date_of_what_it_tells(shop: Workshop):
    """Given history that is recorded long after it happened, in a session that ends now."""
    await shop.observe("Which port should the tills use?", kind="prompt", occurred_at=datetime(2025, 3, 1, tzinfo=UTC))
    await shop.observe("We decided that the port is 8040.", occurred_at=datetime(2025, 3, 2, tzinfo=UTC))
    await shop.say(TrackSession(session_id="s1", project="atlas", status="ended"))
    await shop.project()
    await shop.upkeep().summarise()
    await shop.project()
    summary = await shop.summary()
    assert summary.occurred_at == datetime(2025, 3, 2, tzinfo=UTC)
    assert summary.index_entry().occurred_ms == to_ms(summary.occurred_at) < summary.index_entry().recorded_ms


async def test_a_session_with_more_observations_is_summarised_again(shop: Workshop):
    await shop.observe("reading the parser")
    await shop.say(TrackSession(session_id="s1", project="atlas", status="ended"))
    await shop.project()
    assert await shop.upkeep().summarise() == 1
    await shop.project()
    await shop.observe("and the lexer")
    await shop.project()
    assert await shop.upkeep().summarise() == 0, "it is open again"
    await shop.say(TrackSession(session_id="s1", project="atlas", status="ended"))
    await shop.project()
    assert await shop.upkeep().summarise() == 1
    await shop.project()
    assert (await shop.summary()).observation_count == 2
    assert await shop.upkeep().summarise() == 0


async def test_a_session_that_lost_an_observation_is_summarised_again_without_it(shop: Workshop):
    await shop.observe("reading the parser")
    secret = await shop.observe("decided to call the product Zephyrine")
    await shop.say(TrackSession(session_id="s1", project="atlas", status="ended"))
    await shop.project()
    assert await shop.upkeep().summarise() == 1
    await shop.project()
    assert "Zephyrine" in repr(await shop.summary())
    await Forgetting(shop.current).documents([secret.id], Reader(TENANT, operator=True), Caller(TENANT))
    await shop.project()
    assert await shop.upkeep().summarise() == 1
    await shop.project()
    summary = await shop.summary()
    assert summary.observation_count == 1
    assert "Zephyrine" not in repr(summary)
    assert await shop.upkeep().summarise() == 0


async def test_a_session_without_observations_is_not_summarised(shop: Workshop):
    await shop.say(TrackSession(session_id="s1", project="atlas", status="started", title="Nothing happened"))
    await shop.say(TrackSession(session_id="s1", project="atlas", status="ended"))
    await shop.project()
    assert await shop.upkeep().summarise() == 0


async def test_sessions_that_a_slice_of_time_does_not_reach_are_summarised_in_the_next_run(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """Each run does as many as are summarised at a time."""
    monkeypatch.setattr(upkeep_module, "SUMMARISE_SLICE_S", 0.0)
    monkeypatch.setattr(condensing_operations, "SUMMARISED_AT_ONCE", 2)
    for session in ("s1", "s2", "s3"):
        await shop.observe("reading the parser", session)
        await shop.say(TrackSession(session_id=session, project="atlas", status="ended"))
    await shop.project()
    made: list[int] = []
    for _ in range(4):
        made.append(await shop.upkeep().summarise())
        await shop.project()
    assert made == [2, 1, 0, 0]


# faults


class Stumbling(Current):
    """Fails the first time something is written through it."""

    stumbled = False

    async def give(self, command: AnyCommand, caller: Caller) -> Accepted:
        if not self.stumbled:
            self.stumbled = True
            raise ZeroDivisionError("not this one")
        return await super().give(command, caller)


async def much_is_due(shop: Workshop) -> None:
    """Two silent sessions, two faded lessons, two memories whose time is over."""
    for n in ("1", "2"):
        await shop.observe("reading the parser", f"s{n}")
        await shop.learn(f"round total {n} last", confidence=0.2)
        await shop.remember(f"the guest password is tulip {n}", ttl_days=1)
    await shop.project()
    shop.clock.advance(timedelta(weeks=10))


@pytest.mark.parametrize("step", [Upkeep.end_idle_sessions, Upkeep.retire_lessons, Upkeep.forget_expired])
async def test_one_that_fails_does_not_hold_up_the_others(
    shop: Workshop, caplog: pytest.LogCaptureFixture, step: Callable[[Upkeep], Awaitable[int]]
):
    await much_is_due(shop)
    assert await step(shop.upkeep(shop.another_current(Stumbling))) == 1
    assert "not this one" in caplog.text
    await shop.project()
    assert await step(shop.upkeep()) == 1, "the one that failed"


async def test_a_maintenance_step_that_fails_does_not_hold_up_the_others(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    await much_is_due(shop)

    async def failing(self: Upkeep) -> int:
        raise ZeroDivisionError("no session at all")

    monkeypatch.setattr(Upkeep, "end_idle_sessions", failing)
    done = await shop.upkeep().run()
    assert done == {"sessions_ended": 0, "lessons_retired": 2, "memories_expired": 2}
    assert "no session at all" in caplog.text


# condensing


def episode(n: int) -> str:
    """What happened on the n-th day, in a sentence of its own."""
    return f"On day {n} kim moved the {TOPICS[n % 10]} next to the {TOPICS[n // 10 % 10]} in room number {n}."


async def live(shop: Workshop, count: int = 101, agent: str = "ada", user: str = "kim", **text: Any) -> list[str]:
    """An agent's episodic memories about a user, folded; their ids, oldest first."""
    ids = [
        (await shop.remember(episode(n), memory_type="episodic", agent_id=agent, user_id=user, **text)).id
        for n in range(count)
    ]
    await shop.project()
    return ids


async def test_a_hundred_and_one_episodic_memories_become_fifty_two(shop: Workshop):
    """The fifty oldest become one, which says what memex's function says of them; a second pass does nothing."""
    ids = await live(shop)
    assert await shop.upkeep().condense() == 50
    await shop.project()
    current = await shop.memories()
    assert len(current) == 101 - 49
    assert [document.id for document in current if document.memory_type == "episodic"] == ids[50:]
    (summary,) = [document for document in current if document.memory_type == "semantic"]
    assert summary.content == consolidation.summary_text(50, consolidation.summarise([episode(n) for n in range(50)]))
    assert summary.content.startswith("[Summary of 50 memories] ")
    assert (summary.condensed, summary.agent_id, summary.user_id) == (ids[:50], "ada", "kim")
    assert summary.occurred_at == (await shop.document(ids[49], Memory)).occurred_at
    old = await shop.document(ids[0], Memory)
    assert (old.is_latest, old.superseded_by) == (False, summary.id)
    assert await shop.upkeep().condense() == 0
    await shop.project()
    assert len(await shop.memories()) == 52


async def test_a_hundred_are_left_alone_and_so_is_who_they_are_not_about(shop: Workshop):
    await live(shop, 100)
    await live(shop, 60, agent="bob")
    await live(shop, 60, user="lee")
    assert await shop.upkeep().condense() == 0
    assert await shop.events(MemoryCondensed.TYPE) == []


async def test_semantic_and_procedural_memories_are_not_touched(shop: Workshop):
    for n in range(120):
        kind = "semantic" if n % 2 else "procedural"
        await shop.remember(episode(n), memory_type=kind, agent_id="ada", user_id="kim")
    await live(shop, 101)
    before = {memory.id: memory for memory in await shop.memories() if memory.memory_type != "episodic"}
    assert await shop.upkeep().condense() == 50
    await shop.project()
    after = {memory.id: memory for memory in await shop.memories()}
    assert len(before) == 120
    assert {name: after.get(name) for name in before} == before
    assert len(after) == 120 + 52


@pytest.mark.parametrize("folding", ["meanwhile", "after"])
async def test_two_workers_at_once_condense_once(shop: Workshop, folding: str):
    """Whatever is folded between a look and the other's look."""
    await live(shop)
    async with shop.projecting() if folding == "meanwhile" else nullcontext():
        await asyncio.gather(*(shop.upkeep().condense() for _ in range(2)))
    await shop.project()
    assert len(await shop.memories()) == 52
    assert len(await shop.events(MemoryCondensed.TYPE)) == 1


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_worker_that_looks_while_the_others_summary_is_folded_condenses_nothing_more(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, nth: int
):
    """The other's summary is folded between the n-th thing that this one asks of the listing and the next."""
    ids = await live(shop)
    at_hand = shop.another_current()
    requests: list[int] = []

    def then_the_other(name: str) -> None:
        ask = getattr(at_hand.documents, name)

        async def asking(*args: Any) -> Any:
            answer = await ask(*args)
            if args[0] == EPISODIC and args[1] == home:
                requests.append(0)
                if len(requests) == nth:
                    await shop.upkeep().condense()
                    await shop.project()
            return answer

        monkeypatch.setattr(at_hand.documents, name, asking)

    document = await shop.documents.find(DocumentId(ids[0]))
    assert document is not None
    home = document.partition
    then_the_other("range")
    then_the_other("first")
    await shop.upkeep(at_hand).condense()
    await shop.project()
    assert len(requests) >= nth
    assert len(await shop.memories()) == 52
    assert len(await shop.events(MemoryCondensed.TYPE)) == 1


async def test_a_crash_between_append_and_fold_does_not_condense_twice(shop: Workshop):
    """Every run sees what it saw before; so its event is the same one."""
    await live(shop)
    for _ in range(3):
        assert await shop.upkeep().condense() == 50
    assert len(await shop.events(MemoryCondensed.TYPE)) == 1
    await shop.project()
    assert len(await shop.memories()) == 52


async def test_a_summary_whose_originals_changed_meanwhile_is_void(shop: Workshop):
    """An original was forgotten between the look and the fold: nobody stands for it, and what it said is erased."""
    ids = await live(shop)
    await shop.say(ForgetSubject(kind="memory", subject=ids[7], project="atlas", documents=[ids[7]]))
    assert await shop.upkeep().condense() == 50, "not folded yet, so seen as it was"
    await shop.project()
    assert len(await shop.memories()) == 100
    assert await shop.events(MemoryCondensed.TYPE) == []
    assert await shop.upkeep().condense() == 0


async def test_passes_go_on_until_no_more_than_the_threshold_is_left(shop: Workshop):
    ids = await live(shop, 25)
    upkeep = shop.upkeep(condense=Condense(threshold=10, batch=5))
    sizes: list[int] = []
    for _ in range(6):
        await upkeep.condense()
        await shop.project()
        sizes.append(len(await shop.memories()))
    assert sizes == [21, 17, 13, 13, 13, 13]
    current = await shop.memories()
    assert [document.id for document in current if document.memory_type == "episodic"] == ids[15:]


async def test_memories_of_different_readers_are_not_mixed(shop: Workshop):
    """One private memory among public ones, the oldest of all: the others are condensed without it."""
    secret = await shop.remember("kim hid the key.", memory_type="episodic", agent_id="ada", user_id="kim",
                                 visibility="private")  # fmt: skip
    await live(shop, 12)
    upkeep = shop.upkeep(condense=Condense(threshold=10, batch=5))
    assert await upkeep.condense() == 4
    await shop.project()
    (summary,) = [memory for memory in await shop.memories() if memory.memory_type == "semantic"]
    assert secret.id not in summary.condensed
    assert (summary.visibility, len(summary.condensed)) == ("public", 4)
    assert (await shop.document(secret.id, Memory)).is_latest


@pytest.mark.parametrize("fault", ["a bug", "too large"])
async def test_a_pair_that_fails_does_not_hold_up_the_others(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
):
    """Agents come in the order of their names: the first of each partition fails, those behind it do not."""
    projects = {partition_of(project_route(TENANT, f"p{n}"), PARTITIONS): f"p{n}" for n in range(40)}
    for name, agent in itertools.product(projects.values(), ("ada", "bob")):
        for n in range(5):
            content = episode(n)
            if agent == "ada":  # a sentence of one endless word, or one that the rules stumble over
                content = "abcde"[n] * 300_000 if fault == "too large" else f"failing {content}"
            await shop.remember(content, memory_type="episodic", agent_id=agent, user_id="kim", project=name)
    await shop.project()
    if fault == "a bug":
        summarise = consolidation.summarise

        def failing(texts: list[str]) -> str:
            if "failing" in texts[0]:
                raise ZeroDivisionError("the rules do not like this one")
            return summarise(texts)

        monkeypatch.setattr(consolidation, "summarise", failing)
    assert await shop.upkeep(condense=Condense(threshold=4, batch=4)).condense() == 4 * PARTITIONS
    assert caplog.text.count("memories of agent 'ada', user 'kim': not condensed") == PARTITIONS


async def test_condensing_can_be_turned_off(shop: Workshop):
    await live(shop, 12)
    assert await shop.upkeep(condense=None).condense() == 0
