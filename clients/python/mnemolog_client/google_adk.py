"""A memory service for Google's ADK: `Runner(..., memory_service=MnemologMemoryService(AsyncMnemolog()))`.

The project is the name of the app. Events with text become observations of their session and user, once each, however
often a session is added. Needs the package `google-adk`: `pip install 'mnemolog-client[google-adk]'`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai.types import Content, Part

from mnemolog_client.answers import RecallResult
from mnemolog_client.client import AsyncMnemolog
from mnemolog_client.errors import check_rejected

Given = Mapping[str, object] | None
MOST = 1_000
"""Events in one batch."""


class MnemologMemoryService(BaseMemoryService):
    """The sessions and memories of an app's users."""

    def __init__(self, client: AsyncMnemolog, limit: int = 10) -> None:
        self._client, self._limit = client, limit

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str | None = None,
        custom_metadata: Given = None,
    ) -> None:  # fmt: skip
        """Record events. Raises InvalidRequest if the server rejects one; the others are stored."""
        same = {"type": "observe", "project": app_name, "user_id": user_id, "session_id": session_id or user_id}
        texts = [(event, _text(event.content)) for event in events]
        commands = [
            {**same, **_fields(event), "content": text, "metadata": _metadata(custom_metadata)}
            for event, text in texts
            if text
        ]
        for first in range(0, len(commands), MOST):
            check_rejected(await self._client.batch(commands[first : first + MOST]))

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: Given = None
    ) -> None:
        for entry in memories:
            metadata = _metadata({**(custom_metadata or {}), **entry.custom_metadata})
            await self._client.add(_text(entry.content), project=app_name, user_id=user_id, metadata=metadata)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        found = await self._client.search(query, project=app_name, user_id=user_id, limit=self._limit)
        return SearchMemoryResponse(memories=[_entry(result) for result in found])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget what a search returned, by its id. Raises NotFound."""
        if memory_id:
            noun = self._client.memories if memory_id.startswith("mem_") else self._client.observations
            await noun.delete(memory_id)


def _fields(event: Event) -> dict[str, Any]:
    occurred = datetime.fromtimestamp(event.timestamp, UTC)
    return {"event_id": f"adk-{event.id}", "agent_id": event.author, "occurred_at": occurred}


def _metadata(given: Given) -> dict[str, str]:
    return {name: str(value) for name, value in (given or {}).items()}


def _text(content: Content | None) -> str:
    return " ".join(part.text for part in (content.parts if content else None) or [] if part.text)


def _entry(result: RecallResult) -> MemoryEntry:
    content = Content(parts=[Part(text=result.content)], role="user")
    return MemoryEntry(content=content, id=result.id, author=result.agent_id, timestamp=result.occurred_at.isoformat())
