"""Searching observations over REST: who is found, in what order, with what score."""

import json
import math
import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.running import Doors
from tests.contracts.agent_memory.conftest import PATIENT_S, Rest, report
from tests.contracts.refusals import Refusal, places, refusals
from tests.support.waiting import wait_until

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
async def test_every_word_is_required_by_text_whatever_its_ending(rest: Rest, name: str):
    both = await rest.observe(name, "The herons were fishing")
    await rest.observe(name, "A heron")
    await rest.observe(name, "Fishing")
    for query in ("heron fish", "the heron fishes", "HERONS, fishing"):
        assert await rest.hits(query, project=name, mode="fts") == [both["id"]]


@pytest.mark.covers("POST /api/observations/search")
async def test_only_the_first_ten_words_are_required(rest: Rest, name: str):
    words = [f"word{letter}" for letter in "abcdefghij"]
    made = await rest.observe(name, " ".join(words))
    assert await rest.hits(" ".join([*words, "eleventh"]), project=name, mode="fts") == [made["id"]]
    assert await rest.hits(" ".join([*words[1:], "tenth"]), project=name, mode="fts") == []


@pytest.mark.covers("POST /api/observations/search")
@pytest.mark.parametrize(
    "query", ["(heron", "heron)", "heron & fish", "heron:fish", "!heron fish", "heron | <-> fish", "heron' fish; --"]
)
async def test_operators_are_no_operators(rest: Rest, name: str, query: str):
    made = await rest.observe(name, "heron fish")
    assert await rest.hits(query, project=name, mode="fts") == [made["id"]]


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


@pytest.mark.covers("POST /api/observations/search")
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"type": "bugfix"}, "list_type"),
        ({"query": None}, "string_type"),
        ({"limit": "many"}, "int_parsing"),
        ({"cross_project": "perhaps"}, "bool_parsing"),
        ({"project": 5}, "string_type"),
        ({"mode": 5}, "string_type"),
    ],
)
async def test_a_search_that_does_not_fit_is_refused(rest: Rest, changes: dict[str, Any], kind: str):
    ((key, value),) = changes.items()
    answer = await rest.http.post("/api/observations/search", json={"query": "heron", **changes})
    assert refusals(answer) == [Refusal(kind, ["body", key], value)]


@pytest.mark.covers("POST /api/observations/search")
async def test_a_search_needs_a_query(rest: Rest):
    assert places(await rest.http.post("/api/observations/search", json={"limit": 1})) == [["body", "query"]]
    assert places(await rest.http.post("/api/observations/search", json={"query": "x", "limit": -1})) == [
        ["body", "limit"]
    ]
