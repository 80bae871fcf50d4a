"""An agent of the OpenAI Agents SDK whose conversation is kept in mnemolog, across processes.

    pip install './clients/python[openai-agents]'
    OPENAI_API_KEY=... python examples/openai_agents_session.py SESSION "My name is Bob." "What is my name?"

OPENAI_BASE_URL and OPENAI_MODEL choose any endpoint of OpenAI's form.
"""

import asyncio
import os
import sys

from agents import Agent, Runner, set_default_openai_api, set_tracing_disabled

from mnemolog_client import AsyncMnemolog, Unreachable
from mnemolog_client.openai_agents import MemorySession


async def main(session_id: str, *prompts: str) -> None:
    """One turn for each prompt."""
    set_tracing_disabled(True)
    set_default_openai_api("chat_completions")
    agent = Agent(name="ada", model=os.environ.get("OPENAI_MODEL", "gpt-5-mini"))
    async with AsyncMnemolog(agent="ada") as client:
        session = MemorySession(session_id, client)
        for prompt in prompts:
            result = await Runner.run(agent, prompt, session=session)
            print("answer:", result.final_output)
        print("items:", len(await session.get_items()))


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except Unreachable as error:
        raise SystemExit(f"{error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
