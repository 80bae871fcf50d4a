"""No memory is lost because another is like it: several agents write, revise and delete, memories expire, and a naive
model says which must be there. Whatever happens, a replay of the log ends in the same documents.

A partition that somebody else wrote to: whatever stands in its log, the runner gets to the end.

What is no event is a dead letter, at its first attempt; what is one is applied. Left open: which bytes are which.
"""

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, cast

from any_events import DEEP, payloads
from factories import event
from folding import contents, one_by_one
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from key_leaks import KeyLeaks
from waiting import wait_until
from workshop import PARTITIONS, TENANT, Workshop

from ingest.commands.decide import Caller, Remember
from ingest.embedded.valkey import EmbeddedValkey
from ingest.errors import Forbidden, NotFound, UnreadableEvent
from ingest.events.envelope import encode
from ingest.ids import DocumentId, EventId, document_id
from ingest.log.event_log import Entry
from ingest.log.keys import LEASE_TTL, PartitionKeys
from ingest.log.position import START, Position, partition_of, project_route, session_route
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.nouns.memory import Visibility
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import decode
from ingest.platform.connections import Client, connect
from projections.forgetting.forget import Forgetting
from projections.nouns.access import Reader
from projections.nouns.memory import BY_WORDS, Memory
from projections.nouns.observation import Observation
from projections.nouns.tombstone import Tombstone
from projections.operations.memory import MemoryChanges, MemoryOperations
from projections.store.dead_letters import PartitionDeadLetters, dead_letters
from projections.store.redis_store import RedisStore
from projections.text.similarity import states_the_same
from workers.runner import PartitionRunner

HOME = partition_of(project_route(TENANT, "atlas"), PARTITIONS)
STATEMENTS = [
    "build 4711 of the shop passed all of its many tests",
    "build 4712 of the shop passed all of its many tests",
]
FORMS = ["{}", "The {}!", "  {}. "]
AGENTS = st.sampled_from(["ada", "bob", ""])
TEXTS = st.builds(str.format, st.sampled_from(FORMS), st.sampled_from([*STATEMENTS, STATEMENTS[0].upper()]))


class Written(NamedTuple):
    """One version as the model knows it: who wrote it, and the version that it revised."""

    author: str
    revised: str = ""


class Facts(RuleBasedStateMachine):
    """What was acknowledged, and what was deleted or has expired since."""

    url = ""

    @initialize()
    def open(self) -> None:
        self.runner = asyncio.Runner()
        self.written: dict[str, Written] = {}
        self.gone: set[str] = set()
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.redis = connect(self.url)
        await self.redis.flushall()
        self.shop = Workshop(self.redis, Path(tempfile.gettempdir()))
        self.current = self.shop.current

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.redis.aclose())
            self.runner.close()

    @rule(
        agent=AGENTS,
        content=TEXTS,
        days=st.sampled_from([None, None, 1.0, 5.0]),
        visibility=st.sampled_from(["public", "public", "private"]),
        source=st.sampled_from(["native", BY_WORDS]),
    )
    def remember(self, agent: str, content: str, days: float | None, visibility: Visibility, source: str) -> None:
        command = Remember(
            project="atlas",
            agent_id=agent,
            content=content,
            ttl_days=days,
            visibility=visibility if agent else "public",
        )

        async def give() -> str:
            accepted = await self.current.give(command, Caller(TENANT, source))
            await self.shop.project()
            return accepted.id

        self.written[self.runner.run(give())] = Written(agent)

    @rule(agent=AGENTS, content=TEXTS, choice=st.integers(0, 1_000))
    def revise(self, agent: str, content: str, choice: int) -> None:
        if not self.written:
            return
        name = sorted(self.written)[choice % len(self.written)]

        async def give() -> tuple[str, Memory]:
            changes = MemoryChanges(content=content, agent_id=agent)
            reader, caller = Reader(TENANT, agent), Caller(TENANT, agent_id=agent)
            accepted = await MemoryOperations(self.current).change(name, changes, reader, caller)
            await self.shop.project()
            return accepted.id, await self.shop.document(accepted.id, Memory)

        try:
            new, memory = self.runner.run(give())
        except (NotFound, Forbidden):
            return
        self.written[new] = Written(memory.author, memory.parent_id)

    @rule(agent=AGENTS, choice=st.integers(0, 1_000))
    def delete(self, agent: str, choice: int) -> None:
        if not self.written:
            return
        name = sorted(self.written)[choice % len(self.written)]

        async def give() -> None:
            forgetting = Forgetting(self.current)
            await forgetting.document(name, Reader(TENANT, agent), Caller(TENANT, agent_id=agent))
            await self.shop.project()

        try:
            self.runner.run(give())
        except (NotFound, Forbidden):
            return
        self._versions_go(name)

    @rule(days=st.sampled_from([2, 4]))
    def time_passes(self, days: int) -> None:
        self.shop.clock.advance(timedelta(days=days))
        now = self.shop.clock()
        due = [memory.id for memory in self._memories() if memory.forget_after and memory.forget_after <= now]

        async def expire() -> None:
            await self.shop.upkeep().forget_expired()
            await self.shop.project()

        self.runner.run(expire())
        left = {memory.id for memory in self._memories()}
        assert not [memory.id for memory in self._memories() if memory.is_latest and memory.id in due]
        for name in due:  # a superseded one stays until it is current again
            if name not in left:
                self._versions_go(name)

    def _versions_go(self, name: str) -> None:
        """A version goes, and those before it that its author revised."""
        while name and name not in self.gone:
            self.gone.add(name)
            author, revised = self.written[name]
            before = self.written.get(revised)
            name = revised if before is not None and (author in ("", before.author) or not before.author) else ""

    @invariant()
    def what_was_not_deleted_is_there_and_current_or_followed(self) -> None:
        documents = self.runner.run(self._documents()) if self.written else {}
        for name, (author, _) in self.written.items():
            results = documents[name]
            assert isinstance(results, Tombstone if name in self.gone else Memory), (name, results)
            if isinstance(results, Memory) and not results.is_latest:
                successor = documents[results.superseded_by]
                if isinstance(successor, Memory) and not self.written[successor.id].revised:
                    assert author in ("", successor.author)
                    assert states_the_same(results.content, successor.content)
                    assert (
                        successor.forget_after is None
                        or (results.forget_after or successor.forget_after) <= successor.forget_after
                    )
                while isinstance(successor, Tombstone) or not successor.is_latest:
                    successor = documents[successor.superseded_by]

    @invariant()
    def a_replay_ends_in_the_same_documents(self) -> None:
        if self.written:
            live = self.runner.run(self._documents())
            assert live == {name: item for name, item in self.runner.run(self._replayed()).items() if name in live}

    def _memories(self) -> list[Memory]:
        return [document for document in self.runner.run(self._documents()).values() if isinstance(document, Memory)]

    async def _documents(self) -> dict[str, Memory | Tombstone]:
        names = list(self.written)
        document = await self.shop.documents.get([(HOME, DocumentId(name)) for name in names])
        return cast(dict[str, Memory | Tombstone], dict(zip(names, document, strict=True)))

    async def _replayed(self) -> dict[str, Memory | Tombstone]:
        rows = await self.shop.log.read(HOME, START, 10_000)
        documents, _ = contents(one_by_one(decode(row.payload, row.position) for row in rows))
        return cast(dict[str, Memory | Tombstone], documents)


def test_nothing_of_another_agent_is_lost_by_a_delete_or_an_expiry(valkey: EmbeddedValkey):
    Facts.url = valkey.url
    run_state_machine_as_test(Facts, settings=settings(max_examples=12, stateful_step_count=15))


PARTITION, KEYS = 0, PartitionKeys(0)


def anything() -> list[bytes]:
    """A hundred payloads, the same in every run."""
    results: list[bytes] = [DEEP]

    @settings(max_examples=100, database=None, phases=[Phase.generate], derandomize=True)
    @given(payloads)
    def collect(payload: bytes) -> None:
        results.append(payload)

    collect()
    return results


def readable(payload: bytes) -> bool:
    """Whether the bytes are an event."""
    try:
        decode(payload, Position(1, 0))
    except UnreadableEvent:
        return False
    return True


async def test_a_runner_gets_past_whatever_is_in_its_log(redis: Client, key_leaks: KeyLeaks):
    key_leaks.allow(r"(mnemolog:)?\{p00\}:.*:doc:.*")  # an event that nobody decided may call a document anything
    written = [payload for payload in anything() if payload]  # an empty one is an entry that a purge has emptied
    last = event(ObservationRecorded(content="behind all that"), event_id="last")
    log = RedisLog(redis, 1)
    entries = [Entry(EventId(f"any{n}"), payload) for n, payload in enumerate([*written, encode(last)])]
    appended = (await log.append({PARTITION: entries}))[PARTITION]
    fence = await acquire_lease(redis, KEYS, "w1", int(LEASE_TTL.total_seconds() * 1000))
    runner = PartitionRunner(redis, log, PARTITION, fence, lambda partition, changes: None, PartitionDeadLetters)
    running = asyncio.create_task(runner.run())
    store = RedisStore(redis, KEYS, 1, None)

    async def done() -> bool:
        return await store.checkpoint() >= appended[-1].position

    try:
        await wait_until(done, 120)
        name = document_id("obs", session_route("default", "atlas", "s1"), "last")
        results = (await store.load([name])).get(DocumentId(name))
        assert cast(Observation, results).content == "behind all that"
        parked = {letter.position: letter.attempts async for letter in dead_letters(redis, KEYS)}
        positions = [item.position for item in appended]
        garbage = {str(at) for at, payload in zip(positions, written, strict=False) if not readable(payload)}
        assert parked == dict.fromkeys(garbage, 1)
    finally:
        runner.stop()
        await asyncio.wait([running])
