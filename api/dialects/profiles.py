"""The MCP tools of all profiles. Loads the MCP SDK: 26 MB that `mnemolog up` itself does not need."""

from api.dialects.registry import DIALECTS
from mcp_gateway.profiles import FILES_PROFILE, NATIVE_PROFILE, ToolProfiles

PROFILES = ToolProfiles(NATIVE_PROFILE, FILES_PROFILE, *(dialect.profile() for dialect in DIALECTS.values()))
