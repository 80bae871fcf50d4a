"""What is known, asked in other ways than by recall: graph, profile, surroundings, enrichment, audit, diagnosis."""

from typing import Any

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.asking import all_pages, ask, change, names, read, refused, remove, write
from tests.acceptance.running import Server, ids

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


async def test_the_graph_is_walked_from_a_node(client: Client, project: str):
    known = await town(client, project)
    asked = {"project": project, "start": "concept:toll", "after": known["position"]}
    near = await read(client, "/v1/graph", **asked)
    assert {one["id"] for one in near["nodes"]} == {"concept:toll", known["toll"]}
    further = await read(client, "/v1/graph", **asked, depth=2)
    assert {"concept:bridge", "file:src/toll.py"} <= {one["id"] for one in further["nodes"]}
    assert known["bridge"] not in {one["id"] for one in further["nodes"]}
    furthest = await read(client, "/v1/graph", **asked, depth=3)
    assert known["bridge"] in {one["id"] for one in furthest["nodes"]}
    few = await read(client, "/v1/graph", **asked, depth=3, limit=2)
    assert (len(few["nodes"]), few["truncated"]) == (2, True)
    nowhere = await read(client, "/v1/graph", project=project, start="concept:nothing of the kind")
    assert (nowhere["nodes"], nowhere["edges"]) == ([], [])


async def test_the_graph_counts_what_it_has(client: Client, project: str):
    known = await town(client, project)
    related = await write(client, "/v1/relations", source=known["bridge"], target=known["toll"], relation="needs")
    totals = await read(client, "/v1/graph/stats", project=project, after=f"{known['position']},{related['position']}")
    assert totals["nodes"]["memory"] == 3
    assert totals["nodes"]["concept"] >= 2
    assert (totals["edges"]["needs"], totals["truncated"]) == (1, False)
    everything = await read(client, "/v1/graph/stats")
    assert everything["nodes"]["memory"] >= 3


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


async def test_a_kept_profile_forgets_with_everybody_else(client: Client, project: str):
    known = await town(client, project)
    await read(client, "/v1/profile", project=project, after=known["position"])
    gone = await remove(client, f"/v1/memories/{known['taste']}")
    told = await read(client, "/v1/profile", project=project, after=gone["position"])
    assert "tea" not in str(told)


async def test_nothing_is_told_of_a_project_nobody_knows(client: Client, project: str):
    assert await read(client, "/v1/profile", project=project) == {"profile": None, "cached": False}


# around, enrich


async def test_what_happened_around_a_moment_a_word_and_an_observation(client: Client, project: str):
    batch = [
        {
            "type": "observe", "project": project, "session_id": "s1", "content": f"step {n} of the recipe",
            "occurred_at": f"2026-03-0{n}T12:00:00Z",
        }
        for n in range(1, 8)
    ]  # fmt: skip
    told = (await client.post("/v1/events", json=batch)).json()
    beside = {"project": project, "before": 2, "behind": 1}
    around = await read(client, "/v1/around", anchor="2026-03-04", after=told["position"], **beside)
    places = [(one["relative_position"], one["content"].split()[1]) for one in around["items"]]
    assert [place for place, _ in places] == [-2, -1, 0, 1]
    assert (around["anchor_index"], around["reason"]) == (2, "")
    middle = around["items"][2]["id"]
    assert ids(await read(client, "/v1/around", anchor=middle, **beside)) == ids(around)
    newest = await read(client, "/v1/around", anchor="step 7", **beside)
    assert newest["items"][newest["anchor_index"]]["content"] == "step 7 of the recipe"
    for anchor, reason in (("no such words anywhere", "no_match"), ("2026-99-99", "invalid_date")):
        nothing = await read(client, "/v1/around", anchor=anchor, **beside)
        assert (nothing["items"], nothing["anchor_index"], nothing["reason"]) == ([], -1, reason)


async def test_what_is_known_of_files_comes_as_text(client: Client, project: str):
    """From other sessions, not from one's own."""
    known = await town(client, project)
    bug = {"content": "The bridge module leaks handles", "tags": ["bug"], "files": ["src/bridge.py"]}
    told = await write(client, "/v1/memories", project=project, **bug)
    await read(client, "/v1/memories", project=project, after=f"{known['position']},{told['position']}")
    asked = {"files": ["src/bridge.py"], "project": project, "terms": ["bridge"], "tool_name": "Edit"}
    found = await ask(client, "/v1/enrich", **asked, session_id="s2")
    text = found["context"]
    assert "src/bridge.py" in text
    assert "leaks handles" in text
    short = await ask(client, "/v1/enrich", **asked, limit_chars=200)
    assert len(short["context"]) <= 200
    nothing = await ask(client, "/v1/enrich", files=["src/unheard_of.py"], project=f"{project}-empty")
    assert nothing["context"] == ""


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


async def test_the_audit_has_pages(client: Client, project: str):
    said = [await write(client, "/v1/lessons", project=project, content=f"lesson {n}") for n in range(5)]
    await read(client, "/v1/lessons", project=project, after=said[-1]["position"])
    found: list[str] = []
    asked: dict[str, Any] = {"project": project, "limit": 2}
    for _ in range(100):
        page = await read(client, "/v1/audit", **asked)
        assert len(page["entries"]) <= 2
        found += [one["position"] for one in page["entries"]]
        if page["next"] is None:
            break
        asked["cursor"] = page["next"]
    assert len(found) == len(set(found)) == 5
    assert found == [one["position"] for one in reversed(said)]


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


async def test_actions_that_wait_for_one_another_are_found(client: Client, project: str):
    one = (await write(client, "/v1/actions", project=project, title="The hen"))["id"]
    other = (await write(client, "/v1/actions", project=project, title="The egg", requires=[one]))["id"]
    told = await change(client, f"/v1/actions/{one}", requires=[other])
    await write(client, "/v1/memories", project=project, content="so that the project is looked at")
    await read(client, "/v1/actions", project=project, after=told["position"])
    found = await read(client, "/v1/diagnose", categories="actions")
    cycle = next(check for check in found["checks"] if check["name"] == "cycle")
    assert cycle["status"] == "fail"
    assert one in cycle["message"]
    assert found["status"] == "degraded"
    done = await change(client, f"/v1/actions/{one}", status="cancelled")
    await read(client, "/v1/actions", project=project, after=done["position"])
    assert (await read(client, "/v1/frontier", project=project))["items"][0]["id"] == other


@pytest.mark.parametrize("path", ["/v1/lessons", "/v1/memories", "/v1/actions", "/v1/relations", "/v1/summaries"])
async def test_every_listing_ends(client: Client, project: str, path: str):
    assert await all_pages(client, path, project=project) == []


async def test_a_start_that_a_reader_may_not_see_is_not_there(server: Server, client: Client, project: str):
    async with server.client("ada") as ada:
        told = await write(
            ada, "/v1/memories", project=project, content="hush", visibility="private", concepts=["hush"]
        )
        own = await read(ada, "/v1/graph", project=project, start=told["id"], after=told["position"])
        assert len(own["nodes"]) > 1
    assert (await read(client, "/v1/graph", project=project, start=told["id"]))["nodes"] == []
    assert (await read(client, "/v1/graph", project=project))["nodes"] == []
    assert (await refused(client, "GET", f"/v1/related/{told['id']}"))[0] == 404
    assert names({"items": (await read(client, "/v1/graph", project=project))["edges"]}, "type") == []
