"""What the hook reports after a tool: every report is kept, whoever hangs up.

The four hooks on the wire: what each asks, in its own words, and what it reads of the answers.

Health, figures, re-embedding, and what is beside the endpoints.
"""

import asyncio
import json
import shutil
import subprocess
import time
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.acceptance.running import Doors, frozen
from tests.contracts.agent_memory.conftest import PATIENT_S, Rest, done, report, send_and_hang_up, well
from tests.contracts.refusals import places, refusals
from tests.support.waiting import wait_until

JSON = {"Content-Type": "application/json"}
SKIPPED = (
    "ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion", "TaskCreate", "TaskUpdate",
    "TaskGet", "TaskList", "TaskOutput", "TaskStop", "EnterPlanMode", "ExitPlanMode",
)  # fmt: skip
TAKEN: dict[str, dict[str, Any]] = {
    "8 MiB": {"tool_input": {"content": "x" * (8 << 20)}}, "long preview": {"tool_response_preview": "y" * 100_000},
    "NUL": {"tool_input": {"command": "printf '\0'"}, "tool_response_preview": "\0\0"},
    "any JSON": {"tool_input": {"": [None, True, 1e300, {"a": []}]}}, "user message": {"last_user_message": "please"},
    "unknown key": {"unknown": {"key": 1}}, "two quotes": {"tool_response_preview": '""'},
    "big number": {"tool_input": {"n": 10**40}}, "deep": {"tool_input": json.loads('{"a":' * 400 + "1" + "}" * 400)},
    "half a surrogate pair": {"last_user_message": "\ud83c"},
}  # fmt: skip


@pytest.mark.covers("POST /api/queue")
async def test_a_report_becomes_an_observation_of_its_session_and_project(rest: Rest, name: str):
    await rest.queue(name, f"/home/ada/{name}", tool_input={"file_path": f"/home/ada/{name}/kettle.py"})
    (made,) = await rest.observed(name, 1)
    (session,) = await rest.listed("sessions", project=name)
    assert (session["session_id"], session["status"], session["completed_at"]) == (name, "active", None)
    assert (made["session_id"], made["project_id"]) == (session["id"], session["project_id"])
    assert (made["project_name"], made["tool_name"]) == (name, "Edit")
    assert "kettle.py" in json.dumps(made["title"])
    assert made["type"] in {"decision", "bugfix", "feature", "refactor", "discovery", "change", "pattern", "gotcha"}
    assert any("kettle.py" in path for path in made["files_modified"])


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize(
    ("folder", "projects"),
    [({}, {"unknown"}), ({"cwd": None}, {"unknown"}), ({"cwd": ""}, {"unknown"}), ({"cwd": "/"}, {"", "unknown"})],
)
async def test_a_report_needs_a_session_alone_and_without_a_folder_its_project_is_unknown(
    rest: Rest, name: str, folder: dict[str, str | None], projects: set[str]
):
    assert done(await rest.http.post("/api/queue", json={"session_id": name, **folder})) == {"status": "queued"}

    async def of_project() -> bool:
        sessions = [row for row in await rest.listed("sessions", limit=100) if row["session_id"] == name]
        return [row["project_name"] in projects for row in sessions] == [True]

    await wait_until(of_project, PATIENT_S)


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize(
    ("cwd", "project"),
    [
        ("/home/ada/{0}", "{0}"),
        ("/home/ada/{0}/", "{0}"),
        ("{0}", "{0}"),
        ("/home/ada/my {0} é", "my {0} é"),
        ("C:\\work\\{0}", "C:\\work\\{0}"),
    ],
)
async def test_the_project_is_the_last_part_of_the_folder(rest: Rest, name: str, cwd: str, project: str):
    await rest.queue(name, cwd.format(name))
    (made,) = await rest.observed(project.format(name), 1)
    assert made["project_name"] == project.format(name)


@pytest.mark.covers("POST /api/queue")
async def test_a_known_session_keeps_its_first_project(rest: Rest, name: str):
    await rest.begin(name, name)
    await rest.queue(name, f"/home/ada/{name}-other")
    await rest.observed(name, 1)
    assert await rest.listed("observations", project=f"{name}-other") == []
    assert [row["project_name"] for row in await rest.listed("sessions", project=name)] == [name]


@pytest.mark.covers("POST /api/queue")
async def test_concurrent_reports_of_a_session_are_of_one_project(rest: Rest, name: str):
    await asyncio.gather(*(rest.queue(name, f"/w/{name}/sub{number}") for number in range(5)))
    (session,) = [row for row in await rest.listed("sessions", limit=100) if row["session_id"] == name]
    await rest.observed(session["project_name"], 5)


@pytest.mark.covers("POST /api/queue", "GET /api/observations")
async def test_ids_of_reports_ascend_also_those_of_equal_ones(rest: Rest, name: str):
    for number in (0, 1, 2, 3, 3, 3):
        await rest.queue(name, f"/w/{name}", tool_name="Bash", tool_input={"command": f"echo {number}"})
    observations = await rest.observed(name, 6)
    titles = [observation["title"] for observation in observations]
    assert titles == [f"Bash: echo {number}" for number in (3, 3, 3, 2, 1, 0)]
    ids = [observation["id"] for observation in observations]
    assert ids == sorted({*ids}, reverse=True)


@pytest.mark.covers("POST /api/queue")
async def test_the_thirteen_skipped_tools_leave_a_session_and_no_observation(rest: Rest, name: str):
    for number, tool in enumerate(SKIPPED):
        await rest.queue(f"{name}-{number}", f"/home/ada/{name}", tool_name=tool)
        sessions = await rest.listed("sessions", project=name)
        assert f"{name}-{number}" in [session["session_id"] for session in sessions]
        assert await rest.listed("observations", project=name) == []
    await rest.queue(name, f"/home/ada/{name}", tool_name="Read")
    assert [observation["tool_name"] for observation in await rest.observed(name, 1)] == ["Read"]


@pytest.mark.covers("POST /api/queue")
async def test_every_tool_yields_an_observation(rest: Rest, name: str):
    inputs: dict[str | None, Any] = {
        "Read": {"file_path": "/w/a.py"}, "Edit": {"file_path": "/w/a.py", "old_string": "a", "new_string": "b"},
        "Write": {"file_path": "/w/a.py", "content": "a"}, "Bash": {"command": "ls -la"}, "Grep": {"pattern": "TODO"},
        "Glob": {"pattern": "**/*.py"}, "NotebookEdit": {"notebook_path": "/w/a.ipynb", "new_source": "1"},
        "WebFetch": {"url": "http://localhost/", "prompt": "what"}, "WebSearch": {"query": "kettles"},
        "mcp__other__tool": {}, "": None, None: None,
    }  # fmt: skip
    for tool, text in inputs.items():
        await rest.queue(name, f"/home/ada/{name}", tool_name=tool, tool_input=text)
    observations = await rest.observed(name, len(inputs))
    assert {observation["tool_name"] or None for observation in observations} == {tool or None for tool in inputs}
    assert all(observation["title"] for observation in observations)
    by_tool = {observation["tool_name"]: observation for observation in observations}
    assert by_tool["Read"]["files_read"] == ["/w/a.py"]
    assert by_tool["Read"]["files_modified"] == []
    for tool in ("Edit", "Write"):
        assert by_tool[tool]["files_modified"] == ["/w/a.py"]


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
async def test_whatever_can_be_parsed_is_taken(rest: Rest, name: str, text: dict[str, Any]):
    answer = await rest.http.post("/api/queue", content=json.dumps(report(name, f"/home/ada/{name}", **text)))
    assert done(answer) == {"status": "queued"}
    assert (await rest.observed(name, 1))[0]["title"]


@pytest.mark.covers("POST /api/queue")
async def test_the_preview_is_cut_to_2000_characters(rest: Rest, name: str):
    await rest.queue(name, f"/home/ada/{name}", tool_response_preview=f"{'x ' * 1_000}wombat")
    await rest.observed(name, 1)
    assert await rest.hits("wombat", project=name, mode="fts") == []


@pytest.mark.covers("POST /api/queue")
async def test_what_is_no_json_or_no_object_is_refused_as_such(rest: Rest):
    for content in (b"{", b"hello", b'{"session_id": "a",}'):
        answer = await rest.http.post("/api/queue", content=content, headers=JSON)
        assert [refusal.type for refusal in refusals(answer)] == ["json_invalid"]
        assert places(answer)[0][0] == "body"
        assert answer.json()["detail"][0]["ctx"].keys() == {"error"}
    for content in (b"", b"[]"):
        assert places(await rest.http.post("/api/queue", content=content, headers=JSON))[0][0] == "body"


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize("padding", [0, 300_000])
async def test_reports_of_peers_that_are_gone_are_all_kept(doors: Doors, rest: Rest, name: str, padding: int):
    for number in range(20):
        used = {"file_path": f"/w/file{number}.py", "old_string": "y" * padding}
        body = report(name, f"/home/ada/{name}", tool_input=used)
        send_and_hang_up(doors.agent_memory, "/api/queue", json.dumps(body).encode())
    observations = await rest.observed(name, 20)
    assert {observation["files_modified"][0] for observation in observations} == {
        f"/w/file{number}.py" for number in range(20)
    }


@pytest.mark.covers("POST /api/queue")
async def test_spooled_reports_are_taken_and_their_files_deleted(doors: Doors, rest: Rest, name: str):
    at = int(time.time() * 1000)
    files = [doors.agent_memory_spool / f"{at + number}-{name}.json" for number in range(3)]
    for number, (file, tool) in enumerate(zip(files, ("Edit", "Edit", "TodoWrite"), strict=True)):
        body = report(name, f"/home/ada/{name}", tool_name=tool, tool_input={"file_path": f"/w/file{number}.py"})
        file.write_text(json.dumps(body))

    async def taken() -> bool:
        return not any(file.exists() for file in files)

    await wait_until(taken, PATIENT_S)
    observations = await rest.observed(name, 2)
    assert [observation["files_modified"] for observation in reversed(observations)] == [
        ["/w/file0.py"],
        ["/w/file1.py"],
    ]


@pytest.mark.covers("GET /api/health", "POST /api/queue")
async def test_reports_are_spooled_while_the_log_is_away(configured: Doors):
    valkey, report = configured.server.supervisor.valkey, {"session_id": "s1", "tool_name": "Bash", "cwd": "/w/outage"}
    assert valkey is not None
    async with httpx.AsyncClient(base_url=configured.agent_memory, timeout=PATIENT_S, trust_env=False) as http:
        await well(http)
        with frozen(valkey.pid):
            away = done(await http.get("/api/health"))
            assert (away["status"], away["db"]["status"]) == ("degraded", "error")
            assert away["queue"] == {"pending": -1, "observations_total": -1}
            answers = await asyncio.gather(*(http.post("/api/queue", json=report) for _ in range(3)))
            assert [answer.json() for answer in answers] == [{"status": "queued"}] * 3
            assert len(list(configured.agent_memory_spool.glob("*.json"))) == 3

        async def all_there() -> bool:
            results = await http.get("/api/observations", params={"project": "outage"})
            return (
                results.status_code == 200
                and len(results.json()) == 3
                and not list(configured.agent_memory_spool.glob("*.json"))
            )

        await wait_until(all_there, PATIENT_S)


POST_AND_EXIT = """
const http = require("http");
const body = process.argv[2];
const request = http.request(process.argv[1], {
  method: "POST", agent: new http.Agent({ keepAlive: true }),
  headers: { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) },
});
request.on("socket", (socket) => socket.unref());
request.on("error", () => {});
request.setTimeout(3000).unref?.();
request.end(body);
"""
"""What the hook does after a tool: it sends, and nothing keeps the process alive until there is an answer."""


@pytest.mark.covers("POST /api/queue")
@pytest.mark.skipif(shutil.which("node") is None, reason="the hooks are Node scripts")
async def test_reports_of_a_node_process_that_ends_at_once_are_kept(doors: Doors, rest: Rest, name: str):
    body = json.dumps(report(name, f"/home/ada/{name}"))
    command = ["node", "-e", POST_AND_EXIT, f"{doors.agent_memory}/api/queue", body]
    for _ in range(5):
        assert (await asyncio.to_thread(subprocess.run, command, timeout=PATIENT_S)).returncode == 0
    await rest.observed(name, 5)


@pytest.mark.covers("GET /api/health", "POST /api/sessions", "GET /api/observations", "GET /api/lessons")
async def test_a_session_start_is_told_what_happened_and_what_to_mind(rest: Rest, name: str):
    """Its third request names no project: critical lessons of other projects are told."""
    for number in range(6):
        await rest.observe(name, f"number {number}", session=f"{name}-before", type="change")
    own = await rest.learn(f"{name} own", project=name, severity="critical")
    await rest.learn(f"{name} warning", project=name, severity="warning")
    assert done(await rest.http.get("/api/health"))["status"] in ("ok", "degraded")
    await rest.begin(name, name, project_path=f"/home/ada/{name}", agent_type="claude-code")
    observations = done(await rest.http.get(f"/api/observations?project={name}&limit=5"))
    assert [observation["title"] for observation in observations] == [f"number {number}" for number in (5, 4, 3, 2, 1)]
    assert {observation["type"] for observation in observations} == {"change"}
    assert all(observation["created_at"][10] == "T" for observation in observations)
    (lesson,) = done(await rest.http.get(f"/api/lessons?active=true&limit=10&project={name}&severity=critical"))
    assert (lesson["id"], lesson["project_name"], lesson["rule"]) == (own["id"], name, f"{name} own")
    other = await rest.learn(f"{name} other", project=f"{name}-2", severity="critical")
    everywhere = done(await rest.http.get("/api/lessons?active=true&limit=5&severity=critical"))
    assert other["id"] in [lesson["id"] for lesson in everywhere]
    assert {lesson["severity"] for lesson in everywhere} == {"critical"}
    assert len(everywhere) <= 5


@pytest.mark.covers("GET /api/lessons/match")
@pytest.mark.parametrize(
    ("tool", "preview"),
    [
        ("Bash", "git push --force origin é+%&=?# main"),
        ("Edit", "/w/app.py new text --force old text"),
        ("NotebookEdit", "/w/a.ipynb " + "x" * 480 + " --force"),
        ("Write", "--force" + "\n" + "y" * 990),
    ],
)
async def test_a_tool_about_to_run_is_matched_by_its_form_encoded_preview(
    rest: Rest, name: str, tool: str, preview: str
):
    lesson = await rest.learn(name, project=name, severity="critical", trigger_tool=tool, trigger_pattern="--FORCE")
    query = urlencode({"tool_name": tool, "tool_input_preview": preview, "project": name})
    results = done(await rest.http.get(f"/api/lessons/match?{query}"))
    assert {"id": lesson["id"], "severity": "critical", "project_name": name, "rule": name} in [
        {key: result[key] for key in ("id", "severity", "project_name", "rule")} for result in results
    ]


@pytest.mark.covers("GET /api/lessons/match")
async def test_a_tool_in_no_project_is_told_of_global_lessons_alone(rest: Rest, name: str):
    everywhere = await rest.learn(f"{name} everywhere", trigger_tool=name)
    await rest.learn(f"{name} own", trigger_tool=name, project=name)
    results = done(
        await rest.http.get(f"/api/lessons/match?{urlencode({'tool_name': name, 'tool_input_preview': ''})}")
    )
    assert [(result["id"], result["project_name"]) for result in results] == [(everywhere["id"], None)]


@pytest.mark.covers("POST /api/queue")
async def test_what_a_hook_sends_without_input_is_taken(rest: Rest, name: str):
    """The session is made of the time, the tool is empty, and a response that is not there is two quotes."""
    nothing = {"tool_name": "", "tool_input": None, "tool_response_preview": '""'}
    body = report(f"session-{name}", f"/home/ada/{name}", **nothing)
    assert done(await rest.http.post("/api/queue", json=body)) == {"status": "queued"}
    (made,) = await rest.observed(name, 1)
    assert made["title"]


@pytest.mark.covers("PATCH /api/sessions/{session_id}", "POST /api/queue")
async def test_a_session_end_completes_what_reports_began(rest: Rest, name: str):
    await rest.queue(name, f"/home/ada/{name}")
    answer = await rest.http.patch(f"/api/sessions/{name}", json={"status": "completed"})
    assert done(answer) == {"status": "updated"}

    async def completed() -> bool:
        return [row["status"] for row in await rest.listed("sessions", project=name)] == ["completed"]

    await wait_until(completed, PATIENT_S)


@pytest.mark.covers("GET /api/health", "POST /api/queue")
async def test_both_spellings_of_the_loopback_are_served(doors: Doors, rest: Rest, name: str):
    """The hooks say localhost."""
    port = doors.agent_memory.rpartition(":")[2]
    assert (await well(rest.http, f"http://localhost:{port}/api/health"))["db"]["status"] == "ok"
    body = {"session_id": name, "cwd": f"/w/{name}"}
    assert done(await rest.http.post(f"http://localhost:{port}/api/queue", json=body)) == {"status": "queued"}
    await rest.observed(name, 1)


TYPES = {"decision", "bugfix", "feature", "refactor", "discovery", "change", "pattern", "gotcha"}


@pytest.mark.covers("GET /api/health")
async def test_health_tells_of_every_part_and_is_ok_exactly_when_they_are(rest: Rest):
    healthy = await well(rest.http)
    assert healthy.keys() == {"status", "db", "embeddings", "queue"}
    assert healthy["db"].keys() == {"status", "version", "pgvector"}
    assert healthy["db"]["status"] == "ok"
    assert isinstance(healthy["db"]["version"], str)
    assert isinstance(healthy["db"]["pgvector"], bool)
    assert healthy["queue"].keys() == {"pending", "observations_total"}
    assert min(healthy["queue"].values()) >= 0
    assert healthy["status"] == ("ok" if healthy["embeddings"]["status"] == "ok" else "degraded")
    if healthy["embeddings"]["status"] == "ok":
        assert healthy["embeddings"].keys() == {"status", "model", "dimensions", "provider"}
        assert healthy["embeddings"]["dimensions"] > 0
    else:
        assert healthy["embeddings"].keys() == {"status", "error"}


@pytest.mark.covers("GET /api/admin/stats")
async def test_stats_count_by_type_and_project(rest: Rest, name: str):
    before = done(await rest.http.get("/api/admin/stats"))
    assert before.keys() == {"observations", "sessions", "projects", "queue", "by_type", "by_project"}
    assert before["observations"].keys() == {"total", "with_embedding", "without_embedding"}
    assert before["queue"].keys() == {"pending", "done", "failed"}
    assert before["by_type"].keys() <= TYPES
    for number, kind in enumerate(["gotcha", "gotcha", "pattern"]):
        await rest.observe(name, f"number {number}", session=f"{name}-{number}", type=kind)

    async def counted() -> bool:
        return done(await rest.http.get("/api/admin/stats"))["by_project"].get(name) == 3

    await wait_until(counted, 60)
    after = done(await rest.http.get("/api/admin/stats"))
    assert after["by_type"]["gotcha"] - before["by_type"].get("gotcha", 0) >= 2
    assert after["observations"]["total"] - before["observations"]["total"] >= 3
    assert after["sessions"] - before["sessions"] >= 3
    assert after["projects"] - before["projects"] >= 1
    counts = after["observations"]
    assert counts["with_embedding"] + counts["without_embedding"] == counts["total"] == after["queue"]["done"]

    async def all_counted() -> bool:
        return (await well(rest.http))["queue"]["observations_total"] >= counts["total"]

    await wait_until(all_counted, 60)


@pytest.mark.covers("POST /api/admin/re-embed", "GET /api/admin/re-embed/status", "POST /api/admin/re-embed/cancel")
async def test_re_embedding_is_one_job_at_a_time_that_can_be_followed_and_cancelled(rest: Rest, name: str):
    await rest.observe(name, "to be embedded")
    done(await rest.http.post("/api/admin/re-embed/cancel"))

    async def over() -> bool:
        return done(await rest.http.get("/api/admin/re-embed/status"))["status"] != "running"

    await wait_until(over, 60)
    started = done(await rest.http.post("/api/admin/re-embed"))
    assert started == {"status": "started", "only_missing": True, "batch_size": 100}
    again = done(await rest.http.post("/api/admin/re-embed", params={"only_missing": "false", "batch_size": 7}))
    if "error" in again:
        assert again.keys() == {"error", "status"}
        assert again["status"].keys() >= {"status", "total", "processed", "errors", "model", "only_missing"}
    else:
        assert again == {"status": "started", "only_missing": False, "batch_size": 7}
    progress = done(await rest.http.get("/api/admin/re-embed/status"))
    required = {"status", "total", "processed", "errors", "model", "only_missing"}
    assert required <= progress.keys() <= required | {"rate", "elapsed_seconds"}
    assert progress["status"] in ("running", "done")
    cancelled = done(await rest.http.post("/api/admin/re-embed/cancel"))
    assert cancelled in ({"status": "cancelling"}, {"status": "no job running"})
    await wait_until(over, 60)
    progress = done(await rest.http.get("/api/admin/re-embed/status"))
    assert progress["status"] in ("done", "cancelled")
    assert progress["status"] == "cancelled" or progress["processed"] == progress["total"]
    assert done(await rest.http.post("/api/admin/re-embed/cancel")) == {"status": "no job running"}


@pytest.mark.covers("GET /docs", "GET /redoc", "GET /openapi.json")
async def test_it_describes_itself(rest: Rest):
    for page in ("/docs", "/redoc"):
        answer = await rest.http.get(page)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "agent-memory" in answer.text
    described = done(await rest.http.get("/openapi.json"))
    assert described["info"]["version"] == "0.1.0"
    assert {
        "/api/health", "/api/queue", "/api/observations", "/api/observations/search", "/api/sessions", "/api/lessons",
        "/api/lessons/match", "/api/admin/stats", "/api/admin/re-embed",
    } <= described["paths"].keys()  # fmt: skip
