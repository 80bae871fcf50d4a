"""The way of an import: chunks of one kind, counted and saved after each, resumed behind the last."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.cli.errors import ClientError
from api.importing.mapping import ImportRow, Mapped, Step
from api.importing.run import (
    MAX_EXAMPLES,
    MAX_REASONS,
    OTHER,
    ImportReport,
    ImportState,
    Run,
    StateFile,
    nowhere,
    server,
    state_folder,
)
from api.importing.source import WholeSource
from api.importing.transcripts import MAX_BYTES, Format, LinesSource
from ingest.commands.decide import Observe, Remember
from ingest.errors import CommandRejected
from projections.operations.transfer import read_event, read_header

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROWS = [ImportRow("memory", f"m{number}", {"content": f"fact {number}"}) for number in range(10)] + [
    ImportRow("observation", f"o{number}", {"content": f"seen {number}"}) for number in range(10)
]


def mapped(row: ImportRow) -> Mapped:
    content = row.value["content"]
    if not content:
        raise CommandRejected("is missing or empty", "content")
    said = Remember(content=content) if row.kind == "memory" else Observe(session_id="s", content=content)
    return Mapped([Step(said, row.name, AT)], ["half of it"] if row.name == "m3" else [])


def source(rows: list[ImportRow] = ROWS) -> WholeSource:
    return WholeSource("memex", lambda: iter(rows), len(rows), mapped, "")


class Route:
    """An import route that keeps what it was sent, and refuses, knows or fails as it is told."""

    def __init__(self, fails_at: int = 0, refuses: str = "") -> None:
        self.bodies: list[bytes] = []
        self.known = set[bytes]()
        self._fails_at, self._refuses = fails_at, refuses.encode()

    def __call__(self, path: str, body: bytes) -> dict[str, Any]:
        if self._fails_at and len(self.bodies) + 1 == self._fails_at:
            self._fails_at = 0
            raise ClientError("overloaded", "busy", status=429)
        self.bodies.append(body)
        header, *lines, end = body.splitlines()
        assert read_header(header).tenant == "acme"
        assert msgspec.json.decode(end) == {"end": True, "events": len(lines)}
        names = [read_event(line, "acme").envelope.event_id.encode() for line in lines]
        refused = [
            {"line": number, "code": "too_large", "message": "no"}
            for number, line in enumerate(lines, 2)
            if self._refuses and self._refuses in line
        ]
        fresh = [name for name in names if name not in self.known]
        self.known.update(names)
        new = len(fresh) - len(refused)
        duplicates = len(names) - len(fresh)
        return {
            "events": new, "duplicates": duplicates, "rejected_lines": len(refused), "rejected": refused,
            "complete": True,
        }  # fmt: skip

    def sizes(self) -> list[int]:
        return [len(body.splitlines()) - 2 for body in self.bodies]


def run(
    route: Route, state: ImportState, saved: list[bytes], batch: int = 4, rows: list[ImportRow] = ROWS
) -> ImportReport:
    def save(now: ImportState) -> None:
        saved.append(msgspec.json.encode(now))

    return Run(source(rows), server(route, "acme"), state, save, tenant="acme", batch=batch).run(lambda: AT)


def fresh() -> ImportState:
    return ImportState("memex", "there", "here")


def test_a_chunk_is_full_or_of_one_kind():
    route = Route()
    report = run(route, fresh(), [])
    assert route.sizes() == [4, 4, 2, 4, 4, 2]
    assert {name: (kind.taken, kind.new, kind.known) for name, kind in report.kinds.items()} == {
        "memory": (10, 10, 0), "observation": (10, 10, 0),
    }  # fmt: skip


def test_the_state_is_saved_after_every_chunk_and_says_when_it_finished():
    saved: list[bytes] = []
    run(Route(), fresh(), saved)
    states = [msgspec.json.decode(one, type=ImportState) for one in saved]
    assert [state.cursor for state in states] == [[4], [8], [10], [14], [18], [20], [20]]
    assert [state.finished_at for state in states] == [None] * 6 + [AT]


@pytest.mark.parametrize("fails_at", range(1, 7))
def test_what_was_interrupted_goes_on_and_ends_the_same(fails_at: int):
    whole, cut, saved = Route(), Route(fails_at), list[bytes]()
    expected = run(whole, fresh(), [])
    with pytest.raises(ClientError):
        run(cut, fresh(), saved)
    state = msgspec.json.decode(saved[-1], type=ImportState) if saved else fresh()
    assert run(cut, state, saved) == expected
    assert cut.bodies == whole.bodies


def test_a_chunk_that_was_stored_and_not_acknowledged_is_known_the_next_time():
    route = Route()
    run(route, fresh(), [])
    report = run(route, fresh(), [])
    assert [(kind.new, kind.known) for kind in report.kinds.values()] == [(0, 10), (0, 10)]


def test_rows_that_are_refused_here_or_there_are_counted_with_why():
    rows = [*ROWS[:3], ImportRow("memory", "broken", {"content": ""}), *ROWS[3:]]
    report = run(Route(refuses="fact 5"), fresh(), [], rows=rows)
    memory = report.kinds["memory"]
    assert (memory.taken, memory.skipped, memory.new) == (9, 2, 9)
    assert {why: reason.examples for why, reason in memory.why.items()} == {
        "content: is missing or empty": ["broken"], "too_large: no": ["m5"],
    }  # fmt: skip
    assert {what: reason.examples for what, reason in memory.lost.items()} == {"half of it": ["m3"]}


def test_rows_that_all_come_to_nothing_are_counted_and_done():
    rows, saved = [ImportRow("memory", str(number), {"content": ""}) for number in range(7)], list[bytes]()
    report = run(Route(), fresh(), saved, rows=rows)
    assert (report.kinds["memory"].skipped, msgspec.json.decode(saved[-1], type=ImportState).cursor) == (7, [7])


def test_a_dry_run_takes_everything():
    done: list[int] = []
    run = Run(source(), nowhere, fresh(), lambda state: None, tenant="acme", batch=7, on_rows=done.append)
    assert run.run(lambda: AT).rows == sum(done) == 20


def test_a_report_names_few_reasons_and_rows_and_counts_all():
    report = ImportReport()
    for number in range(MAX_REASONS + 10):
        report.skip("memory", f"m{number}", f"reason {number}")
    for number in range(20):
        report.skip("memory", f"x{number}", "reason 0")
    kind = report.kinds["memory"]
    assert (kind.skipped, len(kind.why), kind.why[OTHER].rows) == (MAX_REASONS + 30, MAX_REASONS + 1, 10)
    assert len(kind.why["reason 0"].examples) == MAX_EXAMPLES


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return state_folder()


def test_a_state_is_kept_for_each_place_and_server(folder: Path):
    one, other = (StateFile("memex", "there", server, "", folder) for server in ("a", "b"))
    state = fresh()
    state.cursor, state.finished_at = ["mem", 3], AT
    assert one.read() is None
    one.save(state)
    assert (one.read(), other.read()) == (state, None)
    one.path.write_bytes(b"{")
    assert one.read() is None


HOSTILE = {
    Format.COMMANDS: [
        '{"type":"remember","content":"x","occurred_at":"0001-01-01T00:00:00+14:00"}',
        '{"type":"remember","content":"x","occurred_at":"9999-12-31T23:59:59-14:00"}',
        '{"type":"remember","content":' + "9" * 5_000 + "}",
        '{"type":{}}',
        "[" * 200_000,
        '{"a":' * 100_000,
    ],
    Format.CLAUDE_CODE: [
        json.dumps({"type": "user", "sessionId": "s", "timestamp": at, "message": {"content": "x"}})
        for at in (10**400, "0001-01-01T00:00:00+14:00", [1], {"a": 1})
    ],
}


@pytest.mark.parametrize("form", HOSTILE)
def test_a_hostile_line_is_reported_with_its_number_and_ends_nothing(tmp_path: Path, form: Format):
    good = {
        Format.COMMANDS: '{"type":"remember","content":"good"}',
        Format.CLAUDE_CODE: json.dumps({
            "type": "user", "sessionId": "s", "uuid": "u9", "timestamp": "2026-01-31T12:00:00Z",
            "message": {"content": "good"},
        }),
    }[form]  # fmt: skip
    (tmp_path / "some.jsonl").write_text("\n".join([*HOSTILE[form], "\x00", good]) + "\n")
    state = ImportState("jsonl", "there", "here")
    report = Run(LinesSource(tmp_path, form), nowhere, state, lambda now: None, tenant="acme").run(lambda: AT)
    assert sum(kind.taken for kind in report.kinds.values()) >= 1
    assert report.rows == len(HOSTILE[form]) + 2
    if form == Format.COMMANDS:
        examples = [name for one in report.kinds["command"].why.values() for name in one.examples]
        assert sorted(examples) == [f"line {number}" for number in range(1, len(HOSTILE[form]) + 2)]


def test_a_conversation_that_is_too_long_is_reported_and_the_next_is_read(tmp_path: Path):
    turns = '{"type":"USER_INPUT","content":"a"}\n{"type":"PLANNER_RESPONSE","content":"b"}\n'
    (tmp_path / "b.jsonl").write_text(turns)
    with (tmp_path / "a.jsonl").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    source = LinesSource(tmp_path, Format.ANTIGRAVITY)
    report = Run(source, nowhere, fresh(), lambda now: None, tenant="acme").run(lambda: AT)
    assert (report.kinds["turn"].taken, report.kinds["turn"].skipped) == (1, 1)
