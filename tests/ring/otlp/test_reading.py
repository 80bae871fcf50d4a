"""What spans and log records become: the observations of a session, whoever sends them."""

import gzip
import json
import re

import pytest

from api.http.http import MAX_BODY_BYTES
from api.otlp.reading import observations
from api.otlp.wire import MAX_RECORD_BYTES, records
from ingest.commands.parse import MAX_BATCH_ITEMS
from ingest.errors import MalformedRequest, RequestTooLarge
from ingest.nouns.observation import Observe
from tests.ring.otlp.payloads import SENDERS, TRACES, Sent, sent_by

ASKED = (
    "Why does the checkout of the Aurora shop fail on Friday evenings?",
    "Which flag switches the invoice export off?",
)
ANSWERED = "The checkout fails because", "The flag EXPORT_ENABLED=false"
LOG = "connection pool exhausted, limit 20; invoice-export holds 18 connections"
CONTENT = re.compile(
    r"gen_ai\.(input|output)\.messages|gen_ai\.tool\.call\.(arguments|result)|pydantic_ai\..*|final_result|exception\..*"
)
EMPTY_SPAN = b"\x12\x00"


def read(request: Sent, *, is_json: bool = True) -> list[Observe]:
    body = request.body if is_json else request.protobuf
    return observations(records(body, are_spans=request.path == TRACES, is_json=is_json))


def story(items: list[Observe]) -> list[Observe]:
    """Each item once, as the log stores it, in the order in which it happened."""
    return sorted({item.event_id: item for item in reversed(items)}.values(), key=lambda item: str(item.occurred_at))


def ids(items: list[Observe]) -> set[str]:
    return {item.event_id for item in items}


@pytest.mark.parametrize("sender", SENDERS)
def test_session_of_every_sender_has_its_prompts_calls_and_answers_in_order_and_each_once(sender: str):
    items = story([item for request in sent_by(sender, "aurora") for item in read(request)])
    prompt, call, answer, second, failure, last = items
    assert [prompt.data["prompt"], second.data["prompt"]] == [*ASKED]
    assert call.data["tool_output"].endswith(LOG)
    assert "checkout" in str(call.data["tool_input"])
    assert [answer.content[:26], last.content[:29]] == [*ANSWERED]
    assert failure.kind == "post_tool_failure"
    assert failure.data["error"]
    assert "tool_output" not in failure.data
    assert {item.project for item in items} == {"aurora"}
    assert len({item.session_id for item in items}) == 1
    assert answer.metadata["model"]
    assert all(item.agent_id and item.trace and item.metadata["sender"] for item in items)


@pytest.mark.parametrize("sender", [*SENDERS, "claude-code-logs", "codex"])
def test_json_and_protobuf_are_read_alike(sender: str):
    for request in sent_by(sender):
        assert read(request, is_json=False) == read(request)


def test_log_records_alone_have_the_session_of_claude_code():
    items = story([item for request in sent_by("claude-code-logs") for item in read(request)])
    assert [item.kind for item in items] == [
        "prompt_submit", "post_tool_use", "conversation", "prompt_submit", "post_tool_failure", "conversation",
    ]  # fmt: skip
    assert items[1].data["tool_input"]["command"] == "cat checkout.log"


def test_log_records_of_codex_have_prompts_and_commands_with_their_output():
    prompt, call, *_ = [item for request in sent_by("codex") for item in read(request)]
    assert prompt.data["prompt"] == ASKED[0]
    assert call.data["tool_input"] == {"cmd": "cat checkout.log"}
    assert LOG in call.data["tool_output"]


def changed(sender: str, keeps: str) -> Sent:
    """A sender's first request without the spans whose operation is another."""
    (request, *_) = sent_by(sender)
    body = json.loads(request.text)
    scope = body["resourceSpans"][0]["scopeSpans"][0]
    scope["spans"] = [span for span in scope["spans"] if keeps in json.dumps(span["attributes"])]
    return Sent(request.path, json.dumps(body))


@pytest.mark.parametrize(
    ("sender", "model", "tool"),
    [("pydantic-ai", '"chat"', '"execute_tool"'), ("ai-sdk", "doGenerate", '"ai.toolCall"')],
)
def test_tool_result_in_the_history_of_a_call_is_the_call_of_its_span(sender: str, model: str, tool: str):
    of_models, of_tools = read(changed(sender, model)), read(changed(sender, tool))
    calls = [item for item in of_models if "tool_name" in item.data]
    assert calls[0].data == of_tools[0].data
    assert ids(calls) == ids(of_tools)


def test_span_without_a_session_is_in_that_of_its_trace_and_in_the_trace_if_none_is_named():
    request = sent_by("pydantic-ai")[0]
    first, *others = request.text.split('{"key": "gen_ai.conversation.id", ')
    partly = first + '{"key": "x", ' + '{"key": "gen_ai.conversation.id", '.join(others)
    assert read(Sent(TRACES, partly)) == read(request)
    unnamed = read(Sent(TRACES, request.text.replace("gen_ai.conversation.id", "x")))
    assert all(item.session_id == item.trace for item in unnamed)


def test_nothing_is_read_of_spans_without_content_or_whose_content_is_redacted():
    body = json.loads(sent_by("pydantic-ai")[0].text)
    for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        del span["status"]
        span["attributes"] = [pair for pair in span["attributes"] if not CONTENT.fullmatch(pair["key"])]
    assert read(Sent(TRACES, json.dumps(body))) == []
    (prompts, *_) = sent_by("claude-code-logs")
    redacted = read(Sent(prompts.path, prompts.text.replace(ASKED[0], "<REDACTED>")))
    assert "prompt_submit" not in {item.kind for item in redacted}


def test_answers_of_this_servers_own_tools_are_not_read():
    (request, *_) = sent_by("pydantic-ai")
    own = read(Sent(TRACES, request.text.replace("read_log", "mcp__mnemolog__recall")))
    assert "post_tool_use" not in {item.kind for item in own}


def field(number: int, content: bytes) -> bytes:
    """A field of protobuf."""
    size, rest = len(content), b""
    while size > 127:
        rest, size = rest + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + rest + bytes([size]) + content


@pytest.mark.parametrize(
    ("body", "is_zipped"),
    {
        "unzips to more than the limit": (gzip.compress(bytes(MAX_BODY_BYTES + 1)), True),
        "too many spans": (field(1, field(2, EMPTY_SPAN * (MAX_BATCH_ITEMS + 1))), False),
        "a span that is too large": (field(1, field(2, field(2, bytes(MAX_RECORD_BYTES + 1)))), False),
    }.values(),
)
def test_request_over_a_limit_is_refused(body: bytes, is_zipped: bool):
    with pytest.raises(RequestTooLarge):
        list(records(body, are_spans=True, is_json=False, is_zipped=is_zipped))


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b'{"resourceSpans": 5}', b'{"resourceSpans": [5]}', b'{"resourceSpans": [{"scopeSpans": ["x"]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "soon"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"value": {"arrayValue": 1}}]}]}]}]}',
    ],
)  # fmt: skip
def test_json_of_another_form_is_malformed(body: bytes):
    with pytest.raises(MalformedRequest):
        list(records(body, are_spans=True, is_json=True))


def test_cut_protobuf_is_malformed_at_every_length():
    (request, *_) = sent_by("codex")
    whole = request.protobuf
    for end in range(1, len(whole), 97):
        with pytest.raises(MalformedRequest):
            list(records(whole[:end], are_spans=False, is_json=False))
