"""The context compiler: what an agent should know before it starts, within a token budget. Pure.

Blocks come in a fixed order; one that does not fit is left out, and named, and the next is tried. What is told was
retrieved: it stands between markers that nothing in it can close, behind a line that says that it is data.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal
from xml.sax.saxutils import quoteattr

from msgspec import Struct

from ingest.marking import DATA_NOT_INSTRUCTIONS, inert
from projections.documents.lessons import Lesson
from projections.documents.observations import IMPORTANT, Observation
from projections.documents.slots import Slot
from projections.documents.summaries import Summary
from projections.profile import Profile

BlockKind = Literal["slot", "profile", "lessons", "session", "recall"]
LESSONS = 10
SESSION_OBSERVATIONS = 5
RECALL_SHARE = 0.4
"""Of the budget, for what recall found; the rest is for what the agent did not know to ask."""
LINE_CHARS = 400
PROFILE_CONCEPTS, PROFILE_FILES, PROFILE_ERRORS = 8, 5, 3
"""What of a profile is told in a context, as much as agentmemory tells."""


class Block(Struct, frozen=True):
    """One part of a context: what it is, its text, its estimated tokens, the documents it was made of."""

    kind: BlockKind
    title: str
    text: str
    tokens: int
    sources: list[str]


class Context(Struct, frozen=True):
    """A compiled context. `left_out` names the blocks that did not fit."""

    context: str
    blocks: list[Block]
    tokens: int
    token_budget: int
    left_out: list[str]


def estimated_tokens(text: str) -> int:
    """Characters divided by three, rounded up, so that a budget holds (agentmemory's estimate)."""
    return math.ceil(len(text) / 3)


def block(kind: BlockKind, title: str, lines: Iterable[str], sources: Sequence[str]) -> Block | None:
    """A block of lines under a heading; None for no lines."""
    title, body = inert(title), inert("\n".join(line for line in lines if line))
    text = f"## {title}\n{body}"
    return Block(kind, title, text, estimated_tokens(text), list(sources)) if body else None


def compile_context(project: str, blocks: Iterable[Block | None], token_budget: int) -> Context:
    """The blocks that fit, in order, in an envelope that names the project; never over the budget.

    What was asked for is placed first, though it stands last: old sessions must not crowd it out.
    """
    header, footer = f"<mnemolog-context project={quoteattr(project)}>", "</mnemolog-context>"
    offered = [candidate for candidate in blocks if candidate is not None]
    taken: set[int] = set()
    text = ""
    for place in sorted(range(len(offered)), key=lambda place: offered[place].kind != "recall"):
        chosen = [one.text for other, one in enumerate(offered) if other in taken or other == place]
        longer = "\n".join([header, DATA_NOT_INSTRUCTIONS, "\n\n".join(chosen), footer])
        if estimated_tokens(longer) <= token_budget:
            taken.add(place)
            text = longer
    kept = [one for place, one in enumerate(offered) if place in taken]
    left_out = [one.title for place, one in enumerate(offered) if place not in taken]
    return Context(text, kept, estimated_tokens(text), token_budget, left_out)


def slot_block(slot: Slot) -> Block | None:
    """A slot that somebody wrote into."""
    text = slot.content.strip()
    return block("slot", f"{slot.label}", [text], [slot.id]) if text else None


def profile_block(profile: Profile | None) -> Block | None:
    """What a project's work is about: concepts, files, conventions, recent errors; what its user prefers."""
    if profile is None:
        return None
    lines = [
        _listed("Concepts", [name for name, _ in profile.concepts[:PROFILE_CONCEPTS]]),
        _listed("Files", [name for name, _ in profile.files[:PROFILE_FILES]]),
        _listed("Conventions", profile.conventions),
        _listed("Recent errors", profile.errors[:PROFILE_ERRORS]),
        _listed("Preferences", profile.preferences),
    ]
    return block("profile", "Project profile", lines, [])


def lessons_block(lessons: Sequence[Lesson], now: datetime) -> Block | None:
    """The surest lessons, as ranked, with how sure they are now."""
    lines = [
        f"- ({lesson.confidence_at(now):.2f}) {lesson.content}" + (f" - {lesson.context}" if lesson.context else "")
        for lesson in lessons[:LESSONS]
    ]
    return block("lessons", "Lessons", lines, [lesson.id for lesson in lessons[:LESSONS]])


def summary_block(summary: Summary) -> Block | None:
    """What a past session came to."""
    lines = [
        f"{summary.title}: {summary.narrative}" if summary.title else summary.narrative,
        *(f"- decided: {one}" for one in summary.decisions),
        _listed("Files", summary.files),
    ]
    return block("session", f"Session {summary.session_id}", lines, [summary.id])


def session_block(session_id: str, observations: Iterable[Observation]) -> Block | None:
    """What mattered in a past session: its most important observations, in the order they happened."""
    important = sorted(
        (seen for seen in observations if seen.importance >= IMPORTANT),
        key=lambda seen: (-seen.importance, seen.position),
    )[:SESSION_OBSERVATIONS]
    shown = sorted(important, key=lambda seen: (seen.occurred_at, seen.position))
    return block("session", f"Session {session_id}", map(_line, shown), [seen.id for seen in shown])


def recall_block(query: str, results: Iterable[tuple[str, str]], token_budget: int) -> Block | None:
    """What recall found for the query, `(document id, content)`, best first: as much as RECALL_SHARE of the budget."""
    lines: list[str] = []
    sources: list[str] = []
    room = token_budget * RECALL_SHARE
    for name, content in results:
        line = f"- {' '.join(content.split())[:LINE_CHARS]}"
        room -= estimated_tokens(line) + 1
        if room < 0:
            break
        lines.append(line)
        sources.append(name)
    return block("recall", f"About: {' '.join(query.split())[:80]}", lines, sources)


def _listed(name: str, values: Sequence[str]) -> str:
    return f"- {name}: {', '.join(values)}" if values else ""


def _line(seen: Observation) -> str:
    """Title and narrative, without saying the same twice."""
    if not seen.narrative or seen.narrative.startswith(seen.title.rstrip("…")):
        return f"- {seen.narrative or seen.title}"
    return f"- {seen.title}: {seen.narrative}"
