"""Many made into few: summaries, crystals, consolidation, reflection. By rule: the server has no language model."""

import pytest

from tests.contracts.agentmemory.calling import Api, Json, failed, ok, refused

SUMMARY = {
    "sessionId", "project", "createdAt", "title", "narrative", "keyDecisions", "filesModified", "concepts",
    "observationCount",
}  # fmt: skip


def worked(api: Api, session: str, count: int = 3) -> None:
    for number in range(count):
        data = {"tool_name": "Edit", "tool_input": {"file_path": f"src/{session}{number}.py"}, "tool_output": "done"}
        api.hook(session, "post_tool_use", data=data)


def finished(api: Api, name: str, **fields: object) -> str:
    action = ok(api.post("actions", title=f"Fix {name}", project=name, status="done", **fields), 201)["action"]
    return action["id"]


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
    worked(api, name, 1)
    ok(api.post("summarize", sessionId=name))
    worked(api, name, 1)
    assert ok(api.post("summarize", sessionId=name))["summary"]["observationCount"] == 2
    exported = [summary for summary in ok(api.get("export"))["summaries"] if summary["sessionId"] == name]
    assert [summary["observationCount"] for summary in exported] == [2]


@pytest.mark.covers("POST /agentmemory/summarize")
def test_an_unknown_session_is_not_summarised(api: Api, name: str):
    assert failed(api.post("summarize", sessionId=name)) == "session_not_found"


@pytest.mark.covers("POST /agentmemory/summarize")
def test_a_session_without_observations_is_not_summarised(api: Api, name: str):
    api.start(name)
    assert failed(api.post("summarize", sessionId=name)) == "no_observations"


@pytest.mark.covers("POST /agentmemory/summarize")
@pytest.mark.parametrize("body", [{}, {"sessionId": ""}])
def test_a_session_that_is_summarised_is_named(api: Api, body: Json):
    refused(api.post("summarize", **body))


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
        made = api.tool("memory_crystallize", actionIds=chosen, project=name)["crystal"]
        listed = next(
            crystal for crystal in ok(api.get("crystals", project=name))["crystals"] if crystal["id"] == made["id"]
        )
        assert (listed["narrative"], listed["keyOutcomes"]) == (made["narrative"], made["keyOutcomes"])
        assert len(made["keyOutcomes"]) == 1


@pytest.mark.covers("MCP memory_crystallize", "GET /agentmemory/actions")
def test_an_action_knows_its_crystal(api: Api, name: str):
    action = finished(api, name)
    crystal = api.tool("memory_crystallize", actionIds=[action], project=name)["crystal"]
    (listed,) = ok(api.get("actions", project=name))["actions"]
    assert (listed["id"], listed["crystallizedInto"]) == (action, crystal["id"])


@pytest.mark.covers("MCP memory_crystallize", "GET /agentmemory/lessons")
def test_the_lessons_of_a_crystal_are_learned(api: Api, name: str):
    action = finished(api, name)
    ok(api.http.patch(f"/agentmemory/actions/{action}", json={"result": "always reconnect the pool after a restart"}))
    crystal = api.tool("memory_crystallize", actionIds=[action], project=name)["crystal"]
    learned = ok(api.get("lessons", project=name, source="crystal"))["lessons"]
    assert {lesson["content"] for lesson in learned} == set(crystal["lessons"])
    assert all(lesson["confidence"] == 0.6 for lesson in learned)


@pytest.mark.covers("MCP memory_crystallize")
def test_no_crystal_is_made_of_what_is_not_finished(api: Api, name: str):
    action = ok(api.post("actions", title=name, project=name), 201)["action"]["id"]
    answer = api.tool("memory_crystallize", actionIds=[action], project=name)
    assert answer.get("success") is not True
    assert isinstance(answer["error"], str)


@pytest.mark.covers("GET /agentmemory/crystals")
def test_crystals_are_narrowed(api: Api, name: str):
    for _ in range(2):
        api.tool("memory_crystallize", actionIds=[finished(api, name)], project=name)
    assert len(ok(api.get("crystals", project=name))["crystals"]) == 2
    assert len(ok(api.get("crystals", project=name, limit=1))["crystals"]) == 1
    assert ok(api.get("crystals", project=f"{name}-other"))["crystals"] == []


@pytest.mark.covers("MCP memory_crystallize", "GET /agentmemory/crystals")
def test_a_crystal_is_of_the_project_and_session_that_were_named(api: Api, name: str):
    named = {"project": f"{name}-other", "sessionId": name}
    crystal = api.tool("memory_crystallize", actionIds=[finished(api, name)], **named)["crystal"]
    (listed,) = ok(api.get("crystals", sessionId=name))["crystals"]
    assert listed["id"] == crystal["id"]
    assert named.items() <= crystal.items()
    assert named.items() <= listed.items()


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
def test_too_few_observations_are_not_consolidated(api: Api, name: str):
    worked(api, name)
    answer = ok(api.post("consolidate", project=f"p-{name}"))
    assert (answer["consolidated"], answer["reason"]) == (0, "insufficient_observations")


@pytest.mark.covers("POST /agentmemory/consolidate")
def test_what_observations_have_in_common_is_consolidated(api: Api, name: str):
    worked(api, name, 4)
    answer = ok(api.post("consolidate", project=f"p-{name}", minObservations=3))
    assert answer["success"] is True
    assert answer["totalObservations"] == 4
    assert answer["consolidated"] >= 0


@pytest.mark.covers("POST /agentmemory/consolidate")
def test_consolidating_everything_needs_no_arguments(api: Api):
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
