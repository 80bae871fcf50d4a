"""Rows, and the names of listings.

Flat, low-volume read models are redis-om rows: one hash each. This is the one file that imports redis-om. API keys are
saved and read by redis-om (`save`, `load_row`). Rows that are documents are read and written many at a time: their
hashes are made and parsed here, in a twentieth and a fifth of the time. Listings are sorted sets of document ids, named
by what they list; here are the names that belong to no one type of document.
"""

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

from msgspec import Struct
from msgspec.structs import asdict

from ingest.events.envelope import Recorded, Trust
from ingest.ids import DocumentId, document_id
from ingest.kinds import SESSION
from ingest.log.keys import row_key
from ingest.log.position import project_route, session_route
from ingest.platform.clock import to_ms
from ingest.platform.connections import Client, Transaction, ask
from projections.nouns.trust import trust_of

if TYPE_CHECKING:  # what of redis-om is used here; its own annotations leave type checkers guessing
    from pydantic import BaseModel
    from pydantic import Field as PydanticField

    def Field(*, default: str, primary_key: bool) -> str:
        return PydanticField(default=default)

    class HashModel(BaseModel):
        def __init_subclass__(cls, *, index: bool = False) -> None: ...
        async def save(self, pipeline: Transaction) -> Any: ...
        @classmethod
        async def get(cls, pk: str) -> Self: ...

    class NotFoundError(Exception): ...

else:
    from aredis_om import Field, HashModel, NotFoundError

UNPLACED = "-"
"""`pk` of a row that is not being saved (redis-om would replace an empty one by a random id)."""
SEPARATOR = "\x1f"
"""Between the values of a list: a hash holds text."""
RowT = TypeVar("RowT", bound="Row")


class _TextClient(NamedTuple):
    """A client as redis-om needs it to read: replies are text, because among bytes it would find no field."""

    redis: Client

    async def hgetall(self, name: str) -> dict[str, Any]:
        answer: dict[bytes, bytes] | list[bytes] | Exception
        (answer,) = await ask(self.redis, [("HGETALL", name)])  # several at a time share a connection
        if isinstance(answer, Exception):
            raise answer
        return _as_text(answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True)))


def _as_text(stored: Mapping[bytes, bytes]) -> dict[str, Any]:
    return {name.decode(): value.decode() for name, value in stored.items()}


_client: ContextVar[_TextClient | None] = ContextVar("client", default=None)
"""Of each task that is reading: redis-om would have a single client per class, for all event loops and servers."""


class Row(HashModel):
    """Base of a row. `pk` is the row's place among the keys of its partition and generation, given when it is saved.

    Rows are values: a fold makes a changed copy (`model_copy`) and leaves the old one alone. No field may be None or
    a list: a hash holds text, and saving does not remove a field that became None.
    """

    pk: str = Field(default=UNPLACED, primary_key=True)

    @classmethod
    def make_key(cls, part: str) -> str:
        """Every row's key has the same shape, whatever its class (redis-om would put the class's name in it)."""
        return row_key(part)

    @classmethod
    def db(cls) -> _TextClient | None:
        """Return the client that redis-om reads with; None while it saves, for which it needs only a transaction."""
        return _client.get()


async def load_row(cls: type[RowT], pk: str, redis: Client) -> RowT | None:
    """Return the row that was saved under `pk`, read through redis-om; None without one."""
    token = _client.set(_TextClient(redis))
    try:
        return await cls.get(pk)
    except NotFoundError:
        return None
    finally:
        _client.reset(token)


def queue_row(row: Row, pk: str, pipe: Transaction) -> None:
    """Queue a row's hash under `row_key(pk)`, checked and written as `save` does it: for the rows of a batch."""
    fields = {**row.__dict__, "pk": pk}
    type(row).model_validate(fields)
    flat = {name: ("1" if value else "0") if isinstance(value, bool) else value for name, value in fields.items()}
    pipe.hset(row_key(pk), mapping=flat)


def read_row(cls: type[RowT], stored: Mapping[bytes, bytes]) -> RowT | None:
    """Return the row in a hash's fields, as `load_row` reads it; None for no hash.

    Its `pk` is UNPLACED: a row's identity is its `id`.
    """
    return cls.model_validate(_as_text(stored) | {"pk": UNPLACED}) if stored else None


def joined(values: Iterable[str]) -> str:
    """The values in one text; a value's own U+001F becomes a space."""
    return SEPARATOR.join(value.replace(SEPARATOR, " ") for value in values)


def split(text: str) -> list[str]:
    """The values that `joined` put together."""
    return text.split(SEPARATOR) if text else []


def origin(recorded: Recorded, said_by: Trust | None = None) -> dict[str, Any]:
    """The fields that every document takes from its event's envelope; times as datetimes. `said_by`: see `trust_of`."""
    envelope = recorded.envelope
    return {
        "tenant": envelope.tenant,
        "project": envelope.project,
        "session_id": envelope.session_id,
        "agent_id": envelope.agent_id,
        "user_id": envelope.user_id,
        "occurred_at": envelope.occurred_at,
        "recorded_at": recorded.recorded_at,
        "position": str(recorded.position),
        "trust": trust_of(recorded, said_by),
    }


def row_origin(recorded: Recorded) -> dict[str, Any]:
    """The same for a flat document: without a session, and with the time it happened in milliseconds."""
    envelope = recorded.envelope
    return {
        "tenant": envelope.tenant,
        "project": envelope.project,
        "agent_id": envelope.agent_id,
        "user_id": envelope.user_id,
        "occurred_ms": to_ms(envelope.occurred_at),
        "position": str(recorded.position),
    }


def created_id(prefix: str, *, in_session: bool = False) -> Callable[[Recorded], DocumentId]:
    """Returns the function that names what an event creates: by the event's id within its project, or its session."""

    def name(recorded: Recorded) -> DocumentId:
        envelope = recorded.envelope
        # not `route_of`, which looks at the type of each event: this runs several times for an event
        if in_session:
            route = session_route(envelope.tenant, envelope.project, envelope.session_id)
        else:
            route = project_route(envelope.tenant, envelope.project)
        return document_id(prefix, route, envelope.event_id)

    return name


@lru_cache(maxsize=1_024)
def session_document_id(tenant: str, project: str, session_id: str) -> DocumentId:
    """The document id of a session."""
    return document_id(SESSION, session_route(tenant, project, session_id), "")


def row_fields(data: Struct, **instead: Any) -> dict[str, Any]:
    """The fields of an event's data, or those `instead`, as a row has them: lists as one text, None left out."""
    fields = {**asdict(data), "expected_version": None, **instead}
    return {
        name: joined(cast(list[str], value)) if isinstance(value, list) else value
        for name, value in fields.items()
        if value is not None
    }


def same_fields(data: Struct, document: type[Struct]) -> dict[str, Any]:
    """The fields of an event's data that its document has under the same names."""
    return {name: getattr(data, name) for name in _common_fields(type(data), document)}


@cache
def _common_fields(data: type[Struct], document: type[Struct]) -> tuple[str, ...]:
    return tuple(name for name in data.__struct_fields__ if name in document.__struct_fields__)


_PART = "\x1d"


def document_listing(name: str) -> Callable[[str], str]:
    """Returns the function that names a listing of a document (or of a tenant)."""
    return lambda document: f"{name}:{document}"


def project_listing(name: str) -> Callable[[str, str], str]:
    """Returns the function that names a listing of a tenant's project (or user, or session)."""
    return lambda tenant, project: f"{name}:{tenant}\0{project}"


def of_tenant(name: str, tenant: str, project: str | None = None) -> str:
    """A listing of a tenant, or of one of its projects."""
    return f"{name}:{tenant}" if project is None else f"{name}:{tenant}\0{project}"


of_user = project_listing("user")
"""Listing of all documents and marks that name a user, in log order."""
derived = document_listing("derived")
"""Listing of the documents that were derived from one."""


def part_of(listing: str, beginning: str) -> str:
    """What names those members of a listing that begin with a text, where members are asked for."""
    return f"{listing}{_PART}{beginning}"


def whole_of(name: str) -> tuple[str, str]:
    """The listing that a name of a listing or of a part is about, and what the members begin with."""
    listing, _, beginning = name.partition(_PART)
    return listing, beginning


def by_position(position: str, name: str) -> str:
    """The member of a listing in log order."""
    ms, _, seq = position.partition("-")
    return f"{int(ms):014d}-{int(seq):06d}|{name}"


def by_time(ms: int, name: str) -> str:
    """The member of a listing in the order of times."""
    return f"{ms:014d}|{name}"


def in_user_listing(tenant: str, user: str, member: str) -> set[tuple[str, str]]:
    """The `(listing, member)` pair of a document that names a user; nothing for one that names none."""
    return {(of_user(tenant, user), member)} if user else set()
