"""When spans are exported, and that nothing is loaded for it otherwise."""

import subprocess
import sys

import pytest

from ingest.platform import tracing
from ingest.platform.exporting import exporting, why_off

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
UNASKED = """
import sys
import api.app, workers.main
from ingest.platform.exporting import exporting
with exporting({}, "api"):
    print(sorted(name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))))
"""


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ""),
        ({"OTEL_SERVICE_NAME": "memory", "OTEL_TRACES_SAMPLER": "always_on"}, ""),
        (ENDPOINT, None),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, None),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, ""),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, None),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
         "OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported, only http/protobuf"),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER=zipkin is not supported, only otlp"),
    ],
)  # fmt: skip
def test_spans_are_exported_where_an_endpoint_is_named(environ: dict[str, str], why: str | None):
    assert why_off(environ) == why


def test_the_processes_load_nothing_of_the_sdk_without_an_endpoint():
    told = subprocess.run([sys.executable, "-c", UNASKED], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == "[]"


def test_without_the_packages_a_process_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.delitem(sys.modules, "ingest.platform.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with exporting(ENDPOINT, "api"):
        assert not tracing.is_on()
    assert "opentelemetry.sdk.trace is not installed: pip install 'mnemolog[opentelemetry]'" in caplog.text


def test_what_is_not_supported_is_said(caplog: pytest.LogCaptureFixture):
    with exporting({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "api"):
        assert not tracing.is_on()
    assert "no traces are exported: OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in caplog.text
