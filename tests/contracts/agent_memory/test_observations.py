"""Observations: made, listed, read one at a time."""

import re
from typing import Any

import pytest

from tests.contracts.agent_memory.conftest import CROWD, Rest
from tests.contracts.refusals import Refusal, places, refusals, said

TYPES = ("decision", "bugfix", "feature", "refactor", "discovery", "change", "pattern", "gotcha")
KEYS = {
    "id", "session_id", "project_id", "project_name", "title", "subtitle", "type", "narrative", "facts", "concepts",
    "files_read", "files_modified", "tool_name", "prompt_number", "has_embedding", "created_at", "score",
}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
WHOLE: dict[str, Any] = {
    "subtitle": "after restarts",
    "type": "bugfix",
    "narrative": "The pool leaks. It is closed now.",
    "facts": ["one", "two"],
    "concepts": ["gotcha", "anything"],
    "files_read": ["a.py"],
    "files_modified": ["b.py", "c.py"],
    "tool_name": "Edit",
    "prompt_number": 7,
}


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
async def test_session_project_and_title_are_enough(rest: Rest, name: str):
    made = await rest.observe(name, "Short")
    assert {key: made[key] for key in WHOLE} == {
        "subtitle": None, "type": "discovery", "narrative": None, "facts": [], "concepts": [], "files_read": [],
        "files_modified": [], "tool_name": None, "prompt_number": None,
    }  # fmt: skip


@pytest.mark.covers("POST /api/observations", "GET /api/sessions")
async def test_an_observation_makes_its_session_and_project(rest: Rest, name: str):
    first, second = await rest.observe(name, "one", session=f"{name}-s"), await rest.observe(name, "two", f"{name}-s")
    (session,) = await rest.listed("sessions", project=name)
    assert (session["session_id"], session["status"]) == (f"{name}-s", "active")
    for made in (first, second):
        assert (made["session_id"], made["project_id"]) == (session["id"], session["project_id"])
    assert first["id"] != second["id"]


@pytest.mark.covers("POST /api/observations", "GET /api/observations")
@pytest.mark.parametrize("kind", TYPES)
async def test_every_type_is_kept_and_listed_by(rest: Rest, name: str, kind: str):
    made = await rest.observe(name, "one", type=kind)
    assert made["type"] == kind
    await rest.observe(name, "two", type="gotcha" if kind != "gotcha" else "change")
    assert [observation["id"] for observation in await rest.listed("observations", project=name, type=kind)] == [
        made["id"]
    ]


@pytest.mark.covers("POST /api/observations")
@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"type": "idea"}, "type"),
        ({"title": None}, "title"),
        ({"session_id": 5}, "session_id"),
        ({"project": None}, "project"),
        ({"facts": "one"}, "facts"),
        ({"facts": None}, "facts"),
        ({"concepts": [1]}, "concepts"),
        ({"files_read": {}}, "files_read"),
        ({"files_modified": "a"}, "files_modified"),
        ({"prompt_number": "many"}, "prompt_number"),
        ({"narrative": []}, "narrative"),
    ],
)
async def test_a_field_that_does_not_fit_is_refused(rest: Rest, name: str, changes: dict[str, Any], place: str):
    body = {"session_id": name, "project": name, "title": "t", **changes}
    assert places(await rest.http.post("/api/observations", json=body))[0][:2] == ["body", place]
    assert await rest.listed("observations", project=name) == []


@pytest.mark.covers("POST /api/observations")
async def test_every_missing_field_is_named(rest: Rest):
    answer = await rest.http.post("/api/observations", json={"type": "change"})
    assert refusals(answer) == [
        Refusal("missing", ["body", key], {"type": "change"}) for key in ("session_id", "project", "title")
    ]


@pytest.mark.covers("POST /api/observations")
async def test_unknown_keys_are_ignored(rest: Rest, name: str):
    assert (await rest.observe(name, "Short", id=5, importance=3)).keys() == KEYS


@pytest.mark.covers("GET /api/observations/{id}", "GET /api/observations")
async def test_what_is_read_is_what_was_made(rest: Rest, name: str):
    made = await rest.observe(name, "Pool leaks", **WHOLE)
    read = (await rest.http.get(f"/api/observations/{made['id']}")).json()
    assert still(read) == still(made)
    assert [still(observation) for observation in await rest.listed("observations", project=name)] == [still(made)]


@pytest.mark.covers("GET /api/observations/{id}")
@pytest.mark.parametrize("number", [0, 999_999_999, -1])
async def test_an_unknown_observation_is_404(rest: Rest, number: int):
    said(await rest.http.get(f"/api/observations/{number}"), 404)


@pytest.mark.covers("GET /api/observations/{id}")
async def test_an_id_that_is_no_number_is_422(rest: Rest):
    (refusal,) = refusals(await rest.http.get("/api/observations/latest"))
    assert (refusal.type, refusal.loc[0], refusal.input) == ("int_parsing", "path", "latest")


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


@pytest.mark.covers("GET /api/observations")
@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"limit": "101"}, "less_than_equal"),
        ({"limit": "-1"}, "greater_than_equal"),
        ({"offset": "-1"}, "greater_than_equal"),
        ({"limit": "ten"}, "int_parsing"),
        ({"offset": "ten"}, "int_parsing"),
    ],
)
async def test_a_page_that_cannot_be_is_refused(rest: Rest, options: dict[str, str], kind: str):
    ((key, value),) = options.items()
    answer = await rest.http.get("/api/observations", params=options)
    assert refusals(answer) == [Refusal(kind, ["query", key], value)]
