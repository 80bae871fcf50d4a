"""The four hooks on the wire: what each asks, in its own words, and what it reads of the answers."""

import asyncio
import json
import shutil
import subprocess
from urllib.parse import urlencode

import pytest

from tests.acceptance.running import Doors
from tests.contracts.agent_memory.conftest import PATIENT_S, Rest, done, report, well
from tests.contracts.refusals import said
from tests.support.waiting import wait_until

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
    lessons = done(await rest.http.get(f"/api/lessons?active=true&limit=10&project={name}&severity=critical"))
    assert [(lesson["id"], lesson["project_name"], lesson["rule"]) for lesson in lessons] == [
        (own["id"], name, f"{name} own")
    ]


@pytest.mark.covers("GET /api/lessons")
async def test_a_session_start_sees_critical_lessons_of_other_projects(rest: Rest, name: str):
    """Its third request names no project."""
    other = await rest.learn(f"{name} other", project=f"{name}-2", severity="critical")
    everywhere = done(await rest.http.get("/api/lessons?active=true&limit=5&severity=critical"))
    assert other["id"] in [item["id"] for item in everywhere]
    assert {item["severity"] for item in everywhere} == {"critical"}
    assert len(everywhere) <= 5


@pytest.mark.covers("POST /api/sessions")
async def test_a_second_start_of_a_session_breaks_nothing(rest: Rest, name: str):
    body = {"session_id": name, "project": name, "project_path": f"/home/ada/{name}", "agent_type": "claude-code"}
    assert (await rest.http.post("/api/sessions", json=body)).status_code == 200
    said(await rest.http.post("/api/sessions", json=body), 409)


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
    body = {
        "session_id": f"session-{name}",
        "tool_name": "",
        "tool_input": None,
        "tool_response_preview": '""',
        "cwd": f"/home/ada/{name}",
        "last_user_message": None,
    }
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
