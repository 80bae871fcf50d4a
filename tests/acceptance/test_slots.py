"""Slots: small named texts with limits, of a project or of everybody."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.asking import ask, names, read, refused, remove, write
from tests.acceptance.running import fault

Client = httpx.AsyncClient


@pytest.fixture
def label() -> str:
    """A label that no other test knows."""
    return f"l_{uuid4().hex[:12]}"


async def slot(client: Client, label: str, **asked: Any) -> dict[str, Any]:
    """A slot as it stands."""
    return await read(client, f"/v1/slots/{label}", **asked)


async def test_a_project_begins_with_empty_slots(client: Client, project: str):
    page = await read(client, "/v1/slots", project=project)
    by_label = {one["label"]: one for one in page["items"]}
    for expected in ("project_context", "pending_items", "guidance", "session_patterns", "self_notes"):
        assert (by_label[expected]["content"], by_label[expected]["scope"]) == ("", "project")
    for expected in ("persona", "user_preferences", "tool_guidelines"):
        assert by_label[expected]["scope"] == "global"
    assert names(page, "label") == sorted(names(page, "label"))
    assert (await slot(client, "guidance", project=project))["created_at"] is None


async def test_a_slot_is_set_replaced_and_added_to(client: Client, project: str):
    told = await write(client, "/v1/slots", project=project, label="guidance", content="Be brief.", agent_id="ada")
    seen = await slot(client, "guidance", project=project, after=told["position"])
    assert (seen["id"], seen["content"], seen["size"], seen["size_limit"]) == (told["id"], "Be brief.", 9, 1500)
    assert (seen["agent_id"], seen["created_at"] is None) == ("ada", False)
    await write(client, "/v1/slots", project=project, label="guidance", content="Be kind.", append=True)
    assert (await slot(client, "guidance", project=project))["content"] == "Be brief.\nBe kind."
    await write(client, "/v1/slots", project=project, label="guidance", content="Be.", size_limit=100, pinned=False)
    seen = await slot(client, "guidance", project=project)
    assert (seen["content"], seen["size_limit"], seen["pinned"]) == ("Be.", 100, False)


async def test_a_pinned_slot_is_in_every_context(client: Client, project: str):
    await write(client, "/v1/slots", project=project, label="project_context", content="A shop for teapots.")
    told = await write(client, "/v1/slots", project=project, label="self_notes", content="Nobody reads this.")
    compiled = await ask(client, "/v1/context", project=project, after=told["position"])
    assert "A shop for teapots." in compiled["context"]
    assert "Nobody reads this." not in compiled["context"]


async def test_a_full_slot_is_refused_with_its_size_and_limit(client: Client, project: str, label: str):
    mine = {"project": project, "label": label}
    await write(client, "/v1/slots", **mine, content="12345", size_limit=10)
    for wanted in ({"content": "12345", "append": True}, {"content": "12345678901"}):
        answer = await client.post("/v1/slots", json={**mine, **wanted})
        assert answer.status_code == 413, answer.text
        assert (fault(answer)["code"], fault(answer)["size"], fault(answer)["limit"]) == ("slot_full", 5, 10)
    assert (await slot(client, label, project=project))["content"] == "12345"
    await write(client, "/v1/slots", **mine, content="1234", append=True)
    assert (await slot(client, label, project=project))["size"] == 10


async def test_a_read_only_slot_stays_as_it_is(client: Client, project: str, label: str):
    mine = {"project": project, "label": label, "content": "cast in stone"}
    await write(client, "/v1/slots", **mine, read_only=True)
    for wanted in ({}, {"append": True}, {"read_only": False}):
        assert await refused(client, "POST", "/v1/slots", {**mine, **wanted}) == (422, "invalid", "label")
    assert await refused(client, "DELETE", f"/v1/slots/{label}", project=project) == (422, "invalid", "label")


async def test_a_slot_that_is_there_is_not_overwritten_if_asked_so(client: Client, project: str, label: str):
    mine = {"project": project, "label": label, "overwrite": False}
    await write(client, "/v1/slots", **mine, content="first")
    again = {**mine, "content": "second"}
    assert await refused(client, "POST", "/v1/slots", again) == (409, "already_there", "label")
    await write(client, "/v1/slots", **again, append=True)
    assert (await slot(client, label, project=project))["content"] == "first\nsecond"


async def test_a_projects_slot_stands_before_the_global_one(client: Client, project: str, label: str):
    await write(client, "/v1/slots", label=label, scope="global", project=project, content="for all")
    for where in (project, f"{project}-other", ""):
        seen = await slot(client, label, project=where)
        assert (seen["content"], seen["scope"], seen["project"]) == ("for all", "global", "")
    await write(client, "/v1/slots", label=label, project=project, content="for one")
    assert (await slot(client, label, project=project))["content"] == "for one"
    assert (await slot(client, label, project=f"{project}-other"))["content"] == "for all"
    listed = {one["label"]: one["content"] for one in (await read(client, "/v1/slots", project=project))["items"]}
    assert listed[label] == "for one"
    await remove(client, f"/v1/slots/{label}", project=project)
    assert (await slot(client, label, project=project))["content"] == "for all"
    await remove(client, f"/v1/slots/{label}", scope="global")
    assert await refused(client, "GET", f"/v1/slots/{label}", project=project) == (404, "not_found", None)


async def test_a_deleted_slot_is_gone_and_a_default_one_empty_again(client: Client, project: str, label: str):
    for one in (label, "guidance"):
        await write(client, "/v1/slots", project=project, label=one, content="to be removed")
        await remove(client, f"/v1/slots/{one}", project=project)
        assert (await refused(client, "DELETE", f"/v1/slots/{one}", project=project))[:2] == (404, "not_found")
    assert (await refused(client, "GET", f"/v1/slots/{label}", project=project))[:2] == (404, "not_found")
    assert (await slot(client, "guidance", project=project))["content"] == ""
