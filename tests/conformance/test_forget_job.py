"""What a receipt promises, against a real Valkey: a request to forget is carried out, whatever crashes meanwhile.

Left open: how often the job runs; how many attempts it takes.

What purging guarantees, against a real Valkey: after it, nothing is left of what was made of forgotten texts.

Cached vectors, snapshots and change feeds; and whatever it is interrupted by, running again does the rest.

Left open: in what order stores are cleaned; when the server rewrites its append-only file (it is asked to).
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hash_embedder import HashEmbedder
from msgspec.structs import replace
from numpy.typing import NDArray
from workshop import PARTITIONS, TENANT, Workshop, embedding_queue

from ingest.commands.decide import Caller, SetSlot, TrackSession
from ingest.events.subject import SubjectForgotten
from ingest.kinds import SubjectKind
from ingest.log.keys import FORGET_LEASE, PURGE_LEASE, PURGED, PartitionKeys, embedding
from ingest.log.lease import lease
from ingest.log.position import START, Token
from ingest.platform.connections import Client
from projections.condensing.operations import Condensing
from projections.condensing.slots import PENDING
from projections.embedding.embed_job import EmbeddingQueue
from projections.forgetting import jobs as forget_module
from projections.forgetting import purge as purge_module
from projections.forgetting.forget import Forgetting, Forgotten, user_digest
from projections.forgetting.purge import Purge, SnapshotPurge
from projections.index import snapshots as snapshots_module
from projections.index.snapshots import SnapshotJob
from projections.nouns.access import Reader
from projections.nouns.slot import Slot, slot_id
from projections.operations.current import Current
from projections.store.receipts import Receipt, Removed, load_receipt, save_receipt
from projections.vectors.embedder import cache_key
from tests.conformance.interruptions import Killed, files_with, forget, killing

MARK = "zqxvkmarker"
WENT = {"observation": 4, "memory": 3, "lesson": 1, "event": 1, "session": 2}
"""What `write` writes; the event is what the lesson was told by."""


async def ask(shop: Workshop, kind: SubjectKind, name: str, project: str = "", number: int = 1) -> Receipt:
    """A request as the route writes it."""
    receipt = Receipt(
        id=f"receipt-{number}", tenant=TENANT, kind=kind, subject=user_digest(TENANT, name) if kind == "user" else name,
        name=name, project=project, requested_at=shop.clock.now,
    )  # fmt: skip
    await save_receipt(shop.redis, receipt)
    return receipt


async def receipt(shop: Workshop, number: int = 1) -> Receipt:
    stored = await load_receipt(shop.redis, f"receipt-{number}")
    assert stored is not None
    return stored


async def gone(shop: Workshop, names: Sequence[str]) -> list[bool]:
    return [await shop.gone(name) for name in names]


async def kim_and_lee(shop: Workshop) -> None:
    """Two users with the mark, of whom the first is to be forgotten."""
    await write(shop, "kim", MARK)
    await write(shop, "lee", MARK)
    await ask(shop, "user", "kim")


async def write(shop: Workshop, user: str, mark: str, few: bool = False) -> list[str]:
    """A user's observations, memories and lessons, in sessions of its own; their ids."""
    documents = [
        await shop.observe(f"{mark} looked at {n}", f"{user}-{n % 2}", user_id=user) for n in range(1 if few else 4)
    ]
    documents += [await shop.remember(f"{mark} prefers tea {n}", user_id=user) for n in range(1 if few else 3)]
    documents += [await shop.learn(f"{mark} drinks no coffee", user_id=user)]
    await shop.project()
    return [document.id for document in documents]


async def marked(shop: Workshop) -> list[str]:
    """Documents and log entries that have the mark."""
    matches = [repr(document) for document in await shop.everything() if MARK in repr(document)]
    for partition in range(shop.log.partitions):
        matches += [repr(row) for row in await shop.log.read(partition, START, 10_000) if MARK.encode() in row.payload]
    return matches


async def test_a_user_is_forgotten_and_the_receipt_says_what_went(shop: Workshop):
    forgotten, stored = await write(shop, "kim", MARK), await write(shop, "lee", "lee")
    await ask(shop, "user", "kim")
    assert await shop.forget_job().run() == 1
    report = await receipt(shop)
    assert (report.status, report.name, report.error, report.attempts) == ("done", "", "", 1)
    assert report.removed.documents == WENT
    assert report.removed.log_entries == 8
    assert report.probe is not None
    assert (report.probe.documents, report.probe.queries, report.probe.found) == (11, 8, 0)
    assert report.finished_at == shop.clock.now
    assert await marked(shop) == []
    assert all(await gone(shop, forgotten))
    assert not any(await gone(shop, stored))
    assert await shop.forget_job().run() == 0


class Saboteur:
    """Counts what a worker does, and kills it after the n-th thing, which is before the next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n, self.victim = 0, -1
        for owner, step in (
            (forget_module, "save_receipt"),
            (Current, "settle"),
            (Current, "give"),
            (Workshop, "wait"),
            (Purge, "run"),
            (SnapshotPurge, "probe"),
        ):
            monkeypatch.setattr(owner, step, self._watched(getattr(owner, step)))

    def _watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*args: Any, **options: Any) -> Any:
            mine, self.n = self.n, self.n + 1
            answer = await step(*args, **options)
            if mine == self.victim:
                raise Killed
            return answer

        return watched


async def test_a_job_that_is_killed_at_any_step_is_resumed_by_the_next(
    redis: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """After every step of it in turn. In the end the receipt is done, nothing is left, and the others' is there."""
    saboteur = Saboteur(monkeypatch)
    steps, victim = 1, 0
    while victim < steps:
        await redis.flushall()
        shop = Workshop(redis, tmp_path / f"killed-{victim}")
        await write(shop, "kim", MARK, few=True)
        stored = await write(shop, "lee", "lee", few=True)
        await ask(shop, "user", "kim")
        saboteur.n, saboteur.victim = 0, victim
        with pytest.raises(Killed):
            await shop.forget_job().run()
        started, saboteur.victim = saboteur.n, -1
        await shop.forget_job().run()
        assert (await receipt(shop)).status == "done", f"killed after step {victim}"
        assert await marked(shop) == []
        assert not any(await gone(shop, stored))
        assert not await shop.purge().wanted()
        if victim == 0:  # the first one did nothing yet, so the second did all there is
            steps = saboteur.n - started
            assert steps > 15
        victim += 1


async def test_a_fault_is_in_the_receipt_and_holds_up_no_other(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    await kim_and_lee(shop)
    shop.clock.advance(timedelta(seconds=1))
    await ask(shop, "user", "lee", number=2)
    forget = Forgetting.user_or_project

    async def failing(self: Forgetting, receipt: Receipt, *args: Any) -> Forgotten:
        if receipt.name == "kim":
            raise ZeroDivisionError("not this one")
        return await forget(self, receipt, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Forgetting, "user_or_project", failing)
        assert await shop.forget_job().run() == 1
    first, second = await receipt(shop), await receipt(shop, 2)
    assert (first.status, first.name, "not this one" in first.error) == ("pending", "kim", True)
    assert second.status == "done"
    assert await shop.forget_job().run() == 1
    first = await receipt(shop)
    assert (first.status, first.name, first.error, first.attempts) == ("done", "", "", 2)
    assert await marked(shop) == []


async def test_a_purge_that_came_to_nothing_leaves_the_receipt_pending_and_what_went_in_it(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """`done` says that nothing is left; so it is not said before."""
    await write(shop, "kim", MARK)
    await ask(shop, "user", "kim")
    run = Purge.run

    async def without_snapshot(self: Purge) -> Any:
        return replace(await run(self), snapshot="")

    with monkeypatch.context() as patched:
        patched.setattr(Purge, "run", without_snapshot)
        assert await shop.forget_job().run() == 0
    report = await receipt(shop)
    assert report.status == "pending"
    assert report.removed.documents == WENT
    assert await shop.forget_job().run() == 1
    report = await receipt(shop)
    assert report.removed.documents == WENT
    assert report.removed.log_entries == 8


async def write_nameless(shop: Workshop) -> list[str]:
    """A memory and a lesson of no project; their ids."""
    lesson = [await shop.remember("tea is brewed", project=""), await shop.learn("warm the pot", project="")]
    await shop.project()
    return [item.id for item in lesson]


@pytest.mark.parametrize(("kind", "name"), [("user", "kim"), ("project", "atlas")])
async def test_of_two_workers_at_once_one_carries_a_receipt_out(shop: Workshop, kind: SubjectKind, name: str):
    await write(shop, "kim", MARK)
    stored = await write_nameless(shop)
    await ask(shop, kind, name)
    workers = [shop.forget_job(shop.purge(worker)).run() for worker in ("one", "other")]
    assert sorted(await asyncio.gather(*workers)) == [0, 1]
    report = await receipt(shop)
    assert (report.status, report.attempts) == ("done", 1)
    assert (report.removed.documents, report.removed.log_entries) == (WENT, 8)
    assert await marked(shop) == []
    assert not any(await gone(shop, stored))


async def test_a_worker_that_lost_its_lease_leaves_alone_a_receipt_that_is_done(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """It was held up before its purge, until another one had taken over and finished; then its own purge fails."""
    await write(shop, "kim", MARK)
    stored = await write_nameless(shop)
    await ask(shop, "project", "atlas")
    late = shop.purge("late")

    async def held_up() -> Removed:
        await shop.redis.delete(FORGET_LEASE)
        assert await shop.forget_job(shop.purge("other")).run() == 1
        return Removed()

    monkeypatch.setattr(late, "run", held_up)
    assert await shop.forget_job(late).run() == 0
    report = await receipt(shop)
    assert (report.status, report.name, report.error) == ("done", "", "")
    assert (report.removed.documents, report.removed.log_entries) == (WENT, 8)
    assert await shop.forget_job().run() == 0
    assert not any(await gone(shop, stored))


@pytest.mark.parametrize("kind", ["user", "session", "project"])
async def test_a_receipt_without_a_name_is_not_carried_out(
    shop: Workshop, caplog: pytest.LogCaptureFixture, kind: SubjectKind
):
    stored = [*await write(shop, "kim", MARK), *await write_nameless(shop)]
    await ask(shop, kind, "")
    assert await shop.forget_job().run() == 0
    report = await receipt(shop)
    assert (report.status, f"does not name the {kind}" in report.error) == ("pending", True)
    assert not any(await gone(shop, stored))


async def test_the_nameless_project_is_forgotten_when_the_receipt_says_that_it_is_meant(shop: Workshop):
    stored, nameless = await write(shop, "kim", MARK), await write_nameless(shop)
    await save_receipt(shop.redis, replace(await ask(shop, "project", ""), nameless=True))
    assert await shop.forget_job().run() == 1
    assert (await receipt(shop)).removed.documents == {"memory": 1, "lesson": 1, "event": 1}
    assert all(await gone(shop, nameless))
    assert not any(await gone(shop, stored))


async def test_what_is_asked_for_while_a_worker_is_at_it_is_done_in_the_same_run(shop: Workshop):
    """The job of the second request finds the lease taken, and ends."""
    await kim_and_lee(shop)
    requests: list[Receipt] = []

    async def meanwhile(token: Token) -> None:
        await shop.project()
        if not requests:
            requests.append(await ask(shop, "user", "lee", number=2))
            assert await shop.forget_job(shop.purge("other")).run() == 0

    assert await shop.forget_job_that(meanwhile, current=shop.current).run() == 2
    assert await marked(shop) == []


async def test_what_is_asked_for_while_a_worker_gives_up_its_lease_is_done_in_the_same_run(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """It has found nothing more to do, and whoever is called for the second request finds the lease still taken."""
    await kim_and_lee(shop)
    requests: list[Receipt] = []

    @asynccontextmanager
    async def slowly(redis: Client, key: str, who: str) -> AsyncGenerator[bool]:
        async with lease(redis, key, who) as mine:
            yield mine
            if mine and not requests:
                requests.append(await ask(shop, "user", "lee", number=2))
                assert await shop.forget_job(shop.purge("other")).run() == 0

    monkeypatch.setattr(forget_module, "lease", slowly)
    assert await shop.forget_job().run() == 2
    assert await marked(shop) == []


@pytest.mark.parametrize("kind", ["user", "project", "session"])
async def test_what_is_recorded_after_it_began_stays(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, kind: SubjectKind
):
    """Agents go on working while their past is forgotten: nothing acknowledged meanwhile is lost."""
    fields: dict[str, Any] = {"user_id": "kim"}
    await shop.observe(MARK, "s1", **fields)
    await shop.say(TrackSession(session_id="s1", project="atlas", status="started", title=MARK, user_id="kim"))
    await shop.remember(MARK, **fields)
    await shop.project()
    await ask(shop, kind, {"user": "kim", "project": "atlas", "session": "s1"}[kind], "atlas")
    later: list[str] = []
    project = shop.project

    async def meanwhile(token: Token) -> None:
        await project()
        if not later:
            await asyncio.sleep(0.005)
            later.append((await shop.observe("new work", "s1", **fields)).id)
            later.append((await shop.observe("in a new session", "s2", **fields)).id)
            await shop.say(TrackSession(session_id="s2", project="atlas", status="started", title="New", user_id="kim"))
            later.append((await shop.remember("a new memory", **fields)).id)
            await project()

    job = shop.forget_job_that(meanwhile, current=shop.current)
    assert await job.run() == 1
    assert await gone(shop, later) == [False] * 3
    assert (await shop.session("s1")).observation_count == 1
    assert (await shop.session("s2")).title == "New"
    assert [text for text in await marked(shop) if kind != "session" or "memory" not in text.lower()] == []


async def test_what_was_made_of_the_subject_while_it_was_forgotten_is_found(shop: Workshop):
    """Somebody had read an observation before, and writes down what came of it after it is gone."""
    observation = await shop.observe(f"{MARK} likes tea", "s1", user_id="kim")
    await shop.project()
    await ask(shop, "user", "kim")
    made: list[str] = []

    async def meanwhile(token: Token) -> None:
        await shop.project()
        if not made:
            made.append((await shop.remember(f"a fact about {MARK}", derived_from=[observation.id])).id)
            made.append((await shop.learn(f"a lesson of {MARK}", derived_from=[made[0]])).id)
            await shop.project()

    job = shop.forget_job_that(meanwhile, current=shop.current)
    assert await job.run() == 1
    assert await marked(shop) == []
    assert await gone(shop, made) == [True, True]


@pytest.mark.parametrize("place", ["atlas", ""])
async def test_slots_that_a_session_was_reflected_into_lose_its_lines_and_keep_the_others(shop: Workshop, place: str):
    """Reflected into the project's slots; logs of earlier releases have the same in those of no project, too."""
    condensing = Condensing(shop.current, clock=shop.clock)
    await shop.observe(f"todo: ask {MARK} about src/{MARK}.py", "s1", data={"file_path": f"src/{MARK}.py"})
    await shop.observe("todo: water the plants", "s2")
    await shop.project()
    for session in ("s1", "s2"):
        await condensing.reflect_slots(await shop.session(session), Caller(TENANT, agent_id="ada"))
        await shop.project()
    for label in (PENDING, "project_context") if not place else ():
        document = await shop.documents.find(slot_id(TENANT, "atlas", label))
        if document is not None and isinstance(document.document, Slot):
            await shop.say(SetSlot(label=label, content=document.document.content))
    await shop.project()
    assert any("Slot(" in slot for slot in await slots_of(shop, place))
    assert MARK in repr(await slots_of(shop, place))
    await ask(shop, "session", "s1", "atlas")
    assert await shop.forget_job().run() == 1
    text = repr(await slots_of(shop, place))
    assert MARK not in text
    assert "water the plants" in text
    assert await marked(shop) == []


async def slots_of(shop: Workshop, place: str) -> list[str]:
    """What the slots of a project hold."""
    document = [await shop.documents.find(slot_id(TENANT, place, label)) for label in (PENDING, "project_context")]
    return [repr(item.document) for item in document if item is not None]


async def test_a_memory_that_is_forgotten_already_is_not_forgotten_again(shop: Workshop):
    """Nothing is appended."""
    memory = await shop.remember(MARK)
    await shop.project()
    forgetting, operator = Forgetting(shop.current), Reader(TENANT, operator=True)
    for count in (1, 0):
        assert (await forgetting.documents([memory.id], operator, Caller(TENANT))).total == count
        await shop.project()
    assert len(await shop.events(SubjectForgotten.TYPE)) == 1


SECRET, KEPT = f"the key is {MARK}", "the kettle is green"


async def settled(shop: Workshop, queue: EmbeddingQueue) -> None:
    """Fold and embed everything."""
    await shop.project()
    while await queue.work(range(PARTITIONS)):
        pass


async def forgotten_secret(shop: Workshop, queue: EmbeddingQueue, *, snapshot: bool = True) -> str:
    """A secret that was embedded beside what is kept, and forgotten, after a snapshot or before any; its id."""
    secret = await shop.remember(SECRET)
    await shop.remember(KEPT)
    await settled(shop, queue)
    if snapshot:
        await shop.snapshot_job().run(force=True)
        assert files_with(shop.snapshots, MARK)
    assert await cached(shop, SECRET)
    await forget(shop, secret.id)
    return secret.id


async def cached(shop: Workshop, text: str) -> bool:
    """Whether a text's vector is in the cache."""
    return await shop.redis.get(embedding(cache_key(HashEmbedder.model, text))) is not None


async def noted(shop: Workshop) -> int:
    """Notes of what is to be purged."""
    keys = [PartitionKeys(partition) for partition in range(PARTITIONS)]
    return sum([int(await shop.redis.scard(name)) for key in keys for name in (key.purge, key.purging)])


async def fed(shop: Workshop) -> int:
    """Entries of the change feeds that speak of the mark."""
    return sum(MARK.encode() in entry for entry in await feeds(shop))


async def feeds(shop: Workshop) -> list[bytes]:
    """The entries of all change feeds."""
    keys = [PartitionKeys(partition).of_generation(1).changes for partition in range(PARTITIONS)]
    return [fields[b"c"] for key in keys for _, fields in await shop.redis.xrange(key)]


async def assert_nothing_left(shop: Workshop) -> None:
    """Nothing of the secret in any store, and what is kept is there."""
    assert not await cached(shop, SECRET)
    assert await cached(shop, KEPT)
    assert await noted(shop) == 0
    assert await fed(shop) == 0
    assert files_with(shop.folder, MARK) == []
    (only,) = shop.snapshots.iterdir()
    assert await shop.redis.get(PURGED) == only.name.encode()
    results = snapshots_module.newest(shop.snapshots, HashEmbedder.model)
    assert results is not None
    assert results[1].documents == 1


async def test_a_purge_removes_what_was_made_of_a_forgotten_text(shop: Workshop, queue: EmbeddingQueue):
    await forgotten_secret(shop, queue)
    purge = shop.purge()
    assert await purge.wanted()
    removed = await purge.run()
    assert (removed.embedding_cache, removed.older_snapshots, removed.replicas_waiting) == (1, 1, 0)
    assert removed.append_only_file == "being rewritten"
    assert not await purge.wanted()
    await assert_nothing_left(shop)


async def test_a_purge_is_not_wanted_when_nothing_was_forgotten(shop: Workshop, queue: EmbeddingQueue):
    await shop.remember(KEPT)
    await settled(shop, queue)
    assert not await shop.purge().wanted()


STEPS: list[tuple[object, str]] = [
    (Purge, "_notes"),
    (Purge, "_forget_vectors"),
    (Purge, "_feed_entries"),
    (SnapshotJob, "_start"),
    (snapshots_module, "save"),
    (snapshots_module, "trim_feed"),
    (snapshots_module, "prune"),
    (SnapshotJob, "run"),
    (purge_module, "rewrite_log_file"),
    (SnapshotPurge, "await_readers"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[name for _, name in STEPS])
async def test_a_purge_that_is_killed_at_any_step_is_done_by_the_next(
    shop: Workshop, queue: EmbeddingQueue, monkeypatch: pytest.MonkeyPatch, owner: object, step: str, when: str
):
    """Until everything was done the notes stay; so the next look finds that a purge is wanted."""
    await forgotten_secret(shop, queue)
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, killing(getattr(owner, step), when))
        with pytest.raises(Killed):
            await shop.purge().run()
    again = shop.purge()
    if step == "await_readers":
        assert not await again.wanted(), "all is done but for waiting"
    else:
        assert await again.wanted()
        await again.run()
    await assert_nothing_left(shop)


async def test_what_is_forgotten_while_a_purge_runs_is_left_to_the_next_one(
    shop: Workshop, queue: EmbeddingQueue, monkeypatch: pytest.MonkeyPatch
):
    """The same text, forgotten once more after the snapshot was written: its note is not taken off with the first."""
    first = await shop.remember(SECRET)
    second = await shop.remember(SECRET, session_id="another")
    await shop.remember(KEPT)
    await settled(shop, queue)
    await forget(shop, first.id)
    ask = purge_module.rewrite_log_file

    async def meanwhile(server: Client) -> str:
        await forget(shop, second.id)
        return await ask(server)

    with monkeypatch.context() as patched:
        patched.setattr(purge_module, "rewrite_log_file", meanwhile)
        await shop.purge().run()
    assert files_with(shop.snapshots, MARK), "the second was there when it was written"
    assert await shop.purge().wanted()
    await shop.purge().run()
    await assert_nothing_left(shop)


async def test_a_slot_forgotten_while_a_purge_runs_makes_another_one_wanted(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """It has no text in the index; but the server's append-only file has it until it is rewritten."""
    secret = await shop.remember(SECRET)
    slot = await shop.say(SetSlot(label="notes", content=SECRET, project="atlas"))
    await shop.project()
    await forget(shop, secret.id)
    save = snapshots_module.save

    def and_forget(*args: Any) -> Any:
        asyncio.run_coroutine_threadsafe(forget(shop, slot.id), loop).result(10)
        return save(*args)

    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        patched.setattr(snapshots_module, "save", and_forget)
        await shop.purge().run()
    assert await shop.purge().wanted()


class SlowEmbedder(HashEmbedder):
    """Embeds when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.called.set()
        assert self.go_on.wait(30)
        return super().embed(texts)


async def test_a_text_that_is_embedded_while_it_is_forgotten_and_purged_leaves_no_vector(shop: Workshop):
    """The worker had read it before; its vector must not come into the cache, or into the feed, behind the purge."""
    embedder = SlowEmbedder()
    with ThreadPoolExecutor(1) as executor:
        queue = embedding_queue(shop.redis, embedder, executor)
        secret = await shop.remember(SECRET)
        await shop.remember(KEPT)
        await shop.project()
        embedding_it = asyncio.create_task(queue.work(range(PARTITIONS)))
        assert await asyncio.to_thread(embedder.called.wait, 10)
        await forget(shop, secret.id)
        await shop.purge().run()
        embedder.go_on.set()
        assert await embedding_it == 2
        while await queue.work(range(PARTITIONS)):
            pass
    assert not await cached(shop, SECRET)
    assert await cached(shop, KEPT)
    assert not [entry for entry in await feeds(shop) if secret.id.encode() in entry]


async def test_of_two_purges_at_once_the_second_waits_for_the_first(
    shop: Workshop, queue: EmbeddingQueue, monkeypatch: pytest.MonkeyPatch
):
    """So both write a snapshot, whichever worker they run in; and neither takes off notes that the other works on."""
    await forgotten_secret(shop, queue, snapshot=False)
    order: list[str] = []
    for owner, step in ((Purge, "_notes"), (SnapshotPurge, "await_readers")):
        monkeypatch.setattr(owner, step, noting(order, getattr(owner, step)))
    both = await asyncio.gather(shop.purge("one").run(), shop.purge("other").run())
    assert order == ["_notes", "await_readers"] * 2
    assert [item.snapshot != "" for item in both] == [True, True]
    assert [item.embedding_cache for item in both] in ([1, 0], [0, 1])
    await assert_nothing_left(shop)


def noting(order: list[str], step: Callable[..., Any]) -> Callable[..., Any]:
    """The step, which says when it begins."""

    async def telling(*args: Any) -> Any:
        order.append(step.__name__)
        return await step(*args)

    return telling


async def test_a_purge_that_waits_for_another_in_vain_keeps_the_notes(
    shop: Workshop, queue: EmbeddingQueue, monkeypatch: pytest.MonkeyPatch
):
    await forgotten_secret(shop, queue, snapshot=False)
    await shop.redis.set(PURGE_LEASE, "another", ex=30)
    monkeypatch.setattr(purge_module, "WAIT_FOR_OTHER_S", 0.1)
    assert await shop.purge().run() == Removed()
    assert await shop.purge().wanted()


async def test_a_purge_that_can_write_no_snapshot_keeps_its_notes(
    shop: Workshop, queue: EmbeddingQueue, caplog: pytest.LogCaptureFixture
):
    """Its folder cannot be made; the next run tries again."""
    await forgotten_secret(shop, queue, snapshot=False)
    shop.snapshots.write_text("in the way")
    removed = await shop.purge().run()
    assert removed.snapshot == ""
    assert "snapshots cannot be written" in caplog.text
    assert await shop.purge().wanted()


async def test_a_probe_finds_what_is_still_there_and_nothing_after_a_purge(shop: Workshop, queue: EmbeddingQueue):
    secret = await forgotten_secret(shop, queue)
    purge = shop.purge()
    for hits in (1, 0):
        probe = await purge.index.probe(TENANT, [secret], [SECRET])
        assert (probe.documents, probe.queries, probe.found) == (1, 1, hits)
        await purge.run()
