"""Comparing, repairing, backing up, restoring and growing a log."""
