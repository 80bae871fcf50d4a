"""Rebuilding projections from the log beside the live ones, comparing both, and switching."""
