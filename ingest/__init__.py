"""The write side: commands, the decisions on them, and the log their events are appended to."""
