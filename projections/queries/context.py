"""Compile a context for an agent: pinned slots, memories, lessons, profile, past sessions; what its query finds."""

import asyncio
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby, zip_longest
from typing import Annotated, Literal, TypeAlias, get_args
from xml.sax.saxutils import quoteattr

from msgspec import Meta, Struct
from msgspec.structs import replace

from ingest.commands.command import Name
from ingest.events.envelope import Trust
from ingest.events.lesson import EVERY_PROJECT
from ingest.ids import DocumentId
from ingest.log.position import Token
from ingest.names import DATA_NOT_INSTRUCTIONS, fenced, inert
from ingest.platform.clock import Clock, from_ms, system_clock, to_ms
from ingest.platform.partial import made_of_parts
from projections.compression.accounts import headline, prose
from projections.compression.compression import spoken
from projections.documents.access import Reader, may_read
from projections.documents.actions import Action, is_active, open_actions
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import IMPORTANT, Observation, session_observations
from projections.documents.sessions import Session, Summary, sessions, untold
from projections.documents.slots import Slot
from projections.documents.trust import is_data
from projections.queries.documents import DocumentReader, location_of
from projections.queries.lookup import FileChange, Lookup, key_scope
from projections.queries.profile import Profile
from projections.queries.profiles import ProjectProfiles
from projections.queries.recall import LeastSure, Recall, RecallRequest, TimeZone
from projections.queries.sessions import summaries_of
from projections.queries.work import Slots
from projections.search.index import IndexService

BlockKind = Literal["slot", "memories", "lessons", "actions", "session", "profile", "recall"]
MEMORIES = 10
LESSONS = 10
ACTIONS = 5
FIRST_LINES = 3
"""Of memories and of lessons, told before any session is."""
MORE = "More is known than this: recall answers questions in plain words."
MORE_FROM = 300
"""Tokens of a budget that has room for saying so."""
SESSION_OBSERVATIONS = 5
RECALL_SHARE = 0.4
"""Of the budget, for what recall found; the rest is for what the agent did not know to ask."""
LINE_CHARS = 400
PROFILE_ERRORS = 3

_KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
_OPENING = re.compile(
    r"\A(?:what )?(?:remain(?:s|ing)|(?:is )?(?:still )?(?:open|left)|to ?do|next steps?)\s*:\s*", re.IGNORECASE
)
"""What a sentence about open ends begins with, which its line says already."""


class Block(Struct, frozen=True):
    """One part of a context: what it is, its text, its estimated tokens, the documents it was made of."""

    kind: BlockKind
    title: str
    text: str
    tokens: int
    sources: list[str]


class ContextPart(Struct, frozen=True):
    """What may become a block: its lines and the documents they were made of.

    Of one that is `by_line` any lines may be told, each made of the source in its place, if it has sources.
    """

    kind: BlockKind
    title: str
    lines: list[str]
    sources: list[str]
    by_line: bool = False


class Context(Struct, frozen=True):
    """A compiled context. `left_out` names what did not fit: blocks, and how many lines of a block. `notes` say
    that nothing is found of the project."""

    context: str
    blocks: list[Block]
    tokens: int
    token_budget: int
    left_out: list[str]
    notes: list[str] = []


class Line(str):
    """A line of a context, and where it is from if it is data; empty for what the user or an agent stated."""

    origin = ""


_ORIGINS: dict[Trust, str] = {"tool_output": "a tool", "imported": "an import", "external": "the web"}


def line_of(text: str, trust: Trust, changed: Iterable[FileChange] = ()) -> Line:
    """A line of a trust class, with what was changed since of the files it names."""
    notes = ", ".join(map(str, changed))
    line = Line(f"{text} ({notes})" if text and notes else text)
    line.origin = _ORIGINS.get(trust, "")
    return line


def estimated_tokens(text: str) -> int:
    """Characters divided by three, rounded up, so that a budget holds (agentmemory's estimate)."""
    return math.ceil(len(text) / 3)


def part(
    kind: BlockKind, title: str, lines: Iterable[str], sources: Sequence[str], *, by_line: bool = False
) -> ContextPart | None:
    """A part of the lines that say something, in the order given; None for none."""
    content = [line for line in lines if line]
    return ContextPart(kind, inert(title), content, list(sources), by_line) if content else None


def compile_context(project: str, parts: Iterable[ContextPart | None], token_budget: int) -> Context:
    """The parts that fit, in order, in an envelope that names the project; never over the budget."""
    header, footer = f"<mnemolog-context project={quoteattr(project)}>", "</mnemolog-context>"
    if token_budget >= MORE_FROM:
        footer = f"\n{MORE}\n{footer}"
    offered = [candidate for candidate in parts if candidate is not None]
    taken: dict[int, set[int]] = {}
    text = ""
    for number, lines in _by_need(offered):
        tried = {**taken, number: taken.get(number, set[int]()).union(lines)}
        body = "\n\n".join(_text(offered[chosen], tried[chosen]) for chosen in sorted(tried))
        longer = "\n".join([header, DATA_NOT_INSTRUCTIONS, body, footer])
        if estimated_tokens(longer) <= token_budget:
            taken, text = tried, longer
    blocks: list[Block] = []
    left_out: list[str] = []
    for number, offer in enumerate(offered):
        lines = sorted(taken.get(number, ()))
        if number in taken:
            block = _text(offer, lines)
            sources = [offer.sources[line] for line in lines] if offer.by_line and offer.sources else offer.sources
            blocks.append(Block(offer.kind, offer.title, block, estimated_tokens(block), list(dict.fromkeys(sources))))
        if not lines:
            left_out.append(offer.title)
        elif len(lines) < len(offer.lines):
            left_out.append(f"{offer.title} ({len(lines)} of {len(offer.lines)} told)")
    return Context(text, blocks, estimated_tokens(text), token_budget, left_out)


def _by_need(offered: Sequence[ContextPart]) -> Iterator[tuple[int, Sequence[int]]]:
    """Numbers of parts with lines to include together or not at all, the most needed first."""
    numbers = {kind: [number for number, offer in enumerate(offered) if offer.kind == kind] for kind in _KINDS}
    yield from ((number, range(len(offered[number].lines))) for kind in ("recall", "slot") for number in numbers[kind])
    best = [
        [(number, [line]) for line in range(len(offered[number].lines))]
        for number in [*numbers["memories"], *numbers["lessons"]]
    ]
    alternating = [unit for unit in chain.from_iterable(zip_longest(*best)) if unit is not None]
    first = [(number, lines) for number, lines in alternating if lines[0] < FIRST_LINES]
    yield from first
    yield from _line_by_line(offered, [*numbers["session"][:1], *numbers["actions"]])
    yield from (unit for unit in alternating if unit not in first)
    yield from _line_by_line(offered, [*numbers["session"][1:], *numbers["profile"]])


def _line_by_line(offered: Sequence[ContextPart], numbers: Iterable[int]) -> Iterator[tuple[int, Sequence[int]]]:
    for number in numbers:
        lines = range(len(offered[number].lines))
        yield from ((number, [line]) for line in lines) if offered[number].by_line else [(number, lines)]


def _text(offer: ContextPart, lines: Collection[int]) -> str:
    """The lines below the title, data in fences that say where it is from."""
    text = [inert(f"## {offer.title}")]
    chosen = [offer.lines[line] for line in sorted(lines)]
    for origin, group in groupby(chosen, lambda line: getattr(line, "origin", "")):
        texts = list(group)
        text += fenced(origin, texts) if origin else map(inert, texts)
    return "\n".join(text)


Changes: TypeAlias = Mapping[str, Sequence[FileChange]]
"""What was changed since of the files that documents name, by document id."""
UNCHANGED: Changes = {}


def slot_block(slot: Slot) -> ContextPart | None:
    """A slot; the label of an imported one may say anything, so it is not shown."""
    title = "Imported note" if is_data(slot.trust) else slot.label
    return part("slot", title, [line_of(slot.content.strip(), slot.trust)], [slot.id])


def profile_block(profile: Profile | None) -> ContextPart | None:
    """What a project's work is like: conventions, recent errors; what its user prefers. No lists of names: they tell
    an agent nothing that it could act on."""
    if profile is None:
        return None
    listed = {
        "Conventions": profile.conventions,
        "Recent errors": profile.errors[:PROFILE_ERRORS],
        "Preferences": profile.preferences,
    }
    lines = [
        line_of(f"- {name}: {', '.join(values)}", "tool_output" if values is listed["Recent errors"] else "user_stated")
        for name, values in listed.items()
        if values
    ]
    return part("profile", "Project profile", lines, [], by_line=True)


def memories_block(memories: Sequence[Memory], changed: Changes = UNCHANGED) -> ContextPart | None:
    """The highest-ranked memories; original ones come before those derived from other documents."""
    ranked = sorted(memories, key=lambda memory: bool(memory.derived_from))[:MEMORIES]
    texts = {_short(spoken(memory.content)): memory for memory in reversed(ranked)}
    rows = [(text, memory) for text, memory in reversed(texts.items()) if text]
    lines = [line_of(f"- {text}", memory.trust, changed.get(memory.id, ())) for text, memory in rows]
    return part("memories", "Memories", lines, [memory.id for _, memory in rows], by_line=True)


def lessons_block(lessons: Sequence[Lesson], now: datetime, changed: Changes = UNCHANGED) -> ContextPart | None:
    """The most confident lessons, as ranked, with how confident they are now."""
    lines = [
        line_of(
            _short(
                f"- ({lesson.confidence_at(now):.2f}) {lesson.content}"
                + (f" - {lesson.context}" * bool(lesson.context))
            ),
            lesson.trust,
            changed.get(lesson.id, ()),
        )
        for lesson in lessons[:LESSONS]
    ]
    return part("lessons", "Lessons", lines, [lesson.id for lesson in lessons[:LESSONS]], by_line=True)


def actions_block(open_actions: Sequence[Action]) -> ContextPart | None:
    """What is still to be done, as listed, and who is at it."""
    first = open_actions[:ACTIONS]
    lines = [
        line_of(
            _short(
                f"- {action.title}" + f" ({action.assigned_to or action.agent_id} is at it)" * is_active(action.status)
            ),
            action.trust,
        )
        for action in first
    ]
    return part("actions", "Open actions", lines, [action.id for action in first], by_line=True)


def summary_block(began_at: datetime, summary: Summary) -> ContextPart | None:
    """What a past session came to, what it left to do, what was decided in it."""
    narrative = untold(summary.narrative, summary.told_by_tools)
    stated = [
        "" if narrative == summary.title else narrative,
        *(f"- remaining: {_OPENING.sub('', task)}" for task in summary.remaining),
        *(f"- decided: {decision}" for decision in summary.decisions),
    ]
    lines = [line_of(text, summary.trust) for text in stated if text]
    lines += [line_of(f"- {sentence}", "tool_output") for sentence in summary.told_by_tools]
    content = lines or [line_of(summary.title, summary.trust)]
    title = _dated(began_at, "" if is_data(summary.trust) else summary.title)
    return part("session", title, content, [summary.id] * len(content), by_line=True)


def session_block(began_at: datetime, title: str, observations: Iterable[Observation]) -> ContextPart | None:
    """What mattered in a past session: its most important observations, in the order they happened."""
    important = sorted(
        (observation for observation in observations if observation.importance >= IMPORTANT),
        key=lambda observation: (-observation.importance, observation.position),
    )[:SESSION_OBSERVATIONS]
    ordered = sorted(important, key=lambda observation: (observation.occurred_at, observation.position))
    lines = [line_of(_short(f"- {prose(row) or headline(row)}"), row.trust) for row in ordered]
    title = _dated(began_at, "" if any(row.trust == "imported" for row in ordered) else title)
    return part("session", title, lines, [observation.id for observation in ordered], by_line=True)


def _dated(at: datetime, title: str) -> str:
    return f"Session of {at:%Y-%m-%d}" + f": {title}" * bool(title)


def recall_block(query: str, results: Iterable[tuple[str, str]], token_budget: int) -> ContextPart | None:
    """What recall found for the query, `(document id, line)`, best first: as much as RECALL_SHARE of the budget."""
    lines: list[str] = []
    sources: list[str] = []
    room = token_budget * RECALL_SHARE
    for name, line in results:
        room -= estimated_tokens(line) + 1
        if room < 0:
            break
        lines.append(line)
        sources.append(name)
    return part("recall", f"About: {' '.join(query.split())[:80]}", lines, sources)


def _short(text: str) -> str:
    return " ".join(text.split())[:LINE_CHARS]


PAST_SESSIONS = 10
OBSERVATIONS_READ = 20
"""Of each past session without a summary, its newest."""
RECALLED = 15
ACTIONS_READ = 20
"""The newest open ones, of which the most urgent are listed."""
NOT_SEARCHED = ("slot", "actions", "session")
"""Parts of a context that a project may have without any document that recall finds."""
SPARE = 3
"""Times the memories told that are looked at: those that were made of other documents give way."""


class ContextRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For whom to compile, and how much room there is. `min_confidence` and `time_zone` are recall's, of `query`."""

    project: Name
    session_id: Name = ""
    user_id: Name = ""
    query: Annotated[str, Meta(max_length=20_000)] = ""
    token_budget: Annotated[int, Meta(ge=1, le=200_000)] = 2000
    agent_id: Name = ""
    min_confidence: LeastSure = None
    time_zone: TimeZone = ""
    after: str = ""


class Compile:
    """Answers context requests."""

    def __init__(
        self,
        index: IndexService,
        documents: DocumentReader,
        recall: Recall,
        profiles: ProjectProfiles,
        clock: Clock = system_clock,
    ) -> None:
        self._index, self._documents, self._recall = index, documents, recall
        self._lookup = Lookup(index, documents, clock)
        self._slots, self._profiles, self._clock = Slots(documents, self._lookup), profiles, clock

    async def __call__(self, request: ContextRequest, reader: Reader) -> Context:
        """The context for a request; raises ProjectionBehind when `after` is not projected in time."""
        if request.after:
            await self._index.wait_for(Token.parse(request.after))
        with made_of_parts(range(self._documents.partitions)):
            (slots, memories, lessons), (actions, past), ((profile, _), recalled) = await asyncio.gather(
                asyncio.gather(
                    self._slots.of_project(reader, request.project),
                    self._memories(request, reader),
                    self._lessons(request, reader),
                ),
                asyncio.gather(self._actions(request, reader), self._sessions(request, reader)),
                asyncio.gather(
                    self._profiles.of(reader, request.project, request.user_id), self._recalled(request, reader)
                ),
            )
            pinned = [slot_block(slot) for slot in slots if slot.pinned]
            parts = [*pinned, memories, lessons, actions, profile_block(profile), *past, recalled]
            unsearched = any(candidate and candidate.kind in NOT_SEARCHED for candidate in parts)
            notes = await self._lookup.unknown(reader, [] if unsearched else [request.project])
            return replace(compile_context(request.project, parts, request.token_budget), notes=notes)

    async def _memories(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        """The memories that matter most, of the project and of none; where there is a query it says which matter."""
        if request.query.strip():
            return None
        allowed = key_scope(reader, projects=list(dict.fromkeys([request.project, ""])))
        now_ms, count = to_ms(self._clock()), SPARE * MEMORIES
        best = await self._index.ask(lambda index: index.notable_memories(allowed, request.project, now_ms, count))
        memories = await self._documents.readable(best, reader, Memory)
        return memories_block(memories, await self._lookup.changed_since(memories, reader))

    async def _lessons(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        now = self._clock()
        allowed = key_scope(reader, projects=[request.project, EVERY_PROJECT])
        best = await self._index.ask(
            lambda index: index.lessons_by_confidence(allowed, request.project, to_ms(now), LESSONS)
        )
        locations = [(lesson.partition, DocumentId(lesson.id)) for lesson in best]
        lessons = await self._documents.readable(locations, reader, Lesson)
        return lessons_block(lessons, now, await self._lookup.changed_since(lessons, reader))

    async def _actions(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        listing = open_actions(reader.tenant, request.project)
        page = await self._documents.newest(listing, reader, request.project, None, ACTIONS_READ, at_home=True)
        actions = [located.document for located in page.documents if isinstance(located.document, Action)]
        return actions_block(sorted(actions, key=lambda action: (not is_active(action.status), -action.priority)))

    async def _sessions(self, request: ContextRequest, reader: Reader) -> list[ContextPart | None]:
        page = await self._documents.page(
            sessions(reader.tenant, request.project), range(self._documents.partitions), limit=PAST_SESSIONS + 1
        )
        past = [
            (partition, session)
            for partition, session in page.documents
            if isinstance(session, Session) and session.session_id != request.session_id and may_read(session, reader)
        ][:PAST_SESSIONS]
        summaries = await summaries_of(self._documents, past, reader)
        observations = await self._newest_observations([row for row in past if row[1].id not in summaries], reader)
        return [
            summary_block(from_ms(session.started_ms), summaries[session.id])
            if session.id in summaries
            else session_block(from_ms(session.started_ms), session.title, observations.get(session.id, []))
            for _, session in past
        ]

    async def _newest_observations(
        self, past: Sequence[tuple[int, Session]], reader: Reader
    ) -> dict[str, list[Observation]]:
        listings = [(session_observations(session.id), partition) for partition, session in past]
        rows = await self._documents.ranges(listings, limit=OBSERVATIONS_READ, newest_first=True)
        located = [
            (session.id, location_of(partition, member))
            for (partition, session), row in zip(past, rows, strict=True)
            for member in row
        ]
        documents = await self._documents.get([location for _, location in located])
        newest: dict[str, list[Observation]] = {}
        for (session_id, _), document in zip(located, documents, strict=True):
            if isinstance(document, Observation) and may_read(document, reader):
                newest.setdefault(session_id, []).append(document)
        return newest

    async def _recalled(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        if not request.query.strip():
            return None
        requested = RecallRequest(
            query=request.query,
            project=request.project,
            limit=RECALLED,
            min_confidence=request.min_confidence,
            time_zone=request.time_zone,
        )
        answer = await self._recall(requested, reader)
        lines = [
            (row.id, line_of(_short(f"- ({row.occurred_at:%Y-%m-%d}) {row.snippet}"), row.trust, row.changed_since))
            for row in answer.results
        ]
        return recall_block(request.query, lines, request.token_budget)
