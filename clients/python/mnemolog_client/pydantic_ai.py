"""A toolset for Pydantic AI: `Agent(model, toolsets=[MemoryToolset(AsyncMnemolog(agent="ada"), project="shop")])`.

Needs the package `pydantic-ai-slim`: `pip install 'mnemolog-client[pydantic-ai]'`.
"""

from collections.abc import Generator
from contextlib import contextmanager

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import FunctionToolset

from mnemolog_client.answers import RecallResult
from mnemolog_client.client import AsyncMnemolog
from mnemolog_client.errors import Forbidden, InvalidRequest, NotFound

INSTRUCTIONS = "Recall before you answer from assumptions. Remember what later sessions should know."


class MemoryToolset(FunctionToolset[object]):
    """The tools `recall`, `remember`, `revise` and `forget`, for one project and, if given, one user."""

    def __init__(self, client: AsyncMnemolog, project: str, *, user_id: str | None = None) -> None:
        tools = [self.recall, self.remember, self.revise, self.forget]
        super().__init__(tools, id=f"mnemolog-{project}", instructions=INSTRUCTIONS)
        self._client, self._project, self._user_id = client, project, user_id

    async def recall(self, query: str, limit: int = 5) -> str:
        """Search the memory.

        Args:
            query: A question or keywords.
            limit: The maximum number of results.
        """
        with _refusals_for_the_model():
            results = await self._client.search(query, project=self._project, user_id=self._user_id, limit=limit)
        return "\n".join(map(_line, results)) or "Nothing is recorded about this."

    async def remember(self, content: str, tags: list[str] | None = None) -> str:
        """Save a fact, decision or preference for later sessions and other agents.

        Args:
            content: One fact in full sentences.
            tags: Keywords to filter by.
        """
        with _refusals_for_the_model():
            stored = await self._client.add(content, project=self._project, tags=tags, user_id=self._user_id)
        return f"Remembered as {stored.id}."

    async def revise(self, id: str, content: str) -> str:
        """Correct a memory. The old version stays in its history.

        Args:
            id: The id of the memory, as recall shows it.
            content: Its complete new text.
        """
        with _refusals_for_the_model():
            return f"Revised as {(await self._client.memories.revise(id, content=content)).id}."

    async def forget(self, id: str) -> str:
        """Delete a memory for good. Use this only if the user asks for it.

        Args:
            id: The id of the memory, as recall shows it.
        """
        with _refusals_for_the_model():
            await self._client.memories.delete(id)
        return f"Deleted {id}."


@contextmanager
def _refusals_for_the_model() -> Generator[None]:
    try:
        yield
    except (Forbidden, InvalidRequest, NotFound) as error:
        raise ToolFailed(str(error)) from error


def _line(result: RecallResult) -> str:
    return f"[{result.id}] {result.content} ({result.kind}, {result.occurred_at:%Y-%m-%d})"
