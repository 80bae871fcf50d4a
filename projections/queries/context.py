"""The context compiler: what an agent should know before it starts, within a token budget. Pure.

Parts come in a fixed order. Where the budget is short, it goes first to what was asked for and what was pinned, then to
the best of memories and lessons, then to what came of the last session and what is still to be done, then to the other
memories and lessons, then to earlier sessions; the profile is the last to get any. What does not fit is left out, and
named, and the next is tried. What is told was retrieved: it stands between markers that nothing in it can
close, behind a line that says that it is data.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, zip_longest
from typing import Literal, get_args
from xml.sax.saxutils import quoteattr

from msgspec import Struct

from ingest.marking import DATA_NOT_INSTRUCTIONS, inert
from projections.compression.accounts import headline, prose
from projections.compression.compression import spoken
from projections.condensing.profile import Profile
from projections.documents.actions import Action, is_active
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import IMPORTANT, Observation
from projections.documents.sessions import Summary
from projections.documents.slots import Slot

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
    """A compiled context. `left_out` names what did not fit: blocks, and of which how many lines are told. `notes` say
    that nothing is found of the project."""

    context: str
    blocks: list[Block]
    tokens: int
    token_budget: int
    left_out: list[str]
    notes: list[str] = []


def estimated_tokens(text: str) -> int:
    """Characters divided by three, rounded up, so that a budget holds (agentmemory's estimate)."""
    return math.ceil(len(text) / 3)


def part(
    kind: BlockKind, title: str, lines: Iterable[str], sources: Sequence[str], *, by_line: bool = False
) -> ContextPart | None:
    """A part of the lines that say something, in the order given; None for none."""
    told = [line for line in lines if line]
    return ContextPart(kind, inert(title), told, list(sources), by_line) if told else None


def compile_context(project: str, parts: Iterable[ContextPart | None], token_budget: int) -> Context:
    """The parts that fit, in order, in an envelope that names the project; never over the budget."""
    header, footer = f"<mnemolog-context project={quoteattr(project)}>", "</mnemolog-context>"
    if token_budget >= MORE_FROM:
        footer = f"\n{MORE}\n{footer}"
    offered = [one for one in parts if one is not None]
    taken: dict[int, set[int]] = {}
    text = ""
    for place, lines in _by_need(offered):
        tried = {**taken, place: taken.get(place, set[int]()).union(lines)}
        longer = "\n".join([header, DATA_NOT_INSTRUCTIONS, "\n\n".join(map(_text, *_chosen(offered, tried))), footer])
        if estimated_tokens(longer) <= token_budget:
            taken, text = tried, longer
    kept = [_block(one, lines) for one, lines in zip(*_chosen(offered, taken), strict=True)]
    return Context(text, kept, estimated_tokens(text), token_budget, list(_left_out(offered, taken)))


def _by_need(offered: Sequence[ContextPart]) -> Iterator[tuple[int, Sequence[int]]]:
    """Places and the lines there that are told together or not at all, the most needed first."""
    places = {kind: [place for place, one in enumerate(offered) if one.kind == kind] for kind in _KINDS}
    yield from ((place, range(len(offered[place].lines))) for kind in ("recall", "slot") for place in places[kind])
    best = [[(place, [line]) for line in range(len(offered[place].lines))] for place in _listing(places)]
    alternating = [unit for unit in chain.from_iterable(zip_longest(*best)) if unit is not None]
    first = [(place, lines) for place, lines in alternating if lines[0] < FIRST_LINES]
    yield from first
    yield from _line_by_line(offered, [*places["session"][:1], *places["actions"]])
    yield from (unit for unit in alternating if unit not in first)
    yield from _line_by_line(offered, [*places["session"][1:], *places["profile"]])


def _line_by_line(offered: Sequence[ContextPart], places: Iterable[int]) -> Iterator[tuple[int, Sequence[int]]]:
    for place in places:
        lines = range(len(offered[place].lines))
        yield from ((place, [line]) for line in lines) if offered[place].by_line else [(place, lines)]


def _listing(places: Mapping[str, Sequence[int]]) -> list[int]:
    return [*places["memories"], *places["lessons"]]


def _chosen(
    offered: Sequence[ContextPart], taken: Mapping[int, Collection[int]]
) -> tuple[list[ContextPart], list[Collection[int]]]:
    told = sorted(taken)
    return [offered[place] for place in told], [taken[place] for place in told]


def _text(one: ContextPart, lines: Collection[int]) -> str:
    return inert("\n".join([f"## {one.title}", *(one.lines[line] for line in sorted(lines))]))


def _block(one: ContextPart, lines: Collection[int]) -> Block:
    text = _text(one, lines)
    sources = [one.sources[line] for line in sorted(lines)] if one.by_line and one.sources else one.sources
    return Block(one.kind, one.title, text, estimated_tokens(text), list(dict.fromkeys(sources)))


def _left_out(offered: Sequence[ContextPart], taken: Mapping[int, Collection[int]]) -> Iterator[str]:
    for place, one in enumerate(offered):
        told = len(taken.get(place, ()))
        if not told:
            yield one.title
        elif told < len(one.lines):
            yield f"{one.title} ({told} of {len(one.lines)} told)"


def slot_block(slot: Slot) -> ContextPart | None:
    """A slot that somebody wrote into."""
    text = slot.content.strip()
    return part("slot", f"{slot.label}", [text], [slot.id]) if text else None


def profile_block(profile: Profile | None) -> ContextPart | None:
    """What a project's work is like: conventions, recent errors; what its user prefers. No lists of names: they tell
    an agent nothing that it could act on."""
    if profile is None:
        return None
    lines = [
        _listed("Conventions", profile.conventions),
        _listed("Recent errors", profile.errors[:PROFILE_ERRORS]),
        _listed("Preferences", profile.preferences),
    ]
    return part("profile", "Project profile", lines, [], by_line=True)


def memories_block(memories: Sequence[Memory]) -> ContextPart | None:
    """The memories that matter most, as ranked; what was said stands before what was made of other documents."""
    ranked = sorted(memories, key=lambda one: bool(one.derived_from))[:MEMORIES]
    told = {_short(spoken(one.content)): one.id for one in reversed(ranked)}
    lines = [(f"- {text}", name) for text, name in reversed(told.items()) if text]
    return part("memories", "Memories", [text for text, _ in lines], [name for _, name in lines], by_line=True)


def lessons_block(lessons: Sequence[Lesson], now: datetime) -> ContextPart | None:
    """The surest lessons, as ranked, with how sure they are now."""
    lines = [
        _short(
            f"- ({lesson.confidence_at(now):.2f}) {lesson.content}" + (f" - {lesson.context}" * bool(lesson.context))
        )
        for lesson in lessons[:LESSONS]
    ]
    return part("lessons", "Lessons", lines, [lesson.id for lesson in lessons[:LESSONS]], by_line=True)


def actions_block(open_actions: Sequence[Action]) -> ContextPart | None:
    """What is still to be done, as listed, and who is at it."""
    lines = [
        _short(f"- {one.title}" + f" ({one.assigned_to or one.agent_id} is at it)" * is_active(one.status))
        for one in open_actions[:ACTIONS]
    ]
    return part("actions", "Open actions", lines, [one.id for one in open_actions[:ACTIONS]], by_line=True)


def summary_block(began_at: datetime, summary: Summary) -> ContextPart | None:
    """What a past session came to, what it left to do, what was decided in it."""
    lines = [
        "" if summary.narrative == summary.title else summary.narrative,
        *(f"- remaining: {_OPENING.sub('', one)}" for one in summary.remaining),
        *(f"- decided: {one}" for one in summary.decisions),
    ]
    told = [line for line in lines if line] or [summary.title]
    return part("session", _dated(began_at, summary.title), told, [summary.id] * len(told), by_line=True)


def session_block(began_at: datetime, title: str, observations: Iterable[Observation]) -> ContextPart | None:
    """What mattered in a past session: its most important observations, in the order they happened."""
    important = sorted(
        (seen for seen in observations if seen.importance >= IMPORTANT),
        key=lambda seen: (-seen.importance, seen.position),
    )[:SESSION_OBSERVATIONS]
    shown = sorted(important, key=lambda seen: (seen.occurred_at, seen.position))
    return part("session", _dated(began_at, title), map(_line, shown), [seen.id for seen in shown], by_line=True)


def _dated(at: datetime, title: str) -> str:
    """What a past session is called: a reader knows days, not session ids."""
    return f"Session of {at:%Y-%m-%d}" + f": {title}" * bool(title)


def recall_block(query: str, results: Iterable[tuple[str, str]], token_budget: int) -> ContextPart | None:
    """What recall found for the query, `(document id, content)`, best first: as much as RECALL_SHARE of the budget."""
    lines: list[str] = []
    sources: list[str] = []
    room = token_budget * RECALL_SHARE
    for name, content in results:
        line = f"- {_short(content)}"
        room -= estimated_tokens(line) + 1
        if room < 0:
            break
        lines.append(line)
        sources.append(name)
    return part("recall", f"About: {' '.join(query.split())[:80]}", lines, sources)


def _short(text: str) -> str:
    return " ".join(text.split())[:LINE_CHARS]


def _listed(name: str, values: Sequence[str]) -> str:
    return f"- {name}: {', '.join(values)}" if values else ""


def _line(seen: Observation) -> str:
    """What was said, or what a tool was called for and how it went."""
    return _short(f"- {prose(seen) or headline(seen)}")
