"""What every StateStore must do, run against each back end.

Left open: how documents are encoded; whether a listing without members exists; what a store keeps beside documents,
listings and checkpoint (the change feed, the embedding queue and the erasure of log entries are Redis's, stated below).
Where only Redis has owners, the fixture says so and both answers are asserted.

What a lease on a job promises, against a real Valkey: one worker has it, keeps it, and gives up only its own.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, cast

import pytest
from factories import ended, forgotten, learned, observed, place, remembered, said, started
from msgspec.structs import replace
from waiting import wait_until

from ingest.errors import LeaseLost
from ingest.events.envelope import Event, Recorded
from ingest.events.subject import EventErased
from ingest.ids import DocumentId
from ingest.log.keys import PURGE_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.log.position import START, Position
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.nouns.action import ActionCreated, ActionEdge
from ingest.nouns.lesson import LessonRecorded
from ingest.nouns.registry import decode
from ingest.nouns.relation import RelationLinked
from ingest.nouns.session import SessionCommitted, SessionRetired, SessionSummarised
from ingest.nouns.slot import SlotSet
from ingest.platform.connections import Client
from projections.nouns.action import Action
from projections.nouns.document import Document, listings
from projections.nouns.fold import Changes, DocumentChange
from projections.nouns.lesson import Lesson, lesson_id
from projections.nouns.memory import memory, memory_id
from projections.nouns.observation import observation_id
from projections.nouns.relation import Relation
from projections.nouns.rows import UNPLACED, Row, load_row, queue_row, read_row
from projections.nouns.session import Session
from projections.nouns.slot import Slot
from projections.nouns.tombstone import Outcome, SupersededEvent, Tombstone
from projections.store.feed import Put, Remove, read_entry
from projections.store.protocol import MemoryStore, StateStore, project
from projections.store.rebuild_store import RebuildStore
from projections.store.redis_store import RedisStore

TEA = "ada likes green tea in the morning with lemon and honey"
TEA_AGAIN = "ada likes green tea in the morning with lemon and sugar"
KEYS = PartitionKeys(7)


STUB = Event(
    replace(observed(1).envelope, type=EventErased.TYPE), EventErased(was="observation.recorded", document="obs_1")
)


class Backend(NamedTuple):
    """A store under test. `lose` makes another the owner of its partition; `has_owners` says whether that matters."""

    store: StateStore
    lose: Callable[[], Awaitable[None]]
    has_owners: bool


def added(*documents: Document) -> Changes:
    """Changes that add these documents."""
    return Changes({DocumentId(document.id): DocumentChange(None, document) for document in documents}, {})


AnyRow = Lesson | Session | Slot | Action | Relation
ROWS: list[AnyRow] = [
    Lesson(
        id=f"lsn_{1:020x}", tenant="default", project="проект", agent_id="ada", user_id="u1", title="false",
        content="line one\r\nline two\0 \u2028 🚀 'quoted' \"twice\" \\n", context=" ", tags="a\x1fb",
        confidence=0.1 + 0.2, reinforcements=3, origin="None", severity="critical", trigger_tool="bash",
        trigger_pattern="git\\s+push", trigger_count=2, active=False, derived_from="obs_1\x1fobs_2", updated_ms=7,
        triggered_ms=8, retired_ms=9, recorded_ms=1_769_860_800_001, occurred_ms=-5, reinforced_ms=2**53 + 1,
        position="17-9", trust="external", quarantined="rule", version=3, changed_by="eve", judged_by="k1",
    ),
    Session(
        id=f"ses_{1:020x}", tenant="default", project="atlas", session_id="0012", agent_id="true", user_id="0",
        agent_type="null", title="1e5", first_prompt="fix it", cwd="/src", status="ended", started_ms=1, updated_ms=2,
        seen_ms=5, ended_ms=3, observation_count=4, summarised=3, forgotten_at="17-9", told_from="e1", retired=2,
        retired_ms=7, retired_through_ms=5, trust="imported", worked=True,
    ),
    Slot(
        id=f"slot_{1:020x}", tenant="default", project="atlas", scope="global", label="notes", content="a\nb",
        size_limit=50, description="scratch", pinned=False, read_only=True, agent_id="ada", user_id="u1", created_ms=1,
        occurred_ms=4, updated_ms=2, position="17-9", trust="tool_output", version=3,
    ),
    Action(
        id=f"act_{1:020x}", tenant="default", project="atlas", title="ship it", description="all of it",
        status="blocked", priority=1.5, tags="a\x1fb", edges="requires\x1eact_2\x1fgated_by\x1eact_3", parent="act_4",
        session_id="s1", agent_id="ada", user_id="u1", assigned_to="bob", result="shipped", crystallized_into="cry_1",
        created_ms=1, occurred_ms=4, updated_ms=2, position="17-9", trust="user_stated", version=3, changed_by="eve",
        paths="src/**", holder="bob", token="17-8", expires_ms=5,
    ),
    Relation(
        id=f"rel_{1:020x}", tenant="default", project="atlas", source="mem_a", target="mem_b", relation="causes",
        derived_from="sum_1", confidence=0.1 + 0.2, agent_id="ada", user_id="u1", created_ms=1, occurred_ms=4,
        updated_ms=2, position="17-9",
    ),
]  # fmt: skip
"""A row of every kind, every field set: with text that a hash could get wrong, flags against their defaults."""


def lesson(n: int = 1) -> Lesson:
    return cast(Lesson, ROWS[0]).model_copy(update={"id": f"lsn_{n:020x}"})


def session(n: int = 1) -> Session:
    return cast(Session, ROWS[1]).model_copy(update={"id": f"ses_{n:020x}"})


EVERY_NOUN = [
    started(1), observed(2, user_id="u1"), observed(3), remembered(4, TEA), remembered(5, TEA_AGAIN), learned(6),
    said(7, SlotSet(label="notes", content="a", pinned=False, read_only=True)),
    said(8, ActionCreated(title="ship it", tags=["a", "b"], edges=[ActionEdge(type="gated_by", target="act_1")])),
    said(9, RelationLinked(source="mem_a", target="mem_b", relation="causes")),
    said(10, SessionCommitted(commit="9f1c", files=["a.py"])), ended(11),
    forgotten(12, "memory", memory_id(remembered(4, ""))),
    said(13, SessionSummarised(title="a", narrative="b", decisions=["c"], observation_count=2, forgotten_at="s1")),
]  # fmt: skip
"""A batch after which there is a document of every kind."""


async def apply(store: StateStore, *events: Recorded) -> Changes:
    """Fold one batch into the store and save it."""
    changes = await project(store, events)
    await store.save(changes, events[-1].position)
    return changes


async def document_of(store: StateStore, name: str) -> Document | None:
    """One document, if it exists."""
    return (await store.load([DocumentId(name)])).get(DocumentId(name))


async def all_listed(store: StateStore, *documents: Document) -> bool:
    """Whether each document is in every listing it stands for."""
    pairs = {pair for document in documents for pair in listings(document)}
    results = await store.members({name for name, _ in pairs})
    return bool(pairs) and all(member in results[name] for name, member in pairs)


class StateStoreConformance:
    """Each back end subclasses this and gives the fixture `backend`."""

    async def test_a_new_store_is_empty_until_something_is_saved(self, backend: Backend):
        store = backend.store
        assert await store.checkpoint() == START
        assert await store.load([DocumentId(session().id)]) == {}
        assert [list(result) for result in (await store.members(["sessions:default"])).values()] == [[]]
        await store.save(added(session()), place(1))
        assert await store.checkpoint() == place(1)

    async def test_documents_of_every_kind_are_read_back_as_saved(self, backend: Backend):
        silent = observed(90, session_id="silent", user_id="u1")
        retirement = said(91, SessionRetired(documents=[observation_id(silent)]), session_id="silent")
        changes = await apply(backend.store, *EVERY_NOUN, silent, retirement)
        saved = {name: change.after for name, change in changes.documents.items()}
        assert {type(document) for document in saved.values()} == set(Document.__args__)
        assert await backend.store.load(list(saved)) == saved

    async def test_a_row_is_read_back_field_by_field(self, backend: Backend):
        """Numbers, blanks, separators and text that looks like a number or like nothing."""
        bare: list[AnyRow] = [
            Lesson(id=f"lsn_{9:020x}", position="1-0"),
            Session(id=f"ses_{9:020x}"),
            Slot(id=f"slot_{9:020x}", position="1-0"),
            Action(id=f"act_{9:020x}", position="1-0"),
            Relation(id=f"rel_{9:020x}", position="1-0"),
        ]
        await backend.store.save(added(*ROWS, *bare), place(1))
        for row in ROWS + bare:
            results = await document_of(backend.store, row.id)
            assert type(results) is type(row)
            assert results == row

    async def test_tombstones_and_marks_are_read_back(self, backend: Backend):
        tombstone = Tombstone(
            id=DocumentId(f"mem_{1:020x}"), position="17-9", memory_version=3, superseded_by="mem_a",
            condensed=["mem_b"], successor="mem_c",
        )  # fmt: skip
        mark = SupersededEvent(
            id=DocumentId(f"evt_{1:020x}"), position="17-8", subject="lsn_x", was="lesson.recorded", tenant="default",
            project="atlas", user_id="u1", erased=True,
            outcome=Outcome(refused="claimed", version=3, changed_by="bob", until_ms=5),
        )  # fmt: skip
        await backend.store.save(added(tombstone, mark), place(1))
        assert await backend.store.load([tombstone.id, mark.id]) == {tombstone.id: tombstone, mark.id: mark}

    async def test_only_what_exists_is_loaded(self, backend: Backend):
        await backend.store.save(added(session(1), lesson(1)), place(1))
        expected = [DocumentId(document.id) for document in (session(1), lesson(1), session(2), lesson(2))]
        expected.append(DocumentId(f"obs_{1:020x}"))
        assert (await backend.store.load(expected)).keys() == {session(1).id, lesson(1).id}
        assert await backend.store.load([]) == {}

    async def test_a_document_is_listed_where_it_stands(self, backend: Backend):
        changes = await apply(backend.store, observed(1), remembered(2, TEA), learned(3))
        saved = [change.after for change in changes.documents.values() if change.after]
        assert await all_listed(backend.store, *saved)

    async def test_members_come_in_order(self, backend: Backend):
        """Members of a listing sort by position or time, in whatever order they were saved."""
        events = [observed(n) for n in (3, 1, 20, 2)]
        for event in events:
            await apply(backend.store, event)
        (result,) = (await backend.store.members(["timeline:default\0atlas"])).values()
        assert [name.rpartition("|")[2] for name in result] == [observation_id(observed(n)) for n in (1, 2, 3, 20)]

    async def test_a_changed_document_leaves_the_listings_it_no_longer_stands_for(self, backend: Backend):
        before = memory(remembered(1, TEA), remembered(1, TEA).data)  # pyright: ignore[reportArgumentType]
        after = replace(before, is_latest=False)
        await backend.store.save(added(before), place(1))
        assert await all_listed(backend.store, before)
        await backend.store.save(Changes({before.id: DocumentChange(before, after)}, {}), place(2))
        left = {name for name, _ in listings(before) - listings(after)}
        assert left
        assert not any((await backend.store.members(left)).values())
        assert await all_listed(backend.store, after)
        assert await document_of(backend.store, before.id) == after

    async def test_a_session_moves_within_its_listings(self, backend: Backend):
        before = session()
        after = before.model_copy(update={"updated_ms": 99})
        await backend.store.save(added(before), place(1))
        await backend.store.save(Changes({DocumentId(before.id): DocumentChange(before, after)}, {}), place(2))
        (result,) = (await backend.store.members(["sessions:default\0atlas"])).values()
        assert list(result) == [f"{99:014d}|{before.id}"]

    async def test_a_removed_document_is_gone_with_its_listings(self, backend: Backend):
        made = (await apply(backend.store, remembered(1, TEA))).documents.values()
        documents = [*ROWS, *(change.after for change in made if change.after)]
        assert len(documents) == len(ROWS) + 1
        await backend.store.save(added(*ROWS), place(2))
        for n, document in enumerate(documents, 3):
            name = DocumentId(document.id)
            assert await all_listed(backend.store, document)
            await backend.store.save(Changes({name: DocumentChange(document, None)}, {}), place(n))
            assert await document_of(backend.store, name) is None
            left = await backend.store.members({listing for listing, _ in listings(document)})
            assert not any(member in left[listing] for listing, member in listings(document))

    async def test_a_forgotten_document_is_a_tombstone_in_no_listing(self, backend: Backend):
        changes = await apply(backend.store, remembered(1, TEA))
        (name,) = changes.documents
        await apply(backend.store, forgotten(2, "memory", name))
        assert isinstance(await document_of(backend.store, name), Tombstone)
        was = listings(changes.documents[name].after)
        assert not any((await backend.store.members({listing for listing, _ in was})).values())

    async def test_forgetting_a_row_that_is_not_there_writes_nothing(self, backend: Backend):
        """A tombstone in the place of a row could not be read back; none is needed: its event would make it anew."""
        await apply(backend.store, learned(1))
        row_id = lesson_id(learned(1), LessonRecorded(content=""))
        changes = await apply(backend.store, forgotten(2, "lesson", row_id))
        assert await document_of(backend.store, row_id) is None
        assert dict(changes.documents) == {}
        assert await backend.store.checkpoint() == place(2)

    async def test_the_checkpoint_moves_with_a_batch_that_changes_nothing(self, backend: Backend):
        await backend.store.save(Changes({}, {}), Position(17, 9))
        await backend.store.save(Changes({}, {}), Position(17, 10))
        assert await backend.store.checkpoint() == Position(17, 10)

    async def test_saving_twice_is_harmless(self, backend: Backend):
        """A worker that never heard the answer saves again."""
        events = [observed(1), remembered(2, TEA), remembered(3, TEA_AGAIN), learned(4)]
        changes = await project(backend.store, events)
        await backend.store.save(changes, place(4))
        saved = await backend.store.load(list(changes.documents))
        names = {name for change in changes.documents.values() for name, _ in listings(change.after)}
        listed = await backend.store.members(names)
        await backend.store.save(changes, place(4))
        assert await backend.store.load(list(changes.documents)) == saved != {}
        assert await backend.store.members(names) == listed
        assert await backend.store.checkpoint() == place(4)

    async def test_a_batch_read_back_from_the_store_folds_to_nothing_new(self, backend: Backend):
        """What is loaded equals what was saved, also where the fold compares it."""
        assert (await apply(backend.store, *EVERY_NOUN)).documents
        assert (await project(backend.store, EVERY_NOUN)).documents == {}

    async def test_a_store_that_lost_its_partition_saves_nothing(self, backend: Backend):
        await backend.store.save(added(session()), place(1))
        await backend.lose()
        if backend.has_owners:
            with pytest.raises(LeaseLost):
                await backend.store.save(added(lesson()), place(2))
        else:
            await backend.store.save(added(lesson()), place(2))
        saved = await document_of(backend.store, lesson().id)
        assert (saved == lesson()) is not backend.has_owners
        assert await backend.store.checkpoint() == place(1 if backend.has_owners else 2)


class TestMemoryStore(StateStoreConformance):
    @pytest.fixture
    async def backend(self) -> Backend:
        async def lose() -> None:
            """Nobody else can have it."""

        return Backend(MemoryStore(), lose, has_owners=False)


class TestRedisStore(StateStoreConformance):
    @pytest.fixture(params=["new fence", "new generation"])
    async def backend(self, redis: Client, request: pytest.FixtureRequest) -> Backend:
        fence = await acquire_lease(redis, KEYS, "ada", 60_000)

        async def lose() -> None:
            if request.param == "new fence":
                await redis.delete(KEYS.lease)
                assert await acquire_lease(redis, KEYS, "bob", 60_000) > fence
            else:
                await redis.set(KEYS.generation, "2")

        return Backend(RedisStore(redis, KEYS, 1, fence), lose, has_owners=True)

    @pytest.fixture
    async def store(self, redis: Client) -> RedisStore:
        return RedisStore(redis, KEYS, 1, await acquire_lease(redis, KEYS, "ada", 60_000))

    @pytest.mark.parametrize("error", [LeaseLost, RuntimeError])
    async def test_a_fence_that_moves_or_a_fault_while_a_batch_is_prepared_saves_nothing(
        self, store: RedisStore, redis: Client, error: type[Exception]
    ):
        """The owner changed between the check and the transaction: WATCH finds out."""

        async def prepare(_: object) -> None:
            if error is RuntimeError:
                raise RuntimeError("a bug")
            await cast(Any, redis).incr(KEYS.fence)

        with pytest.raises(error):
            await store.save_and(added(session()), place(1), prepare)
        assert await store.load([DocumentId(session().id)]) == {}
        assert await store.checkpoint() == START

    async def test_a_rebuild_writes_beside_the_live_generation_until_it_is_live(self, store: RedisStore, redis: Client):
        rebuild = RedisStore(redis, KEYS, 2, None)
        await rebuild.save(added(session()), place(1))
        assert await rebuild.load([DocumentId(session().id)]) != {}
        assert await store.load([DocumentId(session().id)]) == {}
        await redis.set(KEYS.generation, "2")
        with pytest.raises(LeaseLost):
            await rebuild.save(added(lesson()), place(2))

    async def test_erased_entries_leave_the_log_with_the_batch_and_stubs_take_their_place(
        self, store: RedisStore, redis: Client
    ):
        at = [Position.parse(await redis.xadd(KEYS.log, {"e": text})) for text in (b"first", b"a secret", b"last")]
        await store.save(Changes({}, {at[1]: STUB}), place(1))
        assert await redis.xlen(KEYS.log) == 2
        log = RedisLog(redis, KEYS.partition + 1)
        read = await log.read(KEYS.partition, START, 10)
        assert [stored.position for stored in read] == at
        assert decode(read[1].payload, at[1]).data == STUB.data
        assert [stored.position for stored in await log.read(KEYS.partition, at[0], 1)] == [at[1]]
        assert [stored.position for stored in await log.read(KEYS.partition, at[1], 10)] == [at[2]]

    async def test_a_rebuild_erases_nothing_from_the_log(self, redis: Client):
        """A replay names again what the live projection erased, or entries that others may still need."""
        raw = await redis.xadd(KEYS.log, {"e": b"a secret"})
        await RedisStore(redis, KEYS, 2, None).save(Changes({}, {Position.parse(raw): STUB}), place(1))
        assert await redis.xlen(KEYS.log) == 1

    async def test_the_feed_tells_of_every_batch_what_it_covers(self, store: RedisStore, redis: Client):
        changes = await apply(store, remembered(1, TEA))
        (name,) = changes.documents
        await store.save(Changes({}, {}), place(2))
        await apply(store, forgotten(3, "memory", name))
        read = [read_entry(fields) for _, fields in await redis.xrange(store.keys.changes)]
        assert [position for _, position in read] == [place(1), place(2), place(3)]
        first, second, third = (items for items, _ in read)
        assert [item.entry.id for item in first if isinstance(item, Put)] == [name]
        assert second == []
        assert third == [Remove(name)]

    async def test_what_was_kept_on_purpose_is_embedded_first(self, store: RedisStore, redis: Client):
        await apply(store, observed(1), remembered(2, TEA), observed(3), learned(4))
        queued = [raw.decode() for raw in await redis.zrange(store.keys.embed_queue, 0, -1)]
        assert [name.partition("_")[0] for name in queued][2:] == ["obs", "obs"]
        assert set(queued[:2]) == {
            memory_id(remembered(2, TEA)),
            lesson_id(learned(4), learned(4).data),  # pyright: ignore[reportArgumentType]
        }


class TestRebuildStore(StateStoreConformance):
    """What was written is also kept in the process, and belongs to the checkpoint that it was written with."""

    @pytest.fixture
    async def backend(self, redis: Client) -> Backend:
        async def lose() -> None:
            await redis.set(KEYS.generation, "2")

        return Backend(RebuildStore(redis, KEYS, 2), lose, has_owners=True)

    async def test_what_another_worker_wrote_takes_the_place_of_what_was_kept(self, redis: Client):
        mine, other = RebuildStore(redis, KEYS, 2), RebuildStore(redis, KEYS, 2)
        before = session()
        await mine.save(added(before), place(1))
        assert await other.checkpoint() == place(1)
        name = DocumentId(before.id)
        after = before.model_copy(update={"title": "another"})
        await other.save(Changes({name: DocumentChange(before, after)}, {}), place(2))
        assert await mine.checkpoint() == place(2)
        assert await mine.load([name]) == {name: after}


class NothingStore:
    """Honours nothing."""

    async def load(self, ids: Collection[DocumentId]) -> dict[DocumentId, Document]:
        return {}

    async def members(self, listings: Collection[str]) -> dict[str, Sequence[str]]:
        return {}

    async def save(self, changes: Changes, position: Position) -> None:
        pass

    async def checkpoint(self) -> Position:
        return START


SUITE = sorted(name for name, _ in inspect.getmembers(StateStoreConformance) if name.startswith("test_"))


@pytest.mark.parametrize("name", SUITE)
async def test_a_store_that_does_nothing_fails_every_test_of_the_suite(name: str):
    async def lose() -> None:
        pass

    backend = Backend(NothingStore(), lose, has_owners=False)
    with pytest.raises((AssertionError, ValueError, KeyError)):
        await getattr(StateStoreConformance(), name)(backend)


def test_the_samples_set_every_field():
    """A row's field that the samples leave at its default would not be tested."""
    for row in ROWS:
        left = {name for name, field in type(row).model_fields.items() if getattr(row, name) == field.default}
        assert left <= {"pk"}, left


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
async def test_the_rows_of_a_batch_are_stored_as_redis_om_stores_them(redis: Client, row: Any):
    theirs, ours = KEYS.of_generation(1), KEYS.of_generation(2)
    async with redis.pipeline(transaction=True) as pipe:
        await row.model_copy(update={"pk": theirs.row_pk(row.id)}).save(pipeline=pipe)
        queue_row(row, ours.row_pk(row.id), pipe)
        await pipe.execute()
    expected, stored = await redis.hgetall(theirs.row(row.id)), await redis.hgetall(ours.row(row.id))
    assert stored.pop(b"pk") == expected.pop(b"pk").replace(b":g1:", b":g2:")
    assert stored == expected


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
async def test_redis_om_reads_the_rows_of_a_batch_as_they_are_read_in_bulk(redis: Client, row: Any):
    keys = KEYS.of_generation(1)
    async with redis.pipeline(transaction=True) as pipe:
        queue_row(row, keys.row_pk(row.id), pipe)
        await pipe.execute()
    cls: type[Row] = cast(Any, type(row))
    loaded = await load_row(cls, keys.row_pk(row.id), redis)
    assert loaded is not None
    assert loaded.pk == keys.row_pk(row.id)
    in_bulk = read_row(cls, await redis.hgetall(keys.row(row.id)))
    assert loaded.model_copy(update={"pk": UNPLACED}) == in_bulk == row


def test_rows_never_use_the_client_that_redis_om_makes_of_its_own():
    """It connects to localhost:6379, whatever the settings say."""
    assert Session.db() is None


async def test_a_row_that_does_not_exist_is_not_loaded(redis: Client):
    assert await load_row(Session, KEYS.of_generation(1).row_pk("ses_none"), redis) is None


async def test_a_row_with_a_value_that_its_schema_has_not_is_refused(redis: Client):
    broken = session().model_copy(update={"title": None})
    async with redis.pipeline(transaction=True) as pipe:
        with pytest.raises(ValueError, match="title"):
            queue_row(broken, KEYS.of_generation(1).row_pk("ours"), pipe)


TTL = timedelta(seconds=3)


async def test_a_lease_has_one_holder_at_a_time(redis: Client):
    async with lease(redis, PURGE_LEASE, "one", TTL) as item, lease(redis, PURGE_LEASE, "other", TTL) as other:
        assert (item, other) == (True, False)
    async with lease(redis, PURGE_LEASE, "other", TTL) as other:
        assert other
    assert await redis.get(PURGE_LEASE) is None


async def test_a_lease_is_renewed_while_it_is_held(redis: Client):
    """Again and again: the time that is left of it rises."""
    server: Any = redis
    async with lease(redis, PURGE_LEASE, "one", TTL):
        for _ in range(2):
            left: list[int] = [await server.pttl(PURGE_LEASE)]

            async def renewed(left: list[int] = left) -> bool:
                left.append(await server.pttl(PURGE_LEASE))
                return left[-1] > left[-2]

            await wait_until(renewed)
        assert await redis.get(PURGE_LEASE) == b"one"


async def test_the_lease_of_a_dead_worker_can_be_waited_for(redis: Client):
    await redis.set(PURGE_LEASE, "gone", ex=1)
    async with lease(redis, PURGE_LEASE, "one", TTL, wait_s=30) as mine:
        assert mine


async def test_a_lost_lease_is_not_released(redis: Client):
    async with lease(redis, PURGE_LEASE, "one", TTL):
        await redis.set(PURGE_LEASE, "other", ex=60)
    assert await redis.get(PURGE_LEASE) == b"other"


async def test_a_partition_is_leased_to_one_worker_until_it_gives_it_up(redis: Client):
    keys = PartitionKeys(0)
    fence = await acquire_lease(redis, keys, "one", 60_000)
    assert fence > 0
    assert await acquire_lease(redis, keys, "other", 60_000) == 0
    assert await redis.get(keys.lease) == b"one"
    await redis.delete(keys.lease)
    assert await acquire_lease(redis, keys, "other", 60_000) > fence
