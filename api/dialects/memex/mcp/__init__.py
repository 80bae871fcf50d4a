"""The tools of memex, as its clients know them."""
