"""agent-memory: a REST API on a port of its own, MCP tools, and a spool that its hooks write to.

Hands the registry a description of what to build. Without it agent-memory's hooks and MCP tools have no server, and
neither its data nor claude-mem's can be imported.
"""

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
    importer="api.dialects.agent_memory.importer:open_source",
    other_importers={"claude-mem": "api.dialects.agent_memory.claude_mem:open_source"},
)
