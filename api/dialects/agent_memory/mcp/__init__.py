"""The tools of agent-memory, as its clients know them."""
