"""Every imitated system, in the order in which their MCP tools are offered."""

from api.dialects.agent_memory.dialect import AGENT_MEMORY
from api.dialects.agentd.dialect import AGENTD
from api.dialects.agentmemory.dialect import AGENTMEMORY
from api.dialects.dialect import Dialect, Listener
from api.dialects.memex.dialect import MEMEX
from ingest.platform.settings import Settings

DIALECTS: dict[str, Dialect] = {one.name: one for one in (AGENTMEMORY, AGENTD, MEMEX, AGENT_MEMORY)}


def listeners_of(settings: Settings) -> list[Listener]:
    """The listeners that `drop_in` asks for, in its order."""
    return [listener for name in settings.drop_in for listener in DIALECTS[name].listeners]
