"""An export of agentmemory, as it is here after an import."""

import json
from pathlib import Path
from typing import Any

import pytest
from factories import TENANT
from imported import documents, events

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.importer import Export, open_source
from api.dialects.agentmemory.knowledge import fact_record, procedure_record
from api.dialects.agentmemory.work import lesson_record, slot_record
from api.importing.mapping import ImportRow, Record
from api.importing.source import ImportRequest
from ingest.errors import CommandRejected
from projections.nouns.action import Action
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.relation import Relation
from projections.nouns.session import Session
from projections.nouns.slot import Slot
from projections.queries.views import view

AT, LATER, LAST = "2026-01-31T12:00:00.000Z", "2026-02-01T12:00:00.000Z", "2026-02-02T12:00:00.000Z"
SESSION = {"id": "ses_1", "project": "shop", "cwd": "/shop", "startedAt": AT, "endedAt": LATER, "status": "completed"}
MEMORY: dict[str, Any] = {
    "id": "mem_1", "createdAt": AT, "updatedAt": AT, "type": "bug", "title": "Rounding", "concepts": ["carts"],
    "content": "the cart rounds each line", "files": ["cart.py"], "sessionIds": ["ses_1"], "strength": 7, "version": 1,
    "supersedes": [], "sourceObservationIds": [], "isLatest": True, "project": "shop",
}  # fmt: skip
OBSERVATION = {"id": "obs_1", "sessionId": "ses_1", "timestamp": AT, "type": "command_run", "title": "Bash"}


def export(**lists: Any) -> Export:
    return Export({"version": "0.9.29", "sessions": [], "memories": [], **lists}, TENANT)


def found(kind: type[Any], **lists: Any) -> list[Any]:
    """The documents of one kind that an export ends in."""
    read = export(**lists)
    return documents(events("agentmemory", read.mapped, read.rows()), kind)


def refused(**lists: Any) -> list[str]:
    """Why rows of an export are not taken."""
    read, why = export(**lists), list[str]()
    for row in read.rows():
        try:
            events("agentmemory", read.mapped, [row])
        except CommandRejected as fault:
            why.append(f"{row.kind} {row.name} {fault.field}")
    return why


def observed(**changes: Any) -> tuple[Observation, Record]:
    """One observation, as it is kept and as agentmemory's tools show it."""
    (seen,) = found(Observation, sessions=[SESSION], observations={"ses_1": [{**OBSERVATION, **changes}]})
    return seen, dialect.observation_record(view(seen))


def test_what_a_hook_saw_comes_back_as_it_was():
    raw = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_output": "ok"}
    seen, shown = observed(hookType="post_tool_use", raw=raw, narrative='{"command":"make"} | ok', confidence=0.3)
    assert (shown["raw"], shown["hookType"], shown["toolInput"]) == (raw, "post_tool_use", {"command": "make"})
    assert (seen.model, seen.kind, seen.project) == ("", "command_run", "shop")


def test_what_a_model_compressed_there_stays_as_it_was_compressed():
    told = {"title": "Build is green", "narrative": "It builds.", "facts": ["make works"], "importance": 8}
    seen, shown = observed(hookType="post_tool_use", raw={"tool_name": "Bash"}, confidence=0.9, **told)
    assert {name: shown[name] for name in told} == told
    assert seen.model == "agentmemory"


def test_a_compressed_observation_without_its_raw_form_is_taken():
    seen, shown = observed(type="decision", title="Round late", narrative="Sum first.", facts=["cents"], confidence=0.8)
    assert (seen.content, shown["title"], shown["facts"], shown["type"]) == (
        "Sum first.", "Round late", ["cents"], "decision",
    )  # fmt: skip


def test_observations_of_a_session_that_is_not_listed_are_taken():
    (session,) = found(Session, observations={"ses_9": [{**OBSERVATION, "narrative": "make"}]})
    assert (session.session_id, session.project, session.observation_count) == ("ses_9", "unknown", 1)


def test_a_session_is_shown_with_its_summary_and_is_not_summarised_again():
    summary: dict[str, Any] = {
        "sessionId": "ses_1", "project": "shop", "createdAt": AT, "title": "Adds up", "narrative": "Rounded once.",
        "keyDecisions": [], "filesModified": [], "concepts": [], "observationCount": 0,
    }  # fmt: skip
    seen = {"ses_1": [{**OBSERVATION, "narrative": "a"}, {**OBSERVATION, "id": "obs_2", "narrative": "b"}]}
    (session,) = found(Session, sessions=[SESSION], observations=seen, summaries=[summary])
    assert (session.status, session.observation_count, session.summarised) == ("ended", 2, 2)


def test_a_memory_comes_back_as_it_was():
    seen = {"ses_1": [{**OBSERVATION, "narrative": "a"}]}
    known = {**MEMORY, "sourceObservationIds": ["obs_1"]}
    lists = {"sessions": [SESSION], "observations": seen, "memories": [known]}
    (memory,), (observation,) = found(Memory, **lists), found(Observation, **lists)
    shown = dialect.memory_record(view(memory))
    gone = {"id", "sourceObservationIds"}
    assert {name: shown[name] for name in MEMORY.keys() - gone} == {name: known[name] for name in MEMORY.keys() - gone}
    assert shown["sourceObservationIds"] == [observation.id]


def test_versions_follow_each_other_in_whatever_order_they_are_listed():
    third = {**MEMORY, "id": "mem_3", "parentId": "mem_2", "version": 3, "content": "rounds once", "createdAt": LAST}
    second = dict(MEMORY, id="mem_2", supersedes=["mem_1"], version=2, content="rounds late", isLatest=False)
    memories = found(Memory, memories=[third, {**second, "createdAt": LATER}, {**MEMORY, "isLatest": False}])
    by_version = {memory.version: memory for memory in memories}
    assert [by_version[number].content for number in (1, 2, 3)] == [MEMORY["content"], "rounds late", "rounds once"]
    assert [by_version[number].is_latest for number in (1, 2, 3)] == [False, False, True]
    assert by_version[3].parent_id == by_version[2].id


def test_a_version_that_claims_an_earlier_time_than_its_parent_still_follows_it():
    child = {**MEMORY, "id": "mem_0", "parentId": "mem_1", "content": "other words entirely", "createdAt": AT}
    memories = found(Memory, memories=[child, {**MEMORY, "createdAt": LATER, "isLatest": False}])
    assert {memory.content: memory.is_latest for memory in memories} == {
        "other words entirely": True, MEMORY["content"]: False,
    }  # fmt: skip


def test_versions_that_follow_each_other_in_a_circle_end_nothing():
    one, other = {**MEMORY, "parentId": "mem_2"}, {**MEMORY, "id": "mem_2", "parentId": "mem_1", "content": "b c d"}
    assert len(found(Memory, memories=[one, other])) == 2


def test_what_is_not_current_and_has_no_successor_is_not_shown_as_current():
    old = {**MEMORY, "isLatest": False}
    assert refused(memories=[old]) == ["memory mem_1 isLatest"]
    again = {**MEMORY, "id": "mem_2", "createdAt": LATER}
    memories = found(Memory, memories=[old, again])
    assert sorted(memory.is_latest for memory in memories) == [False, True]


def test_a_memory_made_of_several_stands_for_them():
    other = {**MEMORY, "id": "mem_2", "content": "prices are in cents", "isLatest": False}
    made = {**MEMORY, "id": "mem_3", "supersedes": ["mem_1", "mem_2"], "content": "money is exact", "createdAt": LATER}
    memories = found(Memory, memories=[{**MEMORY, "isLatest": False}, other, made])
    assert {memory.content: memory.is_latest for memory in memories} == {
        MEMORY["content"]: False, "prices are in cents": False, "money is exact": True,
    }  # fmt: skip


def test_a_lesson_is_as_sure_as_it_was():
    known = {
        "id": "lsn_1", "content": "Round the sum", "context": "carts", "confidence": 0.7, "reinforcements": 3,
        "tags": ["money"], "createdAt": AT, "lastReinforcedAt": LATER, "project": "shop", "source": "crystal",
    }  # fmt: skip
    (lesson,) = found(Lesson, lessons=[known])
    shown = lesson_record(view(lesson), lesson.confidence)
    assert {"id": "lsn_1", **{name: shown[name] for name in known.keys() - {"id"}}} == known
    assert refused(lessons=[{**known, "deleted": True}]) == ["lesson lsn_1 deleted"]


def test_a_lesson_that_should_have_faded_more_is_as_sure_as_it_was_since_it_was_confirmed():
    times = {"createdAt": "2025-06-01T00:00:00Z", "lastReinforcedAt": LATER}
    read = export(lessons=[{"id": "lsn_1", "content": "Sum", "confidence": 0.95, "reinforcements": 1, **times}])
    (row,) = read.rows()
    assert [one.partition(":")[0] for one in read.mapped(row).lost] == ["createdAt"]
    (lesson,) = documents(events("agentmemory", read.mapped, [row]), Lesson)
    assert (round(lesson.confidence, 3), lesson.reinforcements) == (0.95, 1)


def test_a_slot_keeps_its_times_and_limits():
    known = {
        "label": "guidance", "content": "cents", "sizeLimit": 900, "description": "d", "pinned": False,
        "readOnly": True, "scope": "project", "createdAt": AT, "updatedAt": LATER,
    }  # fmt: skip
    (slot,) = found(Slot, slots=[known])
    shown = slot_record(view(slot))
    assert {name: shown[name] for name in known} == known
    broken = [{**known, "createdAt": None, "updatedAt": None}, {**known, "label": "Bad Label"}]
    assert refused(slots=broken) == ["slot guidance content", "slot Bad Label label"]


def test_an_action_waits_for_what_it_requires_and_keeps_its_result():
    times: dict[str, Any] = {"createdAt": AT, "updatedAt": AT}
    base = {"description": "", "priority": 2, "tags": list[str](), "project": "shop", **times}
    actions: list[dict[str, Any]] = [
        {**base, "id": "act_2", "title": "release", "status": "blocked", "parentId": "act_1"},
        {**base, "id": "act_1", "title": "fix", "status": "done", "result": "fixed", "updatedAt": LATER},
    ]
    edges = [{"type": "requires", "sourceActionId": "act_2", "targetActionId": "act_1"}]
    by_title = {one.title: one for one in found(Action, actions=actions, actionEdges=edges)}
    assert (by_title["fix"].status, by_title["fix"].result) == ("done", "fixed")
    release = by_title["release"]
    assert (release.status, release.parent) == ("pending", by_title["fix"].id)
    assert [(edge.type, edge.target) for edge in release.edge_list] == [("requires", by_title["fix"].id)]


def test_a_relation_is_between_the_same_two():
    other = {**MEMORY, "id": "mem_2", "content": "prices are in cents"}
    stated = {"id": "rel_1", "sourceId": "mem_1", "targetId": "mem_2", "type": "extends", "createdAt": AT}
    lists: dict[str, Any] = {"memories": [MEMORY, other], "relations": [stated]}
    (relation,) = found(Relation, **lists)
    by_content = {one.content: one.id for one in found(Memory, **lists)}
    assert (relation.source, relation.target) == (by_content[MEMORY["content"]], by_content["prices are in cents"])
    assert refused(**{**lists, "relations": [{**stated, "targetId": "mem_9"}]}) == ["relation rel_1 targetId"]


BROKEN: list[tuple[dict[str, Any], list[str]]] = [
    ({"sessions": ["x", {"project": "p"}]}, ["session number 0 id", "session number 1 id"]),
    ({"memories": [{**MEMORY, "content": None}, 7]}, ["memory number 1 id", "memory mem_1 content"]),
    ({"observations": {"ses_1": [{**OBSERVATION, "title": ""}]}}, ["observation obs_1 raw"]),
    ({"summaries": [{"sessionId": "ses_7"}]}, ["summary ses_7 sessionId"]),
    ({"profiles": [{}]}, ["profiles number 0 None"]),
]


@pytest.mark.parametrize(("lists", "why"), BROKEN)
def test_broken_rows_are_refused_one_by_one(lists: dict[str, Any], why: list[str]):
    assert refused(**lists) == why


def test_every_entry_is_a_row_and_a_session_two():
    lists: dict[str, Any] = {
        "sessions": [SESSION, "x"], "observations": {"ses_1": [OBSERVATION], "ses_2": [OBSERVATION, 3]},
        "memories": [MEMORY, {}], "summaries": [{}], "crystals": [{}],
    }  # fmt: skip
    read = export(**lists)
    rows: list[ImportRow] = list(read.rows())
    assert len(rows) == 12
    assert list(read.rows()) == rows


def test_another_document_is_no_export():
    with pytest.raises(CommandRejected, match="no export of agentmemory"):
        Export({"format": "mnemolog-export"}, TENANT)


FACT = {
    "id": "sem_1", "fact": "Money is in cents", "confidence": 0.8, "sourceSessionIds": ["ses_1"], "strength": 0.8,
    "sourceMemoryIds": [], "accessCount": 2, "lastAccessedAt": LATER, "createdAt": AT, "updatedAt": LATER,
}  # fmt: skip
PROCEDURE = {
    "id": "proc_1", "name": "Fix rounding", "steps": ["Sum first", "Round\nonce"], "triggerCondition": "a cent is off",
    "expectedOutcome": "carts add up", "frequency": 3, "sourceSessionIds": [], "strength": 0.5, "createdAt": AT,
}  # fmt: skip


def test_facts_and_procedures_of_a_model_are_listed_as_such():
    memories = found(Memory, memories=[MEMORY], semanticMemories=[FACT], proceduralMemories=[PROCEDURE])
    fact, procedure = (next(one for one in memories if tag in one.tags) for tag in ("fact", "procedure"))
    shown, steps = fact_record(view(fact)), procedure_record(view(procedure))
    assert (shown["fact"], shown["confidence"], shown["createdAt"]) == (FACT["fact"], FACT["confidence"], AT)
    assert (steps["name"], steps["steps"]) == (PROCEDURE["name"], ["Sum first", "Round once"])
    assert procedure.content.splitlines()[1:3] == ["When: a cent is off", "Outcome: carts add up"]
    assert (fact.metadata["agentmemory_id"], fact.metadata["sourceSessionIds"]) == ("sem_1", "ses_1")
    assert (fact.metadata["accessCount"], procedure.memory_type) == ("2", "procedural")


def test_a_fact_that_a_memory_states_too_supersedes_nothing():
    memories = found(
        Memory, memories=[MEMORY], semanticMemories=[{**FACT, "fact": MEMORY["content"], "project": "shop"}]
    )
    assert [memory.is_latest for memory in memories] == [True, True]


def test_an_insight_is_a_lesson_with_its_title_and_confidence():
    insight: dict[str, Any] = {
        "id": "ins_1", "title": "Cents", "content": "Every rounding error came from floats", "confidence": 0.75,
        "reinforcements": 2, "sourceMemoryIds": ["sem_1"], "tags": ["money"], "createdAt": AT, "lastReinforcedAt": LAST,
    }  # fmt: skip
    (lesson,) = found(Lesson, insights=[insight])
    assert (lesson.title, lesson.content, lesson.origin) == ("Cents", insight["content"], "reflection")
    assert (round(lesson.confidence, 3), lesson.reinforcements) == (0.75, 2)
    assert refused(insights=[{**insight, "deleted": True}]) == ["insight ins_1 deleted"]


def test_every_list_of_a_newer_version_is_reported(tmp_path: Path):
    file = tmp_path / "export.json"
    export = {"version": "0.10.0", "sessions": [], "memories": [MEMORY], "dreams": [{"id": "d1"}, {"id": "d2"}]}
    file.write_text(json.dumps(export))
    source = open_source(ImportRequest(str(file), TENANT))
    assert "version 0.10.0; the newest known version is 0.9.29" in source.notes[0]
    assert [placed.row.name for placed in source.rows([])] == ["mem_1", "d1", "d2"]
    assert source.total() == 3
    with pytest.raises(CommandRejected, match="no equivalent"):
        source.mapped(ImportRow("dreams", "d1", {}))


def test_the_file_of_the_server_without_a_backend_is_imported():
    file = Path(__file__).with_name("files") / "agentmemory-standalone.json"
    source = open_source(ImportRequest(str(file), TENANT))
    memories = documents(events("agentmemory", source.mapped, [placed.row for placed in source.rows([])]), Memory)
    assert {memory.content: memory.concepts for memory in memories} == {
        "The cart rounds each line": ["carts"], "Deploys happen on Tuesdays": [],
    }  # fmt: skip
    assert (source.notes, source.total()) == ([], 2)
