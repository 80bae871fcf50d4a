"""Forgetting a session, a user, a project: everything that belongs to them, everywhere, with a receipt."""

import json
from typing import Any, cast

import httpx
from waiting import wait_until

from ingest.platform.connections import connect
from tests.acceptance.asking import read, recall, refused, write
from tests.acceptance.running import Server, ids

Client = httpx.AsyncClient


async def forget(client: Client, **wanted: Any) -> dict[str, Any]:
    """The receipt of a forgetting that is done."""
    answer = await client.post("/v1/forget", json=wanted)
    assert answer.status_code == 202, answer.text
    asked = answer.json()
    assert asked["status"] == "pending"

    async def done() -> bool:
        receipt = await read(client, f"/v1/forget/{asked['id']}")
        assert not receipt["error"], receipt
        return receipt["status"] == "done"

    await wait_until(done, 90)
    return await read(client, f"/v1/forget/{asked['id']}")


async def log_of(client: Client, project: str) -> list[dict[str, Any]]:
    """What the log shows of a project."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = await read(client, "/v1/events", after=after, limit=1000, project=project)
        found += page["events"]
        if page["next"] in (None, after):
            return found
        after = page["next"]


async def life(client: Client, project: str, user: str) -> str:
    """Something of every kind about a user, and something that is not; the position behind all of it."""
    about = {"project": project, "user_id": user}
    tokens: list[str] = []
    seen = await write(client, "/v1/observations", **about, session_id="s1", content="The walrus asked for ice")
    tokens.append(seen["position"])
    for path, said in [
        ("/v1/observations", {**about, "session_id": "s1", "content": "The walrus was given ice"}),
        ("/v1/memories", {**about, "content": "The walrus likes ice"}),
        ("/v1/lessons", {**about, "content": "Keep ice for the walrus"}),
        ("/v1/slots", {**about, "label": "guidance", "content": "Ask the walrus first"}),
        ("/v1/actions", {**about, "title": "Order ice for the walrus"}),
        ("/v1/commits", {**about, "commit": "abc", "message": "walrus ice", "session_id": "s1"}),
        ("/v1/relations", {**about, "source": "concept:walrus", "target": "concept:ice", "relation": "likes"}),
        ("/v1/observations", {"project": project, "session_id": "s2", "content": "The heron wanted nothing"}),
        ("/v1/memories", {"project": project, "content": "The heron eats at dawn"}),
    ]:
        tokens.append((await write(client, path, **said))["position"])
    after = ",".join(tokens)
    await read(client, "/v1/timeline", project=project, after=after)
    return after


def checked(receipt: dict[str, Any], **documents: int) -> None:
    """Check that a receipt says so many documents went, from every store, and that nothing of them is found."""
    assert receipt["finished_at"]
    assert receipt["name"] == ""
    removed = receipt["removed"]
    assert {kind: count for kind, count in removed["documents"].items() if kind != "event"} == documents
    own_entries = {kind: count for kind, count in documents.items() if kind != "session"}  # it opened by itself
    assert removed["log_entries"] >= sum(own_entries.values())
    assert removed["snapshot"]
    assert removed["replicas"] >= 1
    assert removed["replicas_waiting"] == 0
    assert removed["append_only_file"] == "being rewritten"
    assert receipt["probe"]["found"] == 0
    assert receipt["probe"]["documents"] >= sum(documents.values())
    assert receipt["probe"]["queries"] >= 1


async def test_a_forgotten_user_is_gone_from_everywhere(server: Server, client: Client, project: str):
    """What names somebody else stays; the user's name is not even in the receipt or the tombstones."""
    user = f"user-{project}"
    await life(client, project, user)
    receipt = await forget(client, kind="user", subject=user, reason="asked to")
    checked(receipt, observation=2, session=1, memory=1, lesson=1, slot=1, action=1, commit=1, relation=1)
    assert receipt["subject"].startswith("usr_")
    assert receipt["reason"] == "asked to"
    found = await recall(client, "walrus ice heron", project=project)
    assert {one["content"] for one in found["results"]} == {"The heron wanted nothing", "The heron eats at dawn"}
    for path in ("lessons", "actions", "commits", "relations"):
        assert (await read(client, f"/v1/{path}", project=project))["items"] == []
    assert ids(await read(client, "/v1/sessions", project=project)) == ["s2"]
    log = await log_of(client, project)
    assert "walrus" not in str(log)
    assert user not in str(log)
    redis = connect(server.redis_url)
    try:
        receipts = await redis.hgetall("mnemolog:receipts")
    finally:
        await redis.aclose()
        await cast(Any, redis).connection_pool.disconnect()
    assert user not in str(receipts)


async def test_what_is_recorded_of_a_user_afterwards_stays(client: Client, project: str):
    user = f"user-{project}"
    await life(client, project, user)
    await forget(client, kind="user", subject=user)
    told = await write(client, "/v1/memories", project=project, user_id=user, content="The walrus came back")
    found = await recall(client, "walrus", project=project, user_id=user, after=told["position"])
    assert ids(found) == [told["id"]]
    again = await forget(client, kind="user", subject=user)
    checked(again, memory=1)
    assert ids(await recall(client, "walrus", project=project, user_id=user)) == []


async def test_a_forgotten_project_is_empty(client: Client, project: str):
    await life(client, project, "kim")
    await life(client, f"{project}-other", "kim")
    receipt = await forget(client, kind="project", subject=project)
    checked(receipt, observation=3, session=2, memory=2, lesson=1, slot=1, action=1, commit=1, relation=1)
    assert receipt["subject"] == project
    assert ids(await recall(client, "walrus ice heron", project=project)) == []
    assert (await read(client, "/v1/sessions", project=project))["items"] == []
    assert {one["type"] for one in await log_of(client, project)} == {"subject.forgotten", "event.erased"}
    assert len((await recall(client, "walrus ice heron", project=f"{project}-other"))["results"]) > 3
    told = await write(client, "/v1/observations", project=project, session_id="s1", content="The walrus is new here")
    seen = await read(client, "/v1/sessions/s1", project=project, after=told["position"])
    assert seen["observation_count"] == 1


async def test_a_forgotten_session_leaves_the_others(client: Client, project: str):
    await life(client, project, "kim")
    receipt = await forget(client, kind="session", subject="s1", project=project)
    checked(receipt, observation=2, session=1, commit=1)
    assert (receipt["kind"], receipt["subject"], receipt["project"]) == ("session", "s1", project)
    assert ids(await read(client, "/v1/sessions", project=project)) == ["s2"]
    assert len((await read(client, "/v1/memories", project=project))["items"]) == 2


async def test_what_was_made_of_a_forgotten_session_goes_with_it(client: Client, project: str):
    """A summary, and memories that were consolidated from its observations."""
    for n, content in enumerate(["`walrus` wants ice", "`walrus` wants more ice", "`walrus` has enough ice"]):
        said = {"session_id": "s1", "kind": "decision", "content": f"{content}, for the {n}. time"}
        await write(client, "/v1/observations", project=project, **said)
    await write(client, "/v1/sessions/s1/summary", project=project)
    made = await write(client, "/v1/consolidate", project=project, min_observations=3)
    assert made["memories"] == 1
    await forget(client, kind="session", subject="s1", project=project)
    assert "walrus" not in str(await recall(client, "walrus ice", project=project))
    assert (await read(client, "/v1/memories", project=project))["items"] == []
    assert (await read(client, "/v1/summaries", project=project))["items"] == []
    assert "walrus" not in json.dumps(await log_of(client, project))


async def test_forgetting_what_is_not_there_says_so(client: Client, project: str):
    wanted = {"kind": "session", "subject": "nobodys", "project": project}
    assert (await refused(client, "POST", "/v1/forget", wanted))[:2] == (404, "not_found")
    receipt = await forget(client, kind="user", subject=f"nobody-{project}")
    assert (receipt["removed"]["documents"], receipt["probe"]["found"]) == ({}, 0)
    assert (await refused(client, "GET", "/v1/forget/no-such-receipt"))[:2] == (404, "not_found")
    later = await forget(client, kind="user", subject=f"nobody-else-{project}")
    listed = await read(client, "/v1/forget", limit=1)
    assert (listed["items"], listed["next"]) == ([later], later["id"])
    assert (await read(client, "/v1/forget", cursor=later["id"]))["items"][0] == receipt
    assert (await refused(client, "GET", "/v1/forget", cursor="nobodys"))[:2] == (422, "invalid")


async def test_a_receipt_never_shows_the_name_of_a_user(client: Client, project: str):
    answer = await client.post("/v1/forget", json={"kind": "user", "subject": f"kim-{project}"})
    assert answer.status_code == 202
    assert f"kim-{project}" not in answer.text
    assert f"kim-{project}" not in (await client.get("/v1/forget")).text


async def test_a_purge_can_be_ordered(client: Client):
    answer = await client.post("/v1/admin/purge")
    assert answer.status_code == 202
    assert list(answer.json()) == ["queued"]
