"""The index on a search engine that speaks RediSearch's FT commands: what stands there, and how it gets there."""
