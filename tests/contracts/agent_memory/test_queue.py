"""What the hook reports after a tool: every report is kept, whoever hangs up."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from tests.acceptance.running import Doors, frozen
from tests.contracts.agent_memory.conftest import PATIENT_S, Rest, done, report, send_and_hang_up, well
from tests.contracts.refusals import Refusal, places, refusals
from tests.support.waiting import wait_until

JSON = {"Content-Type": "application/json"}
SKIPPED = (
    "ListMcpResourcesTool", "SlashCommand", "Skill", "TodoWrite", "AskUserQuestion", "TaskCreate", "TaskUpdate",
    "TaskGet", "TaskList", "TaskOutput", "TaskStop", "EnterPlanMode", "ExitPlanMode",
)  # fmt: skip
TAKEN: dict[str, dict[str, Any]] = {
    "8 MiB": {"tool_input": {"content": "x" * (8 << 20)}},
    "long preview": {"tool_response_preview": "y" * 100_000},
    "NUL": {"tool_input": {"command": "printf '\0'"}, "tool_response_preview": "\0\0"},
    "any JSON": {"tool_input": {"": [None, True, 1e300, {"a": []}]}},
    "user message": {"last_user_message": "please"},
    "unknown key": {"unknown": {"key": 1}},
    "two quotes": {"tool_response_preview": '""'},
    "big number": {"tool_input": {"n": 10**40}},
    "deep": {"tool_input": json.loads('{"a":' * 400 + "1" + "}" * 400)},
    "half a surrogate pair": {"last_user_message": "\ud83c"},
}


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
async def test_a_report_needs_a_session_alone(rest: Rest, name: str):
    answer = await rest.http.post("/api/queue", json={"session_id": name})
    assert (answer.status_code, answer.json()) == (200, {"status": "queued"})

    async def known() -> bool:
        return name in [row["session_id"] for row in await rest.listed("sessions", project="unknown", limit=100)]

    await wait_until(known, PATIENT_S)


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
@pytest.mark.parametrize(("cwd", "projects"), [(None, {"unknown"}), ("", {"unknown"}), ("/", {"", "unknown"})])
async def test_without_a_folder_the_project_is_unknown(rest: Rest, name: str, cwd: str | None, projects: set[str]):
    await rest.queue(name, cwd)

    async def known() -> bool:
        sessions = [row for row in await rest.listed("sessions", limit=100) if row["session_id"] == name]
        return [row["project_name"] in projects for row in sessions] == [True]

    await wait_until(known, PATIENT_S)


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
async def test_ids_of_reports_ascend(rest: Rest, name: str):
    for number in range(4):
        await rest.queue(name, f"/w/{name}", tool_name="Bash", tool_input={"command": f"echo {number}"})
    observations = await rest.observed(name, 4)
    assert [observation["title"] for observation in observations] == [
        f"Bash: echo {number}" for number in reversed(range(4))
    ]
    assert [observation["id"] for observation in observations] == sorted(
        (observation["id"] for observation in observations), reverse=True
    )


@pytest.mark.covers("POST /api/queue")
async def test_the_thirteen_skipped_tools_leave_a_session_and_no_observation(rest: Rest, name: str):
    for tool in SKIPPED:
        await rest.queue(name, f"/home/ada/{name}", tool_name=tool)
    await rest.queue(name, f"/home/ada/{name}", tool_name="Read")
    assert [observation["tool_name"] for observation in await rest.observed(name, 1)] == ["Read"]


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize("tool", SKIPPED)
async def test_a_skipped_tool_still_makes_its_session(rest: Rest, name: str, tool: str):
    await rest.queue(name, f"/home/ada/{name}", tool_name=tool)
    assert [row["session_id"] for row in await rest.listed("sessions", project=name)] == [name]
    assert await rest.listed("observations", project=name) == []


@pytest.mark.covers("POST /api/queue")
async def test_equal_reports_are_as_many_observations(rest: Rest, name: str):
    for _ in range(3):
        await rest.queue(name, f"/home/ada/{name}")
    observations = await rest.observed(name, 3)
    assert len({observation["id"] for observation in observations}) == 3


@pytest.mark.covers("POST /api/queue")
async def test_every_tool_yields_an_observation(rest: Rest, name: str):
    inputs: dict[str | None, Any] = {
        "Read": {"file_path": "/w/a.py"},
        "Edit": {"file_path": "/w/a.py", "old_string": "a", "new_string": "b"},
        "Write": {"file_path": "/w/a.py", "content": "a"},
        "Bash": {"command": "ls -la"},
        "Grep": {"pattern": "TODO"},
        "Glob": {"pattern": "**/*.py"},
        "NotebookEdit": {"notebook_path": "/w/a.ipynb", "new_source": "1"},
        "WebFetch": {"url": "http://localhost/", "prompt": "what"},
        "WebSearch": {"query": "kettles"},
        "mcp__other__tool": {},
        "": None,
        None: None,
    }
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
@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ({"tool_input": ["a"]}, Refusal("dict_type", ["body", "tool_input"], ["a"])),
        ({"tool_input": "a"}, Refusal("dict_type", ["body", "tool_input"], "a")),
        ({"session_id": None}, Refusal("string_type", ["body", "session_id"], None)),
    ],
)
async def test_a_field_of_another_type_is_refused(rest: Rest, name: str, text: dict[str, Any], refusal: Refusal):
    assert refusals(await rest.http.post("/api/queue", json={"session_id": name, **text})) == [refusal]


@pytest.mark.covers("POST /api/queue")
async def test_a_report_without_a_session_is_refused(rest: Rest):
    answer = await rest.http.post("/api/queue", json={"tool_name": "Bash"})
    assert refusals(answer) == [Refusal("missing", ["body", "session_id"], {"tool_name": "Bash"})]


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize("content", [b"{", b"hello", b'{"session_id": "a",}'])
async def test_what_is_no_json_is_refused_as_such(rest: Rest, content: bytes):
    answer = await rest.http.post("/api/queue", content=content, headers=JSON)
    assert [refusal.type for refusal in refusals(answer)] == ["json_invalid"]
    assert places(answer)[0][0] == "body"
    assert answer.json()["detail"][0]["ctx"].keys() == {"error"}


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize("content", [b"", b"[]"])
async def test_a_body_that_is_no_object_is_refused(rest: Rest, content: bytes):
    answer = await rest.http.post("/api/queue", content=content, headers=JSON)
    assert places(answer)[0][0] == "body"


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
