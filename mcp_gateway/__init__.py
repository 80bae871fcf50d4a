"""The MCP endpoint: tools, resources and prompts over streamable HTTP, and a stdio bridge to them."""
