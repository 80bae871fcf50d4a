import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zstandard
from indexes import nearest
from msgspec.structs import replace
from numpy.lib.stride_tricks import sliding_window_view

from ingest.platform.connections import connect
from projections.index import snapshots
from projections.index.embedded import matches, search
from projections.index.loading import Loader
from projections.index.replica import COLUMNS, FeedPosition, IndexReplica
from projections.index.snapshots import SnapshotManifest, UnusableSnapshot, compacted, is_worthwhile
from projections.nouns.index_entry import IndexEntry
from projections.search.question import Filter, Hit, Question
from projections.search.ranking import Mode
from projections.store.feed import Put, Remove
from projections.vectors.bitmaps import BitMap, Matching
from projections.vectors.embedder import Unavailable
from projections.vectors.vectors import quantized

MODEL = "test-model"
AT = {0: FeedPosition(feed="17-9", covers="17-3"), 1: FeedPosition(generation=2)}
FILTERS = [
    Filter(tenant="default", now_ms=0),
    Filter(tenant="default", now_ms=0, project="atlas", tags=["even"]),
    Filter(tenant="default", now_ms=0, reader="ada"),
    Filter(tenant="default", now_ms=0, as_of_ms=4),
    Filter(tenant="other", now_ms=0),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


def test_a_snapshot_of_a_log_of_fewer_partitions_is_passed_over(index: IndexReplica, folder: Path, tmp_path: Path):
    snapshots.save(index, AT, folder, "01")
    for partitions in (1, 4):
        assert snapshots.newest(folder, MODEL, partitions=partitions) is None
        assert snapshots.load_newest(folder, MODEL, partitions=partitions) is None
    assert snapshots.newest(folder, MODEL, partitions=2) is not None


async def test_an_index_loaded_before_the_fork_is_used_once_and_only_while_its_snapshot_is_the_newest(
    index: IndexReplica, folder: Path
):
    embedder, redis = Unavailable(MODEL, index.vectors.dimensions, ""), connect("redis://nowhere")
    preloaded = index, snapshots.save(index, AT, folder, "01")
    loader = Loader(redis, len(AT), folder, preloaded)
    assert (await loader.newest(embedder)).index is index
    assert (await loader.newest(embedder)).index is not index
    snapshots.save(index, AT, folder, "02")
    assert (await Loader(redis, len(AT), folder, preloaded).newest(embedder)).snapshot == "02"


@pytest.fixture
def filled(index: IndexReplica, put: Callable[..., str], embed: Callable[..., None]) -> IndexReplica:
    """Documents of every kind: in sessions, restricted, retired, expiring, removed, with and without vectors."""
    rng = np.random.default_rng(5)
    for n in range(300):
        put(
            f"obs_{n}" if n % 3 else f"mem_{n}",
            f"tea w{n} w{n % 10}",
            partition=n % 2,
            episode=f"s{n % 7}" if n % 3 else "",
            tenant="other" if n % 11 == 0 else "default",
            agent_id=f"agent{n % 4}",
            tags=["even"] if n % 2 == 0 else [],
            audience=["ada"] if n % 13 == 0 else [],
            recorded_ms=n % 9,
            retired_ms=5 if n % 17 == 0 else 0,
            expires_ms=n if n % 19 == 0 else 0,
        )
        if n % 4:
            embed(f"obs_{n}" if n % 3 else f"mem_{n}", *rng.standard_normal((1 + n % 2, 4)).tolist())
    index.apply(0, [Remove(f"obs_{n}") for n in range(1, 300, 25)])
    return index


def answers(index: IndexReplica) -> list[list[Hit]]:
    vector = np.asarray([0.6, 0.8, 0, 0], np.float32)
    modes: list[Mode] = ["hybrid", "lexical", "vector"]
    return [
        search(index, Question(text=text, vector=vector, mode=mode, limit=50), allowed)
        for mode in modes
        for allowed in FILTERS
        for text in ("tea w3", "w250", "nothing")
    ]


def save(index: IndexReplica, folder: Path, name: str = "01") -> SnapshotManifest:
    return snapshots.save(index, AT, folder, name)


def load(folder: Path, model: str = MODEL) -> IndexReplica:
    found = snapshots.newest(folder, model)
    assert found is not None
    return snapshots.load(*found)


def test_a_loaded_snapshot_answers_as_the_index_did(filled: IndexReplica, folder: Path, tmp_path: Path):
    """Search results with their explanations, filters, vectors and neighbours."""
    save(filled, folder)
    loaded = load(folder)
    assert answers(loaded) == answers(filled)
    assert any(answers(loaded))
    for allowed in FILTERS:
        assert matches(loaded, allowed).bitmap == matches(filled, allowed).bitmap
    everything = np.arange(len(filled.ids))
    query = np.asarray([1, 0, 0, 0], np.float32)
    assert np.array_equal(
        loaded.vectors.cosine(query, everything), filled.vectors.cosine(query, everything), equal_nan=True
    )
    assert loaded.earlier.values.tolist() == filled.earlier.values.tolist()
    assert loaded.later.values.tolist() == filled.later.values.tolist()
    assert len(loaded) == len(filled)


def test_a_loaded_index_goes_on_as_the_other_does(
    filled: IndexReplica, folder: Path, tmp_path: Path, entry: Callable[..., IndexEntry]
):
    """The same items applied to both end alike: updates, removals, new documents of old sessions and agents."""
    save(filled, folder)
    loaded = load(folder)
    before = answers(loaded)
    for one in (filled, loaded):
        one.apply(0, [
            Put(entry("obs_new", "tea w3 new", episode="s1", agent_id="agent1", tags=["even"])),
            Put(entry("mem_3", "another text w3")),
            Put(entry("mem_6", "tea w6 w6", audience=["bob"])),
            Remove("obs_2"),
        ])  # fmt: skip
    assert answers(loaded) == answers(filled) != before


def test_an_index_goes_on_after_it_was_saved(filled: IndexReplica, folder: Path, put: Callable[..., str]):
    before = answers(filled)
    save(filled, folder)
    assert answers(filled) == before
    put("mem_late", "tea late")
    (first, *_) = search(filled, Question(text="late", vector=None), FILTERS[0])
    assert first.id == "mem_late"


def test_a_loaded_index_never_changes_its_snapshot(
    filled: IndexReplica, folder: Path, tmp_path: Path, put: Callable[..., str]
):
    """Two replicas on one machine start from one snapshot, one after the other."""
    save(filled, folder)
    first = load(folder)
    first.apply(0, [Remove(name) for name in list(first.ordinal_of)])
    assert len(first) == 0
    second = load(folder)
    assert answers(second) == answers(filled)


def test_an_empty_index_can_be_saved(index: IndexReplica, folder: Path, tmp_path: Path):
    manifest = save(index, folder)
    assert manifest.documents == 0
    loaded = load(folder)
    assert len(loaded) == 0
    assert search(loaded, Question(text="tea", vector=None), FILTERS[0]) == []


def test_an_index_without_vectors_can_be_saved(tmp_path: Path, folder: Path):
    snapshots.save(IndexReplica(0, "none"), AT, folder, "01")
    loaded = load(folder, "none")
    assert loaded.vectors.dimensions == 0
    assert nearest(loaded.vectors, np.empty(0, np.float32), Matching(BitMap([1])), 3).tolist() == []


def test_vectors_of_tokens_in_an_older_snapshot_are_ignored(filled: IndexReplica, folder: Path):
    manifest = save(filled, folder)
    content = b"vectors of tokens"
    (folder / "01" / "tokens.npy").write_bytes(content)
    files = {**manifest.files, "tokens.npy": hashlib.sha256(content).hexdigest()}
    raw = msgspec.json.encode(replace(manifest, files=files).signed)
    (folder / "01" / "manifest.json").write_bytes(raw)
    assert answers(load(folder)) == answers(filled)


def test_the_manifest_says_where_in_the_feeds_it_stands(filled: IndexReplica, folder: Path):
    written = save(filled, folder)
    found = snapshots.newest(folder, MODEL)
    assert found is not None
    assert found[1] == written
    assert found[1].partitions == AT
    assert found[1].documents == len(filled)


def test_every_file_is_covered_by_its_hash(filled: IndexReplica, folder: Path):
    manifest = save(filled, folder)
    files = {str(path.relative_to(folder / "01")) for path in (folder / "01").rglob("*") if path.is_file()}
    assert files - {"manifest.json"} == manifest.files.keys()


def test_an_altered_file_is_refused_whichever_it_is(index: IndexReplica, folder: Path, put: Callable[..., str]):
    put("mem_1", "tea")
    manifest = save(index, folder)
    for name in manifest.files:
        path = folder / "01" / name
        before = path.read_bytes()
        for altered in (before[:-1], before + b"\0", bytes([before[0] ^ 1]) + before[1:]) if before else (b"\0",):
            path.unlink()
            path.write_bytes(altered)
            with pytest.raises(UnusableSnapshot):
                load(folder)
        path.unlink()
        with pytest.raises(UnusableSnapshot):
            load(folder)
        path.write_bytes(before)
    assert load(folder).ids == ["mem_1"]


def test_the_newest_snapshot_is_found(index: IndexReplica, folder: Path):
    for name in ("02", "01", "03"):
        save(index, folder, name)
    found = snapshots.newest(folder, MODEL)
    assert found is not None
    assert found[0] == folder / "03"


def test_no_snapshot_is_no_fault(folder: Path):
    assert snapshots.newest(folder, MODEL) is None
    folder.mkdir()
    assert snapshots.newest(folder, MODEL) is None


def test_a_snapshot_of_another_model_is_passed_over(index: IndexReplica, folder: Path, tmp_path: Path):
    save(index, folder, "01")
    snapshots.save(IndexReplica(4, "other"), AT, folder, "02")
    assert snapshots.newest(folder, "third") is None
    found = snapshots.newest(folder, MODEL)
    assert found is not None
    assert found[0].name == "01"


@pytest.mark.parametrize(("model", "dimensions"), [("other-model", 4), (MODEL, 8)])
def test_loading_a_snapshot_under_another_model_is_refused_and_names_both(
    index: IndexReplica, folder: Path, tmp_path: Path, model: str, dimensions: int
):
    """Also when only the number of dimensions is another: a service may serve one name in several sizes."""
    manifest = save(index, folder)
    assert manifest.dimensions == 4
    with pytest.raises(UnusableSnapshot, match=f"of {MODEL} with 4 dimensions, not of {model} with {dimensions}"):
        snapshots.load(folder / manifest.name, manifest, model=model, dimensions=dimensions)
    assert snapshots.newest(folder, model, dimensions) is None
    assert snapshots.load_newest(folder, model, dimensions) is None


def test_a_snapshot_of_the_first_format_is_passed_over(index: IndexReplica, folder: Path):
    """It has no `renewed_ms`, and less precise confidences."""
    written = save(index, folder, "01")
    raw = msgspec.json.encode(replace(written, format=1))
    (folder / "01" / "manifest.json").write_bytes(raw)
    assert snapshots.newest(folder, MODEL) is None


@pytest.mark.parametrize("torn", ["no manifest", "half a manifest", "a stray file", "still being written"])
def test_a_torn_folder_is_passed_over(index: IndexReplica, folder: Path, torn: str):
    save(index, folder, "01")
    if torn == "a stray file":
        (folder / "02").write_text("x")
    else:
        shutil.copytree(folder / "01", folder / (".writing-02" if torn == "still being written" else "02"))
    if torn == "no manifest":
        (folder / "02" / "manifest.json").unlink()
    if torn == "half a manifest":
        manifest = folder / "02" / "manifest.json"
        manifest.write_bytes(manifest.read_bytes()[:40])
    found = snapshots.newest(folder, MODEL)
    assert found is not None
    assert found[0].name == "01"


def test_leftovers_of_an_interrupted_writer_are_ignored(filled: IndexReplica, folder: Path, tmp_path: Path):
    (folder / ".writing-01").mkdir(parents=True)
    (folder / ".writing-01" / "manifest.json").write_text("torn")
    save(filled, folder)
    assert answers(load(folder)) == answers(filled)


def test_pruning_keeps_two_and_what_is_no_snapshot_goes(index: IndexReplica, folder: Path):
    for name in ("01", "02", "03", "04"):
        save(index, folder, name)
    (folder / ".writing-05").mkdir()
    snapshots.prune(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["03", "04"]
    snapshots.prune(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["03", "04"]


def test_pruning_to_one_leaves_the_newest_alone(index: IndexReplica, folder: Path, tmp_path: Path):
    """Also of those made with other models, and what an interrupted pruning left."""
    snapshots.save(IndexReplica(4, "other"), AT, folder, "01")
    for name in ("02", "03"):
        save(index, folder, name)
    (folder / ".pruned-00").mkdir()
    snapshots.prune(folder, 1)
    assert [path.name for path in folder.iterdir()] == ["03"]


def test_a_snapshot_pruned_while_it_is_loaded_gives_way_to_the_newer_one(
    index: IndexReplica, folder: Path, tmp_path: Path, put: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    """Whichever file is the first that is missed."""
    put("mem_1", "tea")
    files = len(save(index, folder, "01").files)
    put("mem_2", "tea")
    save(index, tmp_path / "later", "02")
    original = snapshots.sha256_of
    for at in range(files):
        shutil.rmtree(folder)
        save(index, folder, "01")
        checked: list[Path] = []

        def hashed(path: Path, checked: list[Path] = checked, at: int = at) -> str:
            checked.append(path)
            if len(checked) == at + 1:
                shutil.copytree(tmp_path / "later" / "02", folder / "02")
                snapshots.prune(folder, 1)
            return original(path)

        monkeypatch.setattr(snapshots, "sha256_of", hashed)
        found = snapshots.load_newest(folder, MODEL)
        monkeypatch.setattr(snapshots, "sha256_of", original)
        assert found is not None
        assert found[1].name == "02" or at == files - 1
        assert set(found[0].ordinal_of) == {"mem_1", "mem_2"}


@pytest.mark.parametrize("vanishing", ["texts.msgpack.zst", "renewed_ms.npy", "vectors.npy"])
def test_half_a_snapshot_is_no_index(index: IndexReplica, folder: Path, vanishing: str, put: Callable[..., str]):
    """Files that go after they were checked."""
    put("mem_1", "tea")
    manifest = save(index, folder)
    (folder / "01" / vanishing).unlink()
    with pytest.raises(UnusableSnapshot):
        snapshots.load(folder / "01", replace(manifest, files={}))


def test_an_altered_snapshot_is_not_tried_for_ever(index: IndexReplica, folder: Path, tmp_path: Path):
    save(index, folder)
    (folder / "01" / "partition.npy").write_bytes(b"x")
    assert snapshots.load_newest(folder, MODEL) is None
    assert snapshots.load_newest(tmp_path / "none", MODEL) is None


MARK = "swordfish"
VECTOR = [0.123, 0.456, -0.789, 0.321]
EVERYTHING = Filter(tenant="default", now_ms=0, reader="ada")
Embed = Callable[..., None]


@pytest.fixture
def with_removals(with_graph: None, index: IndexReplica, put: Callable[..., str], embed: Embed) -> IndexReplica:
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
    return index


def all_answers(index: IndexReplica) -> list[list[Hit]]:
    vector = np.asarray([0.6, 0.8, 0, 0], np.float32)
    filters = [
        EVERYTHING,
        Filter(tenant="default", now_ms=0, tags=["even"]),
        Filter(tenant="default", now_ms=0, types=["t"]),
    ]
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
    """Which traces of what was removed are below a folder: the word, and the vector, packed or in the graph."""
    unit = np.asarray(VECTOR, np.float32) / np.linalg.norm(VECTOR)
    (packed,), (scale,) = quantized(unit[None])
    everything = everything_in(folder)
    marks = [mark for mark in (MARK.encode(), packed.tobytes()) if mark in everything]
    for graph in folder.rglob("*.hnsw"):
        in_graph = packed * scale @ np.load(graph.with_name("vector-components.npy"))
        numbers = [np.frombuffer(graph.read_bytes()[at:-4], "<f4", graph.stat().st_size // 4 - 2) for at in range(4)]
        windows = np.concatenate([sliding_window_view(row, len(in_graph)) for row in numbers])
        marks += [b"in the graph"] * int(np.isclose(windows, in_graph, atol=1e-6).all(axis=1).any())
    return marks


def test_a_compacted_index_answers_as_before(with_removals: IndexReplica, tmp_path: Path):
    before = all_answers(with_removals)
    fresh = compacted(with_removals)
    assert all_answers(fresh) == before
    assert any(before)
    assert all_answers(with_removals) == before, "the old one goes on"


def test_nothing_of_what_was_removed_is_left_in_a_file(with_removals: IndexReplica, tmp_path: Path):
    """Of the words and the vectors; both are in the snapshot of an index that was not compacted."""
    snapshots.save(with_removals, {}, tmp_path / "old", "01")
    assert len(marks_in(tmp_path / "old")) >= 2
    fresh = compacted(with_removals)
    fresh.link()
    snapshots.save(fresh, {}, tmp_path / "new", "02")
    assert marks_in(tmp_path / "new") == []
    assert MARK not in dict(fresh.postings.words()).values()


def test_compaction_keeps_only_live_documents(with_removals: IndexReplica, tmp_path: Path):
    fresh = compacted(with_removals)
    assert fresh.ids == [name for name in with_removals.ids if name]
    assert all(len(getattr(fresh, name)) == len(fresh) for name in COLUMNS)
    assert fresh.removed == 0
    assert with_removals.removed > 80
    assert is_worthwhile(with_removals)
    assert not is_worthwhile(fresh)
    assert MARK not in fresh.authors
    assert f"session {MARK}" not in fresh.episode_of
    assert len(fresh.vectors) == len(with_removals.vectors)


def test_a_compacted_index_goes_on_as_the_other_does(
    with_removals: IndexReplica, tmp_path: Path, entry: Callable[..., IndexEntry]
):
    fresh = compacted(with_removals)
    before = all_answers(fresh)
    for one in (with_removals, fresh):
        one.apply(0, [
            Put(entry("obs_new", "tea w3 new", episode="s1", agent_id="agent1", tags=["even"])),
            Put(entry("obs_000", "said again and again", episode="s0")),
            Put(entry("mem_006", "tea w6", audience=["ada"])),
            Remove("obs_003"),
        ])  # fmt: skip
    assert all_answers(fresh) == all_answers(with_removals) != before


def test_an_empty_index_and_one_of_removed_documents_can_be_compacted(
    index: IndexReplica, put: Callable[..., str], embed: Embed, tmp_path: Path
):
    assert len(compacted(index)) == 0
    assert not is_worthwhile(index)
    embed(put("obs_1", "tea", episode="s"), [1, 0, 0, 0])
    index.apply(0, [Remove("obs_1")])
    fresh = compacted(index)
    assert (len(fresh), fresh.ids, fresh.authors, fresh.episodes) == (0, [], [], [])
    assert all_answers(fresh) == all_answers(index)


def test_an_index_without_vectors_can_be_compacted(tmp_path: Path, entry: Callable[..., IndexEntry]):
    plain = IndexReplica(0, "none")
    plain.apply(0, [Put(entry("mem_1", "tea")), Put(entry("mem_2", "tea")), Remove("mem_1")])
    fresh = compacted(plain)
    asked = Question(text="tea", vector=None)
    assert search(fresh, asked, EVERYTHING) == search(plain, asked, EVERYTHING)
    assert fresh.ids == ["mem_2"]
