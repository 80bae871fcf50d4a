"""Work that agents share: actions and what can be done now; relations between documents; commits."""

from typing import Any

import httpx
import pytest

from tests.acceptance.asking import change, names, read, refused, remove, write
from tests.acceptance.running import Server, ids

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


async def test_what_conflicts_with_work_under_way_waits(client: Client, project: str):
    paint = await action(client, project, "Paint the floor")
    await action(client, project, "Walk on the floor", edges=[{"type": "conflicts_with", "target": paint}])
    await settled(client, project)
    assert sorted(await frontier(client, project)) == ["Paint the floor", "Walk on the floor"]
    begun = await change(client, f"/v1/actions/{paint}", status="in_progress")
    assert await frontier(client, project, after=begun["position"]) == ["Paint the floor"]


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


async def test_a_forgotten_action_holds_nothing_up(client: Client, project: str):
    first = await action(client, project, "Ask for leave")
    await action(client, project, "Go", requires=[first])
    await remove(client, f"/v1/actions/{first}")
    await settled(client, project)
    assert await frontier(client, project) == ["Go"]


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


async def test_a_relation_can_be_withdrawn(client: Client, project: str):
    one, other = [await memory(client, project, text) for text in ("salt and pepper", "chalk, cheese")]
    pair = {"source": one, "target": other, "relation": "goes_with"}
    told = await write(client, "/v1/relations", **pair)
    assert ids(await read(client, f"/v1/related/{one}", after=told["position"])) == [other]
    gone = await write(client, "/v1/relations", **pair, remove=True)
    assert ids(await read(client, f"/v1/related/{one}", after=gone["position"])) == []
    assert (await read(client, "/v1/relations", project=project))["items"] == []


async def test_an_end_that_is_not_there_is_refused_unless_it_says_what_it_is(client: Client, project: str):
    known = await memory(client, project, "a lonely memory")
    missing = {"source": known, "target": "mem_00000000000000000000", "relation": "follows"}
    assert (await refused(client, "POST", "/v1/relations", missing))[:2] == (404, "not_found")
    for end in ("concept:loneliness", "file:src/lonely.py"):
        told = await write(client, "/v1/relations", source=known, target=end, relation="about")
        assert (await read(client, f"/v1/relations/{told['id']}", after=told["position"]))["target"] == end


async def test_a_relation_nobody_rated_gets_an_estimate(client: Client, project: str):
    """Both are new and of one session, so it is above the middle."""
    said = {"session_id": "s1"}
    one, other = [await memory(client, project, text, **said) for text in ("hot kettle", "cold kitchen floor")]
    told = await write(client, "/v1/relations", source=one, target=other, relation="near")
    seen = await read(client, f"/v1/relations/{told['id']}", after=told["position"])
    assert seen["confidence"] == pytest.approx(0.7)


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
