"""Forgetting: what belongs to a subject, its tombstones, the receipt, and the purge of what was made from its texts."""
