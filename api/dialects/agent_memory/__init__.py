"""agent-memory's REST API."""
