"""Memories one at a time: stored, read, deleted."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.contracts.agentd.conftest import Remember, at_once

FIELDS = {
    "id", "content", "type", "tags", "created_by", "created_at", "updated_at", "visibility", "shared_with",
    "references",
}  # fmt: skip
ID = re.compile(r"mem_[0-9]{13}_[0-9a-f]{8}")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.covers("POST /memories")
def test_a_memory_is_answered_whole(agentd: httpx.Client, name: str):
    body = {
        "content": f"The sky over {name} is blue",
        "type": "question",
        "tags": ["sky", "blue"],
        "created_by": name,
        "visibility": "shared",
        "shared_with": ["bob", "carol"],
        "references": ["mem_1_00000000"],
    }
    answer = agentd.post("/memories", json=body)
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    stored = answer.json()
    assert stored.keys() == FIELDS
    assert {key: stored[key] for key in body} == body
    assert ID.fullmatch(stored["id"])
    assert stored["created_at"] == stored["updated_at"]
    assert abs(moment(stored["created_at"]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert stored["id"].split("_")[1] == str(round(moment(stored["created_at"]).timestamp() * 1000))


@pytest.mark.covers("POST /memories")
def test_content_and_creator_are_enough(agentd: httpx.Client, name: str):
    stored = agentd.post("/memories", json={"content": name, "created_by": "ada"}).json()
    del stored["id"], stored["created_at"], stored["updated_at"]
    assert stored == {
        "content": name,
        "type": "information",
        "tags": [],
        "created_by": "ada",
        "visibility": "public",
        "shared_with": [],
        "references": [],
    }


@pytest.mark.covers("POST /memories", "GET /memories/{id}")
def test_what_is_read_is_what_was_stored(agentd: httpx.Client, remember: Remember):
    stored = remember(
        "  padded\n\ttext \u00e9\U0001f680  ", type="request", tags=["a,b", "", " c "], shared_with=["x,y"]
    )
    assert stored["content"] == "  padded\n\ttext \u00e9\U0001f680  "
    assert stored["tags"][1:] == ["a,b", "", " c "]
    assert stored["shared_with"] == ["x,y"]
    answer = agentd.get(f"/memories/{stored['id']}")
    assert (answer.status_code, answer.json()) == (200, stored)


@pytest.mark.covers("POST /memories")
def test_the_same_text_again_is_another_memory(agentd: httpx.Client, remember: Remember, name: str):
    first, second = remember(f"{name} says the same"), remember(f"{name} says the same")
    assert first["id"] != second["id"]
    assert agentd.get("/memories", params={"tag": name}).json()["total"] == 2
    assert agentd.get(f"/memories/{first['id']}").json() == first


@pytest.mark.covers("POST /memories")
def test_unknown_keys_are_ignored(remember: Remember):
    assert remember("text", score=3, owner="somebody").keys() == FIELDS


@pytest.mark.covers("POST /memories")
def test_many_at_once_are_all_kept(agentd: httpx.Client, name: str):
    answers = at_once(agentd, [f"{name} {n}" for n in range(40)], name)
    assert {answer.status_code for answer in answers} == {201}
    page = agentd.get("/memories", params={"tag": name}).json()
    assert page["total"] == 40
    assert {item["id"] for item in page["items"]} == {answer.json()["id"] for answer in answers}


@pytest.mark.covers("POST /memories")
@pytest.mark.parametrize(
    "body",
    [
        {"content": " \n", "created_by": "ada"},
        {"content": "", "created_by": "ada"},
        {"content": "text", "created_by": ""},
        {"content": "text", "created_by": "  "},
        {"content": "text"},
        {"created_by": "ada"},
        {},
    ],
)
def test_a_memory_without_content_or_creator_is_refused(agentd: httpx.Client, body: dict[str, Any]):
    answer = agentd.post("/memories", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("invalid input: ")


@pytest.mark.covers("POST /memories")
@pytest.mark.parametrize(
    "change",
    [
        {"content": 7},
        {"content": None},
        {"created_by": ["ada"]},
        {"type": "Question"},
        {"type": "fact"},
        {"type": None},
        {"tags": None},
        {"tags": "a,b"},
        {"tags": [1]},
        {"visibility": "secret"},
        {"visibility": "PUBLIC"},
        {"shared_with": None},
        {"references": {}},
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_named(agentd: httpx.Client, change: dict[str, Any]):
    answer = agentd.post("/memories", json={"content": "text", "created_by": "ada", **change})
    assert answer.status_code == 422
    assert next(iter(change)) in answer.json()["error"]


@pytest.mark.covers("POST /memories", "POST /memories/search", "PUT /memories/{id}/visibility")
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/memories"), ("POST", "/memories/search"), ("PUT", "/memories/mem_1/visibility")]
)
def test_a_body_is_json_and_says_so(agentd: httpx.Client, method: str, path: str):
    malformed = agentd.request(method, path, content=b"{")
    assert malformed.status_code == 400
    assert "not JSON" in malformed.json()["error"]
    assert agentd.request(method, path, content=b"").status_code == 400
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        other = agentd.request(method, path, content=b"{}", headers={"Content-Type": kind})
        assert other.status_code == 415
        assert isinstance(other.json()["error"], str)
    assert agentd.request(method, path, content=b"[]").status_code == 422


@pytest.mark.covers("POST /memories")
def test_a_body_over_two_mebibytes_is_refused(agentd: httpx.Client):
    answer = agentd.post("/memories", json={"content": "x" * (2 << 20), "created_by": "ada"})
    assert answer.status_code == 413
    assert isinstance(answer.json()["error"], str)


@pytest.mark.covers("POST /memories")
def test_a_long_text_is_kept_whole(agentd: httpx.Client, remember: Remember):
    text = "word " * 100_000
    assert agentd.get(f"/memories/{remember(text)['id']}").json()["content"] == text


@pytest.mark.covers("POST /memories")
def test_half_a_surrogate_pair_is_no_crash(agentd: httpx.Client):
    answer = agentd.post("/memories", content=rb'{"content": "cut \ud83d", "created_by": "ada"}')
    assert answer.status_code == 201
    assert answer.json()["content"].startswith("cut ")


@pytest.mark.covers("GET /memories/{id}")
def test_a_memory_that_is_not_there_is_not_found(agentd: httpx.Client):
    for unknown in ("mem_1700000000000_deadbeef", "mem_0123456789abcdef0123", "nothing"):
        answer = agentd.get(f"/memories/{unknown}")
        assert (answer.status_code, answer.json()) == (404, {"error": "not found"})


@pytest.mark.covers("GET /memories/{id}", "DELETE /memories/{id}", "PUT /memories/{id}/visibility")
@pytest.mark.parametrize("bad", ["a%20b", "a.b", "a%3Ab", "%C3%A9", "a'b", "a%00"])
def test_an_id_with_other_characters_is_bad_input(agentd: httpx.Client, bad: str):
    answers = [
        agentd.get(f"/memories/{bad}"),
        agentd.delete(f"/memories/{bad}"),
        agentd.put(f"/memories/{bad}/visibility", json={"visibility": "public"}),
    ]
    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert all(answer.json()["error"].startswith("invalid input: ") for answer in answers)


@pytest.mark.covers("DELETE /memories/{id}", "GET /memories/{id}")
def test_deleting_says_whether_there_was_something(agentd: httpx.Client, remember: Remember, name: str):
    stored, other = remember(f"{name} gone"), remember(f"{name} stays", references=["mem_1_00000000"])
    first, second = agentd.delete(f"/memories/{stored['id']}"), agentd.delete(f"/memories/{stored['id']}")
    assert (first.status_code, first.json()) == (200, {"deleted": True})
    assert (second.status_code, second.json()) == (200, {"deleted": False})
    assert agentd.delete("/memories/mem_1_00000000").json() == {"deleted": False}
    assert agentd.get(f"/memories/{stored['id']}").status_code == 404
    assert [item["id"] for item in agentd.get("/memories", params={"tag": name}).json()["items"]] == [other["id"]]
    results = agentd.post("/memories/search", json={"query": f"{name} gone", "tags": [name]}).json()
    assert [item["id"] for item in results["memories"]] == [other["id"]]


@pytest.mark.covers("DELETE /memories/{id}")
def test_references_to_what_was_deleted_stay(agentd: httpx.Client, remember: Remember):
    gone = remember("first")
    left = remember("second", references=[gone["id"]])
    agentd.delete(f"/memories/{gone['id']}")
    assert agentd.get(f"/memories/{left['id']}").json()["references"] == [gone["id"]]


@pytest.mark.covers("GET /memories/{id}", "DELETE /memories/{id}")
def test_memories_of_other_projects_are_not_here(agentd: httpx.Client, doors: Any, name: str):
    native = httpx.post(
        f"{doors.agentmemory}/v1/memories", json={"content": name, "tags": [name]}, trust_env=False, timeout=60
    )
    existing = native.json()["id"]
    assert agentd.get(f"/memories/{existing}").status_code == 404
    assert agentd.delete(f"/memories/{existing}").json() == {"deleted": False}
    assert agentd.get("/memories", params={"tag": name}).json()["total"] == 0


@pytest.mark.covers("GET /memories/{id}", "GET /memories")
def test_what_another_door_writes_into_the_project_is_here(agentd: httpx.Client, doors: Any, name: str):
    """Under our own id; its owner is told, because that is not its creator."""
    body = {"content": name, "tags": [name], "project": "agentd", "agent_id": "ada", "owner": "olga"}
    native = httpx.post(f"{doors.agentmemory}/v1/memories", json=body, trust_env=False, timeout=60).json()
    httpx.post(
        f"{doors.agentmemory}/v1/recall", json={"query": name, "after": native["position"]}, trust_env=False, timeout=60
    )
    (listed,) = agentd.get("/memories", params={"tag": name}).json()["items"]
    assert (listed["id"], listed["owner"], listed["created_by"]) == (native["id"], "olga", "ada")
    assert agentd.get(f"/memories/{native['id']}").json() == listed
