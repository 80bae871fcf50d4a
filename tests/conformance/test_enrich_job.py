"""The enrich job with a real HTTP server as the model, a real Redis for cursor and budget, and the log in memory."""

import logging
from collections.abc import AsyncIterator

import pytest
from factories import TENANT, ManualClock, event
from key_leaks import KeyLeaks
from llm_stub import MODEL, LlmStub

from ingest.events.envelope import Event, Recorded, decode, encode
from ingest.events.registry import EventData
from ingest.events.session import ObservationCompressed, ObservationRecorded, SessionStarted
from ingest.ids import dedup_id
from ingest.log.event_log import Entry, Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, session_route
from ingest.platform.connections import Client
from projections.condensing.llm.assistant import PAUSE, Assistant, DailyBudget, SkipReason
from projections.condensing.llm.client import LlmClient
from projections.condensing.llm.enrich import MAX_RUNS, MIN_CHARS, READ, EnrichJob
from projections.documents.observations import observation_id
from tests.support.memory_log import MemoryLog

LONG = "The build of Atlas failed: error 42\n" + "make: *** [all] Error 2\n" * 20
SHORT = "looked at the log"


class Bench:
    """A log of two partitions, an assistant, and the jobs of as many workers as a test wants."""

    def __init__(self, stub: LlmStub, redis: Client, clock: ManualClock) -> None:
        self.stub, self.redis, self.clock = stub, redis, clock
        self.log = MemoryLog(2, clock.ms)
        self.assistants: list[Assistant] = []
        self.appended = 0

    def job(self, tokens: int | None = None) -> EnrichJob:
        assistant = Assistant(LlmClient(self.stub.url, MODEL), DailyBudget(self.redis, tokens), clock=self.clock)
        self.assistants.append(assistant)
        return EnrichJob(self.redis, self.log, assistant, self.append, range(2), self.clock)

    async def append(self, partition: int, event: Event) -> None:
        """As a composition root does it."""
        envelope = event.envelope
        route = session_route(envelope.tenant, envelope.project, envelope.session_id)
        entry = Entry(dedup_id(route, envelope.event_id), encode(event))
        (appended,) = (await self.log.append({partition: [entry]}))[partition]
        self.appended += not appended.duplicate

    async def say(self, *texts: str, partition: int = 0, tenant: str = TENANT) -> None:
        for text in texts:
            await self.tell(ObservationRecorded(kind="tool", content=text), partition, tenant)

    async def tell(self, data: EventData, partition: int = 0, tenant: str = TENANT) -> None:
        head = await self.log.head(partition)
        await self.append(partition, event(data, event_id=f"e{head}", tenant=tenant, user_id="u1"))
        self.appended = 0

    async def stored(self, partition: int = 0) -> list[Stored]:
        return await self.log.read(partition, START, 10_000)

    async def compressed(self, partition: int = 0) -> list[Recorded]:
        events = [decode(stored.payload, stored.position) for stored in await self.stored(partition)]
        return [recorded for recorded in events if isinstance(recorded.data, ObservationCompressed)]

    async def cursor(self, partition: int = 0) -> Position | None:
        raw = await self.redis.get(PartitionKeys(partition).enriched)
        return Position.parse(raw) if raw else None


@pytest.fixture
async def bench(stub: LlmStub, redis: Client, clock: ManualClock, key_leaks: KeyLeaks) -> AsyncIterator[Bench]:
    made = Bench(stub, redis, clock)
    yield made
    for assistant in made.assistants:
        await assistant.aclose()


async def test_a_long_observation_gets_one_event_in_its_own_stream(bench: Bench):
    await bench.say(LONG)
    assert await bench.job().run() == (1, {})
    first, second = [decode(stored.payload, stored.position) for stored in await bench.stored()]
    answer = second.data
    assert isinstance(answer, ObservationCompressed)
    assert answer.observation == observation_id(first)
    assert (answer.title, answer.importance) == ("The build of Atlas failed: error 42", 8)
    assert (answer.model, answer.prompt_version) == (MODEL, "compress/1")
    envelope = second.envelope
    assert envelope.event_id == f"llm-compress:{answer.observation}"
    assert envelope.causation == first.envelope.event_id
    for name in ("tenant", "project", "session_id", "agent_id", "user_id"):
        assert getattr(envelope, name) == getattr(first.envelope, name)


async def test_only_long_observations_are_sent(bench: Bench):
    await bench.say(SHORT, "x" * (MIN_CHARS - 1))
    await bench.tell(SessionStarted(title="y" * MIN_CHARS))
    await bench.tell(ObservationRecorded(data={"tool_name": "Bash", "tool_output": "z" * MIN_CHARS}))
    await bench.log.append({0: [Entry("broken", b"not an event")]})
    assert (await bench.job().run()).compressed == 1
    assert len(bench.stub.requests) == 1
    assert "zzz" in bench.stub.requests[0].quoted["observation"]["text"]


async def test_the_cursor_is_kept_between_runs_and_workers(bench: Bench):
    await bench.say(LONG, SHORT, LONG)
    assert (await bench.job().run()).compressed == 2
    assert await bench.cursor() == await bench.log.head(0)
    assert (await bench.job().run()).compressed == 0
    await bench.say(LONG)
    assert (await bench.job().run()).compressed == 1
    assert len(bench.stub.requests) == 3


async def test_a_long_log_is_walked_in_turns_to_its_head(bench: Bench):
    await bench.say(*[SHORT] * (3 * READ), LONG)
    await bench.say(LONG, partition=1)
    assert (await bench.job().run()).compressed == 2
    assert len(await bench.compressed(1)) == 1


async def test_a_crash_before_the_cursor_was_saved_doubles_nothing(bench: Bench):
    await bench.say(LONG)
    await bench.job().run()
    await bench.redis.delete(PartitionKeys(0).enriched)
    await bench.job().run()
    assert len(bench.stub.requests) == 2
    assert len(await bench.compressed()) == 1


async def test_a_model_that_is_away_stops_the_run_and_nothing_is_lost(bench: Bench, caplog: pytest.LogCaptureFixture):
    await bench.say(SHORT, LONG, LONG)
    await bench.say(LONG, partition=1)
    bench.stub.status = 500
    job = bench.job()
    done = await job.run()
    assert (done.compressed, done.skipped[0].reason) == (0, SkipReason.UNAVAILABLE)
    assert len(bench.stub.requests) == 2
    assert await bench.cursor() == (await bench.stored())[0].position
    assert "keeps the local compression for now: unavailable" in caplog.text
    for _ in range(10):
        await job.run()
    assert len(bench.stub.requests) == 3
    bench.stub.status = 200
    bench.clock.advance(PAUSE)
    assert await job.run() == (3, {})


async def test_a_tenant_over_budget_holds_up_its_partition_only(bench: Bench):
    await bench.say(LONG, LONG)
    await bench.say(LONG, partition=1, tenant="other")
    needed_twice = 2_400
    bench.stub.usage = {"total_tokens": needed_twice - 10}
    done = await bench.job(tokens=needed_twice).run()
    assert done.compressed == 2
    assert [(partition, skipped.reason) for partition, skipped in done.skipped.items()] == [(0, SkipReason.OVER_BUDGET)]
    assert len(await bench.compressed(1)) == 1
    assert (await bench.job(tokens=None).run()).compressed == 1


async def test_a_wrong_key_stops_the_run_for_good(bench: Bench):
    await bench.say(LONG)
    bench.stub.status = 401
    job = bench.job()
    for _ in range(2 * MAX_RUNS):
        assert (await job.run()).skipped[0].reason is SkipReason.REFUSED
    assert await bench.cursor() is None


async def test_an_observation_that_never_works_is_passed_over(bench: Bench, caplog: pytest.LogCaptureFixture):
    """Or it would hold up its partition for ever."""
    caplog.set_level(logging.WARNING)
    await bench.say(LONG, LONG)
    bench.stub.contents = ["I cannot do that."] * (2 * MAX_RUNS)
    job = bench.job()
    for _ in range(MAX_RUNS - 1):
        done = await job.run()
        assert (done.compressed, done.skipped[0].reason) == (0, SkipReason.UNUSABLE)
        assert await bench.cursor() is None
    assert await job.run() == (1, {})
    assert "keeps the local compression for good" in caplog.text
    (only,) = await bench.compressed()
    assert only.envelope.causation == "e1769860800000-0"  # the second one's


async def test_an_append_that_fails_leaves_the_cursor(bench: Bench):
    await bench.say(LONG)
    job = bench.job()

    async def refuse(partition: int, event: Event) -> None:
        raise ConnectionError("the log is away")

    failing = EnrichJob(bench.redis, bench.log, bench.assistants[0], refuse, [0])
    with pytest.raises(ConnectionError):
        await failing.run()
    assert await bench.cursor() is None
    assert (await job.run()).compressed == 1


async def test_a_run_ends_with_its_time(bench: Bench):
    await bench.say(*[LONG] * 20)
    bench.stub.delay_s = 0.2
    done = await bench.job().run(slice_s=1.0)
    assert 0 < done.compressed < 20
    assert await bench.cursor() == (await bench.stored())[done.compressed - 1].position


async def test_nothing_to_do_is_done(bench: Bench):
    assert await bench.job().run() == (0, {})
