"""Summaries of sessions on a real server, by a model (a real HTTP server, tests/support/llm_stub.py) and without one.

Left open: what a good summary is. What holds: the model is asked once for what it can say, the rules stand in for it
and the answer tells why, and nothing that was forgotten comes back through what the model read.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from llm_stub import MODEL, LlmStub
from waiting import wait_until
from workshop import PARTITIONS, TENANT, Workshop

from ingest.commands.decide import Caller, Relate
from ingest.errors import NotFound
from ingest.events.memory import RelationLinked
from ingest.events.session import SessionSummarised
from ingest.ids import relation_id
from ingest.log.position import partition_of, project_route
from ingest.platform.connections import Client
from projections.condensing.llm.assistant import PAUSE, Assistant, DailyBudget
from projections.condensing.llm.client import LlmClient
from projections.condensing.operations import Condensing
from projections.condensing.summaries import EXTRACTED_CONFIDENCE, Summarised
from projections.documents.access import Reader
from projections.documents.relations import Relation, relations
from projections.documents.sessions import Session
from projections.forgetting.forget import Forgetting

USES = "Payments uses Valkey for its queue."
DECIDED = "We decided that Payments needs Kafka."
EDGES = [("concept:payments", "needs", "concept:kafka"), ("concept:payments", "uses", "concept:valkey")]
CALLER = Caller(TENANT)


class Bench:
    """A workshop with a model, and what summarises with it."""

    def __init__(self, shop: Workshop, stub: LlmStub) -> None:
        self.shop, self.stub = shop, stub
        self.assistants: list[Assistant] = []

    def condensing(self, model: str = MODEL, tokens: int | None = None) -> Condensing:
        """What summarises in a process of its own, by this model; without a name by the rules alone."""
        if not model:
            return Condensing(self.shop.current, None, self.shop.clock)
        budget = DailyBudget(self.shop.redis, tokens, self.shop.clock)
        self.assistants.append(Assistant(LlmClient(self.stub.url, model), budget, clock=self.shop.clock))
        return Condensing(self.shop.current, self.assistants[-1], self.shop.clock)

    async def summarise(self, condensing: Condensing, session: str = "s1") -> Summarised:
        """Summarise a session as it is now, and fold what comes of it."""
        await self.shop.project()
        made = await condensing.summarise(await self.shop.session(session), CALLER)
        await self.shop.project()
        return made

    async def forget(self, name: str) -> None:
        """Forget an observation."""
        await Forgetting(self.shop.current).documents([name], Reader(TENANT, operator=True), CALLER)
        await self.shop.project()

    async def relations(self) -> list[tuple[str, str, str]]:
        """The relations of the project, in order of their names."""
        home = partition_of(project_route(TENANT, "atlas"), PARTITIONS)
        page = await self.shop.documents.page(
            relations(TENANT, "atlas"), [home], cursor=None, limit=100, newest_first=False
        )
        results = [document.document for document in page.documents if isinstance(document.document, Relation)]
        return sorted((result.source, result.relation, result.target) for result in results)

    def asked(self) -> int:
        """How many requests the model has had."""
        return len(self.stub.requests)


@pytest.fixture
async def bench(redis: Client, tmp_path: Path, stub: LlmStub) -> AsyncIterator[Bench]:
    shop = Workshop(redis, tmp_path)
    await shop.log.create_or_check()
    made = Bench(shop, stub)
    yield made
    for assistant in made.assistants:
        await assistant.aclose()


async def test_without_a_model_the_rules_summarise_and_nothing_fell_back(bench: Bench):
    await bench.shop.observe(USES)
    await bench.shop.observe(DECIDED)
    made = await bench.summarise(bench.condensing(""))
    assert (made.model, made.fell_back) == ("", "")
    assert made.digest.decisions == [DECIDED]
    summary = await bench.shop.summary()
    assert (summary.narrative, summary.model, summary.prompt_version) == (made.digest.narrative, "", "")
    assert (await bench.relations(), bench.asked()) == ([], 0)


async def test_the_model_summarises_and_names_relations(bench: Bench):
    await bench.shop.observe(USES)
    await bench.shop.observe(DECIDED)
    made = await bench.summarise(bench.condensing())
    assert (made.model, made.fell_back, made.digest.decisions) == (MODEL, "", [DECIDED])
    summary = await bench.shop.summary()
    assert (summary.narrative, summary.model, summary.prompt_version) == (made.digest.narrative, MODEL, "summarise/1")
    assert await bench.relations() == EDGES
    for event in await bench.shop.events(RelationLinked.TYPE):
        assert isinstance(event.data, RelationLinked)
        assert event.envelope.metadata == {"model": MODEL, "prompt_version": "extract/1"}
        assert (event.data.derived_from, event.data.confidence) == ([summary.id], EXTRACTED_CONFIDENCE)


async def test_nothing_is_summarised_of_nothing(bench: Bench):
    with pytest.raises(NotFound):
        await bench.condensing().summarise(Session(id="ses_1", tenant=TENANT, session_id="s1"), CALLER)
    assert bench.asked() == 0


async def test_the_model_is_not_asked_twice_for_the_same(bench: Bench):
    """What is answered is what is stored, whatever the model would say a second time."""
    await bench.shop.observe(USES)
    first = await bench.summarise(bench.condensing())
    bench.stub.contents = [json.dumps({"title": "Other words", "narrative": "Said another time."})]
    for condensing in (bench.condensing(), bench.condensing("")):
        again = await bench.summarise(condensing)
        assert (again.digest, again.model, again.fell_back) == (first.digest, MODEL, "")
    assert bench.asked() == 2
    await bench.shop.observe(DECIDED)
    assert (await bench.summarise(bench.condensing())).digest.title == "Other words"
    assert (await bench.shop.summary()).title == "Other words"


async def test_two_who_ask_at_once_are_told_the_same(bench: Bench):
    """Each asks a model, which may use other words each time; what was stored first is what both are told."""
    await bench.shop.observe(DECIDED)
    await bench.shop.project()
    session = await bench.shop.session()
    bench.stub.contents = [json.dumps({"title": title, "narrative": f"{title}."}) for title in ("One", "Two")]
    bench.stub.delay_s = 0.2
    both = await asyncio.gather(*(bench.condensing().summarise(session, CALLER) for _ in range(2)))
    await bench.shop.project()
    summary = await bench.shop.summary()
    assert [made.digest.title for made in both] == [summary.title] * 2
    assert len(await bench.shop.events(SessionSummarised.TYPE)) == 1


@pytest.mark.parametrize(
    ("status", "tokens", "reason"),
    [(500, None, "unavailable: "), (401, None, "refused: "), (200, 10, "over budget: ")],
)
async def test_the_rules_stand_in_for_the_model_until_it_answers(
    bench: Bench, status: int, tokens: int | None, reason: str
):
    await bench.shop.observe(DECIDED)
    bench.stub.status = status
    made = await bench.summarise(bench.condensing(tokens=tokens))
    assert made.model == ""
    assert made.fell_back.startswith(reason)
    assert made.digest == (await bench.summarise(bench.condensing(""))).digest
    bench.stub.status = 200
    made = await bench.summarise(bench.condensing())
    assert (made.model, made.fell_back) == (MODEL, "")
    assert (await bench.shop.summary()).model == MODEL
    assert len(await bench.shop.events(SessionSummarised.TYPE)) == 2


async def test_the_rules_do_not_take_the_place_of_what_a_model_said(bench: Bench):
    """Not even when another model is asked, and is down."""
    await bench.shop.observe(DECIDED)
    first = await bench.summarise(bench.condensing())
    bench.stub.status = 500
    again = await bench.summarise(bench.condensing("another-model"))
    assert (again.digest, again.model) == (first.digest, MODEL)
    assert again.fell_back.startswith("unavailable: ")
    assert (await bench.shop.summary()).model == MODEL


async def test_relations_are_read_out_later_when_the_model_failed_in_between(bench: Bench):
    await bench.shop.observe(DECIDED)
    bench.stub.contents = [json.dumps({"title": "Kafka", "narrative": DECIDED}), "no", "no"]
    condensing = bench.condensing()
    made = await bench.summarise(condensing)
    assert made.model == MODEL
    assert made.fell_back.startswith("unusable: ")
    assert await bench.relations() == []
    bench.shop.clock.advance(PAUSE)
    again = await bench.summarise(condensing)
    assert (again.digest, again.fell_back) == (made.digest, "")
    assert await bench.relations() == EDGES[:1]
    assert bench.asked() == 4


async def test_what_is_forgotten_while_the_model_reads_does_not_come_back(bench: Bench):
    secret = await bench.shop.observe(DECIDED)
    await bench.shop.observe("looked at the log")
    await bench.shop.project()
    bench.stub.held_from = 2
    reading = asyncio.create_task(bench.condensing().summarise(await bench.shop.session(), CALLER))
    await wait_until(lambda: bench.asked() == 2)
    await bench.forget(secret.id)
    bench.stub.held_from = None
    assert "forgotten" in (await reading).fell_back
    await bench.shop.project()
    assert await bench.relations() == []
    assert await bench.shop.events(RelationLinked.TYPE) == []


async def test_the_same_relation_may_be_read_again_after_a_forgetting(bench: Bench):
    """Of as many observations: its event is another one all the same."""
    await bench.shop.observe(DECIDED)
    other = await bench.shop.observe("looked at the log")
    await bench.summarise(bench.condensing())
    await bench.forget(other.id)
    assert await bench.relations() == []
    await bench.shop.observe("looked at it again")
    await bench.summarise(bench.condensing())
    assert await bench.relations() == EDGES[:1]


async def test_a_relation_that_a_caller_stated_stays_the_callers(bench: Bench):
    """It keeps its confidence, and does not go with the session."""
    source, relation, target = EDGES[0]
    command = Relate(project="atlas", source=source, target=target, relation=relation, confidence=0.9)
    await bench.shop.say(command)
    observed = await bench.shop.observe(DECIDED)
    await bench.shop.observe(USES)
    await bench.summarise(bench.condensing())
    assert await bench.relations() == EDGES
    await bench.forget(observed.id)
    assert await bench.relations() == EDGES[:1]
    stated = await bench.shop.document(relation_id(project_route(TENANT, "atlas"), *EDGES[0]), Relation)
    assert stated.confidence == 0.9


async def test_one_thing_is_not_related_to_itself_however_it_is_written(bench: Bench):
    await bench.shop.observe(DECIDED)
    edges = [("Redis", "redis"), ("Atlas", "Redis"), ("atlas", "REDIS")]
    entries = [{"source": source, "relation": "uses", "target": target} for source, target in edges]
    summary = json.dumps({"title": "Atlas", "narrative": "Atlas uses Redis."})
    bench.stub.contents = [summary, json.dumps({"relations": entries})]
    await bench.summarise(bench.condensing())
    assert await bench.relations() == [("concept:atlas", "uses", "concept:redis")]
    assert len(await bench.shop.events(RelationLinked.TYPE)) == 1
