"""Crystals: a memory and lessons from a chain of finished actions."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from ingest.commands.decide import Caller, RecordLesson, Remember, WriteAction
from ingest.errors import CommandRejected, NotFound
from ingest.platform.clock import Clock
from projections.compression.accounts import MODIFYING
from projections.compression.sentences import closed, fitting, pieces, shortened, statements, term_set
from projections.condensing.claims import CRYSTAL, SAME_CLAIM, claim_groups, is_claim, says, stands_alone
from projections.condensing.summaries import digest, fingerprint
from projections.documents.access import Reader
from projections.documents.actions import FINISHED, Action, is_finished
from projections.documents.observations import Observation
from projections.operations.current import Current, Writing

LESSONS = 5
KEY_OUTCOMES = 10
"""As many as the lessons a context may show."""
FILES = 50
NARRATIVE_CHARS = 1500

_TITLE_CHARS = 120
_OUTCOME_CHARS = 240
_DONE = FINISHED | {"ok", "okay", "fixed", "success", "yes"}
"""A result that only says so; a finished action says it already."""
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


def crystal_of(actions: Sequence[DoneAction], observations: Sequence[Observation] = ()) -> Crystal:
    """Returns the crystal of the actions, in the order given, and of what was observed while they were done.

    Outcomes are those of the actions that were done; a dropped one is named in the narrative and may teach a lesson.
    """
    lines = [told(action) for action in actions]
    seen = digest(observations)
    named = [file for action in actions for file in action.files]
    modified = [file for item in observations if item.kind in MODIFYING for file in item.files]
    rules = [(action.id, rule) for action in actions for rule in rules_of(action)]
    groups = claim_groups([rule for _, rule in rules], SAME_CLAIM)[:LESSONS]
    return Crystal(
        narrative=" ".join(fitting(lines + (pieces(seen.narrative) if seen else []), NARRATIVE_CHARS, " ")),
        key_outcomes=[told(action) for action in actions if is_finished(action.status)][:KEY_OUTCOMES],
        files_affected=list(dict.fromkeys(named + modified))[:FILES],
        lessons=[
            Taught(rules[group[0]][1], list(dict.fromkeys(rules[index][0] for index in group))) for group in groups
        ],
    )


def _titled(action: DoneAction, said: str) -> str:
    """What is said of an action, behind its title."""
    title = shortened(action.title, _TITLE_CHARS)
    return f"{title} {said}" if closed(title) == title else f"{title}: {said}"


def told(action: DoneAction) -> str:
    """Returns what a crystal tells of an action: its outcome, or what became of it instead.

    An outcome is the title and what the result states first; one of them where it says all that the other does.
    """
    if not is_finished(action.status):
        return _titled(action, f"{action.status}.")
    title, result = shortened(action.title, _TITLE_CHARS), shortened(action.result, _OUTCOME_CHARS)
    first = next(iter(statements(action.result)), result)
    title_terms, result_terms = term_set(title), term_set(first)
    if not first or first.strip(" .!").lower() in _DONE or result_terms < title_terms:
        return closed(title or first)
    return closed(first if title_terms <= result_terms else shortened(_titled(action, first), _OUTCOME_CHARS))


def contents(actions: Sequence[DoneAction]) -> str:
    """Returns what a memory of the actions says: each on a line of its own, as far as they fit."""
    return "\n".join(fitting([told(action) for action in actions], NARRATIVE_CHARS, "\n"))


def rules_of(action: DoneAction) -> Iterator[str]:
    """Yields the rules that an action states; behind its title where one does not say of what it is."""
    for text in (action.result, action.description):
        for sentence in statements(text):
            if _RULE.search(sentence) and is_claim(sentence):
                yield (sentence if stands_alone(sentence) or not action.title else _titled(action, sentence))


CRYSTAL_CONFIDENCE = 0.6
"""Of a lesson that a chain of finished work teaches, as in agentmemory."""


class Crystallized(Struct, frozen=True, kw_only=True):
    """What a chain of finished actions came to."""

    id: str
    narrative: str
    key_outcomes: list[str]
    files_affected: list[str]
    lessons: list[str]
    source_action_ids: list[str]
    created_at: datetime
    position: str


async def crystallize(
    current: Current,
    clock: Clock,
    action_ids: Sequence[str],
    reader: Reader,
    caller: Caller,
    *,
    project: str = "",
    session_id: str = "",
) -> Crystallized:
    """A memory and lessons from a chain of finished actions; raises NotFound, CommandRejected if unfinished.

    They are of the project that is named, else of the first that one of the actions has, else of that of the
    session; the memory is of the session that is named.
    The same actions again in the same project are the same crystal.
    """
    chosen = await _finished(current, action_ids, reader)
    done = [done_action(one) for one in chosen]
    made = crystal_of(done)
    project = project or next((one.project for one in chosen if one.project), "")
    if not project and (session := session_id or chosen[0].session_id):
        with suppress(CommandRejected, NotFound):  # none where no session has this id, or several projects have one
            project = (await current.session(session, None, reader)).project
    ids = [one.id for one in chosen]
    content = contents(done)
    quoted = [one.id for one in done if says(content, told(one))]  # not all find room
    writing = Writing(current, caller)
    remembered = await writing.give(
        Remember(
            event_id=f"crystal:{fingerprint(*sorted(ids))}",
            project=project,
            session_id=session_id,
            content=content,
            memory_type="procedural",
            tags=[CRYSTAL],
            files=made.files_affected,
            references=ids,
            derived_from=quoted or ids,
            keep_duplicates=True,
        )
    )
    for taught in made.lessons:
        lesson = RecordLesson(
            event_id=f"crystal:{fingerprint(taught.content, *sorted(ids))}",
            project=project,
            content=taught.content,
            confidence=CRYSTAL_CONFIDENCE,
            origin=CRYSTAL,
            derived_from=list(taught.sources),
        )
        await writing.give(lesson)
    for action in chosen:
        update = WriteAction(
            event_id=f"crystal:{fingerprint(action.id, remembered.id)}",
            project=action.project,
            action=action.id,
            crystallized_into=remembered.id,
        )
        await writing.give(update)
    return Crystallized(
        id=remembered.id,
        narrative=made.narrative,
        key_outcomes=made.key_outcomes,
        files_affected=made.files_affected,
        lessons=[lesson.content for lesson in made.lessons],
        source_action_ids=ids,
        created_at=clock(),
        position=writing.position,
    )


async def _finished(current: Current, action_ids: Sequence[str], reader: Reader) -> list[Action]:
    """The actions; raises NotFound, CommandRejected if one is not finished."""
    chosen = await current.find_all(list(dict.fromkeys(action_ids)), Action, reader)
    missing = sorted(set(action_ids) - {one.id for one in chosen})
    if missing or not chosen:
        raise NotFound(f"there is no action {missing[0] if missing else ''!r}")
    unfinished = [one.id for one in chosen if one.is_open]
    if unfinished:
        raise CommandRejected(f"actions are not finished: {', '.join(unfinished[:5])}", "action_ids")
    return chosen


def done_action(action: Action) -> DoneAction:
    """A finished action as the rules know it."""
    return DoneAction(
        id=action.id, title=action.title, description=action.description, status=action.status, result=action.result
    )
