"""What the commands print, and how they exit: against a small server that answers like the real one."""

import io
import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
import typer
from msgspec import Meta, Struct
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner, Result

from api.cli import demo, nouns, output
from api.cli import server as server_commands
from api.cli.commands import spelled
from api.cli.demo import EVENT_KEY
from api.cli.output import one_line, waiting, worded
from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected
from tests.support.fake_api import EVENT, RESULT, FakeServer


@pytest.fixture
def server(fake_api: FakeServer) -> FakeServer:
    return fake_api


def run(*arguments: str, stdin: str | None = None) -> Result:
    app = typer.Typer()
    nouns.register(app)
    demo.register(app)
    server_commands.register(app)
    return CliRunner().invoke(app, list(arguments), input=stdin)


def test_a_write_says_what_it_became(server: FakeServer):
    result = run("observe", "hello", "--session", "s1", "--data", '{"a": 1}')
    assert (result.exit_code, result.stdout) == (0, "observed obs_1 at 0:5-0\n")
    route, body, _ = server.requests[0]
    assert route == "POST /v1/observations"
    assert body.pop("event_id")
    assert body == {"content": "hello", "session_id": "s1", "data": {"a": 1}}


def test_a_dash_reads_the_text_from_stdin(server: FakeServer):
    run("lesson", "-", "--project", "shop", "--tags", "a, b", "--tags", "c", stdin="\ufefffrom a pipe\n")
    assert server.requests[0][1]["content"] == "from a pipe\n"
    assert server.requests[0][1]["tags"] == ["a", "b", "c"]


def test_a_repeated_write_says_so(server: FakeServer):
    assert "already known" in run("remember", "x", "--private", "--agent", "ada").stdout
    assert server.requests[0][1]["visibility"] == "private"


@pytest.mark.parametrize(
    "arguments",
    [
        ("remember", "x", "--private"),
        ("remember", "x", "--shared-with", "bob"),
        ("remember", "x", "--private", "--shared-with", "bob", "--agent", "ada"),
        ("observe", "x", "--data", "[1]"),
        ("observe", "x", "--data", "{"),
        ("recall", "x", "--mode", "psychic"),
        ("recall", "x", "--kind", "song"),
        ("recall", "x", "--url", "ftp://host"),
        ("recall",),
    ],
)
def test_a_wrong_command_exits_2_and_sends_nothing(server: FakeServer, arguments: tuple[str, ...]):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert server.requests == []


def test_recall_shows_text_as_it_was_stored(server: FakeServer):
    result = run("recall", "red?", "--explain", "--kind", "memory", "--kind", "lesson", "--after", "0:5-0")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "2026-03-14, session s1, project shop, by ada",
        "obs_1 tests [bold]are[/] red (confirmed 2x)",
        "obs_1: score 0.500  lexical 1.50",
    ]
    assert result.stderr == "1 in 2 ms; recorded (99%)\n"
    body = server.requests[0][1]
    assert (body["kinds"], body["after"], body["project"]) == (["memory", "lesson"], "0:5-0", None)


def test_json_is_one_document_and_nothing_else(server: FakeServer):
    for arguments in (("recall", "x"), ("lag",), ("observe", "x"), ("remember", "x")):
        result = run(*arguments, "--json")
        assert result.exit_code == 0
        assert isinstance(json.loads(result.stdout), dict)
        assert result.stderr == ""


def test_finding_nothing_exits_1(server: FakeServer):
    server.recalled = []
    result = run("recall", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "No results.\n")
    assert json.loads(run("recall", "x", "--json").stdout)["results"] == []


def test_the_closest_results_of_what_is_probably_not_recorded_are_shown_and_exit_1(server: FakeServer):
    server.recalled = [{**RESULT, "id": f"obs_{n}", "snippet": f"note {n}"} for n in range(9)]
    server.confidence = 0.08
    result = run("recall", "x")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "Probably not recorded (8%). Closest:"
    shown = [line for line in result.stdout.splitlines() if line.startswith("obs_") and "note" in line]
    assert [line.split()[0] for line in shown] == [f"obs_{n}" for n in range(5)]


def test_an_agent_reads_in_its_own_name_with_the_secret(server: FakeServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MNEMOLOG_SECRET", "s3cret")
    run("recall", "x", "--agent", "ada")
    headers = {name.lower(): value for name, value in server.requests[0][2].items()}
    assert headers["x-agent-id"] == "ada"
    assert headers["authorization"] == "Bearer s3cret"


def test_a_refusal_is_one_line_on_stderr_or_json_on_stdout(server: FakeServer):
    fault = {"code": "invalid", "message": "an observation needs content or data", "field": "content"}
    problem = {"code": "invalid", "detail": "an observation needs content or data", "field": "content"}
    server.answers["POST /v1/observations"] = (422, problem)
    told = run("observe", "")
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr == "error: an observation needs content or data (the text)\n"
    as_json = run("observe", "", "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout), as_json.stderr) == (2, {"error": fault}, "")


def test_no_server_exits_3():
    result = run("recall", "x", "--url", "http://127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == (
        "error: no server at http://127.0.0.1:1; start one with `mnemolog up`, or name another one with --url or "
        "MNEMOLOG_URL\n"
    )


def test_an_unknown_setting_exits_2(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MNEMOLOG_PROT", "3111")
    result = run("lag", "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (2, "invalid_setting")


def test_tail_prints_one_line_an_event_without_control_characters(server: FakeServer):
    result = run("tail", "--no-follow")
    assert result.exit_code == 0
    assert re.fullmatch(
        r"03-1\d \d\d:\d\d:\d\d  observation.recorded  shop +  ada +  tests are red again\n", result.stdout
    )
    assert json.loads(run("tail", "--no-follow", "--json").stdout) == EVENT


def test_following_begins_at_the_head_and_ctrl_c_ends_it_well(server: FakeServer, monkeypatch: pytest.MonkeyPatch):
    pauses: list[float] = []

    def interrupted(seconds: float) -> None:
        pauses.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(server_commands.time, "sleep", interrupted)
    result = run("tail")
    assert (result.exit_code, result.stdout) == (0, "")
    assert pauses == [server_commands.POLL_S]


def test_lag_shows_every_partition_and_judges_by_the_limit(server: FakeServer):
    result = run("lag")
    assert result.exit_code == 0
    assert re.search(r"^ +0 +3 +2 +1 +4-10 +w1", result.stdout, re.MULTILINE)
    assert run("lag", "--max", "3").exit_code == 0
    over = run("lag", "--max", "2", "--json")
    assert (over.exit_code, json.loads(over.stdout)["lag"]) == (1, 3)


VITALS: dict[str, Any] = {
    "oldest_pending_s": 2.5,
    "dead_letters": 1,
    "to_embed": 0,
    "feed_entries": 1200,
    "workers": 2,
    "memory_used": 64 << 20,
    "memory_limit": 128 << 20,
    "disk_free": None,
    "snapshot_age_s": 120.0,
}


def test_health_tells_what_is_not_well_and_the_vital_signs(server: FakeServer):
    dead = {"code": "dead_letters", "message": "1 events could not be applied"}
    told = {"status": "degraded", "degraded": [dead], "documents": 5, "lag": {"0": 3, "2": 1}, "vitals": VITALS}
    server.answers["GET /readyz"] = (200, told)
    checks = [{"category": "slots", "name": n, "status": s, "message": n} for n, s in (("a", "pass"), ("b", "warn"))]
    server.answers["GET /v1/diagnose"] = (200, {"checks": checks})
    result = run("health")
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[:3] == ["degraded", "dead_letters: 1 events could not be applied", "slots/b: b"]
    assert re.search(r"^memory +64 MiB of 128 MiB$", "\n".join(lines), re.MULTILINE)
    assert re.search(r"^pending +4 events, the oldest for 2\.5 s$", "\n".join(lines), re.MULTILINE)
    assert "disk" not in result.stdout
    assert json.loads(run("health", "--json").stdout) == {**told, "checks": checks}


BACKLOG = {"code": "embedding", "message": "5,000 texts wait for a vector, for up to 20 s"}


@pytest.mark.parametrize(
    ("conditions", "status"),
    [([], "ready"), ([BACKLOG], "catching up"), ([BACKLOG, {"code": "memory", "message": "95 %"}], "degraded")],
)
def test_health_calls_a_backlog_catching_up(server: FakeServer, conditions: list[dict[str, str]], status: str):
    state = {"status": "degraded" if conditions else "ready", "degraded": conditions, "documents": 5}
    server.answers |= {"GET /readyz": (200, state), "GET /v1/diagnose": (200, {"checks": []})}
    result = run("health")
    shown = [f"{condition['code']}: {condition['message']}" for condition in conditions]
    assert (result.exit_code, result.stdout.splitlines()) == (0, [status, *shown])
    assert json.loads(run("health", "--json").stdout)["status"] == state["status"]


def test_health_and_the_viewer_have_the_same_backlogs():
    script = Path(server_commands.__file__).parents[1] / "viewer/dashboard.js"
    listed = re.search(r"BACKLOGS = new Set\(\[(.*)\]\)", script.read_text())
    assert listed
    assert set(re.findall(r'"(\w+)"', listed[1])) == server_commands.BACKLOGS


def test_health_of_a_server_that_is_not_ready_is_asked_once_and_fails(server: FakeServer):
    server.answers["GET /readyz"] = (503, {"code": "unavailable", "reason": "log", "detail": "the log is away"})
    result = run("health")
    assert (result.exit_code, result.stdout.splitlines()) == (1, ["unavailable", "the log is away"])
    assert [request for request, _, _ in server.requests] == ["GET /readyz"]


def test_the_demo_reports_what_it_missed(server: FakeServer, monkeypatch: pytest.MonkeyPatch):
    server.answers["POST /v1/events"] = (202, {"accepted": 2, "duplicates": 1, "rejected": [], "position": "0:5-0"})
    corrected = [
        {"id": "mem_1", "event_id": command["corrects"]}
        for command in demo.build_fleet(datetime.now(UTC)).commands
        if "corrects" in command
    ]
    server.answers["GET /v1/memories"] = (200, {"items": corrected, "next": None})
    server.answers["PATCH /v1/memories/mem_1"] = (202, {"id": "mem_2", "position": "0:6-0", "duplicate": False})
    blocks = [{"kind": "lessons", "title": "Lessons", "text": "## Lessons\n- one", "tokens": 6}]
    server.answers["POST /v1/context"] = (
        200,
        {"context": "…", "blocks": blocks, "tokens": 6, "token_budget": 100, "left_out": []},
    )
    monkeypatch.setattr(demo, "EMBEDDED_S", 0)
    report = json.loads(run("demo", "--json").stdout)
    assert len(report["missed"]) == len(report["questions"]) >= 10
    assert report["lag"] == {"partitions": 1, "lag": 3, "to_embed": 2, "dead_letters": 1}
    expected = [question["expected"] for question in report["questions"]]
    server.recalled = [{**RESULT, "content": text, "metadata": {EVENT_KEY: ""}} for text in expected]
    told = run("demo", "--exit")
    assert told.exit_code == 1
    assert "hit #1" in told.stdout
    assert "miss" in told.stdout
    assert "error" not in told.stderr


def test_a_command_the_server_rejects_ends_the_demo(server: FakeServer):
    rejected = [{"index": 0, "code": "invalid", "message": "no"}]
    server.answers["POST /v1/events"] = (202, {"accepted": 0, "duplicates": 0, "rejected": rejected, "position": ""})
    result = run("demo", "--exit")
    assert (result.exit_code, result.stderr) == (1, "error: the server rejected a command of the demo: no\n")


def test_every_command_has_help_with_an_example():
    for name in ("observe", "remember", "lesson", "recall", "tail", "lag", "demo"):
        result = run(name, "--help")
        assert result.exit_code == 0
        assert f"Example: {spelled(name)}" in result.stdout


def test_text_for_the_terminal_has_no_control_characters():
    assert Text("a\x1b[2Jb\tc\n").append("d\x9b").plain == "ab\tc\nd"
    assert one_line("one\ntwo\x1b[0m  three", 9) == "one two …"


@pytest.mark.parametrize(
    ("line_every_s", "shown"), [(0, ["one", "two [x]", "three"]), (math.inf, ["one"])], ids=["slowly", "at once"]
)
def test_what_is_waited_for_is_told_in_lines_where_there_is_no_terminal(
    line_every_s: float, shown: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output, "LINE_EVERY_S", line_every_s)
    written = io.StringIO()
    with waiting(Console(file=written), "starting") as tell:
        for what in ("one", "two [x]", "three"):
            tell(what)
    assert written.getvalue().splitlines() == shown


def test_what_is_waited_for_stays_in_one_place_on_a_terminal():
    written = io.StringIO()
    with waiting(Console(file=written, force_terminal=True), "starting") as tell:
        tell("two [x]")
    assert "two [x]" in written.getvalue()
    assert written.getvalue().endswith("\x1b[2K"), "nothing is left of it"


class Asked(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=200)] = 1
    min_confidence: Annotated[float, Meta(ge=0, le=1)] = 0
    agent_id: Annotated[str, Meta(max_length=3)] = ""
    query: Annotated[str, Meta(min_length=1)] = "x"
    tags: Annotated[list[str], Meta(max_length=1)] = msgspec.field(default_factory=list[str])
    mode: Literal["hybrid", "vector"] = "hybrid"
    ttl_days: Annotated[float, Meta(gt=0)] | None = None
    fold: bool = True


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"limit": "a"}, "--limit must be a whole number"),
        ({"limit": 0}, "--limit must be at least 1"),
        ({"limit": 201}, "--limit must be at most 200"),
        ({"min_confidence": "a"}, "--min-confidence must be a number"),
        ({"min_confidence": 1.5}, "--min-confidence must be at most 1.0"),
        ({"ttl_days": 0}, "--ttl-days must be more than 0.0"),
        ({"agent_id": "adas"}, "--agent may have at most 3 characters"),
        ({"query": ""}, "the query must not be empty"),
        ({"tags": ["a", "b"]}, "--tags may have at most 1 values"),
        ({"tags": [1]}, "Expected `str`, got `int` (--tags)"),
        ({"mode": "lexical"}, "--mode cannot be 'lexical'"),
        ({"fold": 1}, "--fold must be true or false"),
    ],
)
def test_what_a_decoder_says_of_a_field_is_told_of_the_option(body: dict[str, Any], told: str):
    with pytest.raises(CommandRejected) as caught:
        parse_object(body, Asked)
    assert worded(caught.value.message, caught.value.field) == told


def test_what_is_needed_or_is_told_in_words_already_names_the_option():
    assert worded("Object missing required field `query`", "query") == "the query is needed"
    assert worded("a ttl needs a date", "ttl_days") == "a ttl needs a date (--ttl-days)"
    assert worded("the log is away", None) == "the log is away"
