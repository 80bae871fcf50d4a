"""Commits and the sessions they were made in."""

from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok


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
