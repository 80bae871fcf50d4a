"""A model that plays a script: a real server of Anthropic's Messages API and OpenAI's Responses API, as far as Claude
Code and Codex use them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from thread_server import ThreadServer

Json = dict[str, Any]
RESULTS = ("tool_result", "function_call_output")


class Turn(NamedTuple):
    """One answer of the model: a text, or tool calls (name and input). `window_tokens`: what it counts as read."""

    text: str = ""
    calls: Sequence[tuple[str, Json]] = ()
    window_tokens: int = 100


class ModelRequest(NamedTuple):
    """What the model reads after the system prompt, as one text; the newest result of a tool, or an empty text."""

    text: str
    result: str


class ScriptedModel(ThreadServer):
    """Runs as a context manager. Each request gets the next turn; requests after the last turn are refused."""

    def __init__(self, *script: Turn) -> None:
        self.script = list(script)
        self.requests: list[ModelRequest] = []
        paths = ("/v1/messages", "/v1/responses")
        super().__init__([Route(path, self._answer, methods=["POST"]) for path in paths])

    async def _answer(self, request: Request) -> Response:
        body: Json = await request.json()
        is_messages = "messages" in body
        self.requests.append(_read(body["messages"] if is_messages else body["input"]))
        if not self.script:
            error = {"type": "invalid_request_error", "message": "the script has no more turns"}
            return JSONResponse({"type": "error", "error": error}, 400)
        events = (_message if is_messages else _response)(self.script.pop(0), len(self.requests), body["model"])
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return Response(stream, media_type="text/event-stream")


def _read(messages: list[Json]) -> ModelRequest:
    contents: list[str | list[Json]] = [message.get("content", [message]) for message in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    results = [part.get("content", part.get("output")) for part in parts if part["type"] in RESULTS]
    return ModelRequest("\n".join(_texts(contents)), "\n".join(_texts(results[-1:])))


def _texts(value: Any) -> Iterator[str]:
    """The texts of messages, in order: of users, of the host, of tool calls and of their results."""
    if isinstance(value, str):
        yield value
    if isinstance(value, dict):
        value = list(cast(Json, value).values())
    for part in cast(list[Any], value) if isinstance(value, list) else ():
        yield from _texts(part)


def _message(turn: Turn, number: int, model: str) -> Iterator[Json]:
    usage = {"input_tokens": turn.window_tokens, "output_tokens": 10}
    message: Json = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    blocks: list[tuple[Json, Json]] = []
    if turn.text:
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": turn.text}))
    for index, (name, arguments) in enumerate(turn.calls):
        call: Json = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": name, "input": {}}
        blocks.append((call, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}))
    for index, (block, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if turn.calls else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def _response(turn: Turn, number: int, model: str) -> Iterator[Json]:
    items: list[Json] = []
    if turn.text:
        content = [{"type": "output_text", "text": turn.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    for index, (name, arguments) in enumerate(turn.calls):
        call = {"type": "function_call", "call_id": f"call_{number}_{index}", "name": name}
        items.append({**call, "arguments": json.dumps(arguments)})
    response = {"id": f"resp_{number}", "model": model}
    usage = {"input_tokens": turn.window_tokens, "output_tokens": 10, "total_tokens": turn.window_tokens + 10}
    yield {"type": "response.created", "response": response}
    for index, item in enumerate(items):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": {**response, "usage": usage}}
