"""Chat completions from any server with OpenAI's `POST <base URL>/chat/completions`, decoded into a given type."""

import asyncio
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast

import httpx
import msgspec
from msgspec import Meta, Struct

from ingest.platform.addresses import proxy_options
from projections.condensing.llm.answers import (
    LlmRefused,
    LlmUnavailable,
    LlmUnusable,
    Prompt,
    estimated_tokens,
)

T = TypeVar("T")

TIMEOUT_S = 60.0
"""For one request: a model on a local processor needs that long for a few hundred tokens."""
CONNECT_TIMEOUT_S = 5.0
DETAIL_CHARS = 300


class _Message(Struct):
    content: str


class _Choice(Struct):
    message: _Message


class _Completion(Struct):
    choices: Annotated[list[_Choice], Meta(min_length=1)]
    usage: Any = None


_decode_completion = msgspec.json.Decoder(_Completion).decode
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class ModelAnswer(NamedTuple, Generic[T]):
    """What a model answered and the tokens that question and answer took."""

    value: T
    tokens: int


class LlmClient:
    """One model of one server. Asks once: attempts are the caller's.

    Raises LlmUnavailable, LlmRefused or LlmUnusable; none of them, and no log line, contains the key.
    """

    def __init__(self, base_url: str, model: str, *, api_key: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self.model = model
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._key, self._timeout_s = api_key, timeout_s
        self._dialect = 0
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # a model may think for minutes, but a host that does not accept a connection is down now
        timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))
        self._client = httpx.AsyncClient(
            headers=headers, timeout=timeout, follow_redirects=False, **proxy_options(base_url)
        )

    async def ask(self, prompt: Prompt, answer: type[T]) -> ModelAnswer[T]:
        """The model's answer to a prompt as an `answer`."""
        try:
            # httpx bounds each read, not the whole answer, which a server may send byte by byte
            async with asyncio.timeout(self._timeout_s):
                response = await self._post_in_its_dialect(prompt)
        except httpx.RequestError as error:
            was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            reason = self._without_key(f"{type(error).__name__}: {error}")
            raise LlmUnavailable(self._url, reason, maybe_billed=was_sent) from error
        except TimeoutError as error:
            reason = f"no response within {self._timeout_s:g} s"
            raise LlmUnavailable(self._url, reason, maybe_billed=True) from error
        if response.status_code == 429 or response.status_code >= 500:
            raise LlmUnavailable(self._url, f"HTTP {response.status_code}")
        if not response.is_success:
            raise LlmRefused(self._url, response.status_code, self._without_key(response.text))
        return self._decoded(prompt, response, answer)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post_in_its_dialect(self, prompt: Prompt) -> httpx.Response:
        """The response; options that a server refuses are left out, the next time from the start."""
        messages = [message._asdict() for message in prompt.messages]
        # Options in the order of preference. Many servers have no JSON mode; OpenAI's reasoning models refuse
        # `max_tokens`, and then only the time-out bounds them.
        limit: dict[str, object] = {"max_tokens": prompt.max_tokens}
        dialects = ({**limit, "response_format": {"type": "json_object"}}, limit, dict[str, object]())
        dialect = self._dialect
        while True:
            body = {"model": self.model, "messages": messages, **dialects[dialect]}
            response = await self._client.post(self._url, json=body)
            if response.is_success:
                self._dialect = dialect
            if response.status_code not in (400, 422) or dialect + 1 == len(dialects):
                return response
            dialect += 1

    def _decoded(self, prompt: Prompt, response: httpx.Response, answer: type[T]) -> ModelAnswer[T]:
        prompt_tokens = estimated_tokens(*(message.content for message in prompt.messages))
        try:
            completion = _decode_completion(response.content)
        except _UNDECODABLE as error:
            raise LlmUnusable(self.model, f"not a chat completion: {error}", prompt_tokens) from error
        content = completion.choices[0].message.content
        tokens = _reported_tokens(completion.usage) or prompt_tokens + estimated_tokens(content)
        try:
            return ModelAnswer(msgspec.json.decode(json_object(content), type=answer, strict=False), tokens)
        except _UNDECODABLE as error:
            raise LlmUnusable(self.model, f"not the requested JSON: {error}", tokens) from error

    def _without_key(self, text: str) -> str:
        # some servers quote the key in their errors
        return (text.replace(self._key, "[key]") if self._key else text)[:DETAIL_CHARS]


def json_object(content: str) -> str:
    """The JSON object in a model's reply: without reasoning before it, a code fence or words around it.

    The reply itself when it has no braces; decoding that fails, as it should.
    """
    reply = content.rpartition("</think>")[2]
    start, end = reply.find("{"), reply.rfind("}")
    return reply[start : end + 1] if 0 <= start < end else reply


def _reported_tokens(usage: Any) -> int:
    """`total_tokens`, else the sum of its parts; 0 when the server counts nothing."""
    if not isinstance(usage, dict):
        return 0
    counts = cast(dict[str, Any], usage)
    total, *parts = (counts.get(name) for name in ("total_tokens", "prompt_tokens", "completion_tokens"))
    if isinstance(total, int) and total > 0:
        return total
    return sum(max(0, part) for part in parts if isinstance(part, int))
