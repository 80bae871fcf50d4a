"""Condensing many texts into a few: summaries, consolidation, reflection, crystals, profiles, enrichment."""
