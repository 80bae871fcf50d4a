"""The fields of what is written, as keyword arguments. Limits and defaults are in the server's docs/api.md."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

Visibility = Literal["public", "shared", "private"]
Trust = Literal["user_stated", "agent_concluded", "imported", "tool_output", "external"]
"""Trust classes, from high to low."""
EdgeType = Literal["requires", "unlocks", "spawned_by", "gated_by", "conflicts_with"]


class InTime(TypedDict, total=False):
    """Which of the listed: what happened from `since` and before `until`, and was recorded so. Times have a zone."""

    since: datetime | None
    until: datetime | None
    recorded_since: datetime | None
    recorded_until: datetime | None


class OfSession(TypedDict, total=False):
    """What every write about a session takes; its id stands apart.

    The client makes an `event_id` if none is given, and keeps it when it retries.
    """

    event_id: str | None
    project: str | None
    agent_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Trust | None


class Written(OfSession, total=False):
    """What every write takes."""

    session_id: str | None


class OfObservation(OfSession, total=False):
    """What an observation may say; its session and content stand apart."""

    kind: str | None
    data: Mapping[str, Any] | None


class OfMemory(Written, total=False):
    """What a memory may say; its content stands apart."""

    title: str | None
    memory_type: Literal["episodic", "semantic", "procedural"] | None
    purpose: Literal["information", "question", "request"] | None
    tags: Sequence[str] | None
    concepts: Sequence[str] | None
    files: Sequence[str] | None
    references: Sequence[str] | None
    importance: float | None
    visibility: Visibility | None
    shared_with: Sequence[str] | None
    owner: str | None
    ttl_days: float | None
    keep_duplicates: bool | None
    derived_from: Sequence[str] | None
    valid_until: datetime | None


class MemoryChanges(TypedDict, total=False):
    """What to change of a memory; what is absent stays."""

    event_id: str | None
    agent_id: str | None
    content: str | None
    title: str | None
    memory_type: Literal["episodic", "semantic", "procedural"] | None
    purpose: Literal["information", "question", "request"] | None
    tags: Sequence[str] | None
    concepts: Sequence[str] | None
    files: Sequence[str] | None
    references: Sequence[str] | None
    importance: float | None
    visibility: Visibility | None
    shared_with: Sequence[str] | None
    valid_until: datetime | None


class _OfLesson(TypedDict, total=False):
    context: str | None
    title: str | None
    tags: Sequence[str] | None
    severity: Literal["critical", "warning", "info", ""] | None
    trigger_tool: str | None
    trigger_pattern: str | None


class OfLesson(_OfLesson, Written, total=False):
    """What a lesson may say; its content stands apart."""

    confidence: float | None
    origin: str | None
    derived_from: Sequence[str] | None


class LessonChanges(_OfLesson, Written, total=False):
    """What to change of a lesson; what is absent stays."""

    content: str | None
    active: bool | None


class SessionStart(OfSession, total=False):
    """What is known of a session when it starts."""

    cwd: str | None
    title: str | None
    agent_type: str | None


class SessionEnd(OfSession, total=False):
    """How a session ended."""

    reason: str | None
    outcome: Literal["completed", "failed"] | None


class OfSlot(Written, total=False):
    """What a slot may be beside its text."""

    scope: Literal["project", "global"] | None
    overwrite: bool | None
    size_limit: int | None
    description: str | None
    pinned: bool | None
    read_only: bool | None


class OfAction(Written, total=False):
    """What a work item may say; its title stands apart."""

    description: str | None
    status: str | None
    priority: float | None
    tags: Sequence[str] | None
    requires: Sequence[str] | None
    edges: Sequence[Mapping[str, str]] | None
    parent: str | None
    assigned_to: str | None


class ActionChanges(Written, total=False):
    """What to change of a work item; what is absent stays, edges are added."""

    title: str | None
    description: str | None
    status: str | None
    priority: float | None
    tags: Sequence[str] | None
    requires: Sequence[str] | None
    edges: Sequence[Mapping[str, str]] | None
    assigned_to: str | None
    result: str | None
    crystallized_into: str | None


class RecallOptions(TypedDict, total=False):
    """What narrows or weighs a recall. `since` and `until` are the bounds of when it happened, inclusive."""

    project: str | None
    projects: Sequence[str] | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    kinds: Sequence[Literal["observation", "memory", "lesson", "summary"]] | None
    types: Sequence[str] | None
    tags: Sequence[str] | None
    any_tags: Sequence[str] | None
    files: Sequence[str] | None
    concepts: Sequence[str] | None
    since: datetime | None
    until: datetime | None
    as_of: datetime | None
    limit: int | None
    mode: Literal["hybrid", "lexical", "vector"] | None
    ranking: Literal["fused", "similarity", "rrf"] | None
    recency_boost: bool | None
    half_life_days: float | None
    alpha: float | None
    explain: bool | None
    min_confidence: float | None
    min_trust: Trust | None
    fold: bool | None
    max_tokens: int | None
    time_zone: str | None
    consistency: Literal["session", "eventual"] | None


class ContextOptions(TypedDict, total=False):
    """For whom a context is, and how long it may be."""

    query: str | None
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    token_budget: int | None
    min_confidence: float | None
    time_zone: str | None
