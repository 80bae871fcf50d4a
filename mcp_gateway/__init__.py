"""The MCP door: five tools over streamable HTTP, and a stdio bridge to them."""
