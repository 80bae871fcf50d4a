"""Compaction leaves the answers and takes the bytes."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zstandard

from projections.documents.index_entry import IndexEntry
from projections.search import snapshots
from projections.search.embedded import search
from projections.search.question import Filter, Hit, Question
from projections.search.replica import COLUMNS, IndexReplica
from projections.search.snapshots import compacted, is_worthwhile
from projections.store.feed import Put, Remove

MARK = "swordfish"
VECTOR = [0.123, 0.456, -0.789, 0.321]
EVERYTHING = Filter(tenant="default", reader="ada")
Embed = Callable[..., None]


@pytest.fixture
def filled(index: IndexReplica, put: Callable[..., str], embed: Embed) -> IndexReplica:
    """Sessions, agents, tags, several vectors a document; a third is removed, a fifth said again with another text."""
    rng = np.random.default_rng(5)
    for n in range(240):
        name = f"{('obs', 'mem', 'lsn')[n % 3]}_{n:03d}"
        put(
            name,
            f"tea w{n} w{n % 10}" + (f" {MARK}" if n % 3 == 1 else ""),
            episode=f"s{n % 7}" if n % 3 != 2 else "",
            agent_id=MARK if n % 12 == 1 else f"agent{n % 4}",
            project=MARK if n % 12 == 1 else "atlas",
            tags=["even"] if n % 2 == 0 else [],
            audience=["ada"] if n % 13 == 0 else [],
            types=["t"] if n % 5 == 0 else [],
            recorded_ms=n % 9,
            occurred_ms=n,
        )
        embed(name, *rng.standard_normal((1 + n % 2, 4)).tolist()) if n % 4 else None
    put(f"mem_{MARK}", f"{MARK} said alone", episode=f"session {MARK}", agent_id=MARK, tags=[MARK], files=[MARK])
    embed(f"mem_{MARK}", VECTOR)
    index.link(60)
    index.apply(0, [Remove(name) for name in list(index.ordinal_of) if name.startswith("mem_")])
    for n in range(0, 240, 15):
        put(f"obs_{n:03d}", f"tea w{n} said again", episode=f"s{n % 7}")
    index.commit()
    return index


def answers(index: IndexReplica) -> list[list[Hit]]:
    vector = np.asarray([0.6, 0.8, 0, 0], np.float32)
    filters = [EVERYTHING, Filter(tenant="default", tags=["even"]), Filter(tenant="default", types=["t"])]
    return [
        search(index, Question(text=text, vector=vector, mode=mode, limit=50, ranking=ranking), allowed)
        for ranking in ("fused", "similarity", "rrf")
        for mode in ("hybrid", "lexical", "vector")
        for allowed in filters
        for text in ("tea w3", "said again", MARK)
    ]


def everything_in(folder: Path) -> bytes:
    """All bytes of all files below a folder, packed texts unpacked."""
    found: list[bytes] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            raw = path.read_bytes()
            found += [str(path).encode(), zstandard.decompress(raw) if path.suffix == ".zst" else raw]
    return b"\0".join(found)


def marks_in(folder: Path) -> list[bytes]:
    """Which traces of what was removed are below a folder: the word, and the vector in both its encodings."""
    unit = np.asarray(VECTOR, np.float32) / np.linalg.norm(VECTOR)
    half = unit.astype("<f2")
    found = everything_in(folder)
    return [mark for mark in (MARK.encode(), half.tobytes(), half.astype("<f4").tobytes()) if mark in found]


def test_a_compacted_index_answers_as_before(filled: IndexReplica, tmp_path: Path):
    before = answers(filled)
    fresh = compacted(filled, tmp_path / "fresh")
    assert answers(fresh) == before
    assert any(before)
    assert answers(filled) == before, "the old one goes on"


def test_nothing_of_what_was_removed_is_left_in_a_file(filled: IndexReplica, tmp_path: Path):
    """Neither where the index works nor in a snapshot of it; both are found in those of the old one."""
    snapshots.save(filled, {}, tmp_path / "old", "01")
    assert len(marks_in(tmp_path / "old")) >= 2
    fresh = compacted(filled, tmp_path / "fresh")
    snapshots.save(fresh, {}, tmp_path / "new", "02")
    assert marks_in(tmp_path / "fresh") == marks_in(tmp_path / "new") == []
    for folder in (tmp_path / "fresh", tmp_path / "new" / "02" / "lexical"):
        segments = msgspec.json.decode((folder / "meta.json").read_bytes())["segments"]
        assert sum(segment["max_doc"] for segment in segments) == len(fresh), "a term that tantivy packs hides in it"
        assert not any(segment["deletes"] for segment in segments)
    assert fresh.lexical.saying(MARK) == []


def test_compaction_keeps_only_live_documents(filled: IndexReplica, tmp_path: Path):
    fresh = compacted(filled, tmp_path / "fresh")
    assert fresh.ids == [name for name in filled.ids if name]
    assert all(len(getattr(fresh, name)) == len(fresh) for name in COLUMNS)
    assert fresh.removed == 0
    assert filled.removed > 80
    assert is_worthwhile(filled)
    assert not is_worthwhile(fresh)
    assert MARK not in fresh.authors
    assert f"session {MARK}" not in fresh.episode_of
    assert len(fresh.vectors) == len(filled.vectors)


def test_a_compacted_index_goes_on_as_the_other_does(
    filled: IndexReplica, tmp_path: Path, entry: Callable[..., IndexEntry]
):
    fresh = compacted(filled, tmp_path / "fresh")
    before = answers(fresh)
    for one in (filled, fresh):
        one.apply(0, [
            Put(entry("obs_new", "tea w3 new", episode="s1", agent_id="agent1", tags=["even"])),
            Put(entry("obs_000", "said again and again", episode="s0")),
            Put(entry("mem_006", "tea w6", audience=["ada"])),
            Remove("obs_003"),
        ])  # fmt: skip
        one.commit()
    assert answers(fresh) == answers(filled) != before


def test_an_empty_index_and_one_of_removed_documents_can_be_compacted(
    index: IndexReplica, put: Callable[..., str], embed: Embed, tmp_path: Path
):
    assert len(compacted(index, tmp_path / "empty")) == 0
    assert not is_worthwhile(index)
    embed(put("obs_1", "tea", episode="s"), [1, 0, 0, 0])
    index.apply(0, [Remove("obs_1")])
    fresh = compacted(index, tmp_path / "fresh")
    assert (len(fresh), fresh.ids, fresh.authors, fresh.episodes) == (0, [], [], [])
    assert answers(fresh) == answers(index)


def test_an_index_without_vectors_can_be_compacted(tmp_path: Path, entry: Callable[..., IndexEntry]):
    plain = IndexReplica(tmp_path / "plain", 0, "none")
    plain.apply(0, [Put(entry("mem_1", "tea")), Put(entry("mem_2", "tea")), Remove("mem_1")])
    fresh = compacted(plain, tmp_path / "fresh")
    asked = Question(text="tea", vector=None)
    assert search(fresh, asked, EVERYTHING) == search(plain, asked, EVERYTHING)
    assert fresh.ids == ["mem_2"]
