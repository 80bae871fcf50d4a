"""Condensing: short texts made of many documents, by extraction, without a model."""
