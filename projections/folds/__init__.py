"""The folds, one file a noun: which documents an event reads, and how it changes them."""
