"""The nouns: the events, commands and decisions of each. Pure."""
