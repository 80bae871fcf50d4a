"""Memories, in versions. A memory that states the same as an older one of its agent supersedes it."""

import math
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ingest.events.envelope import Recorded, Trust, writer_of
from ingest.events.subject import EventErased
from ingest.ids import DocumentId
from ingest.kinds import MEMORY
from ingest.log.position import Position
from ingest.nouns.feedback import FeedbackGiven, Verdict
from ingest.nouns.memory import (
    MemoryCondensed,
    MemoryConfirmed,
    MemoryRecorded,
    MemoryRevised,
    MemoryType,
    MemoryVisibilityChanged,
    Purpose,
    Visibility,
)
from ingest.platform.clock import to_ms
from ingest.secrets.scrub import is_only_marks
from projections.nouns import rows
from projections.nouns.batch import LOOKED_FOR, FoldBatch, Loaded, conflict, fold_one, folds, mark_of
from projections.nouns.index_entry import HIDDEN_MS, IndexEntry, entry_for, index_terms, searchable
from projections.nouns.tombstone import Tombstone, inheritance
from projections.nouns.trust import hidden_by_rule
from projections.text.payloads import named
from projections.text.similarity import (
    SUPERSEDE_ABOVE,
    differ_in_facts,
    jaccard,
    keys_of,
    statement_key,
    states_the_same,
    tokens_of,
)

TITLE_CHARS = 80
MOST_IMPORTANT = 10.0
BY_WORDS = "agentmemory"
"""The source of memories that also supersede those with the same words in another order. Its clients expect that of
similar words, but a memory with one other word can be another fact."""

FACT, PROCEDURE, CRYSTAL, CONSOLIDATED = "fact", "procedure", "crystal", "consolidated"
SERVER_TAGS = frozenset((FACT, PROCEDURE, CRYSTAL, CONSOLIDATED))
"""Tags that the server gives to the memories it makes."""
MADE_TAGS = frozenset((CONSOLIDATED, CRYSTAL))
"""One of them is on every memory that the server made; the others are what clients call memories of theirs, too."""

_SUMMARY_PREFIX = re.compile(r"\A\[Summary of [0-9]+ memories\] ")


class Judgment(Struct, frozen=True):
    """The newest verdict of one writer on a memory."""

    writer: str
    verdict: Verdict
    at: datetime


MOST_VERDICTS = 50
DISPUTED_BY = 3
"""Writers that call a memory wrong: it then comes after all other results, until somebody decides on it."""


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a memory. Superseded versions stay readable; recall sees the latest unless asked `as_of`.

    `condensed` names the memories that this one was made of and replaces. `updated_at` moves with its visibility.
    `confirmations` is how often it proved right. `revised_by` is who wrote this version, where that is not `agent_id`.
    `separate_parent`: its parent states the same or was written by another agent, and is no version of this memory.
    `verdicts` are those of independent writers; `writer` is the key that wrote it, or the agent if no key was used.
    `valid_until` is when the statement stopped, or stops, being true: the time of the newer version, or
    `stated_until`, which was given with it, if that is earlier.
    """

    LETTER: ClassVar[bytes] = b"m"

    id: DocumentId
    event_id: str
    tenant: str
    project: str = ""
    session_id: str = ""
    agent_id: str = ""
    user_id: str = ""
    content: str
    title: str = ""
    memory_type: MemoryType = "semantic"
    purpose: Purpose = "information"
    tags: list[str] = []
    concepts: list[str] = []
    files: list[str] = []
    references: list[str] = []
    metadata: dict[str, str] = {}
    importance: float = 5.0
    visibility: Visibility = "public"
    shared_with: list[str] = []
    owner: str = ""
    forget_after: datetime | None = None
    version: int = 1
    parent_id: str = ""
    separate_parent: bool = False
    revised_by: str = ""
    is_latest: bool = True
    superseded_at: datetime | None = None
    superseded_by: str = ""
    keep_duplicates: bool = False
    derived_from: list[str] = []
    condensed: list[str] = []
    model: str = ""
    prompt_version: str = ""
    confirmations: int = 0
    confirmed_at: datetime | None = None
    verdicts: list[Judgment] = []
    writer: str = ""
    updated_at: datetime
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str = "native"
    trust: Trust = "agent_concluded"
    quarantined: str = ""
    valid_until: datetime | None = None
    stated_until: datetime | None = None
    mandatory: bool = False

    @property
    def is_suggested(self) -> bool:
        """Whether it is a rule taken from a prompt, and not repeated or confirmed since."""
        return self.memory_type == "rule" and bool(self.derived_from) and not self.confirmations

    @property
    def author(self) -> str:
        """Who wrote this version."""
        return self.revised_by or self.agent_id

    changed_by = author

    @property
    def disputed_by(self) -> int:
        """How many writers called it wrong since it was last confirmed."""
        since = self.confirmed_at
        return sum(it.verdict == "wrong" and (since is None or it.at > since) for it in self.verdicts)

    @property
    def is_disputed(self) -> bool:
        """Whether enough writers called it wrong."""
        return self.disputed_by >= DISPUTED_BY

    @property
    def audience(self) -> list[str]:
        """Who may read it, sorted; empty for every reader of the tenant."""
        if self.visibility == "public":
            return []
        return sorted({self.owner, self.agent_id, *(self.shared_with if self.visibility == "shared" else ())})

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_position(self.position, self.id)
        members = {
            (memories(self.tenant, self.project), member),
            *((rows.derived(source), self.id) for source in self.derived_from),
            *rows.in_user_listing(self.tenant, self.user_id, member),
        }
        if not self.is_latest:
            return members
        if self.memory_type == "rule":
            members.add((rules(self.tenant, self.project), member))
        if not self.keep_duplicates:
            name = similar(self.tenant, self.project)
            keys = keys_of(self.content)
            filed = (*keys.filed, _statement(self.content))
            members |= {(name, f"{key}|{keys.sketch:016x}|{self.id}") for key in filed}
        if self.memory_type == "episodic" and self.user_id and not self.valid_until:  # a summary would have no end
            members.add((EPISODIC, f"{episodic_pair(self.tenant, self.agent_id, self.user_id)}{member}"))
        if self.forget_after:
            members.add((EXPIRING, rows.by_time(max(0, to_ms(self.forget_after)), self.id)))
        return members

    def searchable_text(self) -> str:
        """Its text, tags, concepts and files, without the prefix of a summary."""
        content = without_prefix(self.content) if self.condensed else self.content
        return searchable([content, *self.tags, *self.concepts, *self.files])

    def is_expired(self, now: datetime) -> bool:
        """Return whether its time to live is over: no reader sees it, and upkeep deletes it."""
        return self.forget_after is not None and self.forget_after <= now

    def has_ended(self, now: datetime) -> bool:
        """Whether recall no longer finds it because its time is over."""
        return any(end is not None and end <= now for end in self._ends)

    @property
    def _ends(self) -> tuple[datetime | None, datetime | None]:
        return self.forget_after, self.stated_until

    def index_entry(self) -> IndexEntry:
        factor = judged_factor(self.verdicts)
        return entry_for(
            self,
            "memory",
            index_terms(self.searchable_text(), self.occurred_at, stated=True),
            tags=self.tags,
            retired_ms=HIDDEN_MS if self.quarantined else to_ms(self.superseded_at) if self.superseded_at else 0,
            expires_ms=min((max(1, to_ms(end)) for end in self._ends if end), default=0),
            importance=min(MOST_IMPORTANT, factor * confirmed_importance(float(self.importance), self.confirmations)),
            confidence=2 * factor - 1,  # a rank is multiplied by half of one plus this
            renewed_ms=max((to_ms(it.at) for it in self.verdicts), default=0),
            audience=self.audience,
            types=[self.memory_type, self.purpose],
            concepts=[concept for concept in self.concepts if not is_only_marks(concept)],
            visibility=self.visibility,
        )


LOOKED_FOR.add(Memory)


def confirmed_importance(importance: float, confirmations: int) -> float:
    """What a memory counts as in rankings: a step more once it was confirmed, and for each doubling after; at most 10.

    What was stated to be more than that stays.
    """
    return max(importance, min(MOST_IMPORTANT, importance + math.log2(1 + confirmations)))


def judged_factor(verdicts: Iterable[Judgment]) -> float:
    """What verdicts multiply a memory's rank by: 0.5 to 1.25. Each further writer moves it half as far as the last."""
    helped = sum(it.verdict == "helped" for it in verdicts)
    against = sum(it.verdict != "helped" for it in verdicts)
    return 1 + 0.25 * (1 - 0.5**helped) - 0.5 * (1 - 0.5**against)


def without_prefix(content: str) -> str:
    """The summary in the content of a condensed memory (what is embedded); any other content unchanged."""
    return _SUMMARY_PREFIX.sub("", content, count=1)


EPISODIC = "episodic"
"""Listing of a partition's current episodic memories about users: by tenant, agent and user, then in log order."""
EXPIRING = "expiring"
"""Listing of a partition's memories that are to be forgotten at a time, by that time."""
memories = rows.project_listing("memories")
"""Listing of a project's memories, in log order."""
rules = rows.project_listing("rules")
"""Listing of a project's current rules, in log order."""


def episodic_pair(tenant: str, agent: str, user: str) -> str:
    """What members of EPISODIC about one agent and user begin with."""
    return f"{tenant}\0{agent}\0{user}\0"


similar = rows.project_listing("similar")
"""Listing of a project's current memories by the keys that memories with the same statement, or nearly the same words,
share. Members are `<key>|<sketch>|<id>`."""


def probe_listings(memory: Memory, *, by_words: bool) -> list[str]:
    """The parts of listings in which every memory that states the same is found; or every one of similar words, too."""
    name = similar(memory.tenant, memory.project)
    keys = [_statement(memory.content), *(keys_of(memory.content).probe if by_words else ())]
    return [rows.part_of(name, f"{key}|") for key in keys]


def resembling(content: str) -> Callable[[str], bool]:
    """Tells whether what a member of `similar` names may be like a text: by its statement, or by its sketch."""
    may_match, same = keys_of(content).matching(), _statement(content)
    return lambda member: member.startswith(same) or may_match(int(member.split("|", 2)[1], 16))


def _statement(content: str) -> str:
    """The key of what a text states; no other key begins so."""
    return f"s{statement_key(content)}"


memory_id = rows.created_id(MEMORY)


def memory(recorded: Recorded, data: MemoryRecorded | MemoryRevised) -> Memory:
    """The memory that an event creates. The fold decides which version it is."""
    agent_id = recorded.envelope.agent_id
    creator = (isinstance(data, MemoryRevised) and data.creator) or agent_id
    fields = _fields(recorded, data)
    fields.update(agent_id=creator, owner=data.owner or creator, title=data.title or _title(data.content))
    fields["stated_until"] = data.valid_until
    return Memory(**fields, metadata=recorded.envelope.metadata, revised_by=agent_id if agent_id != creator else "")


def condensed(recorded: Recorded, data: MemoryCondensed) -> Memory:
    """The memory that replaces several others. It belongs to no session."""
    fields = _fields(recorded, data)
    fields.update(session_id="", owner=data.owner or recorded.envelope.agent_id, title=_title(data.content))
    return Memory(**fields, keep_duplicates=True, condensed=data.originals)


def _fields(recorded: Recorded, data: MemoryRecorded | MemoryRevised | MemoryCondensed) -> dict[str, Any]:
    """What a memory takes unchanged from its event."""
    origin = rows.origin(recorded)
    return {
        **origin,
        **rows.same_fields(data, Memory),
        "id": memory_id(recorded),
        "event_id": recorded.envelope.event_id,
        "source": recorded.envelope.source,
        "updated_at": recorded.recorded_at,
        "writer": writer_of(recorded.envelope),
        "quarantined": hidden_by_rule(origin["trust"], [data.content]),
    }


def evolve(
    memory: Memory | None, recorded: Recorded, data: MemoryVisibilityChanged | MemoryConfirmed | FeedbackGiven
) -> Memory | None:
    """The memory after a change of who can read it, a confirmation or a verdict; None if there is no memory to change.

    A writer has no verdict on its own memory.
    """
    if memory is None:
        return None
    at = recorded.recorded_at
    if isinstance(data, FeedbackGiven):
        writer = writer_of(recorded.envelope)
        if writer == memory.writer:
            return memory
        others = [it for it in memory.verdicts if it.writer != writer]
        verdicts = [*others, Judgment(writer, data.verdict, at)][-MOST_VERDICTS:]
        return replace(memory, verdicts=verdicts)
    if isinstance(data, MemoryConfirmed):
        return replace(memory, confirmations=memory.confirmations + 1, confirmed_at=at)
    shared_with = memory.shared_with if data.shared_with is None else data.shared_with
    return replace(memory, visibility=data.visibility, shared_with=shared_with, updated_at=at)


def is_by_words(memory: Memory) -> bool:
    """Whether a new memory also supersedes one with the same words in another order."""
    return memory.source == BY_WORDS


def predecessor(new: Memory, candidates: Iterable[Memory]) -> Memory | None:
    """The memory that `new` supersedes: one of its agent, or of none, that states the same; the newest.

    By words also one of the same words in another order, if their Jaccard similarity is above 0.7 and numbers, names
    and negations keep their order; the most similar, then the newest. Only memories about the same user, of the same
    visibility and owner, are compared: a private note never replaces what others can read. Nor does what expires
    replace what lasts longer.
    """
    best_rank: tuple[float, Position] | None = None
    best_match: Memory | None = None
    for other in candidates:
        if _may_supersede(new, other) and (alike := _alike(new, other)):
            rank = (alike, Position.parse(other.position))
            if best_rank is None or rank > best_rank:
                best_rank, best_match = rank, other
    return best_match


def is_similar(new: Memory, other: Memory) -> bool:
    """Whether a current memory states the same as another, or has nearly the same words."""
    if not other.is_latest or other.id == new.id or other.has_ended(new.recorded_at):
        return False
    likeness = jaccard(tokens_of(new.content), tokens_of(other.content))
    return likeness > SUPERSEDE_ABOVE or states_the_same(new.content, other.content)


def _may_supersede(new: Memory, old: Memory) -> bool:
    if not old.is_latest or old.keep_duplicates or old.id == new.id or old.author not in ("", new.agent_id):
        return False
    if new.forget_after is not None and (old.forget_after is None or new.forget_after < old.forget_after):
        return False
    if new.visibility != old.visibility or new.user_id != old.user_id:
        return False
    return new.visibility == "public" or (new.owner == old.owner and set(new.shared_with) == set(old.shared_with))


def _alike(new: Memory, old: Memory) -> float:
    """How much two memories are alike, as far as one may supersede the other; 0 for not."""
    same = states_the_same(new.content, old.content)
    if not is_by_words(new):
        return float(same)
    likeness = jaccard(tokens_of(new.content), tokens_of(old.content))
    same_words = states_the_same(new.content, old.content, in_any_order=True)
    reordered = same_words and likeness > SUPERSEDE_ABOVE and not differ_in_facts(new.content, old.content)
    return likeness if same or reordered else 0.0


def superseding(new: Memory, old: Memory) -> tuple[Memory, Memory]:
    """The new memory as the next version, which proved right as often, and the old one as superseded by it."""
    successor = replace(new, confirmations=old.confirmations, confirmed_at=old.confirmed_at)
    return inheriting(successor, old.id, old.version), retired(old, new.id, new.recorded_at, new.occurred_at)


def inheriting(new: Memory, parent: DocumentId, parent_version: int) -> Memory:
    """The new memory as the version that follows its parent's."""
    return replace(new, version=parent_version + 1, parent_id=parent)


def retired(old: Memory, successor: str, at: datetime, until: datetime | None = None) -> Memory:
    """The old memory as superseded by its successor; `until` is when a newer statement was made, if that is one."""
    ends = [end for end in (old.stated_until, until and max(until, old.occurred_at)) if end]
    return replace(old, is_latest=False, superseded_at=at, superseded_by=successor, valid_until=min(ends, default=None))


def restored(old: Memory) -> Memory:
    """The old memory as current again, because what superseded it is forgotten."""
    return replace(old, is_latest=True, superseded_at=None, superseded_by="", valid_until=old.stated_until)


def _title(content: str) -> str:
    lines = content.strip().split("\n")
    return named(next((line for line in lines if line and not is_only_marks(line)), lines[0]))[:TITLE_CHARS]


def _similar_listings(event: Recorded, data: MemoryRecorded) -> set[str]:
    names = {inheritance(memory_id(event))}
    if not data.keep_duplicates:
        names.update(_probes(memory(event, data)))
    return names


def _probes(memory: Memory) -> list[str]:
    return probe_listings(memory, by_words=is_by_words(memory))


def _may_be_similar(event: Recorded, data: MemoryRecorded) -> Callable[[str], bool]:
    # a member of a listing of similar memories has a sketch, by which most memories are skipped without reading them
    resembles = resembling(data.content)
    return lambda member: "|" not in member or resembles(member)


@folds(
    MemoryRecorded,
    about=lambda event, data: [memory_id(event)],
    reads=lambda event, data: [memory_id(event)],
    listings=_similar_listings,
    wants=_may_be_similar,
)
def _recorded(batch: FoldBatch, event: Recorded, data: MemoryRecorded) -> None:
    new = memory(event, data)
    if _is_repeat(batch, event, new):
        return
    tombstones = (document for document in batch.members(inheritance(new.id)) if isinstance(document, Tombstone))
    forgotten = [tombstone for tombstone in tombstones if tombstone.successor == new.id]
    if forgotten:
        new = inheriting(new, forgotten[0].id, forgotten[0].memory_version)
        batch.put(replace(forgotten[0], superseded_by=new.id, successor=""))
    elif not new.keep_duplicates and (old := predecessor(new, _similar(batch, event, data, new))):
        new, retired = superseding(new, old)
        batch.put(retired)
    batch.put(replace(new, separate_parent=bool(new.parent_id)))


def _later_versions(event: Recorded, data: MemoryRevised, loaded: Loaded) -> set[str]:
    """The versions that begin with the revised memory, as far as they are loaded, and the one after them."""
    name, names = data.memory, set[str]()
    while (current := loaded.get(DocumentId(name))) is not None:
        if not isinstance(current, Memory | Tombstone) or not current.superseded_by or current.superseded_by in names:
            break
        name = current.superseded_by
        names.add(name)
    return names


@folds(
    MemoryRevised,
    about=lambda event, data: [memory_id(event), data.memory],
    reads=lambda event, data: {memory_id(event), data.memory, *([mark_of(event)] if data.is_awaited else [])},
    follows=_later_versions,
)
def _revised(batch: FoldBatch, event: Recorded, data: MemoryRevised) -> None:
    """The new version follows the newest there is, so that two revisions at once do not fork."""
    new = memory(event, data)
    if _is_repeat(batch, event, new):
        return
    newest = _newest(batch, data.memory)
    refused = conflict(newest, data.expected_version)
    if refused or batch.get(mark_of(event)):
        # only a refused revision has a mark: it would tie the new version's log entry to the forgetting of the old one
        if batch.mark(event, data.memory) and refused:
            batch.decide(event, refused)
        return
    match newest:
        case Memory():
            new, retired = superseding(new, newest)
            batch.put(retired)
        case Tombstone():
            new = inheriting(new, newest.id, newest.memory_version)
            batch.put(replace(newest, superseded_by=new.id, successor=""))
        case None:
            pass
    # a version without an author, as a person writes one in the viewer, goes with whatever it revises
    others = newest is not None and newest.author != "" and new.author not in ("", newest.author)
    # a rule with a prompt of its own may lose it, and the rule that it replaced is in force again
    own_prompt = isinstance(newest, Memory) and not {*new.derived_from} <= {*newest.derived_from}
    batch.put(replace(new, separate_parent=others or (new.memory_type == "rule" and own_prompt)))


@folds(MemoryCondensed, about=lambda event, data: [memory_id(event), *data.originals])
def _condensed(batch: FoldBatch, event: Recorded, data: MemoryCondensed) -> None:
    """It replaces memories that all are current; else it is void, and erased: it may quote what is forgotten."""
    new = condensed(event, data)
    if _is_repeat(batch, event, new):
        return
    originals = [batch.get(name) for name in data.originals]
    current = [original for original in originals if isinstance(original, Memory) and original.is_latest]
    if len(current) < len(data.originals):
        batch.erase(str(event.position), EventErased(was=event.data.TYPE, document=new.id), event.envelope)
        batch.put(Tombstone(id=new.id))
        return
    for original in current:
        batch.put(retired(original, new.id, event.recorded_at))
    batch.put(new)


def _is_repeat(batch: FoldBatch, event: Recorded, new: Memory) -> bool:
    """Whether the event's memory, or its tombstone, is there already."""
    match batch.get(new.id):
        case Memory(position=first) | Tombstone(position=first):
            batch.erase_repeat(event, first, new.id)
            return True
        case _:
            return False


def _similar(batch: FoldBatch, event: Recorded, data: MemoryRecorded, memory: Memory) -> list[Memory]:
    """Every memory that shares a key with this one and may be alike enough."""
    wants = _may_be_similar(event, data)
    documents = {document.id: document for listing in _probes(memory) for document in batch.members(listing, wants)}
    return [document for document in documents.values() if isinstance(document, Memory)]


def _newest(batch: FoldBatch, name: str) -> Memory | Tombstone | None:
    """The last of the versions that begin with `name`."""
    newest = batch.get(name)
    while isinstance(newest, Memory | Tombstone) and newest.superseded_by:
        successor = batch.get(newest.superseded_by)
        if not isinstance(successor, Memory | Tombstone):
            break
        newest = successor
    return newest if isinstance(newest, Memory | Tombstone) else None


fold_one(MemoryVisibilityChanged, MemoryConfirmed, of=Memory, subject=lambda event, data: data.memory, evolve=evolve)
