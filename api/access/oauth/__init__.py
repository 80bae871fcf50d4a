"""Access tokens of an OAuth issuer: this server as the resource server that the MCP specification describes."""
