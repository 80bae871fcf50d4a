"""agent-memory: a REST API on a port of its own, MCP tools, and a spool that its hooks write to."""

from operator import attrgetter

from api.dialects.dialect import Dialect, Listener

AGENT_MEMORY = Dialect(
    "agent-memory",
    state="api.dialects.agent_memory.common:AgentMemoryState",
    listeners=(
        Listener(
            "MNEMOLOG_AGENT_MEMORY_PORT",
            "agent-memory",
            attrgetter("agent_memory_ports"),
            "api.dialects.agent_memory.app:create_app",
        ),
    ),
    mcp_profile="api.dialects.agent_memory.tools:AGENT_MEMORY_PROFILE",
    hook_spool="api.dialects.agent_memory.sessions:hook_spool",
    importer="api.importing.systems:agent_memory_source",
)
