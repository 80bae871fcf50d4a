"""Lessons: said once they exist, said again they are surer."""

import pytest

from tests.contracts.agentmemory.calling import Api, Json, failed, ok, refused


def learn(api: Api, content: str, **fields: object) -> Json:
    """The lesson of a first time."""
    answer = ok(api.post("lessons", content=content, **fields), 201)
    assert (answer["success"], answer["action"]) == (True, "created")
    return answer["lesson"]


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
@pytest.mark.parametrize(
    ("fields", "confidence"),
    [({}, 0.5), ({"confidence": 0}, 0), ({"confidence": 1}, 1), ({"confidence": "0.7"}, 0.7)],
)
def test_a_lesson_is_as_sure_as_it_says(api: Api, name: str, fields: Json, confidence: float):
    assert learn(api, name, project=name, **fields)["confidence"] == confidence


@pytest.mark.covers("POST /agentmemory/lessons")
def test_tags_may_be_a_text_with_commas(api: Api, name: str):
    assert learn(api, name, project=name, tags="redis, ci")["tags"] == ["redis", "ci"]


@pytest.mark.covers("POST /agentmemory/lessons")
@pytest.mark.parametrize("body", [{}, {"content": ""}, {"content": "  "}, {"content": None}])
def test_a_lesson_needs_content(api: Api, body: Json):
    refused(api.post("lessons", **body))


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
def test_the_surest_lesson_is_listed_first(api: Api, name: str):
    for confidence in (0.4, 0.9, 0.6):
        learn(api, f"{name} {confidence}", project=name, confidence=confidence)
    answer = ok(api.get("lessons", project=name))
    assert answer["success"] is True
    assert [lesson["confidence"] for lesson in answer["lessons"]] == [0.9, 0.6, 0.4]


@pytest.mark.covers("GET /agentmemory/lessons")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, 3),
        ({"minConfidence": 0.5}, 2),
        ({"minConfidence": "0.5"}, 2),
        ({"limit": 1}, 1),
        ({"source": "manual"}, 3),
        ({"source": "crystal"}, 0),
    ],
)
def test_lessons_are_narrowed(api: Api, name: str, query: Json, expected: int):
    for confidence in (0.4, 0.9, 0.6):
        learn(api, f"{name} {confidence}", project=name, confidence=confidence)
    assert len(lessons(api, project=name, **query)) == expected


@pytest.mark.covers("GET /agentmemory/lessons")
def test_lessons_of_another_project_are_not_listed(api: Api, name: str):
    learn(api, name, project=f"{name}-other")
    assert lessons(api, project=name) == []


@pytest.mark.covers("GET /agentmemory/lessons")
@pytest.mark.parametrize("query", [{"minConfidence": "high"}, {"limit": "many"}])
def test_what_is_no_number_is_refused(api: Api, query: Json):
    refused(api.get("lessons", **query))


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
def test_the_better_lesson_comes_first(api: Api, name: str):
    for confidence in (0.4, 0.9):
        learn(api, f"{name} must not be polled {confidence}", project=name, confidence=confidence)
    results = found_in(api, name)
    assert [result["confidence"] for result in results] == [0.9, 0.4]
    assert results[0]["score"] > results[1]["score"]


@pytest.mark.covers("POST /agentmemory/lessons/search")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.9, 0.4]),
        ({"minConfidence": 0.5}, [0.9]),
        ({"minConfidence": 0}, [0.9, 0.4, 0.05]),
        ({"limit": 1}, [0.9]),
        ({"limit": "1"}, [0.9]),
    ],
)
def test_a_search_for_lessons_is_narrowed(api: Api, name: str, options: Json, expected: list[float]):
    for confidence in (0.4, 0.9, 0.05):
        learn(api, f"{name} must not be polled {confidence}", project=name, confidence=confidence)
    answer = found_in(api, name, **options)
    assert [row["confidence"] for row in answer] == expected


@pytest.mark.covers("POST /agentmemory/lessons/search")
def test_a_search_in_a_project_leaves_others_out(api: Api, name: str):
    learn(api, f"{name} must not be polled", project=f"{name}-other")
    assert found_in(api, name, query=name) == []


@pytest.mark.covers("POST /agentmemory/lessons/search")
def test_a_search_in_a_project_leaves_lessons_of_none_out(trusted: Api, name: str):
    lesson = learn(trusted, f"{name} must not be polled")
    results = ok(trusted.post("lessons/search", query=f"{name} polled", project=name))["lessons"]
    trusted.tool("memory_lesson_delete", lessonId=lesson["id"])
    assert results == []


@pytest.mark.covers("POST /agentmemory/lessons/search")
@pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": " "}])
def test_a_search_for_lessons_needs_a_query(api: Api, body: Json):
    refused(api.post("lessons/search", **body))


@pytest.mark.covers("POST /agentmemory/lessons/strengthen")
def test_a_lesson_is_strengthened_by_its_id(api: Api, name: str):
    lesson = learn(api, name, project=name, confidence=0.5)
    answer = ok(api.post("lessons/strengthen", lessonId=lesson["id"]))
    assert answer["success"] is True
    assert (answer["lesson"]["id"], answer["lesson"]["reinforcements"]) == (lesson["id"], 1)
    assert answer["lesson"]["confidence"] == pytest.approx(0.55, abs=0.001)


@pytest.mark.covers("POST /agentmemory/lessons/strengthen")
def test_a_lesson_is_never_surer_than_sure(api: Api, name: str):
    lesson = learn(api, name, project=name, confidence=1)
    assert ok(api.post("lessons/strengthen", lessonId=lesson["id"]))["lesson"]["confidence"] == 1


@pytest.mark.covers("POST /agentmemory/lessons/strengthen")
def test_an_unknown_lesson_is_not_strengthened(api: Api):
    failed(api.post("lessons/strengthen", lessonId="lsn_none"))


@pytest.mark.covers("POST /agentmemory/lessons/strengthen", "MCP memory_lesson_delete")
def test_a_lesson_is_named(api: Api):
    refused(api.post("lessons/strengthen"))
    assert api.tool("memory_lesson_delete")["success"] is False


@pytest.mark.covers("MCP memory_lesson_delete")
def test_a_deleted_lesson_is_neither_listed_nor_found(api: Api, name: str):
    lesson = learn(api, name, project=name)
    assert api.tool("memory_lesson_delete", lessonId=lesson["id"])["success"] is True
    assert lessons(api, project=name) == []
    assert found_in(api, name, query=name) == []


@pytest.mark.covers("MCP memory_lesson_delete")
def test_an_unknown_lesson_is_not_deleted(api: Api):
    assert api.tool("memory_lesson_delete", lessonId="lsn_none")["success"] is False


@pytest.mark.covers("MCP memory_lesson_delete", "POST /agentmemory/lessons")
def test_a_deleted_lesson_may_be_learned_anew(api: Api, name: str):
    lesson = learn(api, name, project=name)
    api.tool("memory_lesson_delete", lessonId=lesson["id"])
    assert learn(api, name, project=name)["reinforcements"] == 0
