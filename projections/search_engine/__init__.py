"""The index on a search engine with RediSearch's FT commands: its layout, and how it is filled."""
