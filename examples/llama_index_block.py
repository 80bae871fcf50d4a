"""A LlamaIndex chat engine with mnemolog as a block of its long-term memory.

    pip install './clients/python[llama-index]'
    python examples/llama_index_block.py        (needs a running server: `mnemolog up`; no language model)

LlamaIndex's mock model repeats its prompt, so the output shows what a real model would see.
"""

import asyncio
from typing import Any
from uuid import uuid4

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory

from mnemolog_client import AsyncMnemolog, Unreachable
from mnemolog_client.llama_index import MnemologBlock


async def main() -> None:
    """What an earlier session recorded is in the prompt of this one."""
    async with AsyncMnemolog(agent="ada") as client:
        project = f"llama-index-{uuid4().hex[:8]}"
        await client.observations.create("monday", "The staging database is reset every night.", project=project)
        block = MnemologBlock(client=client, project=project)
        memory = Memory.from_defaults(session_id="tuesday", memory_blocks=[block], token_limit=2_000)
        engine: Any = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
        answer = await engine.achat("When is the staging database reset?")
        print(answer.response)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Unreachable as error:
        raise SystemExit(f"{error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
