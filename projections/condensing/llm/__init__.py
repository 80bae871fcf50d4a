"""Optional features of a configured language model; every result can be `Skipped`, and callers then use the rules."""
