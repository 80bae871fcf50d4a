"""An MCP host: a model, with any chat endpoint of OpenAI's form, that is offered the tools of mnemolog's MCP server.

    OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=llama3.2 python examples/mcp_host.py "..."

The host knows no tool: it passes on what the server lists. It needs the official SDK (`pip install mcp`) and a running
server; the address is taken from MNEMOLOG_URL, the key from MNEMOLOG_KEY.
"""

import asyncio
import json
import os
import sys
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, Tool

URL = os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111")
CHAT = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1").rstrip("/")
MODEL = os.environ.get("OPENAI_MODEL", "llama3.2")
TURNS = 8


def offered(tool: Tool) -> dict[str, Any]:
    """A tool of MCP as chat endpoints want it described."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def text_of(result: CallToolResult) -> str:
    """What the model reads; an error says what to do."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def answered(client: Client, http: httpx2.AsyncClient, question: str) -> str:
    """The model's answer, after as many calls of tools as it wants, up to TURNS."""
    tools = [offered(tool) for tool in (await client.list_tools()).tools]
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    key = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    for _ in range(TURNS):
        asked = {"model": MODEL, "messages": messages, "tools": tools}
        answer = await http.post(f"{CHAT}/chat/completions", json=asked, headers=key)
        message = answer.raise_for_status().json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            function = call["function"]
            result = text_of(await client.call_tool(function["name"], json.loads(function["arguments"])))
            print(f"{function['name']}({function['arguments']}) -> {result}")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return "I did not come to an answer."


async def main() -> None:
    """Ask one question."""
    question = " ".join(sys.argv[1:]) or "When do we deploy? If you do not know: on Tuesdays."
    key = os.environ.get("MNEMOLOG_KEY") or os.environ.get("MNEMOLOG_SECRET")
    headers = {"X-Agent-Id": "ada", **({"Authorization": f"Bearer {key}"} if key else {})}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as memory,
        httpx2.AsyncClient(timeout=120) as http,
        Client(streamable_http_client(f"{URL}/mcp", http_client=memory)) as client,
    ):
        print("answer:", await answered(client, http, question))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except ExceptionGroup as errors:
        if errors.subgroup(httpx2.ConnectError) is None:
            raise
        raise SystemExit(f"No server at {URL}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
