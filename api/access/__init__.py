"""Authentication and authorization: keys, principals, roles, rate limits, and the gate in front of every API."""
