"""Actions: work items with dependencies, and what can be done now."""

from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok, refused

FIELDS = {
    "id", "title", "description", "status", "priority", "tags", "createdAt", "updatedAt", "createdBy",
    "sourceObservationIds", "sourceMemoryIds",
}  # fmt: skip


def add(api: Api, title: str, **fields: Any) -> Json:
    return ok(api.post("actions", title=title, **fields), 201)["action"]


def update(api: Api, action: str, **fields: Any) -> Json:
    return ok(api.http.patch(f"/agentmemory/actions/{action}", json=fields))["action"]


def listed(api: Api, **query: Any) -> list[Json]:
    return ok(api.get("actions", **query))["actions"]


def read_action(api: Api, action: str) -> Json:
    (result,) = [row for row in listed(api) if row["id"] == action]
    return result


def status(api: Api, action: str) -> str:
    return read_action(api, action)["status"]


def frontier(api: Api, **query: Any) -> list[str]:
    """The titles of what can be done now."""
    return [item["title"] for item in ok(api.get("frontier", **query))["frontier"]]


@pytest.mark.covers("POST /agentmemory/actions")
def test_an_action_is_answered_whole(api: Api, name: str):
    fields: Json = {
        **{"title": f"Fix {name}", "description": "it leaks", "priority": 7, "status": "pending"},
        **{"tags": ["pool", "ci"], "project": name, "createdBy": "ada", "sessionId": name},
    }
    answer = ok(api.post("actions", **fields), 201)
    assert (answer["success"], answer["edges"]) == (True, [])
    assert answer["action"].keys() >= FIELDS
    assert {key: answer["action"][key] for key in fields} == fields


@pytest.mark.covers("POST /agentmemory/actions", "PATCH /agentmemory/actions/{id}")
@pytest.mark.parametrize("word", ["pending", "active", "done", "completed", "cancelled", "discarded", "blocked"])
def test_the_words_of_all_clients_for_a_status_are_kept_as_sent(api: Api, name: str, word: str):
    assert add(api, name, status=word, project=name)["status"] == word
    action = add(api, f"{name} later", project=name)["id"]
    assert update(api, action, status=word)["status"] == word


@pytest.mark.covers("GET /agentmemory/actions", "POST /agentmemory/actions/update")
def test_actions_are_listed_counted_and_narrowed(api: Api, name: str):
    parent = add(api, "parent", project=name)["id"]
    child = add(api, "child", project=name, parentId=parent)["id"]
    add(api, "finished", project=name, status="done")
    answer = ok(api.get("actions", project=name))
    assert (answer["success"], answer["total"]) == (True, 3)
    assert {action["title"] for action in answer["actions"]} == {"parent", "child", "finished"}
    assert [row["title"] for row in listed(api, project=name, parentId=parent)] == ["child"]
    assert [row["title"] for row in listed(api, project=name, status="done")] == ["finished"]
    assert len(listed(api, project=name, limit=2)) == 2
    assert listed(api, project=f"{name}-other") == []
    update(api, child, status="completed")
    done = ok(api.get("actions", project=name, status="done"))
    assert ({action["title"] for action in done["actions"]}, done["total"]) == ({"child", "finished"}, 2)


@pytest.mark.covers("PATCH /agentmemory/actions/{id}", "POST /agentmemory/actions/update")
@pytest.mark.parametrize("way", ["PATCH", "POST"])
def test_an_action_is_changed(api: Api, name: str, way: str):
    action = add(api, name, project=name)
    for changes in (
        {"title": "Another"}, {"description": "more"}, {"priority": 9}, {"status": "active"}, {"tags": ["x"]},
        {"sessionId": "s2"}, {"result": "it worked"}, {"assignedTo": "bob"},
    ):  # fmt: skip
        if way == "PATCH":
            answer = ok(api.http.patch(f"/agentmemory/actions/{action['id']}", json=changes))
        else:
            answer = ok(api.post("actions/update", actionId=action["id"], **changes))
        assert answer["success"] is True
        changed = answer["action"]
        assert changes.items() <= changed.items()
        rest = {*FIELDS, "project"} - {*changes, "updatedAt"}
        assert {key: changed[key] for key in rest} == {key: action[key] for key in rest}
        assert read_action(api, action["id"]) == changed
        action = changed


@pytest.mark.covers("POST /agentmemory/actions", "PATCH /agentmemory/actions/{id}")
@pytest.mark.parametrize("word", ["done", "completed"])
def test_the_end_of_what_was_required_unblocks(api: Api, name: str, word: str):
    first, other = (add(api, title, project=name)["id"] for title in ("first", "other"))
    edges = [{"type": "requires", "targetActionId": item} for item in (first, other)]
    second = add(api, "second", project=name, edges=edges)["id"]
    update(api, first, status=word)
    assert status(api, second) == "blocked"
    update(api, other, status=word)
    assert status(api, second) == "pending"
    assert frontier(api, project=name) == ["second"]


@pytest.mark.covers("POST /agentmemory/actions", "GET /agentmemory/frontier")
@pytest.mark.parametrize("kind", ["requires", "unlocks", "spawned_by", "gated_by", "conflicts_with"])
def test_two_actions_are_tied(api: Api, name: str, kind: str):
    first = add(api, "first", project=name)["id"]
    edges = [{"type": kind, "targetActionId": first}]
    answer = ok(api.post("actions", title="second", project=name, edges=edges), 201)
    (edge,) = answer["edges"]
    assert (edge["type"], edge["targetActionId"]) == (kind, first)
    assert answer["action"]["status"] == "blocked" or kind != "requires"
    if kind in ("requires", "gated_by"):
        assert frontier(api, project=name) == ["first"]
    refused(api.post("actions", title="bad", edges=[{"type": "likes", "targetActionId": first}]))


@pytest.mark.covers("GET /agentmemory/frontier")
def test_what_can_be_done_is_told_with_a_score(api: Api, name: str):
    action = add(api, name, project=name, priority=3)
    answer = ok(api.get("frontier", project=name))
    assert (answer["success"], answer["total"]) == (True, 1)
    assert answer["totalActions"] >= 1
    assert answer["totalUnblocked"] >= 1
    (item,) = answer["frontier"]
    assert (item["id"], item["title"], item["priority"]) == (action["id"], name, 3)
    assert item["action"]["id"] == action["id"]
    assert (item["blockers"], item["leased"]) == ([], False)
    assert isinstance(item["score"], int | float)


@pytest.mark.covers("GET /agentmemory/frontier")
def test_the_most_urgent_comes_first_and_then_the_oldest(api: Api, name: str):
    for title, priority in (("low", 1), ("old", 5), ("new", 5), ("high", 9)):
        add(api, title, project=name, priority=priority)
    assert frontier(api, project=name) == ["high", "old", "new", "low"]
    assert frontier(api, project=name, limit=2) == ["high", "old"]


@pytest.mark.covers("GET /agentmemory/frontier")
@pytest.mark.parametrize("word", ["done", "completed", "cancelled", "discarded"])
def test_what_is_over_cannot_be_done(api: Api, name: str, word: str):
    add(api, "over", project=name, status=word)
    add(api, "open", project=name)
    assert frontier(api, project=name) == ["open"]


@pytest.mark.covers("GET /agentmemory/frontier")
@pytest.mark.parametrize(("other", "expected"), [("active", []), ("pending", ["this"]), ("done", ["this"])])
def test_an_active_conflict_holds_an_action_up(api: Api, name: str, other: str, expected: list[str]):
    conflict = add(api, "that", project=name, status=other)["id"]
    add(api, "this", project=name, edges=[{"type": "conflicts_with", "targetActionId": conflict}])
    assert [item for item in frontier(api, project=name) if item == "this"] == expected
