"""The folds, one file per noun: the documents that an event reads and changes."""
