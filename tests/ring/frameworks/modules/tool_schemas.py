"""The tools of all MCP profiles in the converters of model providers. `test_frameworks.py` runs this file."""

import copy
import os
from typing import Any

import httpx2
from agents.strict_schema import ensure_strict_json_schema
from anthropic import transform_schema
from anthropic.lib.tools.mcp import async_mcp_tool
from google.genai import types
from google.genai._mcp_utils import mcp_to_gemini_tool
from mcp import ClientSession, Tool
from mcp.client.streamable_http import streamable_http_client


async def test_every_tool_passes_the_converters_of_gemini_openai_and_anthropic():
    headers = {"Authorization": f"Bearer {os.environ['MNEMOLOG_SECRET']}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        streamable_http_client(f"{os.environ['MNEMOLOG_URL']}/mcp?profile=all", http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = (await session.list_tools()).tools
        assert len(tools) > 50
        for tool in tools:
            _convert(tool, session)


def _convert(tool: Tool, session: ClientSession) -> None:
    properties = set(tool.input_schema["properties"])
    (for_gemini,) = mcp_to_gemini_tool(tool).function_declarations or []
    assert for_gemini.parameters is not None
    types.Schema.model_validate(tool.input_schema)
    for_openai = ensure_strict_json_schema(copy.deepcopy(tool.input_schema))
    for_anthropic: dict[str, Any] = transform_schema(tool.input_schema)
    assert async_mcp_tool(tool, session).to_dict()["name"] == tool.name
    assert set(for_gemini.parameters.properties or {}) == properties
    assert set(for_openai["properties"]) == properties
    assert set(for_anthropic["properties"]) == properties
