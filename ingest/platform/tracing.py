"""Traces: spans of what this process does, and contexts that travel with an event.

Until a tracer is put to use (see `exporting`) each function here returns at once. A context is the W3C `traceparent` of
a span that is recorded; "" means no context.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Literal, NamedTuple, Protocol, TypeAlias

Attributes: TypeAlias = Mapping[str, str | int]
"""Names from OpenTelemetry's semantic conventions if there is one, otherwise our own, `mnemolog.*`. No memory content,
query or error message is included, because other people read the collector's data."""
Kind: TypeAlias = Literal["internal", "client"]


class Span(Protocol):
    """A piece of work in progress."""

    def set(self, attributes: Attributes, name: str = "") -> None:
        """Add attributes; `name` takes the place of the one it began with."""
        ...

    def fail(self, error_type: str) -> None:
        """Mark it as failed; not needed for what is raised through the span."""
        ...


class Ids(NamedTuple):
    """Which trace and which of its spans, in hexadecimal digits."""

    trace_id: str
    span_id: str


class Tracer(Protocol):
    """Where spans go."""

    def server(
        self, name: str, attributes: Attributes, headers: Iterable[tuple[bytes, bytes]]
    ) -> AbstractContextManager[Span]: ...

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Span]: ...

    def batch(
        self, name: str, contexts: Iterable[str], attributes: Attributes
    ) -> AbstractContextManager[Sequence[str]]: ...

    def is_recording(self) -> bool: ...

    def current(self) -> str: ...

    def ids(self) -> Ids | None: ...

    def close(self) -> None: ...


class _NoSpan:
    def set(self, attributes: Attributes, name: str = "") -> None: ...

    def fail(self, error_type: str) -> None: ...


NO_ATTRIBUTES: Attributes = {}
NO_SPAN: AbstractContextManager[Span] = nullcontext(_NoSpan())
_NO_CONTEXTS: AbstractContextManager[Sequence[str]] = nullcontext(())
_tracer: Tracer | None = None
request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the current request; "" for none."""


def server(name: str, attributes: Attributes, headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[Span]:
    """A request that is answered here: the start of a trace, or a part of the one that its `traceparent` names."""
    return NO_SPAN if _tracer is None else _tracer.server(name, attributes, headers)


def span(name: str, attributes: Attributes = NO_ATTRIBUTES, kind: Kind = "internal") -> AbstractContextManager[Span]:
    """A part of the current span; not recorded without one."""
    return NO_SPAN if _tracer is None else _tracer.span(name, attributes, kind)


def batch(
    name: str, contexts: Iterable[str], attributes: Attributes = NO_ATTRIBUTES
) -> AbstractContextManager[Sequence[str]]:
    """Work on a batch that came with several contexts: a span of its own, linked to a part of each of their traces.
    Yields the contexts of those parts, one for each that differs."""
    return _NO_CONTEXTS if _tracer is None else _tracer.batch(name, contexts, attributes)


def is_on() -> bool:
    """Whether spans are exported at all."""
    return _tracer is not None


def is_recording() -> bool:
    """Whether a span would be recorded just now."""
    return _tracer is not None and _tracer.is_recording()


def current() -> str:
    """The context of what is recorded just now."""
    return "" if _tracer is None else _tracer.current()


def ids() -> Ids | None:
    """The current trace and span, recorded or not; None outside a trace."""
    return None if _tracer is None else _tracer.ids()


def use(tracer: Tracer | None) -> None:
    """Have this process's spans go there from now on; None: nowhere."""
    global _tracer
    _tracer = tracer
