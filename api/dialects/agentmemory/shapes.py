"""What agentmemory's endpoints are asked and answer, as JSON Schemas; records as `projections.dialects` makes them."""

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

Shape: TypeAlias = Mapping[str, Any]

TEXT: Shape = {"type": "string"}
TEXTS: Shape = {"type": "array", "items": TEXT}
NUMBER: Shape = {"type": "number"}
COUNT: Shape = {"type": "integer"}
BOOLEAN: Shape = {"type": "boolean"}
OBJECT: Shape = {"type": "object"}
NAMES: Shape = {"type": ["array", "string"], "items": TEXT}
"""A list; a text with commas is taken for one."""
ANYTHING: Shape = {}
PERHAPS_TEXT: Shape = {"type": ["string", "null"]}


def otherwise(schema: Shape, default: Any) -> Shape:
    """The schema of a value that is `default` when it is not given."""
    return {**schema, "default": default}


def fields(properties: Mapping[Any, Shape], required: Collection[str] = ()) -> Shape:
    """The schema of a body or a query string with these properties, which are read leniently."""
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def record(always: Mapping[str, Shape], perhaps: Mapping[str, Shape] | None = None) -> Shape:
    """The schema of an object that has some fields always, and others only where they say something."""
    return {"type": "object", "properties": {**always, **(perhaps or {})}, "required": list(always)}


def texts(*names: str) -> dict[str, Shape]:
    """The schemas of properties that are texts."""
    return dict.fromkeys(names, TEXT)


def counts(*names: str) -> dict[str, Shape]:
    """The schemas of properties that are whole numbers."""
    return dict.fromkeys(names, COUNT)


def listed(items: Shape) -> Shape:
    """The schema of a list."""
    return {"type": "array", "items": items}


def outcome(always: Mapping[str, Shape] | None = None, perhaps: Mapping[str, Shape] | None = None) -> Shape:
    """The schema of what a function answers: that it did it, or that it could not, and why."""
    done = record({"success": {"const": True}, **(always or {})}, perhaps)
    return {"anyOf": [done, FAILED]}


FAULT = record({"error": TEXT})
FAILED = record({"success": {"const": False}, "error": TEXT})

OBSERVATION = record(
    {
        **texts("id", "sessionId", "timestamp", "hookType", "project", "type", "title", "narrative"),
        **dict.fromkeys(("facts", "concepts", "files"), TEXTS),
        "raw": OBJECT,
        "importance": NUMBER,
        "confidence": NUMBER,
    },
    texts("subtitle", "agentId", "modality", "imageData"),
)
MEMORY = record(
    {**texts("id", "type", "title", "content"), "version": COUNT},
    {
        **texts("createdAt", "updatedAt", "parentId", "agentId", "project", "forgetAfter"),
        **dict.fromkeys(("concepts", "files", "sessionIds", "supersedes", "sourceObservationIds", "relatedIds"), TEXTS),
        "strength": NUMBER,
        "isLatest": BOOLEAN,
    },
)
SUMMARY = record(
    {
        **texts("sessionId", "project", "createdAt", "title", "narrative"),
        **dict.fromkeys(("keyDecisions", "filesModified", "concepts"), TEXTS),
        "observationCount": COUNT,
    }
)
SESSION = record(
    {**texts("id", "project", "cwd", "startedAt", "updatedAt", "status"), "observationCount": COUNT},
    {**texts("endedAt", "firstPrompt", "agentId"), "summary": {"anyOf": [SUMMARY, TEXT]}, "commitShas": TEXTS},
)
COMMIT = record(
    {
        **texts("sha", "shortSha", "branch", "repo", "message", "author", "authoredAt", "linkedAt"),
        "files": TEXTS,
        "sessionIds": TEXTS,
    }
)
LESSON = record(
    {"id": TEXT},
    {
        **texts("content", "context", "source", "createdAt", "updatedAt", "project", "lastReinforcedAt"),
        **dict.fromkeys(("confidence", "decayRate", "score"), NUMBER),
        "reinforcements": COUNT,
        "sourceIds": TEXTS,
        "tags": TEXTS,
    },
)
SLOT = record(
    {
        **texts("label", "content", "description", "scope"),
        **counts("size", "sizeLimit"),
        **dict.fromkeys(("pinned", "readOnly"), BOOLEAN),
        **dict.fromkeys(("createdAt", "updatedAt"), PERHAPS_TEXT),
    },
    {"project": TEXT},
)
ACTION = record(
    {"id": TEXT, "title": PERHAPS_TEXT},
    {
        **texts("description", "status", "createdAt", "updatedAt", "createdBy", "project", "parentId"),
        **texts("sessionId", "assignedTo", "result", "crystallizedInto"),
        **dict.fromkeys(("tags", "sourceObservationIds", "sourceMemoryIds"), TEXTS),
        "priority": NUMBER,
    },
)
EDGE = record(texts("type", "sourceActionId", "targetActionId", "createdAt"))
READY = {
    **ACTION,
    "properties": {
        **ACTION["properties"],
        "action": ACTION,
        "score": NUMBER,
        "blockers": {"type": "array"},
        "leased": BOOLEAN,
    },
    "required": ["id", "title", "action", "score", "leased"],
}
RELATION = record(
    texts("id", "sourceId", "targetId", "type"), {"confidence": {"type": ["number", "null"]}, "createdAt": TEXT}
)
CRYSTAL = record(
    {
        **texts("id", "narrative", "createdAt"),
        **dict.fromkeys(("keyOutcomes", "filesAffected", "lessons", "sourceActionIds"), TEXTS),
    },
    {"project": TEXT, "sessionId": TEXT},
)
INSIGHT = record(
    {
        **texts("id", "title", "content", "project", "createdAt", "updatedAt"),
        **dict.fromkeys(("confidence", "decayRate"), NUMBER),
        "reinforcements": COUNT,
        **dict.fromkeys(
            ("sourceConceptCluster", "sourceMemoryIds", "sourceLessonIds", "sourceCrystalIds", "tags"), TEXTS
        ),
    },
    {"score": NUMBER},
)
FACT = record(
    {
        **texts("id", "fact", "project", "createdAt", "updatedAt"),
        **dict.fromkeys(("confidence", "strength"), NUMBER),
        "sourceSessionIds": TEXTS,
        "sourceMemoryIds": TEXTS,
    }
)
PROCEDURE = record(
    {
        **texts("id", "name", "triggerCondition", "project", "createdAt", "updatedAt"),
        "steps": TEXTS,
        "frequency": COUNT,
        "sourceMemoryIds": TEXTS,
        "strength": NUMBER,
    }
)
NODE = record({**texts("id", "type", "name", "label"), "properties": OBJECT})
LINK = record({**texts("id", "type", "sourceNodeId", "targetNodeId", "source", "target"), "weight": NUMBER})
TIMED = record({**texts("id", "sessionId", "ts", "kind", "label"), "offsetMs": COUNT, "durationMs": COUNT})
FILM = record(
    {
        "sessionId": TEXT,
        "startedAt": TEXT,
        "endedAt": PERHAPS_TEXT,
        "totalDurationMs": COUNT,
        "eventCount": COUNT,
        "events": listed(TIMED),
    }
)
CHECK = record({**texts("name", "category", "status", "message"), "fixable": BOOLEAN})
RESULT = record({**texts("obsId", "sessionId")}, {"score": NUMBER, "title": TEXT, "type": TEXT})
TOOL = record({"name": TEXT, "description": TEXT, "inputSchema": OBJECT})
CALLED = record({"content": listed(record({"type": {"const": "text"}, "text": TEXT}))}, {"isError": BOOLEAN})
DEGRADED = {"degraded": TEXTS}
PORTS = {"viewerPort": COUNT, "viewerSkipped": BOOLEAN, "streamsPort": COUNT}
NOTE = record({"file": TEXT, "size": COUNT, "updatedAt": TEXT})
AUDITED = record(
    {**texts("id", "timestamp", "operation", "functionId"), "targetIds": TEXTS, "details": OBJECT}, {"userId": TEXT}
)
PROFILE = record(
    {
        **texts("project", "updatedAt"),
        **dict.fromkeys(("topConcepts", "topFiles"), listed(OBJECT)),
        **dict.fromkeys(("conventions", "commonErrors", "recentActivity", "preferences"), TEXTS),
        **counts("sessionCount", "totalObservations"),
    }
)
FORGOTTEN_BY_AGE = {
    **dict.fromkeys(("ttlExpired", "lowValueObs", "evictedMemories", "evictedObservations"), TEXTS),
    "contradictions": {"type": "array"},
    "evicted": COUNT,
    "dryRun": BOOLEAN,
}
CONSOLIDATED: Mapping[str, Shape] = counts("consolidated", "totalObservations")
CONSOLIDATED_BY_TIER: Mapping[str, Shape] = {
    "reason": TEXT,
    "semantic": OBJECT,
    "procedural": OBJECT,
    "reflect": OBJECT,
}
HEALTH = record(
    {
        "status": {"enum": ["healthy", "degraded", "critical"]},
        **texts("service", "version", "database", "databaseStatus"),
        "health": OBJECT,
        **PORTS,
    }
)
