"""Observations: made, listed, read one at a time.

The MCP tools for observations: search, timeline, get_observations, save_memory.
"""

import json
import re
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.contracts.agent_memory.conftest import CROWD, TIME, Rest, leading
from tests.contracts.conftest import Stdio

TYPES = ("decision", "bugfix", "feature", "refactor", "discovery", "change", "pattern", "gotcha")
KEYS = {
    "id", "session_id", "project_id", "project_name", "title", "subtitle", "type", "narrative", "facts", "concepts",
    "files_read", "files_modified", "tool_name", "prompt_number", "has_embedding", "created_at", "score",
}  # fmt: skip
WHOLE: dict[str, Any] = {
    "subtitle": "after restarts", "type": "bugfix", "narrative": "The pool leaks. It is closed now.",
    "facts": ["one", "two"], "concepts": ["gotcha", "anything"], "files_read": ["a.py"],
    "files_modified": ["b.py", "c.py"], "tool_name": "Edit", "prompt_number": 7,
}  # fmt: skip
BARE: dict[str, Any] = {
    "subtitle": None, "type": "discovery", "narrative": None, "facts": [], "concepts": [], "files_read": [],
    "files_modified": [], "tool_name": None, "prompt_number": None,
}  # fmt: skip
"""What an observation is of which only the title is given."""


def still(observation: dict[str, Any]) -> dict[str, Any]:
    """The observation without what changes by itself: its vector is made later."""
    return {key: value for key, value in observation.items() if key != "has_embedding"}


@pytest.mark.covers("POST /api/observations")
async def test_an_observation_is_answered_whole(rest: Rest, name: str):
    made = await rest.observe(name, "Pool leaks", **WHOLE)
    assert made.keys() == KEYS
    assert {key: made[key] for key in WHOLE} == WHOLE
    assert (made["title"], made["project_name"], made["score"]) == ("Pool leaks", name, None)
    assert all(isinstance(made[key], int) and made[key] >= 1 for key in ("id", "session_id", "project_id"))
    assert isinstance(made["has_embedding"], bool)
    assert TIME.fullmatch(made["created_at"])


@pytest.mark.covers("POST /api/observations")
async def test_session_project_and_title_are_enough_and_unknown_keys_are_ignored(rest: Rest, name: str):
    made = await rest.observe(name, "Short")
    assert {key: made[key] for key in WHOLE} == BARE
    assert (await rest.observe(name, "Short", id=5, importance=3)).keys() == KEYS


@pytest.mark.covers("POST /api/observations", "GET /api/sessions")
async def test_an_observation_makes_its_session_and_project(rest: Rest, name: str):
    first, second = await rest.observe(name, "one", session=f"{name}-s"), await rest.observe(name, "two", f"{name}-s")
    (session,) = await rest.listed("sessions", project=name)
    assert (session["session_id"], session["status"]) == (f"{name}-s", "active")
    for made in (first, second):
        assert (made["session_id"], made["project_id"]) == (session["id"], session["project_id"])
    assert first["id"] != second["id"]


@pytest.mark.covers("POST /api/observations", "GET /api/observations")
async def test_every_type_is_kept_and_listed_by(rest: Rest, name: str):
    made = {kind: await rest.observe(name, "one", type=kind) for kind in TYPES}
    for kind in TYPES:
        assert made[kind]["type"] == kind
        listed = await rest.listed("observations", project=name, type=kind)
        assert [observation["id"] for observation in listed] == [made[kind]["id"]]


@pytest.mark.covers("GET /api/observations/{id}", "GET /api/observations")
async def test_what_is_read_is_what_was_made(rest: Rest, name: str):
    made = await rest.observe(name, "Pool leaks", **WHOLE)
    read = (await rest.http.get(f"/api/observations/{made['id']}")).json()
    assert still(read) == still(made)
    assert [still(observation) for observation in await rest.listed("observations", project=name)] == [still(made)]


@pytest.mark.covers("GET /api/observations")
async def test_the_list_is_newest_first_in_pages(rest: Rest, name: str):
    made = [(await rest.observe(name, f"number {number}"))["id"] for number in range(5)]
    pages = [await rest.listed("observations", project=name, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [[row["id"] for row in page] for page in pages] == [[made[4], made[3]], [made[2], made[1]], [made[0]], []]
    assert made == sorted(made)
    assert await rest.listed("observations", project=name, limit=0) == []


@pytest.mark.covers("GET /api/observations")
async def test_the_list_has_20_unless_up_to_100_are_asked_for(rest: Rest, crowd: str):
    assert len(await rest.listed("observations", project=crowd)) == 20
    assert len(await rest.listed("observations", project=crowd, limit=100)) == 100
    assert len(await rest.listed("observations", project=crowd, limit=100, offset=100)) == CROWD - 100


@pytest.mark.covers("GET /api/observations")
async def test_the_project_is_matched_exactly_and_without_one_all_are_listed(rest: Rest, name: str):
    made = await rest.observe(name, "one")
    for project in (name[:-1], name.upper(), f"{name} "):
        assert await rest.listed("observations", project=project) == []
    assert made["id"] in [observation["id"] for observation in await rest.listed("observations", limit=100)]


LENIENT = "a text is read as a list of one"
REMINDER = re.compile(r"\]\n\n---\n\S", re.MULTILINE)


def search(mcp: Stdio, query: str, **options: Any) -> list[dict[str, Any]]:
    """The hits of a search."""
    answer = mcp.call("search", query=query, **options)
    assert not answer.failed, answer.text
    return leading(answer.text)


def hit_ids(mcp: Stdio, query: str, **options: Any) -> list[int]:
    return [result["id"] for result in search(mcp, query, **options)]


def around(mcp: Stdio, **options: Any) -> list[tuple[int, str]]:
    """A timeline: ids and positions."""
    answer = mcp.call("timeline", **options)
    assert not answer.failed, answer.text
    return [(load["id"], load["position"]) for load in json.loads(answer.text)]


@pytest.mark.covers("MCP search")
async def test_a_search_answers_titles_and_a_reminder(mcp: Stdio, rest: Rest, name: str):
    made = await rest.observe(name, f"{name} heron", type="bugfix")
    answer = mcp.call("search", query=f"{name} heron", project=name)
    assert (answer.failed, answer.structured) == (False, None)
    (hit,) = leading(answer.text)
    assert hit == {
        "id": made["id"], "title": f"{name} heron", "type": "bugfix", "project": name,
        "created_at": made["created_at"], "score": hit["score"],
    }  # fmt: skip
    assert hit["score"] in (0.0333, 0.0667)
    assert answer.text.startswith('[\n  {\n    "id"')
    assert REMINDER.search(answer.text)


@pytest.mark.covers("MCP search")
async def test_a_search_is_narrowed_by_project_and_type(mcp: Stdio, rest: Rest, name: str):
    here = await rest.observe(name, f"{name} heron", type="gotcha")
    there = await rest.observe(f"{name}-2", f"{name} heron", type="change")
    assert {here["id"], there["id"]} <= set(hit_ids(mcp, f"{name} heron"))
    assert hit_ids(mcp, f"{name} heron", project=name) == [here["id"]]
    for kind in ("type", "obs_type"):
        everywhere = search(mcp, f"{name} heron", **{kind: "change"})
        assert everywhere[0]["id"] == there["id"]
        assert {item["type"] for item in everywhere} == {"change"}
        assert hit_ids(mcp, f"{name} heron", project=name, **{kind: "change"}) == []


@pytest.mark.covers("MCP search")
async def test_observations_of_the_native_api_have_a_type_and_their_own_date(
    mcp: Stdio, rest: Rest, doors: Doors, name: str
):
    async with httpx.AsyncClient(base_url=doors.server.url, timeout=60, trust_env=False) as http:
        for day, kind in ((14, "bugfix"), (15, "file_edit"), (16, "decision")):
            at = f"2025-03-{day}T15:00:00Z"
            observation = {"session_id": name, "kind": kind, "content": f"heron {day}", "occurred_at": at}
            assert (await http.post("/v1/observations", json={"project": name, **observation})).status_code == 202
    await rest.observed(name, 3)
    assert sorted(result["type"] for result in search(mcp, "heron", project=name)) == ["bugfix", "change", "decision"]
    for query, kinds in (
        ({"dateStart": "2025-03-15", "dateEnd": "2025-03-15"}, ["change"]),
        ({"dateStart": "2025-03-14T15:00:01Z", "dateEnd": "2025-03-16T15:00:00Z"}, ["change", "decision"]),
        ({"obs_type": "change"}, ["change"]),
    ):
        assert sorted(result["type"] for result in search(mcp, "heron", project=name, **query)) == kinds


@pytest.mark.covers("MCP search")
async def test_a_search_is_narrowed_by_dates_with_both_ends_included(mcp: Stdio, rest: Rest, name: str):
    made = await rest.observe(name, f"{name} heron")
    at = datetime.fromisoformat(made["created_at"])
    day, before, after = (f"{at + timedelta(days=days):%Y-%m-%d}" for days in (0, -1, 1))
    found_by: list[dict[str, str]] = [
        {"dateStart": day},
        {"dateEnd": day},
        {"dateStart": day, "dateEnd": day},
        {"dateStart": before, "dateEnd": after},
        {"dateStart": made["created_at"]},
        {"dateEnd": (at + timedelta(seconds=1)).isoformat()},
        {"dateStart": f"{at - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"},
    ]
    missed_by = [
        {"dateStart": after},
        {"dateEnd": before},
        {"dateStart": (at + timedelta(seconds=1)).isoformat()},
        {"dateEnd": (at - timedelta(seconds=1)).isoformat()},
    ]
    for query in found_by:
        assert hit_ids(mcp, "heron", project=name, **query) == [made["id"]], query
    for query in missed_by:
        assert hit_ids(mcp, "heron", project=name, **query) == [], query


@pytest.mark.covers("MCP search")
@pytest.mark.parametrize(("limit", "number"), [(None, 20), (3, 3), (50, 50), (100, 50)])
def test_a_search_finds_20_unless_up_to_50_are_asked_for(mcp: Stdio, crowd: str, limit: int | None, number: int):
    query = {} if limit is None else {"limit": limit}
    hits = search(mcp, "cormorant", project=crowd, **query)
    assert len(hits) == number
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


@pytest.mark.covers("MCP search")
async def test_a_search_takes_further_arguments_and_plain_words(mcp: Stdio, rest: Rest, name: str):
    made = await rest.observe(name, f"{name} heron")
    assert hit_ids(mcp, f"({name} & heron:*!", project=name, orderBy="relevance", anything=1) == [made["id"]]
    assert hit_ids(mcp, "heron", project=name, offset=0) == [made["id"]]


@pytest.mark.covers("MCP search")
def test_a_search_for_what_is_not_there_finds_nothing(mcp: Stdio, name: str):
    assert search(mcp, name, project=name) == []


@pytest.mark.covers("MCP get_observations")
async def test_observations_are_told_in_full_oldest_first(mcp: Stdio, rest: Rest, name: str):
    whole: dict[str, Any] = {
        "subtitle": "s", "type": "decision", "narrative": "n", "facts": ["f"], "concepts": ["c"],
        "files_read": ["r"], "files_modified": ["m"], "tool_name": "Edit",
    }  # fmt: skip
    first, second = await rest.observe(name, "first", **whole), await rest.observe(name, "second")
    query = [second["id"], 999_999_999, first["id"], -1, first["id"]]
    answer = mcp.call("get_observations", ids=query, limit=5, anything="x")
    assert (answer.failed, answer.structured) == (False, None)
    body = leading(answer.text)
    assert [item["id"] for item in body] == [first["id"], second["id"]]
    newest = mcp.call("get_observations", ids=query, orderBy="date_desc", limit=1)
    assert [item["id"] for item in leading(newest.text)] == [second["id"]]
    assert body[0] == {
        "id": first["id"], "title": "first", "project": name, "created_at": first["created_at"], **whole,
    }  # fmt: skip
    assert {key: body[1][key] for key in whole} == {
        "subtitle": None, "type": "discovery", "narrative": None, "facts": [], "concepts": [], "files_read": [],
        "files_modified": [], "tool_name": None,
    }  # fmt: skip
    assert REMINDER.search(answer.text)


@pytest.mark.covers("MCP get_observations")
def test_unknown_ids_are_left_out_and_no_ids_give_no_reminder(mcp: Stdio):
    assert mcp.call("get_observations", ids=[]) == (False, "[]", None)
    answer = mcp.call("get_observations", ids=[999_999_999])
    assert (answer.failed, leading(answer.text)) == (False, [])


@pytest.mark.covers("MCP timeline")
async def test_a_timeline_shows_what_was_before_and_after(mcp: Stdio, rest: Rest, name: str):
    made = [(await rest.observe(name, f"number {number}"))["id"] for number in range(9)]
    assert around(mcp, anchor=made[4]) == [
        *((row, "before") for row in made[1:4]), (made[4], "anchor"), *((row, "after") for row in made[5:8]),
    ]  # fmt: skip
    assert around(mcp, anchor=made[4], depth_before=1, depth_after=0) == [(made[3], "before"), (made[4], "anchor")]
    assert around(mcp, anchor=made[4], depth_before=0, depth_after=-1) == [(made[4], "anchor")]
    assert around(mcp, anchor=made[0], depth_after=1) == [(made[0], "anchor"), (made[1], "after")]
    assert len(around(mcp, anchor=made[4], depth_before=20, depth_after=20)) == 9


@pytest.mark.covers("MCP timeline")
async def test_a_line_of_a_timeline_has_five_fields(mcp: Stdio, rest: Rest, name: str):
    made = await rest.observe(name, "Alone", type="change")
    answer = mcp.call("timeline", anchor=made["id"])
    assert json.loads(answer.text) == [
        {"id": made["id"], "title": "Alone", "type": "change", "position": "anchor", "created_at": made["created_at"]}
    ]
    assert answer.structured is None


@pytest.mark.covers("MCP timeline")
async def test_a_timeline_stays_in_the_anchors_session(mcp: Stdio, rest: Rest, name: str):
    first = await rest.observe(name, "one", session=f"{name}-1")
    await rest.observe(name, "elsewhere", session=f"{name}-2")
    second = await rest.observe(name, "two", session=f"{name}-1")
    assert around(mcp, anchor=second["id"]) == [(first["id"], "before"), (second["id"], "anchor")]


@pytest.mark.covers("MCP timeline")
async def test_a_query_finds_the_anchor_in_its_project(mcp: Stdio, rest: Rest, name: str):
    here = await rest.observe(name, f"{name} heron at the pond")
    next_to = await rest.observe(name, "Something else entirely")
    there = await rest.observe(f"{name}-2", f"{name} heron at the pond")
    query = {"query": f"{name} heron at the pond"}
    assert around(mcp, **query, project=name) == [(here["id"], "anchor"), (next_to["id"], "after")]
    assert around(mcp, **query, project=f"{name}-2") == [(there["id"], "anchor")]


@pytest.mark.covers("MCP timeline")
@pytest.mark.parametrize(
    "options", [{"anchor": 999_999_999}, {}, {"depth_before": 2}, {"query": "x", "project": "{0}"}]
)
def test_without_an_anchor_a_timeline_is_a_plain_sentence(mcp: Stdio, name: str, options: dict[str, Any]):
    named = {key: value.format(name) if isinstance(value, str) else value for key, value in options.items()}
    answer = mcp.call("timeline", **named)
    assert not answer.failed
    assert " " in answer.text
    assert answer.text[0] not in "[{"


@pytest.mark.covers("MCP save_memory")
async def test_what_is_saved_by_hand_is_a_discovery_of_the_manual_session(mcp: Stdio, rest: Rest, name: str):
    text = f"Remember {name}: " + "the heron fishes at dawn and at dusk. " * 4
    answer = mcp.call("save_memory", text=text)
    assert (answer.failed, answer.structured) == (False, None)
    assert "\n" not in answer.text
    saved = json.loads(answer.text)
    assert saved == {"saved": True, "id": saved["id"], "title": text[:80]}
    observation = (await rest.http.get(f"/api/observations/{saved['id']}")).json()
    assert (observation["title"], observation["type"], observation["project_name"]) == (
        text[:80],
        "discovery",
        "manual",
    )
    assert observation["narrative"] == text
    sessions = {row["id"]: row for row in await rest.listed("sessions", project="manual", limit=100)}
    manual = sessions.get(observation["session_id"])
    if manual is not None:  # the session is of the project in which something was saved first
        assert (manual["session_id"], manual["agent_type"]) == ("manual-memories", "manual")


@pytest.mark.covers("MCP save_memory", "MCP search")
async def test_what_is_saved_with_a_title_and_a_project_is_found(mcp: Stdio, rest: Rest, doors: Doors, name: str):
    first = json.loads(mcp.call("save_memory", text=f"{name} heron", title="Bird", project=name).text)
    second = json.loads(mcp.call("save_memory", text=f"{name} egret", project=f"{name}-2").text)
    assert (first["title"], second["title"]) == ("Bird", f"{name} egret")
    assert hit_ids(mcp, f"{name} heron", project=name) == [first["id"]]
    observation = [(await rest.http.get(f"/api/observations/{item['id']}")).json() for item in (first, second)]
    assert [item["project_name"] for item in observation] == [name, f"{name}-2"]
    assert observation[0]["session_id"] == observation[1]["session_id"]
    async with httpx.AsyncClient(base_url=doors.server.url, timeout=60, trust_env=False) as http:
        session = (await http.get("/v1/sessions/manual-memories", params={"project": name})).json()
    assert (session["agent_type"], session["observation_count"]) == ("manual", 1)


@pytest.mark.covers("MCP search", "MCP timeline", "MCP get_observations", "MCP save_memory")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search", {}),
        ("search", {"query": 5}),
        ("search", {"query": "x", "limit": "many"}),
        ("search", {"query": "x", "limit": 1.5}),
        ("timeline", {"anchor": "first"}),
        ("timeline", {"anchor": 1, "depth_before": "all"}),
        ("get_observations", {}),
        pytest.param("get_observations", {"ids": "1"}, marks=pytest.mark.xfail(strict=True, reason=LENIENT)),
        ("get_observations", {"ids": ["first"]}),
        ("save_memory", {}),
        ("save_memory", {"text": ["x"]}),
        ("save_memory", {"text": "x", "title": 5}),
    ],
)
def test_arguments_that_do_not_fit_are_an_error(mcp: Stdio, tool: str, arguments: dict[str, Any]):
    answer = mcp.call(tool, **arguments)
    assert answer.failed
    assert answer.text.startswith("Input validation error:")


@pytest.mark.covers("MCP search")
@pytest.mark.parametrize("options", [{"dateStart": "yesterday"}, {"dateEnd": "2026-13-01"}, {"query": "  "}])
def test_a_failure_inside_a_tool_is_told_and_is_no_error(mcp: Stdio, options: dict[str, str]):
    answer = mcp.call("search", **{"query": "x", **options})
    assert not answer.failed
    assert json.loads(answer.text).keys() == {"error"}
