"""Memories that change: new versions, who may read them, who may change them."""

from collections.abc import AsyncGenerator

import httpx
import pytest

from tests.acceptance.asking import change, names, read, recall, refused, write
from tests.acceptance.running import Server, ids

Client = httpx.AsyncClient


@pytest.fixture
async def ada(server: Server) -> AsyncGenerator[Client]:
    """Reads and writes as ada."""
    async with server.client("ada") as http:
        yield http


@pytest.fixture
async def bob(server: Server) -> AsyncGenerator[Client]:
    """Reads and writes as bob."""
    async with server.client("bob") as http:
        yield http


async def test_a_revised_memory_is_a_new_version_and_both_can_be_read(ada: Client, project: str):
    """What is not said stays; recall finds the new version only."""
    first = await write(ada, "/v1/memories", project=project, content="Deploys happen on Tuesdays", tags=["deploy"])
    second = await change(ada, f"/v1/memories/{first['id']}", content="Deploys happen on Fridays", importance=8)
    assert second["id"] not in ("", first["id"])
    new = await read(ada, f"/v1/memories/{second['id']}", after=second["position"])
    assert (new["version"], new["parent_id"], new["is_latest"]) == (2, first["id"], True)
    assert (new["content"], new["tags"], new["importance"]) == ("Deploys happen on Fridays", ["deploy"], 8)
    old = await read(ada, f"/v1/memories/{first['id']}")
    assert (old["is_latest"], old["superseded_by"], old["content"]) == (
        False,
        second["id"],
        "Deploys happen on Tuesdays",
    )
    assert ids(await recall(ada, "when do deploys happen", project=project)) == [second["id"]]
    current = await read(ada, "/v1/memories", project=project, latest=True)
    assert ids(current) == [second["id"]]


async def test_the_history_of_a_memory_is_the_same_from_every_version(ada: Client, project: str):
    first = await write(ada, "/v1/memories", project=project, content="The port is 80")
    second = await change(ada, f"/v1/memories/{first['id']}", content="The port is 8080")
    third = await change(ada, f"/v1/memories/{first['id']}", content="The port is 443", title="The port")
    for one in (first, second, third):
        told = await read(ada, f"/v1/memories/{one['id']}/history", after=third["position"])
        assert names(told, "content") == ["The port is 80", "The port is 8080", "The port is 443"]
        assert names(told, "version") == [1, 2, 3]
    assert (await read(ada, f"/v1/memories/{third['id']}"))["title"] == "The port"


async def test_a_revision_that_is_sent_again_is_a_duplicate(ada: Client, project: str):
    first = await write(ada, "/v1/memories", project=project, content="one")
    said = {"content": "two", "event_id": f"{project}-revision"}
    second = await change(ada, f"/v1/memories/{first['id']}", **said)
    assert await change(ada, f"/v1/memories/{first['id']}", **said) == {**second, "duplicate": True}
    assert len((await read(ada, f"/v1/memories/{first['id']}/history", after=second["position"]))["items"]) == 2


async def test_anybody_may_revise_what_is_public_and_its_creator_stays(ada: Client, bob: Client, project: str):
    first = await write(ada, "/v1/memories", project=project, content="The well is dry")
    second = await change(bob, f"/v1/memories/{first['id']}", content="The well is full")
    seen = await read(bob, f"/v1/memories/{second['id']}", after=second["position"])
    assert (seen["content"], seen["version"]) == ("The well is full", 2)
    assert await refused(bob, "PATCH", f"/v1/memories/{second['id']}", {"visibility": "private"}) == (
        403, "forbidden", None,
    )  # fmt: skip
    hidden = await change(ada, f"/v1/memories/{second['id']}", visibility="private")
    assert (await read(ada, f"/v1/memories/{second['id']}", after=hidden["position"]))["visibility"] == "private"


async def test_the_readers_of_a_memory_can_be_changed_by_its_creator_only(ada: Client, bob: Client, project: str):
    """Shared, then private, then public again: each at once for every way of reading it."""
    told = await write(ada, "/v1/memories", project=project, content="The quokka sleeps in the shed")
    where = f"/v1/memories/{told['id']}"

    async def bob_finds(after: str) -> bool:
        found = ids(await recall(bob, "where does the quokka sleep", project=project, after=after))
        listed = ids(await read(bob, "/v1/memories", project=project))
        direct = await bob.get(where)
        seen = {found == [told["id"]], listed == [told["id"]], direct.status_code == 200}
        assert len(seen) == 1, (found, listed, direct.status_code)
        return seen.pop()

    assert await bob_finds(told["position"])
    private = await change(ada, where, visibility="private")
    assert private["id"] == told["id"]
    assert not await bob_finds(private["position"])
    assert (await refused(bob, "PATCH", where, {"visibility": "public"}))[:2] == (404, "not_found")
    shared = await change(ada, where, visibility="shared", shared_with=["bob"])
    assert await bob_finds(shared["position"])
    for wanted in ({"content": "It does not"}, {"visibility": "public"}, {"shared_with": ["bob", "cy"]}):
        assert (await refused(bob, "PATCH", where, wanted))[:2] == (403, "forbidden")
    public = await change(ada, where, visibility="public")
    assert await bob_finds(public["position"])
    assert (await read(ada, where))["version"] == 1


async def test_a_private_memory_is_revised_by_its_creator_and_its_owner(ada: Client, bob: Client, project: str):
    private = {"project": project, "visibility": "private", "owner": "bob"}
    first = await write(ada, "/v1/memories", content="The code is 1234", **private)
    second = await change(ada, f"/v1/memories/{first['id']}", content="The code is 4321")
    third = await change(bob, f"/v1/memories/{first['id']}", content="The code is 9876")
    for client in (ada, bob):
        newest = await read(client, f"/v1/memories/{third['id']}", after=third["position"])
        assert (newest["version"], newest["visibility"], newest["owner"]) == (3, "private", "bob")
        assert names(await read(client, f"/v1/memories/{third['id']}/history"), "id") == [
            first["id"], second["id"], third["id"],
        ]  # fmt: skip


async def test_what_a_private_revision_says_is_withheld_from_the_log(server: Server, ada: Client, project: str):
    first = await write(ada, "/v1/memories", project=project, content="The code is 1234", visibility="private")
    second = await change(ada, f"/v1/memories/{first['id']}", content="The code is 4321")
    await read(ada, f"/v1/memories/{second['id']}", after=second["position"])
    async with server.client("stranger") as stranger:
        page = await read(stranger, "/v1/events", project=project, limit=1000)
        assert [one["data"] for one in page["events"]] == [{"visibility": "private", "withheld": True}] * 2
    own = await read(ada, "/v1/events", project=project, limit=1000)
    assert [one["data"]["content"] for one in own["events"]] == ["The code is 1234", "The code is 4321"]


async def test_a_memory_whose_agent_is_unknown_cannot_be_hidden_from_everybody(client: Client, project: str):
    told = await write(client, "/v1/memories", project=project, content="said by nobody in particular")
    wanted = {"visibility": "private"}
    assert await refused(client, "PATCH", f"/v1/memories/{told['id']}", wanted) == (422, "invalid", "visibility")


async def test_a_memory_that_was_forgotten_cannot_be_revised(ada: Client, project: str):
    told = await write(ada, "/v1/memories", project=project, content="soon gone")
    assert (await ada.delete(f"/v1/memories/{told['id']}")).status_code == 202
    assert (await refused(ada, "PATCH", f"/v1/memories/{told['id']}", {"content": "back"}))[:2] == (404, "not_found")


# recall


async def test_recall_takes_other_rankings_and_narrows_by_what_a_document_is(ada: Client, project: str):
    """`types` are classes, `files` and `concepts` what it is linked to; every ranking finds the one that says it."""
    how = {"memory_type": "procedural", "files": ["src/deploy.py"], "concepts": ["release"]}
    steps = await write(ada, "/v1/memories", project=project, content="Release by running the deploy script", **how)
    asked = {"content": "Is the deploy script idempotent?", "purpose": "question"}
    question = await write(ada, "/v1/memories", project=project, **asked)
    after = f"{steps['position']},{question['position']}"
    for ranking in ("fused", "similarity", "rrf"):
        found = await recall(ada, "deploy script", project=project, ranking=ranking, after=after)
        assert set(ids(found)) == {steps["id"], question["id"]}, ranking
    for narrowed, expected in [
        ({"types": ["procedural"]}, [steps["id"]]),
        ({"types": ["question"]}, [question["id"]]),
        ({"types": ["episodic"]}, []),
        ({"files": ["src/deploy.py"]}, [steps["id"]]),
        ({"concepts": ["release"]}, [steps["id"]]),
        ({"concepts": ["nothing of the kind"]}, []),
    ]:
        assert ids(await recall(ada, "deploy script", project=project, **narrowed)) == expected, narrowed


async def test_recall_as_of_a_time_answers_with_the_version_of_then(ada: Client, project: str):
    first = await write(ada, "/v1/memories", project=project, content="The flag is called BLUE")
    recorded = (await read(ada, f"/v1/memories/{first['id']}", after=first["position"]))["recorded_at"]
    second = await change(ada, f"/v1/memories/{first['id']}", content="The flag is called GREEN")
    asked = {"project": project, "after": second["position"]}
    assert ids(await recall(ada, "what is the flag called", **asked)) == [second["id"]]
    assert ids(await recall(ada, "what is the flag called", as_of=recorded, **asked)) == [first["id"]]
    assert ids(await recall(ada, "what is the flag called", as_of="2020-01-01T00:00:00Z", **asked)) == []


async def test_a_memory_ends_by_hand_and_a_new_text_does_not_end_with_it(ada: Client, project: str):
    """PATCH with `valid_until` alone says that a memory is no longer true; `null` says nothing."""
    asked, end = {"project": project, "query": "where is the key"}, "2020-01-01T00:00:00Z"
    first = await write(ada, "/v1/memories", project=project, content="The key is under the mat", tags=["key"])
    recorded = (await read(ada, f"/v1/memories/{first['id']}", after=first["position"]))["recorded_at"]
    second = await change(ada, f"/v1/memories/{first['id']}", valid_until=end)
    assert ids(await recall(ada, **asked, after=second["position"])) == []
    assert ids(await recall(ada, **asked, as_of=recorded)) == [first["id"]]
    assert (await read(ada, f"/v1/memories/{second['id']}"))["valid_until"] == end
    listed = await read(ada, "/v1/memories", project=project, latest=True)
    assert ids(listed) == [second["id"]]
    third = await change(ada, f"/v1/memories/{first['id']}", tags=["house"], valid_until=None)
    assert (await read(ada, f"/v1/memories/{third['id']}", after=third["position"]))["valid_until"] == end
    fourth = await change(ada, f"/v1/memories/{first['id']}", content="The key is in the drawer")
    assert ids(await recall(ada, **asked, after=fourth["position"])) == [fourth["id"]]
    told = await read(ada, f"/v1/memories/{fourth['id']}/history")
    assert [end is not None for end in names(told, "valid_until")] == [True, True, True, False]


async def test_deleting_the_newest_version_deletes_every_version_of_a_memory(ada: Client, project: str):
    first = await write(ada, "/v1/memories", project=project, content="The safe opens with 4711")
    second = await change(ada, f"/v1/memories/{first['id']}", content="The safe opens with 0815")
    third = await change(ada, f"/v1/memories/{first['id']}", content="The safe opens with 1234")
    other = await write(ada, "/v1/memories", project=project, content="The garden is behind the house")
    told = (await ada.delete(f"/v1/memories/{third['id']}")).json()
    for one in (first, second, third):
        assert (await ada.get(f"/v1/memories/{one['id']}", params={"after": told["position"]})).status_code == 404
        assert (await ada.get(f"/v1/memories/{one['id']}/history")).status_code == 404
    assert ids(await read(ada, "/v1/memories", project=project)) == [other["id"]]
    for path in ("/v1/events", "/v1/export"):
        text = (await ada.get(path, params={"project": project})).text
        assert "The garden" in text
        assert "The safe" not in text, path


async def test_deleting_an_older_version_keeps_the_newer_ones(ada: Client, project: str):
    first = await write(ada, "/v1/memories", project=project, content="The key is under the mat")
    second = await change(ada, f"/v1/memories/{first['id']}", content="The key is in the drawer")
    third = await change(ada, f"/v1/memories/{first['id']}", content="The key is at the neighbour's")
    told = (await ada.delete(f"/v1/memories/{second['id']}")).json()
    await read(ada, f"/v1/memories/{third['id']}", after=told["position"])
    assert ids(await read(ada, "/v1/memories", project=project)) == [third["id"]]
    assert (await read(ada, f"/v1/memories/{third['id']}"))["content"] == "The key is at the neighbour's"
