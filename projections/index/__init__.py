"""The index: the queries it answers, the embedded replica that follows the change feeds, its snapshots."""
