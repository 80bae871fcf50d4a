"""Documents as readers get them: plain mappings with stable names, times as ISO 8601, nothing internal."""

from datetime import datetime
from typing import Any

from ingest.platform.clock import from_ms
from projections.documents.actions import Action
from projections.documents.commits import Commit
from projections.documents.document import Document
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.relations import Relation
from projections.documents.sessions import Session
from projections.documents.slots import Slot
from projections.documents.summaries import Summary

INTERNAL = frozenset({"tenant", "session"})
"""What of a document no reader gets."""


def view(document: Document) -> dict[str, Any]:
    """A document for a reader. Times stay datetimes: the JSON encoder of the door writes them."""
    match document:
        case Observation() | Memory() | Summary():
            return {name: getattr(document, name) for name in document.__struct_fields__ if name not in INTERNAL}
        case Lesson():
            return _lesson(document)
        case Slot():
            return _slot(document)
        case Action():
            return _action(document)
        case Relation():
            return _relation(document)
        case Commit():
            return _commit(document)
        case Session():
            return _session(document)
        case _:
            return {"id": document.id}


def _lesson(lesson: Lesson) -> dict[str, Any]:
    return {
        "id": lesson.id,
        "project": lesson.project,
        "agent_id": lesson.agent_id,
        "user_id": lesson.user_id,
        "title": lesson.title,
        "content": lesson.content,
        "context": lesson.context,
        "tags": lesson.tag_list,
        "confidence": lesson.confidence,
        "reinforcements": lesson.reinforcements,
        "origin": lesson.origin,
        "severity": lesson.severity,
        "trigger_tool": lesson.trigger_tool,
        "trigger_pattern": lesson.trigger_pattern,
        "trigger_count": lesson.trigger_count,
        "triggered_at": _time(lesson.triggered_ms),
        "active": lesson.active,
        "derived_from": lesson.sources,
        "occurred_at": from_ms(lesson.occurred_ms),
        "recorded_at": from_ms(lesson.recorded_ms),
        "reinforced_at": from_ms(lesson.reinforced_ms),
        "updated_at": from_ms(lesson.updated_ms),
        "retired_at": _time(lesson.retired_ms),
        "position": lesson.position,
    }


def _slot(slot: Slot) -> dict[str, Any]:
    return {
        "id": slot.id,
        "label": slot.label,
        "scope": slot.scope,
        "project": slot.project,
        "content": slot.content,
        "size": len(slot.content),
        "size_limit": slot.size_limit,
        "description": slot.description,
        "pinned": slot.pinned,
        "read_only": slot.read_only,
        "agent_id": slot.agent_id,
        "created_at": _time(slot.created_ms),
        "updated_at": _time(slot.updated_ms),
    }


def _action(action: Action) -> dict[str, Any]:
    return {
        "id": action.id,
        "project": action.project,
        "title": action.title,
        "description": action.description,
        "status": action.status,
        "priority": int(action.priority) if float(action.priority).is_integer() else action.priority,
        "tags": action.tag_list,
        "edges": action.edge_list,
        "parent": action.parent,
        "session_id": action.session_id,
        "agent_id": action.agent_id,
        "assigned_to": action.assigned_to,
        "result": action.result,
        "crystallized_into": action.crystallized_into,
        "created_at": from_ms(action.created_ms),
        "updated_at": from_ms(action.updated_ms),
    }


def _relation(relation: Relation) -> dict[str, Any]:
    return {
        "id": relation.id,
        "project": relation.project,
        "source": relation.source,
        "target": relation.target,
        "relation": relation.relation,
        "confidence": relation.confidence,
        "agent_id": relation.agent_id,
        "created_at": from_ms(relation.created_ms),
        "updated_at": from_ms(relation.updated_ms),
    }


def _commit(commit: Commit) -> dict[str, Any]:
    return {
        "id": commit.id,
        "project": commit.project,
        "commit": commit.commit,
        "message": commit.message,
        "branch": commit.branch,
        "repo": commit.repo,
        "author": commit.author,
        "authored_at": commit.authored_at,
        "files": commit.files,
        "session_ids": commit.session_ids,
        "agent_id": commit.agent_id,
        "linked_at": from_ms(commit.linked_ms),
    }


def _session(session: Session) -> dict[str, Any]:
    return {
        "id": session.session_id,
        "project": session.project,
        "agent_id": session.agent_id,
        "user_id": session.user_id,
        "agent_type": session.agent_type,
        "title": session.title,
        "first_prompt": session.first_prompt,
        "cwd": session.cwd,
        "status": session.status,
        "started_at": from_ms(session.started_ms),
        "updated_at": from_ms(session.updated_ms),
        "ended_at": _time(session.ended_ms),
        "observation_count": session.observation_count,
        "summarised": session.summarised,
        "retired": session.retired > 0 and not session.searchable_observations,
        "retired_observations": session.retired,
        "retired_at": _time(session.retired_ms if session.retired else 0),
    }


def _time(ms: int) -> datetime | None:
    return from_ms(ms) if ms else None
