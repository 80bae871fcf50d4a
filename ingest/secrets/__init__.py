"""The shapes of secrets: rules as data, and the finders of what a regular expression alone cannot tell."""
