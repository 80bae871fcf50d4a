"""Memories over REST: stored, counted, deleted, and who sees them.

Searching memories over REST: the score and the order.

What memex's REST API takes, and what it refuses; it clamps nothing.
"""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.contracts.memex.conftest import USER, UUID, Rest, memory
from tests.contracts.refusals import Refusal, places, reason, refusals
from tests.support.waiting import wait_until

KEYS = {"id", "agent_id", "user_id", "content", "importance", "memory_type", "created_at", "score"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@pytest.mark.covers("POST /v1/memories")
async def test_a_memory_is_answered_whole(rest: Rest, name: str):
    made = await rest.store(name, "The kettle is red.", importance=0.85, memory_type="semantic")
    assert made.keys() == KEYS
    assert re.fullmatch(UUID, made["id"])
    assert TIME.fullmatch(made["created_at"])
    assert abs(datetime.fromisoformat(made["created_at"]) - datetime.now(UTC)) < timedelta(minutes=5)
    del made["id"], made["created_at"]
    assert made == {
        "agent_id": name, "user_id": USER, "content": "The kettle is red.", "importance": 0.85,
        "memory_type": "semantic", "score": None,
    }  # fmt: skip
    bare = await rest.store(name, "x")
    assert (bare["importance"], bare["memory_type"]) == (1.0, "episodic")


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search", "GET /v1/memories/count")
@pytest.mark.parametrize("content", ["\u00e9\U0001f680 \t\n two\r\nlines ", "a" * 8_000, " ", "0", '{"a": "b"}'])
async def test_what_is_found_is_what_was_stored(rest: Rest, name: str, content: str):
    made = await rest.store(name, content)
    assert made["content"] == content
    assert await rest.count(name) == 1
    (result,) = await rest.search(name, "anything")
    assert {**result, "score": None} == made
    assert isinstance(result["score"], float)


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search", "GET /v1/memories/count")
@pytest.mark.parametrize("text", ["Kettle {0}.", "The kettle is red."], ids=["others", "duplicates"])
async def test_every_write_is_seen_by_the_next_search_and_count(rest: Rest, name: str, text: str):
    for number in range(1, 8):
        made = await rest.store(name, text.format(number))
        assert await rest.count(name) == number
        ids = [result["id"] for result in await rest.search(name, "kettle")]
        assert made["id"] in ids
        assert len({*ids}) == number


@pytest.mark.covers("POST /v1/memories/search", "GET /v1/memories/count")
async def test_a_pair_sees_only_what_is_its_own(rest: Rest, name: str):
    mine = await rest.store(name, "The kettle is red.")
    others = await rest.store(name, "The kettle is red.", user_id="ada")
    anothers = await rest.store(f"{name}-2", "The kettle is red.")
    for agent, user, made in ((name, USER, mine), (name, "ada", others), (f"{name}-2", USER, anothers)):
        assert await rest.count(agent, user) == 1
        assert [result["id"] for result in await rest.search(agent, "kettle", user_id=user)] == [made["id"]]
    for agent, user in ((f"{name}-2", "ada"), (name.upper(), USER), (name, "Grace"), (f"{name} ", USER)):
        assert await rest.count(agent, user) == 0
        assert await rest.search(agent, "kettle", user_id=user) == []


@pytest.mark.covers("DELETE /v1/memories/{memory_id}")
async def test_a_deleted_memory_is_gone(rest: Rest, name: str):
    made, stored = await rest.store(name, "The kettle is red."), await rest.store(name, "The pot is blue.")
    answer = await rest.delete(name, made["id"])
    assert (answer.status_code, answer.content) == (204, b"")
    assert await rest.count(name) == 1
    assert [result["id"] for result in await rest.search(name, "kettle")] == [stored["id"]]
    reason(await rest.delete(name, made["id"]), 404)


@pytest.mark.covers("DELETE /v1/memories/{memory_id}")
async def test_an_agent_deletes_for_any_of_its_users_and_for_no_other_agent(rest: Rest, name: str):
    made = await rest.store(name, "The kettle is red.", user_id="ada")
    reason(await rest.delete(f"{name}-2", made["id"]), 404)
    assert await rest.count(name, "ada") == 1
    assert (await rest.delete(name, made["id"])).status_code == 204
    assert await rest.count(name, "ada") == 0


@pytest.mark.covers("DELETE /v1/memories/{memory_id}")
async def test_one_of_two_concurrent_deletes_succeeds(rest: Rest, name: str):
    made = await rest.store(name, "The kettle is red.")
    answers = await asyncio.gather(*(rest.delete(name, made["id"]) for _ in range(2)))
    assert 204 in {answer.status_code for answer in answers} <= {204, 404}
    assert await rest.count(name) == 0


@pytest.mark.covers("DELETE /v1/memories/{memory_id}", "GET /v1/memories/count")
async def test_an_empty_name_is_nobodys(rest: Rest, name: str):
    made = await rest.store(name, "The kettle is red.")
    assert await rest.count("", "") == 0
    assert (await rest.delete("", made["id"])).status_code == 404
    assert await rest.count(name) == 1


@pytest.mark.covers("DELETE /v1/memories/{memory_id}", "GET /v1/memories/count", "POST /v1/memories")
async def test_what_is_not_there_is_404_and_what_does_not_fit_422(rest: Rest, name: str):
    """There is no list, no update, and no reading by an id."""
    reason(await rest.delete(name, str(uuid4())), 404)
    (refusal,) = refusals(await rest.delete(name, "first"))
    assert refusal == Refusal("uuid_parsing", ["path", "memory_id"], "first")
    (refusal,) = refusals(await rest.http.delete(f"/v1/memories/{uuid4()}"))
    assert (refusal.type, refusal.loc) == ("missing", ["query", "agent_id"])
    both = places(await rest.http.delete("/v1/memories/first"))
    assert both == [["path", "memory_id"], ["query", "agent_id"]]
    for given, missing in (([], ["agent_id", "user_id"]), (["agent_id"], ["user_id"]), (["user_id"], ["agent_id"])):
        answer = await rest.http.get("/v1/memories/count", params=dict.fromkeys(given, name))
        assert places(answer) == [["query", key] for key in missing]
    answer = await rest.http.get(f"/v1/memories/{uuid4()}")
    assert reason(answer, 405) == "Method Not Allowed"
    assert answer.headers["allow"] == "DELETE"
    for method, path in (("GET", "/v1/memories"), ("PUT", "/v1/memories"), ("PATCH", "/health")):
        assert reason(await rest.http.request(method, path), 405) == "Method Not Allowed"


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
async def test_a_slash_at_the_end_redirects(rest: Rest, name: str):
    answer = await rest.http.post("/v1/memories/", json=memory(name, content="x"))
    assert answer.status_code == 307
    assert path_of(answer.headers["location"]) == "/v1/memories"
    followed = await rest.http.post("/v1/memories/", json=memory(name, content="x"), follow_redirects=True)
    assert followed.status_code == 201


def path_of(location: str) -> str:
    """The path of an address, or of a path."""
    return re.sub(r"^https?://[^/]+", "", location)


PATIENT_S = 60


async def score(rest: Rest, agent: str, query: str, alpha: float | None) -> float:
    (result,) = await rest.search(agent, query, **({} if alpha is None else {"alpha": alpha}))
    return result["score"]


@pytest.mark.covers("POST /v1/memories/search")
async def test_a_score_is_mixed_of_similarity_and_recency(rest: Rest, name: str):
    """A fresh memory's recency is 1; its similarity is what alpha 1 says, once it does not change any more."""
    await rest.store(name, "Grace likes to drink oolong from a red kettle.")
    query = "which kettle does she use for tea?"
    scores: list[float] = []

    async def steady() -> bool:
        scores[:] = [await score(rest, name, query, alpha) for alpha in (1.0, 0.7, None, 0.25, 0.0, 1.0)]
        return scores[0] == scores[-1]

    await wait_until(steady, PATIENT_S)
    similarity = scores[0]
    assert -1 <= similarity < 1
    assert scores[4] == 1.0
    for alpha, given in ((0.7, scores[1]), (0.7, scores[2]), (0.25, scores[3])):
        assert given == pytest.approx(alpha * similarity + (1 - alpha), abs=1.01e-4)
    assert all(round(score, 4) == score for score in scores)


@pytest.mark.covers("POST /v1/memories/search")
async def test_the_most_similar_comes_first(rest: Rest, name: str):
    other = await rest.store(name, "The train leaves at noon.")
    best = await rest.store(name, "The kettle is red.")
    await rest.store(name, "Postgres pools have twenty connections.")
    results = await rest.search(name, "The kettle is red.", alpha=1.0)
    assert results[0]["id"] == best["id"]
    assert [result["score"] for result in results] == sorted((result["score"] for result in results), reverse=True)
    assert other["id"] in [result["id"] for result in results]


@pytest.mark.covers("POST /v1/memories/search")
async def test_weak_matches_are_returned(rest: Rest, name: str):
    for number in range(4):
        await rest.store(name, f"Train {number} leaves at noon.")
    assert len(await rest.search(name, "quantum chromodynamics")) == 4


@pytest.mark.covers("POST /v1/memories/search")
async def test_ten_are_returned_unless_top_k_says_otherwise(rest: Rest, name: str):
    for number in range(12):
        await rest.store(name, f"Kettle {number}.")
    assert len(await rest.search(name, "kettle")) == 10
    for top_k, number in ((1, 1), (11, 11), (50, 12)):
        assert len(await rest.search(name, "kettle", top_k=top_k)) == number


@pytest.mark.covers("POST /v1/memories/search")
async def test_alpha_0_takes_the_newest_of_the_candidates_alone(rest: Rest, name: str):
    """The candidates for one result are the three most similar; what is newer but less similar is none.

    For a moment what has no vector yet stands beside them.
    """
    similar = [await rest.store(name, "The kettle is red.") for _ in range(3)]
    for text in ("Trains leave at noon.", "Postgres pools are small.", "Nobody came yesterday."):
        await rest.store(name, text)

    async def newest_of_the_similar() -> bool:
        (result,) = await rest.search(name, "The kettle is red.", alpha=0.0, top_k=1)
        return (result["id"], result["score"]) == (similar[-1]["id"], 1.0)

    await wait_until(newest_of_the_similar, PATIENT_S)


@pytest.mark.covers("POST /v1/memories/search")
async def test_importance_does_not_rank(rest: Rest, name: str):
    """Of equal texts the newer comes first, whatever they weigh."""
    older = await rest.store(name, "The kettle is red.", importance=2.0)
    newer = await rest.store(name, "The kettle is red.", importance=0.0)

    async def embedded() -> bool:
        first, second = await rest.search(name, "kettle", alpha=1.0)
        return first["score"] == second["score"]

    await wait_until(embedded, PATIENT_S)
    results = await rest.search(name, "kettle", alpha=0.0)
    assert [result["id"] for result in results] == [newer["id"], older["id"]]
    assert [result["importance"] for result in results] == [0.0, 2.0]


@pytest.mark.covers("POST /v1/memories/search")
async def test_a_search_may_be_for_one_type(rest: Rest, name: str):
    made = {
        kind: (await rest.store(name, "The kettle is red.", memory_type=kind))["id"]
        for kind in ("episodic", "semantic", "procedural")
    }
    for kind, expected in made.items():
        results = await rest.search(name, "kettle", memory_type=kind)
        assert [(result["id"], result["memory_type"]) for result in results] == [(expected, kind)]
    assert {result["id"] for result in await rest.search(name, "kettle", memory_type=None)} == set(made.values())


@pytest.mark.covers("POST /v1/memories/search")
async def test_the_type_is_filtered_before_candidates_are_taken(rest: Rest, name: str):
    made = await rest.store(name, "Trains leave at noon.", memory_type="procedural")
    for _ in range(5):
        await rest.store(name, "The kettle is red.")
    results = await rest.search(name, "The kettle is red.", top_k=1, memory_type="procedural")
    assert [result["id"] for result in results] == [made["id"]]


@pytest.mark.covers("POST /v1/memories/search")
async def test_a_search_of_nothing_finds_nothing(rest: Rest, name: str):
    assert await rest.search(name, "kettle") == []


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
async def test_the_limits_themselves_and_blanks_and_unknown_keys_pass(rest: Rest, name: str):
    for changes in (
        {"user_id": "a" * 128}, {"user_id": " "}, {"content": " "}, {"content": "a" * 8_000}, {"importance": 0},
        {"importance": 2.0}, {"memory_type": "procedural"}, {"unknown": {"a": 1}, "id": "5", "score": 3},
    ):  # fmt: skip
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
async def test_a_search_at_its_limits_and_with_numbers_as_texts_passes(rest: Rest, name: str):
    made = await rest.store(name, "The kettle is red.")
    for field, value in (
        ("query", "a" * 2_000), ("query", " "), ("top_k", 1), ("top_k", 50), ("top_k", "5"), ("top_k", 5.0),
        ("alpha", 0), ("alpha", 1), ("alpha", "0.5"), ("memory_type", None), ("memory_type", "episodic"),
        ("unknown", 1),
    ):  # fmt: skip
        answer = await rest.http.post(SEARCH, json=memory(name, query="kettle") | {field: value})
        assert answer.status_code == 200, answer.text
        assert [result["id"] for result in answer.json()["results"]] == [made["id"]], (field, value)


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
async def test_malformed_json_and_a_body_that_is_no_object_are_refused_as_such(rest: Rest, name: str, path: str):
    for content in (b"{", b"hello", b'{"agent_id": "a",}'):
        answer = await rest.http.post(path, content=content, headers=JSON)
        (refusal,) = refusals(answer)
        assert (refusal.type, refusal.loc[0]) == ("json_invalid", "body")
        assert answer.json()["detail"][0]["ctx"].keys() == {"error"}
    for content in (b"", b"[]", b"5", b"null"):
        assert places(await rest.http.post(path, content=content, headers=JSON)) == [["body"]]
    body = f'{{"agent_id": "{name}", "user_id": "grace", "content": "x", "query": "x"}}'.encode()
    for headers in ({}, {"Content-Type": "text/plain"}):
        assert places(await rest.http.post(path, content=body, headers=headers)) == [["body"]]
    assert await rest.count(name) == 0
