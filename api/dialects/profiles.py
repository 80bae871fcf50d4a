"""The MCP tools of all profiles."""

from api.dialects.registry import DIALECTS
from mcp_gateway.profiles import FILES_PROFILE, NATIVE_PROFILE, ToolProfiles

PROFILES = ToolProfiles(NATIVE_PROFILE, FILES_PROFILE, *(dialect.profile() for dialect in DIALECTS.values()))
