"""What the bridge answers while the server does not: this release's handshake and lists.

Imported only then, because it loads the MCP SDK.
"""

from collections.abc import Mapping
from typing import Any

from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from mcp_gateway.declaring import declared, fixed_lists
from mcp_gateway.profiles import Offer, server_version


def answer(offered: Offer, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of a request; none for what only the server knows."""
    if method == "initialize":
        requested = params.get("protocolVersion")
        capabilities: dict[str, Any] = {"tools": {"listChanged": False}}
        if offered.attachments.served:
            capabilities |= {"prompts": {"listChanged": False}, "resources": {"subscribe": False, "listChanged": False}}
        return {
            "protocolVersion": requested if requested in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION,
            "capabilities": capabilities,
            "serverInfo": {"name": offered.server_name, "version": server_version()},
            "instructions": offered.instructions,
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        tools = [declared(tool) for tool in offered.tools.values()]
        return {"tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]}
    result = fixed_lists(offered.attachments).get(method)
    return None if result is None else result.model_dump(mode="json", by_alias=True, exclude_none=True)
