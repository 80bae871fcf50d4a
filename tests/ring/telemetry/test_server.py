"""What operators watch: one trace leads from a request through the log to the index."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from otlp_receiver import OtlpReceiver, Span
from waiting import wait_until

from ingest.log.keys import PartitionKeys
from tests.acceptance.running import Doors, Server, every_dialect, redis_of

TEXT = "We deploy on Tuesdays, never on Fridays."


class Traced(NamedTuple):
    """A server that exports its spans, and who receives them."""

    doors: Doors
    receiver: OtlpReceiver

    @property
    def server(self) -> Server:
        return self.doors.server

    async def spans(self, trace: str, *names: str) -> dict[str, Span]:
        """The spans of a trace by name, once there are these."""

        async def there() -> bool:
            return {*names} <= {one.name for one in self.receiver.of(trace)}

        await wait_until(there)
        return {one.name: one for one in self.receiver.of(trace)}


@pytest.fixture(scope="module")
def traced(cache_dir: Path) -> Iterator[Traced]:
    """The processes take the variables from this one."""
    with OtlpReceiver() as receiver, pytest.MonkeyPatch.context() as environment:
        for name, value in receiver.environment.items():
            environment.setenv(name, value)
        with every_dialect(cache_dir, partitions=2) as doors:
            yield Traced(doors, receiver)


def caller(*, sampled: bool = True) -> tuple[str, dict[str, str]]:
    """A trace of a caller, and the header that names it."""
    trace = uuid4().hex
    return trace, {"traceparent": f"00-{trace}-{'c' * 16}-{sampled:02x}"}


async def test_one_trace_leads_from_the_request_to_the_projection_and_the_index(traced: Traced):
    trace, header = caller()
    async with traced.server.client("ada") as client:
        answer = await client.post("/v1/memories", json={"project": "shop", "content": TEXT}, headers=header)
        assert answer.status_code == 202
    spans = await traced.spans(trace, "POST /v1/memories", "project", "index")
    request, written, append = spans["POST /v1/memories"], spans["upsert_memory"], spans["EVALSHA append"]
    project, index = spans["project"], spans["index"]
    assert [one.process for one in (request, written, append, project, index)] == ["api", "api", "api", "worker", "api"]
    assert [one.parent for one in (request, written, append, project, index)] == [
        "c" * 16, request.id, written.id, append.id, project.id,
    ]  # fmt: skip
    assert written.attributes["gen_ai.memory.record.id"] == answer.json()["id"]
    assert project.attributes["mnemolog.partition"] == int(answer.json()["position"].partition(":")[0])


async def test_a_recall_tells_its_steps(traced: Traced):
    trace, header = caller()
    question = f"when is it that we deploy? ({uuid4()})"
    async with traced.server.client("ada") as client:
        position = (await client.post("/v1/memories", json={"content": TEXT, "project": "steps"})).json()["position"]
        asked = {"query": question, "project": "steps", "after": position}
        assert (await client.post("/v1/recall", json=asked, headers=header)).status_code == 200
    spans = await traced.spans(trace, "POST /v1/recall")
    steps = {name for name, span in spans.items() if span.parent == spans["search_memory"].id}
    model = next(name for name in steps if name.startswith("embeddings "))
    assert steps == {model, "candidates", "rank"}
    assert spans[model].attributes["gen_ai.request.model"] == model.partition(" ")[2]
    assert spans["search_memory"].attributes["gen_ai.operation.name"] == "search_memory"


async def test_a_batch_is_projected_once_in_the_trace_of_its_request(traced: Traced):
    trace, header = caller()
    project = f"batch-{uuid4().hex[:8]}"
    lines = [{"type": "remember", "project": project, "content": f"number {n}"} for n in range(20)]
    async with traced.server.client() as client:
        answer = await client.post("/v1/events", json=lines, headers=header)
        assert answer.json()["accepted"] == 20
    await traced.spans(trace, "POST /v1/events", "project", "index")
    projected = [one for one in traced.receiver.of(trace) if one.name == "project"]
    assert 1 <= len(projected) < 20
    wholes = {link[1] for one in projected for link in one.links}
    for whole in (span for span in traced.receiver.spans if span.id in wholes):
        assert whole.parent == ""
        assert trace in {link[0] for link in whole.links}


async def test_what_is_not_sampled_leaves_no_span_and_no_context_in_the_log(traced: Traced):
    trace, header = caller(sampled=False)
    async with traced.server.client() as client:
        answer = await client.post("/v1/memories", json={"content": f"{uuid4()}"}, headers=header)
        position = answer.json()["position"]
        await client.post("/v1/recall", json={"query": "x", "after": position}, headers=header)
    partition, _, place = position.partition(":")
    async with redis_of(traced.server) as redis:
        ((_, fields),) = await redis.xrange(PartitionKeys(int(partition)).log, place, place)
    assert set(fields) == {b"e", b"c"}
    assert traced.receiver.of(trace) == []


async def test_a_tool_that_an_agent_calls_is_in_the_trace_of_its_request(traced: Traced):
    trace, header = caller()
    headers = {"Authorization": f"Bearer {traced.server.secret}", **header}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(f"{traced.server.url}/mcp", http_client=http)) as client,
    ):
        await client.call_tool("remember", {"content": TEXT, "project": "shop"})
    spans = await traced.spans(trace, "tools/call remember", "upsert_memory", "project", "index")
    assert spans["upsert_memory"].parent == spans["tools/call remember"].id
    assert spans["tools/call remember"].attributes["gen_ai.tool.name"] == "remember"


async def test_a_dialects_request_is_traced_and_answered_as_ever(traced: Traced):
    trace, header = caller()
    async with traced.server.client() as client:
        answer = await client.post(
            f"{traced.doors.memex}/v1/memories",
            json={"agent_id": "ada", "user_id": "kim", "content": TEXT},
            headers={**header, "X-Request-Id": "r-1"},
        )
    assert answer.status_code == 201
    assert "x-request-id" not in answer.headers
    spans = await traced.spans(trace, "POST /v1/memories", "project", "index")
    assert spans["POST /v1/memories"].attributes["mnemolog.api"] == "memex"


async def test_a_request_is_answered_with_its_id(traced: Traced):
    async with traced.server.client() as client:
        assert (await client.get("/v1/memories", headers={"X-Request-Id": "r-1"})).headers["X-Request-Id"] == "r-1"
        assert len((await client.get("/v1/memories")).headers["X-Request-Id"]) == 16


async def test_no_span_and_no_metric_has_an_id_or_a_label_from_a_path(traced: Traced):
    """At every listener, whether a route matches or not, and in what MCP's own spans say of an error."""
    trace, header = caller()
    mark = f"zqp{uuid4().hex[:10]}"
    paths = {
        traced.server.url: (
            f"/v1/sessions/{mark}", f"/v1/sessions/{mark}/observations", f"/v1/slots/{mark}",
            f"/v1/memories/mem_{mark}", f"/nothing/{mark}", f"/agentmemory/memories/{mark}", f"/agentmemory/{mark}",
        ),
        traced.doors.agentd: (f"/memories/{mark}", f"/{mark}"),
        traced.doors.agent_memory: (f"/api/sessions/{mark}", f"/api/observations/{mark}", f"/{mark}"),
        traced.doors.memex: (f"/v1/memories/{mark}", f"/{mark}"),
        traced.doors.memex_mcp: (f"/{mark}",),
    }  # fmt: skip
    async with traced.server.client() as client:
        for url, asked in paths.items():
            for path in asked:
                for method in ("GET", "DELETE", "PATCH"):
                    await client.request(method, url + path, headers=header)
        reading = {
            "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": f"mnemolog://documents/{mark}"},
        }  # fmt: skip
        told = await client.post(
            "/mcp", json=reading, headers=header | {"Accept": "application/json, text/event-stream"}
        )
        assert mark in told.text, "the error says which address it is"
        assert mark not in (await client.get("/metrics")).text
    spans = await traced.spans(trace, "GET /v1/sessions/{id:path}", "resources/read", "GET")
    assert spans["GET /v1/sessions/{id:path}"].attributes["http.route"] == "/v1/sessions/{id:path}"
    assert mark.encode() not in traced.receiver.received


async def test_no_content_and_no_key_is_exported(traced: Traced):
    """After all that was written and asked above."""
    for told in (TEXT, "when is it", "number 7", traced.server.secret):
        assert told.encode() not in traced.receiver.received
