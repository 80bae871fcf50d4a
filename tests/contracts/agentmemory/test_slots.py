"""Slots: small named texts with a limit."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok, refused

SEEDED = {
    "persona": (1000, True, "global"), "user_preferences": (2000, True, "global"),
    "tool_guidelines": (1500, True, "global"), "project_context": (3000, True, "project"),
    "guidance": (1500, True, "project"), "pending_items": (2000, True, "project"),
    "session_patterns": (1500, False, "project"), "self_notes": (1500, False, "project"),
}  # fmt: skip


@pytest.fixture
def label(api: Api, name: str) -> Iterator[str]:
    """A label that no other test uses; its slots are deleted afterwards, so that they are in no context."""
    yield name
    while delete(api, name).status_code == 200:
        pass


def delete(api: Api, label: str) -> Any:
    return api.http.delete("/agentmemory/slot", params={"label": label})


def set_slot(api: Api, label: str, **fields: Any) -> Json:
    return ok(api.post("slot", label=label, **fields), 201)["slot"]


def read_slot(api: Api, label: str) -> Json:
    return ok(api.get("slot", label=label))["slot"]


@pytest.mark.covers("POST /agentmemory/slot", "GET /agentmemory/slot")
def test_a_slot_is_kept_whole(api: Api, label: str):
    fields = {"content": "now", "sizeLimit": 100, "description": "what is on", "pinned": False, "scope": "global"}
    slot = set_slot(api, label, **fields)
    assert {key: slot[key] for key in fields} == fields
    assert (slot["label"], slot["readOnly"]) == (label, False)
    assert slot["createdAt"]
    assert slot["updatedAt"]
    answer = ok(api.get("slot", label=label))
    assert (answer["success"], answer["slot"], answer["scope"]) == (True, slot, "global")


@pytest.mark.covers("POST /agentmemory/slot")
def test_a_label_has_up_to_64_characters(api: Api, label: str):
    longest = (label + "_x9" * 30)[:64]
    assert set_slot(api, longest)["label"] == longest
    ok(delete(api, longest))


@pytest.mark.covers("POST /agentmemory/slot")
def test_a_slot_that_is_there_is_written_over_unless_asked_otherwise(api: Api, label: str):
    first = set_slot(api, label, content="old")
    second = set_slot(api, label, content="new")
    assert (second["content"], second["createdAt"]) == ("new", first["createdAt"])
    refused(api.post("slot", label=label, content="newer", overwrite=False), 409)
    assert read_slot(api, label)["content"] == "new"


@pytest.mark.covers("GET /agentmemory/slot")
@pytest.mark.xfail(strict=True, reason="without a project named, the project's slot and the one of all are the same")
def test_a_slot_of_the_project_is_read_before_one_of_all(api: Api, label: str):
    set_slot(api, label, content="everywhere", scope="global")
    set_slot(api, label, content="here", scope="project")
    answer = ok(api.get("slot", label=label))
    assert (answer["slot"]["content"], answer["scope"]) == ("here", "project")


@pytest.mark.covers("GET /agentmemory/slot", "GET /agentmemory/slots")
def test_a_slot_of_a_named_project_is_read_before_one_of_all(api: Api, label: str):
    set_slot(api, label, content="everywhere", scope="global")
    set_slot(api, label, content="here", scope="project", project=label)
    answer = ok(api.get("slot", label=label, project=label))
    (listed,) = [slot for slot in ok(api.get("slots", project=label))["slots"] if slot["label"] == label]
    ok(api.http.delete("/agentmemory/slot", params={"label": label, "project": label}))
    assert (answer["slot"]["content"], answer["scope"], listed["content"]) == ("here", "project", "here")
    assert read_slot(api, label)["content"] == "everywhere"


@pytest.mark.covers("GET /agentmemory/slots")
def test_slots_are_listed_by_label(api: Api, label: str):
    set_slot(api, label, content="now")
    answer = ok(api.get("slots"))
    assert answer["success"] is True
    labels = [slot["label"] for slot in answer["slots"]]
    assert label in labels
    assert labels == sorted(labels)


@pytest.mark.covers("GET /agentmemory/slots")
@pytest.mark.parametrize("label", SEEDED)
def test_some_slots_are_there_from_the_start(trusted: Api, label: str):
    (slot,) = [item for item in ok(trusted.get("slots"))["slots"] if item["label"] == label and not item.get("project")]
    assert (slot["sizeLimit"], slot["pinned"], slot["scope"]) == SEEDED[label]
    assert slot.keys() >= {"content", "description", "readOnly"}


@pytest.mark.covers("POST /agentmemory/slot/append")
@pytest.mark.parametrize(("before", "after"), [("", "b"), ("a", "a\nb"), ("a\n", "a\nb")])
def test_what_is_appended_begins_a_line(api: Api, label: str, before: str, after: str):
    set_slot(api, label, content=before)
    answer = ok(api.post("slot/append", label=label, text="b"))
    assert (answer["success"], answer["slot"]["content"], answer["size"]) == (True, after, len(after))
    assert read_slot(api, label)["content"] == after


@pytest.mark.covers("POST /agentmemory/slot/append", "POST /agentmemory/slot/replace")
@pytest.mark.parametrize(("path", "field"), [("append", "text"), ("replace", "content")])
def test_a_slot_does_not_overflow_and_nothing_is_no_text(api: Api, label: str, path: str, field: str):
    set_slot(api, label, content="a" * 8, sizeLimit=10)
    answer = api.post(f"slot/{path}", label=label, **{field: "b" * 11})
    refused(answer, 413)
    assert (answer.json()["currentSize"], answer.json()["sizeLimit"]) == (8, 10)
    refused(api.post(f"slot/{path}", label=label))
    assert read_slot(api, label)["content"] == "a" * 8


@pytest.mark.covers("POST /agentmemory/slot/replace")
@pytest.mark.parametrize("text", ["new", ""])
def test_the_text_of_a_slot_is_replaced(api: Api, label: str, text: str):
    set_slot(api, label, content="old", description="kept")
    answer = ok(api.post("slot/replace", label=label, content=text))
    assert (answer["success"], answer["slot"]["content"], answer["size"]) == (True, text, len(text))
    assert read_slot(api, label)["description"] == "kept"


@pytest.mark.covers("DELETE /agentmemory/slot")
def test_a_slot_is_deleted_once(api: Api, label: str):
    set_slot(api, label)
    assert ok(delete(api, label))["success"] is True
    refused(api.get("slot", label=label), 404)
    refused(delete(api, label), 404)


def worked_on(api: Api, name: str) -> str:
    """A prompt and an edit; the path of the file."""
    api.hook(name, "prompt_submit", data={"prompt": f"todo: fix {name}"})
    api.observe(name, tool_name="Edit", tool_input={"file_path": f"src/{name}.py"})
    return f"src/{name}.py"


@pytest.mark.covers("POST /agentmemory/slot/reflect")
def test_a_session_is_reflected_in_the_slots(trusted: Api, name: str):
    """As many of its observations as asked for, and nothing of a session without any."""
    trusted.start(name)
    nothing = ok(trusted.post("slot/reflect", sessionId=name))
    assert nothing["applied"] == 0
    assert isinstance(nothing["reason"], str)
    path = worked_on(trusted, name)
    trusted.observe(name, tool_name="Bash", tool_input="make")
    answer = ok(trusted.post("slot/reflect", sessionId=name))
    assert (answer["success"], answer["applied"], answer["observationsReviewed"]) == (True, 3, 3)
    slots = {slot["label"]: slot["content"] for slot in ok(trusted.get("slots"))["slots"] if name in slot["content"]}
    assert slots.keys() >= {"pending_items", "project_context"}
    assert path in slots["project_context"]
    assert ok(trusted.post("slot/reflect", sessionId=name, maxObservations=2))["observationsReviewed"] == 2


@pytest.mark.covers("POST /agentmemory/slot/reflect", "POST /agentmemory/reflect", "MCP memory_reflect")
@pytest.mark.parametrize("way", ["slot/reflect", "reflect", "memory_reflect"])
def test_a_session_is_reflected_in_the_slots_of_its_project_alone(trusted: Api, name: str, way: str):
    """Of no other project's, and not of those that every project sees: no other context tells of it."""

    def context(session: str, project: str) -> str:
        return ok(trusted.post("context", sessionId=session, project=project))["context"]

    path = worked_on(trusted, name)
    answer = trusted.tool(way, sessionId=name) if way == "memory_reflect" else ok(trusted.post(way, sessionId=name))
    assert answer["applied"] >= 2
    own = {slot["label"]: slot for slot in ok(trusted.get("slots", project=f"p-{name}"))["slots"]}["project_context"]
    assert (own["project"], own["scope"]) == (f"p-{name}", "project")
    assert path in own["content"]
    assert path not in str(ok(trusted.get("slots", project=f"other-{name}")))
    assert path not in str(ok(trusted.get("slot", label="project_context")))
    assert path not in context(f"{name}-2", f"other-{name}")
    assert path in context(f"{name}-3", f"p-{name}")
