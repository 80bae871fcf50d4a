"""Lessons: learned once they exist, more certain when repeated."""

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok


def learn(api: Api, content: str, **fields: object) -> Json:
    """The lesson of a first time."""
    answer = ok(api.post("lessons", content=content, **fields), 201)
    assert (answer["success"], answer["action"]) == (True, "created")
    return answer["lesson"]


def learn_each(api: Api, name: str, *confidences: float) -> None:
    for confidence in confidences:
        learn(api, f"{name} must not be polled {confidence}", project=name, confidence=confidence)


def found_in(api: Api, name: str, **options: object) -> list[Json]:
    """The lessons that a search in a project of that name finds, those that others said without a project left out."""
    answer = ok(api.post("lessons/search", project=name, **{"query": f"{name} polled", **options}))["lessons"]
    return [row for row in answer if row.get("project", "").startswith(name)]


def lessons(api: Api, **query: object) -> list[Json]:
    return ok(api.get("lessons", **query))["lessons"]


@pytest.mark.covers("POST /agentmemory/lessons")
def test_a_lesson_is_answered_whole(api: Api, name: str):
    fields: Json = {
        "content": f"{name} must not be polled",
        "context": "in tests",
        "project": name,
        "tags": ["redis", "ci"],
    }
    lesson = learn(api, **fields, confidence=0.8)
    assert {key: lesson[key] for key in fields} == fields
    assert (lesson["confidence"], lesson["reinforcements"], lesson["decayRate"]) == (0.8, 0, 0.05)
    assert (lesson["source"], lesson["sourceIds"]) == ("manual", [])
    assert lesson.keys() >= {"id", "createdAt", "updatedAt"}
    assert not lesson.keys() & {"lastReinforcedAt", "deleted"}


@pytest.mark.covers("POST /agentmemory/lessons")
def test_a_lesson_said_again_is_surer(api: Api, name: str):
    first = learn(api, f"{name} must not be polled", project=name, confidence=0.5, tags=["a"])
    answer = ok(api.post("lessons", content=f"  {name} MUST not be polled ", project=name, confidence=0.9, tags=["b"]))
    assert (answer["success"], answer["action"]) == (True, "strengthened")
    again = answer["lesson"]
    assert (again["id"], again["reinforcements"]) == (first["id"], 1)
    assert again["confidence"] == pytest.approx(0.55, abs=0.001)
    assert (again["content"], again["tags"]) == (first["content"], ["a"])
    assert again["lastReinforcedAt"]


@pytest.mark.covers("POST /agentmemory/lessons")
@pytest.mark.parametrize(("first", "expected"), [("", "later"), ("first", "first")])
def test_a_context_is_filled_in_only_where_there_is_none(api: Api, name: str, first: str, expected: str):
    learn(api, name, project=name, context=first)
    assert ok(api.post("lessons", content=name, project=name, context="later"))["lesson"]["context"] == expected


@pytest.mark.covers("GET /agentmemory/lessons")
def test_lessons_are_listed_the_surest_first_and_narrowed(api: Api, name: str):
    learn(api, name, project=f"{name}-other")
    learn_each(api, name, 0.4, 0.9, 0.6)
    assert ok(api.get("lessons", project=name))["success"] is True
    for query, expected in (
        ({}, [0.9, 0.6, 0.4]), ({"minConfidence": 0.5}, [0.9, 0.6]), ({"minConfidence": "0.5"}, [0.9, 0.6]),
        ({"limit": 1}, [0.9]), ({"source": "manual"}, [0.9, 0.6, 0.4]), ({"source": "crystal"}, []),
    ):  # fmt: skip
        assert [lesson["confidence"] for lesson in lessons(api, project=name, **query)] == expected, query


@pytest.mark.covers("POST /agentmemory/lessons/search")
def test_a_lesson_is_found_by_its_words_with_a_score(api: Api, name: str):
    lesson = learn(api, f"{name} must not be polled", context="zirconium pipes", project=name, confidence=0.8)
    answer = ok(api.post("lessons/search", query=f"{name} polled", project=name))
    assert answer["success"] is True
    (result,) = [item for item in answer["lessons"] if item["id"] == lesson["id"]]
    score = result.pop("score")
    assert result == lesson
    assert 0 < score <= 0.8
    assert score == round(score, 3)


@pytest.mark.covers("POST /agentmemory/lessons/search")
def test_a_search_for_lessons_is_narrowed_and_the_better_lesson_comes_first(api: Api, name: str):
    learn(api, f"{name} must not be polled", project=f"{name}-other")
    learn_each(api, name, 0.4, 0.9, 0.05)
    for query, expected in (
        ({}, [0.9, 0.4]), ({"minConfidence": 0.5}, [0.9]), ({"minConfidence": 0}, [0.9, 0.4, 0.05]),
        ({"limit": 1}, [0.9]), ({"limit": "1"}, [0.9]),
    ):  # fmt: skip
        results = found_in(api, name, **query)
        assert [lesson["confidence"] for lesson in results] == expected, query
        scores = [lesson["score"] for lesson in results]
        assert scores == sorted({*scores}, reverse=True)


@pytest.mark.covers("POST /agentmemory/lessons/search")
def test_a_search_in_a_project_leaves_lessons_of_none_out(trusted: Api, name: str):
    lesson = learn(trusted, f"{name} must not be polled")
    results = ok(trusted.post("lessons/search", query=f"{name} polled", project=name))["lessons"]
    trusted.tool("memory_lesson_delete", lessonId=lesson["id"])
    assert results == []


@pytest.mark.covers("POST /agentmemory/lessons/strengthen")
@pytest.mark.parametrize(("before", "after"), [(0.5, 0.55), (1, 1)])
def test_a_lesson_is_strengthened_by_its_id(api: Api, name: str, before: float, after: float):
    lesson = learn(api, name, project=name, confidence=before)
    answer = ok(api.post("lessons/strengthen", lessonId=lesson["id"]))
    assert answer["success"] is True
    assert (answer["lesson"]["id"], answer["lesson"]["reinforcements"]) == (lesson["id"], 1)
    assert answer["lesson"]["confidence"] == pytest.approx(after, abs=0.001 * (after < 1))


@pytest.mark.covers("MCP memory_lesson_delete", "POST /agentmemory/lessons")
def test_a_deleted_lesson_is_neither_listed_nor_found_and_may_be_learned_anew(api: Api, name: str):
    for arguments in ({}, {"lessonId": "lsn_none"}):
        assert api.tool("memory_lesson_delete", **arguments)["success"] is False
    lesson = learn(api, name, project=name)
    assert api.tool("memory_lesson_delete", lessonId=lesson["id"])["success"] is True
    assert lessons(api, project=name) == []
    assert found_in(api, name, query=name) == []
    assert learn(api, name, project=name)["reinforcements"] == 0
