"""A collector: takes what is exported by OTLP over HTTP, and keeps the spans."""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.platform.exporting import exporting

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")


class Span(NamedTuple):
    """A span as it was exported; ids in hexadecimal digits, `parent` "" for none."""

    process: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    links: list[tuple[str, str]]
    attributes: dict[str, Any]
    failed: bool


class OtlpReceiver:
    """Listens on a free port of the loopback while its context is open."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.received = b""
        """Everything that was exported, as it came."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received += body
                receiver.spans += list(spans_of(body)) if self.path == "/v1/traces" else []
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="otlp-receiver", daemon=True
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a process exports its spans here, a tenth of a second after they end."""
        url = f"http://127.0.0.1:{self._server.server_port}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def of(self, trace: str) -> list[Span]:
        """The spans of a trace."""
        return [span for span in self.spans if span.trace == trace]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Generator[OtlpReceiver]:
    """What this process does meanwhile is traced; the spans are there when the context has ended."""
    monkeypatch.setattr(trace, "set_tracer_provider", _once_for_a_process)
    with OtlpReceiver() as receiver:
        environment = {**receiver.environment, **variables}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with exporting(environment, "test"):
            yield receiver


def _once_for_a_process(provider: object) -> None:
    """In the place of OpenTelemetry's function."""


def context_of(number: int, *, sampled: bool = True) -> str:
    """A context that a caller may send."""
    return f"00-{number:032x}-{number:016x}-{sampled:02x}"


def spans_of(body: bytes) -> Iterator[Span]:
    """The spans of a request."""
    for resource in cast(Any, ExportTraceServiceRequest.FromString(body)).resource_spans:
        process = _attributes(resource.resource.attributes)["mnemolog.process"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    process, span.name, KINDS[span.kind], span.trace_id.hex(), span.span_id.hex(),
                    span.parent_span_id.hex(), [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    _attributes(span.attributes), span.status.code == span.status.STATUS_CODE_ERROR,
                )  # fmt: skip


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}
