"""Backups: everything of a log that is for ever, in a folder or a dataset repository, and back into an empty log."""
