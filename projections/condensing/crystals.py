"""Crystals: a memory and lessons from a chain of finished actions."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from ingest.commands.decide import Caller, RecordLesson, Remember, WriteAction
from ingest.errors import CommandRejected, NotFound
from ingest.platform.clock import Clock
from projections.condensing import crystal as rules
from projections.condensing.claims import CRYSTAL, says
from projections.condensing.evidence import fingerprint
from projections.documents.access import Reader
from projections.documents.actions import Action
from projections.operations.current import Current, Writing

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
    made = rules.crystallize(done)
    project = project or next((one.project for one in chosen if one.project), "")
    if not project and (session := session_id or chosen[0].session_id):
        project = await _project_of(current, session, reader)
    ids = [one.id for one in chosen]
    content = rules.contents(done)
    told = [one.id for one in done if says(content, rules.told(one))]  # not all find room
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
            derived_from=told or ids,
            keep_duplicates=True,
        )
    )
    await _teach(made, ids, project, writing)
    for one in chosen:
        update = WriteAction(
            event_id=f"crystal:{fingerprint(one.id, remembered.id)}",
            project=one.project,
            action=one.id,
            crystallized_into=remembered.id,
        )
        await writing.give(update)
    return Crystallized(
        id=remembered.id,
        narrative=made.narrative,
        key_outcomes=made.key_outcomes,
        files_affected=made.files_affected,
        lessons=[one.content for one in made.lessons],
        source_action_ids=ids,
        created_at=clock(),
        position=writing.position,
    )


async def _teach(made: rules.Crystal, ids: Sequence[str], project: str, writing: Writing) -> None:
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


async def _project_of(current: Current, session_id: str, reader: Reader) -> str:
    """The project of a session; empty where there is none, or several projects have one of that id."""
    try:
        return (await current.session(session_id, None, reader)).project
    except (CommandRejected, NotFound):
        return ""


def done_action(action: Action) -> rules.DoneAction:
    """A finished action as the rules know it."""
    return rules.DoneAction(
        id=action.id, title=action.title, description=action.description, status=action.status, result=action.result
    )
