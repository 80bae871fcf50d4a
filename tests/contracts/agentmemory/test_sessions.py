"""Sessions: how they begin and end, and how they are listed.

Commits and the sessions they were made in.
"""

from datetime import datetime
from typing import Any

import pytest

from tests.acceptance.running import Doors, run_job
from tests.contracts.agentmemory.calling import WHEN, Api, Json, ok
from tests.support.waiting import wait_until

LATER = "2100-01-01T00:00:00.000Z"


@pytest.mark.covers("POST /agentmemory/session/start")
def test_a_started_session_is_answered_whole(api: Api, name: str):
    answer = ok(api.post("session/start", sessionId=name, project=f"/src/{name}", cwd="/src"))
    session = answer["session"]
    assert (session["id"], session["project"], session["cwd"]) == (name, f"/src/{name}", "/src")
    assert (session["status"], session["observationCount"]) == ("active", 0)
    assert datetime.fromisoformat(session["startedAt"])
    assert isinstance(answer["context"], str)


@pytest.mark.covers("POST /agentmemory/session/start")
def test_without_a_title_there_is_no_first_prompt(api: Api, name: str):
    assert not api.start(name, title=None).get("firstPrompt")


@pytest.mark.covers("POST /agentmemory/session/start")
def test_starting_again_goes_on_where_it_was(api: Api, name: str):
    first = api.start(name, title="Fix  the login")
    assert first["summary"] == "Fix  the login"
    api.hook(name, "notification", timestamp=LATER)
    ok(api.post("session/end", sessionId=name))
    assert api.session(name)["status"] == "completed"
    again = api.start(name, title=None)
    assert again["firstPrompt"] == "Fix  the login"
    assert "endedAt" not in again
    assert (again["startedAt"], again["status"], again["observationCount"]) == (first["startedAt"], "active", 1)


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/sessions")
@pytest.mark.xfail(strict=True, reason="an observation from before the start moves the start back")
def test_an_observation_does_not_move_the_start_of_its_session(api: Api, name: str):
    first = api.start(name)
    api.hook(name, "notification", timestamp="2020-01-01T00:00:00.000Z")
    assert api.session(name)["startedAt"] == first["startedAt"]


@pytest.mark.covers("POST /agentmemory/session/end")
def test_an_ended_session_is_completed_and_has_an_end(api: Api, name: str):
    api.start(name)
    assert "endedAt" not in api.session(name)
    assert ok(api.post("session/end", sessionId=name)) == {"success": True}
    row = api.session(name)
    assert row["status"] == "completed"
    assert datetime.fromisoformat(row["endedAt"]) >= datetime.fromisoformat(row["startedAt"])


@pytest.mark.covers("POST /agentmemory/session/end")
def test_an_unknown_session_ends_without_a_fault(api: Api, name: str):
    assert ok(api.post("session/end", sessionId=name)) == {"success": True}
    assert name not in [session["id"] for session in ok(api.get("sessions"))["sessions"]]


@pytest.mark.covers("POST /agentmemory/session/end")
def test_a_session_ends_with_every_turn_and_still_takes_observations(api: Api, name: str):
    api.start(name)
    for count in (1, 2):
        api.observe(name, tool_name="Bash")
        ok(api.post("session/end", sessionId=name))
        assert api.session(name)["observationCount"] == count
        assert api.session(name)["status"] == "completed"


@pytest.mark.covers("POST /agentmemory/session/end", "GET /agentmemory/sessions")
async def test_a_session_that_ends_is_summarised_by_the_worker(doors: Doors, api: Api, name: str):
    api.start(name)
    for tool in ("Edit", "Bash", "Read"):
        api.observe(name, tool_name=tool, tool_input={"file_path": "src/pool.py"}, tool_output="done")
    ok(api.post("session/end", sessionId=name))
    await run_job(doors.server, "summarise")

    def summarised() -> bool:
        return "keyDecisions" in (api.session(name).get("summary") or "")

    await wait_until(summarised, 120)


@pytest.mark.covers("GET /agentmemory/sessions")
def test_the_newest_session_comes_first(api: Api, name: str):
    for day in (2, 3, 1):
        api.hook(f"{name}-{day}", "notification", timestamp=f"2026-01-0{day}T00:00:00.000Z")
    listed = ok(api.get("sessions"))["sessions"]
    assert [row["id"] for row in listed if row["id"].startswith(name)] == [f"{name}-{day}" for day in (3, 2, 1)]


@pytest.mark.covers("GET /agentmemory/sessions")
def test_as_many_sessions_are_listed_as_asked_for_to_every_agent(api: Api, name: str):
    """As long as agents are not isolated."""
    for number in range(3):
        api.start(f"{name}-{number}", agentId="ada")
    assert len(ok(api.get("sessions", limit=2))["sessions"]) == 2
    for query in ({}, {"agentId": "ada"}, {"agentId": "bob"}, {"agentId": "*"}):
        listed = {session["id"] for session in ok(api.get("sessions", **query))["sessions"]}
        assert listed >= {f"{name}-{number}" for number in range(3)}, query


@pytest.mark.covers("GET /agentmemory/sessions", "POST /agentmemory/summarize")
def test_the_summary_of_a_session_becomes_an_object(api: Api, name: str):
    api.start(name, title="Fix the pool")
    api.observe(name, tool_name="Edit", tool_input={"file_path": "pool.py"}, tool_output="done")
    assert api.session(name)["summary"] == "Fix the pool"
    summary = ok(api.post("summarize", sessionId=name))["summary"]
    assert api.session(name)["summary"]["title"] == summary["title"]
    assert api.session(name)["firstPrompt"] == "Fix the pool"


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/sessions")
@pytest.mark.parametrize(
    ("observed", "project", "cwd"),
    [
        ([{"project": "/src/{name}", "cwd": "/src"}], "/src/{name}", "/src"),
        ([{"project": "a", "cwd": "/a"}, {"project": "b", "cwd": "/b"}, {"project": "", "cwd": ""}], "a", "/a"),
        ([dict[str, Any]()], "unknown", ""),
        ([{"project": "", "cwd": ""}], "unknown", ""),
        ([{"project": None, "cwd": None}], "unknown", ""),
    ],
)
def test_a_session_begins_with_its_first_observation_and_has_its_project_and_folder(
    api: Api, name: str, observed: list[dict[str, Any]], project: str, cwd: str
):
    for fields in observed:
        ok(api.post("observe", sessionId=name, hookType="notification", timestamp=WHEN, **fields), 201)
    row = api.session(name)
    assert (row["project"], row["cwd"], row["status"]) == (project, cwd, "active")
    assert (row["observationCount"], row["startedAt"]) == (len(observed), WHEN)


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/sessions")
def test_the_first_prompt_is_kept_in_one_line_of_200_characters(api: Api, name: str):
    api.observe(name, tool_name="Bash")
    api.hook(name, "prompt_submit", data={"prompt": "Fix \n the\t\tpool " + "x" * 300})
    api.hook(name, "prompt_submit", data={"prompt": "and now the log"})
    assert api.session(name)["firstPrompt"] == ("Fix the pool " + "x" * 300)[:200]


@pytest.mark.covers("POST /agentmemory/session/commit", "GET /agentmemory/sessions")
def test_the_commits_of_a_session_are_listed_with_it(api: Api, name: str):
    api.start(name)
    for sha in (f"{name}-a", f"{name}-b", f"{name}-a"):
        ok(api.post("session/commit", sha=sha, sessionId=name))
    assert sorted(api.session(name)["commitShas"]) == [f"{name}-a", f"{name}-b"]


def link(api: Api, sha: str, **fields: Any) -> Json:
    return ok(api.post("session/commit", sha=sha, **fields))["commit"]


@pytest.mark.covers("POST /agentmemory/session/commit")
def test_a_commit_is_answered_whole(api: Api, name: str):
    fields: Json = {
        **{"sha": f"{name}0123456789", "branch": "main", "repo": f"git@example.com:{name}.git"},
        **{"message": "Pool: reconnect", "author": "Ada <ada@example.com>", "authoredAt": "2026-01-31T11:00:00.000Z"},
        "files": ["src/pool.py", "README.md"],
    }
    commit = link(api, sessionId=name, **fields)
    assert {key: commit[key] for key in fields} == fields
    assert (commit["shortSha"], commit["sessionIds"]) == (fields["sha"][:7], [name])
    assert commit["linkedAt"]


@pytest.mark.covers("POST /agentmemory/session/commit")
def test_a_commit_told_twice_is_one_that_knows_all_of_both(api: Api, name: str):
    first = link(api, name, sessionId=f"{name}-1", branch="main", message="why")
    second = link(api, name, sessionId=f"{name}-2", repo="r", branch="dev")
    assert second["sessionIds"] == [f"{name}-1", f"{name}-2"]
    assert (second["message"], second["repo"], second["branch"]) == ("why", "r", "dev")
    assert second["linkedAt"] == first["linkedAt"]


def sessions_of(api: Api, name: str, **fields: Any) -> Json:
    """The answer for a commit of two sessions, with the commit as it was linked last under `linked`."""
    for session in (f"{name}-1", f"{name}-2"):
        api.start(session, **fields)
    first, last = (link(api, name, sessionId=session) for session in (f"{name}-1", f"{name}-2"))
    assert first["sha"] == last["sha"]
    return {**ok(api.get("session/by-commit", sha=name)), "linked": last}


@pytest.mark.covers("GET /agentmemory/session/by-commit")
def test_a_commit_leads_to_its_sessions(api: Api, name: str):
    answer = sessions_of(api, name, project=name)
    assert answer["commit"] == answer["linked"]
    sessions = {(session["id"], session["project"]) for session in answer["sessions"]}
    assert sessions == {(f"{name}-1", name), (f"{name}-2", name)}


@pytest.mark.covers("POST /agentmemory/session/commit", "GET /agentmemory/session/by-commit")
@pytest.mark.xfail(strict=True, reason="told from sessions of two projects, a commit is two, each with its own session")
def test_a_commit_is_one_whatever_project_it_is_told_from(api: Api, name: str):
    sessions = sessions_of(api, name)["sessions"]
    assert {session["id"] for session in sessions} == {f"{name}-1", f"{name}-2"}


@pytest.mark.covers("GET /agentmemory/commits")
def test_commits_are_narrowed_and_the_one_linked_last_comes_first(api: Api, name: str):
    for sha, branch in (("a", "main"), ("b", "dev"), ("c", "main")):
        link(api, f"{sha}-{name}", repo=name, branch=branch)
    for options, expected in (({}, "cba"), ({"branch": "main"}, "ca"), ({"branch": "none"}, ""), ({"limit": 1}, "c")):
        listed = ok(api.get("commits", repo=name, **options))["commits"]
        assert "".join(row["sha"][0] for row in listed) == expected, options
