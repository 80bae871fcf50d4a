"""A Pydantic AI agent with mnemolog's tools: what it remembers in one run, it recalls in the next.

    pip install './clients/python[pydantic-ai]'
    python examples/pydantic_ai_toolset.py        (needs a running server: `mnemolog up`; no language model)

A function plays the model; pass `Agent` the name of a real one instead.
"""

import asyncio
from uuid import uuid4

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mnemolog_client import AsyncMnemolog, Unreachable
from mnemolog_client.pydantic_ai import MemoryToolset


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Remember a statement, recall for a question, then answer with what the tool returned."""
    newest = messages[-1].parts[-1]
    if isinstance(newest, ToolReturnPart):
        return ModelResponse(parts=[TextPart(str(newest.content))])
    prompt = newest.content if isinstance(newest, UserPromptPart) and isinstance(newest.content, str) else ""
    tool, name = ("recall", "query") if prompt.endswith("?") else ("remember", "content")
    return ModelResponse(parts=[ToolCallPart(tool, {name: prompt})])


async def main() -> None:
    """Two runs that share nothing but the memory."""
    async with AsyncMnemolog(agent="ada") as client:
        memory = MemoryToolset(client, project=f"pydantic-ai-{uuid4().hex[:8]}")
        agent = Agent(FunctionModel(model), toolsets=[memory])
        print((await agent.run("We deploy on Tuesdays, never on Fridays.")).output)
        print((await agent.run("When do we deploy?")).output)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Unreachable as error:
        raise SystemExit(f"{error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
