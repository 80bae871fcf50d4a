"""Searches: by meaning, filtered before they are ranked."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest
from waiting import wait_until

from tests.contracts.agentd.conftest import Remember

Search = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def search(agentd: httpx.Client, name: str) -> Search:
    """`search(query, **fields)` among the memories of this test; returns what was found."""

    def search(query: str, **fields: Any) -> list[dict[str, Any]]:
        answer = agentd.post("/memories/search", json={"query": query, "tags": [name], **fields})
        assert answer.status_code == 200, answer.text
        results = answer.json()
        assert results.keys() == {"memories", "total"}
        assert results["total"] == len(results["memories"])
        return results["memories"]

    return search


def contents(expected: list[dict[str, Any]]) -> list[str]:
    return [item["content"] for item in expected]


@pytest.mark.covers("POST /memories/search")
def test_what_was_just_stored_is_found_and_shown_whole(remember: Remember, search: Search):
    stored = remember("The deploy key is kept in the vault", type="request", references=["mem_1_00000000"])
    remember("Lunch is at noon")
    results = search("deploy key vault")
    assert results[0] == stored
    assert len(results) == 2


@pytest.mark.covers("POST /memories/search")
async def test_the_order_is_that_of_meaning(remember: Remember, search: Search):
    """Also where no word is the same; older or newer does not count."""
    remember("The cat sleeps on the sofa")
    remember("Quarterly revenue rose by nine percent")
    remember("The database migration failed last night")

    def by_meaning() -> bool:
        results = contents(search("earnings of the company, finances", limit=1))
        return results == ["Quarterly revenue rose by nine percent"]

    await wait_until(by_meaning, timeout_s=120)
    assert contents(search("a pet in the living room"))[0] == "The cat sleeps on the sofa"


@pytest.mark.covers("POST /memories/search")
def test_the_limit_is_ten_and_as_many_come_as_match(remember: Remember, search: Search):
    for n in range(24):
        remember(f"note {n}", type="information" if n % 2 else "question")
    assert len(search("note")) == 10
    assert len(search("note", limit=3)) == 3
    assert len(search("nothing that any of them says", limit=20)) == 20
    assert len(search("note", limit=100_000_000)) == 24
    assert len(search("note", type="question", limit=12)) == 12
    assert {result["type"] for result in search("note", type="question", limit=50)} == {"question"}
    assert search("note", limit=0) == []


@pytest.mark.covers("POST /memories/search")
def test_any_of_the_tags_will_do(agentd: httpx.Client, remember: Remember, name: str):
    remember("first", tags=[f"{name}-a"])
    remember("second", tags=[f"{name}-b"])
    remember("third", tags=[f"{name}-a,{name}-b"])

    def find(*tags: str) -> set[str]:
        answer = agentd.post("/memories/search", json={"query": "which", "tags": [f"{name}-{tag}" for tag in tags]})
        return set(contents(answer.json()["memories"]))

    assert find("a") == {"first"}
    assert find("a", "b") == {"first", "second"}
    assert find("c") == set()


@pytest.mark.covers("POST /memories/search")
def test_times_bound_the_creation_and_are_inclusive(remember: Remember, search: Search):
    first, second, third = (remember(f"event {n}") for n in range(3))
    at = [datetime.fromisoformat(item["created_at"]) for item in (first, second, third)]
    assert at[0] < at[1] < at[2]
    elsewhere = timezone(timedelta(hours=-7))

    def find(**bounds: datetime) -> set[str]:
        given = {key.rstrip("_"): when.isoformat() for key, when in bounds.items()}
        return set(contents(search("event", **given)))

    assert find(from_=at[1]) == {"event 1", "event 2"}
    assert find(to=at[1]) == {"event 0", "event 1"}
    assert find(from_=at[1].astimezone(elsewhere), to=at[1].astimezone(elsewhere)) == {"event 1"}
    assert find(from_=at[1] + timedelta(microseconds=1)) == {"event 2"}
    assert find(to=at[1] - timedelta(microseconds=1)) == {"event 0"}
    assert find(from_=at[2] + timedelta(days=1)) == set()


@pytest.mark.covers("POST /memories/search")
def test_filters_come_before_the_ranking(remember: Remember, search: Search, name: str):
    """Those that match are all found, though many others say it better."""
    for n in range(40):
        remember(f"release plan release plan {n}")
    for n in range(4):
        remember(f"an aside {n}", type="question", visibility="private", created_by=f"{name}-ada")
    results = search("release plan", type="question", as_actor=f"{name}-ada", limit=4)
    assert len(results) == 4
    assert {result["created_by"] for result in results} == {f"{name}-ada"}


@pytest.mark.covers("POST /memories/search")
def test_any_query_and_any_time_are_answered_and_null_is_not_given(remember: Remember, search: Search):
    for query in ("x" * 100_000, "\U0001f680", "\"AND (OR' *:", "!?"):
        assert search(query) == []
    remember("text")
    nothing = {"as_actor": None, "type": None, "from": None, "to": None, "unknown": 1}
    assert contents(search("text", **nothing)) == ["text"]
    for bounds in (
        {"from": "0001-01-01T00:00:00+14:00"},
        {"to": "9999-12-31T23:59:59.999999-14:00"},
        {"from": "9999-12-31T23:59:59.999999Z"},
        {"from": "2026-01-31T12:00:00.123456789Z", "to": "2026-01-31t12:00:01.123456789+00:00"},
    ):
        search("text", **bounds)
