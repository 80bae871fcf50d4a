"""OTLP/HTTP: what agents export by OpenTelemetry becomes observations of their sessions."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import JSON, Endpoint
from api.http.http import body, status_of
from api.http.openapi import ANYTHING
from api.native.common import router
from api.services import NativeCall
from ingest.errors import MalformedRequest, RequestTooLarge
from ingest.nouns.observation import Observe
from ingest.platform.tasks import in_thread
from ingest.roles import WRITE

ENDPOINTS: list[Endpoint] = []
PROTOBUF = "application/x-protobuf"
TYPES = (JSON, PROTOBUF)
route = partial(
    router(ENDPOINTS),
    needs=WRITE,
    body=ANYTHING,
    taken=TYPES,
    answer=ANYTHING,
    faults={415: "The content type is neither JSON nor protobuf."},
    answers=dict.fromkeys((400, 413, 415), ANYTHING),
)


@route("POST /v1/traces")
async def post_traces(call: NativeCall, request: Request) -> Response:
    """Record the spans of agents (OTLP/HTTP).

    An `ExportTraceServiceRequest`, also with gzip. Prompts, tool calls, answers and errors become observations; other
    spans are ignored.
    """
    return await _recorded(call, request, are_spans=True)


@route("POST /v1/logs")
async def post_logs(call: NativeCall, request: Request) -> Response:
    """Record the log records of agents (OTLP/HTTP).

    An `ExportLogsServiceRequest`, as for `POST /v1/traces`.
    """
    return await _recorded(call, request, are_spans=False)


async def _recorded(call: NativeCall, request: Request, *, are_spans: bool) -> Response:
    from api.otlp import reading, wire  # load protobuf

    media = request.headers.get("content-type", "").partition(";")[0]
    is_json = media != PROTOBUF

    def read(raw: bytes) -> list[Observe]:
        is_zipped = request.headers.get("content-encoding") == "gzip"
        records = wire.records(raw, are_spans=are_spans, is_json=is_json, is_zipped=is_zipped)
        return reading.observations(records, is_known=bool(call.agent or call.key_scope.sole_agent))

    try:
        if media not in TYPES:
            raise MalformedRequest("send JSON or protobuf")
        observations = await in_thread(read, await body(request))
        rejected = (await call.commands.handle_batch(observations, call.caller()._replace(source="otlp"))).rejected
        content = wire.answer([error.message for _, error in rejected], are_spans=are_spans, is_json=is_json)
        status = 200
    except (MalformedRequest, RequestTooLarge) as error:
        status = status_of(error) if media in TYPES else 415
        content = wire.status(str(error), is_json=is_json)
    return Response(content, status, media_type=TYPES[not is_json])
