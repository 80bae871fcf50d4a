"""The MCP gateway: tools, resources and prompts for agents over streamable HTTP, in the profiles of native and imitated
clients. The application mounts a `Gateway` and gives every process one `LastWrites`; the stdio bridge is a separate
process (`mcp_gateway.bridge`). Without this room, agents only have the HTTP APIs.
"""

from mcp_gateway.gateway import Gateway
from mcp_gateway.tools.tool import LastWrites

__all__ = ["Gateway", "LastWrites"]
