"""What a change of the embedder guarantees, searches go on, nothing is left without a vector, a way back.

Left open: how many documents a second are embedded, and how often a new model finds what the live one finds.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixed_embedder import FixedEmbedder
from numpy.typing import NDArray
from servers import Server
from waiting import wait_until
from workshop import PARTITIONS, TENANT, Workshop

from ingest.commands.decide import ForgetSubject
from ingest.errors import WrongRebuildState
from ingest.log.keys import EMBEDDER, SNAPSHOT_LEASE, embedding
from ingest.log.position import Token
from ingest.platform.connections import Client, connect
from projections.embedding.embed_job import DocumentVectors, EmbeddingQueue
from projections.embedding.live import Choice, LiveEmbedder, choice_of, chosen
from projections.index import service as service_module
from projections.index import snapshots
from projections.index.replica import IndexReplica
from projections.index.service import EmbedderMismatch, ReplicaService
from projections.nouns.access import Reader
from projections.nouns.memory import Memory
from projections.queries.recall import Recall, RecallRequest
from projections.rebuilding import embeddings as embeddings_module
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.rebuilds import Rebuild, State, Switch
from projections.rebuilding.room import DocumentRebuild, RebuildJob
from projections.search.question import Filter, Question
from projections.vectors.bitmaps import ordinals
from projections.vectors.embedder import (
    Embedder,
    EmbeddingServiceUnavailable,
    ModelUnavailable,
    NoEmbedder,
    Unavailable,
    cache_key,
    unit_rows,
)
from tests.conformance.interruptions import Killed
from tests.conformance.test_rebuilds import carried

READER = Reader(TENANT, operator=True)
MARK = "zqxvkmarker7 of the vault"
CITIES = ["oslo", "lima", "quito", "cairo", "delhi", "minsk", "paris", "seoul", "tunis", "turin"]
THINGS = ["bridge", "market", "harbour", "station", "museum", "garden", "tower", "library", "theatre", "mill"]


class WordsEmbedder:
    """A test double for speed: the sum of random vectors, one a word; so texts are near that share words."""

    max_tokens = 256

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text."""
        self.texts += texts
        rows = [sum((self._word(word) for word in text.split()), np.zeros(self.dimensions)) for text in texts]
        return unit_rows(np.array(rows, np.float32).reshape(len(texts), self.dimensions))

    def _word(self, word: str) -> NDArray[np.float64]:
        seed = int.from_bytes(f"{self.model} {word}".encode()) % 2**63
        return np.random.default_rng(seed).standard_normal(self.dimensions)


class Noise(WordsEmbedder):
    """Every text has some vector, but never the same."""

    def __init__(self, model: str, dimensions: int) -> None:
        super().__init__(model, dimensions)
        self._random = np.random.default_rng(7)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text."""
        return unit_rows(self._random.standard_normal((len(texts), self.dimensions)).astype(np.float32))


NAMED = frozenset({"old", "new", "noise", "none", "moved"})
"""What the settings of every process here name."""


class Machine:
    """What a machine can embed with, by spec."""

    def __init__(self) -> None:
        self.embedders: dict[str, Embedder] = {
            "old": WordsEmbedder("test/old", 32),
            "new": WordsEmbedder("test/new", 48),
            "noise": Noise("test/noise", 32),
            "none": NoEmbedder(),
        }

    def build(self, spec: str) -> Embedder:
        """The embedder of a spec."""
        if spec not in self.embedders:
            raise ModelUnavailable(spec, "it is not on this machine")
        return self.embedders[spec]


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
async def shop(redis: Client, tmp_path: Path, machine: Machine) -> AsyncGenerator[Workshop]:
    """With vectors of `old`."""
    made = Workshop(redis, tmp_path)
    await made.log.create_or_check()
    await begin(made, machine, "old")
    yield made
    await made.aclose()


async def begin(shop: Workshop, machine: Machine, spec: str) -> None:
    live = LiveEmbedder(shop.redis, machine.build, NAMED)
    await live.start(spec)
    shop.embedders = live


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(service_module, "LOOK_EVERY_S", 0.02)


async def embed(shop: Workshop) -> None:
    """Fold everything, and empty the queue as far as the worker's embedder goes."""
    await shop.project()
    queue = shop.embedding_queue()
    while await queue.work(range(PARTITIONS)):
        pass


def content(k: int) -> str:
    """What the k-th memory says: more than a canary asks with."""
    return f"the {THINGS[k % 10]} in {CITIES[k // 10 % 10]} is number {k} of all the sights that our guide showed us"


def made_of_contents(embedder: Embedder) -> list[str]:
    """The memories that an embedder was asked for, again and again where it was."""
    assert isinstance(embedder, WordsEmbedder)
    return sorted(text for text in embedder.texts if text.startswith("the ") and text.endswith(" us"))


async def written(shop: Workshop, n: int = 30, since: int = 0) -> list[str]:
    """Memories that differ in their words, in several projects, embedded; their ids."""
    names = [(await shop.remember(content(k), project=f"p{k % 4}")).id for k in range(since, since + n)]
    await embed(shop)
    return names


async def ordered(shop: Workshop, machine: Machine, spec: str, switch: Switch = "auto") -> Rebuild:
    """A rebuild that has begun."""
    engine = await chosen(shop.redis)
    assert engine is not None
    after = choice_of(spec, machine.embedders[spec])
    return await shop.rebuilds.start("embeddings", range(PARTITIONS), switch, embedders=(engine.live, after))


async def live_model(shop: Workshop) -> str:
    engine = await chosen(shop.redis)
    assert engine is not None
    return engine.live.model


@asynccontextmanager
async def replica_of(
    shop: Workshop, url: str, machine: Machine, name: str = "replica"
) -> AsyncGenerator[ReplicaService]:
    """The index of an API process."""
    live = LiveEmbedder(shop.redis, machine.build, NAMED)
    await live.start("old")
    feeds = connect(url, connections=PARTITIONS + 4)
    replica = ReplicaService(feeds, PARTITIONS, shop.snapshots, live, name)
    replica.start()
    try:
        await replica.wait_ready(30)
        yield replica
    finally:
        await replica.aclose()
        await feeds.aclose()


async def rebuilt(shop: Workshop, machine: Machine, spec: str, until: tuple[State, ...] = ("switched",)) -> Rebuild:
    return await carried(shop, (await ordered(shop, machine, spec)).id, until=until)


async def assert_all_new(shop: Workshop, url: str, machine: Machine, names: Sequence[str]) -> None:
    """An index that starts now has these documents with the vectors of the new embedder."""
    async with replica_of(shop, url, machine) as replica:
        await assert_embedded(shop, replica, machine.embedders["new"], names)


async def wait_for_own_writes(shop: Workshop, replica: ReplicaService) -> None:
    await replica.wait_for(Token({number: await shop.log.head(number) for number in range(PARTITIONS)}), 30)


def vectors_of(index: IndexReplica, probe: NDArray[np.float32]) -> dict[str, float]:
    """The cosine of each document to a probe; nan for one without a vector."""
    alive = ordinals(index.alive)
    return {index.ids[n]: float(c) for n, c in zip(alive.tolist(), index.vectors.cosine(probe, alive), strict=True)}


async def assert_embedded(shop: Workshop, replica: ReplicaService, embedder: Embedder, names: Sequence[str]) -> None:
    """These documents are all there is, each with the vector that the embedder makes of it."""
    await wait_for_own_writes(shop, replica)
    (probe,) = embedder.embed(["the bridge in oslo"])

    async def complete() -> bool:
        vectors = await replica.in_index_thread(vectors_of, replica.index, probe)
        return vectors.keys() == set(names) and not any(np.isnan(item) for item in vectors.values())

    await wait_until(complete)
    vectors = await replica.in_index_thread(vectors_of, replica.index, probe)
    for name in names:
        text = (await shop.document(name, Memory)).content
        assert vectors[name] == pytest.approx(float(embedder.embed([text])[0] @ probe), abs=5e-3), "vectors are rounded"


async def test_searches_go_on_and_end_with_the_vectors_of_the_new_embedder(
    shop: Workshop, valkey: Server, machine: Machine
):
    names = await written(shop)
    async with replica_of(shop, valkey.url, machine) as replica:
        await wait_for_own_writes(shop, replica)
        recall = Recall(replica, shop.documents)
        request = RecallRequest(query=content(15), mode="vector", limit=3)
        models = set[str]()
        answers = 0

        async def ask() -> None:
            nonlocal answers
            while "test/new" not in models or answers < 20:
                answer = await recall(request, READER)
                assert (answer.results[0].content, answer.degraded) == (content(15), [])
                models.add(replica.index.model)
                answers += 1
                await asyncio.sleep(0)

        asking = asyncio.create_task(ask())
        done = await rebuilt(shop, machine, "new")
        await asyncio.wait_for(asking, 30)
        recall.close()
        assert models == {"test/old", "test/new"}
        assert await live_model(shop) == "test/new"
        await assert_embedded(shop, replica, machine.embedders["new"], names)
    assert done.canaries is not None
    assert (done.canaries.agree, done.canaries.asked) == (True, 30)
    assert "overlap@10" in done.canaries.said
    assert sum(part.done for part in done.parts) == sum(part.total for part in done.parts) == 30


async def test_what_comes_while_it_goes_on_is_found_by_both(shop: Workshop, valkey: Server, machine: Machine):
    names = await written(shop)
    rebuild = await ordered(shop, machine, "new", "manual")
    await carried(shop, rebuild.id, until=("ready",))
    names += await written(shop, 10, since=30)
    async with replica_of(shop, valkey.url, machine) as replica:
        await assert_embedded(shop, replica, machine.embedders["old"], names)
        await shop.rebuilds.change(rebuild.id, steps.to_switch)
        await carried(shop, rebuild.id)
        names += await written(shop, 10, since=40)
        await wait_until(lambda: replica.index.model == "test/new")
        await assert_embedded(shop, replica, machine.embedders["new"], names)
    async with replica_of(shop, valkey.url, machine, "another") as replica:
        assert replica.embedder.model == "test/new", "one that starts later has it at once"
        await assert_embedded(shop, replica, machine.embedders["new"], names)


@pytest.mark.parametrize("killed", [False, True], ids=["finished", "killed"])
async def test_what_the_old_embedder_was_at_when_it_was_switched_has_the_new_ones_vector(
    shop: Workshop, valkey: Server, machine: Machine, monkeypatch: pytest.MonkeyPatch, *, killed: bool
):
    """It was written when the new index was complete, and taken off the queue by a worker that had not heard yet."""
    names = await written(shop)
    embedding_it, go_on = asyncio.Event(), asyncio.Event()

    class Slow(DocumentVectors):
        async def _vectors(self, embedder: Embedder, texts: Sequence[str], cached: timedelta) -> list[bytes]:
            vectors = await super()._vectors(embedder, texts, cached)
            embedding_it.set()
            await go_on.wait()
            return vectors

    slow = Slow(shop.redis, shop.vectors._executor)  # pyright: ignore[reportPrivateUsage]
    batches: list[asyncio.Task[int]] = []
    make_live = embeddings_module.make_live

    async def while_embedding(*args: Any) -> None:
        names.append((await shop.remember(content(99))).id)
        await shop.project()
        batches.append(asyncio.create_task(EmbeddingQueue(shop.redis, shop.embedders, slow).work(range(PARTITIONS))))
        await embedding_it.wait()
        await make_live(*args)
        if killed:
            raise Killed

    rebuild = await ordered(shop, machine, "new")
    with monkeypatch.context() as patched:
        patched.setattr(embeddings_module, "make_live", while_embedding)
        if killed:
            with pytest.raises(Killed):
                await carried(shop, rebuild.id, shop.rebuild_job("dead"))
        else:
            await carried(shop, rebuild.id)
    await carried(shop, rebuild.id, shop.rebuild_job("next"))
    go_on.set()
    assert await batches[0] == 1
    await embed(shop)
    await assert_all_new(shop, valkey.url, machine, names)


async def test_who_lost_the_lease_on_snapshots_switches_to_nothing(
    shop: Workshop, valkey: Server, machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    """Its process stood still, and another worker's snapshot has trimmed the feeds that its own begins before."""
    names = await written(shop)
    rebuild = await ordered(shop, machine, "new")
    make_live = embeddings_module.make_live
    late: list[str] = []

    async def too_late(*args: Any) -> None:
        if not late:
            await shop.redis.delete(SNAPSHOT_LEASE)
            names.extend(await written(shop, 3, since=50))
            other = await shop.snapshot_job("other").run(force=True)
            assert other is not None
            late.append(other.name)
        await make_live(*args)

    monkeypatch.setattr(embeddings_module, "make_live", too_late)
    await shop.rebuild_job("w1").run(5.0)
    assert await live_model(shop) == "test/old"
    await carried(shop, rebuild.id, shop.rebuild_job("w2"))
    await assert_all_new(shop, valkey.url, machine, names)


async def test_the_same_model_from_elsewhere_needs_no_vectors(shop: Workshop, valkey: Server, machine: Machine):
    names = await written(shop)
    moved = machine.embedders["moved"] = WordsEmbedder("test/old", 32)
    await shop.snapshot_job().run(force=True)
    async with replica_of(shop, valkey.url, machine) as replica:
        assert replica.embedder is machine.embedders["old"]
        await rebuilt(shop, machine, "moved")
        await wait_until(lambda: replica.embedder is moved)
        await assert_embedded(shop, replica, moved, names)
    assert snapshots.newest(shop.snapshots, "test/old", 32) is not None


async def test_a_worker_that_did_not_finish_a_rebuild_keeps_nothing_of_it(shop: Workshop, machine: Machine):
    await written(shop)
    first, second = shop.rebuild_job("w1"), shop.rebuild_job("w2")
    rebuild = await ordered(shop, machine, "new")
    await first.run(0.5)
    while (await shop.rebuilds.get(rebuild.id)).state == "running":
        await first.run(0.2)
    await first.run(0.0)  # it begins to compare, and its slice is over
    await carried(shop, rebuild.id, second)
    await first.rest()
    assert not (shop.folder / "w1-embeddings").exists()


async def test_a_stalled_rebuild_says_why(shop: Workshop, machine: Machine):
    """There is no snapshot to begin with, and another worker seems to write one."""
    await written(shop)
    rebuild = await ordered(shop, machine, "new")
    await shop.redis.set(SNAPSHOT_LEASE, "another", ex=timedelta(minutes=5))
    await shop.rebuild_job().run(30)
    observation = await shop.rebuilds.get(rebuild.id)
    assert (observation.state, "has no snapshot with vectors of test/old yet" in observation.why) == ("running", True)
    await shop.redis.delete(SNAPSHOT_LEASE)
    assert (await carried(shop, rebuild.id)).why == ""


async def test_a_roll_back_leaves_every_document_with_a_vector(shop: Workshop, valkey: Server, machine: Machine):
    names = await written(shop)
    rebuild = await rebuilt(shop, machine, "new")
    names += await written(shop, 10, since=30)
    async with replica_of(shop, valkey.url, machine) as replica:
        await shop.rebuilds.change(rebuild.id, lambda item: steps.to_roll_back(item, shop.rebuilds.now))
        await carried(shop, rebuild.id, until=("rolled_back",))
        names += await written(shop, 5, since=40)
        await wait_until(lambda: replica.index.model == "test/old")
        await assert_embedded(shop, replica, machine.embedders["old"], names)


def dying(function: Callable[..., Any], *, behind: bool) -> Callable[..., Any]:
    """A function whose caller dies at its first call, before it or behind it."""
    calls: list[int] = []

    async def called(*args: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1 and not behind:
            raise Killed
        answer = await function(*args, **named)
        if len(calls) == 1:
            raise Killed
        return answer

    return called


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("step", ["announce", "make_live"])
async def test_a_worker_that_takes_over_embeds_nothing_twice_and_skips_nothing(
    shop: Workshop, valkey: Server, machine: Machine, monkeypatch: pytest.MonkeyPatch, step: str, *, behind: bool
):
    names = await written(shop)
    rebuild = await ordered(shop, machine, "new")
    with monkeypatch.context() as patched:
        patched.setattr(embeddings_module, step, dying(getattr(embeddings_module, step), behind=behind))
        with pytest.raises(Killed):
            await carried(shop, rebuild.id, shop.rebuild_job("dead"))
    names += await written(shop, 5, since=30)
    new = machine.embedders["new"]
    await carried(shop, rebuild.id, shop.rebuild_job("next"))
    assert made_of_contents(new) == sorted(content(k) for k in range(35)), "what was embedded is taken from the cache"
    assert len(list(shop.snapshots.glob("[!.]*"))) <= snapshots.KEPT + 1
    async with replica_of(shop, valkey.url, machine) as replica:
        await assert_embedded(shop, replica, new, names)


async def test_workers_share_it_and_embed_no_text_twice(shop: Workshop, machine: Machine):
    await written(shop, 60)
    rebuild = await ordered(shop, machine, "new", "manual")
    await carried(shop, rebuild.id, shop.rebuild_job("w1"), shop.rebuild_job("w2"), until=("ready",))
    assert made_of_contents(machine.embedders["new"]) == sorted(content(k) for k in range(60))


async def test_vectors_that_find_nothing_wait_and_say_so(shop: Workshop, machine: Machine):
    await written(shop)
    rebuild = await rebuilt(shop, machine, "noise", ("ready", "switched"))
    assert rebuild.state == "ready"
    assert rebuild.canaries is not None
    assert rebuild.why.startswith("by meaning, the new vectors find ")
    assert {difference.what for difference in rebuild.canaries.differences} == {"recall"}
    with pytest.raises(WrongRebuildState, match="by meaning"):
        await shop.rebuilds.change(rebuild.id, steps.to_switch)
    assert await live_model(shop) == "test/old"
    only_documents = RebuildJob(
        shop.redis, shop.rebuilds, timedelta(), DocumentRebuild(shop.redis, shop.log, "d"), None
    )
    await only_documents.run(0.1)
    await shop.rebuilds.change(rebuild.id, lambda item: steps.cancelled(item, shop.rebuilds.now))
    await only_documents.run(0.1)
    assert await shop.rebuilds.retained()
    await shop.rebuild_job().run(1.0)
    assert await shop.rebuilds.retained() == []
    assert await live_model(shop) == "test/old"


async def test_from_no_embedder_to_one_and_back(shop: Workshop, valkey: Server, machine: Machine, redis: Client):
    await redis.delete(EMBEDDER)
    await begin(shop, machine, "none")
    names = await written(shop)
    await rebuilt(shop, machine, "new")
    async with replica_of(shop, valkey.url, machine) as replica:
        await assert_embedded(shop, replica, machine.embedders["new"], names)
        back = await rebuilt(shop, machine, "none", ("ready",))
        await shop.rebuilds.change(back.id, lambda item: steps.to_switch(item, force=True))
        await carried(shop, back.id)
        await wait_until(lambda: replica.embedder.dimensions == 0)
        results = await Recall(replica, shop.documents)(RecallRequest(query="garden lima"), READER)
        assert results.results[0].content == content(15)
        assert results.degraded == ["no embedder is configured: words only"]


@pytest.mark.parametrize("state", ["ready", "switched"])
async def test_what_is_forgotten_leaves_the_vectors_of_every_model(
    shop: Workshop, valkey: Server, machine: Machine, state: State
):
    names = await written(shop)
    secret = (await shop.remember(MARK)).id
    await embed(shop)
    rebuild = await ordered(shop, machine, "new", "manual" if state == "ready" else "auto")
    await carried(shop, rebuild.id, until=(state,))
    await shop.snapshot_job().run(force=True)
    held = [path for path in shop.snapshots.glob("[!.]*") if secret in snapshots.names_of(path)]
    assert held, "it was there"
    keys = [embedding(cache_key(model, MARK)) for model in ("test/old", "test/new")]
    assert await shop.redis.exists(*keys) == 2
    await shop.say(ForgetSubject(project="atlas", kind="memory", subject=secret))
    await shop.project()
    removed = await shop.purge().run()
    assert (await shop.redis.exists(*keys), removed.embedding_cache) == (0, 2)
    left = [path for path in shop.snapshots.glob("[!.]*") if secret in snapshots.names_of(path)]
    assert (left, len(list(shop.snapshots.glob("[!.]*")))) == ([], 1)
    if state == "ready":
        await shop.rebuilds.change(rebuild.id, steps.to_switch)
        await carried(shop, rebuild.id)
    async with replica_of(shop, valkey.url, machine) as replica:
        await assert_embedded(shop, replica, machine.embedders["new"], names)
        assert await replica.in_index_thread(replica.index.partition_of, secret) is None


async def test_feeds_that_are_trimmed_meanwhile_are_no_loss(
    shop: Workshop, valkey: Server, machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    """Another worker's snapshot lets the feeds go that the new index had still to read."""
    names = await written(shop)
    rebuild = await ordered(shop, machine, "new")
    compare = embeddings_module.EmbeddingRebuild.compare

    async def and_trim(self: Any, item: Rebuild) -> Any:
        results = await compare(self, item)
        names.extend(await written(shop, 10, since=30))
        assert await shop.snapshot_job("other").run(force=True) is not None
        return results

    monkeypatch.setattr(embeddings_module.EmbeddingRebuild, "compare", and_trim)
    await carried(shop, rebuild.id)
    await assert_all_new(shop, valkey.url, machine, names)


async def test_an_embedder_that_a_worker_cannot_have_ends_it(shop: Workshop, machine: Machine):
    await written(shop)
    rebuild = await ordered(shop, machine, "new")
    del machine.embedders["new"]
    done = await carried(shop, rebuild.id, until=("failed",))
    assert done.why == "model new: it is not on this machine"
    assert await live_model(shop) == "test/old"


async def test_a_service_that_is_away_is_asked_again(shop: Workshop, machine: Machine):
    await written(shop)

    class Away(WordsEmbedder):
        calls = 0

        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            self.calls += 1
            if self.calls < 3:
                raise EmbeddingServiceUnavailable("http://model", 3, "it is starting")
            return super().embed(texts)

    machine.embedders["new"] = Away("test/new", 48)
    await rebuilt(shop, machine, "new")
    assert await live_model(shop) == "test/new"


async def test_vectors_that_can_not_be_compared_wait_for_an_operator(
    shop: Workshop, machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    await written(shop)
    rebuild = await ordered(shop, machine, "new")

    def failing(texts: Sequence[str]) -> NDArray[np.float32]:
        raise EmbeddingServiceUnavailable("http://model", 3, "it is starting")

    monkeypatch.setattr(shop.embedders.current, "embed", failing)
    waits = await carried(shop, rebuild.id, until=("ready", "switched", "failed"))
    assert (waits.state, waits.canaries is not None) == ("ready", True)
    assert "the live ones could not be searched: " in getattr(waits.canaries, "said", "")


async def test_the_live_embedder_counts_and_not_the_configured_one(
    shop: Workshop, machine: Machine, caplog: pytest.LogCaptureFixture
):
    live = LiveEmbedder(shop.redis, machine.build, NAMED)
    assert (await live.start("new")).model == "test/old"
    assert "mnemolog admin rebuild --embedder 'new'" in caplog.text


async def test_an_embedder_that_has_become_another_embeds_nothing_and_says_why(
    shop: Workshop, valkey: Server, machine: Machine
):
    """Say, after an upgrade: the spec is the same, its vectors are not."""
    await written(shop)
    machine.embedders["old"] = WordsEmbedder("test/old-2", 32)
    async with replica_of(shop, valkey.url, machine) as replica:
        assert isinstance(replica.embedder, Unavailable)
        results = await Recall(replica, shop.documents)(RecallRequest(query="garden lima"), READER)
        assert results.results[0].content == content(15)
        assert "old makes vectors of test/old-2 with 32 dimensions here" in results.degraded[0]
        rebuild = await ordered(shop, machine, "old")
        await begin(shop, machine, "old")
        await carried(shop, rebuild.id)
        await wait_until(lambda: replica.embedder.model == "test/old-2")


async def test_two_processes_that_begin_a_log_agree_on_an_embedder(redis: Client, machine: Machine):
    first, second = (LiveEmbedder(redis, machine.build, NAMED) for _ in range(2))
    models = {item.model for item in await asyncio.gather(first.start("old"), second.start("new"))}
    assert len(models) == 1


async def test_a_vector_of_another_model_is_refused_by_the_index(shop: Workshop, valkey: Server, machine: Machine):
    await written(shop, 3)
    async with replica_of(shop, valkey.url, machine) as replica:
        question = Question(text="garden", vector=np.ones(32, np.float32), model="test/other")
        with pytest.raises(EmbedderMismatch):
            await replica.search(question, Filter(tenant=TENANT, now_ms=0))


def test_a_choice_is_what_a_spec_has_become():
    assert choice_of("none", NoEmbedder()) == Choice(spec="none", model="none", dimensions=0)
    assert FixedEmbedder(NoEmbedder()).configured == "none"
