"""What is exported: read by a receiver of OTLP."""

import pytest

from ingest.platform import tracing
from tests.support.otlp_receiver import context_of, traced

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
    assert {one.trace for one in receiver.spans} == {context_of(7)[3:35]}
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
    whole = next(one for one in receiver.spans if one.parent == "")
    parts = [one for one in receiver.spans if one.parent]
    assert [(f"{link[0]}-{link[1]}") for link in whole.links] == [context_of(1)[3:52], context_of(2)[3:52]]
    assert [(one.trace, one.parent) for one in parts] == [(one[3:35], one[36:52]) for one in given[:2]]
    assert [one.links for one in parts] == [[(whole.trace, whole.id)]] * 2
    assert list(contexts) == [f"00-{one.trace}-{one.id}-01" for one in parts]
    assert {(one.name, one.kind, one.attributes["mnemolog.events"]) for one in receiver.spans} == {
        ("project", "consumer", 3)
    }


def test_what_fails_says_the_class_of_its_error_and_not_its_message(monkeypatch: pytest.MonkeyPatch):
    with traced(monkeypatch) as receiver:
        with pytest.raises(ValueError, match="tea"), tracing.server("GET", {}, []), tracing.span("part"):
            raise ValueError("likes tea")
        with pytest.raises(KeyError), tracing.batch("project", [context_of(1)]):
            raise KeyError("likes tea")
    assert [(one.name, one.failed, one.attributes["error.type"]) for one in receiver.spans] == [
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
