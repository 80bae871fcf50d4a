"""The commands for a row of another system, each with the time and a name from the row. Pure.

Event ids are hashes of the system and the row's id there, so the same row always gives the same events.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from ingest.commands.decide import AnyCommand, Caller, Relate, Remember, decide
from ingest.commands.parse import rejected
from ingest.errors import CommandRejected
from ingest.events.envelope import Event
from ingest.ids import EventId, imported_event_id
from ingest.nouns.command import Command
from ingest.nouns.observation import ObservationCompressed
from ingest.platform.clock import EPOCH, in_utc, to_ms
from ingest.secrets.clean import cleaned
from ingest.secrets.scrub import repair_text

SOURCE = "import"
"""The source of every imported event."""
MAX_NAMES, NAME_CHARS = 200, 512
"""The item limit of a list, and the length limit of a name, in a command."""
MAX_METADATA_BYTES = 3_500
"""The size limit of a system's metadata, which leaves space for our own names."""
MAX_RELATION_CHARS = 64
"""Of the type of a relation."""
LISTED_NAMES = 8
"""Of a longer list of names, in a message."""
TITLE_CHARS = 200
"""Of a title that is made of a longer text."""

Record: TypeAlias = dict[str, Any]
C = TypeVar("C", bound=Command)


class ImportRow(NamedTuple):
    """One row of another system: its kind, its id there, and its fields."""

    kind: str
    name: str
    value: Record

    @property
    def key(self) -> str:
        """What the row's event is made of, where the id tells the row from others of its kind."""
        return f"{self.kind}\0{self.name}"


class Step(NamedTuple):
    """One command, what it is made of (`key`, its event id follows from it), and when it happened.

    `compressed`: how the system there compressed the observation that the command records.
    """

    command: AnyCommand
    key: str
    at: datetime
    compressed: ObservationCompressed | None = None


class Mapped(NamedTuple):
    """The steps for a row, in order; `lost` describes the parts that are not imported."""

    steps: Sequence[Step]
    lost: Sequence[str] = ()


def related(
    project: str, source: str, relation: str, target: str, at: datetime, lost: list[str], *, context: str = ""
) -> list[Step]:
    """Two related names: a memory, for recall, and a relation, for the graph."""
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


def events_of(mapped: Mapped, system: str, tenant: str) -> list[Event]:
    """The events of a row, with its times; raises CommandRejected if one of its commands is invalid.

    A command with an event id keeps it.
    """
    events: list[Event] = []
    for step in mapped.steps:
        recorded_at = EPOCH + timedelta(milliseconds=to_ms(step.at))
        name = EventId(step.command.event_id) or imported_event_id(system, step.key)
        decision = decide(checked(step.command), Caller(tenant, SOURCE), name, recorded_at)
        envelope = replace(decision.event.envelope, recorded_at=recorded_at)
        events.append(Event(envelope, decision.event.data))
        if step.compressed is not None:
            data = cleaned(replace(step.compressed, observation=decision.subject), "keep")
            compressed = replace(
                envelope,
                event_id=imported_event_id(system, f"{step.key}\0compressed"),
                type=data.TYPE,
                version=data.VERSION,
                causation=envelope.event_id,
                metadata={},
            )
            events.append(Event(compressed, data))
    return events


def checked(command: C) -> C:
    """The command, validated against the request limits; raises CommandRejected with the invalid field."""
    try:
        return msgspec.convert(msgspec.to_builtins(command), type(command))
    except msgspec.ValidationError as error:
        raise rejected(error) from None


def as_object(value: object) -> Record:
    """The value if it is an object, otherwise an empty one."""
    return cast(Record, value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, otherwise an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects(value: object) -> list[Record]:
    """The objects in a list; none in anything but a list."""
    return [cast(Record, item) for item in as_list(value) if isinstance(item, dict)]


def text(row: Record, *fields: str) -> str:
    """The first non-empty field; a number as text."""
    for field in fields:
        value: Any = row.get(field)
        if isinstance(value, str) and value.strip():
            return repair_text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
    return ""


def needed(row: Record, field: str) -> str:
    """The value of a field; raises CommandRejected if it is missing or empty."""
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
    """The texts of a list, which can be JSON in a text; `lost` names other values."""
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
        lost.append(f"{field}: not a list")
        return []
    entries = cast("list[Any]", value)
    items = [repair_text(entry) for entry in entries if isinstance(entry, str) and entry]
    if len(items) < len(entries):
        lost.append(f"{field}: entries that are not text")
    return items


def names(row: Record, field: str, lost: list[str]) -> list[str]:
    """The names of a list, within the limits of a command."""
    distinct = list(dict.fromkeys(texts(row, field, lost)))
    selected = [name for name in distinct if len(name) <= NAME_CHARS][:MAX_NAMES]
    if len(selected) < len(distinct):
        lost.append(f"{field}: names after the first {MAX_NAMES}, or longer than {NAME_CHARS} characters")
    return selected


def metadata_of(values: Mapping[str, Any], lost: list[str]) -> dict[str, str]:
    """Values as texts, within the size limit of an event's metadata; empty ones are omitted."""
    metadata, left, over = dict[str, str](), MAX_METADATA_BYTES, list[str]()
    for name, value in values.items():
        if value not in (None, "", [], {}):
            stated = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            size = len(f"{name}{stated}".encode(errors="replace"))
            if size > left:
                over.append(name[:64])
                continue
            metadata[name], left = stated, left - size
    if over:
        lost.append(f"metadata over {MAX_METADATA_BYTES:,} bytes in all: {few(over)}")
    return metadata


def few(names: Sequence[str]) -> str:
    """The first names, joined."""
    return ", ".join([*names[:LISTED_NAMES], *["…"] * (len(names) > LISTED_NAMES)])


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
                moment = EPOCH + timedelta(milliseconds=value if value >= _LATEST_S else value * 1000)
            else:
                moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
            moment = in_utc(moment)
        except (ValueError, OverflowError, TypeError):
            raise CommandRejected("is not a time", field) from None
        if moment < EPOCH:
            raise CommandRejected("is before 1970", field)
        return moment
    raise CommandRejected("has no time", fields[0])


def when_given(row: Record, *fields: str) -> datetime | None:
    """Like `when`, but None if there is no time."""
    return when(row, *fields) if any(row.get(field) not in (None, "") for field in fields) else None


_LATEST_S = 10_000_000_000
"""The year 2286 in seconds; larger numbers are milliseconds."""
