"""Processes, connections, files and settings: what everything runs on, and knows nothing of memory."""
