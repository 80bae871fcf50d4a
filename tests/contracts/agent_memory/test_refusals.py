"""Tables of what the REST API refuses, and with which status and place."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.agent_memory.conftest import Rest
from tests.contracts.refusals import Refusal, places, reason, refusals

FIELDS: dict[str, dict[str, Any]] = {
    "lessons": {"title": "t", "rule": "{0}", "project": "{0}"},
    "observations": {"session_id": "{0}", "project": "{0}", "title": "t"},
    "sessions": {"session_id": "{0}", "project": "{0}"},
    "queue": {"session_id": "{0}"},
    "observations/search": {"query": "heron"},
}
"""What a path requires; `{0}` is the name of the test."""
BODIES: dict[str, list[tuple[str, Any, str]]] = json.loads(Path(__file__).with_name("refusals.json").read_text())
"""Of a POST to a path: a field, a value that does not fit, and the type of the refusal where clients know it."""
QUERIES = [
    *(("GET", "lessons", key, value, "") for key, value in (("limit", "101"), ("limit", "-1"), ("active", "perhaps"))),
    ("GET", "observations", "limit", "101", "less_than_equal"),
    *(("GET", "observations", key, "-1", "greater_than_equal") for key in ("limit", "offset")),
    *(("GET", "observations", key, "ten", "int_parsing") for key in ("limit", "offset")),
    *(("GET", "sessions", "limit", value, "") for value in ("101", "-1", "ten")),
    ("POST", "admin/re-embed", "only_missing", "perhaps", ""),
    ("POST", "admin/re-embed", "batch_size", "many", ""),
]
MISSING: dict[str, tuple[dict[str, Any], list[str]]] = {
    "lessons": ({}, ["title", "rule"]),
    "observations": ({"type": "change"}, ["session_id", "project", "title"]),
    "sessions": ({}, ["session_id", "project"]),
    "queue": ({"tool_name": "Bash"}, ["session_id"]),
    "observations/search": ({"limit": 1}, ["query"]),
}


async def assert_nothing_is_stored(rest: Rest, project: str) -> None:
    for kind in ("lessons", "observations", "sessions"):
        assert await rest.listed(kind, project=project) == []


@pytest.mark.covers(
    "POST /api/lessons", "POST /api/observations", "POST /api/sessions", "POST /api/queue",
    "POST /api/observations/search",
)  # fmt: skip
@pytest.mark.parametrize(
    ("path", "field", "value", "kind"), [(path, *case) for path, cases in BODIES.items() for case in cases]
)
async def test_a_field_that_does_not_fit_is_refused(
    rest: Rest, name: str, path: str, field: str, value: Any, kind: str
):
    body = {key: text.format(name) for key, text in FIELDS[path].items()} | {field: value}
    (refusal,) = refusals(await rest.http.post(f"/api/{path}", json=body))
    assert refusal.loc[:2] == ["body", field]
    assert refusal.loc == ["body", field] or path == "observations"
    assert not kind or refusal == Refusal(kind, ["body", field], value)
    await assert_nothing_is_stored(rest, name)


@pytest.mark.covers("GET /api/lessons", "GET /api/observations", "GET /api/sessions", "POST /api/admin/re-embed")
@pytest.mark.parametrize(("method", "path", "key", "value", "kind"), QUERIES)
async def test_a_parameter_that_does_not_fit_is_refused(
    rest: Rest, method: str, path: str, key: str, value: str, kind: str
):
    (refusal,) = refusals(await rest.http.request(method, f"/api/{path}", params={key: value}))
    assert refusal.loc == ["query", key]
    assert not kind or refusal == Refusal(kind, ["query", key], value)


@pytest.mark.covers(
    "POST /api/lessons", "POST /api/observations", "POST /api/sessions", "POST /api/queue",
    "POST /api/observations/search", "GET /api/lessons/match",
)  # fmt: skip
async def test_every_missing_field_is_named(rest: Rest):
    for path, (body, fields) in MISSING.items():
        answer = await rest.http.post(f"/api/{path}", json=body)
        assert refusals(answer) == [Refusal("missing", ["body", field], body) for field in fields], path
    assert places(await rest.http.get("/api/lessons/match")) == [["query", "tool_name"]]


@pytest.mark.covers(
    "GET /api/health", "POST /api/queue", "GET /api/observations/{id}", "PATCH /api/lessons/{id}",
    "PATCH /api/sessions/{session_id}",
)  # fmt: skip
async def test_what_is_not_there_is_404_and_a_wrong_method_405(rest: Rest, name: str):
    for path in ("/", "/metrics", "/api", "/api/nothing", "/api/observations/1/nothing"):
        assert reason(await rest.http.get(path), 404) == "Not Found"
    for method, path in (
        ("POST", "health"), ("GET", "queue"), ("DELETE", "observations/1"), ("GET", "lessons/1"),
        ("DELETE", "lessons/1"), ("DELETE", "sessions"),
    ):  # fmt: skip
        assert reason(await rest.http.request(method, f"/api/{path}"), 405) == "Method Not Allowed"
    for number in (0, 999_999_999, -1):
        reason(await rest.http.get(f"/api/observations/{number}"), 404)
    reason(await rest.http.patch("/api/lessons/999999999", json={"title": "x"}), 404)
    unknown = await rest.http.patch(f"/api/sessions/{name}", json={"status": "completed"})
    assert reason(unknown, 404) == "Session not found"
    await assert_nothing_is_stored(rest, name)


@pytest.mark.covers("GET /api/observations/{id}", "PATCH /api/lessons/{id}")
async def test_an_id_that_is_no_number_is_422(rest: Rest):
    for answer in (
        await rest.http.get("/api/observations/latest"),
        await rest.http.patch("/api/lessons/latest", json={"title": "x"}),
    ):
        (refusal,) = refusals(answer)
        assert (refusal.type, refusal.loc[0], refusal.input) == ("int_parsing", "path", "latest")
