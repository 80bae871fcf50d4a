"""Profiles, facts, procedures, insights and diagnoses."""

import pytest

from tests.contracts.agentmemory.calling import Api, at_last, ok


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
    for text in ("Redis restarts break the pool.", "A pool needs retries.", "The pool logs every retry it makes."):
        api.remember(f"{name}: {text}", concepts=[name], project=name)
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
