"""Crystals: a memory and lessons from a chain of finished actions."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from ingest.commands.decide import Caller, RecordLesson, Remember, WriteAction
from ingest.errors import CommandRejected, NotFound
from ingest.platform.clock import Clock
from projections.condensing.summaries import fingerprint
from projections.nouns.access import Reader
from projections.nouns.action import FINISHED, Action, is_finished
from projections.nouns.memory import CRYSTAL
from projections.nouns.trust import is_data, lowest
from projections.operations.current import Current, Writing
from projections.text.claims import SAME_CLAIM, claim_groups, is_claim, says, stands_alone
from projections.text.sentences import closed, fitting, shortened, statements, term_set

LESSONS = 5
KEY_OUTCOMES = 10
"""As many as the lessons a context may show."""
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


class Taught(Struct, frozen=True):
    """A rule that a chain of actions teaches, and the actions that say so."""

    content: str
    sources: list[str]


class Crystal(Struct, frozen=True):
    """What a chain of actions came to."""

    narrative: str
    key_outcomes: list[str]
    lessons: list[Taught]


def crystal_of(actions: Sequence[Action]) -> Crystal:
    """Returns the crystal of finished actions, in the order given.

    Outcomes are those of the actions that were done; a dropped one is named in the narrative and may teach a lesson.
    """
    rules = [(action.id, rule) for action in actions for rule in rules_of(action)]
    groups = claim_groups([rule for _, rule in rules], SAME_CLAIM)[:LESSONS]
    return Crystal(
        narrative=" ".join(fitting([outcome_of(action) for action in actions], NARRATIVE_CHARS, " ")),
        key_outcomes=[outcome_of(action) for action in actions if is_finished(action.status)][:KEY_OUTCOMES],
        lessons=[
            Taught(rules[group[0]][1], list(dict.fromkeys(rules[index][0] for index in group))) for group in groups
        ],
    )


def outcome_of(action: Action) -> str:
    """Returns the outcome of an action, or what became of it instead.

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


def contents(actions: Sequence[Action]) -> str:
    """Returns the text of a memory of the actions: each on a line of its own, as far as they fit."""
    return "\n".join(fitting([outcome_of(action) for action in actions], NARRATIVE_CHARS, "\n"))


def rules_of(action: Action) -> Iterator[str]:
    """Yields the rules that an action states, after its title if a rule does not say what it is about."""
    for text in (action.result, action.description):
        for sentence in statements(text):
            if _RULE.search(sentence) and is_claim(sentence):
                yield (sentence if stands_alone(sentence) or not action.title else _titled(action, sentence))


def _titled(action: Action, text: str) -> str:
    title = shortened(action.title, _TITLE_CHARS)
    return f"{title} {text}" if closed(title) == title else f"{title}: {text}"


CRYSTAL_CONFIDENCE = 0.6
"""Of a lesson that a chain of finished work teaches, as in agentmemory."""


class Crystallized(Struct, frozen=True, kw_only=True):
    """What a chain of finished actions came to."""

    id: str
    narrative: str
    key_outcomes: list[str]
    files_affected: list[str]
    """Empty: an action names no files; agentmemory's clients expect the field."""
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

    They are in the given project, else in the first that an action has, else in that of the session. The same actions
    again in the same project are the same crystal.
    """
    documents = await current.find_all(list(dict.fromkeys(action_ids)), reader)
    chosen = [document for document in documents if isinstance(document, Action)]
    ids = [action.id for action in chosen]
    missing = sorted(set(action_ids) - set(ids))
    if missing or not chosen:
        raise NotFound(f"action {missing[0] if missing else ''!r} does not exist")
    unfinished = [action.id for action in chosen if action.is_open]
    if unfinished:
        raise CommandRejected(f"these actions are not finished: {', '.join(unfinished[:5])}", "action_ids")
    data = ", ".join(action.id for action in chosen if is_data(action.trust))
    if data:
        raise CommandRejected(f"neither the user nor an agent stated these actions: {data}", "action_ids")
    made = crystal_of(chosen)
    project = project or next((action.project for action in chosen if action.project), "")
    if not project and (session := session_id or chosen[0].session_id):
        with suppress(CommandRejected, NotFound):  # no session has this id, or sessions of several projects
            project = (await current.session(session, None, reader)).project
    content = contents(chosen)
    quoted = [action.id for action in chosen if says(content, outcome_of(action))]  # not all find room
    writing = Writing(current, caller)
    remembered = await writing.give(
        Remember(
            event_id=f"crystal:{fingerprint(*sorted(ids))}",
            project=project,
            session_id=session_id,
            content=content,
            memory_type="procedural",
            tags=[CRYSTAL],
            references=ids,
            derived_from=quoted or ids,
            keep_duplicates=True,
            trust=lowest(action.trust for action in chosen),
        )
    )
    for taught in made.lessons:
        lesson = RecordLesson(
            event_id=f"crystal:{fingerprint(taught.content, *sorted(ids))}",
            project=project,
            content=taught.content,
            confidence=CRYSTAL_CONFIDENCE,
            origin=CRYSTAL,
            derived_from=taught.sources,
            trust=lowest(action.trust for action in chosen if action.id in taught.sources),
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
        files_affected=[],
        lessons=[lesson.content for lesson in made.lessons],
        source_action_ids=ids,
        created_at=clock(),
        position=writing.position,
    )
