"""agent-memory's observations and lessons as ours, there and back. Pure.

An observation that a client of agent-memory wrote is an `Observe` with its narrative as `content`, its type as `kind`
and everything else as it was given in `data`, so that nothing is said twice and search sees each part once:

    {"agent_memory": {"title": …, "subtitle": …, "type": …, "facts": […], "concepts": […], "files_read": […],
                      "files_modified": […], "tool_name": …, "prompt_number": …}}

What was not given is left out. Without a narrative `content` is the title, and `"narrative": null` says so. Of an
observation imported from claude-mem, `content` has title, narrative and facts, and `data` has the rest: how claude-mem
compressed it is an event of its own, which has the three apart. Whatever else was observed (by a hook, or natively) is
shown as our rules or a model compressed it, with the nearest type.

What else is remembered is found by searches, too, and shown as an observation:

| document | type | title, narrative |
|---|---|---|
| memory | `discovery`, a procedural one `pattern` | its title, its content |
| lesson | `gotcha` | its title or the beginning of the rule, the rule with its context |
| summary | `discovery` | its title, its narrative; `facts` are the decisions |

A lesson is a rule with a title; a global one is in the nameless project. Ours are one for each text, and fade when
they are not confirmed; agent-memory's stay until they are switched off. `completing` makes up for both.
"""

from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ingest.commands.decide import Observe, RecordLesson, ReinforceLesson, ReviseLesson
from ingest.platform.clock import from_ms
from projections.nouns.lesson import SEVERITIES, Lesson, severity_rank
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.session import Summary
from projections.text.compression import TITLE_CHARS, VALID_TYPES
from projections.text.payloads import named

Found: TypeAlias = Observation | Memory | Lesson | Summary
"""What is shown as an observation."""
ObservationType = Literal["decision", "bugfix", "feature", "refactor", "discovery", "change", "pattern", "gotcha"]
TYPES: tuple[ObservationType, ...] = get_args(ObservationType)
FIELD = "agent_memory"
_NEAREST: dict[str, ObservationType] = {
    "error": "bugfix", "file_edit": "change", "file_write": "change", **{name: name for name in TYPES},
}  # fmt: skip
_OTHER_TYPES: dict[str, tuple[str, ...]] = {
    "discovery": ("semantic", "episodic", "summary"),
    "pattern": ("procedural",),
    "gotcha": SEVERITIES,
}
"""How the index classes memories, summaries and lessons that are shown with a type."""
_COMPRESSED = ("title", "narrative", "facts")
"""The fields that are in the compression of an observation of claude-mem's, and in its text."""
NO_SESSION = "manual-memories"
"""The session of what belongs to none: the one that memories saved by hand are in."""
UNKNOWN = "unknown"
"""In the place of a name that is empty."""
MAX_NAME_CHARS = 512
_DIGEST_BYTES = 16
AGENT_TYPE = "claude-code"
"""Who works in a session of which nothing else was said."""
_ABOUT = ("file_path", "notebook_path", "command", "pattern", "query", "url", "path", "description")
"""Fields of a tool's input that say what it was used for, the most telling first."""
_WRITING = ("file_edit", "file_write")


class ObservationFields(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


def observe(reported: ObservationFields, project: str, session_id: str) -> Observe:
    """The command that records an observation."""
    fields: dict[str, Any] = msgspec.to_builtins(reported)
    if reported.narrative is None:
        fields["narrative"] = None
    else:
        del fields["narrative"]
    return Observe(
        project=project,
        session_id=session_id,
        kind=reported.type,
        content=reported.title if reported.narrative is None else reported.narrative,
        data={FIELD: {**fields, "type": reported.type}},
    )


def observe_compressed(reported: ObservationFields, kind: str, project: str, session_id: str, **more: Any) -> Observe:
    """The command that records an observation whose compression says the same, part by part."""
    fields: dict[str, Any] = msgspec.to_builtins(reported)
    apart = {name: value for name, value in fields.items() if name not in _COMPRESSED}
    return Observe(
        project=project,
        session_id=session_id,
        kind=kind,
        content="\n".join(
            [reported.title, *filter(None, [reported.narrative]), *(f"- {fact}" for fact in reported.facts)]
        ),
        data={FIELD: {**apart, "type": reported.type}},
        **more,
    )


def fields_of(document: Found) -> ObservationFields:
    """What was found as agent-memory's clients see it."""
    match document:
        case Memory():
            return ObservationFields(
                title=document.title,
                type="pattern" if document.memory_type == "procedural" else "discovery",
                narrative=document.content,
                concepts=list(dict.fromkeys([*document.concepts, *document.tags])),
                files_read=list(document.files),
            )
        case Lesson():
            return ObservationFields(
                title=document.title or document.content[:TITLE_CHARS],
                type="gotcha",
                narrative="\n".join(filter(None, [document.content, document.context])),
                concepts=document.tag_list,
            )
        case Summary():
            return ObservationFields(
                title=document.title,
                narrative=document.narrative,
                facts=list(document.decisions),
                concepts=list(document.concepts),
                files_modified=list(document.files),
            )
        case Observation():
            return _observed(document)


def time_of(document: Found) -> datetime:
    """When it happened."""
    return from_ms(document.occurred_ms) if isinstance(document, Lesson) else document.occurred_at


def session_of(document: Found) -> str:
    """The session it is shown in."""
    return ("" if isinstance(document, Lesson) else document.session_id) or NO_SESSION


def _observed(observation: Observation) -> ObservationFields:
    if FIELD in observation.data:
        stored: Any = observation.data[FIELD]
        apart = bool(observation.model) and isinstance(stored, dict) and "title" not in stored
        if apart:
            stored = {name: getattr(observation, name) for name in _COMPRESSED} | cast("dict[str, Any]", stored)
        with suppress(msgspec.ValidationError):  # another program's data under that name
            fields = msgspec.convert(stored, ObservationFields)
            if apart:
                return replace(fields, narrative=fields.narrative or None)
            if fields.narrative is None:
                return replace(fields, narrative=None if "narrative" in stored else observation.content)
    tool_name = observation.data.get("tool_name")
    written = observation.kind in _WRITING
    return ObservationFields(
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
    return _NEAREST.get(kind, "discovery")


def kinds_of(type_name: str) -> list[str]:
    """Our kinds that are shown as a type of agent-memory's: what a search for the type looks for."""
    return [type_name, *sorted(kind for kind in VALID_TYPES - {type_name} if nearest_type(kind) == type_name)]


def types_of(type_name: str) -> list[str]:
    """How the index classes whatever is shown as a type of agent-memory's."""
    return [*kinds_of(type_name), *_OTHER_TYPES.get(type_name, ())]


def completing(lesson: str, existing: Lesson | None, stated: RecordLesson) -> list[ReviseLesson | ReinforceLesson]:
    """What is to be said after a rule was stated, so that its lesson is as stated, and lasts.

    `known` is the lesson as it stands by then, None while that cannot be read. Of two severities the graver counts; a
    trigger that is not stated stays as it was; an inactive lesson is active again.
    """
    commands: list[ReviseLesson | ReinforceLesson] = []
    if existing is not None:
        revision = ReviseLesson(
            lesson=lesson,
            project=stated.project,
            title=_if_new(stated.title, existing.title),
            severity=stated.severity if severity_rank(stated.severity) < severity_rank(existing.severity) else None,
            trigger_tool=_if_new(stated.trigger_tool, existing.trigger_tool),
            trigger_pattern=_if_new(stated.trigger_pattern, existing.trigger_pattern),
            active=None if existing.active else True,
        )
        if revision != ReviseLesson(lesson=lesson, project=stated.project):
            commands.append(revision)
    if existing is None or not existing.reinforcements:
        commands.append(ReinforceLesson(lesson=lesson, project=stated.project))
    return commands


def graver(first: str, other: str) -> str:
    """The graver of two severities; none at all is the least."""
    return min(first, other, key=severity_rank)


def _if_new(stated: str, existing: str) -> str | None:
    return stated if stated and stated != existing else None


def _title(observation: Observation, tool_name: str) -> str:
    """The title. A tool's name alone says too little, so the file or the command is added."""
    if not tool_name or observation.title != tool_name:
        return observation.title
    tool_input = observation.data.get("tool_input")
    fields = cast("dict[str, object]", tool_input) if isinstance(tool_input, dict) else {}
    for name in _ABOUT:
        about = fields.get(name)
        if isinstance(about, str) and about.strip():
            if name.endswith("_path"):
                about = about.replace("\\", "/").rstrip("/").rpartition("/")[2]
            return f"{tool_name}: {named(' '.join(about.split()))}"[:TITLE_CHARS]
    return tool_name


def name_of(text: str) -> str:
    """The text as a name: without NUL, at most MAX_NAME_CHARS long; of two long texts that differ the names differ."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(text) > MAX_NAME_CHARS:
        digest = blake2b(text.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
        text = f"{text[: MAX_NAME_CHARS - len(digest) - 1]}-{digest}"
    return text or UNKNOWN


def project_of(folder: str | None) -> str:
    """The project that is worked on in a folder: the last part of its path; a Windows path is one part."""
    return name_of(PurePosixPath(folder or "").name)


def wanted_project(text: str | None) -> str | None:
    """The project that is asked for; None for all of them."""
    return name_of(text) if text else None
