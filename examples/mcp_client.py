"""The official MCP SDK against a running server: remember something, then recall it.

    python examples/mcp_client.py        (needs a running server: `mnemolog up`)

The address is taken from MNEMOLOG_URL, the key from MNEMOLOG_KEY.
"""

import asyncio
import os

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

URL = os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111")
AGENT = {"agent_id": "ada", "project": "quickstart"}


def text_of(result: CallToolResult) -> str:
    """What a model would read."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def main() -> None:
    """List the tools, call two of them."""
    key = os.environ.get("MNEMOLOG_KEY") or os.environ.get("MNEMOLOG_SECRET")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{URL}/mcp", http_client=http)) as client,
    ):
        tools = await client.list_tools()
        print("tools:", ", ".join(tool.name for tool in tools.tools))
        remembered = {"content": "The staging database is reset every night.", "event_id": "mcp-example-1"}
        print(text_of(await client.call_tool("remember", {**AGENT, **remembered})))
        # The same agent_id: the recall waits for that agent's own write.
        print(
            text_of(
                await client.call_tool("recall", {**AGENT, "query": "when is the staging database reset?", "limit": 3})
            )
        )


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except ExceptionGroup as errors:
        if errors.subgroup(httpx2.ConnectError) is None:
            raise
        raise SystemExit(f"No server at {URL}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
