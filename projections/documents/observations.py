"""Observations: what was reported, beside its synthetic compression."""

from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from ingest.events.envelope import Recorded
from ingest.events.session import ObservationCompressed, ObservationRecorded
from ingest.ids import OBSERVATION, DocumentId
from ingest.platform.clock import to_ms
from projections.compression.compression import compress
from projections.documents import rows
from projections.documents.index_entry import IndexEntry, entry_for, index_terms, searchable, texts_in
from projections.search.cues import PROMPT, RESULT, TOOL_OUTPUT, USER_TURN

IMPORTANT = 5
"""Importance from which an observation is listed in contexts and profiles."""
TOOL_KINDS = frozenset(("file_read", "file_edit", "file_write", "search", "web_fetch", "command_run"))
"""What tools do to files, the web and a shell."""
BY_A_MODEL = 0.7
"""Confidence in a model's compression; that of the rules is 0.3."""


class Observation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One observation. `position` orders it within its session; `model` is what compressed it, empty for the rules."""

    LETTER: ClassVar[bytes] = b"o"

    id: DocumentId
    event_id: str
    tenant: str
    project: str = ""
    session_id: str = ""
    session: DocumentId
    agent_id: str = ""
    user_id: str = ""
    kind: str = ""
    content: str = ""
    data: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    title: str = ""
    subtitle: str = ""
    facts: tuple[str, ...] = ()
    narrative: str = ""
    concepts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    importance: int = 5
    confidence: float = 0.3
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str = "native"
    model: str = ""
    prompt_version: str = ""
    role: str = ""
    """Who said it: `user`, `assistant`, `tool_call`, `tool_result`, or unknown."""

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_position(self.position, self.id)
        time = f"{max(0, to_ms(self.occurred_at)):014d}|{member}"
        return {
            (session_observations(self.session), member),
            (timeline(self.tenant, self.project), time),
            *rows.in_user_listing(self.tenant, self.user_id, member),
        }

    def searchable_text(self) -> str:
        """Its content and data; title, facts and narrative repeat them."""
        return searchable([self.content, *(texts_in(self.data) if self.data else ())])

    @property
    def is_tool_output(self) -> bool:
        """Whether it is a tool call with its output. A tool that only echoes its input states it instead; a failed call
        is not one, because its error says something."""
        if self.kind not in TOOL_KINDS or not self.data.get("tool_name") or self.content.strip():
            return False
        return self.data.get("tool_input") != self.data.get("tool_output")

    def index_entry(self) -> IndexEntry:
        is_prompt = self.data.get("prompt") and not self.data.get("tool_name")
        stated = not self.data  # a client that says only the kind of a turn
        is_tool = self.is_tool_output or (stated and self.role in ("tool_call", "tool_result"))
        of_role = [RESULT] * (self.role == "tool_result") + [USER_TURN] * (self.role == "user")
        other_traits = [TOOL_OUTPUT] * is_tool + of_role
        traits = [PROMPT] if is_prompt else other_traits
        terms = index_terms(self.searchable_text(), self.occurred_at, also=traits)
        return entry_for(
            self, "observation", terms, episode=self.session, importance=float(self.importance), types=[self.kind]
        )


session_observations = rows.document_listing("session")
"""Listing of a session's observations, in log order."""
timeline = rows.project_listing("timeline")
"""Listing of a project's observations, by the time they claim."""
observation_id = rows.created_id(OBSERVATION, in_session=True)


def observation(recorded: Recorded, data: ObservationRecorded, session: DocumentId) -> Observation:
    """The document of an observation event."""
    compression = asdict(compress(data.kind, data.content, data.data))
    return Observation(
        **rows.origin(recorded),
        id=observation_id(recorded),
        event_id=recorded.envelope.event_id,
        source=recorded.envelope.source,
        metadata=recorded.envelope.metadata,
        session=session,
        content=data.content,
        data=data.data,
        kind=compression.pop("type"),
        subtitle=compression.pop("subtitle") or "",
        **compression,
    )


def compressed(observation: Observation, data: ObservationCompressed) -> Observation:
    """The observation with a model's compression in the place of the rules'."""
    return replace(
        observation,
        title=data.title,
        narrative=data.narrative,
        facts=tuple(data.facts),
        concepts=tuple(data.concepts),
        files=tuple(dict.fromkeys([*observation.files, *data.files])),
        importance=data.importance,
        confidence=BY_A_MODEL,
        model=data.model,
        prompt_version=data.prompt_version,
    )
