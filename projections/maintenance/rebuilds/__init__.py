"""Rebuilds as operations: what they are, which step follows which, and what is asked before a switch."""
