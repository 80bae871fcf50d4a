"""The folds, one file a noun: which documents an event reads, and what it makes of them."""
