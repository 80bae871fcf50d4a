"""Access tokens of an OAuth issuer: this server acts as the resource server of the MCP specification."""
