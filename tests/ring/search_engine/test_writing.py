from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.documents.index_entry import IndexEntry
from projections.search.terms import terms
from projections.search_engine import schema, writing
from projections.search_engine.layout import (
    FILLING,
    READY,
    PartitionIndex,
    State,
    encoded,
    encoded_term,
    entry_of,
    order_of,
)
from projections.search_engine.schema import Named
from projections.search_engine.writing import (
    Changes,
    Placed,
    Stale,
    Standing,
    begin,
    parts_of,
    placed,
    read_state,
    standing,
    write,
)
from projections.store.feed import FeedItem, Put, Remove, Vectors

MakeEntry = Callable[..., IndexEntry]
MakeVectors = Callable[..., Vectors]
PARTITION = 3


class Writer:
    """A writer of one partition: `apply` writes items as feed entry after feed entry."""

    def __init__(self, engine: Client, index: Named, state: State) -> None:
        self.engine, self.keys, self.state = engine, PartitionIndex(index.name, PARTITION), state
        self.changes = Changes(index.identity, None)
        self._name = index.name

    async def apply(self, *items: FeedItem) -> State:
        """Write one feed entry."""
        covers = Position(self.state.position.ms + 1, 0)
        then = Standing(1, str(covers), str(covers), READY)
        changes = self.changes.of(PARTITION, placed(items, covers))
        self.state = await write(self.engine, self.keys, self.state, changes, then)
        return self.state

    async def put_exactly(self, entry: IndexEntry, order: str) -> None:
        """Put a document at its place in its episode, as filling does."""
        changes = self.changes.of(PARTITION, [Placed(Put(entry), order, exact=True)])
        self.state = await write(self.engine, self.keys, self.state, changes, standing(self.state))

    async def find(self, query: str, *more: Any) -> list[str]:
        """The ids of the documents that a query finds."""
        answer = await schema.command(
            self.engine, "FT.SEARCH", self._name, query, "VERBATIM", "NOCONTENT", "LIMIT", 0, 100, *more, "DIALECT", 2
        )
        return sorted(key.decode().removeprefix(self.keys.prefixes[0]) for key in answer[1:])

    async def episode(self, name: str) -> list[str]:
        """The ids of an episode, in order."""
        members: list[bytes] = await self.engine.zrange(self.keys.episode(name), 0, -1)
        return [member.decode().partition("|")[2] for member in members]

    async def everything(self) -> dict[bytes, Any]:
        """All that stands in the engine but for the state's token, and how many were removed."""
        results: dict[bytes, Any] = {}
        async for key in self.engine.scan_iter(match="*", count=1000):
            kind = await schema.command(self.engine, "TYPE", key)
            if kind in (b"hash", "hash"):
                results[key] = {
                    name: item
                    for name, item in (await self.engine.hgetall(key.decode())).items()
                    if name not in (b"token", b"removed")
                }
            elif kind in (b"zset", "zset"):
                results[key] = await self.engine.zrange(key.decode(), 0, -1)
            else:
                results[key] = await self.engine.get(key.decode())
        return results


@pytest.fixture
async def writer(engine: Client, index: Named) -> Writer:
    keys = PartitionIndex(index.name, PARTITION)
    state = await begin(engine, keys, None, Standing(1, str(START), str(START), READY))
    return Writer(engine, index, state)


async def test_a_document_is_found_by_its_words_and_by_every_facet(writer: Writer, entry: MakeEntry):
    await writer.apply(
        Put(entry("obs_1", "The café's port 8080", project="", tags=["a,b", "", "Ünï-x"], session_id="s 1",
                  files=["src/app.py"], audience=["user:kim"], expires_ms=5, visibility="private")),
        Put(entry("obs_2", "unrelated words", project="other")),
    )  # fmt: skip
    texts = [encoded_term(term) for term in terms("The café's port 8080")]
    assert await writer.find(f"@terms:({'|'.join(texts)})") == ["obs_1"]
    for name, value in (
        ("tenant", "default"), ("project", ""), ("tag", "a,b"), ("tag", ""), ("tag", "Ünï-x"), ("session", "s 1"),
        ("file", "src/app.py"), ("reader", "user:kim"), ("restricted", "yes"), ("expiring", "yes"),
        ("visibility", "private"), ("partition", str(PARTITION)), ("kind", "observation"),
    ):  # fmt: skip
        assert "obs_1" in await writer.find(f"@{name}:{{{encoded(value)}}}"), name
    assert await writer.find("@tag:{a}") == []
    assert await writer.find(f"@occurred:[{entry('obs_1', 'x').occurred_ms} +inf] @expires_at:[0 5]") == ["obs_1"]


async def test_a_word_that_the_engine_would_cut_is_found(writer: Writer, entry: MakeEntry):
    long = "x" * 300
    await writer.apply(Put(entry("obs_1", "", terms=f"{long} {'东' * 90}")))
    assert await writer.find(f"@terms:({encoded_term(long)})") == ["obs_1"]
    assert await writer.find(f"@terms:({encoded_term('东' * 90)})") == ["obs_1"]
    assert await writer.find(f"@terms:({encoded_term('x' * 299)})") == []


async def test_what_ranking_needs_stands_beside(writer: Writer, entry: MakeEntry, vectors: MakeVectors):
    item = entry("obs_1", "red green", agent_id="builder", importance=7.0, episode="ses_1")
    await writer.apply(Put(item), vectors("obs_1", [1, 0, 0, 0], [0, 1, 0, 0]))
    document = await writer.engine.hgetall(writer.keys.document("obs_1"))
    stored = entry_of(document[b"x"])
    assert (stored.id, stored.agent_id, stored.importance, stored.episode, stored.terms) == (
        "obs_1", "builder", 7.0, "ses_1", "",
    )  # fmt: skip
    assert len(document[b"h"]) == 4 * len(item.terms.split())
    assert await writer.engine.get(writer.keys.vectors("obs_1")) == vectors("obs_1", [1, 0, 0, 0], [0, 1, 0, 0]).rows
    assert (writer.state.documents, writer.state.embedded) == (1, 1)


async def test_without_static_vectors_a_document_is_near_the_mean_of_its_own(
    writer: Writer, entry: MakeEntry, vectors: MakeVectors
):
    await writer.apply(Put(entry("obs_1", "red")), Put(entry("obs_2", "blue")), Put(entry("obs_3", "none")))
    await writer.apply(vectors("obs_1", [1, 0, 0, 0], [0, 1, 0, 0]), vectors("obs_2", [0, 0, 1, 0]))
    await writer.apply(vectors("obs_3", [1, 0, 0, 0], model="another"))
    near = np.array([1, 1, 0, 0], "<f2").tobytes()
    document = await writer.find("*=>[KNN 1 @vector $v AS d]", "PARAMS", 2, "v", near)
    assert document == ["obs_1"]
    assert await writer.find("*=>[KNN 9 @vector $v AS d]", "PARAMS", 2, "v", near) == ["obs_1", "obs_2"]


async def test_the_same_text_keeps_its_vectors_and_another_loses_them(
    writer: Writer, entry: MakeEntry, vectors: MakeVectors
):
    await writer.apply(Put(entry("obs_1", "red")), vectors("obs_1", [1, 0, 0, 0]))
    state = await writer.apply(Put(entry("obs_1", "red", tags=["new"])))
    assert (state.documents, state.embedded) == (1, 1)
    near = np.array([1, 0, 0, 0], "<f2").tobytes()
    assert await writer.find("(@tag:{new})=>[KNN 9 @vector $v AS d]", "PARAMS", 2, "v", near) == ["obs_1"]
    state = await writer.apply(Put(entry("obs_1", "blue", tags=["new"])))
    assert (state.documents, state.embedded) == (1, 0)
    assert await writer.find("*=>[KNN 9 @vector $v AS d]", "PARAMS", 2, "v", near) == []
    assert await writer.engine.get(writer.keys.vectors("obs_1")) is None
    assert await writer.find("@terms:(red)") == []


async def test_a_facet_that_a_document_no_longer_has_does_not_find_it(writer: Writer, entry: MakeEntry):
    await writer.apply(Put(entry("mem_1", "red", tags=["one"], retired_ms=9)))
    await writer.apply(Put(entry("mem_1", "red")))
    assert await writer.find("@tag:{one}") == []
    assert await writer.find("@retired:{yes}") == []
    assert await writer.find("@retired_at:[0 +inf]") == []


async def test_applying_again_changes_nothing(writer: Writer, entry: MakeEntry, vectors: MakeVectors):
    items = (
        Put(entry("obs_1", "red", episode="e")),
        Put(entry("obs_2", "blue", episode="e")),
        vectors("obs_1", [1, 0, 0, 0]),
        Remove("obs_2"),
    )
    await writer.apply(*items)
    before = await writer.everything()
    again = writer.changes.of(PARTITION, placed(items, writer.state.position))
    writer.state = await write(writer.engine, writer.keys, writer.state, again, standing(writer.state))
    assert await writer.everything() == before


async def test_documents_of_an_episode_stand_in_the_order_of_the_log(writer: Writer, entry: MakeEntry):
    await writer.apply(Put(entry("obs_b", "first", episode="e")), Put(entry("obs_a", "second", episode="e")))
    await writer.apply(Put(entry("obs_0", "third", episode="e")))
    await writer.apply(Put(entry("obs_a", "another text", episode="e")))
    assert await writer.episode("e") == ["obs_b", "obs_a", "obs_0"]
    await writer.apply(Remove("obs_a"), Put(entry("obs_b", "first", episode="other")))
    assert (await writer.episode("e"), await writer.episode("other")) == (["obs_0"], ["obs_b"])


async def test_filling_puts_a_document_where_it_belongs_also_when_the_feed_told_of_it_before(
    writer: Writer, entry: MakeEntry
):
    await writer.apply(Put(entry("obs_1", "one", episode="e")), Put(entry("obs_2", "two", episode="e")))
    await writer.put_exactly(entry("obs_2", "two", episode="e"), order_of(START))
    assert await writer.episode("e") == ["obs_2", "obs_1"]


async def test_what_is_removed_leaves_no_key_no_word_and_no_value(
    writer: Writer, entry: MakeEntry, vectors: MakeVectors
):
    before = await writer.everything()
    await writer.apply(
        Put(entry("obs_1", "unspeakable", episode="e", tags=["secret"], session_id="hidden", files=["a/b"])),
        vectors("obs_1", [1, 0, 0, 0]),
    )
    state = await writer.apply(Remove("obs_1"))
    assert (await writer.everything()).keys() == before.keys()
    assert (state.documents, state.embedded) == (0, 0)
    await schema.command(writer.engine, "FT.DEBUG", "GC_FORCEINVOKE", writer.keys.name)
    assert await schema.command(writer.engine, "FT.DEBUG", "DUMP_TERMS", writer.keys.name) == []
    for name in ("tag", "session", "file", "tenant"):
        assert await schema.command(writer.engine, "FT.TAGVALS", writer.keys.name, name) == []


async def test_a_writer_that_was_held_up_brings_nothing_back(writer: Writer, entry: MakeEntry, index: Named):
    await writer.apply(Put(entry("obs_1", "to be forgotten")))
    late = Writer(writer.engine, index, writer.state)
    await writer.apply(Remove("obs_1"))
    before = await writer.everything()
    with pytest.raises(Stale):
        await late.apply(Put(entry("obs_1", "to be forgotten")))
    assert await writer.everything() == before


async def test_a_writer_that_an_emptied_engine_does_not_know_writes_nothing(
    writer: Writer, entry: MakeEntry, index: Named
):
    await writer.apply(Put(entry("obs_1", "red")))
    await writer.engine.flushall()
    with pytest.raises(Stale):
        await writer.apply(Put(entry("obs_2", "blue")))
    assert await writer.everything() == {}


async def test_many_changes_are_written_by_several_scripts_and_the_state_moves_with_the_last(
    writer: Writer, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
):
    items = [Put(entry(f"obs_{n}", f"word{n}", episode="e")) for n in range(100)]
    changes = writer.changes.of(PARTITION, placed(items, Position(9, 9)))
    assert len(list(parts_of(changes))) > 5
    before = standing(writer.state)
    calls = 0

    async def fails(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise ConnectionError("cut")
        return await real(*args)

    real = writing._write  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(writing, "_write", fails)
    with pytest.raises(ConnectionError):
        await write(writer.engine, writer.keys, writer.state, changes, Standing(1, "9-9", "9-9", READY))
    monkeypatch.undo()
    state = await read_state(writer.engine, writer.keys)
    assert state is not None
    assert standing(state) == before
    assert 0 < state.documents < 100
    state = await write(writer.engine, writer.keys, state, changes, Standing(1, "9-9", "9-9", FILLING))
    assert (state.documents, state.covers, state.complete) == (100, "9-9", False)
    assert await writer.episode("e") == [f"obs_{n}" for n in range(100)]
