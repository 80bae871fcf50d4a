"""agentmemory's REST API, its WebSocket and its pages."""
