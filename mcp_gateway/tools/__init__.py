"""The tools, one file each, and what they share."""
