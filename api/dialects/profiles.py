"""The MCP profiles of a server: its own, and one for the clients of each system that has an MCP server.

Nothing here loads the index: the stdio bridge needs only the declarations.
"""

from api.dialects.registry import DIALECTS
from mcp_gateway.profiles import NATIVE_PROFILE, ToolProfiles

PROFILES = ToolProfiles(NATIVE_PROFILE, *(one.profile() for one in DIALECTS.values()))
