"""Lessons: learned once they exist, more certain when repeated.

Many made into few: summaries, crystals, consolidation, reflection. By rule: the server has no language model.

Profiles, facts, procedures, insights and diagnoses.
"""

import pytest

from tests.contracts.agentmemory.calling import Api, Json, at_last, failed, ok


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


SUMMARY = {
    "sessionId", "project", "createdAt", "title", "narrative", "keyDecisions", "filesModified", "concepts",
    "observationCount",
}  # fmt: skip


def worked(api: Api, session: str, count: int = 3) -> None:
    for number in range(count):
        data = {"tool_name": "Edit", "tool_input": {"file_path": f"src/{session}{number}.py"}, "tool_output": "done"}
        api.hook(session, "post_tool_use", data=data)


def finished(api: Api, name: str, result: str = "") -> str:
    action = ok(api.post("actions", title=f"Fix {name}", project=name, status="done"), 201)["action"]["id"]
    if result:
        ok(api.http.patch(f"/agentmemory/actions/{action}", json={"result": result}))
    return action


def crystallized(api: Api, actions: list[str], **fields: object) -> Json:
    answer = api.tool("memory_crystallize", actionIds=actions, **fields)
    assert answer["success"] is True
    return answer["crystal"]


def crystals(api: Api, **query: object) -> list[Json]:
    return ok(api.get("crystals", **query))["crystals"]


@pytest.mark.covers("POST /agentmemory/summarize")
def test_a_session_is_summarised(api: Api, name: str):
    worked(api, name)
    answer = ok(api.post("summarize", sessionId=name))
    assert answer["success"] is True
    summary = answer["summary"]
    assert summary.keys() >= SUMMARY
    assert (summary["sessionId"], summary["project"], summary["observationCount"]) == (name, f"p-{name}", 3)
    assert summary["title"]
    assert summary["narrative"]
    assert f"src/{name}0.py" in summary["filesModified"]


@pytest.mark.covers("POST /agentmemory/summarize")
def test_a_second_summary_takes_the_place_of_the_first(api: Api, name: str):
    api.start(name)
    assert failed(api.post("summarize", sessionId=name)) == "no_observations"
    worked(api, name, 1)
    ok(api.post("summarize", sessionId=name))
    worked(api, name, 1)
    assert ok(api.post("summarize", sessionId=name))["summary"]["observationCount"] == 2
    exported = [summary for summary in ok(api.get("export"))["summaries"] if summary["sessionId"] == name]
    assert [summary["observationCount"] for summary in exported] == [2]


@pytest.mark.covers("MCP memory_crystallize", "GET /agentmemory/crystals")
@pytest.mark.parametrize("word", ["done", "completed", "cancelled", "discarded"])
def test_a_crystal_is_made_of_finished_actions(api: Api, name: str, word: str):
    action = finished(api, name)
    ok(api.http.patch(f"/agentmemory/actions/{action}", json={"status": word, "result": "it works"}))
    answer = api.tool("memory_crystallize", actionIds=[action], project=name, sessionId=name)
    assert answer["success"] is True
    crystal = answer["crystal"]
    assert crystal.keys() >= {"id", "narrative", "keyOutcomes", "filesAffected", "lessons", "createdAt"}
    assert crystal["sourceActionIds"] == [action]
    listed = ok(api.get("crystals", project=name))
    assert (listed["success"], listed["total"]) == (True, 1)
    assert [(item["id"], item["project"]) for item in listed["crystals"]] == [(crystal["id"], name)]


@pytest.mark.covers("MCP memory_crystallize", "GET /agentmemory/crystals")
def test_a_crystal_is_listed_as_it_was_made(api: Api, name: str):
    """Of one action, and of several of which one was dropped."""
    actions = [finished(api, name) for _ in range(3)]
    for action, status, result in zip(actions, ("done", "done", "cancelled"), ("it works", "done", ""), strict=True):
        ok(api.http.patch(f"/agentmemory/actions/{action}", json={"status": status, "result": result}))
    for chosen in (actions[:1], actions[1:]):
        crystal = crystallized(api, chosen, project=name)
        (listed,) = [row for row in crystals(api, project=name) if row["id"] == crystal["id"]]
        assert (listed["narrative"], listed["keyOutcomes"]) == (crystal["narrative"], crystal["keyOutcomes"])
        assert len(crystal["keyOutcomes"]) == 1


@pytest.mark.covers("MCP memory_crystallize", "GET /agentmemory/actions", "GET /agentmemory/lessons")
def test_an_action_knows_its_crystal_whose_lessons_are_learned(api: Api, name: str):
    action = finished(api, name, "always reconnect the pool after a restart")
    crystal = crystallized(api, [action], project=name)
    (listed,) = ok(api.get("actions", project=name))["actions"]
    assert (listed["id"], listed["crystallizedInto"]) == (action, crystal["id"])
    learned = ok(api.get("lessons", project=name, source="crystal"))["lessons"]
    assert {lesson["content"] for lesson in learned} == set(crystal["lessons"])
    assert all(lesson["confidence"] == 0.6 for lesson in learned)


@pytest.mark.covers("MCP memory_crystallize")
def test_no_crystal_is_made_of_what_is_not_finished(api: Api, name: str):
    action = ok(api.post("actions", title=name, project=name), 201)["action"]["id"]
    answer = api.tool("memory_crystallize", actionIds=[action], project=name)
    assert answer.get("success") is not True
    assert isinstance(answer["error"], str)


@pytest.mark.covers("MCP memory_crystallize", "GET /agentmemory/crystals")
def test_crystals_are_of_the_project_and_session_that_were_named(api: Api, name: str):
    for _ in range(2):
        crystallized(api, [finished(api, name)], project=name)
    named = {"project": f"{name}-other", "sessionId": name}
    crystal = crystallized(api, [finished(api, name)], **named)
    (listed,) = crystals(api, sessionId=name)
    assert listed["id"] == crystal["id"]
    assert named.items() <= crystal.items()
    assert named.items() <= listed.items()
    assert len(crystals(api, project=name)) == 2
    assert len(crystals(api, project=name, limit=1)) == 1
    assert crystals(api, project=f"{name}-none") == []


@pytest.mark.covers("POST /agentmemory/crystals/auto")
def test_finished_work_is_crystallised_by_itself_when_it_is_old_enough(api: Api, name: str):
    finished(api, name)
    young = ok(api.post("crystals/auto", project=name))
    assert (young["success"], young["groupCount"], young["crystalIds"]) == (True, 0, [])
    rehearsed = ok(api.post("crystals/auto", project=name, olderThanDays=0, dryRun=True))
    assert (rehearsed["groupCount"], rehearsed["crystalIds"]) == (1, [])
    answer = ok(api.post("crystals/auto", project=name, olderThanDays=0))
    assert answer["groupCount"] == 1
    assert [crystal["id"] for crystal in ok(api.get("crystals", project=name))["crystals"]] == answer["crystalIds"]


@pytest.mark.covers("POST /agentmemory/consolidate")
def test_what_observations_have_in_common_is_consolidated(api: Api, name: str):
    """Of enough of them; everything where nothing is named."""
    worked(api, name, 4)
    too_few = ok(api.post("consolidate", project=f"p-{name}"))
    assert (too_few["consolidated"], too_few["reason"]) == (0, "insufficient_observations")
    answer = ok(api.post("consolidate", project=f"p-{name}", minObservations=3))
    assert (answer["success"], answer["totalObservations"]) == (True, 4)
    assert answer["consolidated"] >= 0
    assert "consolidated" in ok(api.post("consolidate"))


@pytest.mark.covers("POST /agentmemory/consolidate-pipeline")
@pytest.mark.parametrize("tier", ["all", "semantic", "reflect", "procedural", "decay", None])
def test_every_tier_can_be_run(api: Api, name: str, tier: str | None):
    answer = ok(api.post("consolidate-pipeline", **({"tier": tier} if tier else {}), force=True, project=name))
    assert answer["success"] is True
    assert isinstance(answer["results"], dict)


@pytest.mark.covers("POST /agentmemory/consolidate-pipeline")
def test_a_pipeline_that_is_not_forced_runs_or_says_why_not(api: Api, name: str):
    answer = ok(api.post("consolidate-pipeline", project=name))
    if answer["success"]:
        assert isinstance(answer["results"], dict)
    else:
        assert answer["skipped"] is True
        assert answer["reason"]


@pytest.mark.covers("POST /agentmemory/reflect")
def test_reflection_looks_for_insights(api: Api, name: str):
    for number in range(3):
        api.remember(f"{name}{number} zirconium {number}", project=name, concepts=["zirconium"])
    answer = ok(api.post("reflect", project=name, maxClusters=3))
    assert answer["success"] is True
    assert answer.keys() >= {"newInsights", "reinforced", "clustersProcessed", "clustersSkipped", "usedFallback"}


@pytest.mark.covers("POST /agentmemory/reflect")
def test_reflection_on_a_session_brings_the_slots_up_to_date(trusted: Api, name: str):
    worked(trusted, name, 1)
    answer = ok(trusted.post("reflect", sessionId=name))
    assert answer["success"] is True
    assert answer["observationsReviewed"] == 1
    assert answer["applied"] >= 1


def edited(api: Api, project: str) -> None:
    """Some work on two TypeScript files, and an error."""
    for path in ("src/pool.ts", "src/pool.ts", "src/log.ts"):
        data = {"tool_name": "Edit", "tool_input": {"file_path": path}, "tool_output": "done"}
        api.hook(f"s-{project}", "post_tool_use", project=project, data=data)
    error = {"tool_name": "Bash", "tool_input": "make", "error": "exit 2"}
    api.hook(f"s-{project}", "post_tool_failure", project=project, data=error)


@pytest.mark.covers("GET /agentmemory/profile")
def test_a_profile_says_what_a_project_is_like(api: Api, name: str):
    edited(api, name)
    profile = ok(api.get("profile", project=name))["profile"]
    assert (profile["project"], profile["sessionCount"], profile["totalObservations"]) == (name, 1, 4)
    assert "src/pool.ts" in str(profile["topFiles"][0])
    assert isinstance(profile["topConcepts"], list)
    conventions = str(profile["conventions"])
    assert "TypeScript" in conventions
    assert "src" in conventions


@pytest.mark.covers("GET /agentmemory/profile")
def test_a_profile_is_also_flat_and_cached(api: Api, name: str):
    """None of an unknown project; without a project the projects are listed."""
    unknown = ok(api.get("profile", project=f"{name}-none"))
    assert (unknown["profile"], unknown["reason"]) == (None, "no_sessions")
    edited(api, name)
    assert ok(api.get("profile", project=name))["cached"] is False
    answer = at_last(lambda: ok(api.get("profile", project=name)), lambda answer: answer["cached"])
    assert {key: answer[key] for key in answer["profile"]} == answer["profile"]
    listing = ok(api.get("profile"))
    assert listing["success"] is True
    assert name in str(listing["projects"])


@pytest.mark.covers("GET /agentmemory/semantic", "GET /agentmemory/procedural")
@pytest.mark.parametrize("kind", ["semantic", "procedural"])
def test_facts_and_procedures_are_listed_under_both_names(api: Api, kind: str):
    answer = ok(api.get(kind))
    assert answer[kind] == answer["items"]
    assert answer["total"] >= len(answer["items"])


@pytest.mark.covers("POST /agentmemory/reflect", "GET /agentmemory/lessons")
def test_insights_are_lessons_made_of_memories(api: Api, name: str):
    for text in ("Redis restarts break the link.", "Ten connections are open.", "The log names every attempt."):
        api.remember(f"The pool of {name} needs retries. {text}", concepts=[name], project=name)
    assert ok(api.post("reflect", project=name))["newInsights"] > 0
    insights = ok(api.get("lessons", project=name, source="consolidation"))["lessons"]
    assert name in insights[0]["tags"]
    assert ok(api.post("lessons/search", query="pool retries", project=name))["lessons"]


@pytest.mark.covers("POST /agentmemory/diagnostics")
def test_a_diagnosis_is_health_and_checks_in_one(api: Api):
    answer = ok(api.post("diagnostics"))
    assert (answer["success"], answer["service"]) == (True, "agentmemory")
    assert answer["status"] in ("healthy", "degraded", "critical")
    assert answer.keys() >= {"version", "database", "databaseStatus"}
    assert answer["checks"]
    for check in answer["checks"]:
        assert check.keys() >= {"name", "category", "status", "message", "fixable"}
        assert check["status"] in ("pass", "warn", "fail")
    counted = {word: sum(item["status"] == word for item in answer["checks"]) for word in ("pass", "warn", "fail")}
    assert {word: answer["summary"][word] for word in counted} == counted
    assert answer["summary"]["fixable"] == sum(item["fixable"] for item in answer["checks"])


@pytest.mark.covers("POST /agentmemory/diagnostics")
@pytest.mark.parametrize("options", [["lessons"], "lessons", ["lessons", "nothing-like-it"]])
def test_a_diagnosis_is_narrowed_and_unknown_categories_are_passed_over(api: Api, options: object):
    checks = ok(api.post("diagnostics", categories=options))["checks"]
    assert {check["category"] for check in checks} == {"lessons"}
