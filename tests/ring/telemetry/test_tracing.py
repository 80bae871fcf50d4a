"""Spans while nothing is exported, when they are, and what OpenTelemetry exports of them."""

import subprocess
import sys

import pytest

from ingest.platform import tracing
from ingest.platform.exporting import exporting, why_off
from tests.support.otlp_receiver import context_of, traced


def test_nothing_is_recorded_while_nothing_is_exported():
    assert not tracing.is_on()
    with tracing.server("GET", {}, [(b"traceparent", b"00-" + b"1" * 32 + b"-" + b"1" * 16 + b"-01")]) as request:
        request.set({"http.route": "/"}, "GET /")
        request.fail("500")
        with tracing.span("decide") as part:
            part.set({})
            assert not tracing.is_recording()
            assert tracing.current() == ""
            assert tracing.ids() is None


def test_a_batch_has_no_contexts_while_nothing_is_exported():
    with tracing.batch("project", ["00-" + "1" * 32 + "-" + "1" * 16 + "-01"]) as contexts:
        assert list(contexts) == []


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
UNASKED = """
import sys
import redis.asyncio
of_redis = {*sys.modules}  # redis-py 8 loads the SDK where it is installed
import api.app, workers.main
from ingest.platform.exporting import exporting
with exporting({}, "api"):
    ours = sys.modules.keys() - of_redis
    print(sorted(name for name in ours if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))))
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
    assert "traces are not exported: OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in caplog.text


CALLER = [(b"host", b"x"), (b"traceparent", context_of(7).encode())]


def test_a_request_goes_on_with_the_trace_of_its_caller(monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver, tracing.server("GET", {"url.path": "/x"}, CALLER) as request:
        with tracing.span("part", {"mnemolog.events": 2}, "client"):
            context = tracing.current()
        request.set({"http.route": "/x"}, "GET /x")
    part, whole = receiver.spans
    assert (whole.name, whole.kind, whole.parent) == ("GET /x", "server", context_of(7)[36:52])
    assert whole.attributes == {"url.path": "/x", "http.route": "/x"}
    assert (part.name, part.kind, part.parent, part.attributes) == ("part", "client", whole.id, {"mnemolog.events": 2})
    assert {span.trace for span in receiver.spans} == {context_of(7)[3:35]}
    assert context == f"00-{part.trace}-{part.id}-01"


def test_a_request_without_a_trace_begins_one(monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver, tracing.server("GET", {}, []):
        pass
    (whole,) = receiver.spans
    assert whole.parent == ""
    assert int(whole.trace, 16)


@pytest.mark.parametrize(
    ("flags", "sampler"), [("00", "parentbased_always_on"), ("01", "always_off")], ids=["caller", "sampler"]
)
def test_what_is_not_sampled_leaves_nothing(flags: str, sampler: str, monkeypatch: pytest.MonkeyPatch):
    headers = [(b"traceparent", f"{context_of(7)[:-2]}{flags}".encode())]
    with (
        traced(monkeypatch, OTEL_TRACES_SAMPLER=sampler) as receiver,
        tracing.server("GET", {}, headers),
        tracing.span("part"),
    ):
        assert not tracing.is_recording()
        assert tracing.current() == ""
    assert receiver.spans == []


def test_what_no_request_asked_for_is_not_recorded(monkeypatch: pytest.MonkeyPatch):
    """Maintenance and followers work all the time; a trace of each step would be read by nobody."""
    with traced(monkeypatch) as receiver:
        with tracing.span("part"):
            pass
        with tracing.batch("project", []) as contexts:
            assert list(contexts) == []
    assert receiver.spans == []


def test_a_batch_is_one_span_with_links_and_a_part_of_each_trace(monkeypatch: pytest.MonkeyPatch):
    given = [context_of(1), context_of(2), context_of(1)]
    with traced(monkeypatch) as receiver, tracing.batch("project", given, {"mnemolog.events": 3}) as contexts:
        assert len(contexts) == 2
    whole = next(span for span in receiver.spans if span.parent == "")
    parts = [span for span in receiver.spans if span.parent]
    assert [(f"{link[0]}-{link[1]}") for link in whole.links] == [context_of(1)[3:52], context_of(2)[3:52]]
    assert [(part.trace, part.parent) for part in parts] == [(one[3:35], one[36:52]) for one in given[:2]]
    assert [part.links for part in parts] == [[(whole.trace, whole.id)]] * 2
    assert list(contexts) == [f"00-{part.trace}-{part.id}-01" for part in parts]
    assert {(span.name, span.kind, span.attributes["mnemolog.events"]) for span in receiver.spans} == {
        ("project", "consumer", 3)
    }


def test_what_fails_says_the_class_of_its_error_and_not_its_message(monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver:
        with pytest.raises(ValueError, match="tea"), tracing.server("GET", {}, []), tracing.span("part"):
            raise ValueError("likes tea")
        with pytest.raises(KeyError), tracing.batch("project", [context_of(1)]):
            raise KeyError("likes tea")
    assert [(span.name, span.failed, span.attributes["error.type"]) for span in receiver.spans] == [
        ("part", True, "ValueError"),
        ("GET", True, "ValueError"),
        ("project", True, "KeyError"),
        ("project", True, "KeyError"),
    ]
    assert b"likes tea" not in receiver.received


def test_the_service_is_named_by_the_standard_variable(monkeypatch: pytest.MonkeyPatch):
    for named, expected in (("memory", b"memory"), ("", b"mnemolog")):
        with traced(monkeypatch, OTEL_SERVICE_NAME=named) as receiver, tracing.server("GET", {}, []):
            pass
        assert b"service.name\x12" + bytes([len(expected) + 2, 10, len(expected)]) + expected in receiver.received
