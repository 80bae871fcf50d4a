"""Agents of a fleet that want the same: claims of actions, and changes that expect a version."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.asking import read, repeated, write
from tests.acceptance.contending import claim_rounds, work_off
from tests.acceptance.running import Server, fault, running

Client = httpx.AsyncClient


async def post(client: Client, path: str, agent: str, **body: Any) -> httpx.Response:
    return await repeated(client, "POST", path, json=body, headers={"X-Agent-Id": agent})


async def test_of_many_agents_one_gets_the_action_and_the_others_learn_who(client: Client, project: str):
    task = await write(client, "/v1/actions", project=project, title="Migrate the users table")
    asked = [post(client, f"/v1/actions/{task['id']}/claim", f"agent-{n}", lease_seconds=60) for n in range(32)]
    answers = await asyncio.gather(*asked)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 31}
    won = next(answer.json() for answer in answers if answer.status_code == 200)
    holder = won["action"]["holder"]
    for refused in (fault(answer) for answer in answers if answer.status_code == 409):
        assert (refused["code"], refused["holder"], refused["expires_at"]) == ("claimed", holder, won["expires_at"])
    seen = await read(client, f"/v1/actions/{task['id']}")
    assert (seen["holder"], seen["token"], seen["status"]) == (holder, won["token"], "active")
    events = (await read(client, "/v1/events", project=project, type="action.claimed"))["events"]
    assert Counter(event.get("refused") for event in events) == {"claimed": 31, None: 1}
    of_the_action = {"project": project, "type": "action.claimed", "subject": task["id"]}
    assert [event["agent_id"] for event in (await read(client, "/v1/events", **of_the_action))["events"]] == [holder]


async def test_token_renews_completes_and_is_then_refused_everywhere(client: Client, project: str):
    task = await write(client, "/v1/actions", project=project, title="Rotate the keys")
    path = f"/v1/actions/{task['id']}"
    claim = (await post(client, f"{path}/claim", "ada", lease_seconds=5)).json()
    renewed = (await post(client, f"{path}/renew", "ada", token=claim["token"], lease_seconds=600)).json()
    assert (renewed["token"], renewed["expires_at"] > claim["expires_at"]) == (claim["token"], True)
    done = await post(client, f"{path}/complete", "ada", token=claim["token"], result="All four.")
    assert (done.status_code, done.json()["version"]) == (200, 4)
    seen = await read(client, path)
    assert (seen["status"], seen["result"], seen["holder"]) == ("done", "All four.", "")
    for way, more in (("complete", {}), ("release", {}), ("renew", {"lease_seconds": 9})):
        refused = await post(client, f"{path}/{way}", "ada", token=claim["token"], **more)
        assert (refused.status_code, fault(refused)["code"]) == (409, "stale_token")
    assert fault(await post(client, f"{path}/claim", "bob"))["code"] == "finished"


async def test_repeated_claim_with_its_event_id_returns_the_same_token(client: Client, project: str):
    task = await write(client, "/v1/actions", project=project, title="Write the changelog")
    sent = {"lease_seconds": 60, "event_id": f"claim-{project}"}
    first, again = [(await post(client, f"/v1/actions/{task['id']}/claim", "ada", **sent)).json() for _ in range(2)]
    assert (again["token"], again["expires_at"], again["duplicate"]) == (first["token"], first["expires_at"], True)


async def test_expired_claim_returns_to_the_frontier_with_an_event(client: Client, project: str):
    task = await write(client, "/v1/actions", project=project, title="Clear the queue")
    claim = (await post(client, f"/v1/actions/{task['id']}/claim", "ada", lease_seconds=1)).json()

    async def expired() -> bool:
        page = await read(client, "/v1/events", project=project, type="action.expired")
        return [event["data"]["token"] for event in page["events"]] == [claim["token"]]

    await wait_until(expired, 20)
    again = await post(client, "/v1/actions/claim_next", "bob", project=project)
    assert (again.status_code, again.json()["id"]) == (200, task["id"])
    late = await post(client, f"/v1/actions/{task['id']}/complete", "ada", token=claim["token"])
    assert fault(late)["code"] == "stale_token"


async def test_next_claim_is_the_most_urgent_free_action_with_a_label(client: Client, project: str):
    async def action(title: str, **fields: Any) -> str:
        return (await write(client, "/v1/actions", project=project, title=title, **fields))["id"]

    low = await action("low", priority=1, tags=["go"])
    high = await action("high", priority=9, tags=["python"])
    await action("waits", priority=99, requires=[low])
    await action("assigned", priority=50, assigned_to="eve")
    mid = await action("mid", priority=5, tags=["go", "docs"])

    async def claimed(**body: Any) -> str:
        answer = await post(client, "/v1/actions/claim_next", "ada", project=project, **body)
        return answer.json().get("id") or fault(answer)["code"]

    assert await claimed(labels=["docs", "go"]) == mid
    assert [await claimed() for _ in range(3)] == [high, low, "nothing_to_claim"]


async def test_action_that_waits_or_conflicts_cannot_be_claimed_whichever_of_the_two_says_so(
    client: Client, project: str
):
    async def action(title: str, **fields: Any) -> str:
        return (await write(client, "/v1/actions", project=project, title=title, **fields))["id"]

    async def claimed(name: str) -> str:
        answer = await post(client, f"/v1/actions/{name}/claim", "ada")
        return "" if answer.status_code == 200 else fault(answer)["code"]

    migrate = await action("Migrate")
    waits = await action("Deploy", requires=[migrate])
    conflicts = await action("Back up", edges=[{"type": "conflicts_with", "target": migrate}])
    assert (await claimed(waits), await claimed(conflicts)) == ("not_ready", "")
    assert await claimed(migrate) == "not_ready", "the action that was claimed names the conflict"


async def test_agents_that_add_lines_by_expected_version_lose_none(client: Client, project: str):
    slot = {"project": project, "label": "open_questions", "size_limit": 20_000}
    await write(client, "/v1/slots", content="- start", **slot)
    memory = await write(client, "/v1/memories", project=project, content="Known:")

    async def add_to_slot(agent: str) -> None:
        while True:
            seen = await read(client, "/v1/slots/open_questions", project=project)
            content = f"{seen['content']}\n- {agent}"
            sent = await post(client, "/v1/slots", agent, **slot, content=content, expected_version=seen["version"])
            if sent.status_code == 200:
                return
            assert fault(sent)["code"] == "version_conflict"

    async def add_to_memory(agent: str) -> None:
        path = f"/v1/memories/{memory['id']}"
        while True:
            newest = (await read(client, f"{path}/history"))["items"][-1]
            changes, tag = {"content": f"{newest['content']} {agent};"}, {"If-Match": f'"{newest["version"]}"'}
            sent = await repeated(client, "PATCH", path, json=changes, headers={"X-Agent-Id": agent, **tag})
            if sent.status_code == 200:
                return
            assert fault(sent)["code"] == "version_conflict"

    agents = [f"agent-{n}" for n in range(12)]
    await asyncio.gather(*map(add_to_slot, agents), *map(add_to_memory, agents))
    slot_now = await read(client, "/v1/slots/open_questions", project=project)
    assert (slot_now["content"].count("\n- agent"), slot_now["version"]) == (12, 13)
    newest = (await read(client, f"/v1/memories/{memory['id']}/history"))["items"][-1]
    assert (newest["content"].count(";"), newest["version"]) == (12, 13)


async def test_conflict_names_the_version_and_its_agent_and_the_tag_of_a_read_avoids_it(client: Client, project: str):
    lesson = await write(client, "/v1/lessons", project=project, content="Restart staging first.", agent_id="ada")
    path = f"/v1/lessons/{lesson['id']}"
    await read(client, path, after=lesson["position"])
    first = await client.patch(path, json={"title": "A"}, headers={"If-Match": '"1"', "X-Agent-Id": "ada"})
    assert (first.status_code, first.json()["version"], first.headers["etag"]) == (200, 2, '"2"')
    second = await client.patch(path, json={"title": "B"}, headers={"If-Match": '"1"', "X-Agent-Id": "bob"})
    told = fault(second)
    assert (told["status"], told["code"], told["version"], told["changed_by"]) == (409, "version_conflict", 2, "ada")
    tag = (await client.get(path)).headers["etag"]
    assert (await client.patch(path, json={"title": "B"}, headers={"If-Match": tag})).status_code == 200


@pytest.mark.parametrize("tag", ["abc", '"1.5"', '"99999999999999999999"'])
async def test_tag_that_no_read_returned_is_refused(client: Client, project: str, tag: str):
    lesson = await write(client, "/v1/lessons", project=project, content="Look at the tag.")
    refused = await client.patch(f"/v1/lessons/{lesson['id']}", json={"title": "x"}, headers={"If-Match": tag})
    assert (refused.status_code, fault(refused)["field"]) == (422, "If-Match")


async def test_condition_is_refused_where_nothing_would_decide_it(client: Client, project: str):
    batch = [{"type": "slot", "project": project, "label": "notes", "content": "x", "expected_version": 1}]
    answer = (await client.post("/v1/events", json=batch)).json()
    assert (answer["accepted"], answer["rejected"][0]["field"]) == (0, "expected_version")
    deletion = await client.delete("/v1/memories/mem_0123456789abcdef0123", headers={"If-Match": '"1"'})
    assert (deletion.status_code, fault(deletion)["field"]) == (422, "If-Match")
    unnamed = await client.post("/v1/actions/act_0123456789abcdef0123/claim", json={})
    assert unnamed.status_code in (404, 422)


async def test_claims_have_one_winner_a_round_and_rising_tokens(server: Server, project: str):
    rounds = await claim_rounds(server, project, agents=16, rounds=4)
    assert [len(one) for one in rounds] == [1] * 4
    assert sorted(rounds) == rounds


async def test_queue_is_worked_off_once_though_agents_disappear(server: Server, project: str):
    done, expired = await work_off(server, project, actions=60, agents=12, leaving=3)
    assert (len(done), set(done.values()), expired) == (60, {1}, 3)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_claims_survive_kills_of_every_process(cache_dir: Any):
    """200 rounds of 64 agents with kill -9 of each process in between; then a queue of 1,000 actions."""
    with running(cache_dir, embedder="none") as server:
        rounds = await claim_rounds(server, "killed", agents=64, rounds=200, kill_every=10)
        assert [len(one) for one in rounds] == [1] * 200
        assert sorted(rounds) == rounds
        done, _ = await work_off(server, "queue", actions=1_000, agents=64, leaving=16)
        assert (len(done), set(done.values())) == (1_000, {1})
