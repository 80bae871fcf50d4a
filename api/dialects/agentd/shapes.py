"""What agentd-memory's clients send and read. Unknown keys are ignored."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.dialects.agentd.records import MemoryView
from ingest.events.memory import Purpose, Visibility

Unsigned = Annotated[int, Meta(ge=0)]
Instant = Annotated[datetime, Meta(tz=True)]
"""RFC 3339, with an offset."""


class Create(Struct, frozen=True, kw_only=True):
    """A new memory."""

    content: str
    created_by: str
    type: Purpose = "information"
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
    """Who asks, where that is to count."""

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
