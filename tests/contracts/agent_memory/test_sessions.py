"""Sessions: begun, changed, listed.

Searching observations over REST: who is found, in what order, with what score.
"""

import asyncio
import json
import math
import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.acceptance.running import Doors
from tests.contracts.agent_memory.conftest import PATIENT_S, TIME, Rest, done, report
from tests.contracts.refusals import places, reason
from tests.support.waiting import wait_until

KEYS = {
    "id", "session_id", "project_id", "project_name", "agent_type", "status", "started_at", "completed_at", "summary",
    "prompt_count",
}  # fmt: skip


async def change(rest: Rest, session: str, **changes: Any) -> None:
    answer = await rest.http.patch(f"/api/sessions/{quote(session, safe='')}", json=changes)
    assert (answer.status_code, answer.json()) == (200, {"status": "updated"}), answer.text


async def only(rest: Rest, project: str) -> dict[str, Any]:
    (session,) = await rest.listed("sessions", project=project)
    return session


@pytest.mark.covers("POST /api/sessions", "GET /api/sessions")
async def test_a_session_is_answered_whole(rest: Rest, name: str):
    made = await rest.begin(f"{name}-s", name, project_path=f"/home/ada/{name}", agent_type="codex")
    assert made.keys() == KEYS
    assert (made["session_id"], made["project_name"], made["agent_type"]) == (f"{name}-s", name, "codex")
    assert (made["status"], made["completed_at"], made["summary"]) == ("active", None, None)
    assert made["prompt_count"] == 0
    assert isinstance(made["id"], int)
    assert isinstance(made["project_id"], int)
    assert TIME.fullmatch(made["started_at"])
    assert await only(rest, name) == made
    other = await rest.begin(name, name, project_path=None)
    assert (other["agent_type"], other["project_id"]) == ("claude-code", made["project_id"])
    assert other["id"] != made["id"]


@pytest.mark.covers("POST /api/sessions")
async def test_a_session_begins_once(rest: Rest, name: str):
    made = await rest.begin(name, name)
    reason(await rest.http.post("/api/sessions", json={"session_id": name, "project": f"{name}-2"}), 409)
    assert await only(rest, name) == made
    assert await rest.listed("sessions", project=f"{name}-2") == []


@pytest.mark.covers("POST /api/sessions")
async def test_one_of_six_concurrent_requests_begins_a_session(rest: Rest, name: str):
    body = {"session_id": name, "project": name}
    answers = await asyncio.gather(*(rest.http.post("/api/sessions", json=body) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 5
    assert [await only(rest, name)] == [answer.json() for answer in answers if answer.status_code == 200]


@pytest.mark.covers("POST /api/sessions", "POST /api/queue")
async def test_a_session_that_a_report_or_an_observation_made_exists(rest: Rest, name: str):
    await rest.queue(f"{name}-1", f"/w/{name}")
    await rest.observe(name, "one", session=f"{name}-2")
    for session in (f"{name}-1", f"{name}-2"):
        reason(await rest.http.post("/api/sessions", json={"session_id": session, "project": name}), 409)


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
@pytest.mark.parametrize("session", ["{0}", "{0} with é and %", "{0}/with/slashes", "{0}?#&"])
async def test_a_session_of_any_name_is_completed(rest: Rest, name: str, session: str):
    await rest.begin(session.format(name), name)
    await change(rest, session.format(name), status="completed")
    now = await only(rest, name)
    assert (now["session_id"], now["status"]) == (session.format(name), "completed")
    assert TIME.fullmatch(now["completed_at"])
    assert now["completed_at"] >= now["started_at"]


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
async def test_a_summary_is_kept_with_and_without_a_status(rest: Rest, name: str):
    await rest.begin(name, name)
    await change(rest, name, summary="It works.")
    now = await only(rest, name)
    assert (now["status"], now["summary"], now["completed_at"]) == ("active", "It works.", None)
    await change(rest, name, status="failed", summary="It broke.")
    now = await only(rest, name)
    assert (now["status"], now["summary"]) == ("failed", "It broke.")
    await change(rest, name, summary="It broke again.")
    now = await only(rest, name)
    assert (now["status"], now["summary"], now["completed_at"] is None) == ("failed", "It broke again.", False)
    await change(rest, name, status="active")
    assert (await only(rest, name))["summary"] == "It broke again."


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
async def test_no_transition_is_refused(rest: Rest, name: str):
    await rest.begin(name, name)
    for status in ("completed", "failed", "completed", "active", "active", "failed", "active"):
        await change(rest, name, status=status)
        now = await only(rest, name)
        assert (now["status"], now["completed_at"] is None) == (status, status == "active")


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
async def test_a_change_of_nothing_is_400_and_a_status_that_there_is_not_422(rest: Rest, name: str):
    await rest.begin(name, name)
    path = f"/api/sessions/{name}"
    for changes in ({}, {"status": "", "summary": ""}, {"status": None}, {"unknown": 1}):
        reason(await rest.http.patch(path, json=changes), 400)
    wrong: tuple[tuple[str, Any], ...] = (("status", "paused"), ("status", 1), ("summary", []))
    for field, value in wrong:
        assert places(await rest.http.patch(path, json={field: value})) == [["body", field]]
    assert (await only(rest, name))["status"] == "active"


@pytest.mark.covers("PATCH /api/sessions/{session_id}", "POST /api/queue")
async def test_a_session_that_ended_goes_on_with_later_activity(rest: Rest, name: str):
    """The hook of an end fires after every answer of the agent, not once a session."""
    await rest.queue(name, f"/w/{name}")
    await change(rest, name, status="completed")
    await rest.queue(name, f"/w/{name}")

    async def active() -> bool:
        return (await only(rest, name))["status"] == "active"

    await wait_until(active, PATIENT_S)
    await rest.observed(name, 2)


@pytest.mark.covers("GET /api/sessions")
async def test_sessions_are_listed_newest_start_first_by_project_and_status(rest: Rest, name: str):
    for number in range(4):
        await rest.begin(f"{name}-{number}", name)
    await change(rest, f"{name}-1", status="completed")
    await rest.queue(f"{name}-0", f"/w/{name}")

    async def listed(**query: Any) -> list[str]:
        return [row["session_id"].removeprefix(name) for row in await rest.listed("sessions", project=name, **query)]

    assert await listed() == ["-3", "-2", "-1", "-0"]
    assert await listed(limit=2) == ["-3", "-2"]
    assert await listed(status="completed") == ["-1"]
    assert await listed(status="active") == ["-3", "-2", "-0"]
    assert await listed(status="failed") == []
    assert done(await rest.http.get("/api/sessions", params={"project": name[:-1]})) == []


@pytest.mark.covers("GET /api/sessions")
async def test_20_sessions_are_listed_unless_more_are_asked_for(rest: Rest, name: str):
    await asyncio.gather(*(rest.begin(f"{name}-{number}", name) for number in range(21)))
    assert len(await rest.listed("sessions", project=name)) == 20
    assert len(await rest.listed("sessions", project=name, limit=100)) == 21


DAY_MS = 86_400_000
ONE_LIST, BOTH_LISTS = 0.0333, 0.0667


def recency(created_at: str) -> float:
    """What an observation's score is multiplied by."""
    age = (datetime.now(UTC) - datetime.fromisoformat(created_at)).total_seconds() / 86_400
    return 1 + math.exp(-age / 10)


@pytest.mark.covers("POST /api/observations/search")
async def test_an_answer_has_the_hits_and_how_they_were_asked_for(rest: Rest, name: str):
    made = await rest.observe(name, f"{name} pool", narrative="It leaks.", facts=["a"])
    results = await rest.search(f"{name} pool", project=name)
    assert results.keys() == {"observations", "query", "mode", "total"}
    assert (results["query"], results["mode"], results["total"]) == (f"{name} pool", "hybrid", 1)
    (hit,) = results["observations"]
    assert {**hit, "score": None, "has_embedding": None} == {**made, "has_embedding": None}
    assert hit["score"] in (ONE_LIST, BOTH_LISTS)


@pytest.mark.covers("POST /api/observations/search")
async def test_by_text_a_fresh_hit_scores_by_its_rank_from_0_twice(rest: Rest, name: str):
    for number in range(4):
        await rest.observe(name, f"heron {number}")
    results = (await rest.search("heron", project=name, mode="fts"))["observations"]
    assert [result["score"] for result in results] == [round(2 / (60 + rank), 4) for rank in range(4)]


@pytest.mark.covers("POST /api/observations/search")
async def test_a_hit_of_both_lists_has_the_sum(rest: Rest, name: str):
    """Where nothing makes vectors there is only one list."""
    await rest.observe(name, "The heron fishes at dawn")
    embedding = (await rest.http.get("/api/health")).json()["embeddings"]["status"] == "ok"
    expected = BOTH_LISTS if embedding else ONE_LIST

    async def settled() -> bool:
        (hit,) = (await rest.search("heron fishes", project=name))["observations"]
        return hit["score"] == expected

    await wait_until(settled, PATIENT_S)
    by_vector = (await rest.search("heron fishes", project=name, mode="vector"))["observations"]
    assert [result["score"] for result in by_vector] == ([ONE_LIST] if embedding else [])


@pytest.fixture(scope="session")
def old(doors: Doors) -> str:
    """A project of reports that waited in the spool folder: they are as old as their files' names say.

    An egret is in a project of its own.
    """
    project = f"old{uuid4().hex[:12]}"
    now = int(time.time() * 1000)
    for days, about, where in ((7, "heron7.py", ""), (30, "heron30.py", ""), (30, "egret.py", "-egret")):
        body = report(f"{project}-{about}", f"/w/{project}{where}", tool_input={"file_path": f"/w/{about}"})
        (doors.agent_memory_spool / f"{now - days * DAY_MS}-{about}.json").write_text(json.dumps(body))
    return project


@pytest.mark.covers("POST /api/observations/search", "POST /api/queue")
async def test_an_old_hit_counts_less(rest: Rest, old: str):
    await rest.observed(old, 2)
    scores: dict[int, float] = {}
    for days in (7, 30):
        (hit,) = (await rest.search(f"heron{days}.py", project=old, mode="fts"))["observations"]
        assert hit["score"] == round(recency(hit["created_at"]) / 60, 4)
        scores[days] = hit["score"]
    assert scores == {7: 0.0249, 30: 0.0175}


@pytest.mark.covers("POST /api/observations/search", "POST /api/queue")
async def test_what_is_recent_outweighs_a_rank(rest: Rest, old: str):
    project = f"{old}-egret"

    async def there() -> bool:
        return bool(await rest.listed("observations", project=project))

    await wait_until(there, PATIENT_S)
    recent = await rest.observe(project, "Water", narrative="The file egret.py is told of in a text of many words.")
    results = (await rest.search("egret.py", project=project, mode="fts"))["observations"]
    assert results[0]["id"] == recent["id"]
    assert results[0]["score"] > 1.8 * results[-1]["score"]


@pytest.mark.xfail(strict=True, reason="the text list ranks by BM25 over all words, whichever field says them")
@pytest.mark.covers("POST /api/observations/search")
async def test_a_title_weighs_more_than_a_subtitle_and_that_more_than_a_narrative(rest: Rest, name: str):
    by_facts = await rest.observe(name, "One thing", facts=["the bittern"])
    by_narrative = await rest.observe(name, "One thing", narrative="the bittern")
    by_subtitle = await rest.observe(name, "One thing", subtitle="the bittern")
    by_title = await rest.observe(name, "the bittern")
    results = await rest.hits("bittern", project=name, mode="fts")
    assert results == [item["id"] for item in (by_title, by_subtitle, by_narrative, by_facts)]


@pytest.mark.covers("POST /api/observations/search")
async def test_only_the_first_ten_words_are_required(rest: Rest, name: str):
    words = [f"word{letter}" for letter in "abcdefghij"]
    made = await rest.observe(name, " ".join(words))
    assert await rest.hits(" ".join([*words, "eleventh"]), project=name, mode="fts") == [made["id"]]
    assert await rest.hits(" ".join([*words[1:], "tenth"]), project=name, mode="fts") == []


@pytest.mark.covers("POST /api/observations/search")
async def test_every_word_is_required_by_text_whatever_its_ending_and_operators_are_none(rest: Rest, name: str):
    both = await rest.observe(name, "The herons were fishing")
    heron = await rest.observe(name, "A heron")
    await rest.observe(name, "Fishing")
    for query in ("heron fish", "the heron fishes", "HERONS, fishing"):
        assert await rest.hits(query, project=name, mode="fts") == [both["id"]], query
    for query in ("heron & fish", "heron:fish", "!heron fish", "heron | <-> fish", "heron' fish; --"):
        assert await rest.hits(query, project=name, mode="fts") == [both["id"]], query
    for query in ("(heron", "heron)"):
        assert set(await rest.hits(query, project=name, mode="fts")) == {both["id"], heron["id"]}, query


@pytest.mark.covers("POST /api/observations/search")
async def test_a_search_is_in_its_project_unless_it_crosses(rest: Rest, name: str):
    here, there = await rest.observe(name, f"{name} heron"), await rest.observe(f"{name}-2", f"{name} heron")
    query: dict[str, Any] = {"query": f"{name} heron", "mode": "fts"}
    assert await rest.hits(**query, project=name) == [here["id"]]
    everywhere = {here["id"], there["id"]}
    assert set(await rest.hits(**query)) == everywhere
    assert set(await rest.hits(**query, project=None)) == everywhere
    assert set(await rest.hits(**query, project=name, cross_project=True)) == everywhere


@pytest.mark.covers("POST /api/observations/search")
async def test_a_search_is_for_the_types_it_names(rest: Rest, name: str):
    made = {kind: (await rest.observe(name, "heron", type=kind))["id"] for kind in ("bugfix", "gotcha", "change")}
    for kinds in (["bugfix"], ["bugfix", "change"]):
        assert set(await rest.hits("heron", project=name, type=kinds)) == {made[kind] for kind in kinds}
    assert set(await rest.hits("heron", project=name, type=None)) == set(made.values())
    assert await rest.hits("heron", project=name, type=["nonsense"]) == []


@pytest.mark.covers("POST /api/observations/search")
async def test_ten_are_found_unless_up_to_100_are_asked_for(rest: Rest, crowd: str):
    for limit, number in ((None, 10), (3, 3), (100, 100), (1_000, 100)):
        query = {} if limit is None else {"limit": limit}
        results = await rest.search("cormorant", project=crowd, mode="fts", **query)
        assert (results["total"], len(results["observations"])) == (number, number)
        assert all(a["score"] >= b["score"] for a, b in pairwise(results["observations"]))


@pytest.mark.covers("POST /api/observations/search")
async def test_an_unknown_mode_finds_nothing(rest: Rest, name: str):
    await rest.observe(name, "heron")
    results = await rest.search("heron", project=name, mode="magic")
    assert results == {"observations": [], "query": "heron", "mode": "magic", "total": 0}
    assert (await rest.search("  ", project=name))["total"] == 0
