"""Commits and the sessions they were made in."""

from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, ok, refused


@pytest.mark.covers("POST /agentmemory/session/commit")
def test_a_commit_is_answered_whole(api: Api, name: str):
    fields: dict[str, Any] = {
        "sha": f"{name}0123456789",
        "branch": "main",
        "repo": f"git@example.com:{name}.git",
        "message": "Pool: reconnect",
        "author": "Ada <ada@example.com>",
        "authoredAt": "2026-01-31T11:00:00.000Z",
        "files": ["src/pool.py", "README.md"],
    }
    commit = ok(api.post("session/commit", sessionId=name, **fields))["commit"]
    assert {key: commit[key] for key in fields} == fields
    assert commit["shortSha"] == fields["sha"][:7]
    assert commit["sessionIds"] == [name]
    assert commit["linkedAt"]


@pytest.mark.covers("POST /agentmemory/session/commit")
def test_a_sha_is_enough(api: Api, name: str):
    commit = ok(api.post("session/commit", sha=name))["commit"]
    assert (commit["sha"], commit["sessionIds"], commit["files"]) == (name, [], [])


@pytest.mark.covers("POST /agentmemory/session/commit")
@pytest.mark.parametrize("body", [{}, {"sha": ""}, {"sha": None}, {"sessionId": "s", "branch": "main"}])
def test_a_commit_needs_a_sha(api: Api, body: dict[str, Any]):
    refused(api.post("session/commit", **body))


@pytest.mark.covers("POST /agentmemory/session/commit")
def test_a_commit_told_twice_is_one_that_knows_all_of_both(api: Api, name: str):
    first = ok(api.post("session/commit", sha=name, sessionId=f"{name}-1", branch="main", message="why"))["commit"]
    second = ok(api.post("session/commit", sha=name, sessionId=f"{name}-2", repo="r", branch="dev"))["commit"]
    assert second["sessionIds"] == [f"{name}-1", f"{name}-2"]
    assert (second["message"], second["repo"], second["branch"]) == ("why", "r", "dev")
    assert second["linkedAt"] == first["linkedAt"]


@pytest.mark.covers("GET /agentmemory/session/by-commit")
def test_a_commit_leads_to_its_sessions(api: Api, name: str):
    for session in (f"{name}-1", f"{name}-2"):
        api.start(session, project=name)
        commit = ok(api.post("session/commit", sha=name, sessionId=session))["commit"]
    results = ok(api.get("session/by-commit", sha=name))
    assert results["commit"] == commit
    assert {item["id"] for item in results["sessions"]} == {f"{name}-1", f"{name}-2"}
    assert {item["project"] for item in results["sessions"]} == {name}


@pytest.mark.covers("POST /agentmemory/session/commit", "GET /agentmemory/session/by-commit")
@pytest.mark.xfail(strict=True, reason="told from sessions of two projects, a commit is two, each with its own session")
def test_a_commit_is_one_whatever_project_it_is_told_from(api: Api, name: str):
    for session in (f"{name}-1", f"{name}-2"):
        api.start(session)
        ok(api.post("session/commit", sha=name, sessionId=session))
    results = ok(api.get("session/by-commit", sha=name))
    assert {item["id"] for item in results["sessions"]} == {f"{name}-1", f"{name}-2"}


@pytest.mark.covers("GET /agentmemory/session/by-commit")
def test_an_unknown_commit_is_not_found(api: Api, name: str):
    refused(api.get("session/by-commit", sha=name), 404)


@pytest.mark.covers("GET /agentmemory/session/by-commit")
def test_a_commit_is_asked_for_by_its_sha(api: Api):
    refused(api.get("session/by-commit"))


@pytest.mark.covers("GET /agentmemory/commits")
def test_the_commit_linked_last_comes_first(api: Api, name: str):
    for number in range(3):
        ok(api.post("session/commit", sha=f"{name}-{number}", repo=name))
    listed = ok(api.get("commits", repo=name))["commits"]
    assert [row["sha"] for row in listed] == [f"{name}-{number}" for number in (2, 1, 0)]


@pytest.mark.covers("GET /agentmemory/commits")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a", "b", "c"]),
        ({"branch": "main"}, ["a", "c"]),
        ({"branch": "none"}, []),
        ({"limit": 1}, ["c"]),
    ],
)
def test_commits_are_narrowed_by_branch_repository_and_number(
    api: Api, name: str, options: dict[str, Any], expected: list[str]
):
    for sha, branch in (("a", "main"), ("b", "dev"), ("c", "main")):
        ok(api.post("session/commit", sha=f"{sha}-{name}", repo=name, branch=branch))
    listed = ok(api.get("commits", repo=name, **options))["commits"]
    assert sorted(row["sha"][0] for row in listed) == expected
