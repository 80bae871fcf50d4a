"""The MCP profiles of a server: its own, and one for the clients of each system that has an MCP server.

Nothing here loads the index: the stdio bridge needs only the declarations.
"""

from api.dialects.agent_memory.mcp.catalog import AGENT_MEMORY_PROFILE
from api.dialects.agentmemory.mcp.catalog import AGENTMEMORY_PROFILE
from api.dialects.memex.mcp.catalog import MEMEX_PROFILE
from mcp_gateway.profiles import NATIVE_PROFILE, Profiles

PROFILES = Profiles(NATIVE_PROFILE, AGENTMEMORY_PROFILE, MEMEX_PROFILE, AGENT_MEMORY_PROFILE)
