"""Shared by native routes: the decorator that declares a route, and the query strings of reads and listings.

A handler's signature defines its request: path parameters by name, `query` and `body` (a struct each), and `principal`
or `request` for the rare handler that needs one. Its return value is the response, and its docstring is the summary and
the description in OpenAPI.
"""

import inspect
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeAlias, TypeVar, cast

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.access.principal import Principal, principal_of
from api.http.endpoint import Endpoint
from api.http.http import query_of, read_body, send_json
from api.http.requests import header_of
from api.services import native_call
from ingest.commands.parse import parse_json
from ingest.errors import CommandRejected
from ingest.log.position import Token
from ingest.nouns.command import EventName, Name
from ingest.platform.tasks import INLINE_BYTES, in_thread
from ingest.roles import Needs
from projections.operations.current import Applied
from projections.queries.times import Interval, Times
from projections.queries.views import Page

MAX_DIGITS = 15
"""Of a version in an ETag."""
APPLIED = {200: Applied}
"""The answer to a change with an expected version: it is applied."""
VERSION_CONFLICT = {409: "The document has another version than expected, or the token is stale."}
PageLimit = Annotated[int, Meta(ge=1, le=1000)]
ShortLimit = Annotated[int, Meta(ge=1, le=200)]
Time = Annotated[datetime, Meta(tz=True)]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])
C = TypeVar("C", bound=Struct)
Check: TypeAlias = Callable[[Principal], None]
Declare: TypeAlias = Callable[[Handler], Handler]


class Fields(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a request, in its query string or its body. Others are refused, also by the classes below."""


class After(Fields, frozen=True, kw_only=True):
    """A read that can wait for a position."""

    after: str = ""


class Bounds(Fields, frozen=True, kw_only=True):
    """Filters a listing by event time and by recording time."""

    since: Time | None = None
    until: Time | None = None
    recorded_since: Time | None = None
    recorded_until: Time | None = None

    @property
    def times(self) -> Times:
        """The bounds as intervals."""
        return Times(Interval.of(self.since, self.until), Interval.of(self.recorded_since, self.recorded_until))


class BoundedRead(Bounds, frozen=True, kw_only=True):
    """Bounds for a read that can wait for a position."""

    after: str = ""


class AnyProjectRequest(BoundedRead, frozen=True, kw_only=True):
    """A page of documents of one project, or of all."""

    project: Name | None = None
    cursor: str | None = None
    limit: PageLimit = 50

    @property
    def page(self) -> tuple[Any, str | None, int, Times]:
        """The common parameters of listings: the project, the cursor, the limit and the times."""
        return self.project, self.cursor, self.limit, self.times


class ListRequest(AnyProjectRequest, frozen=True, kw_only=True):
    """A page of one project's documents."""

    project: Name = ""


class InProject(After, frozen=True, kw_only=True):
    """A document in one project, or in any."""

    project: Name | None = None


class Queued(Struct, frozen=True, kw_only=True):
    """Whether the job was queued; false if an earlier one is still waiting or running."""

    queued: bool


class Repeatable(Fields, frozen=True, kw_only=True):
    """A write without a body; its event id makes a retry harmless."""

    event_id: EventName = ""


class TypedHandler:
    """An ASGI application that passes a request to a handler according to its signature, and sends its return value.

    It creates no Request or Response objects: at thousands of writes a second, they would cost as much as the write.
    """

    def __init__(
        self, handler: Callable[..., Awaitable[Any]], path: str, status: int, *, optional: bool, check: Check | None
    ) -> None:
        """`optional`: an empty body means a body without fields."""
        signature = inspect.signature(handler)
        parameters = signature.parameters
        self.query: type[Any] | None = parameters["query"].annotation if "query" in parameters else None
        self.body: type[Any] | None = parameters["body"].annotation if "body" in parameters else None
        self._empty = self.body() if optional and self.body is not None else None
        self.answer = signature.return_annotation
        self._handler, self._status, self._check = handler, status, check
        self._wants_request, self._wants_principal = "request" in parameters, "principal" in parameters
        self._in_path = [name for name in parameters if f"{{{name}}}" in path or f"{{{name}:path}}" in path]
        changes = {name: kind for name, kind in (("body", self.body), ("query", self.query)) if kind is not None}
        self._versioned = next((name for name in changes if hasattr(changes[name], "expected_version")), "")
        self._waits = self.query is not None and issubclass(self.query, After | BoundedRead)
        self._parse = partial(parse_json, cls=cast("type[Any]", self.body))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope, receive)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        elif isinstance(answer, Applied):
            await send_json(send, 200, answer, answer.version)
        else:
            version = cast("dict[str, Any]", answer).get("version") if isinstance(answer, dict) else None
            await send_json(send, self._status, answer, version)

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        if self._check is not None:
            self._check(principal_of(scope))
        call = native_call(scope)
        arguments: dict[str, Any] = {name: scope["path_params"][name] for name in self._in_path}
        query = None
        if self.query is not None:
            arguments["query"] = query = query_of(scope, self.query)
            if self._waits and query.after:
                await call.search_index.wait_for(Token.parse(query.after))
        if self.body is not None:
            raw = await read_body(scope, receive)
            if self._empty is not None and not raw.strip():
                arguments["body"] = self._empty
            else:  # inline: awaiting `parsed` for a small body would cost as much as parsing it
                arguments["body"] = self._parse(raw) if len(raw) <= INLINE_BYTES else await in_thread(self._parse, raw)
        self._expect(scope, arguments)
        if self._wants_principal:
            arguments["principal"] = principal_of(scope)
        if self._wants_request:
            arguments["request"] = Request(scope, receive)
        answer = await self._handler(call, **arguments)
        if not isinstance(query, AnyProjectRequest) or not isinstance(answer, Page):
            return answer
        page = cast("Page[Any]", answer)
        if page.items or query.cursor or not query.project:
            return page
        notes = await call.queries.lookup.unknown(call.reader(), [query.project])
        return replace(page, notes=notes) if notes else page

    def _expect(self, scope: Scope, arguments: dict[str, Any]) -> None:
        """Put the version of `If-Match` into the request; raises CommandRejected if it has no place for one."""
        is_change = self._versioned or scope["method"] in ("PATCH", "DELETE")
        if not is_change or (version := _matched_version(scope)) is None:
            return
        if not self._versioned:
            raise CommandRejected("this route does not support If-Match", "If-Match")
        arguments[self._versioned] = replace(arguments[self._versioned], expected_version=version)


def _matched_version(scope: Scope) -> int | None:
    """The version in the header `If-Match`; None without one and for `*`. Raises CommandRejected for any other ETag."""
    value = header_of(scope["headers"], b"if-match", b"*")
    if value == b"*":
        return None
    version = value.decode("latin-1").strip().removeprefix("W/").strip('"')
    if not version.isascii() or not version.isdigit() or len(version) > MAX_DIGITS:
        raise CommandRejected('If-Match needs the ETag of a read, such as "3"', "If-Match")
    return int(version)


def router(endpoints: list[Endpoint]) -> Callable[..., Declare[Any]]:
    """The route decorator of a module, which adds routes to these endpoints; see `_route` for its arguments."""
    return partial(_route, endpoints)


def as_struct(cls: type[C], request: object, **fields: object) -> C:
    """A struct from the fields of a request and these fields; for a request type with more or fewer fields."""
    return cls(**{name: getattr(request, name) for name in cls.__struct_fields__ if hasattr(request, name)} | fields)


def _route(
    endpoints: list[Endpoint],
    way: str,
    needs: Needs,
    status: int = 200,
    *,
    summary: str = "",
    optional: bool = False,
    check: Check | None = None,
    **details: Any,
) -> Declare[Any]:
    """Declare the route `METHOD /path` and add it to a module's endpoints.

    The first paragraph of the handler's docstring is the default summary; the rest is the description. `check` raises
    for callers that are refused before the query and the body are read. `details` are other fields of its Endpoint.
    """
    method, path = way.split()

    def declare(handler: Handler) -> Handler:
        typed = TypedHandler(handler, path, status, optional=optional, check=check)
        paragraphs = [" ".join(text.split()) for text in (inspect.getdoc(handler) or "").split("\n\n", 1)]
        first, rest = (*paragraphs, "")[:2]
        if summary and summary != first:
            rest = f"{first} {rest}".strip()
        shapes: dict[str, Any] = {
            "query": typed.query,
            "body": typed.body,
            "answer": typed.answer,
            "optional": optional,
            **details,
        }
        endpoints.append(
            Endpoint(method, path, needs, typed, summary or first, status=status, description=rest, **shapes)
        )
        return handler

    return declare
