"""What export and import write and say, against answers that a server might give."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from irregular import KINDS, put
from typer.testing import CliRunner, Result

from api.cli import nouns, rows, transfer
from api.cli.client import ApiClient

URL = "http://127.0.0.1:3111"
HEADER = b'{"format":"mnemolog-export","version":1,"tenant":"default","project":null}\n'
EXPORT = HEADER + b'{"event_id":"e1"}\n{"end":true,"events":1}\n'
DONE: dict[str, Any] = {"events": 1, "duplicates": 0, "rejected_lines": 0, "rejected": [], "complete": True}
Run = Callable[..., Result]


class FakeServer:
    """Answers everything with `answer`, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer = httpx.Response(200, content=EXPORT)
        self.requests: list[tuple[str, bytes]] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append((f"{request.method} {request.url.raw_path.decode()}", request.read()))
        return self.answer


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


Handler = Callable[[httpx.Request], httpx.Response]


def _client(handle: Handler) -> ApiClient:
    return ApiClient(URL, transport=httpx.MockTransport(handle))


@pytest.fixture
def run(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line, wired to the fake server."""
    for module in (rows, transfer):
        monkeypatch.setattr(module, "connect", lambda url, agent="": _client(server.handle))  # pyright: ignore

    def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
        app = typer.Typer()
        nouns.register(app)
        transfer.register(app)
        return CliRunner().invoke(app, list(arguments), input=stdin)

    return invoke


def test_an_export_goes_to_stdout_as_it_is(run: Run, server: FakeServer):
    result = run("export")
    assert (result.exit_code, result.stdout_bytes) == (0, EXPORT)
    assert server.requests[0][0] == "GET /v1/admin/export"


@pytest.mark.parametrize(("project", "query"), [("shop", "project=shop"), ("", "project=")])
def test_an_export_may_be_of_one_project(run: Run, server: FakeServer, project: str, query: str):
    run("export", "--project", project)
    assert server.requests[0][0] == f"GET /v1/admin/export?{query}"


def test_an_export_to_a_file_is_reported(run: Run, tmp_path: Path):
    file = tmp_path / "all.ndjson"
    result = run("export", "--output", str(file))
    assert (result.exit_code, result.stdout) == (0, f"1 events exported to {file}\n")
    assert file.read_bytes() == EXPORT
    result = run("export", "--output", str(file), "--json")
    assert json.loads(result.stdout) == {"file": str(file), "events": 1, "unreadable": 0}
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("cut", [HEADER, EXPORT[:-1], EXPORT[:-5], b""])
def test_an_export_that_is_cut_off_leaves_no_file(run: Run, server: FakeServer, tmp_path: Path, cut: bytes):
    server.answer = httpx.Response(200, content=cut)
    result = run("export", "--output", str(tmp_path / "all.ndjson"))
    assert result.exit_code == 1
    assert "before its last line" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_was_left_out_is_said(run: Run, server: FakeServer):
    server.answer = httpx.Response(200, content=HEADER + b'{"end":true,"events":0,"unreadable":2}\n')
    assert "2 log entries are unreadable" in run("export").stderr


def test_a_refused_export_says_why(run: Run, server: FakeServer, tmp_path: Path):
    server.answer = httpx.Response(401, json={"code": "unauthorized", "detail": "send the secret"})
    result = run("export", "--output", str(tmp_path / "all.ndjson"))
    assert (result.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "requires a key" in result.stderr


def test_a_file_that_cannot_be_written_is_a_wrong_command_line(run: Run, tmp_path: Path):
    result = run("export", "--output", str(tmp_path / "no such folder" / "all.ndjson"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_replaces_only_a_regular_file(run: Run, tmp_path: Path, kind: str):
    file = put(kind, tmp_path / "all.ndjson")
    result = run("export", "--output", str(file))
    assert (result.exit_code, "not a regular file" in str(result.exception)) == (1, True)
    assert ([*tmp_path.iterdir()], file.is_file()) == ([file], False)


def test_an_import_sends_the_file_as_it_is(run: Run, server: FakeServer, tmp_path: Path):
    server.answer = httpx.Response(202, json={**DONE, "duplicates": 2})
    file = tmp_path / "all.ndjson"
    body = HEADER + b'{"event_id":"e"}\n' * 20_000
    file.write_bytes(body)
    result = run("import", str(file))
    assert (result.exit_code, result.stdout) == (0, "1 events imported, 2 already known\n")
    assert server.requests == [("POST /v1/admin/import", body)]
    result = run("import", "-", "--json", stdin=EXPORT)
    assert json.loads(result.stdout) == {**DONE, "duplicates": 2}
    assert server.requests[1][1] == EXPORT


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_an_export_of_another_encoding_is_sent_as_utf_8(run: Run, server: FakeServer, tmp_path: Path, encoding: str):
    server.answer = httpx.Response(202, json=DONE)
    file = tmp_path / "all.ndjson"
    file.write_bytes(EXPORT.decode().encode(encoding))
    assert run("import", str(file)).exit_code == 0
    assert run("import", "-", stdin=file.read_bytes()).exit_code == 0
    assert [body for _, body in server.requests] == [EXPORT, EXPORT]


def test_an_import_that_takes_nothing_says_so_and_fails(run: Run, server: FakeServer, tmp_path: Path):
    server.answer = httpx.Response(202, json={**DONE, "events": 0})
    told = run("import", "-", stdin=EXPORT)
    assert (told.exit_code, "nothing was imported" in told.stderr) == (1, True)
    server.answer = httpx.Response(202, json={**DONE, "events": 0, "duplicates": 3})
    assert run("import", "-", stdin=EXPORT).exit_code == 0, "what is there already was accepted before"
    for content in ("", "hello\n"):
        (tmp_path / "some.jsonl").write_text(content)
        told = run("import", "jsonl", str(tmp_path / "some.jsonl"), "--dry-run")
        assert (told.exit_code, "nothing was imported" in told.stderr) == (1, True)


def test_rejected_lines_and_a_cut_off_file_are_failures(run: Run, server: FakeServer):
    fault = {"line": 2, "code": "malformed", "message": "not\n\x1b[31mJSON"}
    for answer, words in (
        ({**DONE, "rejected_lines": 1, "rejected": [fault]}, ["line 2: malformed: not", "1 lines were rejected"]),
        ({**DONE, "complete": False}, ["incomplete"]),
    ):
        server.answer = httpx.Response(202, json=answer)
        result = run("import", "-", stdin=EXPORT)
        assert result.exit_code == 1
        assert [word for word in words if word not in result.stderr] == []
        assert "\x1b[31m" not in result.stderr
        assert run("import", "-", "--json", stdin=EXPORT).exit_code == 1


@pytest.mark.parametrize("content", [b"", b"hello\n", HEADER.replace(b":1,", b":2,")])
def test_what_is_no_export_is_not_sent(run: Run, server: FakeServer, content: bytes):
    result = run("import", "-", stdin=content)
    assert result.exit_code == 2
    assert "Unsupported export version" in result.stderr
    assert server.requests == []


def test_a_file_that_is_not_there_is_a_wrong_command_line(run: Run, server: FakeServer, tmp_path: Path):
    result = run("import", str(tmp_path / "missing"))
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr
    assert server.requests == []


def test_a_server_that_is_away_or_hangs_up_is_named(monkeypatch: pytest.MonkeyPatch):
    for error, code, words in (
        (httpx.ConnectError("no"), 3, "no server at"),
        (httpx.ReadError("gone"), 1, "closed the connection"),
    ):

        def handle(request: httpx.Request, error: Exception = error) -> httpx.Response:
            raise error

        def connect(url: str | None, agent: str = "", handle: Handler = handle) -> ApiClient:
            return _client(handle)

        for module in (rows, transfer):
            monkeypatch.setattr(module, "connect", connect)
        app = typer.Typer()
        nouns.register(app)
        transfer.register(app)
        for arguments in (["export"], ["import", "-"]):
            result = CliRunner().invoke(app, arguments, input=EXPORT)
            assert (result.exit_code, words in result.stderr) == (code, True), result.output
