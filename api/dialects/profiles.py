"""The MCP tools of every imitated system. Loads the MCP SDK: 26 MB that `mnemolog up` itself does not need."""

from api.dialects.registry import DIALECTS
from mcp_gateway.profiles import NATIVE_PROFILE, ToolProfiles

PROFILES = ToolProfiles(NATIVE_PROFILE, *(dialect.profile() for dialect in DIALECTS.values()))
