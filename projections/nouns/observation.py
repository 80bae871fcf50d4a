"""Observations: the reported data and its synthetic compression."""

import re
from datetime import datetime
from itertools import chain
from string import hexdigits
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from ingest.events.envelope import Recorded, Trust
from ingest.ids import DocumentId
from ingest.kinds import OBSERVATION
from ingest.log.position import Position
from ingest.nouns.observation import ObservationCompressed, ObservationRecorded
from ingest.nouns.session import SessionRetired
from ingest.platform.clock import to_ms
from projections.nouns import rows
from projections.nouns import session as sessions
from projections.nouns.batch import (
    Document,
    FoldBatch,
    fold_one,
    folds,
    further_parts,
    session_and_ledger,
    session_of,
)
from projections.nouns.index_entry import HIDDEN_MS, IndexEntry, entry_for, index_terms, searchable, texts_in
from projections.nouns.session import session_in
from projections.nouns.tombstone import (
    ID_BYTES,
    TYPES,
    LedgerEntry,
    SupersededEvent,
    Tombstone,
    ledger_id,
)
from projections.nouns.trust import hidden_by_rule, said_by
from projections.text.accounts import call_headline, story_turn
from projections.text.compression import compress, type_of_name
from projections.text.cues import CALL, PROMPT, RESULT, TOOL_OUTPUT, USER_TURN
from projections.text.turns import Turn, typed_turn, written_call, written_payload

IMPORTANT = 5
"""Importance from which an observation is listed in contexts and profiles."""
TOOL_KINDS = frozenset(("file_read", "file_edit", "file_write", "search", "web_fetch", "command_run"))
"""What tools do to files, the web and a shell."""
_CHANGING = frozenset(("file_edit", "file_write"))
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (\S.*?)\s*$", re.MULTILINE)
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
    trust: Trust = "agent_concluded"
    quarantined: str = ""
    """What hides it: `rule`, `operator`, or nothing."""
    call_headline: str = ""
    """Of a tool call; empty also in documents of earlier releases."""
    turn: Turn = "agent"
    """Who its text comes from: a person, an agent, a subagent, the host, a tool, or a compaction."""
    words: str = ""
    """The words of its speaker, without the text that the host added; empty if that is all of the text."""

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_position(self.position, self.id)
        time = f"{max(0, to_ms(self.occurred_at)):014d}|{member}"
        return {
            (session_observations(self.session), member),
            (timeline(self.tenant, self.project), time),
            *([(session_turns(self.session), member)] if self.turn in ("user", "agent") else []),
            *rows.in_user_listing(self.tenant, self.user_id, member),
            *((changes(self.tenant, self.project), self._change(file)) for file in self.changed_files),
        }

    @property
    def changed_files(self) -> tuple[str, ...]:
        """The files that it wrote or edited; also those of a patch, whose tool is pointed at none."""
        if self.kind not in _CHANGING:
            return ()
        if self.files or not self.data:
            return self.files
        return tuple(dict.fromkeys(path for text in texts_in(self.data) for path in _PATCHED.findall(text)))

    def _change(self, file: str) -> str:
        when = f"{max(0, to_ms(self.occurred_at)):014d}"
        return f"{file_name(file)}|{when}|{self.agent_id}{rows.SEPARATOR}{file}|{self.id}"

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
        is_prompt = self.turn == "user" and self.data
        other_traits = [TOOL_OUTPUT] * self.is_tool_output + [USER_TURN] * (self.turn == "user")
        if not self.data and self.role in ("tool_call", "tool_result"):  # a client that only says so of the turn
            other_traits = [CALL] + [RESULT] * (self.role == "tool_result")
        traits = [PROMPT] if is_prompt else other_traits
        terms = index_terms(self.searchable_text(), self.occurred_at, also=traits)
        return entry_for(
            self, "observation", terms, episode=self.session, importance=float(self.importance), types=[self.kind],
            retired_ms=HIDDEN_MS if self.quarantined else 0,
        )  # fmt: skip


session_observations = rows.document_listing("session")
"""Listing of a session's observations, in log order."""
session_turns = rows.document_listing("turns")
"""Listing of what users and agents said in a session, in log order."""
changes = rows.project_listing("changes")
"""Listing of the files that observations of a project changed: by file name, then by the time they claim."""


class Change(NamedTuple):
    """A member of `changes`: when a file was changed, by whom, its path, and the observation."""

    ms: int
    agent_id: str
    path: str
    id: DocumentId

    @classmethod
    def of(cls, member: str) -> "Change":
        """The change that a member tells of."""
        _, when, rest = member.split("|", 2)
        author, _, name = rest.rpartition("|")
        agent, _, path = author.partition(rows.SEPARATOR)
        return cls(int(when), agent, path, DocumentId(name))


def file_name(path: str) -> str:
    """The last part of a path, as members of `changes` begin with it."""
    return path.strip().replace("\\", "/").rpartition("/")[2].replace("|", "/")


timeline = rows.project_listing("timeline")
"""Listing of a project's observations, by the time they claim."""
observation_id = rows.created_id(OBSERVATION, in_session=True)


def observation(recorded: Recorded, data: ObservationRecorded, session: DocumentId) -> Observation:
    """The document of an observation event."""
    content, reported = data.content, data.data
    compression = compress(data.kind, content, reported)
    payload = {} if reported else written_payload(content, by_user=compression.role == "user")
    if payload:
        content, reported = "", payload
        compression = compress(data.kind, content, reported)
    typed = typed_turn(data.kind, compression.type, compression.role, content, reported)
    fields: dict[str, Any] = asdict(compression) | {"kind": compression.type, "subtitle": compression.subtitle or ""}
    del fields["type"]
    origin = rows.origin(recorded, said_by(typed.turn, compression.type, compression.role, content, reported))
    document = Observation(
        **origin,
        quarantined=hidden_by_rule(origin["trust"], chain([data.content], texts_in(data.data))),
        id=observation_id(recorded),
        event_id=recorded.envelope.event_id,
        source=recorded.envelope.source,
        metadata=recorded.envelope.metadata,
        session=session,
        content=data.content,
        data=data.data,
        turn=typed.turn,
        words=typed.words or payload.get("prompt", ""),
        **fields,
    )
    line = call_headline(replace(document, content="", data=payload) if payload else _reported(document))
    return replace(document, call_headline=line) if line else document


def _reported(document: Observation) -> Observation:
    """A tool call that a transcript wrote as text, as a hook would have reported it; any other document as it is."""
    call = written_call(document.content) if document.turn == "tool" and not document.data else {}
    if not call:
        return document
    return replace(document, content="", data=call, kind=type_of_name(call["tool_name"]))


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


@folds(
    ObservationRecorded,
    about=lambda event, data: [observation_id(event)],
    reads=lambda event, data: {observation_id(event), *session_and_ledger(event)},
    follows=further_parts,
)
def _observed(batch: FoldBatch, event: Recorded, data: ObservationRecorded) -> None:
    name = observation_id(event)
    session = session_of(event)
    match batch.get(name) or batch.ledgers.find(session, name):
        case None:
            document = observation(event, data, session)
            batch.put(document)
            batch.put(sessions.observed(session_in(batch, event), event, *story_turn(document)))
        case Observation(position=first) | Tombstone(position=first) | LedgerEntry(position=first):
            batch.erase_repeat(event, str(first), name)
        case _:
            pass


# A model's compression is void if the observation is forgotten (the compression quotes it) or retired (too late).
fold_one(
    ObservationCompressed,
    of=Observation,
    subject=lambda event, data: data.observation,
    evolve=lambda existing, event, data: existing and compressed(existing, data),
    reads=session_and_ledger,
    follows=further_parts,
)


def entry_of(document: Document | None) -> LedgerEntry | None:
    """What a ledger notes of a document; None for what no ledger takes."""
    match document:
        case Observation():
            return LedgerEntry(
                document.id,
                Position.parse(document.position),
                TYPES[0],
                document.id,
                document.agent_id,
                document.user_id,
                to_ms(document.occurred_at),
                to_ms(document.recorded_at),
            )
        case SupersededEvent(was=was, position=position) if was in TYPES and position and _is_id(document.subject):
            return LedgerEntry(
                document.id,
                Position.parse(position),
                was,
                DocumentId(document.subject),
                user_id=document.user_id,
                erased=document.erased,
            )
        case _:
            return None


def _is_id(subject: str) -> bool:
    """Whether it is one that a ledger can hold: a mark is about whatever its event said."""
    digest = subject.partition("_")[2]
    return len(digest) == 2 * ID_BYTES and all(letter in hexdigits for letter in digest)


@folds(
    SessionRetired,
    about=lambda event, data: [session_of(event)],
    reads=lambda event, data: {*data.documents, *session_and_ledger(event), ledger_id(session_of(event), data.part)},
)
def _retired(batch: FoldBatch, event: Recorded, data: SessionRetired) -> None:
    """What it names leaves the documents for the session's ledger; what is missing or forgotten is skipped.

    It has no mark, and stays in the log for ever: a replay that did not retire would end elsewhere.
    """
    session = session_of(event)
    part = batch.ledgers.begin(session, data.part, event.envelope)
    observations = 0
    for name in data.documents:
        existing = batch.get(name)
        entry = entry_of(existing)
        if entry is not None and (entry.subject == session or entry.subject.partition("_")[0] == OBSERVATION):
            batch.ledgers.note(session, part, entry)
            batch.retire(entry.name)
            observations += isinstance(existing, Observation)
    existing = session_in(batch, event)
    if existing is not None:
        batch.put(sessions.retired(existing, event, observations, data.idle_since_ms))
