"""The service itself: health, counters, browsers, what is said of what does not exist, its description.

`mnemolog memory`: the flags, output and exit codes of `agent memory`. The last test runs it as a process.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result
from waiting import wait_until

from api.cli.main import application
from tests.acceptance.running import Doors, frozen
from tests.contracts.agentd.conftest import Guarded, Remember
from tests.support.ports import free_port


def counters(client: httpx.Client) -> dict[str, float]:
    """The samples of /metrics."""
    lines = client.get("/metrics").text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[:1] != "#")}


@pytest.mark.covers("GET /health")
def test_a_healthy_service_says_what_it_stands_on(agentd: httpx.Client):
    answer = agentd.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "service": "agentd-memory",
        "version": "0.2.0",
        "details": {"vector_store": True, "sqlite_storage": True},
    }


@pytest.mark.covers("GET /health")
async def test_a_service_whose_log_is_away_is_degraded(guarded: Guarded):
    valkey = guarded.server.supervisor.valkey
    assert valkey is not None
    assert guarded.client.get("/health").status_code == 200  # the keys are known for a minute from here
    with frozen(valkey.pid):
        answer = guarded.client.get("/health")
        assert answer.status_code == 503
        body = answer.json()
        assert (body["status"], body["service"], body["version"]) == ("degraded", "agentd-memory", "0.2.0")
        assert body["details"]["sqlite_storage"] is False
        assert "is not responding" in body["details"]["sqlite_storage_error"]
        stored = guarded.client.post("/memories", json={"content": "text", "created_by": "ada"})
        assert stored.status_code == 503
        assert stored.json()["error"].startswith("service unavailable: ")
    await wait_until(lambda: guarded.client.get("/health").status_code == 200, timeout_s=60)


@pytest.mark.covers("GET /metrics")
def test_counters_count_what_was_done(agentd: httpx.Client, remember: Remember, name: str):
    before = counters(agentd)
    stored = remember("a", type="question", visibility="private")
    agentd.post("/memories", json={"content": " ", "created_by": "ada"})
    agentd.post("/memories/search", json={"query": name})
    agentd.post("/memories/search", json={"query": ""})
    for _ in range(2):
        agentd.delete(f"/memories/{stored['id']}")
    after = counters(agentd)
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
        'memories_created_total{type="question",visibility="private"}': 1,
        "memories_deleted_total": 1,
        "memories_searched_total": 1,
    }


@pytest.mark.covers("GET /metrics")
def test_every_counter_is_there_from_the_start(guarded: Guarded):
    answer = guarded.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    names = set(counters(guarded.client))
    pairs = {(kind, level) for kind in ("information", "question", "request") for level in LEVELS}
    assert names == {
        *(f'memories_created_total{{type="{kind}",visibility="{level}"}}' for kind, level in pairs),
        "memories_deleted_total",
        "memories_searched_total",
        'service_info{service="memory",version="0.2.0"}',
    }
    assert "# TYPE memories_created_total counter" in answer.text
    assert re.search(r"^service_info\{.*\} 1(\.0)?$", answer.text, re.MULTILINE)


LEVELS = ("public", "shared", "private")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/nothing", 404),
        ("GET", "/memories/mem_1/visibility/more", 404),
        ("PUT", "/memories", 405),
        ("GET", "/memories/mem_1/visibility", 405),
        ("POST", "/memories/mem_1", 405),
        ("POST", "/health", 405),
    ],
)
def test_what_does_not_exist_is_said_as_json(agentd: httpx.Client, method: str, path: str, status: int):
    answer = agentd.request(method, path)
    assert answer.status_code == status
    assert isinstance(answer.json()["error"], str)


@pytest.mark.covers("GET /health")
def test_both_loopbacks_are_the_service(agentd: httpx.Client):
    """Clients say `localhost`."""
    port = agentd.base_url.port
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert httpx.get(f"http://{host}:{port}/health", trust_env=False, timeout=60).status_code == 200


@pytest.mark.covers("GET /openapi.json", "GET /docs", "GET /redoc")
def test_the_door_describes_itself(agentd: httpx.Client):
    described = agentd.get("/openapi.json").json()
    assert described["info"]["title"] == "agentd-memory"
    operations = {f"{method.upper()} {path}" for path, result in described["paths"].items() for method in result}
    assert {
        "GET /health", "GET /metrics", "POST /memories", "GET /memories", "GET /memories/{id}", "DELETE /memories/{id}",
        "PUT /memories/{id}/visibility", "POST /memories/search",
    } <= operations  # fmt: skip
    for page in ("/docs", "/redoc"):
        assert "/memories/search" in agentd.get(page).text


Run = Callable[..., Result]
KEYS = [
    "id", "content", "type", "tags", "created_by", "created_at", "updated_at", "visibility", "shared_with",
    "references",
]  # fmt: skip


@pytest.fixture
def run(doors: Doors) -> Run:
    """`run(*arguments)` runs `mnemolog memory` against the door; with `url`, against another place."""

    def run(*arguments: str, url: str = doors.agentd) -> Result:
        return CliRunner().invoke(application(), ["memory", *arguments], env={"AGENTD_MEMORY_SERVICE_URL": url})

    return run


@pytest.fixture
def stored(run: Run, name: str) -> dict[str, Any]:
    """A memory, stored by the command line."""
    done = run(
        "remember", f"The {name} sky\nis blue", "--created-by", "ada", "--type", "QUESTION",
        "--tags", f" {name}, ,sky,", "--visibility", "Shared", "--share-with", "bob, carol",
        "--references", "mem_1,mem_2", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def full(memory: dict[str, Any]) -> str:
    """The view of the memory that `stored` is."""
    created = memory["created_at"].replace("T", " ")[:19]
    return "\n".join(
        [
            f"  ID: {memory['id']}", "  Type: question", f"  Content: {memory['content']}", "  Created by: ada",
            f"  Created at: {created} UTC", f"  Visibility: {memory['visibility']}", "  Shared with: bob, carol",
            f"  Tags: {memory['tags'][0]}, sky", "  References: mem_1, mem_2", "",
        ]
    )  # fmt: skip


@pytest.mark.covers("POST /memories", "GET /memories/{id}")
def test_what_is_remembered_is_recalled(agentd: httpx.Client, run: Run, stored: dict[str, Any], name: str):
    """JSON has every key, in order, and is indented by two."""
    assert list(stored) == KEYS
    assert stored["tags"] == [name, "sky"]
    assert (stored["shared_with"], stored["references"]) == (["bob", "carol"], ["mem_1", "mem_2"])
    assert (stored["type"], stored["visibility"]) == ("question", "shared")
    assert agentd.get(f"/memories/{stored['id']}").json() == stored
    for arguments in (("--json", "recall", stored["id"]), ("recall", "--json", stored["id"])):
        recalled = run(*arguments)
        assert (recalled.exit_code, recalled.stderr) == (0, "")
        assert recalled.stdout == json.dumps(stored, indent=2, ensure_ascii=False) + "\n"
    assert run("recall", stored["id"]).stdout == full(stored)


@pytest.mark.covers("POST /memories")
def test_a_memory_for_people_has_only_what_there_is(run: Run, name: str):
    done = run("remember", f"plain {name}", "--created-by", name)
    first, *view = done.stdout.splitlines()
    assert first
    assert not first.startswith(" ")
    labels = [line.split(":")[0] for line in view]
    assert labels == ["  ID", "  Type", "  Content", "  Created by", "  Created at", "  Visibility"]
    assert re.fullmatch(r"  Created at: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", view[4])


@pytest.mark.covers("POST /memories/search")
def test_a_search_shows_what_was_found(run: Run, stored: dict[str, Any], name: str):
    as_ada = ("search", "blue sky", "--tags", name, "--as-actor", "ada")
    results = run(*as_ada, "--json", "--limit", "5", "--type", "Question", "--since", stored["created_at"])
    assert json.loads(results.stdout) == {"memories": [stored], "total": 1}
    assert results.stdout.startswith('{\n  "memories": [\n    {\n      "id": ')
    lines = run(*as_ada).stdout
    assert lines.startswith("Found 1 memory\n")
    for part in (f"ID: {stored['id']}", f"[question] {stored['content']}", f"Tags: {name}, sky", "-" * 80):
        assert part in lines
    before = run(*as_ada, "--until", "2020-01-31T12:00:00+02:00", "--json")
    assert json.loads(before.stdout) == {"memories": [], "total": 0}
    nothing = run("search", "blue sky", "--tags", name)
    assert nothing.exit_code == 0
    assert nothing.stdout.startswith("Found 0 memories\n")
    assert len(nothing.stdout.splitlines()) == 2


@pytest.mark.covers("GET /memories")
def test_a_list_is_a_table(run: Run, stored: dict[str, Any], name: str):
    long = "x" * 48 + "éé and more"
    run("remember", long, "--created-by", "bob", "--tags", name)
    page = json.loads(run("list", "--tag", name, "--json").stdout)
    assert list(page) == ["items", "total", "limit", "offset"]
    assert (page["total"], page["limit"], page["offset"]) == (2, 50, 0)
    assert page["items"][1] == stored
    first, *table = run("list", "--tag", name, "--limit", "1").stdout.splitlines()
    assert "1/2" in first
    assert "offset 0" in first
    assert [cell.strip() for cell in table[1].strip("│").split("│")] == [
        "ID", "Type", "Content", "Created By", "Visibility", "Tags",
    ]  # fmt: skip
    cells = [cell.strip() for cell in table[3].strip("│").split("│")]
    assert cells == [page["items"][0]["id"], "information", "x" * 48 + "…", "bob", "public", name]
    for narrowed in (("--type", "question"), ("--created-by", "ada"), ("--visibility", "SHARED"), ("--offset", "1")):
        assert json.loads(run("list", "--tag", name, *narrowed, "--json").stdout)["items"] == [stored]


@pytest.mark.covers("PUT /memories/{id}/visibility")
def test_visibility_is_changed_and_shown(run: Run, stored: dict[str, Any]):
    confirmed, *view = run("visibility", stored["id"], "PRIVATE").stdout.splitlines(keepends=True)
    assert stored["id"] in confirmed
    assert "".join(view) == full({**stored, "visibility": "private"})
    changed = json.loads(run("visibility", stored["id"], "shared", "--share-with", "dan", "--json").stdout)
    assert (changed["visibility"], changed["shared_with"]) == ("shared", ["dan"])


@pytest.mark.covers("DELETE /memories/{id}")
def test_forgetting_what_is_not_there_is_no_failure(run: Run, stored: dict[str, Any]):
    first = run("forget", stored["id"])
    assert (first.exit_code, "deleted" in first.stdout) == (0, True)
    second = run("forget", stored["id"])
    assert (second.exit_code, "not found" in second.stdout) == (0, True)
    assert run("forget", stored["id"], "--json").stdout == '{\n  "deleted": false\n}\n'


@pytest.mark.covers("GET /health")
def test_health_is_shown(run: Run):
    lines = run("health").stdout
    assert lines == "Service: agentd-memory\nStatus: ok\nVersion: 0.2.0\nVector store: healthy\n"
    assert json.loads(run("--json", "health").stdout)["details"] == {"vector_store": True, "sqlite_storage": True}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("recall", "mem_1700000000000_deadbeef"), ["404", '{"error":"not found"}']),
        (("recall", "not an id"), ["400", "invalid input"]),
        (("visibility", "mem_1700000000000_deadbeef", "public"), ["404"]),
        (("remember", " ", "--created-by", "ada"), ["400", "invalid input"]),
        (("search", " "), ["400"]),
    ],
)
def test_what_the_service_refuses_is_shown_and_exits_1(run: Run, arguments: tuple[str, ...], text: list[str]):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert all(part in done.stderr for part in text)
    assert "Traceback" not in done.stderr


def test_no_service_exits_1_and_says_so(run: Run):
    done = run("health", url=f"http://localhost:{free_port()}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_strict_service_is_no_other(run: Run, guarded: Guarded):
    """What the command line cannot say, who asks, is nobody there."""
    url = str(guarded.client.base_url)
    stored = json.loads(
        run("remember", "x", "--created-by", "ada", "--visibility", "private", "--json", url=url).stdout
    )
    assert run("recall", stored["id"], url=url).exit_code == 1
    assert json.loads(run("search", "x", "--as-actor", "ada", "--json", url=url).stdout)["total"] >= 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("remember", "text"),
        ("remember", "text", "--created-by", "ada", "--type", "fact"),
        ("visibility", "mem_1", "secret"),
        ("visibility", "mem_1"),
        ("list", "--limit", "-1"),
        ("list", "--visibility", "secret"),
        ("search", "x", "--since", "yesterday"),
        ("search", "x", "--until", "2026-01-31T12:00:00"),
        ("nothing",),
    ],
)
def test_a_wrong_command_exits_2_and_asks_nobody(run: Run, arguments: tuple[str, ...]):
    done = run(*arguments, url="http://127.0.0.1:1")
    assert done.exit_code == 2
    assert done.stderr


@pytest.mark.covers("POST /memories", "GET /memories/{id}")
def test_it_is_a_process_like_any(doors: Doors, name: str):
    """JSON alone on stdout, what went wrong on stderr, and the exit code."""
    environment = {**os.environ, "AGENTD_MEMORY_SERVICE_URL": doors.agentd}

    def process(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "api.cli.main", "memory", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)

    stored = process("--json", "remember", name, "--created-by", "ada")
    assert (stored.returncode, stored.stderr) == (0, "")
    assert json.loads(stored.stdout)["content"] == name
    absent = process("recall", "mem_1700000000000_deadbeef")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "404" in absent.stderr
    assert process("remember", name).returncode == 2
