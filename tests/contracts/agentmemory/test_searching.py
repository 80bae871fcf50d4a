"""Search, smart search, the timeline."""

import math
from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok, refused

COMPACT = {"obsId", "sessionId", "title", "type", "score", "timestamp"}
FULL = {*COMPACT, "combinedScore", "narrative", "content", "concepts", "files", "observation"}
UNKNOWN = "2999-12-31"


def ids(expected: list[Json]) -> list[str]:
    return [item["obsId"] for item in expected]


@pytest.mark.covers("POST /agentmemory/search")
def test_a_result_has_flat_fields_and_its_observation(api: Api, name: str):
    data = {"tool_name": "Edit", "tool_input": {"file_path": f"src/{name}.py"}, "tool_output": f"{name} done"}
    observation = api.hook(name, "post_tool_use", data=data)
    (result,) = [hit for hit in api.search(name) if hit["obsId"] == observation]
    assert result.keys() >= FULL
    assert (result["sessionId"], result["title"], result["type"]) == (name, "Edit", "file_edit")
    assert result["files"] == [f"src/{name}.py"]
    assert name in result["narrative"]
    assert result["observation"]["id"] == observation
    assert result["observation"]["sessionId"] == name
    assert result["score"] > 0


@pytest.mark.covers("POST /agentmemory/search")
def test_a_compact_result_has_no_text(api: Api, name: str):
    api.observe(name, tool_name="Bash", tool_output=name)
    answer = ok(api.post("search", query=name, format="compact"))
    assert answer["format"] == "compact"
    for result in answer["results"]:
        assert result.keys() >= COMPACT
        assert not result.keys() & {"narrative", "content", "observation"}


@pytest.mark.covers("POST /agentmemory/search")
def test_a_narrative_result_is_also_a_text(api: Api, name: str):
    api.observe(name, tool_name="Bash", tool_output=f"{name} stands by the pond")
    answer = ok(api.post("search", query=name, format="narrative"))
    assert answer["format"] == "narrative"
    (result,) = [item for item in answer["results"] if item["sessionId"] == name]
    assert result.keys() >= {"obsId", "sessionId", "title", "narrative", "score", "timestamp"}
    assert f"{name} stands by the pond" in result["narrative"]
    assert f"{name} stands by the pond" in answer["text"]


@pytest.mark.covers("POST /agentmemory/search")
def test_results_are_full_unless_asked_otherwise(api: Api, name: str):
    answer = ok(api.post("search", query=name))
    assert answer["format"] == "full"
    assert answer["truncated"] is False
    assert "text" not in answer


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
@pytest.mark.parametrize(
    ("limit", "expected"), [({}, 20), ({"limit": 3}, 3), ({"limit": 22}, 22), ({"limit": 100}, 25)]
)
def test_no_more_are_found_than_asked_for(api: Api, crowd: str, path: str, limit: dict[str, int], expected: int):
    answer = ok(api.post(path, query=crowd, project=crowd, **limit))["results"]
    of_crowd = [row for row in answer if row["sessionId"] == crowd]
    assert len(of_crowd) == expected
    assert len(answer) <= limit.get("limit", 20)


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
    answer = ok(api.post("search", query=crowd, project=crowd, token_budget=400))
    assert (answer["truncated"], answer["tokens_budget"]) == (True, 400)
    assert 0 < answer["tokens_used"] <= 400
    assert 0 < len(answer["results"]) < 20


@pytest.mark.covers("POST /agentmemory/search")
def test_a_budget_too_small_for_one_leaves_nothing(api: Api, crowd: str):
    answer = ok(api.post("search", query=crowd, project=crowd, token_budget=1))
    assert (answer["results"], answer["tokens_used"], answer["truncated"]) == ([], 0, True)


@pytest.mark.covers("POST /agentmemory/search")
def test_a_budget_for_all_cuts_nothing(api: Api, crowd: str):
    answer = ok(api.post("search", query=crowd, project=crowd, limit=2, token_budget=1_000_000))
    assert (len(answer["results"]), answer["truncated"]) == (2, False)
    assert answer["tokens_used"] > 0


@pytest.mark.covers("POST /agentmemory/search")
def test_the_best_come_first(api: Api, crowd: str):
    scores = [result["score"] for result in api.search(f"{crowd} 7", project=crowd)]
    assert scores == sorted(scores, reverse=True)
    assert not any(map(math.isnan, scores))


@pytest.mark.covers("POST /agentmemory/search")
def test_more_matching_words_rank_higher(api: Api, name: str):
    api.hook(name, "prompt_submit", project=name, data={"prompt": f"{name} stands by the pond"})
    both = api.hook(name, "prompt_submit", project=name, data={"prompt": f"{name} stands near zirconium"})
    assert ids(api.search(f"{name} zirconium", project=name))[0] == both


@pytest.mark.covers("POST /agentmemory/search")
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the reconnecting pools", "reconnect pool"),
        ("THE HERON", "heron"),
    ],
)
def test_words_are_found_by_their_stem(api: Api, name: str, text: str, query: str):
    observation = api.hook(name, "prompt_submit", project=name, data={"prompt": text})
    assert observation in ids(api.search(query, project=name))


@pytest.mark.covers("POST /agentmemory/search")
@pytest.mark.xfail(strict=True, reason="a word is found by its stem, not by its beginning")
def test_a_word_is_found_by_its_beginning_without_an_embedder_too(trusted: Api, name: str):
    observation = trusted.hook(name, "prompt_submit", project=name, data={"prompt": "the zirconiumlike stone"})
    assert observation in ids(trusted.search("zirconium", project=name))


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
    observation = api.hook(name, "post_tool_use", project=name, data=data)
    assert observation in ids(api.search(query, project=name))


@pytest.mark.covers("POST /agentmemory/search")
def test_a_project_finds_its_own_memories_and_those_of_none(api: Api, name: str):
    for project in ({"project": f"{name}-a"}, {"project": f"{name}-b"}, {}):
        api.remember(f"{name} is said in {project}", type="bug", **project)
    results = [result for result in api.search(name, project=f"{name}-a") if name in result["content"]]
    assert sorted(result["observation"].get("project", "") for result in results) == ["", f"{name}-a"]


@pytest.mark.covers("POST /agentmemory/search")
def test_a_project_finds_its_own_sessions(api: Api, name: str):
    for project in (f"{name}-a", f"{name}-b"):
        api.hook(project, "prompt_submit", project=project, data={"prompt": f"{name} said"})
    results = api.search(name, project=f"{name}-a")
    assert {result["sessionId"] for result in results} & {f"{name}-a", f"{name}-b"} == {f"{name}-a"}


@pytest.mark.covers("POST /agentmemory/search")
def test_a_memory_among_results_looks_like_a_decision(api: Api, name: str):
    text = f"{name} stands by the pond"
    memory = api.remember(text, project=name, type="bug", concepts=["birds"], files=["a.py"], agentId="ada")
    (result,) = [hit for hit in api.search(name, project=name) if hit["obsId"] == memory["id"]]
    assert (result["type"], result["sessionId"], result["narrative"]) == ("decision", "memory", text)
    answer = result["observation"]
    assert (answer["type"], answer["facts"], answer["narrative"]) == ("decision", [text], text)
    assert (answer["importance"], answer["agentId"], answer["files"]) == (memory["strength"], "ada", ["a.py"])
    assert "birds" in answer["concepts"]


@pytest.mark.covers("POST /agentmemory/search")
def test_a_superseded_memory_is_not_found(api: Api, name: str):
    old = api.remember(f"{name} stands by the calm green pond every single morning", project=name)
    new = api.remember(f"{name} stands by the calm green pond every single evening", project=name)
    results = ids(api.search(name, project=name))
    assert new["id"] in results
    assert old["id"] not in results


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_a_smart_search_is_compact(api: Api, name: str):
    observation = api.observe(name, tool_name="Bash", tool_output=name)
    answer = ok(api.post("smart-search", query=name))
    assert answer["mode"] == "compact"
    (result,) = [item for item in answer["results"] if item["obsId"] == observation]
    assert result.keys() >= COMPACT
    assert not result.keys() & {"narrative", "content", "observation"}
    assert (result["title"], result["sessionId"]) == ("Bash", name)


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_lessons_come_with_a_smart_search(api: Api, name: str):
    content = f"{name} must not be polled " + "because it blocks " * 30
    fields = {"content": content, "project": name, "confidence": 0.8, "tags": ["redis"]}
    lesson = ok(api.post("lessons", **fields), 201)["lesson"]
    (hint,) = [
        item
        for item in ok(api.post("smart-search", query=f"{name} polled", project=name))["lessons"]
        if item["lessonId"] == lesson["id"]
    ]
    assert (hint["content"], hint["confidence"]) == (content.strip()[:240] + "…", 0.8)
    assert (hint["project"], hint["tags"]) == (name, ["redis"])
    assert hint["score"] > 0
    assert hint["createdAt"] == lesson["createdAt"]


@pytest.mark.covers("POST /agentmemory/smart-search")
@pytest.mark.parametrize("no", [False, "false"])
def test_lessons_may_be_left_out(api: Api, name: str, no: object):
    ok(api.post("lessons", content=f"{name} must not be polled", project=name), 201)
    assert not ok(api.post("smart-search", query=name, project=name, includeLessons=no)).get("lessons")


@pytest.mark.covers("POST /agentmemory/smart-search")
@pytest.mark.parametrize("form", ["id", "object", "text"])
def test_ids_are_expanded_to_full_records(api: Api, name: str, form: str):
    observation = api.observe(name, tool_name="Bash", tool_output="all of it")
    query: dict[str, Any] = {
        "id": [observation],
        "object": [{"obsId": observation, "sessionId": name}],
        "text": observation,
    }
    answer = ok(api.post("smart-search", expandIds=query[form]))
    assert (answer["mode"], answer["truncated"]) == ("expanded", False)
    (result,) = answer["results"]
    assert (result["obsId"], result["sessionId"]) == (observation, name)
    assert result["observation"]["toolOutput"] == "all of it"


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_an_unknown_id_expands_to_nothing(api: Api):
    assert ok(api.post("smart-search", expandIds=["obs_none"]))["results"] == []


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_no_more_than_twenty_ids_are_expanded(api: Api, name: str):
    observation = [api.observe(name, tool_name="Bash") for _ in range(21)]
    answer = ok(api.post("smart-search", expandIds=observation))
    assert ids(answer["results"]) == observation[:20]
    assert answer["truncated"] is True


@pytest.mark.covers("POST /agentmemory/smart-search")
@pytest.mark.parametrize("wrong", [{}, {"query": ""}, {"query": None, "expandIds": []}, {"query": "q", "limit": 0}])
def test_a_smart_search_for_nothing_is_refused(api: Api, wrong: Json):
    refused(api.post("smart-search", **wrong))


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_a_smart_search_in_a_project_finds_its_own(api: Api, name: str):
    for project in (f"{name}-a", f"{name}-b"):
        api.hook(project, "prompt_submit", project=project, data={"prompt": f"{name} said"})
    results = ok(api.post("smart-search", query=name, project=f"{name}-a"))["results"]
    assert {result["sessionId"] for result in results} & {f"{name}-a", f"{name}-b"} == {f"{name}-a"}


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_a_search_may_say_where_it_comes_from(api: Api, name: str):
    headers = {"X-Agentmemory-Source": "cli"}
    fields = {"query": name, "source": "viewer", "sessionId": name}
    assert ok(api.http.post("/agentmemory/smart-search", json=fields, headers=headers))["mode"] == "compact"


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


def timeline(api: Api, **options: Any) -> Json:
    return ok(api.post("timeline", project=f"days{id(api)}", **options))


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_timeline_is_what_was_around_a_time(api: Api, days: list[str]):
    answer = timeline(api, anchor="2026-01-06T00:00:00.000Z", before=2, after=2)
    assert answer["success"] is True
    assert [entry["observation"]["id"] for entry in answer["entries"]] == days[3:8]
    assert [entry["relativePosition"] for entry in answer["entries"]] == [-2, -1, 0, 1, 2]
    assert {entry["sessionId"] for entry in answer["entries"]} == {f"days{id(api)}"}
    assert answer["anchorIndex"] == 2


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_timeline_is_also_a_list_of_observations(api: Api, days: list[str]):
    answer = timeline(api, anchor="2026-01-06T00:00:00.000Z", before=1, after=3)
    assert [observation["id"] for observation in answer["observations"]] == days[4:9]
    assert answer["observations"] == [observation["observation"] for observation in answer["entries"]]


@pytest.mark.covers("POST /agentmemory/timeline")
@pytest.mark.parametrize(
    ("around", "first", "last"),
    [({}, 0, 11), ({"before": 0, "after": 0}, 5, 6), ({"before": 0}, 5, 11), ({"before": "1", "after": "1"}, 4, 7)],
)
def test_a_timeline_shows_five_before_and_after_unless_asked_otherwise(
    api: Api, days: list[str], around: Json, first: int, last: int
):
    answer = timeline(api, anchor="2026-01-06T00:00:00.000Z", **around)
    assert [entry["observation"]["id"] for entry in answer["entries"]] == days[first:last]


@pytest.mark.covers("POST /agentmemory/timeline")
@pytest.mark.parametrize("anchor", ["2026-01-06", "2026-01-06T05:00:00Z", "2026-01-05T20:00:00.000Z"])
def test_the_anchor_is_the_nearest_in_time(api: Api, days: list[str], anchor: str):
    answer = timeline(api, anchor=anchor, before=1, after=1)
    assert answer["entries"][answer["anchorIndex"]]["observation"]["id"] == days[5]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_word_is_an_anchor(api: Api, days: list[str]):
    answer = timeline(api, anchor=f"heron{f'days{id(api)}'}", before=1, after=1)
    assert [entry["observation"]["id"] for entry in answer["entries"]] == days[4:7]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_an_observation_is_an_anchor(api: Api, days: list[str]):
    answer = timeline(api, anchor=days[2], before=1, after=1)
    assert [entry["observation"]["id"] for entry in answer["entries"]] == days[1:4]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_the_newest_with_the_word_is_the_anchor(api: Api, name: str):
    old, new = (
        api.hook(name, "prompt_submit", project=name, timestamp=f"2026-01-0{day}T00:00:00Z", data={"prompt": "heron"})
        for day in (1, 2)
    )
    answer = ok(api.post("timeline", anchor="heron", project=name))
    assert [entry["relativePosition"] for entry in answer["entries"]] == [-1, 0]
    assert [entry["id"] for entry in answer["observations"]] == [old, new]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_timeline_of_one_session_leaves_others_out(api: Api, name: str):
    for session in (f"{name}-1", f"{name}-2"):
        api.hook(session, "notification", project=name)
    answer = ok(api.post("timeline", anchor="2026-01-31", project=name, sessionId=f"{name}-1"))
    assert [entry["sessionId"] for entry in answer["entries"]] == [f"{name}-1"]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_nothing_with_the_word_is_said(api: Api, name: str, days: list[str]):
    answer = timeline(api, anchor=name)
    assert (answer["success"], answer["entries"], answer["observations"]) == (True, [], [])
    assert answer["reason"] == "no_match"


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_date_that_is_none_is_said(api: Api, days: list[str]):
    answer = timeline(api, anchor="2026-99-99T00:00:00Z")
    assert (answer["entries"], answer["reason"]) == ([], "invalid_date")


@pytest.mark.covers("POST /agentmemory/timeline")
def test_an_unknown_project_has_no_timeline(api: Api, name: str):
    answer = ok(api.post("timeline", anchor=UNKNOWN, project=name))
    assert (answer["entries"], answer["observations"]) == ([], [])


@pytest.mark.covers("POST /agentmemory/timeline")
@pytest.mark.parametrize("body", [{}, {"anchor": ""}, {"anchor": None, "project": "p"}])
def test_a_timeline_needs_an_anchor(api: Api, body: Json):
    refused(api.post("timeline", **body))
