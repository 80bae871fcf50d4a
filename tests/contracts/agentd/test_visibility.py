"""Who finds what. Searches ask who asks; lists, reads and deletions do not, for the command line cannot say it there.

So this door shows private memories to whoever can reach its port, on every path but the search. That is agentd's own
behaviour; MNEMOLOG_AGENTD_STRICT ends it, and the second half here is about that.
"""

import itertools
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.contracts.agentd.conftest import Guarded, Remember

CREATOR, FRIEND, STRANGER = "carol", "sam", "zoe"
ACTORS: tuple[str | None, ...] = (None, "", CREATOR, FRIEND, STRANGER, "Carol", f"{CREATOR},{FRIEND}")
FINDS: dict[str, set[str | None]] = {
    "public": set(ACTORS),
    "shared": {CREATOR, FRIEND},
    "private": {CREATOR},
}


def found(client: httpx.Client, query: str, tag: str, actor: str | None) -> set[str]:
    body: dict[str, Any] = {"query": query, "tags": [tag], "limit": 50}
    if actor is not None:
        body["as_actor"] = actor
    return {memory["id"] for memory in client.post("/memories/search", json=body).json()["memories"]}


@pytest.mark.covers("POST /memories/search", "GET /memories", "GET /memories/{id}", "DELETE /memories/{id}")
@pytest.mark.parametrize("level", FINDS)
def test_only_a_search_asks_who_asks(agentd: httpx.Client, remember: Remember, name: str, level: str):
    stored = remember("a secret", visibility=level, created_by=CREATOR, shared_with=[FRIEND, "x,y"])
    for actor in (*ACTORS, "x", "y"):
        assert (stored["id"] in found(agentd, "a secret", name, actor)) == (actor in FINDS[level] or level == "public")
    assert (stored["id"] in found(agentd, "a secret", name, "x,y")) == (level != "private")
    assert agentd.get("/memories", params={"tag": name}).json()["items"] == [stored]
    assert agentd.get(f"/memories/{stored['id']}").json() == stored
    assert agentd.delete(f"/memories/{stored['id']}").json() == {"deleted": True}


@pytest.mark.covers("PUT /memories/{id}/visibility")
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(FINDS, 2)))
def test_a_changed_visibility_counts_at_once(
    agentd: httpx.Client, remember: Remember, name: str, before: str, after: str
):
    stored = remember("a secret", visibility=before, created_by=CREATOR)
    answer = agentd.put(f"/memories/{stored['id']}/visibility", json={"visibility": after, "shared_with": [FRIEND]})
    changed = answer.json()
    assert answer.status_code == 200
    assert changed == stored | {"visibility": after, "shared_with": [FRIEND], "updated_at": changed["updated_at"]}
    assert datetime.fromisoformat(changed["updated_at"]) > datetime.fromisoformat(stored["updated_at"])
    assert agentd.get(f"/memories/{stored['id']}").json() == changed
    for level in FINDS:
        listed = agentd.get("/memories", params={"tag": name, "visibility": level}).json()["items"]
        assert listed == ([changed] if level == after else [])
    for actor in ACTORS:
        assert (stored["id"] in found(agentd, "a secret", name, actor)) == (actor in FINDS[after])


@pytest.mark.covers("PUT /memories/{id}/visibility")
def test_the_list_of_readers_is_kept_unless_another_is_given(agentd: httpx.Client, remember: Remember):
    stored = remember("text", shared_with=["a", "b,c"])
    path = f"/memories/{stored['id']}/visibility"

    def put(**body: Any) -> list[str]:
        return agentd.put(path, json=body).json()["shared_with"]

    assert put(visibility="private") == ["a", "b,c"]
    assert put(visibility="shared", shared_with=None) == ["a", "b,c"]
    assert put(visibility="public", shared_with=["d"]) == ["d"]
    assert put(visibility="shared", shared_with=[]) == []
    assert agentd.get(f"/memories/{stored['id']}").json()["shared_with"] == []


@pytest.mark.covers("PUT /memories/{id}/visibility")
def test_who_says_who_they_are_must_be_the_creator(agentd: httpx.Client, remember: Remember):
    stored = remember("text", created_by=CREATOR, visibility="private", shared_with=[FRIEND])
    path = f"/memories/{stored['id']}/visibility"
    for actor in (FRIEND, STRANGER, "Carol", ""):
        answer = agentd.put(path, json={"visibility": "public", "as_actor": actor})
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("invalid input: ")
    assert agentd.get(f"/memories/{stored['id']}").json() == stored
    for body in ({"as_actor": CREATOR}, {"as_actor": None}, {}):
        assert agentd.put(path, json={"visibility": "shared", **body}).status_code == 200


@pytest.mark.covers("PUT /memories/{id}/visibility")
def test_the_owner_may_change_it_too(agentd: httpx.Client, doors: Any, name: str):
    body = {"content": name, "project": "agentd", "agent_id": CREATOR, "owner": "olga"}
    native = httpx.post(f"{doors.agentmemory}/v1/memories", json=body, trust_env=False, timeout=60).json()
    path = f"/memories/{native['id']}/visibility"
    changed = agentd.put(path, json={"visibility": "private", "as_actor": "olga"})
    assert (changed.status_code, changed.json()["owner"]) == (200, "olga")


@pytest.mark.covers("PUT /memories/{id}/visibility")
def test_a_change_that_cannot_be_is_refused(agentd: httpx.Client, remember: Remember):
    path = f"/memories/{remember('text')['id']}/visibility"
    refused: list[dict[str, Any]] = [
        {"visibility": "secret"}, {"visibility": "Public"}, {"visibility": None}, {"shared_with": []}, {},
    ]  # fmt: skip
    for body in refused:
        answer = agentd.put(path, json=body)
        assert answer.status_code == 400
        assert "visibility" in answer.json()["error"]
    for body in ({"shared_with": "a"}, {"shared_with": [1]}, {"as_actor": 1}):
        assert agentd.put(path, json={"visibility": "public", **body}).status_code == 422
    absent = agentd.put("/memories/mem_1700000000000_deadbeef/visibility", json={"visibility": "public"})
    assert (absent.status_code, absent.json()) == (404, {"error": "not found"})


@pytest.mark.parametrize("level", FINDS)
def test_a_strict_door_shows_only_what_the_actor_may_find(guarded: Guarded, level: str, name: str):
    body = {"content": "a secret", "created_by": CREATOR, "visibility": level, "shared_with": [FRIEND], "tags": [name]}
    stored = guarded.client.post("/memories", json=body).json()
    for actor in ACTORS:
        may = actor in FINDS[level]
        query = {} if actor is None else {"as_actor": actor}
        assert guarded.client.get(f"/memories/{stored['id']}", params=query).status_code == (200 if may else 404)
        page = guarded.client.get("/memories", params={"tag": name, **query}).json()
        assert (page["items"], page["total"]) == (([stored], 1) if may else ([], 0))
        assert (stored["id"] in found(guarded.client, "a secret", name, actor)) == may
    for actor in (None, STRANGER):
        query = {} if actor is None else {"as_actor": actor}
        change = guarded.client.put(f"/memories/{stored['id']}/visibility", json={"visibility": "public", **query})
        assert change.status_code in (400, 404)
        if level != "public":
            assert guarded.client.delete(f"/memories/{stored['id']}", params=query).json() == {"deleted": False}
    if level == "shared":
        assert guarded.client.delete(f"/memories/{stored['id']}", params={"as_actor": FRIEND}).status_code == 400
    assert guarded.client.delete(f"/memories/{stored['id']}", params={"as_actor": CREATOR}).json() == {"deleted": True}


def test_without_an_embedder_memories_are_found_by_their_words(guarded: Guarded, name: str):
    for text in ("the kettle is broken", "release on friday", "the broken kettle was replaced on friday"):
        answer = guarded.client.post("/memories", json={"content": text, "created_by": CREATOR, "tags": [name]})
        assert answer.status_code == 201
    answer = guarded.client.post("/memories/search", json={"query": "broken kettle friday", "tags": [name], "limit": 1})
    assert answer.status_code == 200
    assert [memory["content"] for memory in answer.json()["memories"]] == ["the broken kettle was replaced on friday"]
