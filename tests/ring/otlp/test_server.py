"""What an operator sees after pointing an agent's exporter at the server."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from waiting import wait_until

from tests.acceptance.asking import read, recall
from tests.acceptance.running import Server
from tests.ring.otlp.payloads import JSON, PROTOBUF, SENDERS, TRACES, sent_by

KEY = "sk-ant-api03-" + "Zq7vX2mK9pLw4RtB8nYc" * 4 + "-AAAAAA"


@pytest.fixture
async def client(server: Server) -> AsyncGenerator[httpx.AsyncClient]:
    async with server.client() as http:
        yield http


async def sessions(client: httpx.AsyncClient, project: str, observations: int) -> list[dict[str, Any]]:
    """The sessions of a project, once they have so many observations together."""
    items: list[dict[str, Any]] = []

    async def recorded() -> bool:
        nonlocal items
        items = (await read(client, "/v1/sessions", project=project))["items"]
        return sum(item["observation_count"] for item in items) == observations

    await wait_until(recorded)
    return items


async def post(client: httpx.AsyncClient, path: str, body: bytes, media: str = JSON, **headers: str) -> httpx.Response:
    return await client.post(path, content=body, headers={"Content-Type": media, **headers})


@pytest.mark.parametrize("sender", SENDERS)
async def test_session_of_every_sender_reads_as_a_recorded_one_and_is_stored_once(
    client: httpx.AsyncClient, project: str, sender: str
):
    for _ in range(2):
        for request in sent_by(sender, project):
            answer = await post(client, request.path, request.protobuf, PROTOBUF)
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["content-type"] == PROTOBUF
    (session,) = await sessions(client, project, 6)
    assert session["first_prompt"] == "Why does the checkout of the Aurora shop fail on Friday evenings?"
    page = await read(client, f"/v1/sessions/{session['id']}/observations", project=project)
    assert sorted(item["turn"] for item in page["items"]) == ["agent", "agent", "tool", "tool", "user", "user"]
    assert any(" failed: " in item["headline"] for item in page["items"])
    story = await read(client, f"/v1/sessions/{session['id']}/story", project=project)
    assert story["decisions"] == ["We decided to move invoice-export to 03:00, because the shop has no traffic then."]
    assert story["remaining"] == ["Still open: the on-call handbook has to mention it."]
    for question, fact in {
        "which job holds the database connections": "invoice-export holds 18",
        "which flag switches the export off": "EXPORT_ENABLED=false",
    }.items():
        results = (await recall(client, question, project=project))["results"]
        assert any(fact in str(result) for result in results[:2])


async def test_exporter_of_opentelemetry_delivers_a_session_with_gzip(
    server: Server, client: httpx.AsyncClient, project: str
):
    exporter = OTLPSpanExporter(
        f"{server.url}{TRACES}", headers={"Authorization": f"Bearer {server.secret}"}, compression=Compression.Gzip
    )
    provider = TracerProvider(resource=Resource.create({"service.namespace": project, "service.name": "helper"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("of-a-test")
    with tracer.start_as_current_span("chat") as span:
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c1"})
        span.set_attribute("gen_ai.input.messages", '[{"role": "user", "parts": [{"type": "text", "content": "Hi?"}]}]')
        span.set_attribute("gen_ai.output.messages", '[{"role": "assistant", "content": "We deploy on Tuesdays."}]')
    provider.shutdown()
    (session,) = await sessions(client, project, 2)
    assert (session["id"], session["agent_id"], session["first_prompt"]) == ("c1", "helper", "Hi?")


async def test_agent_of_the_header_is_the_agent_and_no_secret_is_stored(server: Server, project: str):
    (request,) = sent_by("pydantic-ai", project)
    async with server.client("ada") as client:
        assert (await post(client, TRACES, request.body.replace(b"limit 20", KEY.encode()))).json() == {}
        (session,) = await sessions(client, project, 6)
        assert session["agent_id"] == "ada"
        page = await client.get(f"/v1/sessions/{session['id']}/observations", params={"project": project})
    assert "pool exhausted" in page.text
    assert KEY[13:33] not in page.text


async def test_rejected_observations_are_counted_in_the_answer(client: httpx.AsyncClient):
    record = b'{"attributes": [%s, %s]}' % tuple(
        b'{"key": "%s", "value": {"stringValue": "%s"}}' % pair
        for pair in ((b"event.name", b"user_prompt"), (b"prompt", b"Hello?"))
    )
    answer = await post(client, "/v1/logs", b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [%s]}]}]}' % record)
    partial = answer.json()["partialSuccess"]
    assert partial == {"rejectedLogRecords": "1", "errorMessage": "an observation belongs to a session"}


@pytest.mark.parametrize(
    ("media", "body", "status"),
    [(JSON, b"{", 400), (PROTOBUF, b"{", 400), ("text/plain", b"x", 415), (JSON, b" " * (16 << 20) + b"{}", 413)],
)
async def test_refused_body_is_answered_with_a_status_in_its_content_type(
    client: httpx.AsyncClient, media: str, body: bytes, status: int
):
    answer = await post(client, TRACES, body, media)
    assert answer.status_code == status
    if media == PROTOBUF:  # the fields of google.rpc.Status have these numbers and types
        expected = {"rejectedSpans": 3, "errorMessage": "the body is not a request of OTLP"}
        assert ExportTracePartialSuccess.FromString(answer.content) == ParseDict(expected, ExportTracePartialSuccess())
    else:
        assert answer.json()["code"] == 3
        assert answer.json()["message"]
