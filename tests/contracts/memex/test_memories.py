"""Memories over REST: stored, counted, deleted, and who sees them."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tests.contracts.memex.conftest import USER, UUID, Rest, memory
from tests.contracts.refusals import Refusal, places, refusals, said

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


@pytest.mark.covers("POST /v1/memories")
async def test_agent_user_and_content_are_enough(rest: Rest, name: str):
    made = await rest.store(name, "x")
    assert (made["importance"], made["memory_type"]) == (1.0, "episodic")


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search", "GET /v1/memories/count")
@pytest.mark.parametrize("content", ["\u00e9\U0001f680 \t\n two\r\nlines ", "a" * 8_000, " ", "0", '{"a": "b"}'])
async def test_what_is_found_is_what_was_stored(rest: Rest, name: str, content: str):
    made = await rest.store(name, content)
    assert made["content"] == content
    assert await rest.count(name) == 1
    (result,) = await rest.search(name, "anything")
    assert {**result, "score": None} == made
    assert isinstance(result["score"], float)


@pytest.mark.covers("POST /v1/memories", "GET /v1/memories/count")
async def test_duplicates_are_kept(rest: Rest, name: str):
    made = [await rest.store(name, "The kettle is red.") for _ in range(3)]
    assert len({row["id"] for row in made}) == 3
    assert await rest.count(name) == 3


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search", "GET /v1/memories/count")
async def test_every_write_is_seen_by_the_next_search_and_count(rest: Rest, name: str):
    for number in range(1, 8):
        made = await rest.store(name, f"Kettle {number}.")
        assert await rest.count(name) == number
        assert made["id"] in [result["id"] for result in await rest.search(name, "kettle")]


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
    said(await rest.delete(name, made["id"]), 404)


@pytest.mark.covers("DELETE /v1/memories/{memory_id}")
async def test_an_agent_deletes_for_any_of_its_users_and_for_no_other_agent(rest: Rest, name: str):
    made = await rest.store(name, "The kettle is red.", user_id="ada")
    said(await rest.delete(f"{name}-2", made["id"]), 404)
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


@pytest.mark.covers("DELETE /v1/memories/{memory_id}")
async def test_a_memory_that_there_is_not_is_404(rest: Rest, name: str):
    said(await rest.delete(name, str(uuid4())), 404)


@pytest.mark.covers("DELETE /v1/memories/{memory_id}")
async def test_a_delete_that_does_not_fit_is_422(rest: Rest, name: str):
    (refusal,) = refusals(await rest.delete(name, "first"))
    assert refusal == Refusal("uuid_parsing", ["path", "memory_id"], "first")
    (refusal,) = refusals(await rest.http.delete(f"/v1/memories/{uuid4()}"))
    assert (refusal.type, refusal.loc) == ("missing", ["query", "agent_id"])
    both = places(await rest.http.delete("/v1/memories/first"))
    assert both == [["path", "memory_id"], ["query", "agent_id"]]


@pytest.mark.covers("GET /v1/memories/count")
async def test_a_count_needs_an_agent_and_a_user(rest: Rest, name: str):
    assert places(await rest.http.get("/v1/memories/count")) == [["query", "agent_id"], ["query", "user_id"]]
    assert places(await rest.http.get("/v1/memories/count", params={"agent_id": name})) == [["query", "user_id"]]
    assert places(await rest.http.get("/v1/memories/count", params={"user_id": name})) == [["query", "agent_id"]]


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


@pytest.mark.covers("DELETE /v1/memories/{memory_id}")
async def test_a_memory_cannot_be_read_by_its_id(rest: Rest):
    answer = await rest.http.get(f"/v1/memories/{uuid4()}")
    assert said(answer, 405) == "Method Not Allowed"
    assert answer.headers["allow"] == "DELETE"


@pytest.mark.covers("POST /v1/memories")
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/memories"), ("PUT", "/v1/memories"), ("PATCH", "/health")])
async def test_there_is_no_list_and_no_update(rest: Rest, method: str, path: str):
    assert said(await rest.http.request(method, path), 405) == "Method Not Allowed"
