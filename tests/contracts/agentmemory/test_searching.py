"""Search, smart search, the timeline."""

import math
from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok

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
    def search(**options: int) -> Json:
        return ok(api.post("search", query=crowd, project=crowd, **options))

    some = search(token_budget=400)
    assert (some["truncated"], some["tokens_budget"]) == (True, 400)
    assert 0 < some["tokens_used"] <= 400
    assert 0 < len(some["results"]) < 20
    none = search(token_budget=1)
    assert (none["results"], none["tokens_used"], none["truncated"]) == ([], 0, True)
    whole = search(limit=2, token_budget=1_000_000)
    assert (len(whole["results"]), whole["truncated"]) == (2, False)
    assert whole["tokens_used"] > 0


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
    ("hook", "data", "query"),
    [
        ("prompt_submit", {"prompt": "the reconnecting pools"}, "reconnect pool"),
        ("prompt_submit", {"prompt": "THE HERON"}, "heron"),
        ("post_tool_use", {"tool_name": "Edit", "tool_input": {"file_path": "src/zirconium.rs"}}, "zirconium.rs"),
        ("post_tool_use", {"tool_name": "ZirconiumTool"}, "ZirconiumTool"),
        ("post_tool_use", {"tool_name": "Bash", "tool_input": "zirconium"}, "zirconium"),
        ("post_tool_use", {"tool_name": "Bash", "tool_output": "zirconium"}, "zirconium"),
    ],
)
def test_an_observation_is_found_by_any_of_its_parts_and_by_stems(
    api: Api, name: str, hook: str, data: Json, query: str
):
    observation = api.hook(name, hook, project=name, data=data)
    assert observation in ids(api.search(query, project=name))


@pytest.mark.covers("POST /agentmemory/search")
@pytest.mark.xfail(strict=True, reason="a word is found by its stem, not by its beginning")
def test_a_word_is_found_by_its_beginning_without_an_embedder_too(trusted: Api, name: str):
    observation = trusted.hook(name, "prompt_submit", project=name, data={"prompt": "the zirconiumlike stone"})
    assert observation in ids(trusted.search("zirconium", project=name))


@pytest.mark.covers("POST /agentmemory/search")
def test_a_project_finds_its_own_memories_and_those_of_none(api: Api, name: str):
    for project in ({"project": f"{name}-a"}, {"project": f"{name}-b"}, {}):
        api.remember(f"{name} is said in {project}", type="bug", **project)
    results = [result for result in api.search(name, project=f"{name}-a") if name in result["content"]]
    assert sorted(result["observation"].get("project", "") for result in results) == ["", f"{name}-a"]


@pytest.mark.covers("POST /agentmemory/search", "POST /agentmemory/smart-search")
@pytest.mark.parametrize("path", ["search", "smart-search"])
def test_a_project_finds_its_own_sessions(api: Api, name: str, path: str):
    for project in (f"{name}-a", f"{name}-b"):
        api.hook(project, "prompt_submit", project=project, data={"prompt": f"{name} said"})
    results = ok(api.post(path, query=name, project=f"{name}-a"))["results"]
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
    new = api.remember(f"{name} stands every single morning by the calm green pond", project=name)
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
def test_ids_are_expanded_to_full_records(api: Api, name: str):
    observation = api.observe(name, tool_name="Bash", tool_output="all of it")
    for ids in ([observation], [{"obsId": observation, "sessionId": name}], observation):
        answer = ok(api.post("smart-search", expandIds=ids))
        assert (answer["mode"], answer["truncated"]) == ("expanded", False)
        (result,) = answer["results"]
        assert (result["obsId"], result["sessionId"]) == (observation, name)
        assert result["observation"]["toolOutput"] == "all of it"
    assert ok(api.post("smart-search", expandIds=["obs_none"]))["results"] == []


@pytest.mark.covers("POST /agentmemory/smart-search")
def test_no_more_than_twenty_ids_are_expanded(api: Api, name: str):
    observation = [api.observe(name, tool_name="Bash") for _ in range(21)]
    answer = ok(api.post("smart-search", expandIds=observation))
    assert ids(answer["results"]) == observation[:20]
    assert answer["truncated"] is True


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
    return ok(api.post("timeline", **{"project": f"days{id(api)}", **options}))


def observed(answer: Json) -> list[str]:
    return [entry["observation"]["id"] for entry in answer["entries"]]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_timeline_is_what_was_around_a_time(api: Api, days: list[str]):
    answer = timeline(api, anchor="2026-01-06T00:00:00.000Z", before=2, after=3)
    assert answer["success"] is True
    assert observed(answer) == days[3:9]
    assert [entry["relativePosition"] for entry in answer["entries"]] == [-2, -1, 0, 1, 2, 3]
    assert {entry["sessionId"] for entry in answer["entries"]} == {f"days{id(api)}"}
    assert answer["anchorIndex"] == 2
    assert answer["observations"] == [entry["observation"] for entry in answer["entries"]]


@pytest.mark.covers("POST /agentmemory/timeline")
def test_a_timeline_shows_five_before_and_after_unless_asked_otherwise(api: Api, days: list[str]):
    """Around the nearest in time, a word or an observation."""
    sixth, one_each = "2026-01-06T00:00:00.000Z", {"before": 1, "after": 1}
    for options, first, last in (
        ({"anchor": sixth}, 0, 11),
        ({"anchor": sixth, "before": 0, "after": 0}, 5, 6),
        ({"anchor": sixth, "before": 0}, 5, 11),
        ({"anchor": sixth, "before": "1", "after": "1"}, 4, 7),
        *(({"anchor": anchor, **one_each}, 4, 7) for anchor in ("2026-01-06", "2026-01-06T05:00:00Z")),
        ({"anchor": "2026-01-05T20:00:00.000Z", **one_each}, 4, 7),
        ({"anchor": f"herondays{id(api)}", **one_each}, 4, 7),
        ({"anchor": days[2], **one_each}, 1, 4),
    ):
        answer = timeline(api, **options)
        assert observed(answer) == days[first:last], options
        anchored = days[2] if options["anchor"] == days[2] else days[5]
        assert observed(answer)[answer["anchorIndex"]] == anchored, options


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
def test_a_timeline_of_nothing_is_empty_and_says_why(api: Api, name: str, days: list[str]):
    answer = timeline(api, anchor=name)
    assert (answer["success"], answer["entries"], answer["observations"]) == (True, [], [])
    assert answer["reason"] == "no_match"
    answer = timeline(api, anchor="2026-99-99T00:00:00Z")
    assert (answer["entries"], answer["reason"]) == ([], "invalid_date")
    answer = timeline(api, anchor=UNKNOWN, project=name)
    assert (answer["entries"], answer["observations"]) == ([], [])
