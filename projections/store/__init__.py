"""Where documents, listings and the change feed are kept: Redis, and memory for tests and replays."""
