"""What a tool says."""

import mcp.types as types


def text_of(result: types.CallToolResult) -> str:
    """The one text of an answer."""
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text
