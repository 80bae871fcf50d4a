"""The MCP tools of all profiles."""

from pkgutil import resolve_name

from api.dialects.registry import DIALECTS
from mcp_gateway.profiles import FILES_PROFILE, INBOX_PROFILE, NATIVE_PROFILE, ToolProfiles

_NAMED = (dialect.mcp_profile for dialect in DIALECTS.values())
PROFILES = ToolProfiles(NATIVE_PROFILE, FILES_PROFILE, INBOX_PROFILE, *(resolve_name(name) for name in _NAMED if name))
