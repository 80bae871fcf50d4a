"""Importing data from other systems: sources, mappings, and runs."""
