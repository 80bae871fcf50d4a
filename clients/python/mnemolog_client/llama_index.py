"""A block for LlamaIndex's `Memory`: `Memory.from_defaults(memory_blocks=[MnemologBlock(client, project="shop")])`.

Messages that leave the short-term memory become observations. What is recalled about the newest user message is put
into the prompt. Needs the package `llama-index-core`: `pip install 'mnemolog-client[llama-index]'`.
"""

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.memory import BaseMemoryBlock

from mnemolog_client.client import AsyncMnemolog
from mnemolog_client.errors import check_rejected

LONGEST_QUERY = 20_000


class MnemologBlock(BaseMemoryBlock[str]):
    """What mnemolog knows of one project that is about the conversation."""

    client: AsyncMnemolog = Field(exclude=True)
    project: str
    name: str = "mnemolog"
    session_id: str = "llama-index"
    """The session of messages that name none."""
    limit: int = 5
    """The maximum number of results in the prompt."""
    priority: int = 1
    """Dropped first if the prompt has no room."""

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """The results about the newest user message, a line each; empty if nothing is recorded."""
        users = [message.content for message in messages or [] if message.role == MessageRole.USER and message.content]
        if not users:
            return ""
        results = await self.client.search(users[-1][:LONGEST_QUERY], project=self.project, limit=self.limit)
        return "\n".join(f"- {result.content} ({result.occurred_at:%Y-%m-%d})" for result in results)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Record messages in one batch. Raises InvalidRequest if the server rejects one; the others are stored."""
        commands = [
            {
                "type": "observe",
                "project": self.project,
                "session_id": str(message.additional_kwargs.get("session_id") or self.session_id),
                "content": f"{message.role.value}: {message.content}",
                **({"agent_id": self.client.agent} if self.client.agent else {}),
            }
            for message in messages
            if message.content
        ]
        if commands:
            check_rejected(await self.client.batch(commands))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The first results that fit, taking three characters for a token; None if there is no room for one."""
        room = len(content) - 3 * tokens_to_truncate
        return content[: content.rfind("\n", 0, room)] if room > 0 and "\n" in content[:room] else None
