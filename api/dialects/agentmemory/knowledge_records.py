"""agentmemory's records of what is made of documents: facts, procedures, crystals, insights, profiles, graph. Pure."""

import re
from collections.abc import Iterable

from api.dialects.agentmemory.records import Record, View, iso
from projections.condensing.profile import Profile
from projections.queries.graph_parts import Link, Node

_STEP = re.compile(r"^\d+\. (.*)$")


def fact(kept: View) -> Record:
    """A fact: a memory that summaries of sessions agree on."""
    return {
        "id": kept["id"],
        "fact": kept["content"],
        "confidence": round(kept["importance"] / 10, 3),
        "sourceSessionIds": [name for name in kept["derived_from"] if name.startswith("sum_")],
        "sourceMemoryIds": [name for name in kept["derived_from"] if name.startswith("mem_")],
        "strength": kept["importance"],
        "project": kept["project"],
        **_times(kept),
    }


def procedure(kept: View) -> Record:
    """A procedure: a memory whose first line names it, and whose others are its steps."""
    name, *lines = kept["content"].split("\n")
    return {
        "id": kept["id"],
        "name": name,
        "steps": [found[1] for line in lines if (found := _STEP.match(line))],
        "triggerCondition": "",
        "frequency": len(kept["derived_from"]),
        "sourceMemoryIds": list(kept["derived_from"]),
        "strength": kept["importance"],
        "project": kept["project"],
        **_times(kept),
    }


def crystal(kept: View, lessons: Iterable[View] = ()) -> Record:
    """A crystal: a memory of finished actions; `lessons` are those that may have been drawn from the same actions."""
    narrative, _, outcomes = kept["content"].partition("\n- ")
    actions = set(kept["references"])
    return {
        "id": kept["id"],
        "narrative": narrative,
        "keyOutcomes": outcomes.split("\n- ") if outcomes else [],
        "filesAffected": list(kept["files"]),
        "lessons": [
            one["content"] for one in lessons if one["derived_from"] and actions.issuperset(one["derived_from"])
        ],
        "sourceActionIds": list(kept["references"]),
        "project": kept["project"],
        "createdAt": iso(kept["recorded_at"]),
        **({"sessionId": kept["session_id"]} if kept["session_id"] else {}),
    }


def insight(learned: View, confidence: float, score: float | None = None) -> Record:
    """An insight: a lesson that several memories and lessons amount to."""
    sources: list[str] = learned["derived_from"]
    return {
        "id": learned["id"],
        "title": learned["title"],
        "content": learned["content"],
        "confidence": round(confidence, 3),
        "reinforcements": learned["reinforcements"],
        "sourceConceptCluster": list(learned["tags"]),
        "sourceMemoryIds": [name for name in sources if name.startswith("mem_")],
        "sourceLessonIds": [name for name in sources if name.startswith("lsn_")],
        "sourceCrystalIds": [],
        "tags": list(learned["tags"]),
        "project": learned["project"],
        "decayRate": 0.05,
        **_times(learned),
        **({} if score is None else {"score": score}),
    }


def node(one: Node) -> Record:
    """A node of the graph."""
    return {"id": one.id, "type": one.type, "name": one.label, "label": one.label, "properties": {}}


def edge(one: Link) -> Record:
    """An edge of the graph."""
    return {
        "id": f"{one.source}|{one.type}|{one.target}",
        "type": one.type,
        "sourceNodeId": one.source,
        "targetNodeId": one.target,
        "source": one.source,
        "target": one.target,
        "weight": 1,
    }


def _times(kept: View) -> Record:
    return {"createdAt": iso(kept["recorded_at"]), "updatedAt": iso(kept["updated_at"])}


def profile_record(told: Profile) -> Record:
    """A project's profile."""
    return {
        "project": told.project,
        "updatedAt": iso(told.updated_at),
        "topConcepts": [{"concept": name, "frequency": count} for name, count in told.concepts],
        "topFiles": [{"file": name, "frequency": count} for name, count in told.files],
        "conventions": list(told.conventions),
        "commonErrors": list(told.errors),
        "recentActivity": list(told.recent_activity),
        "preferences": list(told.preferences),
        "sessionCount": told.session_count,
        "totalObservations": told.total_observations,
    }
