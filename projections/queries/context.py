"""Compile a context for an agent: what its query finds, pinned slots, memories, lessons, past sessions, profile."""

import asyncio
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import chain, groupby, zip_longest
from typing import Annotated, Literal, TypeAlias, get_args
from xml.sax.saxutils import quoteattr

from msgspec import Meta, Struct
from msgspec.structs import astuple, replace

from ingest.events.envelope import Trust
from ingest.ids import DocumentId
from ingest.log.position import Token, partition_of
from ingest.names import DATA_NOT_INSTRUCTIONS, fenced, inert, visible
from ingest.nouns.command import EVERY_PROJECT, Name
from ingest.platform.clock import Clock, from_ms, system_clock, to_ms
from ingest.platform.partial import made_of_parts
from projections.index.protocol import IndexService
from projections.nouns.access import Reader, may_read
from projections.nouns.action import Action, is_active, open_actions
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import IMPORTANT, Observation, session_observations
from projections.nouns.session import Session, Summary, untold, work_sessions
from projections.nouns.slot import Slot
from projections.nouns.trust import is_data
from projections.queries.documents import DocumentReader
from projections.queries.lookup import FileChange, Lookup, key_scope
from projections.queries.profile import Profile
from projections.queries.profiles import ProjectProfiles
from projections.queries.recall import (
    LeastSure,
    Recall,
    RecallRequest,
    RecallResult,
    TimeZone,
)
from projections.queries.rules import rules_for
from projections.queries.session import find_session, summaries_of, turns_of
from projections.queries.work import Actions, Slots
from projections.store.read_ledger import NoteRead, unnoted
from projections.text.accounts import headline, story_turn
from projections.text.compression import spoken
from projections.text.sentences import best, closed, is_courtesy, shortened
from projections.text.story import story_of
from projections.text.tokens import estimated_tokens

BlockKind = Literal[
    "rules", "claimed", "story", "slot", "memories", "lessons", "actions", "session", "profile", "recall", "wishes"
]
OWN_SESSION = "This session so far"
RULES, WISHES = 20, 3
"""Told of the rules in force, besides the mandatory ones, and of those that a user stated once."""
MEMORIES = 10
LESSONS = 10
ACTIONS = 5
CLAIMED = 10
"""Claims of other agents on files."""
FIRST_LINES = 3
"""Of memories and of lessons, told before any session is."""
MORE = "This is a sample of what is known: recall answers questions in plain words."
MORE_FROM = 300
"""Tokens of a budget that has room for saying so."""
CALLS, OBSERVATIONS_READ = 5, 20
"""Tool calls told of a session without a summary, of its newest observations."""
EXCHANGES = 10
"""Told of a session without a summary, the newest."""
WARNINGS = 5
"""Lessons of the severities SEVERE, told of a session that continues."""
SEVERE = ("critical", "warning")
NEAREST = 3
"""Results of a query whose subject is probably not recorded."""
ABOUT_QUERY, NEAREST_TO_QUERY = "About your query", "Probably not recorded; nearest to your query"
LINE_CHARS = 400
OUTCOME_CHARS = 200
"""Of an earlier session, which has one line."""
PROFILE_ERRORS = 3
FILES_LISTED = 5
"""Lines of a slot that are nothing but a path; longer lists of them are left out."""
MISSES = 10
"""After so many lines that do not fit, no more are tried: their tokens would be counted for nothing."""

_OPENING = re.compile(
    r"\A(?:what )?(?:remain(?:s|ing)|(?:is )?(?:still )?(?:open|left)|to ?do|next steps?)\s*:\s*", re.IGNORECASE
)
"""What a sentence about open ends begins with, which its line says already."""
_LEAD = re.compile(r"\A(?:- (?:\([^()]*\) )?(?:(?:remaining|decided|warning): )?|Session of [\d-]+: )")
"""The beginning of a line or title, before the text of its document."""
_SENTENCE_GAP = re.compile(r"(?<=[.!?…])\s+(?=\S)|(?<=[。！？])(?=\S)")
_PATH = re.compile(r"\s*(?:[-*] )?`?[\w.@~-]*(?:[/\\][\w.@~-]+)+/?`?\s*")


class Block(Struct, frozen=True):
    """One part of a context: what it is, its text, its tokens, the documents it was made of."""

    kind: BlockKind
    title: str
    text: str
    tokens: int
    sources: list[str]


class ContextPart(Struct, frozen=True):
    """What may become a block: its lines, any of which it may have, and the document that each was made of, or ""."""

    kind: BlockKind
    title: str
    lines: "list[Line]"
    sources: list[str]


class Context(Struct, frozen=True):
    """A compiled context. `left_out` names what did not fit: blocks, and how many lines of a block. `notes` say
    that nothing is found of the project."""

    context: str
    blocks: list[Block]
    tokens: int
    token_budget: int
    left_out: list[str]
    notes: list[str] = []
    recall_id: str = ""


class Line(str):
    """A line of a context; where it is from if it is data, else empty; and what changed since of the files it names."""

    origin = note = ""


_ORIGINS: dict[Trust, str] = {"tool_output": "a tool", "imported": "an import", "external": "the web"}


def line_of(text: str, trust: Trust, changed: Iterable[FileChange] = ()) -> Line:
    """A line of a trust class, with what was changed since of the files it names."""
    notes, line = ", ".join(map(str, changed)), Line(text)
    line.origin, line.note = _ORIGINS.get(trust, ""), f" ({notes})" if notes else ""
    return line


def _by_origin(lines: Iterable[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Consecutive lines of one origin, with it."""
    for origin, group in groupby(lines, lambda line: line.origin):
        yield origin, list(group)


def part(kind: BlockKind, title: str, lines: Iterable[str], sources: Iterable[str]) -> ContextPart | None:
    """A part of the lines that say something, in the order given; None for none."""
    content = [line if isinstance(line, Line) else Line(line) for line in lines if line]
    return ContextPart(kind, _inert(title), content, list(sources)) if content else None


def _inert(line: str) -> str:
    """A line without our markers, or the beginning of one that the next line would complete."""
    return inert(f"{line}mnemolog-").removesuffix("mnemolog-")


def compile_context(
    project: str, parts: Iterable[ContextPart | None], token_budget: int, count: Callable[[str], int] = estimated_tokens
) -> Context:
    """The lines that fit, in order, in an envelope that names the project; never over the budget.

    A sentence is shown once, where it is needed most; again outside of a fence if it stood only in one. Data is in
    fences that say where it is from. `count` gives the tokens of a text.
    """
    header, footer = f"<mnemolog-context project={quoteattr(visible(project))}>", "</mnemolog-context>"
    if token_budget >= MORE_FROM:
        footer = f"\n{MORE}\n{footer}"
    offered = [candidate for candidate in parts if candidate is not None]
    chosen: dict[int, dict[int, Line]] = {}
    costs, repeated = Counter[int](), Counter[int]()
    seen, stated = set[str](), set[str]()
    fence = {origin: count("\n".join([*fenced(origin, []), ""])) for origin in _ORIGINS.values()}

    def fences(lines: Iterable[Line]) -> int:
        return sum(fence[origin] for origin, _ in _by_origin(lines) if origin)

    room = token_budget - count("\n".join([header, DATA_NOT_INSTRUCTIONS, footer]))
    misses = 0
    for number, line in _by_need(offered):
        if misses == MISSES:
            break
        title, whole, before = offered[number].title, offered[number].lines[line], chosen.get(number, {})
        text = _news(whole, seen if whole.origin else stated)
        after = dict(sorted({**before, line: text}.items()))
        heading = "" if before else f"\n## {title}\n"
        cost = count(f"{heading}{text}\n") + fences(after.values()) - fences(before.values()) if text else 0
        repeated[number] += not text
        if text and cost <= room:
            room -= cost
            costs[number] += cost
            chosen[number] = after
            keys = [key for key, _ in chain(_sentences(title), _sentences(whole))]
            seen.update(keys)
            stated.update(() if whole.origin else keys)
        elif text:
            misses += 1
    blocks: list[Block] = []
    left_out: list[str] = []
    for number, (kind, title, lines, sources) in enumerate(map(astuple, offered)):
        texts = chosen.get(number, {})
        if texts:
            rendered = (fenced(origin, group) if origin else group for origin, group in _by_origin(texts.values()))
            text = "\n".join([f"## {title}", *chain(*rendered)])
            named = dict.fromkeys(source for line, source in enumerate(sources) if line in texts and source)
            blocks.append(Block(kind, title, text, costs[number], list(named)))
        missing = len(lines) - repeated[number]
        if len(texts) < missing:
            left_out.append(f"{title} ({len(texts)} of {missing} shown)" if texts else title)
    body = "\n\n".join(block.text for block in blocks)
    text = "\n".join([header, DATA_NOT_INSTRUCTIONS, body, footer]) if body else ""
    return Context(text, blocks, token_budget - room if body else 0, token_budget, left_out)


def _by_need(offered: Sequence[ContextPart]) -> Iterable[tuple[int, int]]:
    """Numbers of parts with a line of each, the most needed first."""
    units: dict[BlockKind, list[list[tuple[int, int]]]] = {kind: [] for kind in get_args(BlockKind)}
    for number, offer in enumerate(offered):
        units[offer.kind].append([(number, line) for line in range(len(offer.lines))])
    best = [unit for unit in chain(*zip_longest(*units["memories"], *units["lessons"])) if unit]
    first = [unit for unit in best if unit[1] < FIRST_LINES]
    last, *earlier = units["session"] or [[]]
    ranked = [
        *units["rules"],
        *units["claimed"],
        *units["story"],
        *units["recall"],
        *units["slot"],
        first,
        last,
        *units["actions"],
        best,
        *units["wishes"],
        *earlier,
        *units["profile"],
    ]
    return dict.fromkeys(chain(*ranked))


def _sentences(line: str) -> list[tuple[str, str]]:
    """The sentences of a line, each after its words, which are the same for a repeat."""
    sentences = _SENTENCE_GAP.split(_LEAD.sub("", line))
    return [(" ".join(re.findall(r"\w+", sentence.casefold())), sentence) for sentence in sentences]


def _news(line: Line, seen: Set[str]) -> Line:
    """A line with its note, without the sentences that are shown already or say nothing; empty if none remains."""
    sentences = _sentences(line)
    new = [sentence for key, sentence in sentences if key and key not in seen and not is_courtesy(sentence)]
    lead = line.removesuffix(_LEAD.sub("", line))
    text = line if len(new) == len(sentences) else lead + " ".join(new)
    news = Line(_inert(text + line.note) if new else "")
    news.origin = line.origin
    return news


Changes: TypeAlias = Mapping[str, Sequence[FileChange]]
"""What was changed since of the files that documents name, by document id."""
UNCHANGED: Changes = {}


def rules_block(rules: Sequence[Memory]) -> ContextPart | None:
    """What users want every time, a line each; mandatory rules say so."""
    first = rules[: RULES + sum(rule.mandatory for rule in rules)]
    lines = [line_of(_short(f"- {'(mandatory) ' * rule.mandatory}{rule.content}"), rule.trust) for rule in first]
    return part("rules", "Rules that users want followed", lines, [rule.id for rule in first])


def wishes_block(suggested: Sequence[Memory]) -> ContextPart | None:
    """What a user stated once, and may want every time."""
    newest = suggested[:WISHES]
    lines = [line_of(_short(f"- ({rule.occurred_at:%Y-%m-%d}) {rule.content}"), rule.trust) for rule in newest]
    return part("wishes", "Users also said", lines, [rule.id for rule in newest])


def profile_block(profile: Profile | None, rules: Sequence[Memory] = ()) -> ContextPart | None:
    """What a project's work is like: conventions, recent errors; what its user prefers, apart from the rules. No lists
    of names: they tell an agent nothing that it could act on."""
    if profile is None:
        return None
    ruled = {rule.content for rule in rules}
    listed = {
        "Conventions": profile.conventions,
        "Recent errors": profile.errors[:PROFILE_ERRORS],
        "Preferences": [preference for preference in profile.preferences if preference not in ruled],
    }
    lines = [
        line_of(f"- {name}: {', '.join(values)}", "tool_output" if values is listed["Recent errors"] else "user_stated")
        for name, values in listed.items()
        if values
    ]
    return part("profile", "Project profile", lines, [])


def slot_block(slot: Slot) -> ContextPart | None:
    """A pinned slot as it was written, but without a long list of files: names alone say nothing to act on.

    The label of an imported one may say anything, so it is not shown.
    """
    lines = slot.content.strip().splitlines()
    listed = sum(map(bool, map(_PATH.fullmatch, lines)))
    text = "\n".join(line for line in lines if listed <= FILES_LISTED or not _PATH.fullmatch(line))
    label = "Imported note" if is_data(slot.trust) else slot.label
    changed = f" ({from_ms(slot.occurred_ms):%Y-%m-%d})" if slot.occurred_ms else ""
    return part("slot", f"{label}{changed}", [line_of(text.strip(), slot.trust)], [slot.id])


def memories_block(memories: Sequence[Memory], changed: Changes = UNCHANGED) -> ContextPart | None:
    """The highest-ranked memories; original ones come before those derived from other documents."""
    ranked = sorted(memories, key=lambda memory: bool(memory.derived_from))[:MEMORIES]
    texts = {_short(spoken(memory.content)): memory for memory in reversed(ranked)}
    rows = [(text, memory) for text, memory in reversed(texts.items()) if text]
    lines = [
        line_of(f"- ({memory.occurred_at:%Y-%m-%d}) {text}", memory.trust, changed.get(memory.id, ()))
        for text, memory in rows
    ]
    return part("memories", "Memories", lines, [memory.id for _, memory in rows])


def lessons_block(lessons: Sequence[Lesson], now: datetime, changed: Changes = UNCHANGED) -> ContextPart | None:
    """The most confident lessons, as ranked, with how confident they are now, and when they last proved right."""

    def date(lesson: Lesson) -> datetime:
        return from_ms(lesson.reinforced_ms if lesson.reinforcements else lesson.occurred_ms)

    lines = [
        line_of(
            _short(
                f"- ({lesson.confidence_at(now):.2f}, {date(lesson):%Y-%m-%d}) {lesson.content}"
                + (f" - {lesson.context}" * bool(lesson.context))
            ),
            lesson.trust,
            changed.get(lesson.id, ()),
        )
        for lesson in lessons[:LESSONS]
    ]
    return part("lessons", "Lessons", lines, [lesson.id for lesson in lessons[:LESSONS]])


def actions_block(open_actions: Sequence[Action]) -> ContextPart | None:
    """What is still to be done, as listed, and who is at it."""
    first = open_actions[:ACTIONS]
    lines = [
        line_of(
            _short(
                f"- ({from_ms(action.occurred_ms):%Y-%m-%d}) {action.title}"
                + f" ({action.assigned_to or action.agent_id} is at it)" * is_active(action.status)
            ),
            action.trust,
        )
        for action in first
    ]
    return part("actions", "Open actions", lines, [action.id for action in first])


def claimed_block(claimed: Sequence[Action]) -> ContextPart | None:
    """The files that other agents work on, with the end of each claim."""
    first = claimed[:CLAIMED]
    lines = [
        line_of(
            _short(
                f"- {', '.join(action.path_list[:CLAIMED])} – {action.holder} until {from_ms(action.expires_ms):%H:%M} "
                f"UTC: {action.title}"
            ),
            action.trust,
        )
        for action in first
    ]
    return part("claimed", "Files that other agents work on", lines, [action.id for action in first])


def summary_block(session: Session, summary: Summary) -> ContextPart | None:
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
    title = "" if is_data(summary.trust) else summary.title
    return part("session", _dated(session, title), content, [summary.id] * len(content))


def story_block(
    title: str,
    turns: Sequence[Observation],
    trust: Trust = "agent_concluded",
    newest: Iterable[Observation] = (),
    warnings: Iterable[Lesson] = (),
) -> ContextPart | None:
    """What a session without a summary came to so far, `turns` in time order: decisions, open work, `warnings`, then
    for each request the agent's answer; then the most important tool calls of its `newest` observations."""
    story = story_of(list(map(story_turn, turns)))
    listed: list[tuple[str, Observation | Lesson]] = [
        (f"- decided: {entry.text}", turns[entry.number]) for entry in story.decisions
    ]
    listed += [(f"- remaining: {_OPENING.sub('', entry.text)}", turns[entry.number]) for entry in story.remaining]
    listed += [(_short(f"- warning: {lesson.content}"), lesson) for lesson in warnings]
    for request, answer, index in story.exchanges[-EXCHANGES:]:
        listed.append((f"- {request} → {answer}" if request and answer else f"- {request or answer}", turns[index]))
    calls = [item for item in newest if item.turn == "tool" and item.importance >= IMPORTANT]
    calls = [calls[index] for index in best([call.importance for call in calls], CALLS)]
    listed += [(_short(f"- {headline(call)}"), call) for call in calls]
    lines = [line_of(text, source.trust) for text, source in listed]
    return part("session", "" if is_data(trust) else title, lines, [source.id for _, source in listed])


def earlier_block(past: Iterable[tuple[Session, Summary | None]]) -> ContextPart | None:
    """A line for each session: what was wanted, and the end of its summary, but for what the user or a tool said."""
    lines: list[str] = []
    sources: list[str] = []
    for session, summary in past:
        title = summary.title if summary else session.title or session.first_prompt
        narrative = untold(summary.narrative, summary.told_by_tools) if summary and summary.narrative != title else ""
        outcome = " ".join([text for text in _SENTENCE_GAP.split(narrative) if not text.startswith("User: ")][-2:])
        if title:
            text = f"- ({_date(session)}) {closed(title)} {shortened(outcome, OUTCOME_CHARS)}".rstrip()
            lines.append(line_of(text, (summary or session).trust))
            sources.append(summary.id if summary else "")
    return part("session", "Earlier sessions", lines, sources)


def _date(session: Session) -> str:
    return f"{from_ms(session.started_ms):%Y-%m-%d}"


def _dated(session: Session, title: str) -> str:
    return f"Session of {_date(session)}" + f": {title}" * bool(title)


def recall_block(title: str, results: Iterable[RecallResult]) -> ContextPart | None:
    """The results of recall, best first."""
    lines = {
        row.id: line_of(
            f"- ({row.occurred_at:%Y-%m-%d}{', replaced' * bool(row.superseded_by)}) {_short(_answer_of(row))}",
            row.trust,
            row.changed_since,
        )
        for row in results
    }
    return part("recall", title, lines.values(), lines)


def _answer_of(row: RecallResult) -> str:
    """All of a short statement, whose answer may be beside the words of the query; of anything else the snippet."""
    is_short = 0 < len(row.content) <= LINE_CHARS and row.trust not in _ORIGINS
    return row.content if is_short else row.snippet


def _short(text: str) -> str:
    return " ".join(text.split())[:LINE_CHARS]


PAST_SESSIONS, MOST_SESSIONS, SESSION_TOKENS = 10, 60, 50
"""The fewest and the most sessions that are read; between them, one for so many tokens of the budget."""
DETAILED, DETAILED_TOKENS = 3, 400
"""The fewest sessions that are shown in detail, the newest; or one for so many tokens of the budget."""
RECALLED = 10
ACTIONS_READ = 20
"""The newest open ones, of which the most urgent are listed."""
NOT_SEARCHED = ("rules", "claimed", "wishes", "slot", "actions", "session", "story")
"""Parts of a context that a project may have without any document that recall finds."""
FOLLOWUP_S, COMPILED = 1_800.0, 1_000
"""Until then after a context, recalls of its project count as followups."""
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
        note_read: NoteRead = unnoted,
    ) -> None:
        self._index, self._documents, self._recall, self._note_read = index, documents, recall, note_read
        self._lookup = Lookup(index, documents, clock)
        self._slots, self._profiles, self._clock = Slots(documents, self._lookup), profiles, clock
        self._work = Actions(documents)
        self._compiled = OrderedDict[tuple[str, str], float]()
        """When a context was last compiled for a project of a tenant; of the last COMPILED projects."""
        self.on_followup: Callable[[], None] = lambda: None

    async def __call__(
        self, request: ContextRequest, reader: Reader, count: Callable[[str], int] = estimated_tokens
    ) -> Context:
        """The context for a request; raises ProjectionBehind when `after` is not projected in time.

        `count` gives the tokens of a text.
        """
        if request.after:
            await self._index.wait_for(Token.parse(request.after))
        with made_of_parts(range(self._documents.partitions)):
            (
                (rules, slots, memories, lessons),
                (own, actions, past, claimed),
                (
                    (profile, _),
                    recalled,
                ),
            ) = await asyncio.gather(
                asyncio.gather(
                    rules_for(self._documents, reader, request.project),
                    self._slots.of_project(reader, request.project),
                    self._memories(request, reader),
                    self._lessons(request, reader),
                ),
                asyncio.gather(
                    self._own_session(request, reader),
                    self._actions(request, reader),
                    self._sessions(request, reader),
                    self._work.claimed(reader, request.project),
                ),
                asyncio.gather(
                    self._profiles.of(reader, request.project, request.user_id), self._recalled(request, reader)
                ),
            )
            pinned = [slot_block(slot) for slot in slots if slot.pinned]
            parts = [
                rules_block(rules.in_force),
                claimed_block(claimed),
                own,
                recalled,
                *pinned,
                memories,
                lessons,
                actions,
                wishes_block(rules.suggested),
                profile_block(profile, rules.in_force),
                *past,
            ]
            unsearched = any(candidate and candidate.kind in NOT_SEARCHED for candidate in parts)
            notes = await self._lookup.unknown(reader, [] if unsearched else [request.project])
            # in a thread: the lines of a large budget take milliseconds
            context = await asyncio.to_thread(compile_context, request.project, parts, request.token_budget, count)
            self._compiled[reader.tenant, request.project] = time.monotonic()
            self._compiled.move_to_end((reader.tenant, request.project))
            if len(self._compiled) > COMPILED:
                self._compiled.popitem(last=False)
            names = dict.fromkeys(name for block in context.blocks for name in block.sources)
            recall_id = self._note_read(reader, "context", ((request.project, name) for name in names))
            return replace(context, notes=notes, recall_id=recall_id)

    def count_recall(self, tenant: str, project: str | None) -> None:
        """Call `on_followup` for a recall soon after a context of its project: the sample was not enough."""
        if time.monotonic() - self._compiled.get((tenant, project or ""), -FOLLOWUP_S) < FOLLOWUP_S:
            self.on_followup()

    async def _memories(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        """Return the memories that matter most, of the project and of every project (`*`). One without a project is in
        no other project's context, because it may not apply there."""
        allowed = key_scope(reader, projects=[request.project, EVERY_PROJECT])
        now_ms, count = to_ms(self._clock()), SPARE * MEMORIES
        best = await self._index.ask(lambda index: index.notable_memories(allowed, request.project, now_ms, count))
        notable = await self._documents.readable(best, reader, Memory)
        memories = [memory for memory in notable if memory.memory_type != "rule"]
        return memories_block(memories, await self._lookup.changed_since(memories, reader))

    async def _lessons(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        lessons = await self._surest_lessons(request, reader, LESSONS)
        return lessons_block(lessons, self._clock(), await self._lookup.changed_since(lessons, reader))

    async def _surest_lessons(
        self, request: ContextRequest, reader: Reader, count: int, severities: Sequence[str] = ()
    ) -> list[Lesson]:
        allowed = key_scope(reader, projects=[request.project, EVERY_PROJECT], types=severities)
        now_ms = to_ms(self._clock())
        best = await self._index.ask(lambda index: index.lessons_by_confidence(allowed, request.project, now_ms, count))
        locations = [(lesson.partition, DocumentId(lesson.id)) for lesson in best]
        return await self._documents.readable(locations, reader, Lesson)

    async def _actions(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        listing = open_actions(reader.tenant, request.project)
        page = await self._documents.newest(listing, reader, request.project, None, ACTIONS_READ, at_home=True)
        actions = [located.document for located in page.documents if isinstance(located.document, Action)]
        return actions_block(sorted(actions, key=lambda action: (not is_active(action.status), -action.priority)))

    async def _own_session(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        """The story of the session that asks, as after a compaction of its context; None before its first turn."""
        if not request.session_id:
            return None
        session = await find_session(self._documents, reader.tenant, request.session_id, request.project)
        if session is None or not may_read(session, reader):
            return None
        home = partition_of(session.route, self._documents.partitions)
        turns, warnings = await asyncio.gather(
            turns_of(self._documents, [(home, session)], reader),
            self._surest_lessons(request, reader, WARNINGS, SEVERE),
        )
        own = story_block(OWN_SESSION, turns.get(session.id, []), warnings=warnings) if turns else None
        return own and replace(own, kind="story")

    async def _sessions(self, request: ContextRequest, reader: Reader) -> list[ContextPart | None]:
        count = min(MOST_SESSIONS, max(PAST_SESSIONS, request.token_budget // SESSION_TOKENS))
        page = await self._documents.page(
            work_sessions(reader.tenant, request.project), range(self._documents.partitions), limit=count + 1
        )
        past = [
            (partition, session)
            for partition, session in page.documents
            if isinstance(session, Session) and session.session_id != request.session_id and may_read(session, reader)
        ][:count]
        summaries = await summaries_of(self._documents, past, reader)
        last = past[: max(DETAILED, request.token_budget // DETAILED_TOKENS)]
        unsummarized = [row for row in last if row[1].id not in summaries]
        turns, newest = await asyncio.gather(
            turns_of(self._documents, unsummarized, reader),
            turns_of(self._documents, unsummarized, reader, session_observations, OBSERVATIONS_READ),
        )
        return [
            *(
                summary_block(session, summaries[session.id])
                if session.id in summaries
                else story_block(
                    _dated(session, session.title), turns.get(session.id, []), session.trust, newest.get(session.id, [])
                )
                for _, session in last
            ),
            earlier_block((session, summaries.get(session.id)) for _, session in past[len(last) :]),
        ]

    async def _recalled(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        """What recall finds; the nearest results if the subject is probably not recorded."""
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
        if answer.certainty == "probably not recorded":
            return recall_block(NEAREST_TO_QUERY, answer.results[:NEAREST])
        return recall_block(ABOUT_QUERY, answer.results)
