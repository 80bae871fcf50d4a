"""Data of other systems: where it is read from, and what becomes of it."""
