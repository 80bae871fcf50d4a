"""Ids of requests, and what their spans say."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from api.access.principal import Principal, open_caller
from api.http.gate import Application, Gate
from api.http.requests import request_id_of
from api.monitoring.ops import RequestMetrics, merged
from ingest.platform import tracing
from ingest.platform.settings import Settings
from tests.support.otlp_receiver import context_of, traced


class Anyone:
    """In the place of the keys: lets everyone in."""

    async def identify(self, credential: str) -> Principal:
        return open_caller("default")


async def answer(request: Request) -> PlainTextResponse:
    if request.query_params.get("fail"):
        raise ValueError("likes tea")
    return PlainTextResponse(tracing.request_id.get(), int(request.query_params.get("status", 200)))


def client(call: str = "native") -> TestClient:
    """A client of an application that is measured."""
    gate = partial(Gate, name=call, settings=Settings(data_dir=Path(), cache_dir=Path()), hosts=("*",))
    app = Application(gate, routes=[Route("/{any:path}", answer, methods=["GET", "POST"])])
    app.state.metrics, app.state.keyring, app.state.tokens = SimpleNamespace(requests=RequestMetrics()), Anyone(), None
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize("stated", ["r-1", "9f4c:/a.b_c+=@", "x" * 128])
def test_a_request_keeps_the_id_of_its_caller(stated: str):
    assert request_id_of([(b"host", b"x"), (b"x-request-id", stated.encode())]) == stated.encode()


@pytest.mark.parametrize("stated", ["", "a b", "x" * 129, 'a"b', "ä"])
def test_what_is_no_id_gets_a_new_one(stated: str):
    given = request_id_of([(b"x-request-id", stated.encode())])
    assert len(given) == 16
    assert given != request_id_of([])


def test_an_answer_of_the_native_api_names_the_request():
    told = client().get("/x", headers={"X-Request-Id": "r-1"})
    assert told.headers["X-Request-Id"] == told.text == "r-1"


def test_an_answer_of_another_api_is_as_it_was():
    told = client("memex").get("/x", headers={"X-Request-Id": "r-1"})
    assert "X-Request-Id" not in told.headers
    assert told.text == ""


def test_a_request_is_told_by_its_pattern_and_never_by_its_path_or_query(monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver:
        client().post("/things/1?token=hunter2", headers={"traceparent": context_of(7)})
    (span,) = receiver.spans
    assert (span.name, span.kind, span.trace) == ("POST /{any:path}", "server", context_of(7)[3:35])
    assert span.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/{any:path}",
        "url.scheme": "http",
        "mnemolog.api": "native",
    }
    assert b"hunter2" not in receiver.received
    assert b"things" not in receiver.received


def test_only_a_fault_of_the_server_is_a_failed_request(monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver:
        for query in ("status=404", "status=503", "fail=1"):
            client().get(f"/x?{query}")
    told = [
        (span.attributes["http.response.status_code"], span.attributes.get("error.type")) for span in receiver.spans
    ]
    assert told[:2] == [(404, None), (503, "503")]
    assert told[2][0] == 500
    assert b"likes tea" not in receiver.received


def test_a_method_that_nobody_knows_does_not_name_a_span(monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver:
        client().request("BREW", "/x")
    (span,) = receiver.spans
    assert span.attributes["http.request.method"] == "_OTHER"
    assert span.name.startswith("HTTP")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_probes_begin_no_trace(path: str, monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver:
        client().get(path)
    assert receiver.spans == []


def test_requests_are_counted_with_their_times():
    metrics, registry = RequestMetrics(), CollectorRegistry()
    registry.register(metrics)
    for seconds in (0.001, 0.002, 7.0):
        metrics.count("native", "GET", "/x", 200, seconds)
    lines = generate_latest(registry).decode().splitlines()
    times = "mnemolog_http_request_duration_seconds"
    for line in (
        'mnemolog_http_requests_total{door="native",method="GET",route="/x",status="200"} 3.0',
        f'{times}_bucket{{door="native",le="0.001",route="/x"}} 1.0',
        f'{times}_bucket{{door="native",le="0.0025",route="/x"}} 2.0',
        f'{times}_bucket{{door="native",le="5.0",route="/x"}} 2.0',
        f'{times}_bucket{{door="native",le="+Inf",route="/x"}} 3.0',
        f'{times}_count{{door="native",route="/x"}} 3.0',
        f'{times}_sum{{door="native",route="/x"}} 7.003',
    ):
        assert line in lines
    assert any(line.startswith(f"{times}_created{{") for line in lines)


FIRST = """# HELP mnemolog_http_requests_total Requests answered.
# TYPE mnemolog_http_requests_total counter
mnemolog_http_requests_total{door="native",status="200"} 3.0
# HELP mnemolog_index_ready 1 if the index is caught up.
# TYPE mnemolog_index_ready gauge
mnemolog_index_ready 1.0
# HELP mnemolog_workers Live workers.
# TYPE mnemolog_workers gauge
mnemolog_workers 2.0
"""
SECOND = FIRST.replace("3.0", "5.0").replace("ready 1.0", "ready 0.0").replace("workers 2.0", "workers 1.0")


def test_own_figures_are_told_of_each_process_and_those_of_the_log_once():
    text = merged({0: FIRST, 1: SECOND}, own=1).splitlines()

    assert [line for line in text if not line.startswith("#")] == [
        'mnemolog_http_requests_total{process="0",door="native",status="200"} 3.0',
        'mnemolog_http_requests_total{process="1",door="native",status="200"} 5.0',
        'mnemolog_index_ready{process="0"} 1.0',
        'mnemolog_index_ready{process="1"} 0.0',
        "mnemolog_workers 1.0",
    ]
    assert sum(line.startswith("# TYPE") for line in text) == 3


def test_a_process_that_has_not_counted_something_yet_is_left_out_there():
    without = FIRST.replace('mnemolog_http_requests_total{door="native",status="200"} 3.0\n', "")

    text = merged({0: FIRST, 1: without}, own=0)

    assert 'mnemolog_http_requests_total{process="0"' in text
    assert 'mnemolog_http_requests_total{process="1"' not in text
    assert 'mnemolog_index_ready{process="1"} 1.0' in text
