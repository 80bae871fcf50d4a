"""Exports a process's spans if OpenTelemetry's standard variables name an endpoint.

Otherwise OpenTelemetry's SDK is not imported.
"""

import logging
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from ingest.platform import tracing

logger = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SUPPORTED = {
    "OTEL_TRACES_EXPORTER": ("otlp", "none"),
    "OTEL_EXPORTER_OTLP_PROTOCOL": ("http/protobuf",),
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": ("http/protobuf",),
}
LAST_EXPORT_S = 3.0
"""How long an exiting process waits for the collector to accept its last spans."""


@contextmanager
def exporting(environ: Mapping[str, str], process: str) -> Generator[None]:
    """Export the spans of this process while the context is open, if the environment asks for it. `process` is what
    this one is, `api` or `worker`. If something is missing, it logs that and continues without."""
    tracer, why = None, why_off(environ)
    if why is None:
        try:
            from ingest.platform.otlp import OtlpTracer

            tracer = OtlpTracer(environ, process)
        except ModuleNotFoundError as error:
            why = f"{error.name} is not installed: pip install 'mnemolog[opentelemetry]'"
    if why:
        logger.warning("traces are not exported: %s", why)
    tracing.use(tracer)
    try:
        yield
    finally:
        if tracer is not None:  # a collector that is away does not keep a process from ending
            closing = threading.Thread(target=tracer.close, name="last-spans", daemon=True)
            closing.start()
            closing.join(LAST_EXPORT_S)
        tracing.use(None)


def why_off(environ: Mapping[str, str]) -> str | None:
    """Why nothing is exported, "" if that was not asked for; None if spans are exported."""
    if not any(environ.get(name) for name in ENDPOINTS) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    for name, values in _SUPPORTED.items():
        value = environ.get(name) or values[0]
        if value not in values:
            return f"{name}={value} is not supported, only {values[0]}"
        if value == "none":
            return ""
    return None
