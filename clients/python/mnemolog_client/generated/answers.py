"""What the server answers. Unknown fields are ignored; a field that is added later has a default.

Made by `make types` from the server's OpenAPI document. Do not edit.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct


class Accepted(Struct, frozen=True, kw_only=True):
    """An acknowledged write: the id of its document, its event id, its position in the log, and how durable it is.

    `duplicate` is true when the log already had the event id; `position` is then the first one's.
    """

    id: str
    event_id: str
    position: str
    duplicate: bool
    durability: str


class Applied(Accepted, frozen=True, kw_only=True):
    """An acknowledged change that depended on the document's state, and the version that it made."""

    version: int = 0
    expires_at: datetime | None = None


class RememberAnswer(Accepted, frozen=True, kw_only=True):
    """An acknowledged memory; the memories that it superseded, and current ones that are similar and were left alone.

    The newest first, at most ten. Both are absent where they are not known in time, or the caller can't read.
    """

    superseded: list[str] | None = None
    similar: list[str] | None = None


class Rejection(Struct, frozen=True, kw_only=True):
    """Why one item of a batch was rejected."""

    index: int
    code: str
    message: str
    field: str | None = None


class BatchAccepted(Struct, frozen=True, kw_only=True):
    """The result of a batch: counts, errors by index, one token for all of it, and its durability."""

    accepted: int
    duplicates: int
    rejected: list[Rejection]
    position: str
    durability: str


class Confirmed(Struct, frozen=True, kw_only=True):
    """The memories and lessons that count for more now, those that are not there, and the position after all of it.

    `position` is empty where nothing was confirmed.
    """

    event_id: str
    confirmed: list[str]
    unknown: list[str]
    position: str


class Feedback(Struct, frozen=True, kw_only=True):
    """The judged documents; those that are no memory or lesson, or were not given to this agent; and the position.

    `position` is empty if nothing was judged.
    """

    event_id: str
    judged: list[str]
    unknown: list[str]
    position: str


class Forgotten(Struct, frozen=True, kw_only=True):
    """What a forgetting covered: how many documents of each kind, the position that covers all of it, and what that
    survives.
    """

    event_id: str
    documents: dict[str, int]
    position: str
    durability: str = "memory"


class Judgment(Struct, frozen=True, kw_only=True):
    """The newest verdict of one writer on a memory."""

    writer: str
    verdict: str
    at: datetime


class Memory(Struct, frozen=True, kw_only=True):
    """A version of a memory."""

    id: str
    event_id: str
    project: str
    session_id: str
    agent_id: str
    user_id: str
    content: str
    title: str
    memory_type: str
    purpose: str
    tags: list[str]
    concepts: list[str]
    files: list[str]
    references: list[str]
    metadata: dict[str, str]
    importance: float
    visibility: str
    shared_with: list[str]
    owner: str
    forget_after: datetime | None
    version: int
    parent_id: str
    is_latest: bool
    superseded_at: datetime | None
    superseded_by: str
    keep_duplicates: bool
    derived_from: list[str]
    condensed: list[str]
    model: str
    prompt_version: str
    confirmations: int
    confirmed_at: datetime | None
    verdicts: list[Judgment] = []
    updated_at: datetime
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str
    trust: str = "agent_concluded"
    quarantined: str = ""
    valid_until: datetime | None = None
    mandatory: bool


class Lesson(Struct, frozen=True, kw_only=True):
    """Something learned. `confidence` is as of `reinforced_at`."""

    id: str
    version: int = 1
    changed_by: str = ""
    project: str
    agent_id: str
    user_id: str
    title: str
    content: str
    context: str
    tags: list[str]
    confidence: float
    reinforcements: int
    origin: str
    severity: str
    trigger_tool: str
    trigger_pattern: str
    trigger_count: int
    triggered_at: datetime | None
    active: bool
    derived_from: list[str]
    occurred_at: datetime
    recorded_at: datetime
    reinforced_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    position: str
    trust: str = "agent_concluded"
    quarantined: str = ""


class FoundLesson(Lesson, frozen=True, kw_only=True):
    """A lesson, and its score for a query."""

    score: float


class SureLesson(Lesson, frozen=True, kw_only=True):
    """A lesson, and its remaining confidence."""

    confidence_now: float


class Observation(Struct, frozen=True, kw_only=True):
    """What an agent saw or did, and what was derived from it."""

    id: str
    event_id: str
    project: str
    session_id: str
    agent_id: str
    user_id: str
    kind: str
    content: str
    data: dict[str, Any]
    metadata: dict[str, str]
    title: str
    subtitle: str
    facts: list[str]
    narrative: str
    concepts: list[str]
    files: list[str]
    importance: int
    confidence: float
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str
    model: str
    prompt_version: str
    role: str
    trust: str = "agent_concluded"
    quarantined: str = ""
    turn: str = "agent"
    words: str = ""
    headline: str


class Session(Struct, frozen=True, kw_only=True):
    """A session; `summarised` is how many of its observations its summary covers.

    `retired_observations` of them are in the log alone, since `retired_at`; `retired` says that all of them are.
    """

    id: str
    project: str
    agent_id: str
    user_id: str
    agent_type: str
    title: str
    first_prompt: str
    cwd: str
    status: str
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    observation_count: int
    worked: bool = True
    summarised: int
    retired: bool
    retired_observations: int
    retired_at: datetime | None


class Summary(Struct, frozen=True, kw_only=True):
    """The summary of a session."""

    id: str
    project: str
    session_id: str
    agent_id: str
    user_id: str
    title: str
    narrative: str
    decisions: list[str]
    files: list[str]
    concepts: list[str]
    observation_count: int
    model: str
    prompt_version: str
    occurred_at: datetime
    recorded_at: datetime
    position: str
    remaining: list[str]
    trust: str = "agent_concluded"
    told_by_tools: list[str] = []


class Digest(Struct, frozen=True, kw_only=True):
    """A session in short; no sentence is in it twice. `decisions` are in the order they were made, with their reasons
    where those were given; `remaining` is what was left to do; files have the modified ones first. `told_by_tools` are
    the sentences of the narrative that tools told, `trust` is the lowest class of all others.
    """

    title: str
    narrative: str
    decisions: list[str]
    files: list[str]
    concepts: list[str]
    observation_count: int
    remaining: list[str] = []
    trust: str = "agent_concluded"
    told_by_tools: list[str] = []


class SummaryMade(Struct, frozen=True, kw_only=True):
    """A session's summary and its author; `fell_back` says why a configured model did not write it."""

    summary: Digest
    model: str
    fell_back: str
    position: str


class StoryExchange(Struct, frozen=True, kw_only=True):
    """A request of the user, and the beginning of the agent's last answer to it."""

    request: str
    answer: str


class SessionStory(Struct, frozen=True, kw_only=True):
    """What a session came to so far: decisions in force, open work, and its newest exchanges; oldest first."""

    decisions: list[str]
    remaining: list[str]
    exchanges: list[StoryExchange]


class Slot(Struct, frozen=True, kw_only=True):
    """A small named text. `size` and `size_limit` are characters; times are null for a slot that was never written.

    Its version is 0 then.
    """

    id: str
    version: int = 0
    label: str
    scope: str
    project: str
    content: str
    size: int
    size_limit: int
    description: str
    pinned: bool
    read_only: bool
    agent_id: str
    created_at: datetime | None
    occurred_at: datetime | None = None
    updated_at: datetime | None


class ActionEdge(Struct, frozen=True, kw_only=True):
    """How a work item depends on another one."""

    type: str
    target: str


class Action(Struct, frozen=True, kw_only=True):
    """A work item. `holder` is the agent whose claim is valid until `expires_at`; empty and null without a claim."""

    id: str
    project: str
    version: int = 1
    changed_by: str = ""
    holder: str = ""
    token: str = ""
    expires_at: datetime | None = None
    paths: list[str] = []
    title: str
    description: str
    status: str
    priority: int | float
    tags: list[str]
    edges: list[ActionEdge]
    parent: str
    session_id: str
    agent_id: str
    assigned_to: str
    result: str
    crystallized_into: str
    occurred_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


class Claim(Applied, frozen=True, kw_only=True):
    """A claim that is valid until `expires_at`: its fencing token, and the action.

    Pass the token to renew, release or complete the claim, and to whatever the work changes elsewhere. A later claim of
    the action has a greater position, so a store that remembers the greatest one can refuse an agent that lost its
    claim.
    """

    token: str
    action: Action


class ReadyAction(Action, frozen=True, kw_only=True):
    """A work item that nothing blocks; `leased` while an agent works on it."""

    score: float
    leased: bool


class Frontier(Struct, frozen=True, kw_only=True):
    """The work items that can be done now, and the number of open ones."""

    items: list[ReadyAction]
    open: int


class FileChange(Struct, frozen=True, kw_only=True):
    """A file that a document names, which was changed since: how often, when last, and by which observation."""

    file: str
    times: int
    at: datetime
    by: str


class RecallResult(Struct, frozen=True, kw_only=True):
    """One recalled document. `score` is comparable within one answer only, `confidence` (0..1) among all; no result has
    a higher one than those before it.

    `snippet` is the part of it that the query's words are in, `trust` its trust class (left out: agent_concluded).
    `derived_from` are the documents it was made of, `confirmed` how often it proved right, `repeats` those that say
    nearly the same and the summary that quotes it. `changed_since` are files that a memory or lesson names and that
    were changed after it, and `valid_until` is when a memory stops being true, or stopped. `superseded_by` is a newer
    result that probably replaces this one.
    """

    id: str
    kind: str
    score: float
    title: str
    snippet: str
    content: str
    session_id: str | None
    agent_id: str | None
    project: str
    occurred_at: datetime
    metadata: dict[str, str]
    confidence: float | None = None
    derived_from: list[str] = []
    confirmed: int = 0
    repeats: list[str] = []
    corroborated_by: int = 1
    trust: str = "agent_concluded"
    changed_since: list[FileChange] = []
    superseded_by: str = ""
    explain: dict[str, float] | None = None
    valid_until: datetime | None = None


class Omitted(Struct, frozen=True, kw_only=True):
    """Results that `max_tokens` left out: how many, and how many tokens they have."""

    count: int = 0
    tokens: int = 0


class Recalled(Struct, frozen=True, kw_only=True):
    """What was recalled. `confidence` (0..1) is how likely the subject of the query is recorded, also where nothing is
    returned, and `certainty` the words for it; None where that is not known. `lag`: log entries not searchable yet, by
    partition; `degraded`: what was left out; `notes`: names in the request of which nothing is found, and whether only
    the rarest terms of a long query were searched; `omitted` is null without `max_tokens`;
    `recall_id` names the answer in feedback and in the read ledger.
    """

    results: list[RecallResult]
    confidence: float | None = None
    certainty: str | None = None
    took_ms: float
    lag: dict[str, int]
    degraded: list[str]
    notes: list[str] = []
    omitted: Omitted | None = None
    recall_id: str = ""


class Block(Struct, frozen=True, kw_only=True):
    """One part of a context: what it is, its text, its tokens, the documents it was made of."""

    kind: str
    title: str
    text: str
    tokens: int
    sources: list[str]


class Context(Struct, frozen=True, kw_only=True):
    """A compiled context. `left_out` names what did not fit: blocks, and how many lines of a block. `notes` say
    that nothing is found of the project.
    """

    context: str
    blocks: list[Block]
    tokens: int
    token_budget: int
    left_out: list[str]
    notes: list[str] = []
    recall_id: str = ""


class Removed(Struct, frozen=True, kw_only=True):
    """What went from each store. `documents` counts by kind; `replicas` are index replicas that have reloaded.

    `append_only_file` says whether the server was asked to rewrite it, which is where it drops what was deleted.
    `archive_segments` were rewritten: 0 also when an earlier run did that. `read_ledger` has the entries of a project.
    """

    log_entries: int = 0
    documents: dict[str, int] = {}
    embedding_cache: int = 0
    change_feeds: int = 0
    snapshot: str = ""
    older_snapshots: int = 0
    replicas: int = 0
    replicas_waiting: int = 0
    append_only_file: str = ""
    archive_segments: int = 0
    read_ledger: int = 0


class Probe(Struct, frozen=True, kw_only=True):
    """A search for what was forgotten, made afterward: `found` must be 0."""

    documents: int
    queries: int
    found: int


class Project(Struct, frozen=True, kw_only=True):
    """A project (`""` is the nameless one), and the number of its documents that the reader can see."""

    project: str
    documents: int


class Agent(Struct, frozen=True, kw_only=True):
    """An agent, and the number of its documents that the reader can see."""

    agent_id: str
    documents: int


class Receipt(Struct, frozen=True, kw_only=True):
    """One request to forget. `subject` is a digest where it is a user; `name` is emptied when it is done."""

    id: str
    kind: str
    subject: str
    name: str = ""
    nameless: bool = False
    project: str = ""
    reason: str = ""
    agent_id: str = ""
    status: str = "pending"
    requested_at: datetime
    finished_at: datetime | None = None
    attempts: int = 0
    error: str = ""
    removed: Removed = Removed()
    probe: Probe | None = None


class Shortcoming(Struct, frozen=True, kw_only=True):
    """A degraded condition; `code` is stable."""

    code: str
    message: str
