"""The documents of every noun and their folds. Pure."""
