"""What memex's REST API takes, and what it refuses; it clamps nothing."""

from typing import Any

import pytest

from tests.contracts.memex.conftest import Rest, memory
from tests.contracts.refusals import Refusal, places, refusals

JSON = {"Content-Type": "application/json"}
CREATE, SEARCH = "/v1/memories", "/v1/memories/search"
NAMES: list[tuple[str, Any, str]] = [
    (field, value, kind)
    for field in ("agent_id", "user_id")
    for value, kind in (
        ("", "string_too_short"), ("a" * 129, "string_too_long"), (5, "string_type"), (None, "string_type"),
    )
]  # fmt: skip


@pytest.mark.covers("POST /v1/memories")
@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        *NAMES,
        ("content", "", "string_too_short"),
        ("content", "a" * 8_001, "string_too_long"),
        ("content", 5, "string_type"),
        ("content", None, "string_type"),
        ("importance", -0.01, "greater_than_equal"),
        ("importance", 2.01, "less_than_equal"),
        ("importance", "high", "float_parsing"),
        ("importance", None, "float_type"),
        ("memory_type", "declarative", "enum"),
        ("memory_type", "Episodic", "enum"),
        ("memory_type", None, "enum"),
    ],
)
async def test_a_memory_that_does_not_fit_is_refused(rest: Rest, name: str, field: str, value: Any, kind: str):
    answer = await rest.http.post(CREATE, json=memory(name, content="x") | {field: value})
    assert refusals(answer) == [Refusal(kind, ["body", field], value)]
    assert await rest.count(name) == 0


@pytest.mark.covers("POST /v1/memories/search")
@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        *NAMES,
        ("query", "", "string_too_short"),
        ("query", "a" * 2_001, "string_too_long"),
        ("query", None, "string_type"),
        ("top_k", 0, "greater_than_equal"),
        ("top_k", 51, "less_than_equal"),
        ("top_k", 2.5, "int_from_float"),
        ("top_k", "many", "int_parsing"),
        ("alpha", -0.01, "greater_than_equal"),
        ("alpha", 1.01, "less_than_equal"),
        ("alpha", "half", "float_parsing"),
        ("memory_type", "declarative", "enum"),
    ],
)
async def test_a_search_that_does_not_fit_is_refused(rest: Rest, name: str, field: str, value: Any, kind: str):
    answer = await rest.http.post(SEARCH, json=memory(name, query="x") | {field: value})
    assert refusals(answer) == [Refusal(kind, ["body", field], value)]


@pytest.mark.covers("POST /v1/memories")
@pytest.mark.parametrize(
    "changes",
    [
        {"user_id": "a" * 128},
        {"user_id": " "},
        {"content": " "},
        {"content": "a" * 8_000},
        {"importance": 0},
        {"importance": 2.0},
        {"memory_type": "procedural"},
        {"unknown": {"a": 1}, "id": "5", "score": 3},
    ],
)
async def test_the_limits_themselves_and_blanks_and_unknown_keys_pass(rest: Rest, name: str, changes: dict[str, Any]):
    answer = await rest.http.post(CREATE, json=memory(name, content="x") | changes)
    assert answer.status_code == 201, answer.text
    fields = {key: value for key, value in changes.items() if "unknown" not in changes}
    assert {key: answer.json()[key] for key in fields} == fields


@pytest.mark.covers("POST /v1/memories")
async def test_half_a_surrogate_pair_is_replaced(rest: Rest, name: str):
    body = f'{{"agent_id": "{name}", "user_id": "grace", "content": "cut \\ud83c off"}}'
    answer = await rest.http.post(CREATE, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["content"]) == (201, "cut \ufffd off")


@pytest.mark.covers("POST /v1/memories")
async def test_an_agent_cannot_have_the_name_of_all(rest: Rest):
    answer = await rest.http.post(CREATE, json=memory("*", content="x"))
    assert answer.status_code == 422
    assert "every agent" in answer.json()["detail"]


@pytest.mark.covers("POST /v1/memories/search")
@pytest.mark.parametrize(
    "changes",
    [
        {"query": "a" * 2_000},
        {"query": " "},
        {"top_k": 1},
        {"top_k": 50},
        {"top_k": "5"},
        {"top_k": 5.0},
        {"alpha": 0},
        {"alpha": 1},
        {"alpha": "0.5"},
        {"memory_type": None},
        {"memory_type": "episodic"},
        {"unknown": 1},
    ],
)
async def test_a_search_at_its_limits_and_with_numbers_as_texts_passes(rest: Rest, name: str, changes: dict[str, Any]):
    made = await rest.store(name, "The kettle is red.")
    answer = await rest.http.post(SEARCH, json=memory(name, query="kettle") | changes)
    assert answer.status_code == 200, answer.text
    assert [result["id"] for result in answer.json()["results"]] == [made["id"]]


@pytest.mark.covers("POST /v1/memories")
@pytest.mark.parametrize(("given", "expected"), [("1.5", 1.5), ("0", 0.0), (2, 2.0), (0.123, 0.123)])
async def test_an_importance_may_be_a_text(rest: Rest, name: str, given: Any, expected: float):
    assert (await rest.store(name, "x", importance=given))["importance"] == expected
    assert [result["importance"] for result in await rest.search(name, "x")] == [expected]


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
@pytest.mark.parametrize(
    ("path", "fields"), [(CREATE, ["agent_id", "user_id", "content"]), (SEARCH, ["agent_id", "user_id", "query"])]
)
async def test_every_missing_field_is_named(rest: Rest, path: str, fields: list[str]):
    answer = await rest.http.post(path, json={})
    assert refusals(answer) == [Refusal("missing", ["body", field], {}) for field in fields]


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
@pytest.mark.parametrize("path", [CREATE, SEARCH])
async def test_all_that_is_wrong_is_told_at_once(rest: Rest, name: str, path: str):
    answer = await rest.http.post(path, json={"agent_id": "", "user_id": "a" * 129, "content": "", "query": ""})
    assert [place[1] for place in places(answer)][:2] == ["agent_id", "user_id"]
    assert len(places(answer)) == 3


@pytest.mark.covers("POST /v1/memories")
async def test_a_limit_is_told_in_ctx(rest: Rest, name: str):
    (item,) = (await rest.http.post(CREATE, json=memory(name, content="x", importance=3))).json()["detail"]
    assert item["ctx"] == {"le": 2.0}
    (item,) = (await rest.http.post(CREATE, json=memory(name, content=""))).json()["detail"]
    assert item["ctx"] == {"min_length": 1}


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
@pytest.mark.parametrize("path", [CREATE, SEARCH])
@pytest.mark.parametrize("content", [b"{", b"hello", b'{"agent_id": "a",}'])
async def test_malformed_json_is_refused_as_such(rest: Rest, path: str, content: bytes):
    answer = await rest.http.post(path, content=content, headers=JSON)
    (refusal,) = refusals(answer)
    assert (refusal.type, refusal.loc[0]) == ("json_invalid", "body")
    assert answer.json()["detail"][0]["ctx"].keys() == {"error"}


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
@pytest.mark.parametrize("path", [CREATE, SEARCH])
@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
async def test_a_body_that_does_not_say_that_it_is_json_is_refused(
    rest: Rest, name: str, path: str, headers: dict[str, str]
):
    content = f'{{"agent_id": "{name}", "user_id": "grace", "content": "x", "query": "x"}}'.encode()
    assert places(await rest.http.post(path, content=content, headers=headers)) == [["body"]]
    assert await rest.count(name) == 0


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
@pytest.mark.parametrize("path", [CREATE, SEARCH])
@pytest.mark.parametrize("content", [b"", b"[]", b"5", b"null"])
async def test_a_body_that_is_no_object_is_refused(rest: Rest, path: str, content: bytes):
    assert places(await rest.http.post(path, content=content, headers=JSON)) == [["body"]]
