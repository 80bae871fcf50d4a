"""What texts say: terms, dates, cues, similarity, and the compression of an observation."""
