"""A language model on loopback: a real HTTP server with `/v1/chat/completions`, and the faults that a test asks for.

It answers mnemolog's three prompts by simple rules from what they quote, so that a test knows what to expect.
"""

import asyncio
import json
import re
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from thread_server import ThreadServer
from waiting import wait_until

MODEL = "stub-1"


class Received(NamedTuple):
    """One request as it came; header names are lower case."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def quoted(self) -> dict[str, Any]:
        """What the user message quotes."""
        return json.loads(self.body["messages"][-1]["content"])


class LlmStub(ThreadServer):
    """Runs as a context manager; its attributes may be set at any time.

    `statuses`: answered instead, one a request, until used up. `status`: answered instead, always, unless 200.
    `contents`: what the model says instead, one a request. `delay_s`: how long it thinks. `held_from`: from
    this request on it thinks until that is None again. `json_mode`, `max_tokens`: whether it knows `response_format`
    and `max_tokens`, or answers 400 to them. `usage`: whether it counts tokens.
    """

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.statuses: list[int] = []
        self.status = 200
        self.contents: list[str] = []
        self.delay_s = 0.0
        self.held_from: int | None = None
        self.json_mode = True
        self.max_tokens = True
        self.usage: dict[str, Any] | None = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
        super().__init__([Route("/v1/chat/completions", self._complete, methods=["POST"])], "/v1")

    @property
    def setting(self) -> str:
        """The value of MNEMOLOG_LLM that names this server."""
        return f"{self.url}|{MODEL}"

    async def _complete(self, request: Request) -> Response:
        body: dict[str, Any] = await request.json()
        received = Received(dict(request.headers), body)
        self.requests.append(received)
        await asyncio.sleep(self.delay_s)
        number = len(self.requests)
        await wait_until(lambda: self.held_from is None or number < self.held_from)
        status = self.statuses.pop(0) if self.statuses else self.status
        if status != 200:
            return JSONResponse({"error": f"no, not with {request.headers.get('authorization')}"}, status)
        for existing, option in ((self.json_mode, "response_format"), (self.max_tokens, "max_tokens")):
            if not existing and option in body:
                return JSONResponse({"error": f"unknown option {option}"}, 400)
        content = self.contents.pop(0) if self.contents else json.dumps(answer(received.quoted))
        message = {"role": "assistant", "content": content}
        return JSONResponse({"model": MODEL, "choices": [{"index": 0, "message": message}], "usage": self.usage})


def answer(quoted: dict[str, Any]) -> dict[str, Any]:
    """What the stub's model says about an `observation`, some `observations` or some `texts`."""
    if "observation" in quoted:
        text: str = quoted["observation"]["text"]
        facts = [line for line in text.splitlines() if re.search(r"\d", line)][:3]
        return {**_told(text), "facts": facts, "importance": 8 if "error" in text.lower() else 5}
    if "observations" in quoted:
        texts: list[str] = [observation["text"] for observation in quoted["observations"]]
        return {**_told("\n".join(texts)), "decisions": [text for text in texts if "decided" in text]}
    results = re.findall(r"(\w+) (uses|causes|replaces|needs) (\w+)", "\n".join(quoted["texts"]))
    return {"relations": [{"source": a, "relation": verb, "target": b} for a, verb, b in results]}


def _told(text: str) -> dict[str, Any]:
    return {
        "title": text.split("\n", 1)[0][:80],
        "narrative": f"It says: {text[:200]}",
        "concepts": sorted({word.lower() for word in re.findall(r"\b[A-Z]\w{3,}", text)})[:5],
        "files": re.findall(r"[\w/]+\.(?:py|ts|go|md)\b", text)[:5],
    }
