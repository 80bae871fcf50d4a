"""The fields of what is written, as keyword arguments. Limits and defaults are in the server's docs/api.md.

Made by `make types` from the server's OpenAPI document. Do not edit.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict


class InTime(TypedDict, total=False):
    """Times that limit a listing: when something happened, and when it was recorded. Times have a zone."""

    since: datetime | None
    until: datetime | None
    recorded_since: datetime | None
    recorded_until: datetime | None


class OfSession(TypedDict, total=False):
    """What every write about a session takes; its id is a parameter.

    The client makes an `event_id` if none is given, and keeps it when it retries.
    """

    event_id: str | None
    project: str | None
    agent_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None


class Written(TypedDict, total=False):
    """What every write takes."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None


class OfObservation(TypedDict, total=False):
    """Fields of an observation; its session and content are parameters."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    kind: str | None
    data: Mapping[str, Any] | None


class OfMemory(TypedDict, total=False):
    """Fields of a memory; its content is a parameter."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    title: str | None
    tags: Sequence[str] | None
    concepts: Sequence[str] | None
    files: Sequence[str] | None
    references: Sequence[str] | None
    importance: float | None
    visibility: Literal["private", "public", "shared"] | None
    shared_with: Sequence[str] | None
    owner: str | None
    keep_duplicates: bool | None
    derived_from: Sequence[str] | None
    valid_until: datetime | None
    mandatory: bool | None
    memory_type: Literal["episodic", "procedural", "rule", "semantic"] | None
    purpose: Literal["information", "question", "request"] | None
    ttl_days: float | None


class MemoryChanges(TypedDict, total=False):
    """What to change of a memory; null stays, but new `content` drops the old `valid_until`.

    `visibility` and `shared_with` alone make no new version, unless there is an `expected_version`.
    """

    event_id: str | None
    content: str | None
    title: str | None
    memory_type: Literal["episodic", "procedural", "rule", "semantic"] | None
    purpose: Literal["information", "question", "request"] | None
    tags: Sequence[str] | None
    concepts: Sequence[str] | None
    files: Sequence[str] | None
    references: Sequence[str] | None
    importance: float | None
    visibility: Literal["private", "public", "shared"] | None
    shared_with: Sequence[str] | None
    agent_id: str | None
    valid_until: datetime | None
    mandatory: bool | None
    expected_version: int | None


class OfLesson(TypedDict, total=False):
    """Fields of a lesson; its content is a parameter."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    context: str | None
    confidence: float | None
    tags: Sequence[str] | None
    title: str | None
    severity: Literal["", "critical", "info", "warning"] | None
    trigger_tool: str | None
    trigger_pattern: str | None
    origin: str | None
    derived_from: Sequence[str] | None


class LessonChanges(TypedDict, total=False):
    """What to change of a lesson; what is absent stays."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    expected_version: int | None
    content: str | None
    context: str | None
    title: str | None
    tags: Sequence[str] | None
    severity: Literal["", "critical", "info", "warning"] | None
    trigger_tool: str | None
    trigger_pattern: str | None
    active: bool | None


class SessionStart(TypedDict, total=False):
    """What is known of a session when it starts."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    cwd: str | None
    title: str | None
    agent_type: str | None


class SessionEnd(TypedDict, total=False):
    """How a session ended."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    reason: str | None
    outcome: Literal["completed", "failed"] | None


class OfSlot(TypedDict, total=False):
    """Fields of a slot; its label and text are parameters."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    expected_version: int | None
    scope: Literal["global", "project"] | None
    size_limit: int | None
    description: str | None
    pinned: bool | None
    read_only: bool | None
    overwrite: bool | None


class OfAction(TypedDict, total=False):
    """Fields of a work item; its title is a parameter."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    expected_version: int | None
    description: str | None
    status: str | None
    priority: int | float | None
    tags: Sequence[str] | None
    requires: Sequence[str] | None
    edges: Sequence[Mapping[str, Any]] | None
    parent: str | None
    assigned_to: str | None
    paths: Sequence[str] | None
    token: str | None


class ActionChanges(TypedDict, total=False):
    """What to change of a work item; what is absent stays, edges are added."""

    event_id: str | None
    project: str | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    occurred_at: datetime | None
    trace: str | None
    metadata: Mapping[str, str] | None
    trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | Literal[""] | None
    expected_version: int | None
    title: str | None
    description: str | None
    status: str | None
    priority: int | float | None
    tags: Sequence[str] | None
    requires: Sequence[str] | None
    edges: Sequence[Mapping[str, Any]] | None
    assigned_to: str | None
    result: str | None
    crystallized_into: str | None
    paths: Sequence[str] | None
    token: str | None


class RecallOptions(TypedDict, total=False):
    """What narrows or weighs a recall. `since` and `until` are the bounds of when it happened, inclusive."""

    project: str | None
    projects: Sequence[str] | None
    agent_id: str | None
    session_id: str | None
    user_id: str | None
    kinds: Sequence[Literal["lesson", "memory", "observation", "summary"]] | None
    tags: Sequence[str] | None
    any_tags: Sequence[str] | None
    since: datetime | None
    until: datetime | None
    as_of: datetime | None
    limit: int | None
    mode: Literal["hybrid", "lexical", "vector"] | None
    alpha: float | None
    half_life_days: float | None
    ranking: Literal["fused", "rrf", "similarity"] | None
    recency_boost: bool | None
    types: Sequence[str] | None
    files: Sequence[str] | None
    concepts: Sequence[str] | None
    explain: bool | None
    min_confidence: float | None
    min_trust: Literal["agent_concluded", "external", "imported", "tool_output", "user_stated"] | None
    fold: bool | None
    max_tokens: int | None
    time_zone: str | None
    prompt_of: str | None
    consistency: Literal["eventual", "session"] | None


class ContextOptions(TypedDict, total=False):
    """For whom a context is, and how long it may be."""

    session_id: str | None
    user_id: str | None
    query: str | None
    token_budget: int | None
    agent_id: str | None
    min_confidence: float | None
    time_zone: str | None


class FeedbackOptions(TypedDict, total=False):
    """Which answer the judged documents are from, and why."""

    recall_id: str | None
    project: str | None
    note: str | None
    agent_id: str | None
    event_id: str | None
