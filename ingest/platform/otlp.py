"""Spans by OpenTelemetry's SDK, exported by OTLP over HTTP. The only file that imports it; see `tracing`.

The standard `OTEL_` variables set sampler, endpoint, headers, limits and resource.
"""

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ingest.platform.processes import release
from ingest.platform.tracing import NO_SPAN, Attributes, Ids, Kind, Span

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_HEADERS = {b"traceparent", b"tracestate"}
_w3c = TraceContextTextMapPropagator()


class _Recorded:
    """A span that is recorded."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, attributes: Attributes, name: str = "") -> None:
        self._span.set_attributes(attributes)
        if name:
            self._span.update_name(name)

    def fail(self, error_type: str) -> None:
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(Status(StatusCode.ERROR))


class _Exported(BatchSpanProcessor):
    """Exports spans without what an error's message says: the MCP SDK's spans have it as their status and as an event,
    and it quotes addresses and arguments."""

    def on_end(self, span: ReadableSpan) -> None:
        bare = ReadableSpan(
            span.name, span.context, span.parent, span.resource, span.attributes, (), span.links, span.kind, None,
            Status(span.status.status_code), span.start_time, span.end_time, span.instrumentation_scope,
        )  # fmt: skip
        super().on_end(bare)


class OtlpTracer:
    """A `Tracer`. The MCP SDK's own spans go to the same place: its provider is the process's."""

    def __init__(self, environ: Mapping[str, str], process: str) -> None:
        named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        about = {"service.version": release(), "mnemolog.process": process}
        resource = Resource.create(about if named else {"service.name": "mnemolog", **about})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(_Exported(OTLPSpanExporter()))
        trace.set_tracer_provider(self._provider)
        self._tracer = self._provider.get_tracer("mnemolog", release())

    @contextmanager
    def server(self, name: str, attributes: Attributes, headers: Iterable[tuple[bytes, bytes]]) -> Generator[Span]:
        carried = {key.decode(): value.decode("latin-1") for key, value in headers if key in _HEADERS}
        begun = self._tracer.start_span(name, _w3c.extract(carried), SpanKind.SERVER, attributes)
        with _current(begun) as span:
            yield span

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Span]:
        if not self.is_recording():
            return NO_SPAN
        return _current(self._tracer.start_span(name, kind=_KINDS[kind], attributes=attributes))

    @contextmanager
    def batch(self, name: str, contexts: Iterable[str], attributes: Attributes) -> Generator[Sequence[str]]:
        parents = {context: _w3c.extract({"traceparent": context}) for context in contexts}
        if not parents:
            yield ()
            return
        began = time.time_ns()
        links = [Link(trace.get_current_span(parent).get_span_context()) for parent in parents.values()]
        whole = self._tracer.start_span(name, Context(), SpanKind.CONSUMER, attributes, links, began)
        to_whole = [Link(whole.get_span_context())]
        parts = [
            self._tracer.start_span(name, parent, SpanKind.CONSUMER, attributes, to_whole, began)
            for parent in parents.values()
        ]
        try:
            yield [context for context in map(_traceparent, parts) if context]
        except BaseException as error:
            for part in (whole, *parts):
                _Recorded(part).fail(type(error).__qualname__)
            raise
        finally:
            ended = time.time_ns()
            for part in (whole, *parts):
                part.end(ended)

    def is_recording(self) -> bool:
        return trace.get_current_span().is_recording()

    def current(self) -> str:
        return _traceparent(trace.get_current_span())

    def ids(self) -> Ids | None:
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        return Ids(trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id))

    def close(self) -> None:
        self._provider.shutdown()


@contextmanager
def _current(begun: trace.Span) -> Generator[Span]:
    """The span is what others are a part of, until it ends. An error says its class alone: messages quote what was
    sent."""
    span = _Recorded(begun)
    with trace.use_span(begun, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except Exception as error:
            span.fail(type(error).__qualname__)
            raise


def _traceparent(span: trace.Span) -> str:
    """The context of a span that is recorded, else ""."""
    context = span.get_span_context()
    if not (context.is_valid and context.trace_flags.sampled):
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
