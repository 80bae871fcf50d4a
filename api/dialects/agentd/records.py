"""agentd's memories as ours: a project of their own, ids of agentd's form, nothing that supersedes. Pure.

A memory's id there, `mem_<unix ms>_<8 hex>`, is kept as metadata, and the id of our document follows from it, as that
of an imported memory does: it is found without a search, and a memory that moved here is called what it was called.
What was written into the project natively or by another API has only our own id, and is called by it.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, TypeVar, cast, get_args

from msgspec import UNSET, Meta, Struct, UnsetType, convert
from msgspec.structs import asdict, replace
from starlette.exceptions import HTTPException
from starlette.requests import Request

from api.http.http import read_json
from ingest.commands.decide import Caller, Remember, decide
from ingest.errors import CommandRejected
from ingest.events.envelope import Recorded
from ingest.ids import DocumentId, EventId, document_id, imported_event_id
from ingest.kinds import MEMORY
from ingest.log.position import Token, project_route
from ingest.names import with_nfc
from ingest.nouns.command import EVERYBODY
from ingest.nouns.memory import MemoryRecorded, Purpose, Visibility
from ingest.platform.clock import from_ms, to_ms
from projections.nouns.memory import Memory, memory

SYSTEM = "agentd"
PROJECT = "agentd"
"""Where memories go, and where clients of agentd look for them."""
KIND = "memory"
ID = "agentd_id"
"""Metadata that keeps the id a memory had."""
_NAME = re.compile(r"mem_[0-9]+_[0-9a-f]{8}")


_THEIR_NAMES = {"purpose": "type", "agent_id": "created_by", "occurred_at": "created_at"}
"""What agentd calls fields of a memory."""


class MemoryView(Struct, frozen=True, kw_only=True, rename=_THEIR_NAMES):
    """A memory as agentd's clients read it. `owner` is set if it is not the creator."""

    id: str
    content: str
    purpose: Purpose
    tags: list[str] = []
    agent_id: str
    owner: str | UnsetType | None = UNSET
    occurred_at: datetime
    updated_at: datetime
    visibility: Visibility = "public"
    shared_with: list[str] = []
    references: list[str] = []


def new_name(at: datetime, noise: str) -> str:
    """The id of a new memory; `noise` are 8 hex digits."""
    return f"mem_{to_ms(at)}_{noise}"


def memory_id(tenant: str, project: str, name: str) -> DocumentId:
    """Our id of a memory of agentd's."""
    return document_id(MEMORY, project_route(tenant, project), imported_event_id(SYSTEM, key(name)))


def key(name: str) -> str:
    """What the event of a memory of agentd's is made of."""
    return f"{KIND}\0{name}"


def document_of(name: str, tenant: str) -> DocumentId:
    """The document that an id means: agentd's form, or one of ours as it is."""
    return memory_id(tenant, PROJECT, name) if _NAME.fullmatch(name) else DocumentId(name)


def name_of(memory: Memory) -> str:
    """What a memory is called here. A revision has its first version's metadata, and is another document."""
    name = memory.metadata.get(ID, "")
    return name if document_of(name, memory.tenant) == memory.id else memory.id


def remember(name: str, body: "Create", at: datetime) -> Remember:
    """The command that stores a memory under a new name."""
    return Remember(
        event_id=imported_event_id(SYSTEM, key(name)),
        project=PROJECT,
        **asdict(body),
        occurred_at=to_the_ms(at),
        keep_duplicates=True,
        metadata={ID: name},
    )


def recorded(command: Remember, caller: Caller, position: str) -> Memory:
    """The memory that an acknowledged command becomes, before it is projected."""
    token = Token.parse(position)
    newest = max(token.values())
    event = decide(command, caller, EventId(command.event_id), newest.recorded_at).event
    assert isinstance(event.data, MemoryRecorded)
    return memory(Recorded(newest, *event), event.data)


def view(memory: Memory) -> MemoryView:
    """A memory for a client. Its times are whole milliseconds, as lists and searches compare them."""
    created = to_the_ms(memory.occurred_at)
    changed = memory.updated_at != memory.recorded_at
    return replace(
        convert(memory, MemoryView, from_attributes=True),
        id=name_of(memory),
        owner=memory.owner if memory.owner != memory.agent_id else UNSET,
        occurred_at=created,
        updated_at=max(created, to_the_ms(memory.updated_at)) if changed else created,
    )


def to_the_ms(at: datetime) -> datetime:
    """The time, rounded down to a millisecond."""
    return from_ms(to_ms(at))


Unsigned = Annotated[int, Meta(ge=0)]
Instant = Annotated[datetime, Meta(tz=True)]
"""RFC 3339, with an offset."""


class Create(Struct, frozen=True, kw_only=True, rename=_THEIR_NAMES):
    """A new memory."""

    content: str
    agent_id: str
    purpose: Purpose = "information"
    tags: list[str] = []
    visibility: Visibility = "public"
    shared_with: list[str] = []
    references: list[str] = []


class Listing(Struct, frozen=True, kw_only=True):
    """Which memories to list. `tag` is several by comma, any of which will do."""

    type: Purpose | None = None
    tag: str = ""
    created_by: str | None = None
    visibility: Visibility | None = None
    limit: Unsigned = 50
    offset: Unsigned = 0
    as_actor: str | None = None


class Asked(Struct, frozen=True, kw_only=True):
    """The reader, where visibility depends on it."""

    as_actor: str | None = None


class Search(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What to find, for whom. `tags`: any of them; `from` and `to` bound `created_at`, inclusive."""

    query: str
    as_actor: str | None = None
    type: Purpose | None = None
    tags: list[str] = []
    from_: Instant | None = None
    to: Instant | None = None
    limit: Unsigned = 10


class Show(Struct, frozen=True, kw_only=True):
    """Who may find a memory; without `shared_with` the list stays. `as_actor` must be its creator or owner."""

    visibility: Visibility
    shared_with: list[str] | None = None
    as_actor: str | None = None


class Page(Struct, frozen=True, kw_only=True):
    """Part of the memories that match, and how many do."""

    items: list[MemoryView]
    total: int
    limit: int
    offset: int


class Found(Struct, frozen=True, kw_only=True):
    """What a search found, best first; `total` is how many these are."""

    memories: list[MemoryView]
    total: int


class Deleted(Struct, frozen=True, kw_only=True):
    """Whether there was something to delete."""

    deleted: bool


class Details(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the service stands on: the index (`vector_store`) and the log (`sqlite_storage`), as clients name them."""

    vector_store: bool
    sqlite_storage: bool
    vector_store_error: str = ""
    sqlite_storage_error: str = ""


class Health(Struct, frozen=True, kw_only=True):
    """Whether the service can be used."""

    status: Literal["ok", "degraded"]
    service: str
    version: str
    details: Details


T = TypeVar("T")

MAX_BODY_BYTES = 2 << 20
MAX_LIMIT = 200
_ID = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"[0-9]{1,20}")


async def read_body(request: Request, cls: type[T], refused: tuple[str, ...] = ()) -> T:
    """The body. Raises HTTPException: 415 for what does not call itself JSON, 400 for a key that is missing, 422 for a
    value that does not fit (400 where its key is one of `refused`); MalformedRequest and RequestTooLarge.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise HTTPException(415, "send the body as `Content-Type: application/json`")
    try:
        return await read_json(request, cls, MAX_BODY_BYTES)
    except CommandRejected as error:
        bad = "missing required field" in error.message or error.field in refused
        where = f"{error.field}: " if error.field and error.field not in error.message else ""
        raise HTTPException(400 if bad else 422, f"{where}{error.message}") from None


def listing(given: Mapping[str, str]) -> Listing:
    """The query of a list, its limit within 1 to 200. Raises CommandRejected."""
    given = with_nfc(dict(given))
    return Listing(
        type=cast("Purpose | None", _one_of(given, "type", get_args(Purpose))),
        tag=given.get("tag", ""),
        created_by=given.get("created_by"),
        visibility=cast("Visibility | None", _one_of(given, "visibility", get_args(Visibility))),
        limit=min(max(1, _number(given, "limit", 50)), MAX_LIMIT),
        offset=_number(given, "offset", 0),
        as_actor=given.get("as_actor"),
    )


def memory_name(request: Request) -> str:
    """The id in the path; raises CommandRejected when it cannot be one."""
    name: str = request.path_params["id"]
    if not _ID.fullmatch(name):
        raise CommandRejected(f"{name!r} is not an id: letters, digits, `_` and `-` only")
    return name


def not_blank(text: str, field: str) -> None:
    """Raises CommandRejected for a blank text."""
    if not text.strip():
        raise CommandRejected(f"{field} must not be empty", field)


def creator(name: str) -> None:
    """Raises CommandRejected for who cannot create a memory."""
    not_blank(name, "created_by")
    if name == EVERYBODY:
        raise CommandRejected(f"created_by must be a name, and {EVERYBODY!r} is reserved", "created_by")


def _one_of(given: Mapping[str, str], field: str, choices: tuple[str, ...]) -> str | None:
    stated = given.get(field)
    if stated is not None and stated.lower() not in choices:
        raise CommandRejected(f"unknown {field} {stated!r}; there are: {', '.join(choices)}", field)
    return None if stated is None else stated.lower()


def _number(given: Mapping[str, str], field: str, otherwise: int) -> int:
    stated = given.get(field)
    if stated is not None and not _NUMBER.fullmatch(stated):
        raise CommandRejected(f"{field} must be a whole number, 0 or more", field)
    return otherwise if stated is None else int(stated)
