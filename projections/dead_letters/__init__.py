"""Dead letters: events that could not be applied, why, and how they are retried or discarded."""
