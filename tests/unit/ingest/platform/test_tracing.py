"""Spans while nothing is exported."""

from ingest.platform import tracing


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
