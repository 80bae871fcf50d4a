"""A model that plays a script: a real server of the Anthropic Messages API, as far as Claude Code uses it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from thread_server import ThreadServer

Json = dict[str, Any]


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
        super().__init__([Route("/v1/messages", self._answer, methods=["POST"])])

    async def _answer(self, request: Request) -> Response:
        body: Json = await request.json()
        self.requests.append(_read(body["messages"]))
        if not self.script:
            error = {"type": "invalid_request_error", "message": "the script has no more turns"}
            return JSONResponse({"type": "error", "error": error}, 400)
        events = _events(self.script.pop(0), len(self.requests), body["model"])
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return Response(stream, media_type="text/event-stream")


def _read(messages: list[Json]) -> ModelRequest:
    contents: list[str | list[Json]] = [message["content"] for message in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    results = ["\n".join(_texts(part["content"])) for part in parts if part["type"] == "tool_result"]
    return ModelRequest("\n".join(_texts(contents)), results[-1] if results else "")


def _texts(value: Any) -> Iterator[str]:
    """The texts of messages, in order: of users, of the host, of tool calls and of their results."""
    if isinstance(value, str):
        yield value
    if isinstance(value, dict):
        value = list(cast(Json, value).values())
    for part in cast(list[Any], value) if isinstance(value, list) else ():
        yield from _texts(part)


def _events(turn: Turn, number: int, model: str) -> Iterator[Json]:
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
