"""Actions: work items with dependencies, and what can be done now."""

from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, failed, ok, refused

FIELDS = {
    "id", "title", "description", "status", "priority", "tags", "createdAt", "updatedAt", "createdBy",
    "sourceObservationIds", "sourceMemoryIds",
}  # fmt: skip


def create(api: Api, title: str, **fields: Any) -> Json:
    return ok(api.post("actions", title=title, **fields), 201)["action"]


def update(api: Api, action: str, **fields: Any) -> Json:
    return ok(api.http.patch(f"/agentmemory/actions/{action}", json=fields))["action"]


def listed(api: Api, **query: Any) -> list[Json]:
    return ok(api.get("actions", **query))["actions"]


def read(api: Api, action: str) -> Json:
    (result,) = [row for row in listed(api) if row["id"] == action]
    return result


def status(api: Api, action: str) -> str:
    return read(api, action)["status"]


def frontier(api: Api, **query: Any) -> list[str]:
    """The titles of what can be done now."""
    return [item["title"] for item in ok(api.get("frontier", **query))["frontier"]]


@pytest.mark.covers("POST /agentmemory/actions")
def test_an_action_is_answered_whole(api: Api, name: str):
    fields: Json = {
        "title": f"Fix {name}",
        "description": "it leaks",
        "priority": 7,
        "status": "pending",
        "tags": ["pool", "ci"],
        "project": name,
        "createdBy": "ada",
        "sessionId": name,
    }
    answer = ok(api.post("actions", **fields), 201)
    assert (answer["success"], answer["edges"]) == (True, [])
    assert answer["action"].keys() >= FIELDS
    assert {key: answer["action"][key] for key in fields} == fields


@pytest.mark.covers("POST /agentmemory/actions")
def test_a_title_is_enough(api: Api, name: str):
    action = create(api, name)
    assert (action["description"], action["priority"], action["status"], action["tags"]) == ("", 0, "pending", [])


@pytest.mark.covers("POST /agentmemory/actions")
@pytest.mark.parametrize("body", [{}, {"title": ""}, {"title": "  "}, {"title": None, "description": "d"}])
def test_an_action_needs_a_title(api: Api, body: Json):
    refused(api.post("actions", **body))


@pytest.mark.covers("POST /agentmemory/actions")
def test_tags_may_be_a_text_with_commas(api: Api, name: str):
    assert create(api, name, tags="pool, ci")["tags"] == ["pool", "ci"]


@pytest.mark.covers("POST /agentmemory/actions")
@pytest.mark.parametrize(("given", "expected"), [(100, 100), (-3, -3), ("4", 4), (0, 0)])
def test_a_priority_is_kept_as_sent(api: Api, name: str, given: object, expected: int):
    assert create(api, name, priority=given, project=name)["priority"] == expected


@pytest.mark.covers("POST /agentmemory/actions", "PATCH /agentmemory/actions/{id}")
@pytest.mark.parametrize("word", ["pending", "active", "done", "completed", "cancelled", "discarded", "blocked"])
def test_the_words_of_all_clients_for_a_status_are_kept_as_sent(api: Api, name: str, word: str):
    assert create(api, name, status=word, project=name)["status"] == word
    action = create(api, f"{name} later", project=name)["id"]
    assert update(api, action, status=word)["status"] == word


@pytest.mark.covers("GET /agentmemory/actions")
def test_actions_are_listed_and_counted(api: Api, name: str):
    for number in range(3):
        create(api, f"{name} {number}", project=name)
    answer = ok(api.get("actions", project=name))
    assert (answer["success"], answer["total"]) == (True, 3)
    assert {action["title"] for action in answer["actions"]} == {f"{name} {number}" for number in range(3)}


@pytest.mark.covers("GET /agentmemory/actions")
def test_actions_are_narrowed(api: Api, name: str):
    parent = create(api, "parent", project=name)["id"]
    create(api, "child", project=name, parentId=parent)
    create(api, "finished", project=name, status="done")
    assert [row["title"] for row in listed(api, project=name, parentId=parent)] == ["child"]
    assert [row["title"] for row in listed(api, project=name, status="done")] == ["finished"]
    assert len(listed(api, project=name, limit=2)) == 2
    assert listed(api, project=f"{name}-other") == []


@pytest.mark.covers("GET /agentmemory/actions", "POST /agentmemory/actions/update")
def test_statuses_that_mean_the_same_are_listed_together(api: Api, name: str):
    made = [create(api, f"{name} {n}", project=name)["id"] for n in range(3)]
    update(api, made[0], status="completed")
    update(api, made[1], status="done")
    answer = ok(api.get("actions", project=name, status="done"))
    assert ({action["id"] for action in answer["actions"]}, answer["total"]) == ({made[0], made[1]}, 2)
    failed(api.post("actions/update", actionId="act_none", status="done"))


@pytest.mark.covers("PATCH /agentmemory/actions/{id}", "POST /agentmemory/actions/update")
@pytest.mark.parametrize("way", ["PATCH", "POST"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "Another"),
        ("description", "more"),
        ("priority", 9),
        ("status", "active"),
        ("tags", ["x"]),
        ("sessionId", "s2"),
        ("result", "it worked"),
        ("assignedTo", "bob"),
    ],
)
def test_an_action_is_changed(api: Api, name: str, way: str, field: str, value: object):
    action = create(api, name, project=name)
    changes = {field: value}
    if way == "PATCH":
        answer = ok(api.http.patch(f"/agentmemory/actions/{action['id']}", json=changes))
    else:
        answer = ok(api.post("actions/update", actionId=action["id"], **changes))
    assert answer["success"] is True
    changed = answer["action"]
    assert changed[field] == value
    rest = {*FIELDS, "project"} - {field, "updatedAt"}
    assert {key: changed[key] for key in rest} == {key: action[key] for key in rest}
    assert read(api, action["id"]) == changed


@pytest.mark.covers("PATCH /agentmemory/actions/{id}")
def test_an_unknown_action_is_not_found(api: Api):
    refused(api.http.patch("/agentmemory/actions/act_none", json={"title": "x"}), 404)


@pytest.mark.covers("POST /agentmemory/actions/update")
def test_an_action_that_changes_is_named(api: Api):
    refused(api.post("actions/update", title="x"))


@pytest.mark.covers("POST /agentmemory/actions")
def test_an_action_that_requires_another_starts_blocked(api: Api, name: str):
    first = create(api, "first", project=name)["id"]
    edges = [{"type": "requires", "targetActionId": first}]
    answer = ok(api.post("actions", title="second", project=name, edges=edges), 201)
    assert answer["action"]["status"] == "blocked"
    (edge,) = answer["edges"]
    assert (edge["type"], edge["targetActionId"]) == ("requires", first)
    assert frontier(api, project=name) == ["first"]


@pytest.mark.covers("POST /agentmemory/actions", "PATCH /agentmemory/actions/{id}")
@pytest.mark.parametrize("word", ["done", "completed"])
def test_the_end_of_what_was_required_unblocks(api: Api, name: str, word: str):
    first, other = (create(api, title, project=name)["id"] for title in ("first", "other"))
    edges = [{"type": "requires", "targetActionId": item} for item in (first, other)]
    second = create(api, "second", project=name, edges=edges)["id"]
    update(api, first, status=word)
    assert status(api, second) == "blocked"
    update(api, other, status=word)
    assert status(api, second) == "pending"
    assert frontier(api, project=name) == ["second"]


@pytest.mark.covers("POST /agentmemory/actions", "GET /agentmemory/frontier")
@pytest.mark.parametrize("kind", ["requires", "unlocks", "spawned_by", "gated_by", "conflicts_with"])
def test_two_actions_are_tied(api: Api, name: str, kind: str):
    first = create(api, "first", project=name)["id"]
    edges = [{"type": kind, "targetActionId": first}]
    (edge,) = ok(api.post("actions", title="second", project=name, edges=edges), 201)["edges"]
    assert (edge["type"], edge["targetActionId"]) == (kind, first)
    if kind in ("requires", "gated_by"):
        assert frontier(api, project=name) == ["first"]
    refused(api.post("actions", title="bad", edges=[{"type": "likes", "targetActionId": first}]))


@pytest.mark.covers("GET /agentmemory/frontier")
def test_what_can_be_done_is_told_with_a_score(api: Api, name: str):
    action = create(api, name, project=name, priority=3)
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
        create(api, title, project=name, priority=priority)
    assert frontier(api, project=name) == ["high", "old", "new", "low"]
    assert frontier(api, project=name, limit=2) == ["high", "old"]


@pytest.mark.covers("GET /agentmemory/frontier")
@pytest.mark.parametrize("word", ["done", "completed", "cancelled", "discarded"])
def test_what_is_over_cannot_be_done(api: Api, name: str, word: str):
    create(api, "over", project=name, status=word)
    create(api, "open", project=name)
    assert frontier(api, project=name) == ["open"]


@pytest.mark.covers("GET /agentmemory/frontier")
@pytest.mark.parametrize(("other", "expected"), [("active", []), ("pending", ["this"]), ("done", ["this"])])
def test_an_active_conflict_holds_an_action_up(api: Api, name: str, other: str, expected: list[str]):
    conflict = create(api, "that", project=name, status=other)["id"]
    create(api, "this", project=name, edges=[{"type": "conflicts_with", "targetActionId": conflict}])
    assert [item for item in frontier(api, project=name) if item == "this"] == expected
