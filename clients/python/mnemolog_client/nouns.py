"""The native HTTP API by noun. Each method describes one call; `calls.py` says what becomes of the description.

A method named `list` stands last in its class: above it, `list` is Python's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Unpack

import msgspec

from mnemolog_client import answers
from mnemolog_client.calls import (
    Awaiting,
    Blocking,
    Call,
    Feed,
    Listing,
    Noun,
    Polled,
    ask,
    ask_items,
    encoded,
    events_behind,
    get,
    get_items,
    listing,
    new_event_id,
    or_none,
    pages,
    part,
    remote,
    taking,
    unnamed_write,
    write,
    write_bare,
)
from mnemolog_client.fields import (
    ActionChanges,
    ContextOptions,
    FeedbackOptions,
    InTime,
    LessonChanges,
    MemoryChanges,
    OfAction,
    OfLesson,
    OfMemory,
    OfObservation,
    OfSlot,
    RecallOptions,
    SessionEnd,
    SessionStart,
    Verdict,
)
from mnemolog_client.position import Position

S = TypeVar("S", bound=Blocking | Awaiting, covariant=True)

NDJSON = "application/x-ndjson"


class Memories(Noun[S]):
    """What is worth keeping: versions, readers, history."""

    @remote
    def create(self, content: str, **fields: Unpack[OfMemory]) -> Call[answers.RememberAnswer]:
        """Keep something. It supersedes the agent's latest memory of the project that states the same."""
        return write("/v1/memories", answers.RememberAnswer, {"content": content, **fields})

    @remote
    def get(self, memory: str) -> Call[answers.Memory]:
        """One version, superseded or not."""
        return get(f"/v1/memories/{part(memory)}", answers.Memory)

    @remote
    def revise(self, memory: str, **changes: Unpack[MemoryChanges]) -> Call[answers.Applied]:
        """Change a memory: a new version, whose id is answered, or only who may read it.

        VersionConflict, and no change, if it is not at the `expected_version`.
        """
        return write(f"/v1/memories/{part(memory)}", answers.Applied, changes, "PATCH")

    @remote
    def delete(self, memory: str, *, reason: str | None = None, event_id: str | None = None) -> Call[answers.Accepted]:
        """Forget a memory with its earlier versions and what was derived from it, for good."""
        return _delete("memories", memory, reason, event_id)

    @remote
    def history(self, memory: str) -> Call[list[answers.Memory]]:
        """Every version, oldest first, whichever of them is named."""
        return get_items(f"/v1/memories/{part(memory)}/history", answers.Memory)

    @listing
    def list(
        self, project: str = "", *, latest: bool | None = None, page_size: int | None = None, **times: Unpack[InTime]
    ) -> Listing[answers.Memory]:
        """A project's memories, newest first; with `latest`, current versions only."""
        return pages("/v1/memories", answers.Memory, project=project, latest=latest, limit=page_size, **times)


class Observations(Noun[S]):
    """What agents saw or did."""

    @remote
    def create(self, session_id: str, content: str = "", **fields: Unpack[OfObservation]) -> Call[answers.Accepted]:
        """Record what an agent saw or did: `content`, or `data` of a tool call, or both."""
        return write("/v1/observations", answers.Accepted, {**fields, "session_id": session_id, "content": content})

    @remote
    def get(self, observation: str) -> Call[answers.Observation]:
        """One observation."""
        return get(f"/v1/observations/{part(observation)}", answers.Observation)

    @remote
    def delete(
        self, observation: str, *, reason: str | None = None, event_id: str | None = None
    ) -> Call[answers.Accepted]:
        """Forget an observation and what was derived from it, for good."""
        return _delete("observations", observation, reason, event_id)

    @listing
    def list(
        self, project: str = "", *, page_size: int | None = None, **times: Unpack[InTime]
    ) -> Listing[answers.Observation]:
        """A project's observations by when they happened, newest first."""
        return pages("/v1/timeline", answers.Observation, project=project, limit=page_size, **times)


class Lessons(Noun[S]):
    """What was learned; confidence grows with each confirmation and fades without."""

    @remote
    def create(self, content: str, **fields: Unpack[OfLesson]) -> Call[answers.Accepted]:
        """State a lesson; the same text in the same project is the same lesson and raises its confidence."""
        return write("/v1/lessons", answers.Accepted, {"content": content, **fields})

    @remote
    def get(self, lesson: str) -> Call[answers.Lesson]:
        """One lesson, retired or not."""
        return get(f"/v1/lessons/{part(lesson)}", answers.Lesson)

    @remote
    def revise(self, lesson: str, **changes: Unpack[LessonChanges]) -> Call[answers.Applied]:
        """Edit a lesson; with `active` false it is no longer found. VersionConflict as for memories."""
        return write(f"/v1/lessons/{part(lesson)}", answers.Applied, changes, "PATCH")

    @remote
    def reinforce(self, lesson: str, *, event_id: str | None = None) -> Call[answers.Accepted]:
        """Say that a lesson proved right again."""
        return write_bare("POST", f"/v1/lessons/{part(lesson)}/reinforce", answers.Accepted, event_id=event_id)

    @remote
    def trigger(self, lesson: str, *, event_id: str | None = None) -> Call[answers.Accepted]:
        """Count that a lesson was shown to an agent."""
        return write_bare("POST", f"/v1/lessons/{part(lesson)}/trigger", answers.Accepted, event_id=event_id)

    @remote
    def delete(self, lesson: str, *, reason: str | None = None, event_id: str | None = None) -> Call[answers.Accepted]:
        """Forget a lesson, for good."""
        return _delete("lessons", lesson, reason, event_id)

    @remote
    def search(
        self,
        query: str,
        *,
        project: str | None = None,
        min_confidence: float | None = None,
        limit: int | None = None,
    ) -> Call[list[answers.FoundLesson]]:
        """Lessons about a query, best first. What was just written may not be found yet."""
        asked = {"query": query, "project": project, "min_confidence": min_confidence, "limit": limit}
        return ask_items("/v1/lessons/search", answers.FoundLesson, asked)

    @remote
    def match(
        self, tool_name: str, *, preview: str | None = None, project: str | None = None, limit: int | None = None
    ) -> Call[list[answers.Lesson]]:
        """The lessons to show before a tool is used, the most severe first. `preview` is what it is given."""
        return get_items(
            "/v1/lessons/match", answers.Lesson, tool_name=tool_name, preview=preview, project=project, limit=limit
        )

    @remote
    def surest(
        self,
        *,
        project: str | None = None,
        origin: str | None = None,
        min_confidence: float | None = None,
        limit: int | None = None,
    ) -> Call[list[answers.SureLesson]]:
        """The surest lessons, with how sure they are now."""
        return get_items(
            "/v1/lessons/surest",
            answers.SureLesson,
            project=project,
            origin=origin,
            min_confidence=min_confidence,
            limit=limit,
        )

    @listing
    def list(
        self, project: str = "", *, retired: bool | None = None, page_size: int | None = None, **times: Unpack[InTime]
    ) -> Listing[answers.Lesson]:
        """A project's lessons, newest first; with `retired`, those that have faded, too."""
        return pages("/v1/lessons", answers.Lesson, project=project, retired=retired, limit=page_size, **times)


class Sessions(Noun[S]):
    """One agent's work from its beginning to its end. An observation opens its session automatically."""

    @remote
    def start(self, session_id: str, **fields: Unpack[SessionStart]) -> Call[answers.Accepted]:
        """Say that a session started."""
        return write("/v1/sessions", answers.Accepted, {**fields, "session_id": session_id, "status": "started"})

    @remote
    def end(self, session_id: str, **fields: Unpack[SessionEnd]) -> Call[answers.Accepted]:
        """Say that a session ended; its summary is made automatically."""
        return write("/v1/sessions", answers.Accepted, {**fields, "session_id": session_id, "status": "ended"})

    @remote
    def get(self, session_id: str, *, project: str | None = None) -> Call[answers.Session]:
        """One session."""
        return get(f"/v1/sessions/{part(session_id)}", answers.Session, project=project)

    @remote
    def story(self, session_id: str, *, project: str | None = None) -> Call[answers.SessionStory]:
        """What the session came to so far: decisions in force, open work, and its newest exchanges."""
        return get(f"/v1/sessions/{part(session_id)}/story", answers.SessionStory, project=project)

    @remote
    def summary(self, session_id: str, *, project: str | None = None) -> Call[answers.Summary]:
        """The summary of a session; NotFound until it exists."""
        return get(f"/v1/sessions/{part(session_id)}/summary", answers.Summary, project=project)

    @remote
    def summarise(self, session_id: str, *, project: str | None = None) -> Call[answers.SummaryMade]:
        """Make the summary of a session now."""
        return unnamed_write("POST", f"/v1/sessions/{part(session_id)}/summary", answers.SummaryMade, project=project)

    @listing
    def observations(
        self,
        session_id: str,
        *,
        project: str | None = None,
        page_size: int | None = None,
        **times: Unpack[InTime],
    ) -> Listing[answers.Observation]:
        """What was observed in a session, in the order it was recorded."""
        path = f"/v1/sessions/{part(session_id)}/observations"
        return pages(path, answers.Observation, project=project, limit=page_size, **times)

    @remote
    def delete(
        self,
        session_id: str,
        *,
        project: str | None = None,
        reason: str | None = None,
        event_id: str | None = None,
    ) -> Call[answers.Forgotten]:
        """Forget a session with its observations, its summary and what was made of them, for good."""
        path = f"/v1/sessions/{part(session_id)}"
        return write_bare("DELETE", path, answers.Forgotten, project=project, reason=reason, event_id=event_id)

    @listing
    def list(
        self, project: str | None = None, *, page_size: int | None = None, **times: Unpack[InTime]
    ) -> Listing[answers.Session]:
        """Sessions of a project, or of all, the most recently active first."""
        return pages("/v1/sessions", answers.Session, project=project, limit=page_size, **times)


class Slots(Noun[S]):
    """Small named texts that agents keep in view."""

    @remote
    def set(self, label: str, content: str, **fields: Unpack[OfSlot]) -> Call[answers.Applied]:
        """Create a slot or replace its text; Conflict when `overwrite` is false and there is one.

        VersionConflict if it is not at the `expected_version`; a slot that does not exist is at 0.
        """
        return write("/v1/slots", answers.Applied, {**fields, "label": label, "content": content})

    @remote
    def append(
        self,
        label: str,
        line: str,
        *,
        project: str | None = None,
        scope: Literal["project", "global"] | None = None,
        event_id: str | None = None,
    ) -> Call[answers.Accepted]:
        """Add a line to a slot."""
        said = {"label": label, "content": line, "append": True}
        return write("/v1/slots", answers.Accepted, {**said, "project": project, "scope": scope, "event_id": event_id})

    @remote
    def get(self, label: str, *, project: str = "") -> Call[answers.Slot]:
        """The slot of a project, else the global one of that label."""
        return get(f"/v1/slots/{part(label)}", answers.Slot, project=project)

    @remote
    def delete(
        self, label: str, *, project: str = "", scope: Literal["project", "global"] | None = None
    ) -> Call[answers.Accepted]:
        """Remove a slot."""
        return unnamed_write("DELETE", f"/v1/slots/{part(label)}", answers.Accepted, project=project, scope=scope)

    @remote
    def list(self, project: str = "") -> Call[list[answers.Slot]]:
        """A project's slots and the global ones, by label."""
        return get_items("/v1/slots", answers.Slot, project=project)


class Actions(Noun[S]):
    """Work items that agents share."""

    @remote
    def create(self, title: str, **fields: Unpack[OfAction]) -> Call[answers.Accepted]:
        """Write down a work item."""
        return write("/v1/actions", answers.Accepted, {"title": title, **fields})

    @remote
    def update(self, action: str, **changes: Unpack[ActionChanges]) -> Call[answers.Applied]:
        """Change a work item: its status, who does it, what came of it.

        StaleToken, and no change, if the `token` is not that of a valid claim; VersionConflict as for memories.
        """
        return write(f"/v1/actions/{part(action)}", answers.Applied, changes, "PATCH")

    @remote
    def claim(
        self, action: str, *, lease_seconds: int | None = None, event_id: str | None = None
    ) -> Call[answers.Claim]:
        """Claim a work item, so that no other agent works on it before the claim's `expires_at`.

        AlreadyClaimed while an agent holds it, this one included; Conflict if it is finished or not ready.
        """
        return _claim(f"/{part(action)}/claim", lease_seconds=lease_seconds, event_id=event_id)

    @remote
    def claim_next(
        self,
        project: str = "",
        *,
        labels: Sequence[str] | None = None,
        lease_seconds: int | None = None,
        event_id: str | None = None,
    ) -> Call[answers.Claim | None]:
        """Claim the best free work item of a project, with any of the labels as a tag; None if none is free."""
        options = {"labels": labels, "lease_seconds": lease_seconds, "event_id": event_id}
        return or_none(_claim("/claim_next", project=project, **options), "nothing_to_claim")

    @remote
    def renew(
        self, action: str, token: str, *, lease_seconds: int | None = None, event_id: str | None = None
    ) -> Call[answers.Claim]:
        """Have a claim end `lease_seconds` from now; StaleToken if it has ended."""
        return _claim(f"/{part(action)}/renew", token=token, lease_seconds=lease_seconds, event_id=event_id)

    @remote
    def release(self, action: str, token: str, *, event_id: str | None = None) -> Call[answers.Applied]:
        """End a claim, unfinished; StaleToken if it has ended."""
        return _with_token(action, "release", token, event_id=event_id)

    @remote
    def complete(
        self,
        action: str,
        token: str,
        result: str | None = None,
        *,
        status: str | None = None,
        event_id: str | None = None,
    ) -> Call[answers.Applied]:
        """Finish a claimed work item; StaleToken, and no change, if the claim has ended."""
        return _with_token(action, "complete", token, result=result, status=status, event_id=event_id)

    @remote
    def get(self, action: str) -> Call[answers.Action]:
        """One work item, with its edges."""
        return get(f"/v1/actions/{part(action)}", answers.Action)

    @remote
    def delete(self, action: str, *, reason: str | None = None, event_id: str | None = None) -> Call[answers.Accepted]:
        """Forget a work item, for good."""
        return _delete("actions", action, reason, event_id)

    @listing
    def list(
        self, project: str = "", *, open: bool | None = None, page_size: int | None = None, **times: Unpack[InTime]
    ) -> Listing[answers.Action]:
        """A project's work items, newest first; with `open`, those still to be done."""
        return pages("/v1/actions", answers.Action, project=project, open=open, limit=page_size, **times)


class Receipts(Noun[S]):
    """What became of requests to forget."""

    @remote
    def get(self, receipt: str) -> Call[answers.Receipt]:
        """The receipt as it is now."""
        return _receipt(receipt)

    @remote
    def wait(self, receipt: str, *, timeout_s: float = 60.0) -> Polled[answers.Receipt]:
        """The receipt once everything is forgotten; Unavailable when that takes longer."""
        return Polled(_receipt(receipt), lambda one: one.status == "done", timeout_s)

    @listing
    def list(self, *, page_size: int | None = None, **times: Unpack[InTime]) -> Listing[answers.Receipt]:
        """All receipts, newest first."""
        return pages("/v1/forget", answers.Receipt, waits=False, limit=page_size, **times)


class Root(Noun[S]):
    """All calls, those of no noun directly."""

    def __init__(self, transport: S, position: Position, agent: str) -> None:
        super().__init__(transport)
        self.agent = agent
        self._position = position
        self.memories = Memories[S](transport)
        self.observations = Observations[S](transport)
        self.lessons = Lessons[S](transport)
        self.sessions = Sessions[S](transport)
        self.slots = Slots[S](transport)
        self.actions = Actions[S](transport)
        self.receipts = Receipts[S](transport)

    @property
    def position(self) -> str:
        """What this client wrote, and its reads wait for, as text: for another process, or for later."""
        return str(self._position)

    def advance(self, position: str) -> None:
        """Have reads also wait for what another client wrote: its `position`."""
        self._position.include(position)

    @remote
    def add(self, text: str, **fields: Unpack[OfMemory]) -> Call[answers.RememberAnswer]:
        """Keep something; as `memories.create`."""
        return write("/v1/memories", answers.RememberAnswer, {"content": text, **fields})

    @remote
    def search(self, query: str, **options: Unpack[RecallOptions]) -> Call[list[answers.RecallResult]]:
        """The results of `recall` alone, best first. Logs a warning if they may be incomplete."""
        return taking(_recall(query, options), answers.results_of)

    @remote
    def recall(self, query: str, **options: Unpack[RecallOptions]) -> Call[answers.Recalled]:
        """What is known that answers a query, best first; nothing where nothing known is an answer."""
        return _recall(query, options)

    @remote
    def context(self, project: str, **options: Unpack[ContextOptions]) -> Call[answers.Context]:
        """What an agent should know before it starts, within a token budget."""
        return ask("/v1/context", answers.Context, {"project": project, **options})

    @remote
    def confirm(self, ids: Sequence[str], *, event_id: str | None = None) -> Call[answers.Confirmed]:
        """Say which memories and lessons proved right, or were relied on."""
        return write("/v1/confirm", answers.Confirmed, {"ids": ids, "event_id": event_id})

    @remote
    def feedback(
        self, verdict: Verdict, ids: Sequence[str] = (), **options: Unpack[FeedbackOptions]
    ) -> Call[answers.Feedback]:
        """Judge memories and lessons that this agent was given: by id, or all of the answer `recall_id`."""
        return write("/v1/feedback", answers.Feedback, {"verdict": verdict, "ids": ids, **options})

    @remote
    def frontier(
        self, *, project: str | None = None, agent_id: str | None = None, limit: int | None = None
    ) -> Call[answers.Frontier]:
        """What can be done now: actions that nothing blocks and no other agent works on, most urgent first."""
        return get("/v1/frontier", answers.Frontier, project=project, agent_id=agent_id, limit=limit)

    @listing
    def projects(self, *, page_size: int | None = None) -> Listing[answers.Project]:
        """The projects that something is found of, by name."""
        return pages("/v1/projects", answers.Project, limit=page_size)

    @listing
    def agents(self, project: str | None = None, *, page_size: int | None = None) -> Listing[answers.Agent]:
        """The agents that something is found of, in a project or in all, by name."""
        return pages("/v1/agents", answers.Agent, project=project, limit=page_size)

    @remote
    def batch(self, commands: Iterable[Mapping[str, Any]]) -> Call[answers.BatchAccepted]:
        """Many commands at once, each with a `type`: at most 10,000, and 16 MiB. A bad one is rejected alone."""
        named = [{**command, "event_id": command.get("event_id") or new_event_id()} for command in commands]
        return batch_of([encoded(command) for command in named])

    @remote
    def forget(
        self,
        kind: Literal["session", "user", "project"],
        subject: str,
        *,
        project: str | None = None,
        reason: str | None = None,
    ) -> Call[answers.Receipt]:
        """Have everything of a subject forgotten, everywhere; `receipts.wait` returns when that is done."""
        asked = {"kind": kind, "subject": subject, "project": project, "reason": reason}
        return ask("/v1/forget", answers.Receipt, asked, waits=False)

    @listing
    def events(
        self,
        after: str = "",
        *,
        type: str | None = None,
        project: str | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        partition: int | None = None,
        page_size: int | None = None,
        **times: Unpack[InTime],
    ) -> Listing[answers.Event]:
        """The log behind a position, up to its head, partition after partition.

        To go on later, collect the events' positions in a `Position` and pass its text as `after`.
        """
        return events_behind(
            "/v1/events",
            after,
            type=type,
            project=project,
            session_id=session_id,
            agent_id=agent_id,
            partition=partition,
            limit=page_size,
            **times,
        )

    @listing
    def live(
        self,
        after: str = "",
        *,
        type: str | None = None,
        project: str | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
    ) -> Feed[answers.LiveEvent]:
        """Events as soon as they can be read, from now on or behind `after`; it waits for more and does not end.

        A lost connection is made again without losing or repeating an event. Raises a MnemologError when that fails
        as often as `Retry` allows.
        """
        query = {"type": type, "project": project, "session_id": session_id, "agent_id": agent_id}
        return Feed(get("/v1/live", answers.LiveEvent, waits=False, after=after or None, **query))

    @remote
    def health(self) -> Call[answers.Health]:
        """Whether the server's reads and writes work; an answer also where they do not."""
        return Call(method="GET", path="/readyz", read=answers.health_of, also_answers=frozenset({503}))


def batch_of(lines: Sequence[bytes]) -> Call[answers.BatchAccepted]:
    """The batch of commands that are encoded already, and have their event ids."""
    return Call(
        method="POST",
        path="/v1/events",
        read=lambda content: msgspec.json.decode(content, type=answers.BatchAccepted),
        content=b"\n".join(lines),
        content_type=NDJSON,
        position_of=lambda answer: answer.position,
    )


def _recall(query: str, options: RecallOptions) -> Call[answers.Recalled]:
    named = {{"since": "from", "until": "to"}.get(name, name): value for name, value in options.items()}
    return ask("/v1/recall", answers.Recalled, {"query": query, **named})


def _receipt(receipt: str) -> Call[answers.Receipt]:
    return get(f"/v1/forget/{part(receipt)}", answers.Receipt, waits=False)


def _claim(way: str, **fields: Any) -> Call[answers.Claim]:
    return write(f"/v1/actions{way}", answers.Claim, fields)


def _with_token(action: str, way: str, token: str, **fields: Any) -> Call[answers.Applied]:
    return write(f"/v1/actions/{part(action)}/{way}", answers.Applied, {"token": token, **fields})


def _delete(collection: str, name: str, reason: str | None, event_id: str | None) -> Call[answers.Accepted]:
    path = f"/v1/{collection}/{part(name)}"
    return write_bare("DELETE", path, answers.Accepted, reason=reason, event_id=event_id)
