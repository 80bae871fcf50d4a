"""Crystals: a chain of finished actions condensed into what was done, what came of it and what to do next time.

Guarantee: pure and extractive. The caller checks that the actions are over (finished or dropped,
`projections.documents.actions`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from projections.condensing.accounts import MODIFYING
from projections.condensing.claims import claim_groups, is_claim
from projections.condensing.sentences import ALIKE, closed, fitting, pieces, shortened, statements
from projections.condensing.sessions import digest
from projections.documents.actions import is_finished
from projections.documents.observations import Observation

LESSONS = 5
KEY_OUTCOMES = 10
"""As many as the lessons a context may show."""
FILES = 50
NARRATIVE_CHARS = 1500

_TITLE_CHARS = 120
_OUTCOME_CHARS = 240
_RULE = re.compile(
    r"\b(?:always|never|(?:must|should)(?:n['’]t)?(?! have)|prefer|avoid|(?:make|be) sure|remember to)\b"
    r"|(?:^|[,;:]\s|\b(?:and|but|so|please)\s)(?:don['’]t|do not|ensure)\b",
    re.IGNORECASE,
)
"""What to do, not what somebody failed to do ("should have") or does not know ("I don't know why")."""


class DoneAction(Struct, frozen=True):
    """A work item that is over."""

    id: str
    title: str
    description: str = ""
    status: str = "done"
    result: str = ""
    files: list[str] = []


class Taught(Struct, frozen=True):
    """A rule that a chain of actions teaches, and the actions that say so."""

    content: str
    sources: list[str]


class Crystal(Struct, frozen=True):
    """What a chain of actions came to."""

    narrative: str
    key_outcomes: list[str]
    files_affected: list[str]
    lessons: list[Taught]


def crystallize(actions: Sequence[DoneAction], observations: Sequence[Observation] = ()) -> Crystal:
    """Returns the crystal of the actions, in the order given, and of what was observed while they were done.

    Outcomes are those of the actions that were done; a dropped one is named in the narrative and may teach a lesson.
    """
    return Crystal(
        narrative=_narrative(actions, observations),
        key_outcomes=[_outcome(action) for action in actions if is_finished(action.status)][:KEY_OUTCOMES],
        files_affected=_files(actions, observations),
        lessons=_lessons(actions),
    )


def _narrative(actions: Sequence[DoneAction], observations: Sequence[Observation]) -> str:
    """What became of each action, then what the observations tell."""
    lines = [closed(line) for action in actions for line in told(action)]
    seen = digest(observations)
    return " ".join(fitting(lines + (pieces(seen.narrative) if seen else []), NARRATIVE_CHARS, " "))


def _outcome(action: DoneAction) -> str:
    """The title, and what the result states first."""
    title, result = shortened(action.title, _TITLE_CHARS), shortened(action.result, _OUTCOME_CHARS)
    first = next(iter(statements(action.result)), result)
    return shortened(f"{title}: {first}" if title and first else title or first, _OUTCOME_CHARS)


def _files(actions: Iterable[DoneAction], observations: Iterable[Observation]) -> list[str]:
    """The distinct files the actions name, then those that were modified meanwhile."""
    named = [file for action in actions for file in action.files]
    modified = [file for one in observations if one.kind in MODIFYING for file in one.files]
    return list(dict.fromkeys(named + modified))[:FILES]


def told(action: DoneAction) -> list[str]:
    """Returns what a crystal tells of an action: its outcome, or what became of it instead."""
    if is_finished(action.status):
        return [_outcome(action)]
    return [f"{shortened(action.title, _TITLE_CHARS)}: {action.status}"]


def _lessons(actions: Iterable[DoneAction]) -> list[Taught]:
    said = [(action.id, rule) for action in actions for rule in _rules(action)]
    groups = claim_groups([rule for _, rule in said], ALIKE)
    return [Taught(said[group[0]][1], list(dict.fromkeys(said[index][0] for index in group))) for group in groups][
        :LESSONS
    ]


def _rules(action: DoneAction) -> Iterator[str]:
    for text in (action.result, action.description):
        yield from (said for said in statements(text) if _RULE.search(said) and is_claim(said))
