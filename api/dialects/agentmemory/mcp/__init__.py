"""The tools of agentmemory, as its clients know them."""
