"""A model that calls tools, with any chat endpoint of OpenAI's form; its tools are mnemolog's memory.

    pip install ./clients/python
    OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=llama3.2 python examples/tool_calling_agent.py "..."

The loop is that of agent frameworks: functions with descriptions, a model that asks for them, their answers handed
back, until it answers in words. Every turn is observed, so the next session knows of it.
"""

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from uuid import uuid4

import httpx

from mnemolog_client import AsyncMnemolog, MnemologError, Unreachable

PROJECT, AGENT = "tool-calling", "ada"
TURNS = 8

Tool = Callable[..., Awaitable[str]]


def tools_of(memory: AsyncMnemolog, session: str) -> dict[str, Tool]:
    """The functions that the model may call."""

    async def recall(query: str) -> str:
        """Look up what is known. Ask in whole sentences."""
        found = await memory.search(query, project=PROJECT, kinds=["memory", "lesson", "summary"], limit=5)
        return "\n".join(f"[{one.id}] {one.snippet}" for one in found) or "nothing is known"

    async def remember(content: str) -> str:
        """Keep a fact for later sessions."""
        return (await memory.add(content, project=PROJECT, session_id=session)).id

    async def confirm(id: str) -> str:
        """Say that something recalled proved right."""
        return "noted" if (await memory.confirm([id])).confirmed else "there is no such memory"

    return {tool.__name__: tool for tool in (recall, remember, confirm)}


def described(tool: Tool) -> dict[str, Any]:
    """A tool as chat endpoints want it described: all of its parameters are texts."""
    names = list(inspect.signature(tool).parameters)
    parameters = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    function = {"name": tool.__name__, "description": inspect.getdoc(tool), "parameters": parameters}
    return {"type": "function", "function": function}


class Chat(NamedTuple):
    """A chat endpoint, and the model to ask."""

    http: httpx.AsyncClient
    model: str

    async def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """The model's next message."""
        asked = {"model": self.model, "messages": messages, "tools": tools}
        answer = await self.http.post("chat/completions", json=asked)
        return answer.raise_for_status().json()["choices"][0]["message"]


async def called(tools: dict[str, Tool], call: dict[str, Any]) -> str:
    """The answer of a tool; an error goes to the model, which can react to it."""
    function = call["function"]
    try:
        return await tools[function["name"]](**json.loads(function["arguments"]))
    except (MnemologError, KeyError, TypeError, ValueError) as fault:
        return f"error: {fault}"


async def answered(memory: AsyncMnemolog, chat: Chat, session: str, question: str) -> str:
    """The model's answer, after as many calls of tools as it wants, up to TURNS."""
    known = await memory.context(PROJECT, session_id=session, query=question, token_budget=1_000)
    tools = tools_of(memory, session)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": f"Answer briefly. Remember what will matter later.\n\n{known.context}"},
        {"role": "user", "content": question},
    ]
    for _ in range(TURNS):
        message = await chat(messages, [described(tool) for tool in tools.values()])
        messages.append(message)
        calls: list[dict[str, Any]] = message.get("tool_calls") or []
        if not calls:
            return message["content"]
        for call in calls:
            result = await called(tools, call)
            said = {"tool_name": call["function"]["name"], "tool_input": call["function"]["arguments"]}
            await memory.observations.create(session, result, project=PROJECT, data=said)
            print(f"{said['tool_name']}({said['tool_input']}) -> {result}")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return "I did not come to an answer."


async def main() -> None:
    """Ask one question."""
    question = " ".join(sys.argv[1:]) or "When do we deploy? If you do not know: on Tuesdays."
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    base = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1").rstrip("/") + "/"
    session = f"session-{uuid4().hex[:8]}"
    async with (
        AsyncMnemolog(agent=AGENT) as memory,
        httpx.AsyncClient(base_url=base, headers=headers, timeout=120) as http,
    ):
        chat = Chat(http, os.environ.get("OPENAI_MODEL", "llama3.2"))
        await memory.observations.create(session, question, project=PROJECT, kind="prompt")
        answer = await answered(memory, chat, session, question)
        await memory.observations.create(session, answer, project=PROJECT)
        await memory.sessions.end(session, project=PROJECT)
        print("answer:", answer)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Unreachable as error:
        raise SystemExit(f"{error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
