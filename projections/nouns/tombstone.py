"""Records without a document: tombstones of deleted documents, marks of applied events, ledgers of retired
observations.

A ledger holds a session's retired observations, packed into about 17 bytes each instead of thousands, and the marks of
the session's events. It tells a late repeat from a new event, and tells forgetting which log entries to erase. It has
no content: ids, positions, times, and the names of agents and users.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, NamedTuple

from msgspec import Struct, field

from ingest.ids import DocumentId
from ingest.kinds import OBSERVATION
from ingest.log.position import Position
from ingest.nouns.observation import ObservationCompressed, ObservationRecorded
from ingest.nouns.session import SessionEnded, SessionStarted, SessionSummarised
from projections.nouns import rows


class Tombstone(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In the place of a forgotten observation or memory: a late repeat of its event must not bring it back.

    `position` is that of the forgetting, empty while a replay has only met the erased event. The rest is what a
    forgotten memory leaves to its neighbors: which version it was and whose, what superseded it, what it superseded and
    whether that was a memory of its own, what it had condensed; and, in a replay, its `successor`, which will
    supersede it but has not been reached.
    """

    LETTER: ClassVar[bytes] = b"t"

    id: DocumentId
    position: str = ""
    memory_version: int = 1
    author: str = ""
    parent_id: str = ""
    separate_parent: bool = False
    superseded_by: str = ""
    condensed: list[str] = []
    successor: str = field(default="", name="heir")

    def listing_members(self) -> set[tuple[str, str]]:
        return {(inheritance(self.successor), self.id)} if self.successor else set()


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the fold decided about an event that its writer waits for.

    `refused` is empty if the event was applied, otherwise an error code. `version` is the document's version after it,
    `changed_by` the agent that made this version, and `until_ms` the end of the claim that the document is under.
    """

    refused: str = ""
    version: int = 0
    changed_by: str = ""
    until_ms: int = 0


class SupersededEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The mark of an event without a document of its own, applied at `position`: a late repeat of it changes nothing.

    `subject` is the document it was about, `was` its type; `tenant`, `project` and `user_id` say whose it is, so that
    it is erased with them; once it is, the mark stays without its user.
    """

    LETTER: ClassVar[bytes] = b"k"

    id: DocumentId
    position: str
    subject: str = ""
    was: str = ""
    tenant: str = ""
    project: str = ""
    user_id: str = ""
    erased: bool = False
    outcome: Outcome | None = None
    """For a writer that waits for it."""

    def listing_members(self) -> set[tuple[str, str]]:
        if not self.subject:
            return set()
        member = rows.by_position(self.position, self.id)
        return {
            (entries(self.subject), member),
            (marks(self.tenant, self.project), member),
            *rows.in_user_listing(self.tenant, self.user_id, member),
        }


entries = rows.document_listing("entries")
"""Listing of the marks of a document's events, in log order: what is erased when it is forgotten."""
marks = rows.project_listing("marks")
"""Listing of all marks of a project, in log order."""
inheritance = rows.document_listing("inheritance")
"""Listing of the forgotten memory that this one will have superseded, once a replay has come so far."""


LEDGER = "led"
MARK = "evt"
ID_BYTES = 10
TYPES = (
    ObservationRecorded.TYPE,
    ObservationCompressed.TYPE,
    SessionStarted.TYPE,
    SessionEnded.TYPE,
    SessionSummarised.TYPE,
)
"""Types of entries; stored as the index in this tuple, so only append to it."""


class LedgerEntry(NamedTuple):
    """A retired observation, or a mark of the event `was` about `subject`. Times are those of an observation."""

    name: DocumentId
    position: Position
    was: str
    subject: DocumentId
    agent_id: str = ""
    user_id: str = ""
    occurred_ms: int = 0
    recorded_ms: int = 0
    erased: bool = False

    @property
    def is_observation(self) -> bool:
        """Whether it is of an observation, not of a mark."""
        return self.was == ObservationRecorded.TYPE


class Ledger(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a session's ledger. Entries are columns, in the order of their positions; one of zeros is empty.

    `parts` is how many there are, in the first of them; `names` has the ids without their prefixes, `ms` the distance
    to the position before; `occurred` and `recorded` are distances to the position; `agent` and `user` are numbers of
    `agents` and `users`; `subjects` are the ids of the observations that marks of compressions are about.
    """

    LETTER: ClassVar[bytes] = b"l"

    id: DocumentId
    session: DocumentId
    tenant: str
    project: str = ""
    session_id: str
    parts: int = 0
    names: bytes = b""
    ms: list[int] = []
    seq: list[int] = []
    was: list[int] = []
    occurred: list[int] = []
    recorded: list[int] = []
    agents: list[str] = []
    agent: list[int] = []
    users: list[str] = []
    user: list[int] = []
    subjects: bytes = b""
    erased: list[int] = []

    def listing_members(self) -> set[tuple[str, str]]:
        if not self.names:
            return set()
        members = {(ledgers(self.tenant), str(self.id))}
        return members | {(rows.of_user(self.tenant, user), f"~|{self.id}") for user in self.users if user}


ledgers = rows.document_listing("ledgers")
"""Listing of a tenant's ledgers: of the sessions whose observations were retired."""


@lru_cache(maxsize=4_096)
def ledger_id(session: str, part: int = 0) -> DocumentId:
    """The id of a part of a session's ledger."""
    return DocumentId(f"{LEDGER}_{session.partition('_')[2]}-{part}")


def holds(ledger: Ledger, name: str) -> bool:
    """Whether an id is in it, without unpacking it."""
    digest, at = _digest(name), -1
    while (at := ledger.names.find(digest, at + 1)) >= 0:
        if at % ID_BYTES == 0:
            return True
    return False


def unpacked(ledger: Ledger) -> list[LedgerEntry]:
    """The entries, in the order of their positions."""
    zeros = [0] * len(ledger.ms)
    columns = (ledger.seq, ledger.was, ledger.occurred, ledger.recorded, ledger.agent, ledger.user)
    agents, users, erased = ledger.agents or [""], ledger.users or [""], set(ledger.erased)
    subjects = (ledger.subjects[at : at + ID_BYTES].hex() for at in range(0, len(ledger.subjects), ID_BYTES))
    noted: list[LedgerEntry] = []
    by_entry = zip(accumulate(ledger.ms), *(column or zeros for column in columns), strict=True)
    for n, (ms, seq, was, occurred, recorded, agent, user) in enumerate(by_entry):
        digest = ledger.names[n * ID_BYTES : (n + 1) * ID_BYTES].hex()
        is_observation = was == 0
        name = DocumentId(f"{OBSERVATION if is_observation else MARK}_{digest}")
        subject = name if is_observation else ledger.session
        if TYPES[was] == ObservationCompressed.TYPE:
            subject = DocumentId(f"{OBSERVATION}_{next(subjects)}")
        times = (ms + occurred, ms + recorded) if is_observation else (0, 0)
        at = Position(ms, seq)
        noted.append(LedgerEntry(name, at, TYPES[was], subject, agents[agent], users[user], *times, n in erased))
    return noted


def packed(ledger: Ledger, entries: Iterable[LedgerEntry]) -> Ledger:
    """The ledger with these entries, and no others."""
    ordered = sorted(entries, key=lambda entry: (entry.position, entry.name))
    ms = [entry.position.ms for entry in ordered]
    agents, users = sorted({entry.agent_id for entry in ordered}), sorted({entry.user_id for entry in ordered})
    compressed = [entry for entry in ordered if entry.was == ObservationCompressed.TYPE]
    return Ledger(
        id=ledger.id,
        session=ledger.session,
        tenant=ledger.tenant,
        project=ledger.project,
        session_id=ledger.session_id,
        parts=ledger.parts,
        names=b"".join(map(_digest, (entry.name for entry in ordered))),
        ms=[now - before for now, before in zip(ms, [0, *ms], strict=False)],
        seq=_column(entry.position.seq for entry in ordered),
        was=_column(TYPES.index(entry.was) for entry in ordered),
        occurred=_column(entry.occurred_ms - entry.position.ms if entry.is_observation else 0 for entry in ordered),
        recorded=_column(entry.recorded_ms - entry.position.ms if entry.is_observation else 0 for entry in ordered),
        agents=agents if any(agents) else [],
        agent=_column(agents.index(entry.agent_id) for entry in ordered),
        users=users if any(users) else [],
        user=_column(users.index(entry.user_id) for entry in ordered),
        subjects=b"".join(map(_digest, (entry.subject for entry in compressed))),
        erased=[n for n, entry in enumerate(ordered) if entry.erased],
    )


def count_of(ledger: Ledger) -> int:
    """How many entries there are."""
    return len(ledger.ms)


def _digest(name: str) -> bytes:
    return bytes.fromhex(name.partition("_")[2])


def _column(values: Iterable[int]) -> list[int]:
    column = list(values)
    return column if any(column) else []
