"""Comparing, repairing, backing up and restoring a log."""
