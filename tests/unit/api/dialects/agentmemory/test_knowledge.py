"""Facts, procedures, crystals, insights, the graph and replays, as agentmemory tells them."""

from typing import Any

from factories import NOW

from api.dialects.agentmemory.knowledge import crystal_record, fact_record, procedure_record
from api.dialects.agentmemory.sessions import film as film_of

KEPT: dict[str, Any] = {
    "id": "mem_1", "importance": 5.0, "derived_from": ["sum_1", "mem_2"], "project": "shop", "files": ["a.py"],
    "references": ["act_1", "act_2"], "recorded_at": NOW, "updated_at": NOW, "session_id": "",
}  # fmt: skip


def seen(name: str, hook: str, **fields: Any) -> dict[str, Any]:
    told = {"id": name, "sessionId": "s1", "timestamp": "2026-01-31T12:00:00.000Z", "hookType": hook, "title": "Edit"}
    return {**told, "narrative": "what happened", **fields}


def test_a_fact_names_the_sessions_that_agree_on_it():
    fact = fact_record({**KEPT, "content": "Orders are in UTC."})
    assert (fact["fact"], fact["confidence"], fact["strength"]) == ("Orders are in UTC.", 0.5, 5.0)
    assert (fact["sourceSessionIds"], fact["sourceMemoryIds"]) == (["sum_1"], ["mem_2"])


def test_a_procedure_has_its_name_and_its_steps_apart():
    procedure = procedure_record({**KEPT, "content": "Release\n1. Tag it\n2. Push the tag\nand no step"})
    assert (procedure["name"], procedure["steps"]) == ("Release", ["Tag it", "Push the tag"])
    assert procedure["frequency"] == 2


def test_a_crystal_has_its_outcomes_and_the_lessons_of_the_same_actions():
    lessons = [
        {"content": "ours", "derived_from": ["act_2", "act_1"]},
        {"content": "somebody else's", "derived_from": ["act_3"]},
    ]
    crystal = crystal_record({**KEPT, "content": "It was done.\n- Fix: it works\n- Test: it passes"}, lessons)
    assert (crystal["narrative"], crystal["keyOutcomes"]) == ("It was done.", ["Fix: it works", "Test: it passes"])
    assert (crystal["lessons"], crystal["sourceActionIds"]) == (["ours"], ["act_1", "act_2"])
    assert "sessionId" not in crystal
    lined = crystal_record({**KEPT, "content": "Fix: it works.\nTest: cancelled.", "session_id": "s1"})
    assert (lined["narrative"], lined["keyOutcomes"]) == ("Fix: it works. Test: cancelled.", ["Fix: it works."])
    assert lined["sessionId"] == "s1"


def test_a_replay_says_when_everything_came_and_how_long_it_stood():
    session = {"id": "s1", "startedAt": "2026-01-31T12:00:00.000Z"}
    records = [
        seen("obs_1", "prompt_submit", userPrompt="why?"),
        seen("obs_2", "post_tool_failure", toolName="Bash", toolInput="make", toolOutput="error"),
        seen("obs_3", "made_up"),
    ]
    film = film_of(session, [1_000, 3_500, 4_000], records)
    told = [(one["kind"], one["offsetMs"], one["durationMs"]) for one in film["events"]]
    assert told == [("prompt", 0, 2_500), ("tool_error", 2_500, 500), ("hook", 3_000, 0)]
    assert (film["totalDurationMs"], film["eventCount"], film["endedAt"]) == (3_000, 3, None)
    assert film["events"][0]["body"] == "why?"
    assert film["events"][1]["toolOutput"] == "error"
    assert "toolName" not in film["events"][2]


def test_a_replay_of_nothing_is_empty():
    film = film_of({"id": "s1", "startedAt": "x", "endedAt": "y"}, [], [])
    assert (film["events"], film["totalDurationMs"], film["endedAt"]) == ([], 0, "y")
