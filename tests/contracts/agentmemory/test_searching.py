"""Search, smart search, the timeline."""

import math
from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok, refused

COMPACT = {"obsId", "sessionId", "title", "type", "score", "timestamp"}
FULL = {*COMPACT, "combinedScore", "narrative", "content", "concepts", "files", "observation"}
UNKNOWN = "2999-12-31"


def ids(found: list[Json]) -> list[str]:
    return [one["obsId"] for one in found]


@pytest.mark.covers("POST /agentmemory/search")
def test_a_result_has_flat_fields_and_its_observation(api: Api, name: str):
    data = {"tool_name": "Edit", "tool_input": {"file_path": f"src/{name}.py"}, "tool_output": f"{name} done"}
    seen = api.hook(name, "post_tool_use", data=data)
    (found,) = [one for one in api.search(name) if one["obsId"] == seen]
    assert found.keys() >= FULL
    assert (found["sessionId"], found["title"], found["type"]) == (name, "Edit", "file_edit")
    assert found["files"] == [f"src/{name}.py"]
    assert name in found["narrative"]
    assert found["observation"]["id"] == seen
    assert found["observation"]["sessionId"] == name
    assert found["score"] > 0


@pytest.mark.covers("POST /agentmemory/search")
def test_a_compact_result_has_no_text(api: Api, name: str):
    api.observe(name, tool_name="Bash", tool_output=name)
    told = ok(api.post("search", query=name, format="compact"))
    assert told["format"] == "compact"
    for one in told["results"]:
        assert one.keys() >= COMPACT
        assert not one.keys() & {"narrative", "content", "observation"}


@pytest.mark.covers("POST /agentmemory/search")
def test_a_narrative_result_is_also_a_text(api: Api, name: str):
    api.observe(name, tool_name="Bash", tool_output=f"{name} stands by the pond")
    told = ok(api.post("search", query=name, format="narrative"))
    assert told["format"] == "narrative"
    (found,) = [one for one in told["results"] if one["sessionId"] == name]
    assert found.keys() >= {"obsId", "sessionId", "title", "narrative", "score", "timestamp"}
    assert f"{name} stands by the pond" in found["narrative"]
    assert f"{name} stands by the pond" in told["text"]


@pytest.mark.covers("POST /agentmemory/search")
def test_results_are_full_unless_asked_otherwise(api: Api, name: str):
    told = ok(api.post("search", query=name))
    assert told["format"] == "full"
    assert told["truncated"] is False
    assert "text" not in told


@pytest.mark.covers("POST /agentmemory/search")
@pytest.mark.parametrize(
    "wrong",
    [
        {"query": ""},
        {"query": "  "},
        {"query": None},
        {"query": "q", "limit": 0},
        {"query": "q", "limit": 101},
        {"query": "q", "limit": "many"},
        {"query": "q", "format": "long"},
        {"query": "q", "token_budget": 0},
        {"query": "q", "token_budget": -5},
        {"query": "q", "token_budget": "some"},
        {},
    ],
)
def test_a_search_that_makes_no_sense_is_refused(api: Api, wrong: Json):
    refused(api.post("search", **wrong))


@pytest.mark.covers("POST /agentmemory/search", "POST /agentmemory/smart-search")
@pytest.mark.parametrize("path", ["search", "smart-search"])
@pytest.mark.parametrize(("limit", "found"), [({}, 20), ({"limit": 3}, 3), ({"limit": 22}, 22), ({"limit": 100}, 25)])
def test_no_more_are_found_than_asked_for(api: Api, crowd: str, path: str, limit: dict[str, int], found: int):
    told = ok(api.post(path, query=crowd, project=crowd, **limit))["results"]
    of_crowd = [one for one in told if one["sessionId"] == crowd]
    assert len(of_crowd) == found
    assert len(told) <= limit.get("limit", 20)


@pytest.fixture(scope="session")
def crowd(api: Api) -> str:
    """A session of 25 observations; its name, which is also its project and a word of every one."""
    session = f"crowd{id(api)}"
    for number in range(25):
        api.hook(
            session, "post_tool_use", project=session, data={"tool_name": "Bash", "tool_output": f"{session} {number}"}
        )
    return session


@pytest.mark.covers("POST /agentmemory/search")
def test_results_fit_a_budget_of_tokens(api: Api, crowd: str):
    told = ok(api.post("search", query=crowd, project=crowd, token_budget=400))
    assert (told["truncated"], told["tokens_budget"]) == (True, 400)
    assert 0 < told["tokens_used"] <= 400
    assert 0 < len(told["results"]) < 20


@pytest.mark.covers("POST /agentmemory/search")
def test_a_budget_too_small_for_one_leaves_nothing(api: Api, crowd: str):
    told = ok(api.post("search", query=crowd, project=crowd, token_budget=1))
    assert (told["results"], told["tokens_used"], told["truncated"]) == ([], 0, True)


@pytest.mark.covers("POST /agentmemory/search")
def test_a_budget_for_all_cuts_nothing(api: Api, crowd: str):
    told = ok(api.post("search", query=crowd, project=crowd, limit=2, token_budget=1_000_000))
    assert (len(told["results"]), told["truncated"]) == (2, False)
    assert told["tokens_used"] > 0


@pytest.mark.covers("POST /agentmemory/search")
def test_the_best_come_first(api: Api, crowd: str):
    scores = [one["score"] for one in api.search(f"{crowd} 7", project=crowd)]
    assert scores == sorted(scores, reverse=True)
    assert not any(map(math.isnan, scores))


@pytest.mark.covers("POST /agentmemory/search")
def test_more_matching_words_rank_higher(api: Api, name: str):
    api.hook(name, "prompt_submit", project=name, data={"prompt": f"{name} stands by the pond"})
    both = api.hook(name, "prompt_submit", project=name, data={"prompt": f"{name} stands near zirconium"})
    assert ids(api.search(f"{name} zirconium", project=name))[0] == both


@pytest.mark.covers("POST /agentmemory/search")
@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("the reconnecting pools", "reconnect pool"),
        ("THE HERON", "heron"),
    ],
)
def test_words_are_found_by_their_stem(api: Api, name: str, said: str, query: str):
    seen = api.hook(name, "prompt_submit", project=name, data={"prompt": said})
    assert seen in ids(api.search(query, project=name))


@pytest.mark.covers("POST /agentmemory/search")
@pytest.mark.xfail(strict=True, reason="a word is found by its stem, not by its beginning")
def test_a_word_is_found_by_its_beginning_without_an_embedder_too(trusted: Api, name: str):
    seen = trusted.hook(name, "prompt_submit", project=name, data={"prompt": "the zirconiumlike stone"})
    assert seen in ids(trusted.search("zirconium", project=name))


@pytest.mark.covers("POST /agentmemory/search")
@pytest.mark.parametrize(
    ("data", "query"),
    [
        ({"tool_name": "Edit", "tool_input": {"file_path": "src/zirconium.rs"}}, "zirconium.rs"),
        ({"tool_name": "ZirconiumTool"}, "ZirconiumTool"),
        ({"tool_name": "Bash", "tool_input": "zirconium"}, "zirconium"),
        ({"tool_name": "Bash", "tool_output": "zirconium"}, "zirconium"),
    ],
)
def test_an_observation_is_found_by_any_of_its_parts(api: Api, name: str, data: Json, query: str):
    seen = api.hook(name, "post_tool_use", project=name, data=data)
    assert seen in ids(api.search(query, project=name))


@pytest.mark.covers("POST /agentmemory/search")
def test_a_project_finds_its_own_memories_and_those_of_none(api: Api, name: str):
    for project in ({"project": f"{name}-a"}, {"project": f"{name}-b"}, {}):
        api.remember(f"{name} is said in {project}", type="bug", **project)
    found = [one for one in api.search(name, project=f"{name}-a") if name in one["content"]]
    assert sorted(one["observation"].get("project", "") for one in found) == ["", f"{name}-a"]


@pytest.mark.covers("POST /agentmemory/search")
def test_a_project_finds_its_own_sessions(api: Api, name: str):
    for project in (f"{name}-a", f"{name}-b"):
        api.hook(project, "prompt_submit", project=project, data={"prompt": f"{name} said"})
    found = api.search(name, project=f"{name}-a")
    assert {one["sessionId"] for one in found} & {f"{name}-a", f"{name}-b"} == {f"{name}-a"}


@pytest.mark.covers("POST /agentmemory/search")
def test_a_memory_among_results_looks_like_a_decision(api: Api, name: str):
    text = f"{name} stands by the pond"
    kept = api.remember(text, project=name, type="bug", concepts=["birds"], files=["a.py"], agentId="ada")
    (found,) = [one for one in api.search(name, project=name) if one["obsId"] == kept["id"]]
    assert (found["type"], found["sessionId"], found["narrative"]) == ("decision", "memory", text)
    told = found["observation"]
    assert (told["type"], told["facts"], told["narrative"]) == ("decision", [text], text)
    assert (told["importance"], told["agentId"], told["files"]) == (kept["strength"], "ada", ["a.py"])
    assert "birds" in told["concepts"]


@pytest.mark.covers("POST /agentmemory/search")
def test_a_superseded_memory_is_not_found(api: Api, name: str):
    old = api.remember(f"{name} stands by the calm green pond every single morning", project=name)
    new = api.remember(f"{name} stands by the calm green pond every single evening", project=name)
    found = ids(api.search(name, project=name))
    assert new["id"] in found
    assert old["id"] not in found


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_a_smart_search_is_compact(api: Api, name: str):
    seen = api.observe(name, tool_name="Bash", tool_output=name)
    told = ok(api.post("smart-search", query=name))
    assert told["mode"] == "compact"
    (found,) = [one for one in told["results"] if one["obsId"] == seen]
    assert found.keys() >= COMPACT
    assert not found.keys() & {"narrative", "content", "observation"}
    assert (found["title"], found["sessionId"]) == ("Bash", name)


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_lessons_come_with_a_smart_search(api: Api, name: str):
    content = f"{name} must not be polled " + "because it blocks " * 30
    said = {"content": content, "project": name, "confidence": 0.8, "tags": ["redis"]}
    kept = ok(api.post("lessons", **said), 201)["lesson"]
    (hint,) = [
        one
        for one in ok(api.post("smart-search", query=f"{name} polled", project=name))["lessons"]
        if one["lessonId"] == kept["id"]
    ]
    assert (hint["content"], hint["confidence"]) == (content.strip()[:240] + "…", 0.8)
    assert (hint["project"], hint["tags"]) == (name, ["redis"])
    assert hint["score"] > 0
    assert hint["createdAt"] == kept["createdAt"]


@pytest.mark.covers("POST /agentmemory/smart-search")
@pytest.mark.parametrize("no", [False, "false"])
def test_lessons_may_be_left_out(api: Api, name: str, no: object):
    ok(api.post("lessons", content=f"{name} must not be polled", project=name), 201)
    assert not ok(api.post("smart-search", query=name, project=name, includeLessons=no)).get("lessons")


@pytest.mark.covers("POST /agentmemory/smart-search")
@pytest.mark.parametrize("form", ["id", "object", "text"])
def test_ids_are_expanded_to_full_records(api: Api, name: str, form: str):
    seen = api.observe(name, tool_name="Bash", tool_output="all of it")
    asked: dict[str, Any] = {"id": [seen], "object": [{"obsId": seen, "sessionId": name}], "text": seen}
    told = ok(api.post("smart-search", expandIds=asked[form]))
    assert (told["mode"], told["truncated"]) == ("expanded", False)
    (found,) = told["results"]
    assert (found["obsId"], found["sessionId"]) == (seen, name)
    assert found["observation"]["toolOutput"] == "all of it"


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_an_unknown_id_expands_to_nothing(api: Api):
    assert ok(api.post("smart-search", expandIds=["obs_none"]))["results"] == []


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_no_more_than_twenty_ids_are_expanded(api: Api, name: str):
    seen = [api.observe(name, tool_name="Bash") for _ in range(21)]
    told = ok(api.post("smart-search", expandIds=seen))
    assert ids(told["results"]) == seen[:20]
    assert told["truncated"] is True


@pytest.mark.covers("POST /agentmemory/smart-search")
@pytest.mark.parametrize("wrong", [{}, {"query": ""}, {"query": None, "expandIds": []}, {"query": "q", "limit": 0}])
def test_a_smart_search_for_nothing_is_refused(api: Api, wrong: Json):
    refused(api.post("smart-search", **wrong))


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_a_smart_search_in_a_project_finds_its_own(api: Api, name: str):
    for project in (f"{name}-a", f"{name}-b"):
        api.hook(project, "prompt_submit", project=project, data={"prompt": f"{name} said"})
    found = ok(api.post("smart-search", query=name, project=f"{name}-a"))["results"]
    assert {one["sessionId"] for one in found} & {f"{name}-a", f"{name}-b"} == {f"{name}-a"}


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_a_search_may_say_where_it_comes_from(api: Api, name: str):
    headers = {"X-Agentmemory-Source": "cli"}
    said = {"query": name, "source": "viewer", "sessionId": name}
    assert ok(api.http.post("/agentmemory/smart-search", json=said, headers=headers))["mode"] == "compact"


@pytest.fixture(scope="session")
def days(api: Api) -> list[str]:
    """The ids of eleven observations a day apart, of one project; the sixth speaks of a heron."""
    session = f"days{id(api)}"
    return [
        api.hook(
            session,
            "prompt_submit",
            project=session,
            timestamp=f"2026-01-{day:02}T00:00:00.000Z",
            data={"prompt": f"heron{session}" if day == 6 else f"day {day}"},
        )
        for day in range(1, 12)
    ]


def timeline(api: Api, **asked: Any) -> Json:
    return ok(api.post("timeline", project=f"days{id(api)}", **asked))


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_timeline_is_what_was_around_a_time(api: Api, days: list[str]):
    told = timeline(api, anchor="2026-01-06T00:00:00.000Z", before=2, after=2)
    assert told["success"] is True
    assert [one["observation"]["id"] for one in told["entries"]] == days[3:8]
    assert [one["relativePosition"] for one in told["entries"]] == [-2, -1, 0, 1, 2]
    assert {one["sessionId"] for one in told["entries"]} == {f"days{id(api)}"}
    assert told["anchorIndex"] == 2


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_timeline_is_also_a_list_of_observations(api: Api, days: list[str]):
    told = timeline(api, anchor="2026-01-06T00:00:00.000Z", before=1, after=3)
    assert [one["id"] for one in told["observations"]] == days[4:9]
    assert told["observations"] == [one["observation"] for one in told["entries"]]


@pytest.mark.covers("POST /agentmemory/timeline")
@pytest.mark.parametrize(
    ("around", "first", "last"),
    [({}, 0, 11), ({"before": 0, "after": 0}, 5, 6), ({"before": 0}, 5, 11), ({"before": "1", "after": "1"}, 4, 7)],
)
def test_a_timeline_shows_five_before_and_after_unless_asked_otherwise(
    api: Api, days: list[str], around: Json, first: int, last: int
):
    told = timeline(api, anchor="2026-01-06T00:00:00.000Z", **around)
    assert [one["observation"]["id"] for one in told["entries"]] == days[first:last]


@pytest.mark.covers("POST /agentmemory/timeline")
@pytest.mark.parametrize("anchor", ["2026-01-06", "2026-01-06T05:00:00Z", "2026-01-05T20:00:00.000Z"])
def test_the_anchor_is_the_nearest_in_time(api: Api, days: list[str], anchor: str):
    told = timeline(api, anchor=anchor, before=1, after=1)
    assert told["entries"][told["anchorIndex"]]["observation"]["id"] == days[5]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_word_is_an_anchor(api: Api, days: list[str]):
    told = timeline(api, anchor=f"heron{f'days{id(api)}'}", before=1, after=1)
    assert [one["observation"]["id"] for one in told["entries"]] == days[4:7]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_an_observation_is_an_anchor(api: Api, days: list[str]):
    told = timeline(api, anchor=days[2], before=1, after=1)
    assert [one["observation"]["id"] for one in told["entries"]] == days[1:4]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_the_newest_with_the_word_is_the_anchor(api: Api, name: str):
    old, new = (
        api.hook(name, "prompt_submit", project=name, timestamp=f"2026-01-0{day}T00:00:00Z", data={"prompt": "heron"})
        for day in (1, 2)
    )
    told = ok(api.post("timeline", anchor="heron", project=name))
    assert [one["relativePosition"] for one in told["entries"]] == [-1, 0]
    assert [one["id"] for one in told["observations"]] == [old, new]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_timeline_of_one_session_leaves_others_out(api: Api, name: str):
    for session in (f"{name}-1", f"{name}-2"):
        api.hook(session, "notification", project=name)
    told = ok(api.post("timeline", anchor="2026-01-31", project=name, sessionId=f"{name}-1"))
    assert [one["sessionId"] for one in told["entries"]] == [f"{name}-1"]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_nothing_with_the_word_is_said(api: Api, name: str, days: list[str]):
    told = timeline(api, anchor=name)
    assert (told["success"], told["entries"], told["observations"]) == (True, [], [])
    assert told["reason"] == "no_match"


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_date_that_is_none_is_said(api: Api, days: list[str]):
    told = timeline(api, anchor="2026-99-99T00:00:00Z")
    assert (told["entries"], told["reason"]) == ([], "invalid_date")


@pytest.mark.covers("POST /agentmemory/timeline")
def test_an_unknown_project_has_no_timeline(api: Api, name: str):
    told = ok(api.post("timeline", anchor=UNKNOWN, project=name))
    assert (told["entries"], told["observations"]) == ([], [])


@pytest.mark.covers("POST /agentmemory/timeline")
@pytest.mark.parametrize("body", [{}, {"anchor": ""}, {"anchor": None, "project": "p"}])
def test_a_timeline_needs_an_anchor(api: Api, body: Json):
    refused(api.post("timeline", **body))
