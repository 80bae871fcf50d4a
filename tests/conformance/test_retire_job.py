"""Retiring silent sessions, against a real Valkey: what leaves Redis, what stays, and that forgetting still finds it.

Left open: how often the job runs; in what order sessions are retired.

Summaries of sessions on a real server, by a model (a real HTTP server, tests/support/llm_stub.py) and without one.

Left open: what a good summary is. What holds: the model is asked once for what it can say, the rules stand in for it
and the answer tells why, and nothing that was forgotten comes back through what the model read.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from hash_embedder import HashEmbedder
from llm_stub import MODEL, LlmStub
from replay_compare import assert_equals_replay
from waiting import wait_until
from workshop import PARTITIONS, RETAIN, TENANT, Workshop, embedding_queue

from ingest.commands.decide import AnyCommand, Caller, Observe, Relate, RetireSession, TrackSession
from ingest.commands.handler import Accepted, CommandHandler
from ingest.errors import LogUnavailable, NotFound, ProjectionBehind
from ingest.ids import relation_id
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys, embedding
from ingest.log.position import partition_of, project_route
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.relation import RelationLinked
from ingest.nouns.session import MAX_RETIRED, SessionRetired, SessionSummarised
from ingest.platform.connections import Client
from projections.condensing.llm.assistant import PAUSE, Assistant, DailyBudget
from projections.condensing.llm.client import LlmClient
from projections.condensing.operations import Condensing
from projections.condensing.summaries import EXTRACTED_CONFIDENCE, Summarised
from projections.forgetting.forget import Forgetting, user_digest
from projections.nouns.access import Reader
from projections.nouns.document import searchable_text
from projections.nouns.observation import Observation
from projections.nouns.relation import Relation, relations
from projections.nouns.session import Session
from projections.nouns.tombstone import Ledger, SupersededEvent, count_of
from projections.operations.current import Current
from projections.operations.transfer import Importer, export_events
from projections.store.receipts import Receipt, load_receipt, save_receipt
from projections.vectors.embedder import cache_key, chunk

MS, DAY = timedelta(milliseconds=1), timedelta(days=1)
PLANTED = "zqxvkmarker7"
OPERATOR = Reader(TENANT, operator=True)


async def ended(shop: Workshop, session: str = "s1", *, count: int = 3, user: str = "", text: str = "saw") -> list[str]:
    """A session of observations that has ended and is summarised; returns the ids of the observations."""
    await shop.say(TrackSession(session_id=session, project="atlas", status="started", user_id=user))
    results = [await shop.observe(f"{text} {n} in {session}", session, user_id=user) for n in range(count)]
    await shop.say(TrackSession(session_id=session, project="atlas", status="ended"))
    await shop.project()
    await shop.upkeep().summarise()
    await shop.project()
    return [result.id for result in results]


async def retired(shop: Workshop, *sessions: str, **text: object) -> list[str]:
    """Sessions that are retired; returns the ids of their observations."""
    names = [name for session in sessions or ("s1",) for name in await ended(shop, session, **text)]  # type: ignore[arg-type]
    shop.clock.advance(RETAIN + DAY)
    await shop.retire_job().run()
    await shop.project()
    return names


async def observations(shop: Workshop) -> list[Observation]:
    return [document for document in await shop.everything() if isinstance(document, Observation)]


async def anywhere(shop: Workshop, marker: str) -> list[str]:
    """The keys that hold a text, in name or value."""
    results = [raw.decode() async for raw in shop.redis.scan_iter(match="*", count=1000)]
    return [key for key in results if marker in await held(shop, key)]


async def held(shop: Workshop, key: str) -> str:
    """What a key holds, and its name. (What was deleted from a stream is in its blocks until the next rewrite.)"""
    words: dict[str, tuple[str | int, ...]] = {
        "string": ("GET", key),
        "stream": ("XRANGE", key, "-", "+"),
        "zset": ("ZRANGE", key, 0, -1),
        "set": ("SMEMBERS", key),
        "hash": ("HGETALL", key),
    }
    async with shop.redis.pipeline(transaction=False) as pipe:
        pipe.execute_command("TYPE", key)
        (kind,) = await pipe.execute()
    async with shop.redis.pipeline(transaction=False) as pipe:
        pipe.execute_command(*words[kind.decode() if isinstance(kind, bytes) else kind])
        return repr((key, await pipe.execute()))


# what is retired, and when


async def test_a_session_that_is_silent_for_longer_than_it_is_kept_is_retired(shop: Workshop):
    """To the millisecond. Its observations and marks go, the session and its summary stay."""
    await ended(shop)
    session = await shop.session()
    shop.clock.now += RETAIN - timedelta(milliseconds=int(shop.clock.now.timestamp() * 1000) - session.seen_ms)
    assert await shop.retire_job().run() == 0
    shop.clock.advance(MS)
    assert await shop.retire_job().run() == 3
    await shop.project()
    assert await observations(shop) == []
    assert [document for document in await shop.everything() if isinstance(document, SupersededEvent)] == []
    session = await shop.session()
    assert (session.observation_count, session.retired, session.searchable_observations) == (3, 3, 0)
    assert (await shop.summary()).observation_count == 3
    assert len(await shop.events(ObservationRecorded.TYPE)) == 3, "nothing leaves the log"
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_a_session_that_goes_on_or_has_no_summary_yet_is_not_retired(shop: Workshop):
    await shop.observe("still at it", "open")
    await shop.observe("not summarised", "fresh")
    await shop.say(TrackSession(session_id="fresh", project="atlas", status="ended"))
    await shop.project()
    shop.clock.advance(2 * RETAIN)
    assert await shop.retire_job().run() == 0
    await shop.upkeep().summarise()
    await shop.project()
    shop.clock.advance(RETAIN)
    assert await shop.retire_job().run() == 1


async def test_retiring_twice_or_by_two_workers_records_nothing_new(shop: Workshop):
    await ended(shop)
    shop.clock.advance(RETAIN + DAY)
    await asyncio.gather(shop.retire_job().run(), shop.retire_job().run())
    await shop.retire_job().run()
    await shop.project()
    assert len(await shop.events(SessionRetired.TYPE)) == 1
    assert await shop.retire_job().run() == 0


async def test_a_big_session_goes_in_parts_and_a_crash_between_them_loses_nothing(shop: Workshop):
    """An event names a bounded number of documents; what a first run left, a second one takes."""

    class Dies(Current):
        given = 0

        async def give(self, command: AnyCommand, caller: Caller) -> Accepted:
            if isinstance(command, RetireSession):
                self.given += 1
                if self.given > 1:
                    raise LogUnavailable("the worker is killed")
            return await super().give(command, caller)

    count = MAX_RETIRED + 20
    documents = [Observe(content=f"saw {n}", session_id="s1", project="atlas") for n in range(count)]
    await shop.current.append_batch(documents, Caller(TENANT))
    await ended(shop, count=1)
    shop.clock.advance(RETAIN + DAY)
    await shop.retire_job(shop.another_current(Dies)).run()
    await shop.project()
    assert (await shop.session()).retired == MAX_RETIRED
    await shop.retire_job().run()
    await shop.project()
    assert await observations(shop) == []
    ledgers = [document for document in await shop.everything() if isinstance(document, Ledger)]
    assert sorted(map(count_of, ledgers)) == [24, MAX_RETIRED], "21 observations, and marks of start, end and summary"
    assert all(len(event.data.documents) <= MAX_RETIRED for event in await shop.events(SessionRetired.TYPE))  # type: ignore[union-attr]
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_vectors_of_what_is_retired_leave_the_cache_and_the_queue(shop: Workshop):
    """And nothing is noted for a purge, which is for what must not be found."""
    names = await ended(shop)
    pages = [await shop.document(name, Observation) for name in names]
    keys = [embedding(cache_key(HashEmbedder.model, part)) for row in pages for part in chunk(searchable_text(row))]
    with ThreadPoolExecutor(1) as executor:
        while await embedding_queue(shop.redis, HashEmbedder(), executor).work(range(PARTITIONS)):
            pass
    assert all([await shop.redis.get(key) for key in keys])
    await shop.say(TrackSession(session_id="s1", project="atlas", status="ended", reason="again"))
    shop.clock.advance(RETAIN + DAY)
    await shop.project()
    await shop.retire_job().run()
    await shop.project()
    assert not any([await shop.redis.get(key) for key in keys])
    for partition in range(PARTITIONS):
        assert await shop.redis.scard(PartitionKeys(partition).purge) == 0
        assert await shop.redis.zcard(PartitionKeys(partition).of_generation(1).embed_queue) == 0


# what comes later


class Stumbling(Current):
    """Appends nothing for one session, or can't wait until it is projected."""

    over = ""

    async def give(self, command: AnyCommand, caller: Caller) -> Accepted:
        if self.over and getattr(command, "session_id", "") == self.over:
            raise ZeroDivisionError("not this one")
        return await super().give(command, caller)

    async def settle_session(self, tenant: str, project: str, session_id: str) -> None:
        if self.over == "waiting":
            raise ProjectionBehind(1.0, {0: 1})
        await super().settle_session(tenant, project, session_id)


async def test_a_run_that_can_not_wait_stops_and_one_session_that_fails_does_not_hold_up_the_others(shop: Workshop):
    for session in ("s1", "s2", "s3"):
        await ended(shop, session)
    shop.clock.advance(RETAIN + DAY)
    current, left = shop.another_current(Stumbling), list[int]()
    assert isinstance(current, Stumbling)
    for current.over in ("waiting", "s2", ""):
        await shop.retire_job(current).run()
        await shop.project()
        left.append(len(await observations(shop)))
    assert left == [6, 3, 0]


async def test_a_late_repeat_of_a_retired_observation_changes_nothing(shop: Workshop):
    """Behind the dedup window the log takes it again; the ledger knows it, and it is erased there."""
    command = Observe(content="saw it once", session_id="s1", project="atlas", event_id="once")
    await shop.say(command)
    await ended(shop, count=0)
    shop.clock.advance(RETAIN + DAY)
    await shop.retire_job().run()
    await shop.project()
    before = await shop.session()
    for partition in range(PARTITIONS):
        keys = PartitionKeys(partition)
        await shop.redis.delete(keys.dedup, keys.dedup_previous)
    repeated = await shop.say(command)
    assert not repeated.duplicate, "the log has forgotten that it knew it"
    await shop.project()
    assert await observations(shop) == []
    assert await shop.session() == before
    assert len(await shop.events(ObservationRecorded.TYPE)) == 1
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_a_retired_session_is_taken_up_again_and_retires_again(shop: Workshop):
    """The summary goes on from what it said: nothing else tells of the retired observations."""
    await retired(shop, text="decided to use granite")
    await shop.observe("decided to use marble instead", "s1")
    await shop.project()
    session = await shop.session()
    assert (session.status, session.observation_count, session.retired) == ("active", 4, 3)
    assert len(await observations(shop)) == 1
    await shop.say(TrackSession(session_id="s1", project="atlas", status="ended", reason="again"))
    await shop.project()
    assert await shop.upkeep().summarise() == 1
    await shop.project()
    summary = await shop.summary()
    assert "granite" in summary.narrative
    assert "marble" in summary.narrative
    assert summary.observation_count == 4
    shop.clock.advance(2 * RETAIN)
    assert await shop.retire_job().run() == 1
    await shop.project()
    assert (await shop.session()).retired == 4
    (ledger,) = [document for document in await shop.everything() if isinstance(document, Ledger)]
    assert count_of(ledger) == 9, "four observations, a start, two ends, and a summary of each"
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_a_summary_that_was_asked_for_again_stands(shop: Workshop):
    """There is nothing left that it could be made of."""
    await retired(shop)
    summary = await shop.summary()
    again = await shop.upkeep()._condensing.summarise(await shop.session(), Caller(TENANT))  # pyright: ignore[reportPrivateUsage]
    assert again.digest.narrative == summary.narrative
    await shop.project()
    assert await shop.summary() == summary


# forgetting


async def forget_by_receipt(shop: Workshop, kind: str, name: str, project: str = "") -> Receipt:
    subject = user_digest(TENANT, name) if kind == "user" else name
    request = Receipt(
        id="receipt-1", tenant=TENANT, kind=kind, subject=subject, name=name, project=project,  # type: ignore[arg-type]
        requested_at=shop.clock.now,
    )  # fmt: skip
    await save_receipt(shop.redis, request)
    assert await shop.forget_job().run() == 1
    done = await load_receipt(shop.redis, "receipt-1")
    assert done is not None
    return done


async def forget_session(shop: Workshop, names: list[str]) -> None:
    await Forgetting(shop.current).session(await shop.session(), Caller(TENANT))


async def forget_each(shop: Workshop, names: list[str]) -> None:
    for name in names:
        await Forgetting(shop.current).document(name, OPERATOR, Caller(TENANT))


async def forget_together(shop: Workshop, names: list[str]) -> None:
    gone = await Forgetting(shop.current).documents(names, OPERATOR, Caller(TENANT))
    assert gone.documents == {"observation": 3}


async def forget_session_by_receipt(shop: Workshop, names: list[str]) -> None:
    done = await forget_by_receipt(shop, "session", "s1", "atlas")
    assert done.removed.documents == {"observation": 3, "session": 1}
    assert done.probe is not None
    assert done.probe.found == 0


async def forget_user(shop: Workshop, names: list[str]) -> None:
    done = await forget_by_receipt(shop, "user", f"eve{PLANTED}")
    assert done.removed.documents["observation"] == 3


async def forget_project(shop: Workshop, names: list[str]) -> None:
    done = await forget_by_receipt(shop, "project", "atlas")
    assert done.removed.documents["observation"] == 6, "the other session's, too"


WAYS = [forget_session, forget_session_by_receipt, forget_each, forget_together, forget_user, forget_project]


@pytest.mark.parametrize("forget", WAYS, ids=lambda way: way.__name__)
async def test_forgetting_erases_what_was_retired(
    shop: Workshop, forget: Callable[[Workshop, list[str]], Awaitable[None]]
):
    """No byte of it is left in Redis, nor of the user's name, and a replay from zero is equal to what is there."""
    await ended(shop, "other")
    names = await retired(shop, text=PLANTED, user=f"eve{PLANTED}")
    assert await anywhere(shop, PLANTED)
    await forget(shop, names)
    await shop.project()
    await shop.purge().run()
    left = await anywhere(shop, PLANTED)
    if forget in (forget_each, forget_together):  # the session's start names its user, and is nobody's observation
        assert all(":log" in key or ":doc:led_" in key or ":list:user:" in key or "row:" in key for key in left)
        assert not [event for event in await shop.events(ObservationRecorded.TYPE) if PLANTED in repr(event.data)]
        assert not [document for document in await shop.everything() if PLANTED in getattr(document, "narrative", "")]
    else:
        assert left == []
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_retired_observations_of_several_sessions_are_forgotten_together(shop: Workshop):
    names = await retired(shop, "s1", "s2", "s3")
    assert (await Forgetting(shop.current).documents(names, OPERATOR, Caller(TENANT))).documents == {"observation": 9}


async def test_of_a_session_that_many_users_speak_in_a_forgotten_user_leaves_the_others(shop: Workshop):
    for user in ("eve", "bob"):
        await shop.observe(f"{user} said so", "s1", user_id=user)
    await ended(shop, count=0)
    shop.clock.advance(RETAIN + DAY)
    await shop.retire_job().run()
    await shop.project()
    await forget_by_receipt(shop, "user", "bob")
    await shop.project()
    assert await anywhere(shop, "bob said so") == []
    (left,) = await shop.events(ObservationRecorded.TYPE)
    assert isinstance(left.data, ObservationRecorded)
    assert left.data.content == "eve said so"
    ledgers = [document for document in await shop.everything() if isinstance(document, Ledger)]
    assert [ledger.users for ledger in ledgers] == [["", "eve"]]
    session = await shop.session()
    assert (session.observation_count, session.retired) == (1, 1)
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_what_the_log_no_longer_has_is_forgotten_by_its_id(shop: Workshop):
    """An entry that somebody deleted by hand does not hold up a forgetting."""
    names = await retired(shop)
    (first, *_) = await shop.events(ObservationRecorded.TYPE)
    for partition in range(PARTITIONS):
        await shop.redis.xdel(PartitionKeys(partition).log, str(first.position))
    await forget_session(shop, names)
    await shop.project()
    assert [document for document in await shop.everything() if isinstance(document, Session)] == []
    assert await shop.events(ObservationRecorded.TYPE) == []


async def test_an_import_retires_what_was_retired_and_forgetting_finds_it_there(shop: Workshop, tmp_path: Path):
    """In another log the positions are others; the ledger notes those."""
    await retired(shop, text=PLANTED)
    before = await shop.session()
    lines = [part async for part in export_events(shop.log, shop.documents, OPERATOR, None)]
    await shop.redis.flushall()
    other = Workshop(shop.redis, tmp_path / "other")
    await other.log.create_or_check()

    async def body() -> AsyncIterator[bytes]:
        for line in lines:
            yield line

    handler = CommandHandler(GroupCommit(other.log), PARTITIONS, other.clock)
    imported = await Importer(handler, TENANT).run(body())
    assert imported.complete
    await other.project()
    assert await observations(other) == []
    assert (await other.session()).retired == 3
    assert (await other.session()).retired_ms == before.retired_ms
    await assert_equals_replay(other.redis, other.log, PARTITIONS)
    await forget_session(other, [])
    await other.project()
    await other.purge().run()
    assert await anywhere(other, PLANTED) == []
    await assert_equals_replay(other.redis, other.log, PARTITIONS)


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
    assert "deleted" in (await reading).fell_back
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
