"""An agent of Google's ADK that loads memory from mnemolog: what a user said in one session, it knows in another.

    pip install './clients/python[google-adk]'
    python examples/google_adk_memory.py        (needs a running server: `mnemolog up`; no language model)

A class plays the model; pass `LlmAgent` the name of a real one instead.
"""

import asyncio
from collections.abc import AsyncGenerator
from uuid import uuid4

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import load_memory
from google.genai.types import Content, Part

from mnemolog_client import AsyncMnemolog, Unreachable
from mnemolog_client.google_adk import MnemologMemoryService


class Scripted(BaseLlm):
    """Loads memory for a question, then answers with what was loaded."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """One response."""
        newest = (llm_request.contents[-1].parts or [Part()])[-1]
        if newest.function_response:
            part = Part(text=f"I found: {newest.function_response.response}")
        elif (newest.text or "").endswith("?"):
            part = Part.from_function_call(name="load_memory", args={"query": newest.text})
        else:
            part = Part(text="Noted.")
        yield LlmResponse(content=Content(role="model", parts=[part]))


async def main() -> None:
    """Two sessions of one user."""
    app = f"adk-{uuid4().hex[:8]}"
    sessions = InMemorySessionService()
    async with AsyncMnemolog() as client:
        memory = MnemologMemoryService(client)
        agent = LlmAgent(name="ada", model=Scripted(model="scripted"), tools=[load_memory])
        runner = Runner(app_name=app, agent=agent, session_service=sessions, memory_service=memory)
        for prompt in ("My sister lives in Lisbon.", "Where does my sister live?"):
            session = await sessions.create_session(app_name=app, user_id="bob")
            message = Content(role="user", parts=[Part(text=prompt)])
            async for event in runner.run_async(user_id="bob", session_id=session.id, new_message=message):
                if event.is_final_response() and event.content and event.content.parts:
                    print("answer:", event.content.parts[0].text)
            ended = await sessions.get_session(app_name=app, user_id="bob", session_id=session.id)
            assert ended is not None
            await memory.add_session_to_memory(ended)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Unreachable as error:
        raise SystemExit(f"{error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
