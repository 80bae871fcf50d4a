"""memex's REST API and its MCP server."""
