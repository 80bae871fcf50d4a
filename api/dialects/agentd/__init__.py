"""agentd-memory's REST API."""
