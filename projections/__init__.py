"""The read side: pure folds, the structures they fill, and the queries on them."""
