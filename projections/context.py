"""The context compiler: what an agent should know before it starts, within a token budget. Pure.

Blocks come in a fixed order; one that does not fit is left out, and named, and the next is tried.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal
from xml.sax.saxutils import quoteattr

from msgspec import Struct

from projections.documents.lessons import Lesson
from projections.documents.observations import Observation

BlockKind = Literal["lessons", "session", "recall"]
LESSONS = 10
PROJECT_MATCH = 1.5
SESSION_OBSERVATIONS = 5
IMPORTANT = 5
RECALL_SHARE = 0.4
"""Of the budget, for what recall found; the rest is for what the agent did not know to ask."""
LINE_CHARS = 400


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
    body = "\n".join(line for line in lines if line)
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
        longer = "\n".join([header, "\n\n".join(chosen), footer])
        if estimated_tokens(longer) <= token_budget:
            taken.add(place)
            text = longer
    kept = [one for place, one in enumerate(offered) if place in taken]
    left_out = [one.title for place, one in enumerate(offered) if place not in taken]
    return Context(text, kept, estimated_tokens(text), token_budget, left_out)


def lessons_block(lessons: Iterable[Lesson], project: str) -> Block | None:
    """The surest lessons: by confidence, half as much again when they are of this very project."""
    ranked = sorted(
        lessons,
        key=lambda lesson: (-lesson.confidence * (PROJECT_MATCH if lesson.project == project else 1.0), lesson.id),
    )[:LESSONS]
    lines = [
        f"- ({lesson.confidence:.2f}) {lesson.content}" + (f" - {lesson.context}" if lesson.context else "")
        for lesson in ranked
    ]
    return block("lessons", "Lessons", lines, [lesson.id for lesson in ranked])


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


def _line(seen: Observation) -> str:
    """Title and narrative, without saying the same twice."""
    if not seen.narrative or seen.narrative.startswith(seen.title.rstrip("…")):
        return f"- {seen.narrative or seen.title}"
    return f"- {seen.title}: {seen.narrative}"
