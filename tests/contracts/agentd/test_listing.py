"""Lists: what is in them, in which order, a page at a time."""

from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.contracts.agentd.conftest import Remember, at_once

UNKNOWN = [
    {"type": "fact"},
    {"visibility": "secret"},
    {"limit": "-1"},
    {"limit": "many"},
    {"limit": "1.5"},
    {"limit": ""},
    {"offset": "-1"},
    {"offset": "far"},
]


def contents(page: dict[str, Any]) -> list[str]:
    return [item["content"] for item in page["items"]]


@pytest.mark.covers("GET /memories")
def test_the_newest_are_first(agentd: httpx.Client, remember: Remember, name: str):
    stored = [remember(f"number {n}") for n in range(5)]
    answer = agentd.get("/memories", params={"tag": name})
    assert answer.status_code == 200
    assert answer.json() == {"items": stored[::-1], "total": 5, "limit": 50, "offset": 0}


@pytest.mark.covers("GET /memories")
def test_pages_are_stable_also_within_a_moment(agentd: httpx.Client, name: str):
    """By time, then by id, the greatest first; pages of any size put together are the whole list."""
    at_once(agentd, [str(n) for n in range(60)], name)
    whole = agentd.get("/memories", params={"tag": name, "limit": 200}).json()["items"]
    keys = [(datetime.fromisoformat(item["created_at"]), item["id"]) for item in whole]
    assert len(keys) == 60
    assert keys == sorted(keys, reverse=True)
    for size in (1, 7, 25):
        pages = [
            agentd.get("/memories", params={"tag": name, "limit": size, "offset": offset}).json()
            for offset in range(0, 60, size)
        ]
        assert [item for page in pages for item in page["items"]] == whole
        assert {page["total"] for page in pages} == {60}


@pytest.mark.covers("GET /memories")
@pytest.mark.parametrize(("options", "echoed"), [("0", 1), ("1", 1), ("200", 200), ("201", 200), ("999999999999", 200)])
def test_the_limit_is_clamped_and_echoed(
    agentd: httpx.Client, remember: Remember, name: str, options: str, echoed: int
):
    remember("a")
    remember("b")
    page = agentd.get("/memories", params={"tag": name, "limit": options}).json()
    assert page["limit"] == echoed
    assert len(page["items"]) == min(2, echoed)
    assert page["total"] == 2


@pytest.mark.covers("GET /memories")
def test_an_offset_behind_the_end_is_an_empty_page(agentd: httpx.Client, remember: Remember, name: str):
    remember("a")
    for offset in (1, 10_000_000_000_000):
        page = agentd.get("/memories", params={"tag": name, "offset": offset}).json()
        assert page == {"items": [], "total": 1, "limit": 50, "offset": offset}


@pytest.mark.covers("GET /memories")
def test_filters_are_all_needed_and_any_tag_will_do(agentd: httpx.Client, remember: Remember, name: str):
    first, two, three = f"{name}-1", f"{name}-2", f"{name}-3"
    remember("first", type="question", tags=[first], created_by=f"{name}-ada")
    remember("second", type="request", tags=[two], created_by=f"{name}-bob", visibility="private")
    remember("third", tags=[three, f"{first},{two}"], created_by=f"{name}-Ada", visibility="shared", shared_with=["x"])

    def listed(**query: str) -> list[str]:
        return contents(agentd.get("/memories", params={"tag": name, **query}).json())

    assert listed() == ["third", "second", "first"]
    assert listed(tag=f" {first} ,, {two},") == ["second", "first"]
    assert listed(tag=f"{three}") == ["third"]
    assert listed(type="QUESTION") == ["first"]
    assert listed(type="information") == ["third"]
    assert listed(created_by=f"{name}-ada") == ["first"]
    assert listed(created_by=f"{name}-nobody") == []
    assert listed(created_by="") == []
    assert listed(visibility="Private") == ["second"]
    assert listed(visibility="shared") == ["third"]
    assert listed(visibility="public") == ["first"]
    assert listed(visibility="public", type="request") == []
    assert listed(type="request", created_by=f"{name}-bob", visibility="private", tag=two) == ["second"]


@pytest.mark.covers("GET /memories")
def test_a_list_of_no_tags_is_no_filter(agentd: httpx.Client, remember: Remember):
    remember("a")
    assert agentd.get("/memories", params={"tag": " , "}).json()["total"] >= 1


@pytest.mark.covers("GET /memories")
@pytest.mark.parametrize("query", UNKNOWN)
def test_a_parameter_that_does_not_fit_is_bad_input(agentd: httpx.Client, query: dict[str, str]):
    answer = agentd.get("/memories", params=query)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("invalid input: ")
    assert next(iter(query)) in answer.json()["error"]


@pytest.mark.covers("GET /memories")
def test_what_another_client_wrote_is_there_at_once(agentd: httpx.Client, remember: Remember, name: str):
    for n in range(10):
        remember(f"{n}", created_by=f"agent-{n}")
        assert agentd.get("/memories", params={"tag": name}).json()["total"] == n + 1


@pytest.mark.covers("GET /memories")
def test_the_list_may_be_asked_for_with_a_slash_at_its_end(agentd: httpx.Client, remember: Remember, name: str):
    remember("a")
    assert agentd.get("/memories/", params={"tag": name}, follow_redirects=True).json()["total"] == 1
