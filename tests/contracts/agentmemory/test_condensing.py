"""Many made into few: summaries, crystals, consolidation, reflection. By rule: the server has no language model."""

import pytest

from tests.contracts.agentmemory.calling import Api, Json, failed, ok

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
