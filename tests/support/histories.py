"""Random histories of every noun: what agents say, repeat and forget, decided as at a door, in one log.

A step is drawn knowing what the live projection holds at that point, as a door does that looks: revisions and summaries
are of memories and sessions that are there (or were), a forgetting lists documents and marks. Positions are a second
apart, sometimes weeks, so that lessons fade. Every text that is said is planted with a word of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from factories import AGENT, NOW_MS, PROJECT, TENANT, minute
from folding import apply
from hypothesis import strategies as st
from msgspec.structs import replace

from ingest.commands.decide import (
    Caller,
    ChangeVisibility,
    CondenseMemories,
    ConfirmMemory,
    DeleteSlot,
    EndIdleSession,
    ForgetSubject,
    LinkCommit,
    Observe,
    RecordLesson,
    ReinforceLesson,
    Relate,
    Remember,
    RetireLesson,
    RetireSession,
    ReviseLesson,
    ReviseMemory,
    SetSlot,
    SummariseSession,
    TrackSession,
    TriggerLesson,
    WriteAction,
    decide,
)
from ingest.events.envelope import SESSION_TYPES, Envelope, Event, Recorded
from ingest.ids import DocumentId, EventId
from ingest.kinds import ACTION, COMMIT, LESSON, MEMORY, OBSERVATION, RELATION, SLOT, SubjectKind
from ingest.log.position import Position
from ingest.nouns.action import ActionEdge, ClaimActions, ExpireClaim, ReleaseClaim, RenewClaim
from ingest.nouns.command import Command
from ingest.nouns.observation import ObservationCompressed
from projections.nouns.action import Action
from projections.nouns.document import Document
from projections.nouns.memory import BY_WORDS, Memory
from projections.nouns.observation import Observation
from projections.nouns.session import SESSION, Commit, Session, Summary, session_document_id
from projections.nouns.tombstone import Ledger, SupersededEvent, Tombstone, ledger_id, unpacked
from projections.store.protocol import MemoryStore

TEA = "ada likes her green tea early every morning with some fresh lemon plus honey while reading"
MEMORIES = [TEA, TEA.replace("lemon", "ginger"), TEA.replace("early", "later"), "bob drinks black coffee after lunch"]
LESSONS = ["rebase before pushing", " Rebase BEFORE pushing", "never force push"]
KINDS: dict[str, SubjectKind] = {
    OBSERVATION: "observation", MEMORY: "memory", LESSON: "lesson", SLOT: "slot", ACTION: "action",
    RELATION: "relation", COMMIT: "commit", SESSION: "session",
}  # fmt: skip
Kind = type[Observation] | type[Memory] | type[Session] | type[Commit]


class Said(NamedTuple):
    """A planted word, the document that it was said of, and where in the log."""

    word: str
    subject: str
    position: Position


class Forgot(NamedTuple):
    """A document that a tombstone named, and where in the log."""

    subject: str
    position: Position


class History:
    """A log, and the live projection of it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.events: list[Recorded] = []
        self.live = MemoryStore()
        self.said: list[Said] = []
        self.forgot: list[Forgot] = []
        self._draw = draw
        self._ms = NOW_MS
        self._count = 0
        self._known: dict[str, dict[str, None]] = {}

    def __repr__(self) -> str:
        return "\n".join(f"{event.position} {event.envelope.event_id} {event.data}" for event in self.events)

    def choose(self, *choices: Any) -> Any:
        """One of these."""
        return self._draw(st.sampled_from(choices))

    def some(self, choices: Sequence[Any], at_most: int) -> list[Any]:
        """One or a few of these, each once, in any order; none of none."""
        if not choices:
            return []
        return self._draw(st.lists(st.sampled_from(choices), min_size=1, max_size=at_most, unique=True))

    def flag(self) -> bool:
        """Heads or tails."""
        return self._draw(st.booleans())

    def word(self) -> str:
        """The planted word of the next command."""
        return f"plant{self._count}q"

    def any_of(self, prefix: str) -> str:
        """The id of a document that was ever spoken of, or of one that never was."""
        return self.choose(*self._known.get(prefix, ()), f"{prefix}_{'0' * 20}")

    def current(self) -> list[Memory]:
        """The memories that are current."""
        return [item for item in self.of(Memory) if item.is_latest]

    def of(self, kind: Any) -> list[Any]:
        """The documents of a kind."""
        return [document for document in self.live.documents.values() if isinstance(document, kind)]

    def say(self, command: Command, *, at: EventId | None = None) -> str:
        """Append what a command becomes; returns its subject."""
        self._count += 1
        event_id = at or EventId(f"e{self._count}")
        source = self.choose("native", BY_WORDS) if isinstance(command, Remember) else "native"
        decision = decide(command, Caller(TENANT, source), event_id, minute(self._count))  # type: ignore[arg-type]
        subject = decision.subject
        if subject == command.session_id:
            subject = session_document_id(TENANT, PROJECT, subject)
        self._remember(subject)
        self._append(Recorded(self._next(), *decision.event))
        if not isinstance(command, ForgetSubject):
            self.said.append(Said(f"plant{self._count - 1}q", subject, self.events[-1].position))
        return subject

    def tell(self, data: ObservationCompressed, session_id: str, subject: str) -> None:
        """Append what a job tells."""
        self._count += 1
        envelope = Envelope(
            event_id=f"e{self._count}", type=data.TYPE, version=data.VERSION, tenant=TENANT, project=PROJECT,
            session_id=session_id, occurred_at=minute(self._count),
        )  # fmt: skip
        self._append(Recorded(self._next(), *Event(envelope, data)))
        self.said.append(Said(f"plant{self._count - 1}q", subject, self.events[-1].position))

    def repeat(self) -> None:
        """Append an earlier event again, behind the dedup window."""
        if self.events:
            index = self._draw(st.integers(0, len(self.events) - 1))
            repeated = self.events[index]._replace(position=self._next())
            words = [text for text in self.said if text.position == self.events[index].position]
            self._append(repeated)
            self.said += [word._replace(position=repeated.position) for word in words]
            self.forgot += [
                text._replace(position=repeated.position)
                for text in self.forgot
                if text.position == self.events[index].position
            ]

    def forget(self, kind: SubjectKind, subject: str, documents: Sequence[str], session_id: str = "") -> None:
        """Append a tombstone."""
        self._count += 1
        command = ForgetSubject(
            kind=kind, subject=subject, project=PROJECT, session_id=session_id, documents=list(documents)
        )
        decision = decide(command, Caller(TENANT, agent_id="admin"), EventId(f"f{self._count}"), minute(self._count))
        self._append(Recorded(self._next(), *decision.event))
        self.forgot += [Forgot(name, self.events[-1].position) for name in documents or [subject]]

    def _append(self, event: Recorded) -> None:
        self.events.append(event)
        apply(self.live, [event])

    def _next(self) -> Position:
        self._ms += self.choose(1000, 1000, 1000, 1000, 40 * 86_400_000)
        return Position(self._ms, 0)

    def _remember(self, subject: str) -> None:
        self._known.setdefault(subject.partition("_")[0], {})[subject] = None


def _claims(history: History, *users: str) -> dict[str, Any]:
    return {
        "project": PROJECT,
        "agent_id": history.choose(AGENT, "bob", ""),
        "user_id": history.choose(*(users or ("", "u1", "u2"))),
        "occurred_at": minute(history.choose(-3, 0, 3)),
    }


def observe(history: History) -> None:
    data = {"prompt": history.word()} if history.flag() else {}
    command = Observe(session_id=history.choose("s1", "s2"), content=history.word(), data=data, **_claims(history))
    if history.choose(False, False, False, False, True):  # forgotten while it waits in a spool
        at = EventId(f"late{len(history.events)}")
        subject = decide(command, Caller(TENANT), at, minute(0)).subject
        history.forget("observation", subject, [], command.session_id)
        history.say(command, at=at)
    else:
        history.say(command)


def compress(history: History) -> None:
    name = history.any_of(OBSERVATION)
    document = history.live.documents.get(DocumentId(name))
    session_id = document.session_id if isinstance(document, Observation) else "s1"
    word = history.word()
    data = ObservationCompressed(
        observation=name, title=word, narrative=word, facts=[word], files=[word], model="m", prompt_version="1"
    )
    history.tell(data, session_id, name)


def track(history: History) -> None:
    word, session_id = history.word(), history.choose("s1", "s2")
    command = TrackSession(
        session_id=session_id, status=history.choose("started", "ended"), outcome=history.choose("completed", "failed"),
        title=word, reason=word, cwd=history.choose("", word), **_claims(history),
    )  # fmt: skip
    history.say(command)


def end_idle(history: History) -> None:
    session_id = history.choose("s1", "s2")
    document = history.live.documents.get(session_document_id(TENANT, PROJECT, session_id))
    observation = document.seen_ms if isinstance(document, Session) else NOW_MS
    command = EndIdleSession(
        session_id=session_id, project=PROJECT, idle_since_ms=observation - history.choose(0, 1000)
    )
    history.say(command)


def retire(history: History) -> None:
    """A session's observations and marks, or some of them, in a part of its ledger; perhaps named by a second event."""
    session_id = history.choose("s1", "s2")
    session = session_document_id(TENANT, PROJECT, session_id)
    documents = history.live.documents.values()
    names = [document.id for document in documents if isinstance(document, Observation) and document.session == session]
    names += [
        document.id
        for document in documents
        if isinstance(document, SupersededEvent) and (document.subject == session or document.subject in names)
    ]
    chosen = history.choose(names, names, history.some(names, 3))
    existing = history.live.documents.get(session)
    first = history.live.documents.get(ledger_id(session))
    command = RetireSession(
        session_id=session_id,
        project=PROJECT,
        documents=chosen,
        part=history.choose(0, first.parts if isinstance(first, Ledger) else 0),
        idle_since_ms=existing.seen_ms if isinstance(existing, Session) and history.flag() else 0,
    )
    history.say(command)
    history.said.pop()


def summarise(history: History) -> None:
    """Made of the session as it is, or as it was before something else happened to it."""
    word, session_id = history.word(), history.choose("s1", "s2")
    document = history.live.documents.get(session_document_id(TENANT, PROJECT, session_id))
    since = document.told_from if isinstance(document, Session) else ""
    command = SummariseSession(
        session_id=session_id, project=PROJECT, title=word, narrative=word, decisions=[word],
        observation_count=document.observation_count if isinstance(document, Session) else 1,
        forgotten_at=history.choose(since, since, "", *(event.envelope.event_id for event in history.events[:3])),
    )  # fmt: skip
    history.say(command)


def remember(history: History) -> None:
    word, text = history.word(), history.choose(TEA, *MEMORIES)
    command = Remember(
        content=history.choose(text, f"The {text.upper()}!", f"{text} {word}"), title=word, tags=[word],
        visibility=history.choose("public", "public", "public", "private"),
        keep_duplicates=history.choose(False, False, False, True), ttl_days=history.choose(None, None, None, 1, 30),
        owner="ada", valid_until=history.choose(None, None, minute(-9), minute(9_999)),
        **_claims(history, "", "", "u1"),
    )  # fmt: skip
    history.say(command)


def revise(history: History) -> None:
    word = history.word()
    command = ReviseMemory(
        memory=history.any_of(MEMORY), content=f"{history.choose(*MEMORIES)} {word}", memory_type="semantic",
        purpose="information", concepts=[word], owner="ada", creator=history.choose("", "ada"),
        valid_until=history.choose(None, None, minute(9_999)),
        expected_version=history.choose(None, None, 1, 2), **_claims(history, ""),
    )  # fmt: skip
    history.say(command)


def show(history: History) -> None:
    command = ChangeVisibility(
        memory=history.any_of(MEMORY),
        visibility=history.choose("public", "shared", "private"),
        shared_with=history.choose(None, [history.word()]),
        **_claims(history),
    )
    memory = command.memory
    history.say(command)
    history.said[-1] = history.said[-1]._replace(subject=memory)


def confirm_memory(history: History) -> None:
    command = ConfirmMemory(memory=history.any_of(MEMORY), **_claims(history))
    memory = command.memory
    history.say(command)
    history.said[-1] = history.said[-1]._replace(subject=memory)


def condense(history: History) -> None:
    current = [document.id for document in history.current()]
    originals = history.some(current, 3) if current and not history.choose(False, False, True) else []
    originals = originals or [history.any_of(MEMORY)]
    word = history.word()
    history.say(CondenseMemories(originals=originals, content=word, tags=[word], project=PROJECT, model="m"))


def learn(history: History) -> None:
    word = history.word()
    command = RecordLesson(
        content=history.choose(*LESSONS), context=word, tags=[word], confidence=history.choose(0.3, 0.9),
        trigger_tool=history.choose("", "bash"), **_claims(history),
    )  # fmt: skip
    history.say(command)


def confirm(history: History) -> None:
    name = history.any_of(LESSON)
    kinds: list[Callable[[], Command]] = [
        lambda: ReinforceLesson(lesson=name, project=PROJECT),
        lambda: TriggerLesson(lesson=name, project=PROJECT),
        lambda: RetireLesson(lesson=name, confidence=0.1, project=PROJECT),
        lambda: ReviseLesson(
            lesson=name, context=history.word(), active=history.choose(None, False, True), **_claims(history)
        ),
    ]
    history.say(history.choose(*kinds)())


def slot(history: History) -> None:
    if history.choose(False, False, False, True):
        history.say(DeleteSlot(label="notes", **_claims(history)))
        return
    if history.flag():
        history.say(SetSlot(label="notes", content=history.word(), append=True, **_claims(history)))
        return
    command = SetSlot(
        label="notes", content=history.word(), pinned=history.choose(None, True, False),
        read_only=history.choose(None, True, False), description=history.choose(None, history.word()),
        size_limit=history.choose(None, 50), expected_version=history.choose(None, None, 0, 1, 2), **_claims(history),
    )  # fmt: skip
    history.say(command)


def act(history: History) -> None:
    word = history.word()
    command = WriteAction(
        action=history.choose("", history.any_of(ACTION)), title=word, description=history.choose(None, word),
        status=history.choose(None, "done"), priority=history.choose(None, 3, 1.5), tags=history.choose(None, [word]),
        requires=history.choose([], [history.any_of(ACTION)]),
        edges=history.choose([], [ActionEdge(type="gated_by", target="act_x")], [_conflict(history)]),
        **_claims(history),
    )  # fmt: skip
    expected = history.choose(None, 1, 2) if command.action else None
    history.say(replace(command, expected_version=expected))


def _conflict(history: History) -> ActionEdge:
    return ActionEdge(type="conflicts_with", target=history.any_of(ACTION))


def claim(history: History) -> None:
    """Claim, renew, release or expire; with the token of the newest claim, or one that never was."""
    actions = history.of(Action)
    name = history.any_of(ACTION)
    token = history.choose("", *(action.token for action in actions)) or "1-0"
    seconds = history.choose(1, 86_400)
    command = history.choose(
        ClaimActions(actions=[name, history.any_of(ACTION)], lease_seconds=seconds, project=PROJECT, agent_id="ada"),
        ClaimActions(actions=[name], lease_seconds=seconds, project=PROJECT, agent_id="bob"),
        RenewClaim(action=name, token=token, lease_seconds=seconds, project=PROJECT),
        ReleaseClaim(action=name, token=token, project=PROJECT),
        ExpireClaim(action=name, token=token, holder="ada", project=PROJECT),
        WriteAction(action=name, token=token, status="done", project=PROJECT),
    )
    history.say(command)


def relate(history: History) -> None:
    command = Relate(
        source="mem_a", target=history.choose("mem_a", "mem_b"), relation="causes",
        confidence=history.choose(None, 0.25), remove=history.choose(False, False, True), **_claims(history),
    )  # fmt: skip
    history.say(command)


def commit(history: History) -> None:
    word = history.word()
    command = LinkCommit(
        commit=history.choose("9f1c", "77aa"),
        message=history.choose("", word),
        files=[word],
        session_id=history.choose("", "s1", "s2"),
        **_claims(history),
    )
    history.say(command)


def forget_one(history: History) -> None:
    """One document, or a condensed memory with what it stands for."""
    others = SupersededEvent | Tombstone | Summary | Session | Ledger
    names = [document.id for document in history.live.documents.values() if not isinstance(document, others)]
    if names:
        name = history.choose(*names)
        existing = history.live.documents[DocumentId(name)]
        together = [name, *existing.condensed] if isinstance(existing, Memory) and history.flag() else []
        session_id = existing.session_id if isinstance(existing, Observation) else ""
        history.forget(KINDS[name.partition("_")[0]], name, together, session_id)


def forget_some(history: History) -> None:
    """Documents and marks of one stream, as a user's are; of a mark the document it is about as well, or not."""
    session_id = history.choose("", "s1", "s2")
    names = [name for name, document in history.live.documents.items() if _stream_of(document) == session_id]
    chosen: list[str] = history.some(names, 5)
    if history.flag():
        marks = [history.live.documents[DocumentId(name)] for name in chosen]
        chosen += [
            mark.subject for mark in marks if isinstance(mark, SupersededEvent) and mark.was not in SESSION_TYPES
        ]
    if chosen:
        history.forget("user", "usr_1", list(dict.fromkeys(chosen)), session_id)


def forget_session(history: History) -> None:
    """A session and its observations, all of them at once, or the session a moment later."""
    sessions = history.of(Session)
    if sessions:
        session: Session = history.choose(*sessions)
        observations = [document.id for document in history.of(Observation) if document.session == session.id]
        observations += retired_of(history, session.id)
        if history.flag():
            history.forget("session", session.session_id, [session.id, *observations], session.session_id)
            return
        if observations:
            history.forget("session", session.session_id, observations, session.session_id)
        if history.flag():
            observe(history)
        history.forget("session", session.session_id, [session.id], session.session_id)


def retired_of(history: History, session: str) -> list[DocumentId]:
    """The observations that the ledgers of a session note."""
    ledgers = [document for document in history.of(Ledger) if document.session == session]
    return [entry.name for ledger in ledgers for entry in unpacked(ledger) if entry.is_observation]


def forget_retired(history: History) -> None:
    """A retired observation, or several of a session."""
    sessions = [document for document in history.of(Ledger) if retired_of(history, document.session)]
    if sessions:
        ledger: Ledger = history.choose(*sessions)
        names = history.some(retired_of(history, ledger.session), 3)
        history.forget("observation", names[0], names, ledger.session_id)


def forget_project(history: History) -> None:
    """Every session, then every document and mark of the project's own stream, in one event or several."""
    for session in history.of(Session):
        observations = [document.id for document in history.of(Observation) if document.session == session.id]
        observations += retired_of(history, session.id)
        history.forget("project", PROJECT, [*observations, session.id], session.session_id)
    names = [name for name, document in history.live.documents.items() if _stream_of(document) == ""]
    size = history.choose(1000, 3)
    for start in range(0, len(names), size):
        history.forget("project", PROJECT, names[start : start + size])


def _stream_of(document: Document) -> str | None:
    match document:
        case Observation() | Session() | Summary():
            return document.session_id
        case SupersededEvent(was=was, erased=erased):
            return None if erased or was in SESSION_TYPES else ""
        case Tombstone() | Ledger():
            return None
        case _:
            return ""


Step = Callable[[History], None]

SESSIONS: list[Step] = [observe, observe, compress, track, end_idle, summarise, retire, forget_session]
MEMORY_STEPS: list[Step] = [remember, remember, revise, show, confirm_memory, condense, condense]
WORK: list[Step] = [learn, learn, confirm, slot, act, act, claim, claim, relate, commit]
FORGETTING: list[Step] = [forget_one, forget_one, forget_some, History.repeat]
RETIRING: list[Step] = [observe, observe, retire, compress, track, forget_retired, forget_session, *FORGETTING]
EVERYTHING: list[Step] = [*SESSIONS, *MEMORY_STEPS, *WORK, *FORGETTING, forget_project]


@st.composite
def histories(draw: st.DrawFn, *, longest: int = 18) -> History:
    """A history of all nouns, or of some that meet each other more often."""
    steps = draw(
        st.sampled_from([EVERYTHING, RETIRING, SESSIONS + FORGETTING, MEMORY_STEPS + FORGETTING, WORK + FORGETTING])
    )
    history = History(draw)
    steps[0](history)
    for step in draw(st.lists(st.sampled_from(steps), min_size=longest // 3, max_size=longest)):
        step(history)
    return history
