"""agentmemory: a REST API, a WebSocket and pages on the main port, and MCP tools.

Hands the registry a description of what to build. Without it agentmemory's hooks, plugin and shim have no server, and
its exports cannot be imported.
"""

from api.dialects.dialect import Dialect, MainPort

AGENTMEMORY = Dialect(
    "agentmemory",
    state="api.dialects.agentmemory.app:AgentmemoryState",
    main_port=MainPort(
        "api.dialects.agentmemory.app:create_app",
        prefixes=("/agentmemory", "/stream/mem-live"),
        pages=frozenset({"/", "/favicon.svg"}),
    ),
    mcp_profile="api.dialects.agentmemory.operations:AGENTMEMORY_PROFILE",
    importer="api.dialects.agentmemory.importer:open_source",
)
