"""A session for the OpenAI Agents SDK: `Runner.run(agent, "Hi", session=MemorySession("s1", AsyncMnemolog()))`.

Each item of the conversation is an observation of the session, so other agents can recall it. Needs the package
`openai-agents`: `pip install 'mnemolog-client[openai-agents]'`.
"""

from collections import deque
from typing import Any, cast

from agents import SessionABC, TResponseInputItem

from mnemolog_client.answers import Observation
from mnemolog_client.client import AsyncMnemolog
from mnemolog_client.errors import NotFound, check_rejected

ITEM = "openai_item"
"""The field of an observation's data that holds the item."""


class MemorySession(SessionABC):
    """The items of one conversation, in the order in which they were added."""

    def __init__(self, session_id: str, client: AsyncMnemolog, project: str = "openai-agents") -> None:
        self.session_id = session_id
        self._client, self._project = client, project

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """All items, or the newest `limit`, oldest first."""
        return [_item(observation) for observation in await self._newest(limit)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Record the items in one batch. Raises InvalidRequest if the server rejects one; the others are stored."""
        if not items:
            return
        check_rejected(await self._client.batch(self._command(cast("dict[str, Any]", item)) for item in items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Forget the newest item and return it; None if there is none."""
        for observation in await self._newest(1):
            await self._client.observations.delete(observation.id)
            return _item(observation)
        return None

    async def clear_session(self) -> None:
        """Forget the session with everything derived from it. Adding an item starts it again."""
        try:
            await self._client.sessions.delete(self.session_id, project=self._project)
        except NotFound:
            pass

    async def _newest(self, limit: int | None) -> deque[Observation]:
        newest = deque[Observation](maxlen=limit)
        try:
            async for observation in self._client.sessions.observations(self.session_id, project=self._project):
                if ITEM in observation.data:
                    newest.append(observation)
        except NotFound:
            pass
        return newest

    def _command(self, item: dict[str, Any]) -> dict[str, Any]:
        said = {"session_id": self.session_id, "project": self._project, "agent_id": self._client.agent or None}
        command = {"type": "observe", **said, "content": _text(item), "data": {ITEM: item}}
        return {name: value for name, value in command.items() if value is not None}


def _item(observation: Observation) -> TResponseInputItem:
    return observation.data[ITEM]


def _text(item: dict[str, Any]) -> str:
    """What recall finds: the message, or the call and its output."""
    content: Any = item.get("content") or item.get("output") or item.get("arguments") or ""
    parts = cast("list[Any]", content if isinstance(content, list) else [{"text": content}])
    return " ".join(str(text) for text in (item.get("name"), *(part.get("text") for part in parts)) if text)
