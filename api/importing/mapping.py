"""The commands for a row of another system, each with the time and a name from the row. Pure.

Event ids are hashes of the system and what the row is called there, so the same row makes the same events every time.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from ingest.commands.command import Command
from ingest.commands.decide import AnyCommand, Caller, Relate, Remember, decide
from ingest.commands.parse import rejected
from ingest.errors import CommandRejected
from ingest.events.envelope import Event
from ingest.events.session import ObservationCompressed
from ingest.ids import EventId
from ingest.platform.clock import to_ms
from ingest.secrets.clean import cleaned
from ingest.secrets.scrub import repair_text

SOURCE = "import"
"""Of every imported event."""
MAX_NAMES, NAME_CHARS = 200, 512
"""What a command takes of a list, and of a name."""
MAX_METADATA_BYTES = 3_500
"""Of what a system notes beside a text, so that there is room for our own names."""
MAX_RELATION_CHARS = 64
"""Of the type of a relation."""
TITLE_CHARS = 200
"""Of a title that is made of a longer text."""

Record: TypeAlias = dict[str, Any]
C = TypeVar("C", bound=Command)


class ImportRow(NamedTuple):
    """One row of another system: what kind of thing it is, what it is called there, what it says."""

    kind: str
    name: str
    value: Record


class Step(NamedTuple):
    """One command, what it is made of (`key`, its event id follows from it), and when it happened.

    `compressed`: how the system there compressed the observation that the command records.
    """

    command: AnyCommand
    key: str
    at: datetime
    compressed: ObservationCompressed | None = None


class Mapped(NamedTuple):
    """What a row comes to, in order; `lost` says in words what of it is not kept."""

    steps: Sequence[Step]
    lost: Sequence[str] = ()


def related(
    project: str, source: str, relation: str, target: str, at: datetime, lost: list[str], *, context: str = ""
) -> list[Step]:
    """Two names and what relates them: a memory, which recall finds, and a relation, which the graph shows."""
    name = relation[:MAX_RELATION_CHARS]
    if max(len(source), len(target)) > NAME_CHARS or len(relation) > len(name):
        lost.append(f"relations: names longer than {NAME_CHARS} characters, types longer than {MAX_RELATION_CHARS}")
    ends, key = [source[:NAME_CHARS], target[:NAME_CHARS]], f"relation\0{project}\0{source}\0{relation}\0{target}"
    content = f"{source} {relation.replace('_', ' ')} {target} {context}".rstrip()
    stated = Remember(project=project, content=content, tags=["relation"], concepts=ends, keep_duplicates=True)
    return [
        Step(stated, f"{key}\0stated", at),
        Step(Relate(project=project, source=ends[0], target=ends[1], relation=name), key, at),
    ]


def event_id(system: str, key: str) -> EventId:
    """The event id that a row of a system gives, whatever file or server it is read from."""
    digest = blake2b(f"{system}\0{key}".encode(errors="replace"), digest_size=16).hexdigest()
    return EventId(f"import-{digest}")


def events_of(mapped: Mapped, system: str, tenant: str) -> list[Event]:
    """The events of a row, recorded when it says; raises CommandRejected when one of its commands cannot be.

    A command that names its event keeps that name.
    """
    events: list[Event] = []
    for step in mapped.steps:
        recorded_at = _EPOCH + timedelta(milliseconds=to_ms(step.at))
        name = EventId(step.command.event_id) or event_id(system, step.key)
        decision = decide(checked(step.command), Caller(tenant, SOURCE), name, recorded_at)
        envelope = replace(decision.event.envelope, recorded_at=recorded_at)
        events.append(Event(envelope, decision.event.data))
        if step.compressed is not None:
            data = cleaned(replace(step.compressed, observation=decision.subject), "keep")
            compressed = replace(
                envelope,
                event_id=event_id(system, f"{step.key}\0compressed"),
                type=data.TYPE,
                version=data.VERSION,
                causation=envelope.event_id,
                metadata={},
            )
            events.append(Event(compressed, data))
    return events


def checked(command: C) -> C:
    """The command, held to the limits of requests; raises CommandRejected with the field at fault."""
    try:
        return msgspec.convert(msgspec.to_builtins(command), type(command))
    except msgspec.ValidationError as error:
        raise rejected(error) from None


def text(row: Record, *fields: str) -> str:
    """The first of the fields that says something; a number as text."""
    for field in fields:
        value: Any = row.get(field)
        if isinstance(value, str) and value.strip():
            return repair_text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
    return ""


def needed(row: Record, field: str) -> str:
    """What a field says; raises CommandRejected when it says nothing."""
    if value := text(row, field):
        return value
    raise CommandRejected("is missing or empty", field)


def number(row: Record, field: str, otherwise: float) -> float:
    """The number in a field."""
    value: Any = row.get(field)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def whole(row: Record, field: str) -> int:
    """The count in a field, 0 for none."""
    return max(0, int(number(row, field, 0)))


def texts(row: Record, field: str, lost: list[str]) -> list[str]:
    """The texts of a list, which may be JSON in a text; `lost` names what is not a text."""
    value: Any = row.get(field)
    if isinstance(value, str):
        if not value.strip():
            return []
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError):
            value = [value]
    if value is None:
        return []
    if not isinstance(value, list):
        lost.append(f"{field}: no list")
        return []
    entries = cast("list[Any]", value)
    items = [repair_text(entry) for entry in entries if isinstance(entry, str) and entry]
    if len(items) < len(entries):
        lost.append(f"{field}: entries that are no text")
    return items


def names(row: Record, field: str, lost: list[str]) -> list[str]:
    """The names of a list, as many and as long as a command takes."""
    distinct = list(dict.fromkeys(texts(row, field, lost)))
    selected = [name for name in distinct if len(name) <= NAME_CHARS][:MAX_NAMES]
    if len(selected) < len(distinct):
        lost.append(f"{field}: names after the first {MAX_NAMES}, or longer than {NAME_CHARS} characters")
    return selected


def metadata_of(values: Mapping[str, Any], lost: list[str]) -> dict[str, str]:
    """Values as texts, those that the metadata of an event has room for; empty ones are left out."""
    metadata, left = dict[str, str](), MAX_METADATA_BYTES
    for name, value in values.items():
        if value not in (None, "", [], {}):
            stated = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            size = len(f"{name}{stated}".encode(errors="replace"))
            if size > left:
                lost.append(f"metadata over {MAX_METADATA_BYTES:,} bytes in all: {name[:64]}")
                continue
            metadata[name], left = stated, left - size
    return metadata


def when(row: Record, *fields: str) -> datetime:
    """The time in the first of the fields that has one; raises CommandRejected if none has.

    A text is ISO 8601, in UTC when it names no zone; a number counts seconds or, when it is too big for that,
    milliseconds since 1970.
    """
    for field in fields:
        value: Any = row.get(field)
        if value is None or value == "" or isinstance(value, bool):
            continue
        try:
            if isinstance(value, int | float):
                moment = _EPOCH + timedelta(milliseconds=value if value >= _LATEST_S else value * 1000)
            else:
                moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError, TypeError):
            raise CommandRejected("is no time", field) from None
        if moment < _EPOCH:
            raise CommandRejected("is before 1970", field)
        return moment
    raise CommandRejected("has no time", fields[0])


def when_given(row: Record, *fields: str) -> datetime | None:
    """Like `when`, but None without a time."""
    return when(row, *fields) if any(row.get(field) not in (None, "") for field in fields) else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_S = 10_000_000_000
"""The year 2286 in seconds: what is later is in milliseconds."""
