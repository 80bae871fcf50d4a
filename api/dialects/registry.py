"""All imitated systems, in the order in which their MCP tools are listed."""

from api.dialects.agent_memory.room import AGENT_MEMORY
from api.dialects.agentd.room import AGENTD
from api.dialects.agentmemory.room import AGENTMEMORY
from api.dialects.dialect import Dialect, Listener
from api.dialects.memex.room import MEMEX
from ingest.platform.settings import DROP_INS, Settings

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (AGENTMEMORY, AGENTD, MEMEX, AGENT_MEMORY)}
IMPORTERS: dict[str, str] = {
    **{name: DIALECTS[name].importer for name in ("agentmemory", *DROP_INS) if DIALECTS[name].importer},
    **{name: opener for dialect in DIALECTS.values() for name, opener in dialect.other_importers.items()},
}
"""The function that opens the source of a system, by the system's name."""


def listeners_of(settings: Settings) -> list[Listener]:
    """The listeners that `drop_in` asks for, in its order."""
    return [listener for name in settings.drop_in for listener in DIALECTS[name].listeners]
