"""Lessons: said once they exist, said again they are surer."""

import pytest

from tests.contracts.agentmemory.calling import Api, Json, failed, ok, refused


def learn(api: Api, content: str, **fields: object) -> Json:
    """The lesson of a first time."""
    told = ok(api.post("lessons", content=content, **fields), 201)
    assert (told["success"], told["action"]) == (True, "created")
    return told["lesson"]


def found_in(api: Api, name: str, **asked: object) -> list[Json]:
    """The lessons that a search in a project of that name finds, those that others said without a project left out."""
    told = ok(api.post("lessons/search", project=name, **{"query": f"{name} polled", **asked}))["lessons"]
    return [one for one in told if one.get("project", "").startswith(name)]


def lessons(api: Api, **query: object) -> list[Json]:
    return ok(api.get("lessons", **query))["lessons"]


@pytest.mark.covers("POST /agentmemory/lessons")
def test_a_lesson_is_answered_whole(api: Api, name: str):
    said: Json = {
        "content": f"{name} must not be polled",
        "context": "in tests",
        "project": name,
        "tags": ["redis", "ci"],
    }
    lesson = learn(api, **said, confidence=0.8)
    assert {key: lesson[key] for key in said} == said
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
    told = ok(api.post("lessons", content=f"  {name} MUST not be polled ", project=name, confidence=0.9, tags=["b"]))
    assert (told["success"], told["action"]) == (True, "strengthened")
    again = told["lesson"]
    assert (again["id"], again["reinforcements"]) == (first["id"], 1)
    assert again["confidence"] == pytest.approx(0.55, abs=0.001)
    assert (again["content"], again["tags"]) == (first["content"], ["a"])
    assert again["lastReinforcedAt"]


@pytest.mark.covers("POST /agentmemory/lessons")
@pytest.mark.parametrize(("first", "kept"), [("", "later"), ("first", "first")])
def test_a_context_is_filled_in_only_where_there_is_none(api: Api, name: str, first: str, kept: str):
    learn(api, name, project=name, context=first)
    assert ok(api.post("lessons", content=name, project=name, context="later"))["lesson"]["context"] == kept


@pytest.mark.covers("GET /agentmemory/lessons")
def test_the_surest_lesson_is_listed_first(api: Api, name: str):
    for confidence in (0.4, 0.9, 0.6):
        learn(api, f"{name} {confidence}", project=name, confidence=confidence)
    told = ok(api.get("lessons", project=name))
    assert told["success"] is True
    assert [one["confidence"] for one in told["lessons"]] == [0.9, 0.6, 0.4]


@pytest.mark.covers("GET /agentmemory/lessons")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, 3),
        ({"minConfidence": 0.5}, 2),
        ({"minConfidence": "0.5"}, 2),
        ({"limit": 1}, 1),
        ({"source": "manual"}, 3),
        ({"source": "crystal"}, 0),
    ],
)
def test_lessons_are_narrowed(api: Api, name: str, query: Json, found: int):
    for confidence in (0.4, 0.9, 0.6):
        learn(api, f"{name} {confidence}", project=name, confidence=confidence)
    assert len(lessons(api, project=name, **query)) == found


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
    told = ok(api.post("lessons/search", query=f"{name} polled", project=name))
    assert told["success"] is True
    (found,) = [one for one in told["lessons"] if one["id"] == lesson["id"]]
    score = found.pop("score")
    assert found == lesson
    assert 0 < score <= 0.8
    assert score == round(score, 3)


@pytest.mark.covers("POST /agentmemory/lessons/search")
def test_the_better_lesson_comes_first(api: Api, name: str):
    for confidence in (0.4, 0.9):
        learn(api, f"{name} must not be polled {confidence}", project=name, confidence=confidence)
    found = found_in(api, name)
    assert [one["confidence"] for one in found] == [0.9, 0.4]
    assert found[0]["score"] > found[1]["score"]


@pytest.mark.covers("POST /agentmemory/lessons/search")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [0.9, 0.4]),
        ({"minConfidence": 0.5}, [0.9]),
        ({"minConfidence": 0}, [0.9, 0.4, 0.05]),
        ({"limit": 1}, [0.9]),
        ({"limit": "1"}, [0.9]),
    ],
)
def test_a_search_for_lessons_is_narrowed(api: Api, name: str, asked: Json, found: list[float]):
    for confidence in (0.4, 0.9, 0.05):
        learn(api, f"{name} must not be polled {confidence}", project=name, confidence=confidence)
    told = found_in(api, name, **asked)
    assert [one["confidence"] for one in told] == found


@pytest.mark.covers("POST /agentmemory/lessons/search")
def test_a_search_in_a_project_leaves_others_out(api: Api, name: str):
    learn(api, f"{name} must not be polled", project=f"{name}-other")
    assert found_in(api, name, query=name) == []


@pytest.mark.covers("POST /agentmemory/lessons/search")
def test_a_search_in_a_project_leaves_lessons_of_none_out(trusted: Api, name: str):
    lesson = learn(trusted, f"{name} must not be polled")
    found = ok(trusted.post("lessons/search", query=f"{name} polled", project=name))["lessons"]
    trusted.tool("memory_lesson_delete", lessonId=lesson["id"])
    assert found == []


@pytest.mark.covers("POST /agentmemory/lessons/search")
@pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": " "}])
def test_a_search_for_lessons_needs_a_query(api: Api, body: Json):
    refused(api.post("lessons/search", **body))


@pytest.mark.covers("POST /agentmemory/lessons/strengthen")
def test_a_lesson_is_strengthened_by_its_id(api: Api, name: str):
    lesson = learn(api, name, project=name, confidence=0.5)
    told = ok(api.post("lessons/strengthen", lessonId=lesson["id"]))
    assert told["success"] is True
    assert (told["lesson"]["id"], told["lesson"]["reinforcements"]) == (lesson["id"], 1)
    assert told["lesson"]["confidence"] == pytest.approx(0.55, abs=0.001)


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
