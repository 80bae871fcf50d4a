"""What a language model can add when one is configured; every answer may be `Skipped`, and callers have a local way."""
