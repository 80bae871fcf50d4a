"""Storage of documents, listings and the change feed: Redis, and memory for tests and replays."""
