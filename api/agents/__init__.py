"""Coding agents: the hook they run, and what makes their settings name it."""
