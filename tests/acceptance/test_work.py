"""Work that agents share: actions and what can be done now; relations between documents; commits."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.asking import ask, change, names, read, refused, remove, write
from tests.acceptance.running import Server, fault, ids

Client = httpx.AsyncClient


async def action(client: Client, project: str, title: str, **said: Any) -> str:
    """The id of a new action."""
    return (await write(client, "/v1/actions", project=project, title=title, **said))["id"]


async def frontier(client: Client, project: str, **asked: Any) -> list[str]:
    """The titles of what can be done now."""
    return names(await read(client, "/v1/frontier", project=project, **asked), "title")


async def settled(client: Client, project: str) -> None:
    """Wait until what was written to the project's stream can be read."""
    last = await write(client, "/v1/slots", project=project, label="guidance", content="", append=True)
    await read(client, "/v1/slots", project=project, after=last["position"])


async def test_an_action_that_requires_another_waits_for_it(client: Client, project: str):
    """More urgent work comes first; what waits is not on the frontier until what it waits for is done."""
    dig = await action(client, project, "Dig the hole", priority=3)
    plant = await action(client, project, "Plant the tree", priority=9, requires=[dig])
    await action(client, project, "Sweep the yard", priority=5)
    await settled(client, project)
    assert await frontier(client, project) == ["Sweep the yard", "Dig the hole"]
    assert await frontier(client, project, limit=1) == ["Sweep the yard"]
    done = await change(client, f"/v1/actions/{dig}", status="done", result="It is deep enough.")
    assert done["id"] == dig
    assert await frontier(client, project, after=done["position"]) == ["Plant the tree", "Sweep the yard"]
    seen = await read(client, f"/v1/actions/{plant}")
    assert (seen["status"], seen["priority"], seen["edges"]) == ("pending", 9, [{"type": "requires", "target": dig}])
    finished = await read(client, f"/v1/actions/{dig}")
    assert (finished["status"], finished["result"], finished["title"]) == ("done", "It is deep enough.", "Dig the hole")
    still = await read(client, "/v1/actions", project=project, open=True)
    assert names(still, "title") == ["Sweep the yard", "Plant the tree"]
    assert len((await read(client, "/v1/actions", project=project))["items"]) == 3


async def test_what_an_agent_works_on_is_not_offered_to_others(server: Server, client: Client, project: str):
    """Whoever names nobody gets an overview, with what is taken marked so."""
    taken = await action(client, project, "Answer the phone", status="active", assigned_to="ada")
    free = await action(client, project, "Open the post")
    await settled(client, project)
    page = await read(client, "/v1/frontier", project=project)
    assert {one["id"]: one["leased"] for one in page["items"]} == {taken: True, free: False}
    assert page["open"] == 2
    assert await frontier(client, project, agent_id="bob") == ["Open the post"]
    async with server.client("bob") as bob:
        assert await frontier(bob, project) == ["Open the post"]
    async with server.client("ada") as ada:
        assert sorted(await frontier(ada, project)) == ["Answer the phone", "Open the post"]


async def test_an_action_that_is_not_there_cannot_be_changed(client: Client):
    name = "act_00000000000000000000"
    assert (await refused(client, "PATCH", f"/v1/actions/{name}", {"status": "done"}))[:2] == (404, "not_found")
    assert (await refused(client, "GET", f"/v1/actions/{name}"))[:2] == (404, "not_found")


# relations


async def memory(client: Client, project: str, content: str, **said: Any) -> str:
    """The id of a new memory."""
    return (await write(client, "/v1/memories", project=project, content=content, **said))["id"]


async def test_related_documents_are_found_hop_by_hop(client: Client, project: str):
    """The surest first; in both directions; not past the hops or below the confidence asked for."""
    rain, mud, boots = [
        await memory(client, project, text)
        for text in ("It rains in April", "Mud is on the path", "Boots are by the door")
    ]
    first = await write(client, "/v1/relations", source=rain, target=mud, relation="causes", confidence=0.9)
    second = await write(client, "/v1/relations", source=boots, target=mud, relation="because_of", confidence=0.4)
    after = f"{first['position']},{second['position']}"
    found = await read(client, f"/v1/related/{rain}", after=after)
    assert [(one["id"], one["hops"], one["path"]) for one in found["items"]] == [
        (mud, 1, ["causes"]),
        (boots, 2, ["causes", "because_of"]),
    ]
    assert names(found, "confidence") == [0.9, 0.4]
    assert ids(await read(client, f"/v1/related/{rain}", max_hops=1)) == [mud]
    assert ids(await read(client, f"/v1/related/{rain}", min_confidence=0.5)) == [mud]
    assert sorted(ids(await read(client, f"/v1/related/{mud}", max_hops=1))) == sorted([rain, boots])
    listed = await read(client, "/v1/relations", project=project)
    assert names(listed, "relation") == ["because_of", "causes"]
    one = await read(client, f"/v1/relations/{first['id']}")
    assert (one["source"], one["target"], one["project"]) == (rain, mud, project)


async def test_an_end_that_is_not_there_is_refused_unless_it_says_what_it_is(client: Client, project: str):
    known = await memory(client, project, "a lonely memory")
    missing = {"source": known, "target": "mem_00000000000000000000", "relation": "follows"}
    assert (await refused(client, "POST", "/v1/relations", missing))[:2] == (404, "not_found")
    for end in ("concept:loneliness", "file:src/lonely.py"):
        told = await write(client, "/v1/relations", source=known, target=end, relation="about")
        assert (await read(client, f"/v1/relations/{told['id']}", after=told["position"]))["target"] == end


async def test_relations_of_what_a_reader_may_not_see_are_not_shown(server: Server, client: Client, project: str):
    async with server.client("ada") as ada:
        secret = await memory(ada, project, "The key is under the mat", visibility="private")
        public = await memory(ada, project, "There is a mat")
        told = await write(ada, "/v1/relations", source=public, target=secret, relation="hides")
        assert ids(await read(ada, f"/v1/related/{public}", after=told["position"])) == [secret]
    assert ids(await read(client, f"/v1/related/{public}")) == []
    assert (await read(client, "/v1/relations", project=project))["items"] == []
    wanted = {"source": public, "target": secret, "relation": "mentions"}
    assert (await refused(client, "POST", "/v1/relations", wanted))[:2] == (404, "not_found")
    assert (await refused(client, "GET", f"/v1/related/{secret}"))[:2] == (404, "not_found")


# commits


async def test_a_commit_gathers_the_sessions_and_files_it_was_linked_with(client: Client, project: str):
    sha = "0123456789abcdef0123456789abcdef01234567"
    sessions = [f"{project}-{n}" for n in (1, 2)]
    said = {"project": project, "commit": sha}
    first = await write(client, "/v1/commits", **said, session_id=sessions[0], message="Fix it", files=["a.py"])
    second = await write(client, "/v1/commits", **said, session_id=sessions[1], branch="main", files=["b.py", "a.py"])
    assert first["id"] == second["id"]
    seen = await read(client, f"/v1/commits/{first['id']}", after=second["position"])
    assert (seen["message"], seen["branch"], seen["files"]) == ("Fix it", "main", ["a.py", "b.py"])
    assert seen["session_ids"] == sessions
    for session in sessions:
        assert ids(await read(client, f"/v1/sessions/{session}/commits")) == [first["id"]]
    assert ids(await read(client, "/v1/commits", project=project)) == [first["id"]]
    assert (await read(client, "/v1/sessions/nobodys/commits"))["items"] == []


async def test_a_commit_without_a_project_belongs_to_that_of_its_session(client: Client, project: str):
    session = f"{project}-s"
    await write(client, "/v1/observations", project=project, session_id=session, content="wrote some code")
    told = await write(client, "/v1/commits", commit="abc123", session_id=session)
    assert (await read(client, f"/v1/commits/{told['id']}", after=told["position"]))["project"] == project


async def lesson(client: Client, project: str, content: str, **said: Any) -> str:
    """The id of a lesson that was just stated, and can be found."""
    told = await write(client, "/v1/lessons", project=project, content=content, **said)
    await read(client, f"/v1/lessons/{told['id']}", after=told["position"])
    return told["id"]


async def matched(client: Client, **asked: Any) -> list[str]:
    """The lessons that speak up."""
    return ids(await read(client, "/v1/lessons/match", **asked))


async def test_showing_a_lesson_is_counted(client: Client, project: str):
    name = await lesson(client, project, "Mind the gap", severity="info", trigger_tool="Walk")
    await write(client, f"/v1/lessons/{name}/trigger")
    counted = await write(client, f"/v1/lessons/{name}/trigger")
    again = [
        (await client.post(f"/v1/lessons/{name}/trigger", params={"event_id": f"{project}-t"})).json() for _ in range(2)
    ]
    assert [one["duplicate"] for one in again] == [False, True]
    seen = await read(client, f"/v1/lessons/{name}", after=f"{counted['position']},{again[0]['position']}")
    assert seen["trigger_count"] == 3
    assert seen["triggered_at"] is not None
    assert seen["reinforcements"] == 0


async def test_an_edited_lesson_keeps_its_id_and_what_was_not_said(client: Client, project: str):
    """Switched off, it neither speaks up nor is found; switched on again it does."""
    name = await lesson(client, project, "Never deploy on Fridays", severity="warning", tags=["deploy"])
    edited = await change(client, f"/v1/lessons/{name}", content="Never deploy after lunch", trigger_tool="Deploy")
    assert edited["id"] == name
    seen = await read(client, f"/v1/lessons/{name}", after=edited["position"])
    assert (seen["content"], seen["severity"], seen["tags"]) == ("Never deploy after lunch", "warning", ["deploy"])
    assert await matched(client, project=project, tool_name="Deploy") == [name]
    off = await change(client, f"/v1/lessons/{name}", active=False)
    assert await matched(client, project=project, tool_name="Deploy", after=off["position"]) == []
    assert ids(await ask(client, "/v1/lessons/search", query="deploy after lunch", project=project)) == []
    on = await change(client, f"/v1/lessons/{name}", active=True)
    assert await matched(client, project=project, tool_name="Deploy", after=on["position"]) == [name]


async def test_the_surest_lessons_come_first(client: Client, project: str):
    low = await lesson(client, project, "maybe so", confidence=0.2)
    high = await lesson(client, project, "surely so", confidence=0.9, origin="review")
    page = await read(client, "/v1/lessons/surest", project=project)
    assert [one for one in ids(page) if one in (low, high)] == [high, low]
    assert page["items"][ids(page).index(high)]["confidence_now"] == pytest.approx(0.9)
    assert ids(await read(client, "/v1/lessons/surest", project=project, origin="review")) == [high]
    assert low not in ids(await read(client, "/v1/lessons/surest", project=project, min_confidence=0.5))


@pytest.mark.parametrize("what", ["reinforce", "trigger"])
async def test_only_a_lesson_that_is_there_can_be_confirmed_or_shown(client: Client, what: str):
    assert (await refused(client, "POST", f"/v1/lessons/lsn_00000000000000000000/{what}"))[:2] == (404, "not_found")
    assert (await refused(client, "PATCH", "/v1/lessons/lsn_00000000000000000000", {"title": "x"}))[0] == 404


@pytest.fixture
def label() -> str:
    """A label that no other test knows."""
    return f"l_{uuid4().hex[:12]}"


async def slot(client: Client, label: str, **asked: Any) -> dict[str, Any]:
    """A slot as it stands."""
    return await read(client, f"/v1/slots/{label}", **asked)


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


async def test_a_deleted_slot_is_gone_and_a_default_one_empty_again(client: Client, project: str, label: str):
    for one in (label, "guidance"):
        await write(client, "/v1/slots", project=project, label=one, content="to be removed")
        await remove(client, f"/v1/slots/{one}", project=project)
        assert (await refused(client, "DELETE", f"/v1/slots/{one}", project=project))[:2] == (404, "not_found")
    assert (await refused(client, "GET", f"/v1/slots/{label}", project=project))[:2] == (404, "not_found")
    assert (await slot(client, "guidance", project=project))["content"] == ""
