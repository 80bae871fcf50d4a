"""Few texts of many: summaries, consolidation, reflection, crystals, profiles, enrichment."""
