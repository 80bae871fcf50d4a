"""mem0's memories, from what `get_all` answers and from the stores that mem0 wrote."""

import json
import os
import pickle
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from factories import TENANT
from imported import documents, events

from api.importing.mem0 import open_source
from api.importing.source import ImportRequest, Source
from ingest.errors import CommandRejected
from projections.documents.memories import Memory
from projections.documents.relations import Relation

FILES = Path(__file__).with_name("files")
AT, LATER = "2025-03-04T09:30:00-08:00", "2025-03-05T09:30:00-08:00"
MEMORY: dict[str, Any] = {"id": "a1", "memory": "Prefers aisle seats", "created_at": AT, "user_id": "alice"}


def opened(path: Path, project: str | None = None) -> Source:
    return open_source(ImportRequest(str(path), TENANT, project=project))


def answer(folder: Path, *memories: Any, **more: Any) -> Source:
    """The source of a file with what `get_all` answered."""
    file = folder / "answer.json"
    file.write_text(json.dumps({"results": list(memories), **more}))
    return opened(file)


def qdrant(folder: Path, *payloads: object) -> Source:
    """The source of a store of qdrant with points p0, p1, and so on."""
    points = [{"id": f"p{number}", "payload": payload} for number, payload in enumerate(payloads)]
    rows = [(point["id"], pickle.dumps(SimpleNamespace(**{"__dict__": point}))) for point in points]
    with closing(sqlite3.connect(folder / "storage.sqlite")) as database, database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.executemany("INSERT INTO points VALUES (?, ?)", rows)
    return opened(folder)


def memories_of(source: Source) -> list[Memory]:
    return documents(events("mem0", source.mapped, [placed.row for placed in source.rows([])]), Memory)


def latest(source: Source) -> dict[str, Memory]:
    return {memory.content: memory for memory in memories_of(source) if memory.is_latest}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores on disk that mem0 wrote, of qdrant and of chroma."""
    folder = tmp_path_factory.mktemp("mem0")
    shutil.unpack_archive(FILES / "mem0-stores.zip", folder)
    return folder


@pytest.mark.parametrize("store", ["qdrant", "chroma", "qdrant/collection/mem0", "chroma/chroma.sqlite3"])
def test_a_store_is_read_without_the_packages_of_mem0(stores: Path, store: str):
    source = opened(stores / store)
    memories = latest(source)
    assert (source.total(), len(memories), source.notes) == (4, 4, [])
    seat = memories["I prefer aisle seats"]
    assert (seat.project, seat.user_id, seat.agent_id, seat.session_id) == ("mem0", "alice", "travel", "r1")
    noted = {name: seat.metadata[name] for name in ("role", "actor_id", "source", "count", "trusted")}
    assert noted == {"role": "user", "actor_id": "Alice", "source": "chat", "count": "3", "trusted": "true"}
    assert memories["Noted: aisle seats."].metadata["role"] == "assistant"
    allergy = memories["Is allergic to peanuts and cashews"]
    assert (allergy.tags, allergy.version) == (["health"], 2)
    assert memories["Lives in Porto"].valid_until == datetime(2031, 1, 2, tzinfo=UTC)


def test_get_all_and_the_store_that_answered_it_make_the_same_events(stores: Path):
    names = [
        {event.envelope.event_id for event in events("mem0", source.mapped, [one.row for one in source.rows([])])}
        for source in (opened(stores / "qdrant"), opened(FILES / "mem0-get-all.json"))
    ]
    assert names[1] < names[0], "the file has the memories of one user"


def test_an_update_is_a_version_with_its_time(tmp_path: Path):
    source = answer(tmp_path, {**MEMORY, "updated_at": LATER})
    first, second = sorted(memories_of(source), key=lambda memory: memory.version)
    assert (first.is_latest, second.is_latest, second.content) == (False, True, MEMORY["memory"])
    assert second.occurred_at - first.occurred_at == timedelta(days=1)
    (lost,) = source.mapped(next(source.rows([])).row).lost
    assert "before its last update" in lost


def test_a_memory_that_changes_between_two_imports_is_revised(tmp_path: Path):
    before = events("mem0", (one := answer(tmp_path, MEMORY)).mapped, [next(one.rows([])).row])
    changed = {**MEMORY, "memory": "Prefers window seats", "updated_at": LATER}
    after = events("mem0", (other := answer(tmp_path, changed)).mapped, [next(other.rows([])).row])
    assert before[0].envelope.event_id == after[0].envelope.event_id
    current = [memory.content for memory in documents([*before, after[1]], Memory) if memory.is_latest]
    assert current == ["Prefers window seats"]


def test_what_the_hosted_service_adds_stays_in_the_metadata(tmp_path: Path):
    more = {"categories": ["travel"], "structured_attributes": {"day": 4}, "metadata": {"big": "x" * 4_000}}
    source = answer(tmp_path, {**MEMORY, **more})
    (memory,) = memories_of(source)
    assert (memory.tags, memory.metadata) == (["travel"], {"mem0_id": "a1", "structured_attributes": '{"day":4}'})
    assert list(source.mapped(next(source.rows([])).row).lost) == ["metadata over 3,500 bytes in all: big"]


def test_what_has_no_time_is_of_when_the_file_was_changed(tmp_path: Path):
    source = answer(tmp_path, {"id": "a1", "memory": "Likes tea"})
    os.utime(tmp_path / "answer.json", (1_700_000_000, 1_700_000_000))
    changed = datetime.fromtimestamp(1_700_000_000, UTC)
    (memory,) = memories_of(opened(tmp_path / "answer.json", "kitchen"))
    assert (memory.occurred_at, memory.project, source.total()) == (changed, "kitchen", 1)
    for without in (answer(tmp_path, {**MEMORY, "created_at": None}), qdrant(tmp_path, {"data": "Likes tea"})):
        (memory,) = memories_of(without)
        assert memory.occurred_at > changed


def test_relations_of_its_graph_are_found_and_drawn(tmp_path: Path):
    source = answer(tmp_path, MEMORY, relations=[{"source": "alice", "relationship": "flies_to", "target": "Porto"}])
    made = events("mem0", source.mapped, [placed.row for placed in source.rows([])])
    (relation,) = documents(made, Relation)
    assert (relation.source, relation.relation, relation.target) == ("alice", "flies_to", "Porto")
    assert "alice flies to Porto" in {memory.content for memory in documents(made, Memory)}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"id": "a2", "memory": ""}, "missing or empty"),
        ({**MEMORY, "created_at": "soon"}, "not a time"),
        ({**MEMORY, "linked_memory_ids": ["a1"]}, "entity index"),
    ],
)
def test_what_is_no_memory_is_refused_with_a_reason(tmp_path: Path, record: Any, reason: str):
    source = answer(tmp_path, record)
    with pytest.raises(CommandRejected, match=reason):
        events("mem0", source.mapped, [next(source.rows([])).row])


class Planted:
    """An object that runs a function when it is unpickled."""

    def __reduce__(self) -> Any:
        return open, ("planted.txt", "w")


def test_a_store_runs_no_code_and_what_cannot_be_read_is_reported(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    file = shutil.copy(stores / "qdrant" / "collection" / "mem0" / "storage.sqlite", tmp_path)
    with closing(sqlite3.connect(file)) as database, database:
        rows = [("evil", pickle.dumps(Planted())), ("torn", b"\x80\x04"), ("text", "hello")]
        database.executemany("INSERT INTO points VALUES (?, ?)", rows)
    source = opened(Path(file))
    reasons = dict[str, str]()
    for placed in source.rows([]):
        try:
            source.mapped(placed.row)
        except CommandRejected as error:
            reasons[placed.row.name] = str(error)
    assert set(reasons) == {"evil", "torn", "text"}
    assert all(reason.startswith("the point cannot be decoded") for reason in reasons.values())
    assert not Path("planted.txt").exists()


def test_values_that_json_lacks_are_text_or_reported(tmp_path: Path):
    moment = datetime(2025, 3, 4, 9, 30, tzinfo=UTC)
    noted = {"met": moment, "day": date(2025, 3, 4), "half": "a\ud83d", "list": (1, [True])}
    lost = {"price": Decimal(1), "zoned": moment.astimezone(ZoneInfo("Asia/Tokyo")), "many": {1}, "huge": 1 << 70}
    source = qdrant(tmp_path, {"data": "Likes tea", "created_at": AT, **noted, **lost})
    (memory,) = memories_of(source)
    assert memory.metadata == {
        "mem0_id": "p0", "met": moment.isoformat(), "day": "2025-03-04", "half": "a\ufffd", "list": "[1,[true]]",
    }  # fmt: skip
    assert list(source.mapped(next(source.rows([])).row).lost) == [
        f"metadata that is not JSON: {name}" for name in lost
    ]


def test_a_point_that_is_endless_is_skipped_alone(tmp_path: Path):
    cycle, doubled = list[Any](), ["x" * 1_000]
    cycle.append(cycle)
    for _ in range(40):
        doubled = [doubled, doubled]
    source = qdrant(tmp_path, {"data": "x", "note": cycle}, {"data": "x", "note": doubled}, {"data": "Likes tea"})
    rows = {placed.row.name: placed.row for placed in source.rows([])}
    (memory,) = documents(events("mem0", source.mapped, [rows.pop("p2")]), Memory)
    assert (memory.content, set(rows)) == ("Likes tea", {"p0", "p1"})
    for row in rows.values():
        with pytest.raises(CommandRejected, match="the point cannot be decoded: ValueError"):
            source.mapped(row)


def test_metadata_of_the_user_keeps_names_that_mem0_uses(tmp_path: Path):
    own = {name: f"my {name}" for name in ("score", "id", "metadata", "memory")}
    noted = {**own, "hash": "my hash", "data": "my data", "user_id": "my user"}
    (memory,) = memories_of(answer(tmp_path, {**MEMORY, "score": 0.5, "hash": "x", "metadata": noted}))
    assert (memory.user_id, memory.metadata) == ("alice", {**noted, "mem0_id": "a1"})
    (memory,) = memories_of(qdrant(tmp_path, {"data": "Likes tea", "hash": "x", "created_at": AT, **own}))
    assert memory.metadata == {**own, "mem0_id": "p0"}
    source = answer(tmp_path, {**MEMORY, "role": "user", "metadata": {"role": "cook"}})
    assert "metadata: role" in source.mapped(next(source.rows([])).row).lost[0]


def test_memories_without_an_id_are_told_apart_by_user_and_text(tmp_path: Path):
    texts = [("alice", "Likes tea"), ("alice", "Likes tea"), ("bob", "Likes tea"), ("bob", "Likes rye")]
    sources = [answer(tmp_path, {"memory": memory, "user_id": user}) for user, memory in texts]
    assert len({next(source.rows([])).row.name for source in sources}) == 3


def test_a_newer_chroma_is_reported(stores: Path, tmp_path: Path):
    file = Path(shutil.copy(stores / "chroma" / "chroma.sqlite3", tmp_path))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT INTO migrations VALUES ('metadb', 99, 'x', 'x', 'x')")
    assert "version 99; the newest known version is 6" in opened(file).notes[0]
