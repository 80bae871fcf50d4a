"""Hypothesis strategies of events: any data of any type, any envelope, any msgpack; and what damages a stored event."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Any, cast, get_args

import msgspec
from factories import PROJECT, SESSION_NAME, TENANT
from hypothesis import strategies as st

from ingest.events.envelope import Envelope, Event, EventData, Recorded, encode
from ingest.ids import EventId, document_id
from ingest.kinds import ACTION, COMMIT, LESSON, MEMORY, OBSERVATION, RELATION
from ingest.log.position import Position, project_route, session_route
from ingest.nouns.action import ActionEdge, EdgeType
from ingest.nouns.registry import EVENT_TYPES

zones = st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-9, minutes=-30))])
times = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=zones)
integers, floats, texts = st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=10)
json_values = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
msgpack_values = st.recursive(
    st.none() | st.booleans() | integers | st.floats() | texts | st.binary(max_size=10) | times
    | st.builds(msgspec.msgpack.Ext, st.integers(-1, 127).filter(lambda code: code != -1), st.binary(max_size=4)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.integers(0, 9), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
"""Whatever msgpack can say, also what is no JSON."""

EVENT_IDS = ("e1", "e2", "e3", "e4")
_ROUTE, _SESSION_ROUTE = project_route(TENANT, PROJECT), session_route(TENANT, PROJECT, SESSION_NAME)
DOCUMENTS = tuple(
    document_id(prefix, _SESSION_ROUTE if prefix == OBSERVATION else _ROUTE, EventId(name))
    for prefix in (ACTION, COMMIT, LESSON, MEMORY, OBSERVATION, RELATION)
    for name in EVENT_IDS
)
"""The documents that events with these ids make; so events drawn with `names` are about each other."""
names = st.sampled_from([*DOCUMENTS, *EVENT_IDS, "", "\0", "\x1d", "\x1e", "\x1f", "|", "persona"]) | texts


@cache
def data_of(cls: type[EventData], text: st.SearchStrategy[str] = texts) -> st.SearchStrategy[EventData]:
    """Any data of one event type, built from the types of its fields; `said` is what its texts are."""
    edges = st.builds(ActionEdge, type=st.sampled_from(get_args(EdgeType)), target=text)
    of_type: dict[Any, st.SearchStrategy[Any]] = {
        list[ActionEdge]: st.lists(edges, max_size=3), str: text, int: integers, float: floats, bool: st.booleans(),
        int | float: integers | floats, int | float | None: st.none() | integers | floats,
        int | None: st.none() | integers, float | None: st.none() | floats, str | None: st.none() | text,
        datetime | None: st.none() | times, list[str]: st.lists(text, max_size=3),
        dict[str, Any]: st.dictionaries(texts, json_values, max_size=3),
    }  # fmt: skip
    fields = msgspec.structs.fields(cls)
    return st.builds(
        cls,
        **{field.name: of_type[field.type] if field.type in of_type else st.from_type(field.type) for field in fields},
    )


envelopes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "event_id": texts,
        "occurred_at": times,
        "metadata": st.dictionaries(texts, texts, max_size=2),
        **dict.fromkeys(
            ["tenant", "project", "agent_id", "session_id", "user_id", "source", "causation", "trace"],
            texts,
        ),
    }
)


@st.composite
def histories_of_anything(draw: st.DrawFn) -> list[Recorded]:
    """A log of valid events that nobody decided: of one project and session mostly, in any order, about each other."""
    events: list[Recorded] = []
    for place in range(draw(st.integers(1, 8))):
        data = draw(st.sampled_from(list(EVENT_TYPES.values())).flatmap(lambda cls: data_of(cls, names)))
        envelope = Envelope(
            event_id=draw(st.sampled_from(EVENT_IDS)), type=data.TYPE, version=data.VERSION, tenant=TENANT,
            project=draw(st.sampled_from([PROJECT, PROJECT, ""])),
            session_id=draw(st.sampled_from([SESSION_NAME, SESSION_NAME, ""])), agent_id=draw(names),
            user_id=draw(names), occurred_at=draw(times), metadata=draw(st.dictionaries(texts, texts, max_size=2)),
        )  # fmt: skip
        events.append(Recorded(Position(1_769_860_800_000 + 1000 * place, 0), envelope, data))
    return events


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The stored bytes of an event with something wrong: a field gone, another value, more than there was, or cut."""
    data = draw(st.sampled_from(list(EVENT_TYPES.values())).flatmap(data_of))
    envelope = Envelope(type=data.TYPE, version=data.VERSION, **draw(envelopes))
    raw: dict[Any, Any] = msgspec.msgpack.decode(encode(Event(envelope, data)))
    spoil = _spoilers(draw)
    for _ in range(draw(st.integers(1, 3))):
        draw(st.sampled_from(spoil))(draw(st.sampled_from([raw, raw.get("data", raw)])))
    stored = msgspec.msgpack.encode(raw)
    return draw(st.sampled_from([stored, stored, stored[: draw(st.integers(0, len(stored)))]]))


def _spoilers(draw: st.DrawFn) -> list[Callable[[Any], None]]:
    def lose(fields: Any) -> None:
        if existing := _known(fields):
            del existing[draw(st.sampled_from(list(existing)))]

    def change(fields: Any) -> None:
        if existing := _known(fields):
            existing[draw(st.sampled_from(list(existing)))] = draw(msgpack_values)

    def add(fields: Any) -> None:
        if isinstance(fields, dict):
            fields[draw(texts)] = draw(msgpack_values)

    def age(fields: Any) -> None:
        if isinstance(fields, dict) and "version" in fields:
            fields["version"] = draw(st.integers(-1, 4))

    return [lose, change, add, age]


def _known(fields: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}


payloads = st.one_of(st.binary(max_size=100), msgpack_values.map(msgspec.msgpack.encode), damaged())
"""What may stand in a log that somebody else wrote to."""
DEEP = b"\x91" * 100_000 + b"\xc0"
"""A list in a list, a hundred thousand times."""
