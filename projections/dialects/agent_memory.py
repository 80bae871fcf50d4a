"""agent-memory's observations and lessons as ours, there and back. Pure.

An observation that a client of agent-memory wrote is an `Observe` with its narrative as `content`, its type as `kind`
and everything else as it was given in `data`, so that nothing is said twice and search sees each part once:

    {"agent_memory": {"title": …, "subtitle": …, "type": …, "facts": […], "concepts": […], "files_read": […],
                      "files_modified": […], "tool_name": …, "prompt_number": …}}

What was not given is left out. Without a narrative `content` is the title, and `"narrative": null` says so. Whatever
else was observed (by a hook, or natively) is shown as our rules or a model compressed it, with the nearest type.

A lesson is a rule with a title; a global one is in the nameless project. Ours are one for each text, and fade when
nobody confirms them; agent-memory's stay until they are switched off. `completing` makes up for both.
"""

from typing import Any, Literal, cast, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ingest.commands.requests import Observe, RecordLesson, ReinforceLesson, ReviseLesson
from projections.compression import TITLE_CHARS, VALID_TYPES
from projections.data_urls import named
from projections.documents.lessons import Lesson
from projections.documents.observations import Observation
from projections.triggers import severity_rank

ObservationType = Literal["decision", "bugfix", "feature", "refactor", "discovery", "change", "pattern", "gotcha"]
TYPES: tuple[ObservationType, ...] = get_args(ObservationType)
FIELD = "agent_memory"
_NEAREST: dict[str, ObservationType] = {"error": "bugfix", "file_edit": "change", "file_write": "change"}
_ABOUT = ("file_path", "notebook_path", "command", "pattern", "query", "url", "path", "description")
"""Fields of a tool's input that say what it was used for, the most telling first."""
_WRITING = ("file_edit", "file_write")


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An observation as agent-memory has it."""

    title: str
    subtitle: str | None = None
    type: ObservationType = "discovery"
    narrative: str | None = None
    facts: list[str] = []
    concepts: list[str] = []
    files_read: list[str] = []
    files_modified: list[str] = []
    tool_name: str | None = None
    prompt_number: int | None = None


class _Kept(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `data` has under FIELD."""

    title: str
    subtitle: str | None = None
    type: ObservationType = "discovery"
    narrative: UnsetType | None = UNSET
    facts: list[str] = []
    concepts: list[str] = []
    files_read: list[str] = []
    files_modified: list[str] = []
    tool_name: str | None = None
    prompt_number: int | None = None


def observe(said: Said, project: str, session_id: str) -> Observe:
    """The command that records an observation."""
    fields: dict[str, Any] = msgspec.to_builtins(said)
    if said.narrative is None:
        fields["narrative"] = None
    else:
        del fields["narrative"]
    return Observe(
        project=project,
        session_id=session_id,
        kind=said.type,
        content=said.title if said.narrative is None else said.narrative,
        data={FIELD: {**fields, "type": said.type}},
    )


def said_of(observation: Observation) -> Said:
    """An observation as agent-memory's clients see it."""
    if FIELD in observation.data:
        try:
            return _given(observation, msgspec.convert(observation.data[FIELD], _Kept))
        except msgspec.ValidationError:  # somebody else's data of that name
            pass
    tool_name = observation.data.get("tool_name")
    written = observation.kind in _WRITING
    return Said(
        title=_title(observation, tool_name if isinstance(tool_name, str) else ""),
        subtitle=observation.subtitle or None,
        type=nearest_type(observation.kind),
        narrative=observation.narrative or None,
        facts=list(observation.facts),
        concepts=list(observation.concepts),
        files_read=[] if written else list(observation.files),
        files_modified=list(observation.files) if written else [],
        tool_name=tool_name if isinstance(tool_name, str) else None,
    )


def nearest_type(kind: str) -> ObservationType:
    """The type that an observation of our kind is shown with."""
    for one in TYPES:
        if one == kind:
            return one
    return _NEAREST.get(kind, "discovery")


def kinds_of(wanted: str) -> list[str]:
    """Our kinds that are shown as a type of agent-memory's: what a search for the type looks for."""
    shown = sorted(kind for kind in VALID_TYPES - {wanted} if nearest_type(kind) == wanted)
    return [wanted, *shown]


def completing(lesson: str, known: Lesson | None, stated: RecordLesson) -> list[ReviseLesson | ReinforceLesson]:
    """What is to be said after a rule was stated, so that its lesson is as stated, and lasts.

    `known` is the lesson as it stands by then, None while that cannot be read. Of two severities the graver counts; a
    trigger that is not stated stays as it was; an inactive lesson is active again.
    """
    commands: list[ReviseLesson | ReinforceLesson] = []
    if known is not None:
        revision = ReviseLesson(
            lesson=lesson,
            project=stated.project,
            title=_if_new(stated.title, known.title),
            severity=stated.severity if severity_rank(stated.severity) < severity_rank(known.severity) else None,
            trigger_tool=_if_new(stated.trigger_tool, known.trigger_tool),
            trigger_pattern=_if_new(stated.trigger_pattern, known.trigger_pattern),
            active=None if known.active else True,
        )
        if revision != ReviseLesson(lesson=lesson, project=stated.project):
            commands.append(revision)
    if known is None or not known.reinforcements:
        commands.append(ReinforceLesson(lesson=lesson, project=stated.project))
    return commands


def graver(one: str, other: str) -> str:
    """The graver of two severities; none at all is the least."""
    return min(one, other, key=severity_rank)


def _if_new(stated: str, known: str) -> str | None:
    return stated if stated and stated != known else None


def _title(observation: Observation, tool_name: str) -> str:
    """The title; a tool's name alone says too little: with the file, or what it was told to do."""
    if not tool_name or observation.title != tool_name:
        return observation.title
    told = observation.data.get("tool_input")
    fields = cast("dict[str, object]", told) if isinstance(told, dict) else {}
    for name in _ABOUT:
        about = fields.get(name)
        if isinstance(about, str) and about.strip():
            if name.endswith("_path"):
                about = about.replace("\\", "/").rstrip("/").rpartition("/")[2]
            return f"{tool_name}: {named(' '.join(about.split()))}"[:TITLE_CHARS]
    return tool_name


def _given(observation: Observation, kept: _Kept) -> Said:
    return Said(
        title=kept.title,
        subtitle=kept.subtitle,
        type=kept.type,
        narrative=observation.content if kept.narrative is UNSET else None,
        facts=kept.facts,
        concepts=kept.concepts,
        files_read=kept.files_read,
        files_modified=kept.files_modified,
        tool_name=kept.tool_name,
        prompt_number=kept.prompt_number,
    )
