"""Events: facts that happened, one file per noun."""
