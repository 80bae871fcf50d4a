from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from api.dialects.memex.app import Instrument, MemexMetrics, MemexState
from ingest.errors import LogUnavailable
from ingest.platform.connections import PoolSize
from ingest.platform.settings import Settings

POOL = PoolSize(5, 3)


def samples(metrics: MemexMetrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(metrics.text(POOL).decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def labelled(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


def test_the_dashboards_series_are_there_before_anything_happens():
    found = samples(MemexMetrics())
    for operation in ("create", "search", "delete"):
        assert found["memex_memory_operations_total", labelled(operation=operation)] == 0
    for operation in ("embed", "embed_batch"):
        bounds = {
            dict(labels)["le"]
            for name, labels in found
            if name == "memex_embedding_duration_seconds_bucket" and ("operation", operation) in labels
        }
        assert bounds == {"0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "+Inf"}
    for status in ("ok", "error"):
        assert found["memex_summarizer_runs_total", labelled(status=status)] == 0
    assert found["memex_summarizer_memories_condensed_total", labelled()] == 0
    assert (found["memex_db_pool_size", labelled()], found["memex_db_pool_idle", labelled()]) == (5, 3)


def test_a_request_is_counted_by_template_method_and_grouped_status():
    metrics = MemexMetrics()
    metrics.answered("DELETE", "/v1/memories/{memory_id}", 204, 0.2, received=10, sent=0)
    metrics.answered("BREW", "none", 404, 0.01, received=0, sent=22)
    found = samples(metrics)
    deleted = labelled(handler="/v1/memories/{memory_id}", method="DELETE", status="2xx")
    assert found["http_requests_total", deleted] == 1
    assert found["http_requests_total", labelled(handler="none", method="other", status="4xx")] == 1
    assert found["http_request_size_bytes_sum", labelled(handler="/v1/memories/{memory_id}")] == 10
    assert found["http_response_size_bytes_sum", labelled(handler="none")] == 22
    assert found["http_request_duration_highr_seconds_count", labelled()] == 2
    slow = labelled(handler="/v1/memories/{memory_id}", method="DELETE", le="0.1")
    assert found["http_request_duration_seconds_bucket", slow] == 0


def test_embeddings_are_timed_and_their_errors_named():
    metrics = MemexMetrics()
    metrics.embedded(0.07, None)
    metrics.embedded(3.0, LogUnavailable("away"))
    found = samples(metrics)
    assert found["memex_embedding_duration_seconds_bucket", labelled(operation="embed", le="0.1")] == 1
    assert found["memex_embedding_duration_seconds_count", labelled(operation="embed")] == 2
    assert found["memex_embedding_errors_total", labelled(operation="embed", error_type="LogUnavailable")] == 1


async def test_an_application_that_fails_is_a_5xx():
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise LogUnavailable("away")

    async def nothing() -> Any:
        raise AssertionError("nobody reads")

    async def sent(message: Message) -> None:
        raise AssertionError("nothing is sent")

    app, state = Starlette(), MemexState(Settings(data_dir=Path(), cache_dir=Path()))
    app.state.memex = state
    scope: Scope = {"type": "http", "method": "POST", "headers": [], "app": app}
    with pytest.raises(LogUnavailable):
        await Instrument(failing)(scope, nothing, sent)
    assert samples(state.metrics)["http_requests_total", labelled(handler="none", method="POST", status="5xx")] == 1
