"""The assistant against a real HTTP server (tests/support/llm_stub.py) and a real Redis.

Left open: how good a model's answers are. What holds whatever it does: it is asked within budget, breaker and attempt
cap, an unusable answer is not used, and every question ends in an answer or in the reason why there is none.

The enrich job with a real HTTP server as the model, a real Redis for cursor and budget, and the log in memory.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest
from factories import NOW, TENANT, ManualClock, event, observed
from key_leaks import KeyLeaks
from llm_stub import MODEL, LlmStub

from ingest.events.envelope import Event, EventData, Recorded, encode
from ingest.ids import DocumentId, dedup_id
from ingest.log.event_log import Entry, Stored
from ingest.log.keys import PartitionKeys, llm_budget
from ingest.log.position import START, Position, session_route
from ingest.nouns.observation import ObservationCompressed, ObservationRecorded
from ingest.nouns.registry import decode
from ingest.nouns.session import SessionStarted
from ingest.platform.connections import Client
from projections.condensing.llm.answers import (
    Compression,
    ExtractedGraph,
    ExtractedRelation,
    ModelSummary,
    compress_prompt,
)
from projections.condensing.llm.assistant import (
    BUDGET_TTL,
    PAUSE,
    Assistant,
    BreakerState,
    DailyBudget,
    Skipped,
    SkipReason,
    build,
)
from projections.condensing.llm.client import LlmClient
from projections.condensing.llm.enrich import MAX_RUNS, MIN_CHARS, READ, EnrichJob
from projections.nouns.observation import Observation, observation, observation_id
from tests.support.memory_log import MemoryLog

KEY = "sk-s3cret"
TEXT = "The deployment of Payments failed\nerror: port 8443 is taken\nfixed in deploy/ports.py"
GOOD = json.dumps({"title": "Deployment failed", "narrative": "Port 8443 was taken."})


def observation_with(text: str = TEXT, n: int = 1) -> Observation:
    recorded = observed(n, text)
    assert isinstance(recorded.data, ObservationRecorded)
    return observation(recorded, recorded.data, DocumentId("ses_1"))


class Bench:
    """An assistant and everything around it."""

    def __init__(self, stub: LlmStub, redis: Client, clock: ManualClock) -> None:
        self.stub, self.redis, self.clock = stub, redis, clock
        self.made: list[Assistant] = []

    def assistant(self, *, tokens: int | None = None, timeout_s: float = 5.0, **options: Any) -> Assistant:
        client = LlmClient(self.stub.url, MODEL, api_key=KEY, timeout_s=timeout_s)
        made = Assistant(client, self.budget(tokens), clock=self.clock, **options)
        self.made.append(made)
        return made

    def budget(self, tokens: int | None = None) -> DailyBudget:
        return DailyBudget(self.redis, tokens, self.clock)

    async def spent(self, tenant: str = TENANT) -> int:
        return await self.budget().spent(tenant)


@pytest.fixture
async def bench(stub: LlmStub, redis: Client, clock: ManualClock) -> AsyncIterator[Bench]:
    made = Bench(stub, redis, clock)
    yield made
    for assistant in made.made:
        await assistant.aclose()


# Answers.


async def test_an_observation_is_compressed(bench: Bench):
    answer = await bench.assistant().compress(TENANT, observation_with())
    assert answer == Compression(
        title="The deployment of Payments failed", narrative=f"It says: {TEXT}", facts=["error: port 8443 is taken"],
        concepts=["payments"], files=["deploy/ports.py"], importance=8, model=MODEL, prompt_version="compress/1",
    )  # fmt: skip


async def test_a_session_is_summarised(bench: Bench):
    answer = await bench.assistant().summarise(
        TENANT, [observation_with("looked at Redis"), observation_with("decided to use Valkey", 2)]
    )
    assert isinstance(answer, ModelSummary)
    assert (answer.decisions, answer.model) == (["decided to use Valkey"], MODEL)
    assert answer.prompt_version == "summarise/1"


async def test_relations_are_extracted(bench: Bench):
    answer = await bench.assistant().extract(TENANT, ["Payments uses Redis", "nothing here"])
    relations = [ExtractedRelation("Payments", "uses", "Redis")]
    assert answer == ExtractedGraph(relations=relations, model=MODEL, prompt_version="extract/1")


async def test_a_text_without_relations_is_an_answer_too(bench: Bench):
    answer = await bench.assistant().extract(TENANT, ["nothing here"])
    assert isinstance(answer, ExtractedGraph)
    assert answer.relations == []


async def test_the_request_is_what_the_contract_says(bench: Bench):
    await bench.assistant().compress(TENANT, observation_with())
    (request,) = bench.stub.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert set(request.body) == {"model", "messages", "max_tokens", "response_format"}
    assert (request.body["model"], request.body["response_format"]) == (MODEL, {"type": "json_object"})
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]


async def test_without_a_key_no_authorization_is_sent(bench: Bench):
    assistant = build(bench.stub.setting, "", None, bench.redis, bench.clock)
    assert assistant is not None
    assert isinstance(await assistant.compress(TENANT, observation_with()), Compression)
    assert "authorization" not in bench.stub.requests[0].headers
    await assistant.aclose()


@pytest.mark.parametrize("reply", [f"```json\n{GOOD}\n```", f"<think>{{hm}}</think>{GOOD}", f"Sure! {GOOD}"])
async def test_what_models_put_around_the_json_is_taken_off(bench: Bench, reply: str):
    bench.stub.contents = [reply]
    answer = await bench.assistant().compress(TENANT, observation_with())
    assert isinstance(answer, Compression)
    assert (answer.title, len(bench.stub.requests)) == ("Deployment failed", 1)


@pytest.mark.parametrize("options", [{"response_format"}, {"response_format", "max_tokens"}])
async def test_options_that_a_server_does_not_know_are_left_out_from_then_on(bench: Bench, options: set[str]):
    bench.stub.json_mode, bench.stub.max_tokens = False, "max_tokens" not in options
    assistant = bench.assistant()
    assert isinstance(await assistant.compress(TENANT, observation_with()), Compression)
    first = len(bench.stub.requests)
    assert first == 1 + len(options)
    assert isinstance(await assistant.compress(TENANT, observation_with()), Compression)
    assert len(bench.stub.requests) == first + 1
    assert not options & set(bench.stub.requests[-1].body)


# Answers that cannot be used, and the attempt cap.

UNUSABLE = ["", "I cannot do that.", '{"title": "cut o', '{"title": 7}', "[1]", '{"title": "", "narrative": ""}']


@pytest.mark.parametrize("reply", UNUSABLE)
async def test_an_unusable_answer_is_asked_for_once_more(bench: Bench, reply: str):
    bench.stub.contents = [reply]
    assert isinstance(await bench.assistant().compress(TENANT, observation_with()), Compression)
    assert len(bench.stub.requests) == 2


@pytest.mark.parametrize("reply", [*UNUSABLE, '{"a":' * 50_000])
async def test_a_model_that_gives_nothing_usable_is_asked_no_more_than_the_cap(bench: Bench, reply: str):
    bench.stub.contents = [reply] * 9
    answer = await bench.assistant(max_attempts=3).compress(TENANT, observation_with())
    assert isinstance(answer, Skipped)
    assert (answer.reason, len(bench.stub.requests)) == (SkipReason.UNUSABLE, 3)
    assert answer.reason.of_the_input


async def test_an_unusable_answer_is_paid_for_and_is_no_outage(bench: Bench):
    bench.stub.contents = ["no"] * 20
    assistant = bench.assistant()
    for _ in range(5):
        await assistant.compress(TENANT, observation_with())
    assert assistant.breaker.state is BreakerState.CLOSED
    assert await bench.spent() == 10 * 150


# Down, slow, refusing.


async def test_errors_open_the_breaker_and_then_nobody_asks(bench: Bench):
    bench.stub.status = 500
    assistant = bench.assistant()
    first = await assistant.compress(TENANT, observation_with())
    second = await assistant.compress(TENANT, observation_with())
    third = await assistant.summarise(TENANT, [observation_with()])
    assert [answer.reason for answer in (first, second, third) if isinstance(answer, Skipped)] == [
        SkipReason.UNAVAILABLE,
        SkipReason.BREAKER_OPEN,
        SkipReason.BREAKER_OPEN,
    ]
    assert len(bench.stub.requests) == 3
    assert await bench.spent() == 0


async def test_one_error_is_made_good_by_the_next_attempt(bench: Bench):
    bench.stub.statuses = [502]
    assert isinstance(await bench.assistant().compress(TENANT, observation_with()), Compression)


async def test_a_server_too_busy_is_unavailable(bench: Bench):
    bench.stub.status = 429
    answer = await bench.assistant().compress(TENANT, observation_with())
    assert isinstance(answer, Skipped)
    assert answer.reason is SkipReason.UNAVAILABLE


async def test_a_server_too_slow_is_unavailable_and_its_work_is_counted(bench: Bench):
    """It may have done the work that nobody waited for."""
    bench.stub.delay_s = 1
    answer = await bench.assistant(timeout_s=0.5, max_attempts=1).compress(TENANT, observation_with())
    assert isinstance(answer, Skipped)
    assert answer.reason is SkipReason.UNAVAILABLE
    assert await bench.spent() == compress_prompt(observation_with()).tokens


async def test_a_server_that_is_not_there_is_unavailable(redis: Client, clock: ManualClock):
    client = LlmClient("http://127.0.0.1:9/v1", MODEL)
    assistant = Assistant(client, DailyBudget(redis, None, clock), clock=clock)
    answer = await assistant.compress(TENANT, observation_with())
    assert isinstance(answer, Skipped)
    assert answer.reason is SkipReason.UNAVAILABLE
    assert await DailyBudget(redis, None, clock).spent(TENANT) == 0
    await assistant.aclose()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, SkipReason.REFUSED),
        (404, SkipReason.REFUSED),
        (400, SkipReason.INPUT_REFUSED),
        (413, SkipReason.INPUT_REFUSED),
        (302, SkipReason.REFUSED),
    ],
)
async def test_a_refusal_is_not_tried_again_and_is_no_outage(bench: Bench, status: int, reason: SkipReason):
    bench.stub.status = status
    assistant = bench.assistant()
    answer = await assistant.compress(TENANT, observation_with())
    assert isinstance(answer, Skipped)
    assert answer.reason is reason
    assert len(bench.stub.requests) == (3 if status == 400 else 1)  # each time with fewer options
    assert assistant.breaker.state is BreakerState.CLOSED
    assert await bench.spent() == 0


@pytest.mark.parametrize("status", [200, 401, 500])
async def test_the_key_is_sent_and_never_told(bench: Bench, status: int, caplog: pytest.LogCaptureFixture):
    """Not even when the server repeats it in its answer, as the stub does."""
    caplog.set_level(logging.DEBUG)
    bench.stub.status = status
    assistant = bench.assistant()
    answers = [await assistant.compress(TENANT, observation_with()) for _ in range(3)]
    assert bench.stub.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text
    assert KEY not in "".join(map(str, answers))


# The budget.


async def test_a_day_counts_what_was_really_used(bench: Bench):
    assistant = bench.assistant(tokens=100_000)
    await assistant.compress(TENANT, observation_with())
    await assistant.compress(TENANT, observation_with())
    assert await bench.spent() == 300
    assert await bench.spent("somebody else") == 0


@pytest.mark.parametrize("usage", [None, {}, {"total_tokens": "many"}, {"total_tokens": 0}])
async def test_a_server_that_counts_nothing_is_estimated(bench: Bench, usage: dict[str, Any] | None):
    bench.stub.usage = usage
    await bench.assistant().compress(TENANT, observation_with())
    prompt = compress_prompt(observation_with())
    assert prompt.tokens - prompt.max_tokens < await bench.spent() < prompt.tokens


async def test_over_budget_nobody_asks_and_nothing_is_counted(bench: Bench):
    assistant = bench.assistant(tokens=10)
    answer = await assistant.compress(TENANT, observation_with())
    assert isinstance(answer, Skipped)
    assert (answer.reason, bench.stub.requests) == (SkipReason.OVER_BUDGET, [])
    assert answer.reason.of_the_tenant
    assert await bench.spent() == 0


async def test_the_budget_is_each_tenants_own_and_every_days(bench: Bench):
    needed = compress_prompt(observation_with()).tokens
    bench.stub.usage = {"total_tokens": needed}
    assistant = bench.assistant(tokens=needed)
    assert isinstance(await assistant.compress(TENANT, observation_with()), Compression)
    assert isinstance(await assistant.compress(TENANT, observation_with()), Skipped)
    assert isinstance(await assistant.compress("somebody else", observation_with()), Compression)
    bench.clock.advance(timedelta(hours=12))
    assert isinstance(await assistant.compress(TENANT, observation_with()), Compression)


async def test_callers_at_the_same_time_do_not_go_over_together(bench: Bench):
    needed = compress_prompt(observation_with()).tokens
    bench.stub.delay_s = 0.2
    assistant = bench.assistant(tokens=2 * needed + 1)
    answers = await asyncio.gather(*(assistant.compress(TENANT, observation_with()) for _ in range(6)))
    assert sum(isinstance(answer, Compression) for answer in answers) == 2
    assert len(bench.stub.requests) == 2


async def test_no_limit_counts_all_the_same(bench: Bench):
    assert isinstance(await bench.assistant(tokens=None).compress(TENANT, observation_with()), Compression)
    assert await bench.spent() == 150


async def test_a_reservation_is_settled_on_the_day_it_was_made(bench: Bench):
    budget = bench.budget(1_000)
    reserved = await budget.reserve(TENANT, 800)
    assert reserved is not None
    bench.clock.advance(timedelta(hours=13))
    await budget.settle(reserved, 300)
    assert await budget.spent(TENANT) == 0
    assert int(await bench.redis.get(llm_budget(TENANT, NOW.date().isoformat()))) == 300


async def test_a_counter_expires(bench: Bench):
    await bench.budget(1_000).reserve(TENANT, 800)
    await bench.budget(1_000).reserve(TENANT, 800)
    ttl_s = await cast(Any, bench.redis).ttl(llm_budget(TENANT, "2026-01-31"))
    assert 0 < ttl_s <= BUDGET_TTL.total_seconds()


LONG = "The build of Atlas failed: error 42\n" + "make: *** [all] Error 2\n" * 20
SHORT = "looked at the log"


class EnrichBench:
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
async def enriching(
    stub: LlmStub, redis: Client, clock: ManualClock, key_leaks: KeyLeaks
) -> AsyncIterator[EnrichBench]:
    made = EnrichBench(stub, redis, clock)
    yield made
    for assistant in made.assistants:
        await assistant.aclose()


async def test_a_long_observation_gets_one_event_in_its_own_stream(enriching: EnrichBench):
    await enriching.say(LONG)
    assert await enriching.job().run() == (1, {})
    first, second = [decode(stored.payload, stored.position) for stored in await enriching.stored()]
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


async def test_only_long_observations_are_sent(enriching: EnrichBench):
    await enriching.say(SHORT, "x" * (MIN_CHARS - 1))
    await enriching.tell(SessionStarted(title="y" * MIN_CHARS))
    await enriching.tell(ObservationRecorded(data={"tool_name": "Bash", "tool_output": "z" * MIN_CHARS}))
    await enriching.log.append({0: [Entry("broken", b"not an event")]})
    assert (await enriching.job().run()).compressed == 1
    assert len(enriching.stub.requests) == 1
    assert "zzz" in enriching.stub.requests[0].quoted["observation"]["text"]


async def test_the_cursor_is_kept_between_runs_and_workers(enriching: EnrichBench):
    await enriching.say(LONG, SHORT, LONG)
    assert (await enriching.job().run()).compressed == 2
    assert await enriching.cursor() == await enriching.log.head(0)
    assert (await enriching.job().run()).compressed == 0
    await enriching.say(LONG)
    assert (await enriching.job().run()).compressed == 1
    assert len(enriching.stub.requests) == 3


async def test_a_long_log_is_walked_in_turns_to_its_head(enriching: EnrichBench):
    await enriching.say(*[SHORT] * (3 * READ), LONG)
    await enriching.say(LONG, partition=1)
    assert (await enriching.job().run()).compressed == 2
    assert len(await enriching.compressed(1)) == 1


async def test_a_crash_before_the_cursor_was_saved_doubles_nothing(enriching: EnrichBench):
    await enriching.say(LONG)
    await enriching.job().run()
    await enriching.redis.delete(PartitionKeys(0).enriched)
    await enriching.job().run()
    assert len(enriching.stub.requests) == 2
    assert len(await enriching.compressed()) == 1


async def test_a_model_that_is_away_stops_the_run_and_nothing_is_lost(
    enriching: EnrichBench, caplog: pytest.LogCaptureFixture
):
    await enriching.say(SHORT, LONG, LONG)
    await enriching.say(LONG, partition=1)
    enriching.stub.status = 500
    job = enriching.job()
    done = await job.run()
    assert (done.compressed, done.skipped[0].reason) == (0, SkipReason.UNAVAILABLE)
    assert len(enriching.stub.requests) == 2
    assert await enriching.cursor() == (await enriching.stored())[0].position
    assert "keeping the rule-based compression for now: unavailable" in caplog.text
    for _ in range(10):
        await job.run()
    assert len(enriching.stub.requests) == 3
    enriching.stub.status = 200
    enriching.clock.advance(PAUSE)
    assert await job.run() == (3, {})


async def test_a_tenant_over_budget_holds_up_its_partition_only(enriching: EnrichBench):
    await enriching.say(LONG, LONG)
    await enriching.say(LONG, partition=1, tenant="other")
    needed_twice = 2_400
    enriching.stub.usage = {"total_tokens": needed_twice - 10}
    done = await enriching.job(tokens=needed_twice).run()
    assert done.compressed == 2
    assert [(partition, skipped.reason) for partition, skipped in done.skipped.items()] == [(0, SkipReason.OVER_BUDGET)]
    assert len(await enriching.compressed(1)) == 1
    assert (await enriching.job(tokens=None).run()).compressed == 1


async def test_a_wrong_key_stops_the_run_for_good(enriching: EnrichBench):
    await enriching.say(LONG)
    enriching.stub.status = 401
    job = enriching.job()
    for _ in range(2 * MAX_RUNS):
        assert (await job.run()).skipped[0].reason is SkipReason.REFUSED
    assert await enriching.cursor() is None


async def test_an_observation_that_never_works_is_passed_over(enriching: EnrichBench, caplog: pytest.LogCaptureFixture):
    """Or it would hold up its partition for ever."""
    caplog.set_level(logging.WARNING)
    await enriching.say(LONG, LONG)
    enriching.stub.contents = ["I cannot do that."] * (2 * MAX_RUNS)
    job = enriching.job()
    for _ in range(MAX_RUNS - 1):
        done = await job.run()
        assert (done.compressed, done.skipped[0].reason) == (0, SkipReason.UNUSABLE)
        assert await enriching.cursor() is None
    assert await job.run() == (1, {})
    assert "keeping the rule-based compression permanently" in caplog.text
    (only,) = await enriching.compressed()
    assert only.envelope.causation == "e1769860800000-0"  # the second one's


async def test_an_append_that_fails_leaves_the_cursor(enriching: EnrichBench):
    await enriching.say(LONG)
    job = enriching.job()

    async def refuse(partition: int, event: Event) -> None:
        raise ConnectionError("the log is away")

    failing = EnrichJob(enriching.redis, enriching.log, enriching.assistants[0], refuse, [0])
    with pytest.raises(ConnectionError):
        await failing.run()
    assert await enriching.cursor() is None
    assert (await job.run()).compressed == 1


async def test_a_run_ends_with_its_time(enriching: EnrichBench):
    await enriching.say(*[LONG] * 20)
    enriching.stub.delay_s = 0.2
    done = await enriching.job().run(slice_s=1.0)
    assert 0 < done.compressed < 20
    assert await enriching.cursor() == (await enriching.stored())[done.compressed - 1].position


async def test_nothing_to_do_is_done(enriching: EnrichBench):
    assert await enriching.job().run() == (0, {})
