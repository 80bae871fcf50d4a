"""agentmemory's records of what is made of documents: facts, procedures, crystals, insights, graph, replays. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from api.dialects.agentmemory.records import Record, View, iso
from projections.queries.graph_parts import Link, Node

LABEL_CHARS = 120
_STEP = re.compile(r"^\d+\. (.*)$")
_KINDS = {
    "prompt_submit": "prompt",
    "pre_tool_use": "tool_call",
    "post_tool_use": "tool_result",
    "post_tool_failure": "tool_error",
    "assistant_message": "response",
    "subagent_stop": "response",
    "session_start": "session_start",
    "session_end": "session_end",
}
_BODY = ("userPrompt", "narrative")
_TOOL = ("toolName", "toolInput", "toolOutput")


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


def replay(session: Mapping[str, Any], times_ms: Sequence[int], seen: Sequence[Record]) -> Record:
    """A session's observations as a film: when each came after the first, and how long it was until the next.

    `seen` are records of observations in the order of time, `times_ms` when they happened.
    """
    first = times_ms[0] if times_ms else 0
    ends = [*times_ms[1:], *times_ms[-1:]]
    return {
        "sessionId": session["id"],
        "startedAt": session["startedAt"],
        "endedAt": session.get("endedAt"),
        "totalDurationMs": times_ms[-1] - first if times_ms else 0,
        "eventCount": len(seen),
        "events": [_event(one, at - first, end - at) for one, at, end in zip(seen, times_ms, ends, strict=True)],
    }


def _event(seen: Record, offset_ms: int, duration_ms: int) -> Record:
    body = next((seen[name] for name in _BODY if seen.get(name)), None)
    told = {"body": body, **{name: seen.get(name) for name in _TOOL}}
    return {
        "id": seen["id"],
        "sessionId": seen["sessionId"],
        "ts": seen["timestamp"],
        "offsetMs": offset_ms,
        "durationMs": duration_ms,
        "kind": _KINDS.get(seen["hookType"], "hook"),
        "label": (seen["title"] or seen["hookType"])[:LABEL_CHARS],
        **{name: value for name, value in told.items() if value is not None},
    }


def _times(kept: View) -> Record:
    return {"createdAt": iso(kept["recorded_at"]), "updatedAt": iso(kept["updated_at"])}
