"""Who gets in, and what for: keys, principals, roles, rates, and the gate that every API has."""
