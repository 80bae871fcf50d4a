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
        **dict.fromkeys(("id", "sessionId", "timestamp", "hookType", "project", "type", "title", "narrative"), TEXT),
        **dict.fromkeys(("facts", "concepts", "files"), TEXTS),
        "raw": OBJECT,
        "importance": NUMBER,
        "confidence": NUMBER,
    },
    dict.fromkeys(("subtitle", "agentId", "modality", "imageData"), TEXT),
)
MEMORY = record(
    {
        **dict.fromkeys(("id", "type", "title", "content"), TEXT),
        "version": COUNT,
    },
    {
        **dict.fromkeys(("createdAt", "updatedAt", "parentId", "agentId", "project", "forgetAfter"), TEXT),
        **dict.fromkeys(("concepts", "files", "sessionIds", "supersedes", "sourceObservationIds", "relatedIds"), TEXTS),
        "strength": NUMBER,
        "isLatest": BOOLEAN,
    },
)
SUMMARY = record(
    {
        **dict.fromkeys(("sessionId", "project", "createdAt", "title", "narrative"), TEXT),
        **dict.fromkeys(("keyDecisions", "filesModified", "concepts"), TEXTS),
        "observationCount": COUNT,
    }
)
SESSION = record(
    {
        **dict.fromkeys(("id", "project", "cwd", "startedAt", "updatedAt", "status"), TEXT),
        "observationCount": COUNT,
    },
    {
        **dict.fromkeys(("endedAt", "firstPrompt", "agentId"), TEXT),
        "summary": {"anyOf": [SUMMARY, TEXT]},
        "commitShas": TEXTS,
    },
)
COMMIT = record(
    {
        **dict.fromkeys(("sha", "shortSha", "branch", "repo", "message", "author", "authoredAt", "linkedAt"), TEXT),
        "files": TEXTS,
        "sessionIds": TEXTS,
    }
)
LESSON = record(
    {"id": TEXT},
    {
        **dict.fromkeys(
            ("content", "context", "source", "createdAt", "updatedAt", "project", "lastReinforcedAt"), TEXT
        ),
        **dict.fromkeys(("confidence", "decayRate", "score"), NUMBER),
        "reinforcements": COUNT,
        "sourceIds": TEXTS,
        "tags": TEXTS,
    },
)
SLOT = record(
    {
        **dict.fromkeys(("label", "content", "description", "scope"), TEXT),
        **dict.fromkeys(("size", "sizeLimit"), COUNT),
        **dict.fromkeys(("pinned", "readOnly"), BOOLEAN),
        **dict.fromkeys(("createdAt", "updatedAt"), PERHAPS_TEXT),
    },
    {"project": TEXT},
)
ACTION = record(
    {"id": TEXT, "title": PERHAPS_TEXT},
    {
        **dict.fromkeys(("description", "status", "createdAt", "updatedAt", "createdBy", "project", "parentId"), TEXT),
        **dict.fromkeys(("sessionId", "assignedTo", "result", "crystallizedInto"), TEXT),
        **dict.fromkeys(("tags", "sourceObservationIds", "sourceMemoryIds"), TEXTS),
        "priority": NUMBER,
    },
)
EDGE = record(dict.fromkeys(("type", "sourceActionId", "targetActionId", "createdAt"), TEXT))
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
    dict.fromkeys(("id", "sourceId", "targetId", "type"), TEXT),
    {"confidence": {"type": ["number", "null"]}, "createdAt": TEXT},
)
CRYSTAL = record(
    {
        **dict.fromkeys(("id", "narrative", "createdAt"), TEXT),
        **dict.fromkeys(("keyOutcomes", "filesAffected", "lessons", "sourceActionIds"), TEXTS),
    },
    {"project": TEXT, "sessionId": TEXT},
)
INSIGHT = record(
    {
        **dict.fromkeys(("id", "title", "content", "project", "createdAt", "updatedAt"), TEXT),
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
        **dict.fromkeys(("id", "fact", "project", "createdAt", "updatedAt"), TEXT),
        **dict.fromkeys(("confidence", "strength"), NUMBER),
        "sourceSessionIds": TEXTS,
        "sourceMemoryIds": TEXTS,
    }
)
PROCEDURE = record(
    {
        **dict.fromkeys(("id", "name", "triggerCondition", "project", "createdAt", "updatedAt"), TEXT),
        "steps": TEXTS,
        "frequency": COUNT,
        "sourceMemoryIds": TEXTS,
        "strength": NUMBER,
    }
)
NODE = record({**dict.fromkeys(("id", "type", "name", "label"), TEXT), "properties": OBJECT})
LINK = record(
    {**dict.fromkeys(("id", "type", "sourceNodeId", "targetNodeId", "source", "target"), TEXT), "weight": NUMBER}
)
TIMED = record(
    {
        **dict.fromkeys(("id", "sessionId", "ts", "kind", "label"), TEXT),
        "offsetMs": COUNT,
        "durationMs": COUNT,
    }
)
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
CHECK = record({**dict.fromkeys(("name", "category", "status", "message"), TEXT), "fixable": BOOLEAN})
RESULT = record({**dict.fromkeys(("obsId", "sessionId"), TEXT)}, {"score": NUMBER, "title": TEXT, "type": TEXT})
TOOL = record({"name": TEXT, "description": TEXT, "inputSchema": OBJECT})
CALLED = record({"content": listed(record({"type": {"const": "text"}, "text": TEXT}))}, {"isError": BOOLEAN})
DEGRADED = {"degraded": TEXTS}
PORTS = {"viewerPort": COUNT, "viewerSkipped": BOOLEAN, "streamsPort": COUNT}
NOTE = record({"file": TEXT, "size": COUNT, "updatedAt": TEXT})
AUDITED = record(
    {
        **dict.fromkeys(("id", "timestamp", "operation", "functionId"), TEXT),
        "targetIds": TEXTS,
        "details": OBJECT,
    },
    {"userId": TEXT},
)
PROFILE = record(
    {
        **dict.fromkeys(("project", "updatedAt"), TEXT),
        **dict.fromkeys(("topConcepts", "topFiles"), listed(OBJECT)),
        **dict.fromkeys(("conventions", "commonErrors", "recentActivity", "preferences"), TEXTS),
        **dict.fromkeys(("sessionCount", "totalObservations"), COUNT),
    }
)
FORGOTTEN_BY_AGE = {
    **dict.fromkeys(("ttlExpired", "lowValueObs", "evictedMemories", "evictedObservations"), TEXTS),
    "contradictions": {"type": "array"},
    "evicted": COUNT,
    "dryRun": BOOLEAN,
}
CONSOLIDATED: Mapping[str, Shape] = dict.fromkeys(("consolidated", "totalObservations"), COUNT)
CONSOLIDATED_BY_TIER: Mapping[str, Shape] = {
    "reason": TEXT,
    "semantic": OBJECT,
    "procedural": OBJECT,
    "reflect": OBJECT,
}
