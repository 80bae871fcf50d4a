"""Commands that read before they append."""
