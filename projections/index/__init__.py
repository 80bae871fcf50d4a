"""The index replica: lexical and vector candidates, filters, exact scoring, snapshots."""
