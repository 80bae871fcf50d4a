"""Commands: requests that may be refused, and the pure decisions on them."""
