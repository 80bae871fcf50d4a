"""Few documents of many: session summaries, slots that follow the work, crystals, consolidated memories, insights."""

from typing import Any

import httpx
import pytest

from tests.acceptance.asking import ask, change, names, read, recall, refused, remove, write
from tests.acceptance.running import ids

Client = httpx.AsyncClient

WORK = [
    {"kind": "task", "content": "Find out why the checkout times out."},
    {"kind": "error", "content": "TimeoutError: the connection pool of the checkout service is exhausted."},
    {"kind": "decision", "content": "We decided to raise the pool size to 50 instead of adding a second pool."},
    {"kind": "file_edit", "data": {"tool_name": "Edit", "tool_input": {"file_path": "src/checkout/pool.py"}}},
]


async def work(client: Client, project: str, session: str) -> str:
    """A session of some observations; returns the position behind them."""
    batch = [{"type": "observe", "project": project, "session_id": session, **one} for one in WORK]
    told = await client.post("/v1/events", json=batch)
    assert told.json()["accepted"] == len(WORK), told.text
    return told.json()["position"]


async def test_a_session_is_summarised_by_its_own_words(client: Client, project: str):
    """Asked for at once after the last write, and found by every way of reading it."""
    await work(client, project, "s1")
    made = await write(client, "/v1/sessions/s1/summary", project=project)
    assert (made["model"], made["fell_back"]) == ("", "")
    assert made["summary"]["observation_count"] == len(WORK)
    assert any("pool size to 50" in one for one in made["summary"]["decisions"])
    kept = await read(client, "/v1/sessions/s1/summary", project=project, after=made["position"])
    assert (kept["narrative"], kept["files"]) == (made["summary"]["narrative"], ["src/checkout/pool.py"])
    assert await read(client, f"/v1/summaries/{kept['id']}") == kept
    assert ids(await read(client, "/v1/summaries", project=project)) == [kept["id"]]
    assert (await read(client, "/v1/sessions/s1", project=project))["summarised"] == len(WORK)
    found = await recall(client, "why did the checkout time out", project=project, kinds=["summary"])
    assert ids(found) == [kept["id"]]
    compiled = await ask(client, "/v1/context", project=project)
    assert made["summary"]["title"] in compiled["context"]


async def test_a_summary_follows_its_session(client: Client, project: str):
    """Asked for again it changes nothing, until there is something new to tell."""
    await work(client, project, "s1")
    first = await write(client, "/v1/sessions/s1/summary", project=project)
    again = await write(client, "/v1/sessions/s1/summary", project=project)
    assert again["position"] == first["position"]
    said = {"session_id": "s1", "kind": "decision", "content": "We chose to alert on pool exhaustion from now on."}
    await write(client, "/v1/observations", project=project, **said)
    newer = await write(client, "/v1/sessions/s1/summary", project=project)
    kept = await read(client, "/v1/sessions/s1/summary", project=project, after=newer["position"])
    assert kept["observation_count"] == len(WORK) + 1
    assert any("alert on pool exhaustion" in one for one in kept["decisions"])
    assert len((await read(client, "/v1/summaries", project=project))["items"]) == 1


async def test_a_summary_goes_with_an_observation_it_tells_of(client: Client, project: str):
    await work(client, project, "s1")
    made = await write(client, "/v1/sessions/s1/summary", project=project)
    page = await read(client, "/v1/sessions/s1/observations", project=project, after=made["position"])
    gone = await remove(client, f"/v1/observations/{page['items'][1]['id']}")
    where = "/v1/sessions/s1/summary"
    assert (await refused(client, "GET", where, project=project, after=gone["position"]))[:2] == (404, "not_found")
    newer = await write(client, where, project=project)
    assert newer["summary"]["observation_count"] == len(WORK) - 1
    assert "exhausted" not in str(newer)


async def test_there_is_no_summary_of_nothing(client: Client, project: str):
    await write(client, "/v1/sessions", project=project, session_id="s1", status="started")
    for method in ("POST", "GET"):
        body = {"project": project} if method == "POST" else None
        query = {} if method == "POST" else {"project": project}
        assert (await refused(client, method, "/v1/sessions/s1/summary", body, **query))[:2] == (404, "not_found")


async def test_the_slots_that_follow_the_work_are_brought_up_to_date(client: Client, project: str):
    await work(client, project, "s1")
    said = {"session_id": "s1", "kind": "task", "content": "TODO: write a test for the pool"}
    await write(client, "/v1/observations", project=project, **said)
    told = await write(client, "/v1/sessions/s1/reflect", project=project)
    assert (told["slots_changed"], told["observations"]) == (3, len(WORK) + 1)
    listed = await read(client, "/v1/slots", project=project, after=told["position"])
    page = {one["label"]: one["content"] for one in listed["items"]}
    assert "write a test for the pool" in page["pending_items"]
    assert "src/checkout/pool.py" in page["project_context"]
    assert "1 error" in page["session_patterns"]
    again = await write(client, "/v1/sessions/s1/reflect", project=project, max_observations=1)
    assert again == {"slots_changed": 0, "observations": 1, "position": ""}


async def test_a_deleted_session_is_gone_with_all_that_was_in_it(client: Client, project: str):
    await work(client, project, "s1")
    after = await work(client, project, "s2")
    await write(client, "/v1/sessions/s1/summary", project=project)
    await write(client, "/v1/commits", project=project, commit="abc", session_id="s1")
    gone = await remove(client, "/v1/sessions/s1", project=project, reason="asked to")
    assert gone["documents"] == {"observation": len(WORK), "session": 1, "commit": 1}
    assert (await refused(client, "GET", "/v1/sessions/s1", project=project, after=gone["position"]))[0] == 404
    assert ids(await read(client, "/v1/sessions", project=project, after=after)) == ["s2"]
    assert len((await read(client, "/v1/timeline", project=project))["items"]) == len(WORK)
    assert (await read(client, "/v1/summaries", project=project))["items"] == []
    assert (await read(client, "/v1/commits", project=project))["items"] == []
    found = await recall(client, "checkout pool exhausted", project=project)
    assert {one["session_id"] for one in found["results"]} == {"s2"}
    assert (await refused(client, "DELETE", "/v1/sessions/s1", project=project))[:2] == (404, "not_found")


async def test_a_session_taken_up_after_it_was_deleted_begins_anew(client: Client, project: str):
    await work(client, project, "s1")
    gone = await remove(client, "/v1/sessions/s1", project=project)
    new = await write(client, "/v1/observations", project=project, session_id="s1", content="A new beginning.")
    seen = await read(client, "/v1/sessions/s1", project=project, after=f"{gone['position']},{new['position']}")
    assert seen["observation_count"] == 1
    made = await write(client, "/v1/sessions/s1/summary", project=project)
    assert made["summary"]["observation_count"] == 1


# crystals


async def test_a_chain_of_finished_work_is_crystallised(client: Client, project: str):
    """Into one procedural memory, the lessons it states, and a note in each of the actions. Once only."""
    done: list[str] = []
    for title, result in [
        ("Reproduce the timeout", "Reproduced with 60 clients. Always start the load test with a warm pool."),
        ("Raise the pool size", "Pool size is 50 now. Never set it above the limit of the database."),
    ]:
        told = await write(client, "/v1/actions", project=project, title=title)
        await change(client, f"/v1/actions/{told['id']}", status="done", result=result)
        done.append(told["id"])
    made = await write(client, "/v1/crystals", action_ids=done)
    assert made["source_action_ids"] == done
    assert len(made["key_outcomes"]) == 2
    assert any("warm pool" in one for one in made["lessons"])
    memory = await read(client, f"/v1/memories/{made['id']}", after=made["position"])
    assert (memory["memory_type"], memory["derived_from"]) == ("procedural", done)
    for name in done:
        assert (await read(client, f"/v1/actions/{name}"))["crystallized_into"] == made["id"]
    lessons = await read(client, "/v1/lessons", project=project)
    assert sorted(names(lessons, "content")) == sorted(made["lessons"])
    assert {*names(lessons, "origin")} == {"crystal"}
    again = await write(client, "/v1/crystals", action_ids=done)
    assert again["id"] == made["id"]
    assert names(await read(client, "/v1/lessons", project=project, after=again["position"]), "reinforcements") == [
        0 for _ in made["lessons"]
    ]


async def test_only_finished_work_that_is_there_is_crystallised(client: Client, project: str):
    told = await write(client, "/v1/actions", project=project, title="Not done yet")
    unfinished = {"action_ids": [told["id"]]}
    assert await refused(client, "POST", "/v1/crystals", unfinished) == (422, "invalid", "action_ids")
    missing = {"action_ids": ["act_00000000000000000000"]}
    assert (await refused(client, "POST", "/v1/crystals", missing))[:2] == (404, "not_found")
    assert (await refused(client, "POST", "/v1/crystals", {"action_ids": []}))[:2] == (422, "invalid")


async def test_what_came_of_forgotten_work_goes_with_it(client: Client, project: str):
    told = await write(client, "/v1/actions", project=project, title="Open the safe with 1234")
    await change(client, f"/v1/actions/{told['id']}", status="done", result="It is open. Always lock the safe again.")
    made = await write(client, "/v1/crystals", action_ids=[told["id"]])
    await read(client, f"/v1/memories/{made['id']}", after=made["position"])
    gone = await remove(client, f"/v1/actions/{told['id']}")
    assert (await refused(client, "GET", f"/v1/memories/{made['id']}", after=gone["position"]))[0] == 404
    assert (await read(client, "/v1/lessons", project=project))["items"] == []


# consolidation


NOTES = [
    "The cluster of `redis` lost a node at noon.",
    "We decided that `redis` runs with appendfsync always.",
    "Every client of `redis` must reconnect after a failover.",
    "A slow script in `redis` blocked every client for a second.",
]


async def test_observations_about_one_thing_are_consolidated(client: Client, project: str):
    """Again it changes nothing: the evidence is the same."""
    batch: list[dict[str, Any]] = [
        {"type": "observe", "project": project, "session_id": "s1", "kind": "decision", "content": content}
        for content in NOTES
    ]
    told = (await client.post("/v1/events", json=batch)).json()
    made = await write(client, "/v1/consolidate", project=project, min_observations=3)
    assert (made["observations"], made["facts"], made["procedures"]) == (len(NOTES), 0, 0)
    assert made["memories"] >= 1
    page = await read(client, "/v1/memories", project=project, after=f"{told['position']},{made['position']}")
    about = next(one for one in page["items"] if one["title"] == "About redis")
    assert "consolidated" in about["tags"]
    assert len(about["derived_from"]) == len(NOTES)
    again = await write(client, "/v1/consolidate", project=project, min_observations=3)
    assert again["memories"] == 0
    assert (await read(client, "/v1/memories", project=project))["items"] == page["items"]
    fewer = await write(client, "/v1/consolidate", project=project, min_observations=100)
    assert (fewer["memories"], fewer["position"]) == (0, "")


async def test_new_observations_make_a_new_version_of_what_was_consolidated(client: Client, project: str):
    said = {"project": project, "session_id": "s1", "kind": "decision"}
    for content in NOTES[:3]:
        await write(client, "/v1/observations", content=content, **said)
    await write(client, "/v1/consolidate", project=project, min_observations=3)
    await write(client, "/v1/observations", content=NOTES[3], **said)
    made = await write(client, "/v1/consolidate", project=project, min_observations=3)
    page = await read(client, "/v1/memories", project=project, latest=True, after=made["position"])
    about = next(one for one in page["items"] if one["title"] == "About redis")
    assert about["version"] == 2
    assert "slow script" in about["content"]


# insights


async def test_reflecting_gives_insights_and_confirms_them(client: Client, project: str):
    texts = [
        "Backups run at night. Backups need a restore test every month.",
        "Backups need a restore test every month. The last restore took an hour.",
        "The backup host is called gannet. Backups need a restore test every month.",
    ]
    for text in texts:
        said = {"content": text, "concepts": ["backups"], "keep_duplicates": True}
        await write(client, "/v1/memories", project=project, **said)
    made = await write(client, "/v1/reflect", project=project)
    assert (made["items"], made["reinforced"]) == (len(texts), 0)
    assert made["insights"] >= 1
    page = await read(client, "/v1/lessons", project=project, after=made["position"])
    assert {*names(page, "origin")} == {"reflection"}
    assert any("restore test every month" in name for name in names(page, "content"))
    again = await write(client, "/v1/reflect", project=project, max_clusters=5)
    assert (again["insights"], again["reinforced"]) == (0, made["insights"])
    assert (await read(client, "/v1/lessons", project=project))["items"] == page["items"]


async def test_what_other_sessions_state_survives_the_forgetting_of_one(client: Client, project: str):
    """Facts and consolidated memories keep what the others said, and name them alone."""
    shared = "We decided that the `gateway` is restarted after every deploy."
    texts = {f"s{n}": f"We decided that {what} every night." for n, what in enumerate(DECIDED)}
    for session, text in texts.items():
        for content in (text, shared) if session < "s3" else (text,):
            await write(
                client, "/v1/observations", project=project, session_id=session, kind="decision", content=content
            )
        await write(client, f"/v1/sessions/{session}/summary", project=project)
    made = await write(client, "/v1/consolidate", project=project, min_observations=3)
    before = await by_content(client, project, made["position"])
    assert before.keys() >= {shared, *texts.values(), f"About gateway\n- {shared}"}
    assert [len(before[one]["derived_from"]) for one in (shared, texts["s0"])] == [3, 1]
    gone = await remove(client, "/v1/sessions/s0", project=project)
    after = await by_content(client, project, gone["position"])
    assert after.keys() == before.keys() - {texts["s0"]}
    assert after[shared]["id"] == before[shared]["id"]
    assert set(after[shared]["derived_from"]) < set(before[shared]["derived_from"])
    assert len(after[f"About gateway\n- {shared}"]["derived_from"]) == 2
    for session in ("s1", "s2"):
        gone = await remove(client, f"/v1/sessions/{session}", project=project)
    assert (await by_content(client, project, gone["position"])).keys() == {texts["s3"], texts["s4"]}


DECIDED = (
    "invoices are rounded",
    "pictures are copied",
    "passwords are rotated",
    "backups are tested",
    "caches are cleared",
)


async def by_content(client: Client, project: str, after: str) -> dict[str, dict[str, Any]]:
    page = await read(client, "/v1/memories", project=project, latest=True, limit=100, after=after)
    return {one["content"]: one for one in page["items"]}


async def test_a_crystal_of_work_without_a_project_leaves_the_server_healthy(client: Client):
    before = (await read(client, "/v1/diagnose", categories="memories"))["checks"]
    told = await write(client, "/v1/actions", title="Rotate the token")
    await change(client, f"/v1/actions/{told['id']}", status="done", result="It was rotated.")
    made = await write(client, "/v1/crystals", action_ids=[told["id"]])
    assert (await read(client, f"/v1/memories/{made['id']}", after=made["position"]))["project"] == ""
    assert (await read(client, "/v1/diagnose", categories="memories", after=made["position"]))["checks"] == before


@pytest.mark.parametrize("path", ["/v1/consolidate", "/v1/reflect"])
async def test_an_empty_project_gives_nothing(client: Client, project: str, path: str):
    assert (await write(client, path, project=project))["position"] == ""


async def test_what_is_private_is_made_into_nothing_public(client: Client, project: str):
    for n in range(4):
        said = {"content": f"The secret number is {n}", "concepts": ["numbers"], "keep_duplicates": True}
        await write(client, "/v1/memories", project=project, agent_id="ada", visibility="private", **said)
    made = await write(client, "/v1/reflect", project=project)
    assert (made["items"], made["insights"]) == (0, 0)
