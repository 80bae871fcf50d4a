"""Memories one at a time: stored, read, deleted.

Lists: what is in them, in which order, a page at a time.

Who finds what. Searches ask who asks; lists, reads and deletions do not, for the command line cannot say it there.

So this door shows private memories to whoever can reach its port, on every path but the search. That is agentd's own
behaviour; MNEMOLOG_AGENTD_STRICT ends it, and the second half here is about that.
"""

import itertools
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contracts.agentd.conftest import Guarded, Remember, at_once

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
        "content": f"The sky over {name} is blue", "type": "question", "tags": ["sky", "blue"], "created_by": name,
        "visibility": "shared", "shared_with": ["bob", "carol"], "references": ["mem_1_00000000"],
    }  # fmt: skip
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
def test_content_and_creator_are_enough_and_unknown_keys_are_ignored(agentd: httpx.Client, name: str):
    required = {"content": name, "created_by": "ada"}
    stored = agentd.post("/memories", json={**required, "score": 3, "owner": "somebody"}).json()
    assert stored.keys() == FIELDS
    defaults: dict[str, Any] = {
        "type": "information",
        "tags": [],
        "visibility": "public",
        "shared_with": [],
        "references": [],
    }
    assert {key: stored[key] for key in required | defaults} == required | defaults


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
def test_many_at_once_are_all_kept(agentd: httpx.Client, name: str):
    answers = at_once(agentd, [f"{name} {n}" for n in range(40)], name)
    assert {answer.status_code for answer in answers} == {201}
    page = agentd.get("/memories", params={"tag": name}).json()
    assert page["total"] == 40
    assert {item["id"] for item in page["items"]} == {answer.json()["id"] for answer in answers}


INVALID: list[tuple[str, dict[str, Any]]] = [
    *(("/memories", {"content": content, "created_by": "ada"}) for content in (" \n", "")),
    *(("/memories", {"content": "text", "created_by": creator}) for creator in ("", "  ")),
    *(("/memories", body) for body in ({"content": "text"}, {"created_by": "ada"}, {})),
    *(("/memories/search", body) for body in ({"query": " "}, {"query": ""}, {}, {"limit": 3})),
]
UNFIT: dict[str, tuple[dict[str, Any], list[tuple[str, Any]]]] = json.loads(
    Path(__file__).with_name("unfit.json").read_text()
)


@pytest.mark.covers("POST /memories", "POST /memories/search")
@pytest.mark.parametrize(("path", "body"), INVALID)
def test_a_memory_or_a_search_without_what_it_needs_is_refused(agentd: httpx.Client, path: str, body: dict[str, Any]):
    answer = agentd.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("invalid input: ")


@pytest.mark.covers("POST /memories", "POST /memories/search")
@pytest.mark.parametrize(
    ("path", "field", "value"), [(path, *case) for path, (_, cases) in UNFIT.items() for case in cases]
)
def test_a_value_that_does_not_fit_is_refused_and_named(agentd: httpx.Client, path: str, field: str, value: Any):
    answer = agentd.post(path, json={**UNFIT[path][0], field: value})
    assert answer.status_code == 422
    assert field in answer.json()["error"]


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


def contents(page: dict[str, Any]) -> list[str]:
    return [item["content"] for item in page["items"]]


@pytest.mark.covers("GET /memories")
def test_the_newest_are_first_and_there_at_once(agentd: httpx.Client, remember: Remember, name: str):
    """Also with a slash at the end of the path; an offset behind the end is an empty page; no tags are no filter."""
    stored: list[dict[str, Any]] = []
    for number in range(5):
        stored.insert(0, remember(f"number {number}", created_by=f"agent-{number}"))
        answer = agentd.get("/memories", params={"tag": name})
        assert answer.status_code == 200
        assert answer.json() == {"items": stored, "total": number + 1, "limit": 50, "offset": 0}
    assert agentd.get("/memories/", params={"tag": name}, follow_redirects=True).json()["total"] == 5
    for offset in (5, 10_000_000_000_000):
        page = agentd.get("/memories", params={"tag": name, "offset": offset}).json()
        assert page == {"items": [], "total": 5, "limit": 50, "offset": offset}
    assert agentd.get("/memories", params={"tag": " , "}).json()["total"] >= 1


@pytest.mark.covers("GET /memories")
def test_the_limit_is_clamped_and_echoed(agentd: httpx.Client, remember: Remember, name: str):
    remember("a")
    remember("b")
    for limit, echoed in (("0", 1), ("1", 1), ("200", 200), ("201", 200), ("999999999999", 200)):
        page = agentd.get("/memories", params={"tag": name, "limit": limit}).json()
        assert (page["limit"], len(page["items"]), page["total"]) == (echoed, min(2, echoed), 2)


@pytest.mark.covers("GET /memories")
def test_pages_are_stable_also_within_a_moment(agentd: httpx.Client, name: str):
    """By time, then by id, the greatest first; pages of any size put together are the whole list."""
    at_once(agentd, [str(n) for n in range(60)], name)
    whole = agentd.get("/memories", params={"tag": name, "limit": 200}).json()["items"]
    keys = [(datetime.fromisoformat(item["created_at"]), item["id"]) for item in whole]
    assert len(keys) == 60
    assert keys == sorted(keys, reverse=True)
    for size in (1, 7, 25):
        pages = [
            agentd.get("/memories", params={"tag": name, "limit": size, "offset": offset}).json()
            for offset in range(0, 60, size)
        ]
        assert [item for page in pages for item in page["items"]] == whole
        assert {page["total"] for page in pages} == {60}


@pytest.mark.covers("GET /memories")
def test_filters_are_all_needed_and_any_tag_will_do(agentd: httpx.Client, remember: Remember, name: str):
    first, two, three = f"{name}-1", f"{name}-2", f"{name}-3"
    remember("first", type="question", tags=[first], created_by=f"{name}-ada")
    remember("second", type="request", tags=[two], created_by=f"{name}-bob", visibility="private")
    remember("third", tags=[three, f"{first},{two}"], created_by=f"{name}-Ada", visibility="shared", shared_with=["x"])

    def listed(**query: str) -> list[str]:
        return contents(agentd.get("/memories", params={"tag": name, **query}).json())

    assert listed() == ["third", "second", "first"]
    assert listed(tag=f" {first} ,, {two},") == ["second", "first"]
    assert listed(tag=f"{three}") == ["third"]
    assert listed(type="QUESTION") == ["first"]
    assert listed(type="information") == ["third"]
    assert listed(created_by=f"{name}-ada") == ["first"]
    assert listed(created_by=f"{name}-nobody") == []
    assert listed(created_by="") == []
    assert listed(visibility="Private") == ["second"]
    assert listed(visibility="shared") == ["third"]
    assert listed(visibility="public") == ["first"]
    assert listed(visibility="public", type="request") == []
    assert listed(type="request", created_by=f"{name}-bob", visibility="private", tag=two) == ["second"]


@pytest.mark.covers("GET /memories")
@pytest.mark.parametrize(
    ("key", "value"),
    [("type", "fact"), ("visibility", "secret"), *(("limit", value) for value in ("-1", "many", "1.5", "")),
     ("offset", "-1"), ("offset", "far")],
)  # fmt: skip
def test_a_parameter_that_does_not_fit_is_bad_input(agentd: httpx.Client, key: str, value: str):
    answer = agentd.get("/memories", params={key: value})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("invalid input: ")
    assert key in answer.json()["error"]


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
