"""Requests and answers of OTLP/HTTP, in JSON and in protobuf. The only file that imports the classes of protobuf.

A request is read one span or log record at a time, and each is dropped before the next: an empty one takes two bytes in
protobuf and a hundred times that in memory.
"""

import re
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, cast

from google.protobuf.json_format import MessageToDict, MessageToJson
from google.protobuf.message import DecodeError
from msgspec import json
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from api.http.http import MAX_BODY_BYTES
from ingest.commands.parse import MAX_BATCH_ITEMS, parse_json
from ingest.errors import CommandRejected, MalformedRequest, RequestTooLarge

MAX_RECORD_BYTES = 4 << 20
"""In protobuf. A span with the whole history of a long session has two megabytes."""
_FAILED = (2, "STATUS_CODE_ERROR")
_HEADER = re.compile(rb"([\x80-\xff]{0,4}[\0-\x7f])([\x80-\xff]{0,4}[\0-\x7f])", re.DOTALL)
"""The number and type of a field of protobuf, and its size."""
_INVALID = (AttributeError, CommandRejected, DecodeError, KeyError, RecursionError, TypeError, ValueError, zlib.error)
"""What readers raise for bytes that are not a request of OTLP."""


class Record(NamedTuple):
    """A span or a log record. `attributes` include those of its resource, of its scope and of its events; `start` and
    `end` are nanoseconds since the epoch, 0 if unknown; ids are hexadecimal, empty for none. `error` says why a span
    failed; None if it did not."""

    attributes: dict[str, Any]
    trace: str
    span: str
    start: int
    end: int
    error: str | None = None


class _Message(dict[str, Any]):
    """A message in JSON. Its fields have the names of protobuf; one without a value is an empty message."""

    def __getattr__(self, name: str) -> Any:
        value = self.get(_camel(name), {})
        if isinstance(value, list):
            return [_Message(item) for item in cast(list[Any], value)]
        return _Message(cast(Any, value)) if isinstance(value, dict) else value


@cache
def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def records(body: bytes, *, are_spans: bool, is_json: bool, is_zipped: bool = False) -> Iterator[Record]:
    """Yield the spans or log records of a request. Raises MalformedRequest, or RequestTooLarge for a body of more than
    MAX_BODY_BYTES when it is unzipped, for too many records and for one that is too large."""
    read, kind = (_span, Span) if are_spans else (_log, LogRecord)
    try:
        if is_zipped:
            body = zlib.decompressobj(31).decompress(body, MAX_BODY_BYTES + 1)  # 31: gzip
            if len(body) > MAX_BODY_BYTES:
                raise RequestTooLarge("the unzipped body", None, MAX_BODY_BYTES)
        for number, (about, item) in enumerate(_in_json(body) if is_json else _in_protobuf(body, kind)):
            if number == MAX_BATCH_ITEMS:
                raise RequestTooLarge("the request", None, MAX_BATCH_ITEMS, "spans or log records")
            yield read(item, about)
    except _INVALID:
        raise MalformedRequest("the body is not a request of OTLP") from None


def _in_json(body: bytes) -> Iterator[tuple[dict[str, Any], Any]]:
    request = _Message(parse_json(body, dict[str, Any]))
    for group in (*request.resource_spans, *request.resource_logs):
        for part in (*group.scope_spans, *group.scope_logs):
            about = _about(group.resource, part.scope)
            for item in (*part.spans, *part.log_records):
                yield about, item


def _in_protobuf(body: bytes, kind: type[Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """The fields of the three levels have the same numbers for spans and for logs."""
    for group in _fields(body, 1):
        resource = Resource.FromString(b"".join(_fields(group, 1)))
        for part in _fields(group, 2):
            about = _about(resource, InstrumentationScope.FromString(b"".join(_fields(part, 1))))
            for item in _fields(part, 2):
                if len(item) > MAX_RECORD_BYTES:
                    raise RequestTooLarge("a span or log record", len(item), MAX_RECORD_BYTES)
                yield about, kind.FromString(item)


def _about(resource: Any, scope: Any) -> dict[str, Any]:
    return _attributes(resource) | {"otel.scope.name": scope.name}


def _fields(message: bytes, number: int) -> Iterator[bytes]:
    """Yield the messages in a field of a protobuf message whose fields are all messages or texts."""
    at = 0
    while at < len(message):
        header = cast(re.Match[bytes], _HEADER.match(message, at))
        tag, size = map(_integer, header.groups())
        at = header.end() + size
        if tag & 7 != 2 or at > len(message):
            raise ValueError
        if tag >> 3 == number:
            yield message[header.end() : at]


def _integer(raw: bytes) -> int:
    return sum((byte & 0x7F) << 7 * index for index, byte in enumerate(raw))


def _span(item: Any, about: dict[str, Any]) -> Record:
    attributes = dict(about)
    for source in (*item.events, item):
        attributes |= _attributes(source)
    error = str(item.status.message or "") if item.status.code in _FAILED else None
    trace, span = _ids(item)
    return Record(attributes, trace, span, _time(item.start_time_unix_nano), _time(item.end_time_unix_nano), error)


def _log(item: Any, about: dict[str, Any]) -> Record:
    when = _time(item.time_unix_nano) or _time(item.observed_time_unix_nano)
    trace, span = _ids(item)
    return Record({**about, "event.name": item.event_name, **_attributes(item)}, trace, span, when, when)


def _ids(item: Any) -> Iterator[str]:
    for name in (item.trace_id, item.span_id):
        yield name.hex() if isinstance(name, bytes) else str(name or "")


def _time(value: Any) -> int:
    return min(int(value or 0), 1 << 63)  # the year 2262


def _attributes(item: Any) -> dict[str, Any]:
    return {str(pair.key): _plain(pair.value) for pair in item.attributes}


def _plain(value: Any) -> Any:
    """Return a value, from JSON or from protobuf."""
    if not isinstance(value, dict):
        inner = getattr(value, value.WhichOneof("value") or "string_value")
        if isinstance(inner, str | int | float):
            return inner
        value = MessageToDict(value)
    match cast(dict[str, Any], value):
        case {"arrayValue": inner}:
            return [_plain(item) for item in inner.get("values", [])]
        case {"kvlistValue": inner}:
            return {str(pair["key"]): _plain(pair["value"]) for pair in inner.get("values", [])}
        case {"intValue": inner}:
            return int(inner)
        case other:
            return next(iter(other.values()), None)


def answer(reasons: list[str], *, are_spans: bool, is_json: bool) -> bytes:
    """Return the body of an answer; with the number of rejected observations and the first reason, if there are any."""
    partial = ExportTracePartialSuccess(rejected_spans=len(reasons), error_message=reasons[0]) if reasons else None
    whole = ExportTraceServiceResponse(partial_success=partial)  # the answer for log records has the same fields
    if not is_json:
        return whole.SerializeToString()
    text = MessageToJson(whole)
    return (text if are_spans else text.replace("rejectedSpans", "rejectedLogRecords", 1)).encode()


def status(message: str, *, is_json: bool) -> bytes:
    """Return a `google.rpc.Status`, the body of an error, with the code for an invalid argument."""
    if is_json:
        return json.encode({"code": 3, "message": message})
    # its first two fields have the numbers and types of this message
    return ExportTracePartialSuccess(rejected_spans=3, error_message=message).SerializeToString()
