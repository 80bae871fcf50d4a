"""Derived knowledge over HTTP: graph, profile, context, audit, summaries, crystals, consolidation, insights, facts."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from commands import run
from waiting import wait_until

from tests.acceptance.asking import ask, change, names, read, recall, refused, remove, run_job, write
from tests.acceptance.running import Server, ids, new_tenant

Client = httpx.AsyncClient


async def town(client: Client, project: str) -> dict[str, str]:
    """A small project: two sessions, three memories; returns ids by name and the position behind it all."""
    edit = {"tool_name": "Edit", "tool_input": {"file_path": "src/bridge.py"}}
    batch: list[dict[str, Any]] = [
        {"type": "observe", "session_id": "s1", "kind": "file_edit", "data": edit},
        {"type": "observe", "session_id": "s1", "kind": "error", "content": "ValueError: the bridge is closed"},
        {"type": "observe", "session_id": "s2", "content": "Somebody asked when the bridge opens"},
    ]
    told = await client.post("/v1/events", json=[{"project": project, **one} for one in batch])
    found = {"position": told.json()["position"]}
    for name, said in {
        "bridge": {"content": "The bridge opens at six", "concepts": ["bridge"], "session_id": "s1"},
        "toll": {"content": "The toll is two coins", "concepts": ["bridge", "toll"], "files": ["src/toll.py"]},
        "taste": {"content": "Kim prefers tea", "tags": ["preference"], "user_id": "kim"},
    }.items():
        written = await write(client, "/v1/memories", project=project, **said)
        found[name] = written["id"]
        found["position"] += f",{written['position']}"
    return found


# the graph


async def test_the_graph_links_memories_to_what_they_are_about(client: Client, project: str):
    known = await town(client, project)
    drawn = await read(client, "/v1/graph", project=project, after=known["position"])
    nodes = {one["id"]: one["type"] for one in drawn["nodes"]}
    assert nodes[known["bridge"]] == nodes[known["toll"]] == "memory"
    assert nodes[f"project:{project}"] == "project"
    assert nodes["concept:bridge"] == "concept"
    assert nodes["file:src/toll.py"] == "file"
    edges = {(one["source"], one["type"], one["target"]) for one in drawn["edges"]}
    assert (known["toll"], "about", "concept:bridge") in edges
    assert (known["toll"], "touches", "file:src/toll.py") in edges
    assert (known["bridge"], "in_session", "session:s1") in edges
    assert (drawn["truncated"], drawn["total_nodes"]) == (False, len(drawn["nodes"]))


# profiles


async def test_a_profile_tells_what_a_project_is_about_and_is_kept(client: Client, project: str):
    known = await town(client, project)
    told = await read(client, "/v1/profile", project=project, user_id="kim", after=known["position"])
    profile = told["profile"]
    assert (told["cached"], profile["project"], profile["session_count"]) == (False, project, 2)
    assert profile["total_observations"] == 3
    assert "src/bridge.py" in [name for name, _ in profile["files"]]
    assert any("bridge is closed" in one for one in profile["errors"])
    assert any("tea" in one for one in profile["preferences"])

    async def kept() -> bool:
        """What is kept is made anew once an index is loaded or a document is forgotten, wherever."""
        again = await read(client, "/v1/profile", project=project, user_id="kim")
        return again == {"profile": profile, "cached": True}

    await wait_until(kept)
    said = {"session_id": "s3", "content": "A third session"}
    more = await write(client, "/v1/observations", project=project, **said)
    fresh = await read(client, "/v1/profile", project=project, user_id="kim", refresh=True, after=more["position"])
    assert (fresh["cached"], fresh["profile"]["session_count"]) == (False, 3)


# context


async def test_a_memory_without_a_project_is_in_no_projects_context_or_recall(client: Client, project: str):
    word = f"kettle{project[-8:]}".replace("-", "")
    for home, text in (("", "nameless"), (project, "own"), ("*", "everywhere")):
        content = f"The {word} is {text}"
        written = await client.post("/v1/memories", json={"project": home, "content": content, "importance": 10})
        assert written.is_success
    compiled = await ask(client, "/v1/context", project=project, query=f"Where is the {word}?", token_budget=8000)
    assert "is nameless" not in compiled["context"]
    assert "is own" in compiled["context"]
    assert "is everywhere" in compiled["context"]
    found = await ask(client, "/v1/recall", project=project, query=f"Where is the {word}?", min_confidence=0)
    assert [result["project"] for result in found["results"]] == [project]


# audit


async def test_the_audit_tells_who_wrote_and_who_deleted(server: Server, project: str):
    """Newest first, without what was said; observations only if asked for."""
    async with server.client("ada") as ada, server.client("bob") as bob:
        await write(ada, "/v1/observations", project=project, session_id="s1", content="seen by ada")
        kept = await write(ada, "/v1/memories", project=project, content="kept by ada")
        edited = await change(bob, f"/v1/memories/{kept['id']}", content="edited by bob")
        gone = await remove(bob, f"/v1/memories/{edited['id']}", reason="it was wrong")
        page = await read(ada, "/v1/audit", project=project, after=gone["position"])
        entries = page["entries"]
        assert [(entry["operation"], entry["agent_id"]) for entry in entries if not entry["erased"]] == [
            ("subject.forgotten", "bob"),
            ("memory.recorded", "ada"),
        ]
        assert (entries[0]["targets"], entries[0]["reason"]) == ([edited["id"]], "it was wrong")
        assert "said" not in entries[0]
        assert [entry["targets"] for entry in entries if entry["erased"]] == [[edited["id"]]]
        assert "kept by ada" not in str(page)
        with_observations = (await read(ada, "/v1/audit", project=project, operation="*"))["entries"]
        assert [observation["operation"] for observation in with_observations][-1] == "observation.recorded"
        only = (await read(ada, "/v1/audit", project=project, agent_id="ada"))["entries"]
        assert kept["id"] in [name for one in only for name in one["targets"]]
        only = (await read(ada, "/v1/audit", project=project, operation="subject.forgotten"))["entries"]
        assert [one["agent_id"] for one in only] == ["bob"]


# diagnosis


async def test_a_sound_memory_passes_every_check(client: Client):
    told = await read(client, "/v1/diagnose", categories="log,index, dead_letters,storage,llm,embedding")
    assert {one["status"] for one in told["checks"]} == {"pass"}
    assert (told["status"], told["summary"]["fail"]) == ("healthy", 0)
    assert [one["category"] for one in told["checks"]] == [
        "log",
        "dead_letters",
        "index",
        "embedding",
        "storage",
        "llm",
    ]


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
    made = await run_job(client, "/v1/consolidate", project=project, min_observations=3)
    assert (made["observations"], made["facts"], made["procedures"]) == (len(NOTES), 0, 0)
    assert made["memories"] >= 1
    page = await read(client, "/v1/memories", project=project, after=f"{told['position']},{made['position']}")
    about = next(one for one in page["items"] if one["title"] == "About redis")
    assert "consolidated" in about["tags"]
    assert len(about["derived_from"]) == len(NOTES)
    again = await run_job(client, "/v1/consolidate", project=project, min_observations=3)
    assert again["memories"] == 0
    assert (await read(client, "/v1/memories", project=project))["items"] == page["items"]
    fewer = await run_job(client, "/v1/consolidate", project=project, min_observations=100)
    assert (fewer["memories"], fewer["position"]) == (0, "")


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
    made = await run_job(client, "/v1/reflect", project=project)
    assert (made["items"], made["reinforced"]) == (len(texts), 0)
    assert made["insights"] >= 1
    page = await read(client, "/v1/lessons", project=project, after=made["position"])
    assert {*names(page, "origin")} == {"reflection"}
    assert any("restore test every month" in name for name in names(page, "content"))
    again = await run_job(client, "/v1/reflect", project=project, max_clusters=5)
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
    made = await run_job(client, "/v1/consolidate", project=project, min_observations=3)
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


async def test_a_job_is_known_to_its_tenant_only(server: Server, client: Client, project: str):
    job = await write(client, "/v1/consolidate", project=project)
    assert (await read(client, f"/v1/jobs/{job['id']}"))["id"] == job["id"]
    assert (await write(client, "/v1/consolidate", project=project))["id"] == job["id"], "the same order is one job"
    other = await new_tenant(server, f"other-{project}")
    async with other.client() as stranger:
        assert (await stranger.get(f"/v1/jobs/{job['id']}")).status_code == 404
    assert await refused(client, "GET", "/v1/jobs/job_unknown") == (404, "not_found", None)


@pytest.mark.parametrize("path", ["/v1/consolidate", "/v1/reflect"])
async def test_an_empty_project_gives_nothing(client: Client, project: str, path: str):
    assert (await run_job(client, path, project=project))["position"] == ""


PAIRS = [
    ("Alice is allergic to peanuts and always carries a pen", "Alicia is allergic to peanuts and always carries a pen"),
    ("Build 4711 of the shop passed all of its tests", "Build 4712 of the shop passed all of its tests"),
    ("The admin page listens on port 8080 of the gateway", "The admin page listens on port 8081 of the gateway"),
    ("The yearly price of the license is 1,200 euros", "The yearly price of the license is 1,900 euros"),
    ("The nightly backup is enabled on the database host", "The nightly backup is not enabled on the database host"),
    ("数据库服务器的夜间备份已启用", "数据库服务器的夜间备份未启用"),
]


async def keep(client: httpx.AsyncClient, project: str, content: str, **said: Any) -> dict[str, Any]:
    """The answer that says what the memory did; sent again while that is not known in time, as on a busy machine."""
    command = {"event_id": uuid4().hex, "project": project, "content": content, **said}
    answer = await write(client, "/v1/memories", **command)
    for _ in range(20):
        if "superseded" in answer:
            break
        answer = await write(client, "/v1/memories", **command)
    return answer


async def current(client: httpx.AsyncClient, project: str, after: str) -> list[str]:
    return sorted(ids(await read(client, "/v1/memories", project=project, latest=True, after=after)))


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("other", ["ada", "bob"])
async def test_two_facts_stay_two_whoever_records_them(
    client: httpx.AsyncClient, project: str, first: str, second: str, other: str
):
    one = await keep(client, project, first, agent_id="ada")
    two = await keep(client, project, second, agent_id=other)
    assert (two["superseded"], two["similar"]) == ([], [one["id"]])
    assert await current(client, project, two["position"]) == sorted([one["id"], two["id"]])
    found = await recall(client, second, project=project, fold=True)
    assert sorted(ids(found)) == sorted([one["id"], two["id"]])


async def test_a_restatement_supersedes_and_the_answer_says_what(client: httpx.AsyncClient, project: str):
    one = await keep(client, project, "The backup runs at night", agent_id="ada")
    said = {"agent_id": "ada", "event_id": f"{project}-again"}
    two = await keep(client, project, "Backup runs at night!", **said)
    assert (two["superseded"], two["similar"]) == ([one["id"]], [])
    assert (await keep(client, project, "Backup runs at night!", **said))["superseded"] == [one["id"]]
    assert await current(client, project, two["position"]) == [two["id"]]


async def test_deleting_a_memory_leaves_that_of_another_agent(client: httpx.AsyncClient, project: str):
    """Also where both say the same words, and where one revised the other."""
    for first, second in ((PAIRS[0][0], PAIRS[0][1]), (PAIRS[1][0], PAIRS[1][0])):
        one = await keep(client, project, first, agent_id="ada")
        two = await keep(client, project, second, agent_id="bob")
        gone = await remove(client, f"/v1/memories/{two['id']}")
        assert (await read(client, f"/v1/memories/{one['id']}", after=gone["position"]))["is_latest"]
    revised = await change(client, f"/v1/memories/{one['id']}", content="Build 4713", agent_id="bob")
    gone = await remove(client, f"/v1/memories/{revised['id']}")
    assert (await read(client, f"/v1/memories/{one['id']}", after=gone["position"]))["is_latest"]


async def test_a_memory_that_expires_neither_supersedes_nor_takes_another_along(
    client: httpx.AsyncClient, project: str
):
    lasting = await keep(client, project, "The backup runs at night", agent_id="ada")
    brief = await keep(client, project, "The backup runs at night", agent_id="ada", ttl_days=1)
    assert (brief["superseded"], brief["similar"]) == ([], [lasting["id"]])
    gone = await remove(client, f"/v1/memories/{brief['id']}")
    assert await current(client, project, gone["position"]) == [lasting["id"]]


async def test_a_key_that_may_only_write_is_told_of_no_others(server: Server, project: str):
    async with server.client() as operator:
        made = await operator.post("/v1/admin/keys", json={"name": project, "roles": ["write"], "tenant": "default"})
        assert made.status_code == 201, made.text

    async with server.client("ada", secret=made.json()["key"]) as hook:

        async def kept() -> bool:
            body = {"project": project, "content": "The backup runs at night"}
            answer = await hook.post("/v1/memories", json=body)
            return answer.status_code == 202 and not {"superseded", "similar"} & answer.json().keys()

        await wait_until(kept)  # processes look for new keys now and then


async def test_an_import_of_lines_keeps_every_fact_and_counts_what_is_superseded(
    server: Server, client: httpx.AsyncClient, project: str, tmp_path: Path
):
    facts = ["The port is 8080", "The port is 8081", "The port is 8082", "The port is 8082."]
    lines = [json.dumps({"type": "remember", "project": project, "agent_id": "ada", "content": fact}) for fact in facts]
    (tmp_path / "facts.jsonl").write_text("\n".join(lines))
    variables = {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": server.secret, "XDG_STATE_HOME": str(tmp_path)}
    done = await asyncio.to_thread(run, variables, "import", "jsonl", str(tmp_path / "facts.jsonl"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["kinds"]["command"]["superseded"] == 1

    async def contents() -> list[str]:
        page = await read(client, "/v1/memories", project=project, latest=True)
        return sorted(names(page, "content"))

    assert await contents() == [facts[0], facts[1], facts[3]]
