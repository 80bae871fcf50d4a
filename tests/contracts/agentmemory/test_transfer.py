"""Taken out and put in: export, import, transcripts, the replay of a session."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.contracts.agentmemory.calling import WHEN, Api, Json, failed, ok, refused


def of(expected: list[Json], name: str, field: str = "id") -> list[Json]:
    return [item for item in expected if name in str(item[field])]


def export(name: str, /, **parts: Any) -> Json:
    """An export of a session with one observation, a memory and a summary."""
    session = {"id": f"s-{name}", "project": name, "cwd": "/w", "startedAt": WHEN, "status": "completed"}
    observation = {
        **{"id": f"obs_{name}", "sessionId": f"s-{name}", "timestamp": WHEN, "type": "file_edit"},
        **{"title": f"Edit {name}", "narrative": f"{name} was edited", "importance": 5},
        **{"facts": [], "concepts": ["pool"], "files": ["src/pool.py"]},
    }
    memory: Json = {
        **{"id": f"mem_{name}", "createdAt": WHEN, "updatedAt": WHEN, "type": "bug", "project": name},
        **{"title": f"{name} leaks", "content": f"{name} leaks", "concepts": [], "files": [], "sessionIds": []},
        **{"strength": 7, "version": 1, "isLatest": True},
    }
    summary: Json = {
        **{"sessionId": f"s-{name}", "project": name, "createdAt": WHEN, "title": f"Work on {name}"},
        **{"narrative": "edited", "keyDecisions": [], "filesModified": [], "concepts": [], "observationCount": 1},
    }
    whole: Json = {
        **{"version": "0.9.29", "exportedAt": WHEN, "sessions": [{**session, "observationCount": 1}]},
        **{"observations": {f"s-{name}": [observation]}, "memories": [memory], "summaries": [summary]},
    }
    return {**whole, **parts}


def counts(answer: Json) -> list[int]:
    """How much an import took and passed over."""
    return [answer[kind] for kind in ("sessions", "observations", "memories", "summaries", "skipped")]


@pytest.mark.covers("GET /agentmemory/export")
def test_an_export_has_everything(api: Api, name: str):
    api.observe(name, tool_name="Bash")
    ok(api.post("summarize", sessionId=name))
    memory = api.remember(f"{name} is kept")
    ok(api.post("lessons", content=f"{name} is a lesson", project=name), 201)
    ok(api.post("slot", label=name, content="now", pinned=False), 201)
    ok(api.post("actions", title=f"do {name}", project=name), 201)
    answer = ok(api.get("export"))
    assert answer["version"]
    assert answer["exportedAt"]
    assert len(of(answer["sessions"], name)) == 1
    assert len(answer["observations"][name]) == 1
    assert of(answer["memories"], memory["id"]) == [memory]
    assert len(of(answer["summaries"], name, "sessionId")) == 1
    assert len(of(answer["lessons"], name, "content")) == 1
    assert len(of(answer["slots"], name, "label")) == 1
    assert len(of(answer["actions"], name, "title")) == 1
    assert "pagination" not in answer
    ok(api.http.delete(f"/agentmemory/slot?label={name}"))


@pytest.mark.covers("GET /agentmemory/export")
def test_sessions_without_observations_have_no_list_of_them(api: Api, name: str):
    api.start(name)
    answer = ok(api.get("export"))
    assert len(of(answer["sessions"], name)) == 1
    assert name not in answer["observations"]


@pytest.mark.covers("GET /agentmemory/export")
def test_an_export_pages_its_sessions(api: Api, name: str):
    for number in range(3):
        api.start(f"{name}-{number}")
    first = ok(api.get("export", maxSessions=2))
    assert len(first["sessions"]) == 2
    assert first["pagination"].keys() >= {"offset", "limit", "total", "hasMore"}
    assert (first["pagination"]["offset"], first["pagination"]["limit"], first["pagination"]["hasMore"]) == (0, 2, True)
    total = first["pagination"]["total"]
    last = ok(api.get("export", maxSessions=2, offset=total - 1))
    assert (len(last["sessions"]), last["pagination"]["hasMore"]) == (1, False)


@pytest.mark.covers("POST /agentmemory/import")
def test_what_is_imported_is_counted_and_found(api: Api, name: str):
    answer = ok(api.post("import", exportData=export(name)))
    assert (answer["success"], answer["strategy"]) == (True, "merge")
    assert counts(answer) == [1, 1, 1, 1, 0]
    row = api.session(f"s-{name}")
    assert (row["project"], row["status"], row["startedAt"]) == (name, "completed", WHEN)
    observation = api.seen(f"s-{name}")
    assert (observation["title"], observation["narrative"], observation["type"]) == (
        f"Edit {name}",
        f"{name} was edited",
        "file_edit",
    )
    assert (observation["files"], observation["timestamp"]) == (["src/pool.py"], WHEN)
    (memory,) = of(api.memories(limit=5000), name, "content")
    assert (memory["type"], memory["project"]) == ("bug", name)
    results = {result["title"] for result in api.search(name, project=name)}
    assert results >= {f"Edit {name}", f"{name} leaks"}


@pytest.mark.covers("POST /agentmemory/import")
def test_importing_twice_doubles_nothing_and_what_is_there_may_be_kept(api: Api, name: str):
    for _ in range(2):
        assert counts(ok(api.post("import", exportData=export(name)))) == [1, 1, 1, 1, 0]
    assert len(api.observations(f"s-{name}")) == 1
    assert len(of(api.memories(limit=5000), name, "content")) == 1
    answer = ok(api.post("import", exportData=export(name), strategy="skip"))
    assert (answer["success"], answer["sessions"], answer["memories"]) == (True, 0, 0)
    assert answer["skipped"] == 4
    refused(api.post("import", exportData=export(name), strategy="burn"))


@pytest.mark.covers("POST /agentmemory/import")
def test_an_import_brings_a_memory_up_to_date(api: Api, name: str):
    ok(api.post("import", exportData=export(name)))
    changed = export(name)
    changed["memories"][0]["content"] = f"{name} holds"
    ok(api.post("import", exportData=changed))
    (memory,) = [memory for memory in api.memories(latest="true", limit=5000) if memory.get("project") == name]
    assert (memory["content"], memory["version"]) == (f"{name} holds", 2)


@pytest.mark.covers("POST /agentmemory/import", "GET /agentmemory/export")
def test_an_own_export_changes_nothing_and_can_replace_what_came_later(trusted: Api, name: str):
    """On the server with a secret: what belongs to nobody's test there is replaced, too."""
    api, projects = trusted, (name, f"{name}-later")
    api.start(name, project=name)
    api.hook(name, "prompt_submit", project=name, data={"prompt": "why?"})
    first = api.remember(f"The pool of {name} retries five times.", project=name)["id"]
    second = api.remember(f"Orders of {name} are kept in UTC.", project=name)["id"]
    ok(api.post("relations", sourceId=first, targetId=second, type="related"), 201)
    ok(api.post("lessons", content=f"Restart Redis in tests of {name}.", project=name), 201)
    ok(api.post("actions", title="Add a chaos test", project=name), 201)
    whole = ok(api.get("export"))

    def state() -> list[Any]:
        sessions = ok(api.get("sessions", limit=500))["sessions"]
        return [
            sorted(
                memory["content"]
                for memory in api.memories(latest="true", limit=5000)
                if memory.get("project") in projects
            ),
            sorted(
                (session["id"], session["observationCount"]) for session in sessions if session["id"].startswith(name)
            ),
            *(
                [(item.get("title"), item.get("content"), item.get("confidence")) for item in ok(result)[kind]]
                for kind in ("lessons", "actions", "relations")
                for result in (api.get(kind, project=project) for project in projects)
            ),
        ]

    before = state()
    assert ok(api.post("import", exportData=whole))["success"] is True
    assert state() == before
    ok(api.post("evolve", memoryId=first, newContent="The pool never retries anything."))
    api.remember("Soon to be gone.", project=f"{name}-later")
    api.hook(f"{name}-2", "stop", project=name, data={"a": 1})
    ok(api.post("actions", title="Nobody wants this", project=f"{name}-later"), 201)
    assert state() != before
    assert ok(api.post("import", exportData=whole, strategy="replace"))["success"] is True
    assert state() == before


@pytest.mark.covers("POST /agentmemory/import")
def test_an_import_revises_no_private_memory_of_somebody_else(doors: Doors, api: Api, name: str):
    """A version that names it as the one it follows is a memory of its own."""
    ada = {"X-Agent-Id": "ada"}
    fields = {"content": f"{name} has a secret garden", "project": name, "visibility": "private", "agent_id": "ada"}
    secret = httpx.post(f"{doors.agentmemory}/v1/memories", json=fields, headers=ada, timeout=60).json()["id"]
    (first,) = export(name)["memories"]
    later = {**first, "id": f"mem_{name}_2", "parentId": secret, "version": 2}
    ok(api.post("import", exportData=export(name, memories=[{**first, "id": secret, "isLatest": False}, later])))
    results = httpx.get(f"{doors.agentmemory}/v1/memories/{secret}", headers=ada, timeout=60).json()
    assert (results["content"], results["is_latest"]) == (fields["content"], True)


@pytest.mark.covers("POST /agentmemory/import")
@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "0.9.8", "0.9.29"])
def test_exports_of_earlier_servers_are_read(api: Api, name: str, version: str):
    assert ok(api.post("import", exportData=export(name, version=version)))["memories"] == 1


@pytest.mark.covers("POST /agentmemory/import")
@pytest.mark.parametrize("version", ["1.0.0", "0.2.0", "0.9", "0.9.30", "", None])
def test_exports_of_unknown_versions_are_not(api: Api, name: str, version: str | None):
    assert "Unsupported export version" in failed(api.post("import", exportData=export(name, version=version)))
    assert of(api.memories(limit=5000), name, "content") == []


@pytest.mark.covers("POST /agentmemory/import", "GET /agentmemory/export")
def test_an_export_of_this_server_is_read(api: Api, name: str):
    version = ok(api.get("export", maxSessions=1))["version"]
    assert ok(api.post("import", exportData=export(name, version=version)))["sessions"] == 1


def transcript(folder: Path, session: str, *texts: str) -> None:
    """A file as a coding agent leaves it."""
    lines = [
        {
            "type": kind, "uuid": f"{session}-{number}", "sessionId": session, "cwd": f"/home/ada/{session}",
            "timestamp": f"2026-01-31T12:00:0{number}.000Z", "message": {"role": kind, "content": text},
        }
        for number, text in enumerate(texts)
        for kind in ["assistant" if number % 2 else "user"]
    ]  # fmt: skip
    (folder / f"{session}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.mark.covers("POST /agentmemory/replay/import-jsonl")
def test_transcripts_are_imported(api: Api, name: str, tmp_path: Path):
    for number in range(2):
        transcript(tmp_path, f"{name}-{number}", "make it fast", "it is")
    with (tmp_path / f"{name}-0.jsonl").open("a") as file:
        file.write("no json\n")
    answer = ok(api.post("replay/import-jsonl", path=str(tmp_path)), 202)
    assert (answer["success"], answer["imported"], answer["observations"]) == (True, 2, 4)
    assert sorted(answer["sessionIds"]) == [f"{name}-0", f"{name}-1"]
    assert (answer["discovered"], answer["truncated"], answer["traversalCapped"]) == (2, False, False)
    assert (answer["maxFiles"], answer["maxFilesUpperBound"]) == (200, 1000)
    assert api.session(f"{name}-0")["firstPrompt"] == "make it fast"
    assert len(api.observations(f"{name}-0")) == 2
    again = ok(api.post("replay/import-jsonl", path=str(tmp_path)), 202)
    assert (again["imported"], again["observations"]) == (2, 0)
    failed(api.post("replay/import-jsonl", path=str(tmp_path / "nothing")))


@pytest.mark.covers("POST /agentmemory/replay/import-jsonl")
def test_a_transcript_outside_of_the_folders_of_the_settings_is_not_imported(api: Api, name: str, tmp_path: Path):
    """Whichever way the path leads there."""
    transcript(tmp_path, name, "go")
    outside = tmp_path / "link"
    outside.symlink_to("/usr")
    upwards = f"{tmp_path}{'/..' * len(tmp_path.parts)}/etc"
    for path in ("/etc", "/etc/passwd", "~", upwards, str(outside), "/nothing/there"):
        answer = api.post("replay/import-jsonl", path=path)
        assert answer.status_code == 403, path
        assert "MNEMOLOG_IMPORT_FOLDERS" in answer.text
    refused(api.post("replay/import-jsonl", path="a\0b"))
    body = ok(api.post("replay/import-jsonl", path=str(tmp_path / f"{name}.jsonl")), 202)
    assert body["observations"] == 1


@pytest.mark.covers("POST /agentmemory/replay/import-jsonl")
def test_no_more_transcripts_are_imported_than_asked_for(api: Api, name: str, tmp_path: Path):
    for number in range(3):
        transcript(tmp_path, f"{name}-{number}", "go")
    answer = ok(api.post("replay/import-jsonl", path=str(tmp_path), maxFiles=2), 202)
    assert (answer["imported"], answer["maxFiles"], answer["truncated"]) == (2, 2, True)
    for wrong in (0, "many"):
        refused(api.post("replay/import-jsonl", path=str(tmp_path), maxFiles=wrong))


@pytest.mark.covers("GET /agentmemory/replay/sessions")
def test_what_can_be_played_back_is_listed(api: Api, name: str):
    api.start(name)
    api.observe(name, tool_name="Bash")
    answer = ok(api.get("replay/sessions"))
    assert answer["success"] is True
    assert name in [session["id"] for session in answer["sessions"]]


@pytest.mark.covers("GET /agentmemory/replay/load")
def test_a_session_is_played_back(api: Api, name: str):
    times = ("2026-01-31T12:00:00.000Z", "2026-01-31T12:00:05.000Z")
    api.hook(name, "prompt_submit", timestamp=times[0], data={"prompt": "make it fast"})
    tool = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_output": "ok"}
    api.hook(name, "post_tool_use", timestamp=times[1], data=tool)
    answer = ok(api.get("replay/load", sessionId=name))
    assert (answer["success"], answer["session"]["id"]) == (True, name)
    film = answer["timeline"]
    assert (film["sessionId"], film["startedAt"], film["eventCount"]) == (name, times[0], 2)
    assert film["totalDurationMs"] >= 5000
    first, second = film["events"]
    required = {"id", "sessionId", "ts", "offsetMs", "durationMs", "kind", "label"}
    assert first.keys() & second.keys() >= required
    assert (first["sessionId"], first["ts"], first["offsetMs"], second["offsetMs"]) == (name, times[0], 0, 5000)
    assert "make it fast" in first["body"]
    assert (second["toolName"], second["toolInput"], second["toolOutput"]) == ("Bash", {"command": "make"}, "ok")


@pytest.mark.covers("GET /agentmemory/replay/load")
def test_a_session_is_played_back_in_the_order_of_its_times(api: Api, name: str):
    for second in (20, 0, 5):
        at = f"2026-01-31T12:00:{second:02}.000Z"
        api.hook(name, "post_tool_use", timestamp=at, data={"tool_name": f"Tool{second}", "tool_input": second})
    film = ok(api.get("replay/load", sessionId=name))["timeline"]
    assert (film["eventCount"], film["totalDurationMs"]) == (3, 20_000)
    played = [(event["offsetMs"], event["durationMs"], event["label"], event["toolInput"]) for event in film["events"]]
    assert played == [(0, 5_000, "Tool0", 0), (5_000, 15_000, "Tool5", 5), (20_000, 0, "Tool20", 20)]


@pytest.mark.covers("POST /agentmemory/antigravity/sync")
@pytest.mark.parametrize("mode", ["current_session", "current_folder", "all"])
def test_conversations_that_are_not_there_are_not_synced(api: Api, name: str, mode: str):
    answer = ok(api.post("antigravity/sync", mode=mode, currentConversationId=name, currentFolder=f"/{name}"))
    assert (answer["syncedSessions"], answer["observationsAdded"]) == ([], 0)
    assert answer["success"] is True or isinstance(answer["error"], str)
