"""Calls as values: what is sent, and what its answer is read as. Nothing here connects to anything.

A method of `nouns.py` describes one call and returns it; `remote` and `listing` turn that description
into a method: a blocking client returns the answer, an asyncio client an awaitable of it. So every call, with its
parameters and types, is written once.
"""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, overload
from urllib.parse import quote
from uuid import uuid4

import httpx
import msgspec

from mnemolog_client.answers import Event, EventsPage, Page
from mnemolog_client.errors import InvalidRequest, ServerFault, Unavailable
from mnemolog_client.retry import Retry
from mnemolog_client.wording import unreadable

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
S = TypeVar("S", bound="Blocking | Awaiting", covariant=True)

Fields = Mapping[str, Any]


class Positioned(Protocol):
    """An answer that says where the log has what was written."""

    @property
    def position(self) -> str: ...


W = TypeVar("W", bound=Positioned)


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One request, and how its answer is read. A retry sends the same bytes with the same event id."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Fields = field(default_factory=dict[str, Any])
    content: bytes | None = None
    content_type: str = "application/json"
    waits: bool = False
    """Whether the query string takes `after`."""
    body: Fields | None = None
    """What `content` is made of when it is sent, with `after` where `body_waits`."""
    body_waits: bool = False
    position_of: Callable[[T], str] | None = None
    """Of a write: where its answer says that it is in the log."""
    also_answers: frozenset[int] = frozenset()
    """Statuses that are no success, and have an answer that is read all the same."""
    none_for: str = ""
    """Code of a refusal that is answered as None."""

    def parameters(self, after: str) -> dict[str, str]:
        """The query string of a request that waits for `after`."""
        given = {name: _as_text(value) for name, value in self.query.items() if value is not None}
        return {**given, "after": after} if self.waits and after else given

    def encoded(self, after: str) -> bytes | None:
        """The body of a request that waits for `after`."""
        if self.body is None:
            return self.content
        given = {name: value for name, value in self.body.items() if value is not None}
        return encoded({**given, "after": after} if self.body_waits and after else given)


@dataclass(frozen=True)
class Polled(Generic[T]):
    """A call that is made again, at most for `within_s`, until its answer is `done`."""

    call: Call[T]
    done: Callable[[T], bool]
    within_s: float


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A listing as the call for its first page; `step` says what is on a page, and gives the call for the next."""

    first: Call[Any]
    step: Callable[[Call[Any], Any], "tuple[list[T], Call[Any] | None]"]


@dataclass(frozen=True)
class Feed(Generic[T]):
    """Events as they happen, as the call that opens the stream; it has no end."""

    call: Call[T]


class Blocking(Protocol):
    """Carries calls out, and returns when they are answered; `retry` is for this call alone."""

    def send(self, call: Call[T] | Polled[T], retry: Retry | None = None) -> T: ...

    def walk(self, listing: Listing[T] | Feed[T]) -> Iterator[T]: ...


class Awaiting(Protocol):
    """Carries calls out on an event loop."""

    async def send(self, call: Call[T] | Polled[T], retry: Retry | None = None) -> T: ...

    def walk(self, listing: Listing[T] | Feed[T]) -> AsyncIterator[T]: ...


class Noun(Generic[S]):
    """Some calls about one thing, sent by one client."""

    def __init__(self, transport: S) -> None:
        self._transport = transport

    def carry_out(self, call: "Call[Any] | Polled[Any]") -> Any:
        """The answer, or an awaitable of it."""
        return self._transport.send(call)

    def walk(self, listing: Listing[Any] | Feed[Any]) -> Any:
        """An iterator, or an asynchronous one."""
        return self._transport.walk(listing)


class Remote(Generic[P, T]):
    """A method that sends the call it describes."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T] | Polled[T]]) -> None:
        self._describe = describe
        functools.update_wrapper(cast(Any, self), describe)

    @overload
    def __get__(self, noun: Noun[Blocking], owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, noun: Noun[Awaiting], owner: type) -> Callable[P, Awaitable[T]]: ...

    @overload
    def __get__(self, noun: None, owner: type) -> "Remote[P, T]": ...

    def __get__(self, noun: Noun[Any] | None, owner: type) -> Any:
        if noun is None:
            return self
        describe = self._describe

        @functools.wraps(describe)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return noun.carry_out(describe(noun, *args, **kwargs))

        return method


class Listed(Generic[P, T]):
    """A method that iterates over the listing or feed it describes."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Listing[T] | Feed[T]]) -> None:
        self._describe = describe
        functools.update_wrapper(cast(Any, self), describe)

    @overload
    def __get__(self, noun: Noun[Blocking], owner: type) -> Callable[P, Iterator[T]]: ...

    @overload
    def __get__(self, noun: Noun[Awaiting], owner: type) -> Callable[P, AsyncIterator[T]]: ...

    @overload
    def __get__(self, noun: None, owner: type) -> "Listed[P, T]": ...

    def __get__(self, noun: Noun[Any] | None, owner: type) -> Any:
        if noun is None:
            return self
        describe = self._describe

        @functools.wraps(describe)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return noun.walk(describe(noun, *args, **kwargs))

        return method


def remote(describe: Callable[Concatenate[Any, P], Call[T] | Polled[T]]) -> Remote[P, T]:
    """The method that sends what `describe` returns."""
    return Remote(describe)


def listing(describe: Callable[Concatenate[Any, P], Listing[T] | Feed[T]]) -> Listed[P, T]:
    """The method that iterates over what `describe` returns."""
    return Listed(describe)


def new_event_id() -> str:
    """An id that no other write has."""
    return uuid4().hex


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def get(path: str, answer: type[T], *, waits: bool = True, **query: Any) -> Call[T]:
    """A read, which waits for the caller's own writes."""
    return Call(method="GET", path=path, read=_reader(answer), query=query, waits=waits)


def get_items(path: str, item: type[T], **query: Any) -> Call[list[T]]:
    """A read of all of a short list."""
    return taking(get(path, _page_of(item), **query), lambda page: page.items)


def ask(path: str, answer: type[T], body: Fields, *, waits: bool = True) -> Call[T]:
    """A question with a body."""
    return Call(method="POST", path=path, read=_reader(answer), body=body, body_waits=waits)


def ask_items(path: str, item: type[T], body: Fields) -> Call[list[T]]:
    """A question with a body, for a short list; it takes no `after`."""
    return taking(ask(path, _page_of(item), body, waits=False), lambda page: page.items)


def taking(call: Call[T], some: Callable[[T], R]) -> Call[R]:
    """The same question, of whose answer only `some` is wanted."""

    def read(content: bytes) -> R:
        return some(call.read(content))

    taken: Any = replace(cast("Call[Any]", call), read=read)
    return taken


def or_none(call: Call[T], code: str) -> Call[T | None]:
    """Return the same call, answered None if the server refuses it with this code."""
    either: Any = replace(call, none_for=code)
    return either


def write(path: str, answer: type[W], body: Fields, method: Literal["POST", "PATCH"] = "POST") -> Call[W]:
    """A write with a body, which gets an event id unless it has one."""
    return Call(
        method=method,
        path=path,
        read=_reader(answer),
        body={**body, "event_id": body.get("event_id") or new_event_id()},
        position_of=_position,
    )


def write_bare(method: Literal["POST", "DELETE"], path: str, answer: type[W], **query: Any) -> Call[W]:
    """A write without a body, which gets an event id unless it has one."""
    named = {**query, "event_id": query.get("event_id") or new_event_id()}
    return Call(method=method, path=path, read=_reader(answer), query=named, position_of=_position)


def unnamed_write(method: Literal["POST", "DELETE"], path: str, answer: type[W], **fields: Any) -> Call[W]:
    """A write that takes no event id, because doing it again changes nothing."""
    sent: dict[str, Any] = {"body": fields} if method == "POST" else {"query": fields}
    return Call(method=method, path=path, read=_reader(answer), position_of=_position, **sent)


def pages(path: str, item: type[T], *, waits: bool = True, **query: Any) -> Listing[T]:
    """A listing whose pages follow each other by `cursor`; it waits for the caller's own writes."""
    return Listing(get(path, _page_of(item), waits=waits, **query), _next_page)


def events_behind(path: str, after: str, **query: Any) -> Listing[Event]:
    """The log behind a position, up to its head."""
    return Listing(get(path, EventsPage, waits=False, after=after or None, **query), _next_events)


def _next_page(call: Call[Any], page: Page[T]) -> tuple[list[T], Call[Any] | None]:
    follows = None if page.next is None else replace(call, query={**call.query, "cursor": page.next})
    return page.items, follows


def _next_events(call: Call[Any], page: EventsPage) -> tuple[list[Event], Call[Any] | None]:
    """A page with filters may be empty on the way: the head is where `next` does not change."""
    at_head = page.next is None or (not page.events and page.next == call.query["after"])
    return page.events, None if at_head else replace(call, query={**call.query, "after": page.next})


def decoded(call: Call[T], response: httpx.Response) -> T:
    """What the answer says; raises ServerFault for one that is not the server's."""
    with decoding(f"{response.url} answered {response.status_code}", response.status_code):
        return call.read(response.content)


@contextmanager
def decoding(what: str, status: int = 200) -> Generator[None]:
    """Raises ServerFault where what the server sent is not what it should be."""
    try:
        yield
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        why = unreadable(fault) if isinstance(fault, msgspec.ValidationError) else "it is not JSON"
        raise ServerFault("unreadable_answer", f"{what}, which cannot be read: {why}", status=status) from fault


def encoded(fields: Fields) -> bytes:
    """Fields as JSON; raises InvalidRequest for a value that has no JSON form."""
    try:
        return msgspec.json.encode(fields)
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        kinds = ", ".join(f"{name}: {type(value).__name__}" for name, value in fields.items())
        raise InvalidRequest("unsendable", f"one of these cannot be sent as JSON: {kinds}") from fault


def not_done(polled: Polled[Any], last: Any) -> Unavailable:
    """The error of a call whose answer was not the awaited one in time."""
    return Unavailable("not_done", f"{polled.call.path} was not done within {polled.within_s:g} s: {last}")


def _reader(answer: type[T]) -> Callable[[bytes], T]:
    return functools.partial(msgspec.json.decode, type=answer)


def _page_of(item: type[T]) -> type[Page[T]]:
    page: Any = Page[item]
    return page


def _position(answer: Positioned) -> str:
    return answer.position


def _as_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case _:
            return str(value)
