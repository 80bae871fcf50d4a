"""Events: facts that happened, one file a noun."""
