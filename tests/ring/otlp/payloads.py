"""What real senders exported of two turns with a scripted model, as OTLP's JSON: the checkout of a shop fails, and a
flag is looked up, which fails. Tool schemas, host names, paths and stack traces are removed.
"""

import base64
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

FOLDER = Path(__file__).with_name("payloads")
SENDERS = ("ai-sdk", "claude-code", "langgraph", "openai-agents", "pydantic-ai")
TRACES = "/v1/traces"
JSON, PROTOBUF = "application/json", "application/x-protobuf"
_ID = re.compile(r'("(?:traceId|spanId|parentSpanId)": )"([0-9a-f]+)"')


class Sent(NamedTuple):
    """A request: where it was sent, and its body in JSON."""

    path: str
    text: str

    @property
    def body(self) -> bytes:
        return self.text.encode()

    @property
    def protobuf(self) -> bytes:
        """The same in protobuf. (Its library takes ids in base64, which OTLP has in hexadecimal digits.)"""
        text = _ID.sub(lambda match: f'{match[1]}"{base64.b64encode(bytes.fromhex(match[2])).decode()}"', self.text)
        message = ExportTraceServiceRequest() if self.path == TRACES else ExportLogsServiceRequest()
        return Parse(text, message).SerializeToString()


def sent_by(sender: str, project: str = "") -> list[Sent]:
    """The requests of a sender; with `project`, the resource names this project."""
    requests: list[dict[str, Any]] = json.loads((FOLDER / f"{sender}.json").read_text())
    named = {"key": "mnemolog.project", "value": {"stringValue": project}}
    for request in requests:
        for group in request["body"].get("resourceSpans", []) + request["body"].get("resourceLogs", []):
            group["resource"]["attributes"] += [named] if project else []
    return [Sent(request["path"], json.dumps(request["body"])) for request in requests]
