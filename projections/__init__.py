"""The read side: pure folds, the structures they fill, the questions asked of them."""
