"""memex: a REST API and an MCP server, each on a port of its own.

Hands the registry a description of what to build. Without it memex's clients have no server, and its memories cannot
be imported.
"""

from operator import attrgetter

from api.dialects.dialect import Dialect, Listener

MEMEX = Dialect(
    "memex",
    state="api.dialects.memex.app:MemexState",
    listeners=(
        Listener("MNEMOLOG_MEMEX_PORT", "memex", attrgetter("memex_ports"), "api.dialects.memex.app:create_app"),
        Listener(
            "MNEMOLOG_MEMEX_MCP_PORT",
            "memex MCP",
            attrgetter("memex_mcp_ports"),
            "api.dialects.memex.app:create_mcp_app",
            has_sessions=True,
        ),
    ),
    mcp_profile="api.dialects.memex.tools:MEMEX_PROFILE",
    importer="api.dialects.memex.importer:open_source",
)
