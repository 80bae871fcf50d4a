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
    """The blocks that fit, in order, in an envelope that names the project; never over the budget."""
    header, footer = f"<mnemolog-context project={quoteattr(project)}>", "</mnemolog-context>"
    taken: list[Block] = []
    left_out: list[str] = []
    text = f"{header}\n{footer}"
    for candidate in blocks:
        if candidate is None:
            continue
        longer = "\n".join([header, "\n\n".join([*(one.text for one in taken), candidate.text]), footer])
        if estimated_tokens(longer) <= token_budget:
            taken.append(candidate)
            text = longer
        else:
            left_out.append(candidate.title)
    if not taken:
        text = ""
    return Context(text, taken, estimated_tokens(text), token_budget, left_out)


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
    lines = [f"- {seen.title}: {seen.narrative}" if _adds(seen) else f"- {seen.title}" for seen in shown]
    return block("session", f"Session {session_id}", lines, [seen.id for seen in shown])


def recall_block(query: str, results: Iterable[tuple[str, str]]) -> Block | None:
    """What recall found for the query: `(document id, content)`, best first."""
    found = list(results)
    lines = [f"- {' '.join(content.split())[:400]}" for _, content in found]
    return block("recall", f"About: {' '.join(query.split())[:80]}", lines, [name for name, _ in found])


def _adds(seen: Observation) -> bool:
    return bool(seen.narrative) and seen.narrative != seen.title
