"""Condensing: many documents into few, by rule or by a model, a file for each way. What comes of it is events.

Everything here may be run again, by two at once: an event's id comes from what it was made of, so the same evidence
never counts twice. Only what everybody in the tenant may read is made into something that everybody may read.
"""
