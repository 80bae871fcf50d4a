"""What native routes share: typed query strings that may say what to wait for."""

from datetime import datetime
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request

from api.http.http import query
from api.services import reader, services
from ingest.commands.command import EventName, Name
from ingest.log.position import Token
from projections.queries.times import Interval, Times
from projections.queries.views import Page

PageLimit = Annotated[int, Meta(ge=1, le=1000)]
Time = Annotated[datetime, Meta(tz=True)]
S = TypeVar("S", bound="After | BoundedRead")
P = TypeVar("P", bound=Page[Any])


class After(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A read that may wait for a position."""

    after: str = ""


class Bounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of the listed happened from `since` and before `until`, and were recorded so."""

    since: Time | None = None
    until: Time | None = None
    recorded_since: Time | None = None
    recorded_until: Time | None = None

    @property
    def times(self) -> Times:
        """The same as intervals."""
        return Times(Interval.of(self.since, self.until), Interval.of(self.recorded_since, self.recorded_until))


class BoundedRead(Bounds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, by a read that may wait for a position."""

    after: str = ""


class ListRequest(BoundedRead, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of one project's documents."""

    project: Name = ""
    cursor: str | None = None
    limit: PageLimit = 50


class InProject(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something of one project, or of any."""

    project: Name | None = None


class AnyProjectRequest(BoundedRead, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of documents of one project, or of all."""

    project: Name | None = None
    cursor: str | None = None
    limit: PageLimit = 50


class Queued(Struct, frozen=True, kw_only=True):
    """Whether the job was queued: not while the one before waits or runs."""

    queued: bool


class Repeatable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A write without a body; its event id makes a retry harmless."""

    event_id: EventName = ""


async def with_notes(request: Request, wanted: "ListRequest | AnyProjectRequest", page: P) -> P:
    """A page; of an empty listing, a note where the reader finds nothing at all of the project that it names."""
    if page.items or wanted.cursor or not wanted.project:
        return page
    notes = await services(request).queries.lookup.unknown(reader(request), [wanted.project])
    return replace(page, notes=notes) if notes else page


async def read_request(request: Request, cls: type[S]) -> S:
    """The query string, once everything up to its `after` is searchable; raises ProjectionBehind."""
    wanted = query(request, cls)
    if wanted.after:
        await services(request).search_index.wait_for(Token.parse(wanted.after))
    return wanted
