"""Sources: the order of their rows, resuming in the middle, files that are none."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from api.dialects.registry import IMPORTERS
from api.importing.mapping import ImportRow, Mapped
from api.importing.room import open_source, systems, without_password
from api.importing.source import MAX_LINE_BYTES, Cursor, ImportRequest, Source, Unusable, lines
from api.importing.source import document as json_document
from api.importing.sql import PAGE, Section, Sqlite, SqlSource
from api.importing.transcripts import Format, LinesSource

CLAUDE_MEM = """
    CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, type TEXT, title TEXT,
        narrative TEXT, created_at TEXT);
    INSERT INTO observations VALUES (1, 'm1', 'mill', 'change', 'a', 'b', '2026-01-31T12:00:00Z'),
        (2, 'm2', 'mill', 'change', 'c', 'd', '2026-01-31T13:00:00Z');
"""
PROMPTED = """
    CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT, project TEXT);
    CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_text TEXT, created_at TEXT,
        created_at_epoch INTEGER);
    INSERT INTO sdk_sessions VALUES (1, 'c1', 'm1', 'mill'), (2, 'c9', NULL, 'mill');
    INSERT INTO user_prompts VALUES (1, 'c1', 'why?', '2026-01-31T11:00:00Z', 1769857200000),
        (2, 'c9', 'who?', '2026-01-31T11:00:00Z', 1769857200000);
"""


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., Path]:
    """A SQLite file made of statements."""

    def make(*statements: str) -> Path:
        path = tmp_path / "some.db"
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.executescript(statement)
        return path

    return make


def nothing(row: ImportRow) -> Mapped:
    return Mapped([])


def named(source: Source, after: Sequence[str | int] = ()) -> list[tuple[str, str]]:
    return [(placed.row.kind, placed.row.name) for placed in source.rows(list(after))]


def cursors(source: Source) -> list[Cursor]:
    return [placed.cursor for placed in source.rows([])]


def opened(system: str, request: ImportRequest) -> Source:
    return open_source(system, request, IMPORTERS)


def claude_mem(path: Path) -> Source:
    return opened("claude-mem", ImportRequest(str(path), "acme"))


@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])
def test_a_table_is_read_to_its_end_whatever_its_size(database: Callable[..., Path], count: int):
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count or 1})"
    path = database("CREATE TABLE t (id INTEGER, name TEXT);", f"INSERT INTO t {numbers} SELECT i, 'n' || i FROM n;")
    query = f"SELECT * FROM t LIMIT {count}"
    with closing(SqlSource("x", Sqlite(path), [Section("t", query, ("id",), "name")], nothing)) as source:
        assert source.total() == len(named(source)) == count


def test_resuming_anywhere_reads_the_rest(database: Callable[..., Path]):
    with closing(claude_mem(database(CLAUDE_MEM, PROMPTED))) as source:
        rows = named(source)
        assert len(rows) == source.total()
        for place, cursor in enumerate(cursors(source), 1):
            assert named(source, json.loads(json.dumps(cursor))) == rows[place:]


def test_claude_mem_has_sessions_prompts_observations_and_ends(database: Callable[..., Path]):
    with closing(claude_mem(database(CLAUDE_MEM, PROMPTED))) as source:
        assert named(source) == [
            ("session", "c9"), ("session", "m1"), ("session", "m2"), ("prompt", "1"), ("prompt", "2"),
            ("observation", "1"), ("observation", "2"), ("session end", "c9"), ("session end", "m1"),
            ("session end", "m2"),
        ]  # fmt: skip


def test_a_file_with_observations_alone_is_enough(database: Callable[..., Path]):
    with closing(claude_mem(database(CLAUDE_MEM))) as source:
        kinds = [kind for kind, _ in named(source)]
    assert kinds == ["session", "session", "observation", "observation", "session end", "session end"]


def test_a_file_is_read_while_its_owner_writes(database: Callable[..., Path]):
    path = database("PRAGMA journal_mode = WAL;", CLAUDE_MEM)
    with closing(sqlite3.connect(path)) as owner, closing(claude_mem(path)) as source:
        owner.execute("BEGIN IMMEDIATE")
        owner.execute("DELETE FROM observations")
        assert ("observation", "2") in named(source)


def test_the_file_of_the_python_server_is_read_like_an_export(database: Callable[..., Path]):
    values = {
        ("mem:sessions", "s1"): {"id": "s1", "project": "p", "startedAt": "2026-01-31T12:00:00Z", "status": "active"},
        ("mem:obs:s1", "o1"): {"id": "o1", "timestamp": "2026-01-31T12:00:00Z", "title": "a"},
        ("mem:memories", "m1"): {"id": "m1", "content": "tea", "createdAt": "2026-01-31T12:00:00Z"},
        ("mem:emb:o1", "v1"): [0.1],
    }
    path = database("CREATE TABLE kv_store (scope TEXT, key TEXT, value TEXT);")
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = [(*key, json.dumps(value)) for key, value in values.items()]
        connection.executemany("INSERT INTO kv_store VALUES (?, ?, ?)", rows)
    source = opened("agentmemory", ImportRequest(str(path), "acme"))
    imported = [("session", "s1"), ("observation", "o1"), ("session end", "s1"), ("memory", "m1")]
    assert named(source) == [*imported, ("mem:emb:o1", "number 0")]


@pytest.mark.parametrize("system", ["agentd", "memex"])
def test_a_list_may_stand_alone_or_in_an_object(system: str, tmp_path: Path):
    items: list[Any] = [{"id": "b", "created_at": "2026-02"}, {"id": "a", "created_at": "2026-01"}, 7]
    file = tmp_path / "list.json"
    for document in (items, {"items": items}):
        file.write_text(json.dumps(document))
        source = opened(system, ImportRequest(str(file), "acme"))
        assert [name for _, name in named(source)] == ["number 2", "a", "b"]


def test_half_a_surrogate_pair_does_not_spoil_a_document(tmp_path: Path):
    file = tmp_path / "list.json"
    file.write_text('[{"id": "a\\ud83d"}]')
    assert named(opened("memex", ImportRequest(str(file), "acme"))) == [("memory", "a\ufffd")]


@pytest.mark.parametrize("system", systems(IMPORTERS))
def test_what_is_of_another_kind_is_refused_with_why(system: str, tmp_path: Path, database: Callable[..., Path]):
    other = database("CREATE TABLE t (id INTEGER);")
    text = tmp_path / "some.txt"
    text.write_text("hello")
    places = [str(tmp_path / "none"), str(other), str(text), str(tmp_path)]
    for place in places if system != "jsonl" else places[:1]:
        with pytest.raises(Unusable):
            opened(system, ImportRequest(place, "acme"))


def test_a_page_of_an_export_says_that_it_is_one(tmp_path: Path):
    file = tmp_path / "page.json"
    file.write_text(json.dumps({"sessions": [], "memories": [], "pagination": {"hasMore": True}}))
    assert "one page" in opened("agentmemory", ImportRequest(str(file), "acme")).notes[0]


def test_lines_are_counted_as_they_stand_and_a_huge_one_is_passed_over(tmp_path: Path):
    file = tmp_path / "some.jsonl"
    huge = b'{"a":"' + b"x" * MAX_LINE_BYTES + b'"}'
    file.write_bytes(b'{"a":1}\n\n[1]\n' + huge + b'\n{"a":2}')
    assert list(lines(file)) == [(1, {"a": 1}), (3, None), (4, None), (5, {"a": 2})]


def test_files_of_a_folder_are_recognised_and_resumed_in_the_middle(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"type":"remember","content":"x"}\n' * 3)
    turn = '{"type":"user","sessionId":"c","timestamp":"2026-01-31T12:00:00Z","message":{"content":"hi"}}\n'
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.jsonl").write_text(turn * 2)
    source = LinesSource(tmp_path, Format.AUTO)
    rows = named(source)
    assert [kind for kind, _ in rows] == ["command"] * 3 + ["observation"] * 2
    for place, cursor in enumerate(cursors(source), 1):
        assert named(source, cursor) == rows[place:]


def test_a_transcript_is_named_as_the_other_doors_name_it(tmp_path: Path):
    (tmp_path / "c.jsonl").write_text('{"type":"user","sessionId":"c","message":{"content":"hi"}}\n')
    source = LinesSource(tmp_path, Format.AUTO)
    assert [source.system for _ in source.rows([])] == ["claude-code"]


def test_an_export_of_our_own_says_what_it_would_do(tmp_path: Path):
    file = tmp_path / "ours.json"
    memory = {"id": "mem_" + "0" * 20, "content": "tea", "createdAt": "2026-01-31T12:00:00Z"}
    file.write_text(json.dumps({"sessions": [], "memories": [memory]}))
    assert "twice" in opened("agentmemory", ImportRequest(str(file), "acme")).notes[0]


def test_a_password_is_not_shown():
    assert without_password("postgresql://ada:s3cret@db:5432/memex") == "postgresql://db:5432/memex"
    assert without_password("/home/a@b/file.json") == "/home/a@b/file.json"


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"


@pytest.mark.parametrize(
    ("system", "view"),
    [
        (
            "claude-mem",
            f"CREATE VIEW observations AS {ENDLESS} i AS id, 'm' AS memory_session_id, 'p' AS project FROM n",
        ),
        ("mem0", f"CREATE VIEW points AS {ENDLESS} i AS id, x'80' AS point FROM n"),
        ("agentmemory", f"CREATE VIEW kv_store AS {ENDLESS} 'mem:sessions' AS scope, i AS key, '{{}}' AS value FROM n"),
    ],
)
def test_a_view_that_never_ends_is_no_table(system: str, view: str, database: Callable[..., Path]):
    with pytest.raises(Unusable, match="it has no table"):
        opened(system, ImportRequest(str(database(view)), "default"))


def test_a_query_that_never_ends_is_ended(database: Callable[..., Path], monkeypatch: pytest.MonkeyPatch):
    """A view behind a table that is there, as a column's default or a virtual table could have it."""
    monkeypatch.setattr("api.importing.sql.QUERY_S", 0.2)
    reader = Sqlite(database(CLAUDE_MEM))
    with closing(reader), pytest.raises(Unusable, match="interrupted"):
        reader.ask(f"{ENDLESS} count(*) FROM n")
    with closing(Sqlite(database())) as reader:
        assert len(reader.ask("SELECT * FROM observations")) == 2, "the next query has its own time"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le"])
def test_json_of_another_encoding_is_read_with_and_without_a_mark(tmp_path: Path, encoding: str, mark: str):
    """PowerShell's `>` writes UTF-16. A line separator within a text ends no line."""
    records = [{"content": "Zo\u00eb \u5c0f\u738b \U0001f600 \u2028 x"}, {"content": "2"}]
    text = mark + "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    (tmp_path / "lines.jsonl").write_bytes(text.encode(encoding))
    assert [tuple(line) for line in lines(tmp_path / "lines.jsonl")] == [(1, records[0]), (2, records[1])]
    (tmp_path / "whole.json").write_bytes((mark + json.dumps(records, ensure_ascii=False)).encode(encoding))
    assert json_document(tmp_path / "whole.json") == records
